//! From a graph to a program: the ops that roots depend on, in the order in which they were run.

use crate::eager::error::EagerError;
use crate::eager::graph::{Live, Made, Operand, address};
use crate::eager::hooks::{self, Hook};
use crate::eager::param::Param;
use crate::error::Error;
use crate::tensor::Leaf;
use indexmap::IndexMap;
use pullback_autodiff::AtHand;
use pullback_ir::ops::elementwise::binary::Binary;
use pullback_ir::program::{FxHasher, Values};
use pullback_ir::{Builder, Loc, Program, TensorType, Value};
use pullback_runtime::Array;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

type Map<K, V> = IndexMap<K, V, BuildHasherDefault<FxHasher>>;

/// A place in the graph whose cotangent is wanted besides those of parameters.
pub(super) struct Site {
    pub(super) made: Arc<Made>,
    pub(super) result: usize,
}

/// What a backward pass is about.
pub(super) struct Gathered {
    /// All ops, as a program: the first outputs are the roots, the others what was saved.
    pub(super) program: Arc<Program>,
    /// What the parameters of the program are at.
    pub(super) arguments: Vec<Array>,
    /// What its outputs are.
    pub(super) outputs: Vec<Array>,
    /// The parameters of the program to differentiate by: those that are parameters, then the sites.
    pub(super) wrt: Vec<usize>,
    pub(super) params: Vec<Arc<Param>>,
    pub(super) sites: Vec<Site>,
    /// The ops, in order.
    pub(super) made: Vec<Arc<Made>>,
    /// The hooks on the way, by their numbers.
    pub(super) hooks: Vec<Vec<Hook>>,
}

impl Gathered {
    /// A value that a backward pass wants.
    pub(super) fn at_hand(&self, which: AtHand) -> Array {
        match which {
            AtHand::Param(i) => self.arguments[i].clone(),
            AtHand::Output(i) => self.outputs[i].clone(),
        }
    }
}

/// Who asks, where.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) function: &'static str,
    pub(super) at: Loc,
}

/// What of an op is looked at besides parameters.
#[derive(Clone, Copy)]
pub(super) struct Sites<'a> {
    /// Which of its results are sites.
    pub(super) results: &'a dyn Fn(&Made) -> Vec<usize>,
    /// Whether hooks run.
    pub(super) hooks: bool,
}

/// The program of what the roots depend on.
pub(super) fn gather(roots: &[&Live], asked: Asked, sites: Sites<'_>) -> Result<Gathered, Error> {
    let made = reachable(roots, asked)?;
    let mut gathering = Gathering { runs_hooks: sites.hooks, ..Gathering::default() };
    for made in &made {
        gathering.op(made, asked, sites)?;
    }
    gathering.finish(roots, made)
}

/// The ops that the roots depend on, in order of creation.
fn reachable(roots: &[&Live], asked: Asked) -> Result<Vec<Arc<Made>>, Error> {
    let mut found: Map<usize, Arc<Made>> = Map::default();
    let mut due: Vec<Arc<Made>> = Vec::new();
    for root in roots {
        if found.insert(key(&root.made), root.made.clone()).is_none() {
            due.push(root.made.clone());
        }
    }
    while let Some(made) = due.pop() {
        let history = made.history();
        let Some(history) = history.as_ref() else {
            return Err(released(&made, "the tensor that it begins at".to_string(), asked).into());
        };
        for (i, operand) in history.operands.iter().enumerate() {
            let Some(operand) = operand.made() else { continue };
            if found.contains_key(&key(operand)) {
                continue;
            }
            if operand.history().is_none() {
                return Err(
                    released(operand, format!("operand {i} of {} at {}", made.op, made.loc), asked).into()
                );
            }
            found.insert(key(operand), operand.clone());
            due.push(operand.clone());
        }
    }
    let mut made: Vec<Arc<Made>> = found.into_values().collect();
    made.sort_by_key(|made| made.order);
    Ok(made)
}

fn released(made: &Made, user: String, asked: Asked) -> EagerError {
    EagerError::GraphReleased { function: asked.function, op: made.op, made: made.loc, user, at: asked.at }
}

fn key(made: &Arc<Made>) -> usize {
    Arc::as_ptr(made) as usize
}

#[derive(Default)]
struct Gathering {
    builder: Builder,
    /// The results of the ops so far, as those that use them see them.
    results: Map<usize, Values>,
    params: Map<usize, (Value, usize, Arc<Param>)>,
    constants: Map<usize, Vec<(Value, TensorType)>>,
    arguments: Vec<Array>,
    saved: Map<Value, Array>,
    sites: Vec<(usize, Site)>,
    runs_hooks: bool,
    hooks: Vec<Vec<Hook>>,
}

impl Gathering {
    fn op(&mut self, made: &Arc<Made>, asked: Asked, sites: Sites<'_>) -> Result<(), Error> {
        // A copy, since parameters must not be locked while a history is: a pass that ends locks them the other way round.
        // Another thread may have released it since the op was found.
        let history = made.history().clone();
        let history = history.ok_or_else(|| released(made, "an op on the way".to_string(), asked))?;
        let mut operands = Values::new();
        for (i, operand) in history.operands.iter().enumerate() {
            operands.push(self.operand(made, i, operand)?);
        }
        self.builder.set_loc(made.loc);
        let mut results = self.builder.emit(history.op, &operands)?;
        for (i, array) in &history.results {
            self.saved.entry(results[*i]).or_insert_with(|| array.clone());
        }
        for result in (sites.results)(made) {
            results[result] = self.site(made, result, results[result])?;
        }
        for (result, hooks) in made.noted(|_, note| Some(note.hooks.clone())) {
            results[result] = self.hooked(results[result], hooks)?;
        }
        self.results.insert(key(made), results);
        Ok(())
    }

    fn operand(&mut self, made: &Made, number: usize, operand: &Operand) -> Result<Value, Error> {
        match operand {
            Operand::Param(param, recorded) => self.parameter(made, number, param, *recorded),
            Operand::Constant(array) => Ok(self.constant(array)),
            Operand::Leaf(leaf) => self.leaf(leaf),
            Operand::Result { made, result, value } => {
                let found = self.results[&key(made)][*result];
                if let Some(array) = value {
                    self.saved.entry(found).or_insert_with(|| array.clone());
                }
                Ok(found)
            }
        }
    }

    fn parameter(
        &mut self,
        made: &Made,
        operand: usize,
        param: &Arc<Param>,
        recorded: u64,
    ) -> Result<Value, Error> {
        let (current, value, hooks) = {
            let state = param.lock();
            (state.revision, state.value.clone(), state.hooks.clone())
        };
        if current != recorded {
            let (op, ty) = (made.op, param.ty.clone());
            return Err(
                EagerError::StaleOperand { operand, op, made: made.loc, ty, recorded, current }.into()
            );
        }
        let address = Arc::as_ptr(param) as usize;
        if let Some((found, ..)) = self.params.get(&address) {
            return Ok(*found);
        }
        let number = self.arguments.len();
        let found = self.argument(value.clone());
        if !hooks.is_empty() {
            self.saved.insert(found, value);
        }
        let found = self.hooked(found, hooks)?;
        self.params.insert(address, (found, number, param.clone()));
        Ok(found)
    }

    fn argument(&mut self, array: Array) -> Value {
        let value = self.builder.param(array.ty().clone());
        self.arguments.push(array);
        value
    }

    /// Numbers without history; the same elements under the same type are one parameter.
    fn constant(&mut self, array: &Array) -> Value {
        let at = address(array);
        let same = self.constants.get(&at).and_then(|known| known.iter().find(|(_, ty)| ty == array.ty()));
        if let Some((value, _)) = same {
            return *value;
        }
        let value = self.argument(array.clone());
        self.constants.entry(at).or_default().push((value, array.ty().clone()));
        value
    }

    fn leaf(&mut self, leaf: &Leaf) -> Result<Value, Error> {
        Ok(self.builder.one(leaf.op.clone(), &[])?)
    }

    /// Adds a parameter of -0.0, which changes no bit of any number: its cotangent is that of the result.
    fn site(&mut self, made: &Arc<Made>, result: usize, value: Value) -> Result<Value, Error> {
        let ty = self.builder.ty(value).clone();
        let nothing = pullback_ir::Literal::number(ty, -0.0);
        let number = self.arguments.len();
        let nothing = self.argument(Array::from_literal(&nothing));
        let sum = self.builder.one(Binary::Add, &[value, nothing])?;
        self.saved_alike(value, sum);
        self.sites.push((number, Site { made: made.clone(), result }));
        Ok(sum)
    }

    /// Lets hooks see what flows back through a value.
    fn hooked(&mut self, value: Value, hooks: Vec<Hook>) -> Result<Value, Error> {
        if hooks.is_empty() || !self.runs_hooks {
            return Ok(value);
        }
        let seen = hooks::emit(&mut self.builder, value, self.hooks.len())?;
        self.hooks.push(hooks);
        self.saved_alike(value, seen);
        Ok(seen)
    }

    /// What was saved of a value is saved of another one that equals it.
    fn saved_alike(&mut self, value: Value, other: Value) {
        if let Some(array) = self.saved.get(&value).cloned() {
            self.saved.insert(other, array);
        }
    }

    fn finish(self, roots: &[&Live], made: Vec<Arc<Made>>) -> Result<Gathered, Error> {
        let at = roots.iter().map(|root| (self.results[&key(&root.made)][root.result], root.array.clone()));
        let (values, outputs) = at.chain(self.saved).unzip::<Value, Array, Vec<_>, Vec<_>>();
        let program = Arc::new(self.builder.finish(&values));
        let (sited, sites): (Vec<usize>, Vec<Site>) = self.sites.into_iter().unzip();
        let numbers = self.params.values().map(|(_, number, _)| *number);
        let wrt = numbers.chain(sited).collect();
        let params = self.params.into_values().map(|(_, _, param)| param).collect();
        Ok(Gathered {
            program,
            arguments: self.arguments,
            outputs,
            wrt,
            params,
            sites,
            made,
            hooks: self.hooks,
        })
    }
}

//! Building programs op by op. Types are inferred, equal pure ops on equal operands give the same value, and a
//! hook may see and replace each op before it is appended.

use crate::error::{Problem, TypeError};
use crate::loc::Loc;
use crate::ops::{Op, Types};
use crate::program::{Def, FxHasher, Node, OpId, Program, Value, ValueData, Values, check_same_types};
use crate::shape::TensorType;
use indexmap::IndexMap;
use slotmap::SecondaryMap;
use smallvec::SmallVec;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, Mutex};

/// Which transform is emitting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The tangent side and the slopes made by linearization rules.
    Linearize,
    /// Cotangents made by transposition rules.
    Transpose,
    /// The cotangent that starts reverse mode.
    Seed,
}

impl Stage {
    /// `linearize`, `transpose` or `seed`.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Linearize => "linearize",
            Stage::Transpose => "transpose",
            Stage::Seed => "seed",
        }
    }
}

/// An op about to be appended by a transform.
pub struct Emission<'a> {
    /// Which transform.
    pub stage: Stage,
    /// What it wants to append.
    pub op: &'a Op,
    /// On which values of the builder.
    pub operands: &'a [Value],
    /// Where it comes from: the user's call and the op transformed.
    pub origin: Loc,
}

/// Sees every op that linearize, transpose or seeding is about to append.
pub trait Hook: Send {
    /// Returns `None` to let the op be appended, or the values that stand in for its results (of the same
    /// types), which the hook may have appended to `builder` itself; the hook is not called for those.
    fn emit(&mut self, builder: &mut Builder, emission: &Emission<'_>) -> Result<Option<Values>, TypeError>;
}

/// A hook as transforms take it: shared, so that one hook can watch several builders.
pub type SharedHook = Arc<Mutex<dyn Hook>>;

/// A program under construction.
#[derive(Default)]
pub struct Builder {
    program: Program,
    /// Last op of each structural hash. A collision merely loses one sharing.
    known: IndexMap<u64, OpId, BuildHasherDefault<FxHasher>>,
    loc: Loc,
    hook: Option<(SharedHook, Stage)>,
}

impl Builder {
    /// An empty program of this name.
    pub fn new(name: &str) -> Builder {
        let mut builder = Builder::default();
        builder.program.name = name.into();
        builder
    }

    /// The program so far.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Ops appended from now on belong to this place.
    pub fn set_loc(&mut self, loc: Loc) {
        self.loc = loc;
    }

    /// The place ops are given now.
    pub fn loc(&self) -> Loc {
        self.loc
    }

    /// From now on the hook sees each op, as emitted at this stage; `None` ends it. Returns what was set before.
    pub fn set_hook(&mut self, hook: Option<(SharedHook, Stage)>) -> Option<(SharedHook, Stage)> {
        std::mem::replace(&mut self.hook, hook)
    }

    /// Type of a value.
    pub fn ty(&self, value: Value) -> &TensorType {
        self.program.ty(value)
    }

    /// Appends a parameter.
    pub fn param(&mut self, ty: TensorType) -> Value {
        let def = Def::Param(self.program.params.len());
        let value = self.program.values.insert(ValueData { ty, def });
        self.program.params.push(value);
        value
    }

    /// Appends an op, or finds the equal one, and returns its results.
    pub fn emit(&mut self, op: impl Into<Op>, operands: &[Value]) -> Result<Values, TypeError> {
        let op = op.into();
        if let Some((hook, stage)) = self.hook.take() {
            let emission = Emission { stage, op: &op, operands, origin: self.loc };
            let replaced = match hook.lock() {
                Ok(mut hook) => hook.emit(self, &emission),
                Err(_) => Ok(None),
            };
            self.hook = Some((hook, stage));
            if let Some(values) = replaced? {
                self.check_stand_in(&op, operands, &values)?;
                return Ok(values);
            }
        }
        self.append(op, operands)
    }

    /// Appends an op with one result.
    pub fn one(&mut self, op: impl Into<Op>, operands: &[Value]) -> Result<Value, TypeError> {
        Ok(self.emit(op, operands)?[0])
    }

    /// The error an op would give here, for checks outside type rules.
    pub fn error(&self, op: &Op, operands: &[Value], problem: Problem) -> TypeError {
        let operands =
            operands.iter().filter_map(|&v| self.program.values.get(v)).map(|d| d.ty.clone()).collect();
        TypeError { op: op.name().to_string(), operands, problem: Box::new(problem), loc: self.loc }
    }

    fn infer(&self, op: &Op, operands: &[Value]) -> Result<Types, TypeError> {
        if let Some(i) = operands.iter().position(|&v| !self.program.contains(v)) {
            let text = format!("operand {i} is not a value of this program; pass it in as a parameter");
            return Err(self.error(op, operands, Problem::Constraint(text)));
        }
        let types: SmallVec<[&TensorType; 4]> = operands.iter().map(|&v| self.program.ty(v)).collect();
        let results = op.infer(&types).map_err(|p| self.error(op, operands, p))?;
        match results.iter().find(|t| t.shape.checked_len().is_none()) {
            Some(t) => Err(self.error(op, operands, Problem::TooLarge { shape: t.shape.clone() })),
            None => Ok(results),
        }
    }

    fn check_stand_in(&self, op: &Op, operands: &[Value], values: &[Value]) -> Result<(), TypeError> {
        let expected = self.infer(op, operands)?;
        let found: Vec<TensorType> =
            values.iter().filter_map(|&v| self.program.values.get(v)).map(|d| d.ty.clone()).collect();
        match check_same_types(&expected, &found) {
            None => Ok(()),
            Some(i) => {
                let text = format!("the hook's result {i} has another type than the op it stands in for");
                Err(self.error(op, operands, Problem::Constraint(text)))
            }
        }
    }

    /// Appends an op even if there is an equal one, so that a text is read as it stands.
    pub(crate) fn emit_unshared(&mut self, op: Op, operands: &[Value]) -> Result<Values, TypeError> {
        let types = self.infer(&op, operands)?;
        Ok(self.push(op, operands, types))
    }

    fn append(&mut self, op: Op, operands: &[Value]) -> Result<Values, TypeError> {
        let types = self.infer(&op, operands)?;
        let key = op.is_shareable().then(|| {
            let mut hasher = FxHasher::default();
            op.hash(&mut hasher);
            operands.hash(&mut hasher);
            hasher.finish()
        });
        if let Some(node) = key.and_then(|k| self.known.get(&k)).map(|&id| &self.program.nodes[id])
            && node.op == op
            && node.operands[..] == *operands
        {
            return Ok(node.results.clone());
        }
        let results = self.push(op, operands, types);
        if let (Some(key), Some(&id)) = (key, self.program.order.last()) {
            self.known.insert(key, id);
        }
        Ok(results)
    }

    fn push(&mut self, op: Op, operands: &[Value], types: Types) -> Values {
        let Program { values, nodes, order, .. } = &mut self.program;
        let id = nodes.insert(Node {
            op,
            operands: Values::from_slice(operands),
            results: Values::new(),
            loc: self.loc,
        });
        let results: Values = types
            .into_iter()
            .enumerate()
            .map(|(i, ty)| values.insert(ValueData { ty, def: Def::Result(id, i) }))
            .collect();
        nodes[id].results = results.clone();
        order.push(id);
        results
    }

    /// Copies the ops of `callee` in, with `args` for its parameters, and returns its outputs. Ops keep their own
    /// places. The hook sees each op.
    pub fn inline(&mut self, callee: &Program, args: &[Value]) -> Result<Vec<Value>, TypeError> {
        self.check_arguments(callee, args)?;
        let mut map: SecondaryMap<Value, Value> =
            callee.params.iter().copied().zip(args.iter().copied()).collect();
        let outer = self.loc;
        for node in callee.nodes() {
            let operands: Values = node.operands.iter().map(|&v| map[v]).collect();
            self.loc = if node.loc.is_known() { node.loc } else { outer };
            let results = self.emit(node.op.clone(), &operands)?;
            map.extend(node.results.iter().copied().zip(results));
        }
        self.loc = outer;
        Ok(callee.outputs.iter().map(|&v| map[v]).collect())
    }

    fn check_arguments(&self, callee: &Program, args: &[Value]) -> Result<(), TypeError> {
        let ty = |&v: &Value| self.program.values.get(v).map(|data| data.ty.clone());
        let found: Vec<Option<TensorType>> = args.iter().map(ty).collect();
        let text = match found.iter().position(Option::is_none) {
            Some(i) => format!("argument {i} is not a value of this program; pass it in as a parameter"),
            None => {
                let expected: Vec<Option<TensorType>> = callee.param_types().into_iter().map(Some).collect();
                let Some(i) = check_same_types(&expected, &found) else { return Ok(()) };
                format!("argument {i} does not have the type of the parameter of @{}", callee.name())
            }
        };
        Err(TypeError {
            op: "inline".into(),
            operands: found.into_iter().flatten().collect(),
            problem: Box::new(Problem::Constraint(text)),
            loc: self.loc,
        })
    }

    /// Ends the program with these outputs.
    pub fn finish(self, outputs: &[Value]) -> Program {
        self.program.with_outputs(outputs)
    }

    /// Ends the program with its parameters in this order, which must name each of them once.
    pub fn finish_with_params(mut self, params: &[Value], outputs: &[Value]) -> Program {
        debug_assert_eq!(params.len(), self.program.params.len());
        for (i, &v) in params.iter().enumerate() {
            self.program.values[v].def = Def::Param(i);
        }
        self.program.params = params.to_vec();
        self.finish(outputs)
    }
}

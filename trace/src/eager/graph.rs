//! The history of live tensors: each result holds the op that made it, and that holds its operands.

use crate::custom::autodiff;
use crate::eager::hooks::Hook;
use crate::eager::param::Param;
use crate::eager::scope::is_grad_enabled;
use crate::tensor::{Leaf, State, Tensor};
use crate::transform::Hooks;
use pullback_autodiff::AtHand;
use pullback_ir::program::FxHasher;
use pullback_ir::{Builder, Loc, Op, Value};
use pullback_runtime::Array;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// A result of an op that was recorded.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) array: Array,
    pub(crate) made: Arc<Made>,
    /// Which result.
    pub(crate) result: usize,
}

/// An op that was run on live tensors.
pub(crate) struct Made {
    /// What it is called; known also when its history has been released.
    pub(crate) op: &'static str,
    pub(crate) loc: Loc,
    /// In order of creation: larger than that of every operand, and on one thread than all before.
    pub(crate) order: u64,
    /// `None` once it has been released.
    history: Mutex<Option<History>>,
    /// What is noted of results, if anything ever was.
    notes: OnceLock<Box<Mutex<BTreeMap<usize, Note>>>>,
}

/// What the user wants of a result besides its value.
#[derive(Default)]
pub(crate) struct Note {
    /// Whether it keeps its gradient.
    retains: bool,
    gradient: Option<Array>,
    pub(crate) hooks: Vec<Hook>,
}

/// What a backward pass needs to know of an op.
#[derive(Clone)]
pub(crate) struct History {
    pub(crate) op: Op,
    pub(crate) operands: SmallVec<[Operand; 2]>,
    /// Results that the derivative of the op needs.
    pub(crate) results: SmallVec<[(usize, Array); 1]>,
}

/// An operand of an op that was run.
#[derive(Clone)]
pub(crate) enum Operand {
    /// A parameter, as it was at this revision.
    Param(Arc<Param>, u64),
    /// A result of another op, with its value if the derivative needs it.
    Result { made: Arc<Made>, result: usize, value: Option<Array> },
    /// Numbers without history.
    Constant(Array),
    /// The result of an op without operands.
    Leaf(Arc<Leaf>),
}

impl Operand {
    /// The op that made it, if that was recorded.
    pub(crate) fn made(&self) -> Option<&Arc<Made>> {
        match self {
            Operand::Result { made, .. } => Some(made),
            Operand::Param(..) | Operand::Constant(_) | Operand::Leaf(_) => None,
        }
    }
}

impl Made {
    pub(crate) fn history(&self) -> MutexGuard<'_, Option<History>> {
        self.history.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Changes what is noted of a result.
    pub(crate) fn notes(&self, result: usize, change: impl FnOnce(&mut Note)) {
        let notes = self.notes.get_or_init(Box::default);
        let mut notes = notes.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        change(notes.entry(result).or_default());
    }

    /// What is noted of the results, ascending; of most nothing.
    pub(crate) fn noted<R>(&self, look: impl Fn(usize, &Note) -> Option<R>) -> Vec<(usize, R)> {
        let Some(notes) = self.notes.get() else { return Vec::new() };
        let notes = notes.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let found = notes.iter().filter_map(|(&result, note)| Some((result, look(result, note)?)));
        found.collect()
    }

    /// The results that keep their gradients, ascending.
    pub(crate) fn retaining(&self) -> Vec<usize> {
        self.noted(|_, note| note.retains.then_some(())).into_iter().map(|(result, ())| result).collect()
    }

    pub(crate) fn gradient(&self, result: usize) -> Option<Array> {
        let found = self.noted(|number, note| if number == result { note.gradient.clone() } else { None });
        found.into_iter().next().map(|(_, gradient)| gradient)
    }

    /// Sets the gradient of a result, if it keeps one.
    pub(crate) fn set_gradient(&self, result: usize, gradient: Option<Array>) {
        self.notes(result, |note| {
            if note.retains {
                note.gradient = gradient;
            }
        });
    }
}

impl Drop for Made {
    /// Gives up what only this op holds, one op after the other: graphs are as deep as loops are long.
    fn drop(&mut self) {
        let mut due = Vec::new();
        take_operands(self, &mut due);
        while let Some(made) = due.pop() {
            if let Some(mut made) = Arc::into_inner(made) {
                take_operands(&mut made, &mut due);
            }
        }
    }
}

fn take_operands(made: &mut Made, due: &mut Vec<Arc<Made>>) {
    let history = made.history.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
    let operands = history.take().map(|history| history.operands).unwrap_or_default();
    due.extend(operands.into_iter().filter_map(|operand| match operand {
        Operand::Result { made, .. } => Some(made),
        Operand::Param(..) | Operand::Constant(_) | Operand::Leaf(_) => None,
    }));
}

/// Whether an op on these tensors is to be recorded.
pub(crate) fn is_live(operands: &[&Tensor]) -> bool {
    operands.iter().any(|tensor| tensor.requires_grad()) && is_grad_enabled()
}

thread_local! {
    /// The order of the op made last on this thread.
    static ORDER: Cell<u64> = const { Cell::new(0) };
}

/// The results of an op that has been run on these operands, at least one of which is live.
pub(crate) fn record(
    op: Op,
    operands: &[&Tensor],
    arrays: Vec<Array>,
    results: Vec<Array>,
    loc: Loc,
) -> Vec<Tensor> {
    if !results.iter().any(|array| array.dtype().is_float()) {
        return results.into_iter().map(Tensor::from_array).collect();
    }
    let saved = saved(&op, operands, &arrays);
    let mut order = ORDER.get();
    let inputs = operands.iter().zip(arrays).enumerate().map(|(i, (tensor, array))| match &tensor.0 {
        State::Param(param) => Operand::Param(param.clone(), revision(param, &array)),
        State::Live(live) => {
            order = order.max(live.made.order);
            let value = saved.operands.get(i).then_some(array);
            Operand::Result { made: live.made.clone(), result: live.result, value }
        }
        State::Leaf(leaf) => Operand::Leaf(leaf.clone()),
        State::Concrete(_) | State::Traced(_) | State::Failed(_) => Operand::Constant(array),
    });
    let inputs = inputs.collect();
    order += 1;
    ORDER.set(order);
    let kept = results.iter().enumerate().filter(|(i, _)| saved.results.get(*i));
    let kept = kept.map(|(i, array)| (i, array.clone())).collect();
    let made = Arc::new(Made {
        op: op.name(),
        loc,
        order,
        history: Mutex::new(Some(History { op, operands: inputs, results: kept })),
        notes: OnceLock::new(),
    });
    let wrap = |(result, array): (usize, Array)| {
        if !array.dtype().is_float() {
            return Tensor::from_array(array);
        }
        Tensor(State::Live(Live { array, made: made.clone(), result }))
    };
    results.into_iter().enumerate().map(wrap).collect()
}

/// The revision of a parameter that these values are, or the one before the present if they have been replaced meanwhile.
fn revision(param: &Param, values: &Array) -> u64 {
    let state = param.lock();
    if address(&state.value) == address(values) { state.revision } else { state.revision.wrapping_sub(1) }
}

/// Where the elements lie.
pub(crate) fn address(array: &Array) -> usize {
    array.view().bytes().as_ptr() as usize
}

/// Numbers below 64; those from 64 on are all in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Few(u64);

impl Few {
    const ALL: Few = Few(u64::MAX);

    fn insert(&mut self, number: usize) {
        self.0 |= 1u64.checked_shl(number as u32).unwrap_or(0);
    }

    fn get(self, number: usize) -> bool {
        number >= 64 || self.0 >> number & 1 == 1
    }
}

/// Which operands and results the derivative of an op needs.
#[derive(Clone, Copy)]
struct Saved {
    operands: Few,
    results: Few,
}

/// An op seen lately, with the operands that were live, and what it saves.
type Known = Option<(Op, Few, Saved)>;

/// More ops than a program has kinds of. Those whose hashes meet in one place are asked again and again.
const KNOWN: usize = 256;

thread_local! {
    static SAVED: RefCell<Vec<Known>> = const { RefCell::new(Vec::new()) };
}

/// What the derivative of an op needs of it, remembered from the last time.
fn saved(op: &Op, operands: &[&Tensor], arrays: &[Array]) -> Saved {
    let mut live = Few::default();
    operands
        .iter()
        .enumerate()
        .filter(|(_, tensor)| tensor.requires_grad())
        .for_each(|(i, _)| live.insert(i));
    let mut hasher = FxHasher::default();
    (op, live).hash(&mut hasher);
    let place = hasher.finish() as usize % KNOWN;
    SAVED.with_borrow_mut(|known| {
        if known.is_empty() {
            known.resize(KNOWN, None);
        }
        if let Some((other, lives, saved)) = &known[place]
            && *lives == live
            && other == op
        {
            return *saved;
        }
        let all = Saved { operands: Few::ALL, results: Few::ALL };
        let saved = ask(op, live, arrays).unwrap_or(all);
        known[place] = Some((op.clone(), live, saved));
        saved
    })
}

/// Asks the derivative of the op what it needs. `None` if it has none, which is told when it is asked for.
fn ask(op: &Op, live: Few, arrays: &[Array]) -> Option<Saved> {
    let mut builder = Builder::new("op");
    let params: Vec<Value> = arrays.iter().map(|array| builder.param(array.ty().clone())).collect();
    let results = builder.emit(op.clone(), &params).ok()?;
    let program = builder.finish(&results);
    let is_float = |v: &Value| program.ty(*v).dtype.is_float();
    let wrt: Vec<usize> = (0..params.len()).filter(|&i| live.get(i) && is_float(&params[i])).collect();
    let seeded: Vec<usize> = (0..results.len()).filter(|&i| is_float(&results[i])).collect();
    let backward = autodiff(&Hooks::default()).backward(&program, &wrt, &seeded).ok()?;
    let mut saved = Saved { operands: Few::default(), results: Few::default() };
    for at_hand in backward.saved {
        match at_hand {
            AtHand::Param(i) => saved.operands.insert(i),
            AtHand::Output(i) => saved.results.insert(i),
        }
    }
    Some(saved)
}

impl Tensor {
    /// Makes a result of recorded ops keep its gradient, which backward passes accumulate as for a parameter; or, with
    /// `false`, makes it forget it. Parameters keep theirs anyway; a tensor without history has none to keep.
    pub fn retain_grad(&self, retains: bool) {
        if let State::Live(live) = &self.0 {
            live.made.notes(live.result, |note| {
                note.retains = retains;
                note.gradient = note.gradient.take().filter(|_| retains);
            });
        }
    }
}

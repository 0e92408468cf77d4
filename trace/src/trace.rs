//! Recording. A trace is a program under construction, with a table of what it captured from outside.
//!
//! Traces are numbered as they begin, so an inner trace has the larger number. An op belongs to the newest trace
//! among its operands; operands from elsewhere enter that trace as hidden parameters, once each, so every recorded
//! program is closed. There is no stack of traces and nothing is global but the number.

use crate::error::Error;
use crate::execute;
use crate::tensor::{State, Tensor};
use indexmap::IndexMap;
use pullback_ir::{Builder, Loc, Op, Program, TensorType, Value};
use pullback_runtime::Array;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// What is recorded, by which transform.
pub(crate) struct Trace {
    id: u64,
    /// The transform that records.
    pub(crate) transform: &'static str,
    /// Where the transform was made.
    pub(crate) at: Loc,
    /// `None` once the trace has ended.
    recording: Mutex<Option<Recording>>,
}

struct Recording {
    builder: Builder,
    /// What the first parameters stand for, where that is known.
    arguments: Option<Vec<Tensor>>,
    /// What the other parameters stand for.
    captures: IndexMap<Origin, (Value, Tensor)>,
    /// Values of the ops before `evaluated`, made when one was asked for.
    values: IndexMap<Value, Array>,
    evaluated: usize,
}

/// Where a captured tensor comes from; equal origins become one parameter.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// The elements at this address, which the capture keeps alive.
    Array(usize, TensorType),
    /// The parameter at this address, which the capture keeps alive.
    Param(usize),
    /// The result of this number of the op at this address, likewise.
    Live(usize, usize),
    /// A value of another trace.
    Value(u64, Value),
}

/// A value of a trace.
pub(crate) struct Traced {
    pub(crate) trace: Arc<Trace>,
    pub(crate) value: Value,
    pub(crate) ty: TensorType,
    /// The call that made it.
    pub(crate) made: Loc,
}

/// A finished recording: a closed program and what to call it with.
#[derive(Clone)]
pub(crate) struct Recorded {
    pub(crate) program: Program,
    /// Captures, which are the parameters after the arguments.
    pub(crate) captures: IndexMap<Origin, Tensor>,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Trace {
    /// Begins a recording with parameters of these types. With the arguments they stand for, ops may ask for numbers.
    pub(crate) fn begin(
        transform: &'static str,
        at: Loc,
        types: Vec<TensorType>,
        arguments: Option<Vec<Tensor>>,
    ) -> (Arc<Trace>, Vec<Tensor>) {
        let mut builder = Builder::new(transform);
        let params: Vec<Value> = types.iter().map(|ty| builder.param(ty.clone())).collect();
        let (captures, values) = (IndexMap::new(), IndexMap::new());
        let recording = Recording { builder, arguments, captures, values, evaluated: 0 };
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let trace = Arc::new(Trace { id, transform, at, recording: Mutex::new(Some(recording)) });
        let wrap = |(value, ty)| Tensor::traced(&trace, value, ty, at);
        let params = params.into_iter().zip(types).map(wrap).collect();
        (trace, params)
    }

    /// Ends the recording with these outputs.
    pub(crate) fn finish(self: &Arc<Trace>, outputs: &[&Tensor], at: Loc) -> Result<Recorded, Error> {
        let mut guard = self.lock();
        let Some(mut recording) = guard.take() else {
            return Err(Error::invalid("trace", "the recording has ended already", at));
        };
        recording.builder.set_loc(at);
        let mut values = Vec::with_capacity(outputs.len());
        for &output in outputs {
            values.push(recording.operand(self, output, at)?);
        }
        let captures = recording.captures.into_iter().map(|(origin, (_, tensor))| (origin, tensor)).collect();
        Ok(Recorded { program: recording.builder.finish(&values), captures })
    }

    /// Ends the recording without a result.
    pub(crate) fn abandon(&self) {
        *self.lock() = None;
    }

    /// Appends ops. `record` gets the builder and the operands as values of this trace.
    pub(crate) fn record<R>(
        self: &Arc<Trace>,
        operands: &[&Tensor],
        at: Loc,
        record: impl FnOnce(&mut Builder, &[Value]) -> Result<R, Error>,
        wrap: impl FnOnce(&Arc<Trace>, &Builder, R) -> Vec<Tensor>,
    ) -> Result<Vec<Tensor>, Error> {
        let mut guard = self.lock();
        let Some(recording) = guard.as_mut() else {
            drop(guard);
            return Err(self.escaped(operands, at));
        };
        recording.builder.set_loc(at);
        let mut values = Vec::with_capacity(operands.len());
        for &operand in operands {
            values.push(recording.operand(self, operand, at)?);
        }
        let recorded = record(&mut recording.builder, &values)?;
        Ok(wrap(self, &recording.builder, recorded))
    }

    /// The error of using an operand of this trace after its end.
    fn escaped(&self, operands: &[&Tensor], used: Loc) -> Error {
        let mine = |tensor: &&Tensor| match &tensor.0 {
            State::Traced(traced) if traced.trace.id == self.id => Some(traced.escaped(used)),
            _ => None,
        };
        let escaped = operands.iter().find_map(mine);
        escaped.unwrap_or_else(|| Error::invalid("trace", "the recording has ended", used))
    }

    /// Recording never panics while it holds the lock except by a defect, after which the state is still sound.
    fn lock(&self) -> MutexGuard<'_, Option<Recording>> {
        self.recording.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn is_open(&self) -> bool {
        self.lock().is_some()
    }
}

/// The newest trace among the tensors.
pub(crate) fn newest(tensors: &[&Tensor]) -> Option<Arc<Trace>> {
    let traces = tensors.iter().filter_map(|tensor| match &tensor.0 {
        State::Traced(traced) => Some(&traced.trace),
        State::Concrete(_) | State::Leaf(_) | State::Param(_) | State::Live(_) | State::Failed(_) => None,
    });
    traces.max_by_key(|trace| trace.id).cloned()
}

impl Recording {
    /// The tensor as a value of this recording.
    fn operand(&mut self, trace: &Arc<Trace>, tensor: &Tensor, at: Loc) -> Result<Value, Error> {
        match &tensor.0 {
            State::Traced(traced) if traced.trace.id == trace.id => Ok(traced.value),
            State::Traced(traced) if !traced.trace.is_open() => Err(traced.escaped(at)),
            State::Traced(traced) => {
                Ok(self.capture(Origin::Value(traced.trace.id, traced.value), &traced.ty, tensor))
            }
            State::Concrete(array) => {
                let address = array.view().bytes().as_ptr() as usize;
                Ok(self.capture(Origin::Array(address, array.ty().clone()), array.ty(), tensor))
            }
            State::Param(param) => {
                Ok(self.capture(Origin::Param(Arc::as_ptr(param) as usize), &param.ty, tensor))
            }
            State::Live(live) => {
                let origin = Origin::Live(Arc::as_ptr(&live.made) as usize, live.result);
                Ok(self.capture(origin, live.array.ty(), tensor))
            }
            State::Leaf(leaf) => Ok(self.builder.one(leaf.op.clone(), &[])?),
            State::Failed(error) => Err(Error::Shared(error.clone())),
        }
    }

    fn capture(&mut self, origin: Origin, ty: &TensorType, tensor: &Tensor) -> Value {
        let builder = &mut self.builder;
        self.captures.entry(origin).or_insert_with(|| (builder.param(ty.clone()), tensor.clone())).0
    }

    /// The value's numbers, or `None` if arguments are unknown. Runs what has been recorded since the last time.
    fn array(&mut self, value: Value, asked: Loc) -> Result<Option<Array>, Error> {
        let Some(arguments) = &self.arguments else { return Ok(None) };
        let program = self.builder.program();
        let inputs = arguments.iter().chain(self.captures.values().map(|(_, tensor)| tensor));
        for (&param, input) in program.params().iter().zip(inputs) {
            if !self.values.contains_key(&param) {
                let array = match &input.0 {
                    State::Traced(outer) => outer.array(asked)?,
                    _ => input.array()?,
                };
                self.values.insert(param, array);
            }
        }
        while !self.values.contains_key(&value) && self.evaluated < program.len() {
            let node = program.node(program.op_ids()[self.evaluated]);
            let operands: Vec<Array> =
                node.operands.iter().map(|operand| self.values[operand].clone()).collect();
            let results = execute::run_op(&node.op, &operands, node.loc)?;
            self.values.extend(node.results.iter().copied().zip(results));
            self.evaluated += 1;
        }
        Ok(self.values.get(&value).cloned())
    }
}

impl Traced {
    fn escaped(&self, used: Loc) -> Error {
        Error::Escaped {
            ty: self.ty.clone(),
            made: self.made,
            used,
            transform: self.trace.transform,
            transform_at: self.trace.at,
        }
    }

    /// The numbers, where the trace has its arguments' values at hand.
    pub(crate) fn array(&self, asked: Loc) -> Result<Array, Error> {
        let mut guard = self.trace.lock();
        let Some(recording) = guard.as_mut() else { return Err(self.escaped(asked)) };
        recording.array(self.value, asked)?.ok_or_else(|| Error::ValueUnknownWhileTracing {
            ty: self.ty.clone(),
            made: self.made,
            asked,
            transform: self.trace.transform,
            transform_at: self.trace.at,
        })
    }
}

impl Tensor {
    pub(crate) fn traced(trace: &Arc<Trace>, value: Value, ty: TensorType, made: Loc) -> Tensor {
        Tensor(State::Traced(Arc::new(Traced { trace: trace.clone(), value, ty, made })))
    }

    /// The op without operands, in the trace of this tensor if it has one.
    #[track_caller]
    pub(crate) fn leaf_beside(&self, op: impl Into<Op>) -> Tensor {
        let leaf = Tensor::leaf(op);
        match &self.0 {
            State::Traced(traced) => crate::apply::record_in(&traced.trace, &leaf, Loc::caller()),
            State::Concrete(_) | State::Leaf(_) | State::Param(_) | State::Live(_) | State::Failed(_) => leaf,
        }
    }
}

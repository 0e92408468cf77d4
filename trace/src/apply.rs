//! Giving an op, or a whole program, to its operands: recorded in the newest trace among them, or run at once.

use crate::eager;
use crate::error::Error;
use crate::execute;
use crate::tensor::{State, Tensor};
use crate::trace::{Trace, newest};
use pullback_ir::ops::control::call::Call;
use pullback_ir::{Builder, Loc, Op, Program, Value};
use pullback_runtime::Array;
use std::sync::Arc;

/// The only result of an op.
#[track_caller]
pub(crate) fn apply(op: impl Into<Op>, operands: &[&Tensor]) -> Tensor {
    match apply_all(op.into(), operands, Loc::caller()) {
        Ok(mut results) => results.remove(0),
        Err(error) => Tensor::failed(error),
    }
}

/// All results of an op.
pub(crate) fn apply_all(op: Op, operands: &[&Tensor], at: Loc) -> Result<Vec<Tensor>, Error> {
    first_failure(operands)?;
    match newest(operands) {
        Some(trace) => trace.record(
            operands,
            at,
            |builder, values| Ok(builder.emit(op, values)?.to_vec()),
            |trace, builder, values| wrap(trace, builder, values, at),
        ),
        None => {
            let arrays = arrays(operands)?;
            let results = execute::run_op(&op, &arrays, at)?;
            if eager::is_live(operands) {
                return Ok(eager::record(op, operands, arrays, results, at));
            }
            Ok(results.into_iter().map(Tensor::from_array).collect())
        }
    }
}

/// The outputs of a program.
pub(crate) fn apply_program(program: &Program, inputs: &[&Tensor], at: Loc) -> Result<Vec<Tensor>, Error> {
    first_failure(inputs)?;
    match newest(inputs) {
        Some(trace) => trace.record(
            inputs,
            at,
            |builder, values| Ok(builder.inline(program, values)?),
            |trace, builder, values| wrap(trace, builder, values, at),
        ),
        None => {
            let arrays = arrays(inputs)?;
            let results = execute::run(program, &arrays)?;
            Ok(called(program, inputs, arrays, results, at))
        }
    }
}

/// The outputs of a program that has been run, with the call of it as their history if that is to be recorded.
pub(crate) fn called(
    program: &Program,
    inputs: &[&Tensor],
    arrays: Vec<Array>,
    outputs: Vec<Array>,
    at: Loc,
) -> Vec<Tensor> {
    if eager::is_live(inputs) {
        let call = Call::new(Arc::new(program.clone()));
        return eager::record(call.into(), inputs, arrays, outputs, at);
    }
    outputs.into_iter().map(Tensor::from_array).collect()
}

/// A tensor that becomes a value of this trace.
pub(crate) fn record_in(trace: &Arc<Trace>, tensor: &Tensor, at: Loc) -> Tensor {
    let recorded = trace.record(
        &[tensor],
        at,
        |_, values| Ok(values.to_vec()),
        |trace, builder, values| wrap(trace, builder, values, at),
    );
    match recorded {
        Ok(mut tensors) => tensors.remove(0),
        Err(error) => Tensor::failed(error),
    }
}

fn wrap(trace: &Arc<Trace>, builder: &Builder, values: Vec<Value>, at: Loc) -> Vec<Tensor> {
    values.into_iter().map(|value| Tensor::traced(trace, value, builder.ty(value).clone(), at)).collect()
}

/// The error of the first tensor that failed.
fn first_failure(tensors: &[&Tensor]) -> Result<(), Error> {
    tensors.iter().try_for_each(|tensor| tensor.ty().map(|_| ()))
}

/// The numbers of tensors that are not traced.
pub(crate) fn arrays(tensors: &[&Tensor]) -> Result<Vec<Array>, Error> {
    let array = |tensor: &&Tensor| match &tensor.0 {
        State::Concrete(array) => Ok(array.clone()),
        State::Live(live) => Ok(live.array.clone()),
        State::Leaf(_) | State::Param(_) | State::Traced(_) | State::Failed(_) => tensor.array(),
    };
    tensors.iter().map(array).collect()
}

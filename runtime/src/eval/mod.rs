//! The plain meaning of each op, at the op's own path: `ir/src/ops/index/gather.rs` is evaluated by
//! `eval/index/gather.rs`. Elementwise ops run their scalar definition; the others are one plain loop each and never
//! use the op's lowering recipe, so that a wrong recipe cannot pass on both sides.

use crate::array::Array;
use crate::error::RuntimeError;
use crate::view::{View, ViewMut};
use pullback_ir::{Literal, Loc, Op, Problem, TypeError};

pub mod control;

mod contract;
mod elementwise;
mod index;
mod leaf;
mod offsets;
mod reduce;
mod shape;

/// Computes one op. The operands have types that the op accepts, and the outputs those it infers; what the outputs
/// hold before does not matter. After an error they hold anything valid.
pub fn evaluate(
    op: &Op,
    loc: Loc,
    inputs: &[View<'_>],
    outputs: &mut [ViewMut<'_>],
) -> Result<(), RuntimeError> {
    match op {
        Op::Constant(op) => leaf::constant::evaluate(op, &mut outputs[0]),
        Op::Iota(op) => leaf::iota::evaluate(op, &mut outputs[0])?,
        Op::Unary(op) => elementwise::unary::evaluate(*op, &inputs[0], &mut outputs[0])?,
        Op::Binary(op) => elementwise::binary::evaluate(*op, inputs, &mut outputs[0])?,
        Op::Compare(op) => elementwise::compare::evaluate(*op, inputs, &mut outputs[0])?,
        Op::Select(_) => elementwise::select::evaluate(inputs, &mut outputs[0])?,
        Op::Convert(_) => elementwise::convert::evaluate(&inputs[0], &mut outputs[0])?,
        Op::Bitcast(_) => elementwise::bitcast::evaluate(&inputs[0], &mut outputs[0])?,
        Op::ScaleBy(_) => elementwise::scale_by::evaluate(inputs, &mut outputs[0])?,
        Op::IntegerPow(op) => elementwise::integer_pow::evaluate(*op, &inputs[0], &mut outputs[0])?,
        Op::Reshape(_) => outputs[0].copy_from(&inputs[0]),
        Op::Transpose(op) => shape::transpose::evaluate(op, &inputs[0], &mut outputs[0]),
        Op::Broadcast(op) => shape::broadcast::evaluate(op, &inputs[0], &mut outputs[0]),
        Op::Slice(op) => shape::slice::evaluate(op, &inputs[0], &mut outputs[0]),
        Op::Pad(op) => shape::pad::evaluate(op, inputs, &mut outputs[0]),
        Op::Concat(op) => shape::concat::evaluate(op, inputs, &mut outputs[0]),
        Op::Reverse(op) => shape::reverse::evaluate(op, &inputs[0], &mut outputs[0]),
        Op::Reduce(op) => reduce::reduce::evaluate(op, &inputs[0], &mut outputs[0])?,
        Op::ArgReduce(op) => reduce::arg_reduce::evaluate(op, &inputs[0], &mut outputs[0])?,
        Op::Dot(op) => contract::dot::evaluate(op, inputs, &mut outputs[0])?,
        Op::Gather(op) => index::gather::evaluate(op, loc, inputs, &mut outputs[0])?,
        Op::Scatter(op) => index::scatter::evaluate(op, loc, inputs, &mut outputs[0])?,
        Op::Call(op) => control::call::evaluate(op, inputs, outputs)?,
        Op::CustomCall(op) => control::custom_call::evaluate(op, loc, inputs, outputs)?,
        Op::Barrier(_) => outputs.iter_mut().zip(inputs).for_each(|(output, input)| output.copy_from(input)),
    }
    Ok(())
}

/// Computes one op on constants: what constant folding calls.
pub fn evaluate_literals(op: &Op, operands: &[Literal]) -> Result<Vec<Literal>, RuntimeError> {
    let arrays: Vec<Array> = operands.iter().map(Array::from_literal).collect();
    Ok(evaluate_arrays(op, Loc::UNKNOWN, &arrays)?.iter().map(Array::to_literal).collect())
}

/// Computes one op on arrays, after checking their types.
pub fn evaluate_arrays(op: &Op, loc: Loc, operands: &[Array]) -> Result<Vec<Array>, RuntimeError> {
    let types: Vec<_> = operands.iter().map(Array::ty).collect();
    let results = op.infer(&types).map_err(|problem| type_error(op, loc, operands, problem))?;
    if let Some(large) = results.iter().find(|ty| ty.shape.checked_len().is_none()) {
        return Err(type_error(op, loc, operands, Problem::TooLarge { shape: large.shape.clone() }));
    }
    let mut outputs: Vec<Array> = results.into_iter().map(Array::unspecified).collect();
    let inputs: Vec<View<'_>> = operands.iter().map(Array::view).collect();
    let mut views: Vec<ViewMut<'_>> = outputs.iter_mut().map(Array::view_mut).collect();
    evaluate(op, loc, &inputs, &mut views)?;
    Ok(outputs)
}

fn type_error(op: &Op, loc: Loc, operands: &[Array], problem: Problem) -> RuntimeError {
    let operands = operands.iter().map(|a| a.ty().clone()).collect();
    RuntimeError::Type(TypeError { op: op.name().into(), operands, problem: Box::new(problem), loc })
}

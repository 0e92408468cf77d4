//! Nested programs and kernels of the user.

pub mod custom_call;
pub(crate) mod looping;

use crate::array::Array;
use crate::error::RuntimeError;
use crate::interpreter::interpret;
use crate::view::{View, ViewMut};
use pullback_ir::ops::control::branch::Branch;
use pullback_ir::ops::control::custom_linear::CustomLinear;
use pullback_ir::{Loc, Program};

/// What runs a nested program on arguments.
pub(crate) type Run<'a> = &'a dyn Fn(&Program, Vec<Array>) -> Result<Vec<Array>, RuntimeError>;

/// Runs the arm that the first operand chooses on the others.
pub(crate) fn branch(op: &Branch, operands: &[Array], run: Run<'_>) -> Result<Vec<Array>, RuntimeError> {
    run(op.arm(operands[0].item::<i32>()?), operands[1..].to_vec())
}

/// The program of a linear function, if it has one.
pub(crate) fn forward(op: &CustomLinear, loc: Loc) -> Result<&Program, RuntimeError> {
    op.forward.as_deref().ok_or_else(|| RuntimeError::NoForwardMode { name: op.name.clone(), loc })
}

/// Computes an op that holds programs, given how to compute it on arrays.
pub(in crate::eval) fn evaluate(
    inputs: &[View<'_>],
    outputs: &mut [ViewMut<'_>],
    compute: impl Fn(&[Array], Run<'_>) -> Result<Vec<Array>, RuntimeError>,
) -> Result<(), RuntimeError> {
    let operands: Vec<Array> = inputs.iter().map(View::to_array).collect();
    let results = compute(&operands, &|program, arguments| interpret(program, &arguments))?;
    outputs.iter_mut().zip(&results).for_each(|(output, result)| output.copy_from(&result.view()));
    Ok(())
}

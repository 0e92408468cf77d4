//! A nested program.

use crate::array::Array;
use crate::error::RuntimeError;
use crate::interpreter::interpret;
use crate::view::{View, ViewMut};
use pullback_ir::ops::control::call::Call;

pub(in crate::eval) fn evaluate(
    op: &Call,
    inputs: &[View<'_>],
    outputs: &mut [ViewMut<'_>],
) -> Result<(), RuntimeError> {
    let arguments: Vec<Array> = inputs.iter().map(View::to_array).collect();
    let results = interpret(&op.program, &arguments)?;
    outputs.iter_mut().zip(&results).for_each(|(output, result)| output.copy_from(&result.view()));
    Ok(())
}

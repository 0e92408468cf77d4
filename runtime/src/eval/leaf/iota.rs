//! Indices along a dimension.

use crate::array::{ArrayError, Element, with_element};
use crate::view::ViewMut;
use pullback_ir::ops::leaf::iota::Iota;
use pullback_ir::{DType, Literal, TensorType};

pub(in crate::eval) fn evaluate(op: &Iota, out: &mut ViewMut<'_>) -> Result<(), ArrayError> {
    let shape = out.shape();
    let extent = shape[op.dim];
    // Each index is repeated along the dimensions that follow.
    let repeats: usize = shape[op.dim + 1..].iter().product();
    with_element!(out.dtype(), T => {
        let out = out.as_mut_slice::<T>()?;
        for (i, run) in out.chunks_mut(repeats.max(1)).enumerate() {
            run.fill(number::<T>(i % extent));
        }
    });
    Ok(())
}

/// The index as an element; integers wrap, floats round.
fn number<T: Element>(index: usize) -> T {
    match T::DTYPE {
        DType::F32 | DType::F64 => {
            let literal = Literal::number(TensorType::scalar(T::DTYPE), index as f64);
            T::from_bits64(literal.bits_at(0))
        }
        DType::Bool | DType::I32 | DType::I64 | DType::U32 | DType::U64 => T::from_bits64(index as u64),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::eval::testing::{check, one};

    #[test]
    fn counts_along_its_dimension() {
        let iota = |dtype, shape: &[usize], dim| one(Iota { ty: TensorType::new(dtype, shape), dim }, &[]);
        check(iota(DType::I32, &[2, 3], 0), [[0, 0, 0], [1, 1, 1]]);
        check(iota(DType::F64, &[2, 3], 1), [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]]);
        check(iota(DType::U64, &[2, 2, 1], 1), [[[0u64], [1]], [[0], [1]]]);
        check(iota(DType::F32, &[0, 3], 1), [[0.0f32; 3]; 0]);
        check(iota(DType::I64, &[3, 0], 0), Array::from([[0i64; 0]; 3]));
    }
}

//! Reductions of little.

use super::{Rewrite, Simplifier};
use crate::dtype::DType;
use crate::literal::Literal;
use crate::ops::reduce::reduce::{Reduce, Reducer};
use crate::ops::shape::reshape::Reshape;
use crate::program::Value;
use crate::shape::TensorType;

impl Simplifier<'_> {
    pub(super) fn reduction(&mut self, reduce: &Reduce, x: Value) -> Rewrite {
        let ty = self.ty(x).clone();
        let shape = ty.shape.without(&reduce.dims);
        // The reduction of one element is that element.
        if reduce.dims.iter().all(|&d| ty.shape[d] == 1) {
            return self.rewritten(Reshape { shape }, &[x]);
        }
        // c + .. + c = c for zeros, c * .. * c = c for 1, max(c, .., c) = c, ...
        let is_empty = reduce.dims.iter().any(|&d| ty.shape[d] == 0);
        match self.splat(x).filter(|&bits| !is_empty && is_idempotent(reduce.reducer, ty.dtype, bits)) {
            Some(bits) => self.constant_value(Literal::splat_bits(ty.with_shape(shape), bits)).map(Some),
            None => Ok(None),
        }
    }
}

/// Whether combining an element with itself gives that element.
fn is_idempotent(reducer: Reducer, dtype: DType, bits: u64) -> bool {
    let is = |number: f64| Literal::number(TensorType::scalar(dtype), number).splat_value() == Some(bits);
    match reducer {
        Reducer::Sum => is(0.0) || is(-0.0),
        Reducer::Prod => is(0.0) || is(1.0),
        Reducer::Max | Reducer::Min | Reducer::And | Reducer::Or => true,
    }
}

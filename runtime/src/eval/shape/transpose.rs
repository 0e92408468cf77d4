//! Permuted dimensions.

use crate::eval::offsets::{Strided, Strides};
use crate::view::{View, ViewMut};
use pullback_ir::ops::shape::transpose::Transpose;

pub(in crate::eval) fn evaluate(op: &Transpose, x: &View<'_>, out: &mut ViewMut<'_>) {
    let of_operand = x.shape().strides();
    let strides: Strides = op.permutation.iter().map(|&d| of_operand[d] as isize).collect();
    super::copy(&Strided::new(out.shape(), &strides, 0), x, out);
}

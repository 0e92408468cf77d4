//! Opposite order along dimensions.

use crate::eval::offsets::{Strided, Strides};
use crate::view::{View, ViewMut};
use pullback_ir::ops::shape::reverse::Reverse;

pub(in crate::eval) fn evaluate(op: &Reverse, x: &View<'_>, out: &mut ViewMut<'_>) {
    let shape = x.shape();
    let mut strides: Strides = shape.strides().iter().map(|&stride| stride as isize).collect();
    let mut start = 0;
    for &d in &op.dims {
        start += strides[d] * (shape[d] as isize - 1);
        strides[d] = -strides[d];
    }
    super::copy(&Strided::new(shape, &strides, start), x, out);
}

//! A strided box.

use crate::eval::offsets::{Strided, Strides};
use crate::view::{View, ViewMut};
use pullback_ir::ops::shape::slice::Slice;

pub(in crate::eval) fn evaluate(op: &Slice, x: &View<'_>, out: &mut ViewMut<'_>) {
    let of_operand = x.shape().strides();
    let start: usize = op.start.iter().zip(&of_operand).map(|(start, stride)| start * stride).sum();
    let strides: Strides =
        op.stride.iter().zip(&of_operand).map(|(step, stride)| (step * stride) as isize).collect();
    super::copy(&Strided::new(out.shape(), &strides, start as isize), x, out);
}

//! Repetition along new dimensions.

use crate::eval::offsets::{Strided, Strides};
use crate::view::{View, ViewMut};
use pullback_ir::ops::shape::broadcast::Broadcast;

pub(in crate::eval) fn evaluate(op: &Broadcast, x: &View<'_>, out: &mut ViewMut<'_>) {
    let of_operand = x.shape().strides();
    let mut strides = Strides::from_elem(0, out.shape().rank());
    for (i, &d) in op.dims.iter().enumerate() {
        strides[d] = of_operand[i] as isize;
    }
    super::copy(&Strided::new(out.shape(), &strides, 0), x, out);
}

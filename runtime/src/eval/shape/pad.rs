//! Elements added around and between.

use crate::view::{View, ViewMut, Word, with_word};
use pullback_ir::ops::shape::pad::Pad;
use pullback_ir::{Dims, Shape};

pub(in crate::eval) fn evaluate(op: &Pad, inputs: &[View<'_>], out: &mut ViewMut<'_>) {
    let (from, to) = (inputs[0].shape(), out.shape());
    with_word!(out.dtype(), W => {
        let out = out.words_mut::<W>();
        out.fill(inputs[1].words::<W>()[0]);
        place(op, from, to, inputs[0].words::<W>(), out);
    });
}

/// Writes each element that is not cut off to its place.
fn place<W: Word>(op: &Pad, from: &Shape, to: &Shape, elements: &[W], out: &mut [W]) {
    let strides = to.strides();
    let mut index = Dims::from_elem(0, from.rank());
    for &element in elements {
        let mut offset = Some(0);
        for d in 0..from.rank() {
            let position = op.low[d] + (index[d] * (op.interior[d] + 1)) as i64;
            let inside = position >= 0 && position < to[d] as i64;
            offset = offset.filter(|_| inside).map(|offset| offset + position as usize * strides[d]);
        }
        if let Some(offset) = offset {
            out[offset] = element;
        }
        advance(&mut index, from);
    }
}

/// The next index in row-major order.
fn advance(index: &mut Dims, shape: &Shape) {
    for d in (0..shape.rank()).rev() {
        index[d] += 1;
        if index[d] < shape[d] {
            return;
        }
        index[d] = 0;
    }
}

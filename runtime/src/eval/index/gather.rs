//! Reading at computed indices.

use super::Places;
use crate::error::RuntimeError;
use crate::view::{View, ViewMut, with_word};
use pullback_ir::Loc;
use pullback_ir::ops::index::gather::Gather;

pub(in crate::eval) fn evaluate(
    op: &Gather,
    loc: Loc,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), RuntimeError> {
    let places = Places {
        operand: inputs[0].shape(),
        index_dims: &op.index_dims,
        batch_dims: op.batch_dims,
        mode: op.mode,
        op: ("gather", loc),
    };
    let window = places.window();
    let size = window.len();
    with_word!(out.dtype(), W => {
        let (operand, out) = (inputs[0].words::<W>(), out.words_mut::<W>());
        if size == 1 {
            // Single elements, as sparse matrices read them: a window would cost more than the element.
            let element = |offset: Option<usize>| offset.map_or(W::default(), |offset| operand[offset]);
            return places.visit(&inputs[1], |place, offset| out[place] = element(offset));
        }
        places.visit(&inputs[1], |place, offset| {
            let out = &mut out[place * size..(place + 1) * size];
            match offset {
                Some(offset) => window.copy_to(&operand[offset.min(operand.len())..], out),
                None => out.fill(W::default()),
            }
        })
    })
}

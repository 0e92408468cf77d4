//! Several tensors side by side.

use crate::view::{View, ViewMut, with_word};
use pullback_ir::ops::shape::concat::Concat;

pub(in crate::eval) fn evaluate(op: &Concat, inputs: &[View<'_>], out: &mut ViewMut<'_>) {
    let shape = out.shape();
    let inner: usize = shape[op.dim + 1..].iter().product();
    let row = shape[op.dim] * inner;
    with_word!(out.dtype(), W => {
        let out = out.words_mut::<W>();
        let mut at = 0;
        for input in inputs {
            let part = input.shape()[op.dim] * inner;
            if part > 0 {
                for (row, part) in out.chunks_exact_mut(row).zip(input.words::<W>().chunks_exact(part)) {
                    row[at..at + part.len()].copy_from_slice(part);
                }
            }
            at += part;
        }
    });
}

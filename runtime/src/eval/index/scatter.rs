//! Writing at computed indices, in row-major order of the updates.

use super::Places;
use crate::array::Element;
use crate::error::RuntimeError;
use crate::eval::elementwise::by_kind;
use crate::view::{View, ViewMut, with_word};
use pullback_ir::Loc;
use pullback_ir::maths::{IntLanes, Plain};
use pullback_ir::ops::index::scatter::{Scatter, ScatterKind};

pub(in crate::eval) fn evaluate(
    op: &Scatter,
    loc: Loc,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), RuntimeError> {
    out.copy_from(&inputs[0]);
    update(op, loc, &inputs[1..], out)
}

/// Writes into a copy of the operand; `inputs` are the others.
pub(in crate::eval) fn update(
    op: &Scatter,
    loc: Loc,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), RuntimeError> {
    let places = Places {
        operand: out.shape(),
        index_dims: &op.index_dims,
        batch_dims: op.batch_dims,
        mode: op.mode,
        op: ("scatter", loc),
    };
    match op.kind {
        ScatterKind::Set => with_word!(out.dtype(), W => {
            write(&places, &inputs[0], inputs[1].words::<W>(), out.words_mut::<W>(), |_, update| update)
        }),
        ScatterKind::Add => by_kind! { out.dtype(),
            float T => add::<T>(&places, inputs, out, |x, y| x + y),
            int T => add::<T>(&places, inputs, out, |x, y| IntLanes::<T>::add(&mut Plain, x, y)),
            // The type rule refuses bool.
            bool => add::<bool>(&places, inputs, out, |x, y| x | y),
        },
    }
}

fn add<T: Element>(
    places: &Places<'_>,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
    sum: impl Fn(T, T) -> T,
) -> Result<(), RuntimeError> {
    write(places, &inputs[0], inputs[1].as_slice::<T>()?, out.as_mut_slice::<T>()?, sum)
}

fn write<T: Copy>(
    places: &Places<'_>,
    indices: &View<'_>,
    updates: &[T],
    out: &mut [T],
    combine: impl Fn(T, T) -> T,
) -> Result<(), RuntimeError> {
    let window: Vec<usize> = places.window().offsets().collect();
    places.visit(indices, |place, offset| {
        let Some(offset) = offset else { return };
        let updates = &updates[place * window.len()..];
        for (at, &update) in window.iter().zip(updates) {
            let element = &mut out[offset + at];
            *element = combine(*element, update);
        }
    })
}

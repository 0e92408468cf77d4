//! Movement: every element of a result is an element of an operand, or a filling.

pub(super) mod broadcast;
pub(super) mod concat;
pub(super) mod pad;
pub(super) mod reverse;
pub(super) mod slice;
pub(super) mod transpose;

use super::offsets::Strided;
use crate::view::{View, ViewMut, with_word};

/// Writes the elements of a box of `x` in row-major order of the box.
fn copy(strided: &Strided, x: &View<'_>, out: &mut ViewMut<'_>) {
    with_word!(x.dtype(), W => strided.copy_to(x.words::<W>(), out.words_mut::<W>()));
}

//! Constants.

use crate::view::ViewMut;
use pullback_ir::ops::leaf::constant::Constant;

pub(in crate::eval) fn evaluate(op: &Constant, out: &mut ViewMut<'_>) {
    out.write_literal(&op.value);
}

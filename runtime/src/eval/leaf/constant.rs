//! Constants.

use crate::view::ViewMut;
use pullback_ir::ops::leaf::constant::Constant;

pub(in crate::eval) fn evaluate(op: &Constant, out: &mut ViewMut<'_>) {
    out.write_literal(&op.value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::testing::{check, one};
    use pullback_ir::Literal;

    #[test]
    fn dense_and_splat() {
        let dense = Literal::dense(&[1.0f32, -0.0, f32::NAN], [3]).unwrap();
        check(one(Constant { value: dense }, &[]), [1.0f32, -0.0, f32::NAN]);
        check(one(Constant { value: Literal::splat(true, [2, 1]) }, &[]), [[true], [true]]);
        check(one(Constant { value: Literal::scalar(u64::MAX) }, &[]), u64::MAX);
    }
}

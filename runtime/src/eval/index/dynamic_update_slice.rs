//! Writing a box at a computed place.

use super::dynamic_slice::Placed;
use crate::error::RuntimeError;
use crate::view::{View, ViewMut, with_word};
use pullback_ir::Loc;
use pullback_ir::ops::index::dynamic_update_slice::DynamicUpdateSlice;

pub(in crate::eval) fn evaluate(
    op: &DynamicUpdateSlice,
    loc: Loc,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), RuntimeError> {
    out.copy_from(&inputs[0]);
    update(op, loc, &inputs[1..], out)
}

/// Writes the box into a copy of the operand; `inputs` are the others.
pub(in crate::eval) fn update(
    op: &DynamicUpdateSlice,
    loc: Loc,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), RuntimeError> {
    let at = Placed { op: ("dynamic_update_slice", loc), mode: op.mode };
    let (written, read) = at.overlap(out.shape(), inputs[0].shape(), &inputs[1..])?;
    with_word!(out.dtype(), W => {
        let (update, out) = (inputs[0].words::<W>(), out.words_mut::<W>());
        read.offsets().zip(written.offsets()).for_each(|(from, to)| out[to] = update[from]);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::eval::evaluate_arrays;
    use crate::eval::testing::{check, one};
    use pullback_ir::ops::index::IndexMode;

    fn update(mode: IndexMode) -> DynamicUpdateSlice {
        DynamicUpdateSlice { mode }
    }

    fn at(start: i64) -> Array {
        Array::from(start)
    }

    const MODES: [IndexMode; 3] = [IndexMode::Checked, IndexMode::Clip, IndexMode::Drop];

    #[test]
    fn every_mode_writes_a_box_that_fits() {
        let table = || Array::from([[1.0f64, 2.0, 3.0], [4.0, 5.0, 6.0]]);
        for mode in MODES {
            let column = Array::from([[10.0f64], [20.0]]);
            check(
                one(update(mode), &[table(), column, at(0), Array::from(1u32)]),
                [[1.0, 10.0, 3.0], [4.0, 20.0, 6.0]],
            );
            let all = Array::from([[9.0f64; 3]; 2]);
            check(one(update(mode), &[table(), all, at(0), at(0)]), [[9.0f64; 3]; 2]);
            check(one(update(mode), &[Array::from(7.0f64), Array::from(8.0f64)]), 8.0f64);
            check(one(update(mode), &[Array::from([1, 2]), Array::from([0i32; 0]), at(2)]), [1, 2]);
            check(one(update(mode), &[Array::from([true; 0]), Array::from([true; 0]), at(0)]), [true; 0]);
        }
    }

    #[test]
    fn clip_moves_the_start_so_that_the_whole_box_fits() {
        let two_at = |start: Array| {
            one(update(IndexMode::Clip), &[Array::from([10, 20, 30, 40]), Array::from([1, 2]), start])
        };
        check(two_at(at(3)), [10, 20, 1, 2]);
        check(two_at(at(i64::MIN)), [1, 2, 30, 40]);
        check(two_at(Array::from(u64::MAX)), [10, 20, 1, 2]);
    }

    #[test]
    fn drop_writes_only_what_lies_inside() {
        let four_at = |start: Array| {
            one(update(IndexMode::Drop), &[Array::from([1, 2, 3]), Array::from([10, 20, 30, 40]), start])
        };
        check(four_at(at(0)), [10, 20, 30]);
        check(four_at(at(-2)), [30, 40, 3]);
        check(four_at(at(2)), [1, 2, 10]);
        for outside in [at(3), at(-4), at(i64::MAX), at(i64::MIN), Array::from(u64::MAX)] {
            check(four_at(outside), [1, 2, 3]);
        }
        let corner = [Array::from([[1u32, 2], [3, 4]]), Array::from([[5u32, 6, 7]; 2]), at(1), at(-1)];
        check(one(update(IndexMode::Drop), &corner), [[1u32, 2], [6, 7]]);
    }

    #[test]
    fn checked_refuses_a_start_whose_box_leaves_the_operand() {
        let loc = Loc::caller();
        for (values, start, bound) in
            [(&[1, 2][..], 3, 3), (&[1, 2], -1, 3), (&[], 5, 5), (&[1; 4], i64::MAX, 1)]
        {
            let operands = [Array::from([1, 2, 3, 4]), Array::vector(values), at(start)];
            let failed = evaluate_arrays(&update(IndexMode::Checked).into(), loc, &operands).unwrap_err();
            let (op, index) = ("dynamic_update_slice", i128::from(start));
            assert_eq!(failed, RuntimeError::IndexOutOfRange { op, index, bound, loc });
        }
    }
}

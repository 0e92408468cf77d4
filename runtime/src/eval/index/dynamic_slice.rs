//! Reading a box at a computed place.

use super::reader;
use crate::error::RuntimeError;
use crate::eval::offsets::{Strided, Strides};
use crate::view::{View, ViewMut, with_word};
use pullback_ir::ops::index::IndexMode;
use pullback_ir::ops::index::dynamic_slice::DynamicSlice;
use pullback_ir::{Dims, Loc, Shape};

pub(in crate::eval) fn evaluate(
    op: &DynamicSlice,
    loc: Loc,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), RuntimeError> {
    let at = Placed { op: ("dynamic_slice", loc), mode: op.mode };
    let (read, written) = at.overlap(inputs[0].shape(), out.shape(), &inputs[1..])?;
    with_word!(out.dtype(), W => {
        let (operand, out) = (inputs[0].words::<W>(), out.words_mut::<W>());
        if read.len() == out.len() {
            read.copy_to(operand, out);
        } else {
            out.fill(W::default());
            read.offsets().zip(written.offsets()).for_each(|(from, to)| out[to] = operand[from]);
        }
    });
    Ok(())
}

/// How boxes are placed in an operand.
pub(super) struct Placed {
    /// Name and place of the op, for errors.
    pub(super) op: (&'static str, Loc),
    pub(super) mode: IndexMode,
}

impl Placed {
    /// The part of the box that lies in the operand: its elements there, and in the box.
    pub(super) fn overlap(
        &self,
        operand: &Shape,
        sizes: &Shape,
        starts: &[View<'_>],
    ) -> Result<(Strided, Strided), RuntimeError> {
        let mut extents = Dims::new();
        let (mut in_operand, mut in_box) = (0, 0);
        let (of_operand, of_box) = (operand.strides(), sizes.strides());
        for (d, &size) in sizes.iter().enumerate() {
            let extent = operand[d];
            let start = self.resolve(reader(&starts[d])?(0), extent.saturating_sub(size))?;
            let first = (-start).clamp(0, size as i128);
            let end = (extent as i128 - start).clamp(first, size as i128);
            extents.push((end - first) as usize);
            if end > first {
                in_operand += (start + first) as usize * of_operand[d];
                in_box += first as usize * of_box[d];
            }
        }
        let part = |strides: &[usize], start: usize| {
            let strides: Strides = strides.iter().map(|&stride| stride as isize).collect();
            Strided::new(&extents, &strides, start as isize)
        };
        Ok((part(&of_operand, in_operand), part(&of_box, in_box)))
    }

    /// The start that is meant, of which those up to `room` keep the box inside.
    fn resolve(&self, start: i128, room: usize) -> Result<i128, RuntimeError> {
        let fitting = start.clamp(0, room as i128);
        match self.mode {
            IndexMode::Checked if start != fitting => {
                let (name, loc) = self.op;
                Err(RuntimeError::index_out_of_range(name, start, room + 1, loc))
            }
            IndexMode::Checked | IndexMode::Clip => Ok(fitting),
            IndexMode::Drop => Ok(start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::eval::evaluate_arrays;
    use crate::eval::testing::{check, one};

    fn slice(sizes: &[usize], mode: IndexMode) -> DynamicSlice {
        DynamicSlice { sizes: Dims::from_slice(sizes), mode }
    }

    fn at(start: i64) -> Array {
        Array::from(start)
    }

    const MODES: [IndexMode; 3] = [IndexMode::Checked, IndexMode::Clip, IndexMode::Drop];

    #[test]
    fn every_mode_reads_a_box_that_fits() {
        let table = || Array::from([[1.0f64, 2.0, 3.0], [4.0, 5.0, 6.0]]);
        for mode in MODES {
            check(one(slice(&[2, 2], mode), &[table(), at(0), at(1)]), [[2.0, 3.0], [5.0, 6.0]]);
            check(
                one(slice(&[1, 3], mode), &[table(), Array::from(1u64), Array::from(0i32)]),
                [[4.0, 5.0, 6.0]],
            );
            check(one(slice(&[], mode), &[Array::from(7.0f64)]), 7.0f64);
            check(one(slice(&[2, 0], mode), &[table(), at(0), at(3)]), [[0.0f64; 0]; 2]);
            check(one(slice(&[0], mode), &[Array::from([true; 0]), at(0)]), [true; 0]);
        }
    }

    #[test]
    fn clip_moves_the_start_so_that_the_whole_box_fits() {
        let two_from =
            |start: Array| one(slice(&[2], IndexMode::Clip), &[Array::from([10, 20, 30, 40]), start]);
        check(two_from(at(3)), [30, 40]);
        check(two_from(at(-1)), [10, 20]);
        check(two_from(at(i64::MIN)), [10, 20]);
        check(two_from(Array::from(u64::MAX)), [30, 40]);
    }

    #[test]
    fn drop_reads_zero_outside() {
        let four_from = |start: Array| one(slice(&[4], IndexMode::Drop), &[Array::from([1, 2, 3]), start]);
        check(four_from(at(0)), [1, 2, 3, 0]);
        check(four_from(at(-2)), [0, 0, 1, 2]);
        for outside in [at(3), at(-4), at(i64::MAX), at(i64::MIN), Array::from(u64::MAX)] {
            check(four_from(outside), [0; 4]);
        }
        let corner = [Array::from([[1u32, 2], [3, 4]]), at(1), at(-1)];
        check(one(slice(&[2, 3], IndexMode::Drop), &corner), [[0u32, 3, 4], [0, 0, 0]]);
        let far = [Array::from([[1u32, 2], [3, 4]]), at(1), at(9)];
        check(one(slice(&[2, 3], IndexMode::Drop), &far), [[0u32; 3]; 2]);
        check(one(slice(&[2], IndexMode::Drop), &[Array::from([1.0f64; 0]), at(0)]), [0.0f64; 2]);
    }

    #[test]
    fn checked_refuses_a_start_whose_box_leaves_the_operand() {
        let loc = Loc::caller();
        for (size, start, bound) in [(2, 3, 3), (2, -1, 3), (0, 5, 5), (4, i64::MAX, 1)] {
            let op = slice(&[size], IndexMode::Checked).into();
            let failed = evaluate_arrays(&op, loc, &[Array::from([1, 2, 3, 4]), at(start)]).unwrap_err();
            let index = i128::from(start);
            assert_eq!(failed, RuntimeError::IndexOutOfRange { op: "dynamic_slice", index, bound, loc });
        }
    }
}

//! Reading and writing at computed indices.

pub(super) mod dynamic_slice;
pub(super) mod dynamic_update_slice;
pub(super) mod gather;
pub(super) mod scatter;

use super::offsets::Strided;
use crate::array::ArrayError;
use crate::error::RuntimeError;
use crate::view::View;
use pullback_ir::ops::index::IndexMode;
use pullback_ir::{DType, Dims, Loc, Shape};

/// The places in an operand that indices point to: gather and scatter walk them alike.
struct Places<'a> {
    operand: &'a Shape,
    index_dims: &'a Dims,
    batch_dims: usize,
    mode: IndexMode,
    /// Name and place of the op, for errors.
    op: (&'static str, Loc),
}

impl Places<'_> {
    /// The elements at one place: the operand's dimensions that are neither batch nor indexed.
    fn window(&self) -> Strided {
        let dims: Dims =
            (self.batch_dims..self.operand.rank()).filter(|d| !self.index_dims.contains(d)).collect();
        Strided::dims_of(self.operand, &dims)
    }

    /// Calls `f` with the number of each place and the offset of its window, or `None` where it is dropped. All
    /// places are visited in row-major order of the indices.
    fn visit(&self, indices: &View<'_>, mut f: impl FnMut(usize, Option<usize>)) -> Result<(), RuntimeError> {
        let strides = self.operand.strides();
        let per_place = self.index_dims.len();
        let shape = indices.shape();
        let places: usize = shape[..shape.rank() - 1].iter().product();
        let per_batch: usize = shape[self.batch_dims..shape.rank() - 1].iter().product();
        let batches: Vec<usize> =
            Strided::dims_of(self.operand, &(0..self.batch_dims).collect::<Dims>()).offsets().collect();
        let read = reader(indices)?;
        for place in 0..places {
            let mut offset = Some(batches[place / per_batch]);
            for (k, &d) in self.index_dims.iter().enumerate() {
                let index = self.resolve(read(place * per_place + k), self.operand[d])?;
                offset = offset.zip(index).map(|(offset, index)| offset + index * strides[d]);
            }
            f(place, offset);
        }
        Ok(())
    }

    /// The index meant, or `None` if there is none. The type rule refuses to clip to an empty extent.
    fn resolve(&self, index: i128, bound: usize) -> Result<Option<usize>, RuntimeError> {
        if (0..bound as i128).contains(&index) {
            return Ok(Some(index as usize));
        }
        match self.mode {
            IndexMode::Checked => Err(RuntimeError::index_out_of_range(self.op.0, index, bound, self.op.1)),
            IndexMode::Clip => Ok(bound.checked_sub(1).map(|last| if index < 0 { 0 } else { last })),
            IndexMode::Drop => Ok(None),
        }
    }
}

/// Reads the element at a row-major position of a tensor of integers.
fn reader<'a>(indices: &View<'a>) -> Result<impl Fn(usize) -> i128 + use<'a>, ArrayError> {
    enum Slice<'a> {
        I32(&'a [i32]),
        I64(&'a [i64]),
        U32(&'a [u32]),
        U64(&'a [u64]),
    }
    let slice = match indices.dtype() {
        DType::I32 => Slice::I32(indices.as_slice()?),
        DType::U32 => Slice::U32(indices.as_slice()?),
        DType::U64 => Slice::U64(indices.as_slice()?),
        // The type rule lets only integers through: for anything else the read as i64 is an error.
        DType::I64 | DType::Bool | DType::F32 | DType::F64 => Slice::I64(indices.as_slice()?),
    };
    Ok(move |i| match slice {
        Slice::I32(s) => i128::from(s[i]),
        Slice::I64(s) => i128::from(s[i]),
        Slice::U32(s) => i128::from(s[i]),
        Slice::U64(s) => i128::from(s[i]),
    })
}

#[cfg(test)]
mod tests {
    use crate::array::{Array, Element};
    use crate::error::RuntimeError;
    use crate::eval::evaluate_arrays;
    use crate::eval::testing::{check, one};
    use pullback_ir::ops::index::IndexMode;
    use pullback_ir::ops::index::gather::Gather;
    use pullback_ir::ops::index::scatter::{Scatter, ScatterKind};
    use pullback_ir::{Dims, Loc};

    fn gather(index_dims: &[usize], batch_dims: usize, mode: IndexMode) -> Gather {
        Gather { index_dims: Dims::from_slice(index_dims), batch_dims, mode }
    }

    fn scatter(kind: ScatterKind, index_dims: &[usize], batch_dims: usize, mode: IndexMode) -> Scatter {
        Scatter { kind, index_dims: Dims::from_slice(index_dims), batch_dims, mode }
    }

    fn table() -> Array {
        Array::from([[1.0f64, 2.0, 3.0], [4.0, 5.0, 6.0]])
    }

    #[test]
    fn gathers_rows_columns_elements_and_batches() {
        let checked = IndexMode::Checked;
        check(
            one(gather(&[0], 0, checked), &[table(), Array::from([[1i64], [0], [1]])]),
            [[4.0, 5.0, 6.0], [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
        );
        check(one(gather(&[1], 0, checked), &[table(), Array::from([[2i32]])]), [[3.0, 6.0]]);
        check(one(gather(&[1, 0], 0, checked), &[table(), Array::from([[2u64, 1], [0, 0]])]), [6.0, 1.0]);
        check(
            one(gather(&[1], 1, checked), &[table(), Array::from([[[2u32], [0]], [[1], [1]]])]),
            [[3.0, 1.0], [5.0, 5.0]],
        );
        check(one(gather(&[0], 0, checked), &[table(), Array::from([1i64])]), [4.0, 5.0, 6.0]);
        check(
            one(gather(&[], 0, checked), &[table(), Array::from([[0i64; 0]; 1])]),
            [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]],
        );
        check(one(gather(&[0], 0, checked), &[table(), Array::from([[0i64; 1]; 0])]), [[0.0f64; 3]; 0]);
    }

    #[test]
    fn modes_say_what_an_index_out_of_range_means() {
        let indices = Array::from([[-1i64], [2], [i64::MAX], [0]]);
        check(one(gather(&[0], 0, IndexMode::Clip), &[Array::from([7, 8]), indices.clone()]), [7, 8, 8, 7]);
        check(one(gather(&[0], 0, IndexMode::Drop), &[Array::from([7, 8]), indices.clone()]), [0, 0, 0, 7]);
        let loc = Loc::caller();
        let failed = |indices: Array| {
            let op = gather(&[0], 0, IndexMode::Checked).into();
            evaluate_arrays(&op, loc, &[Array::from([7, 8]), indices]).unwrap_err()
        };
        let expected = |index| RuntimeError::IndexOutOfRange { op: "gather", index, bound: 2, loc };
        assert_eq!(failed(indices), expected(-1));
        assert_eq!(failed(Array::from([[u64::MAX]])), expected(u64::MAX as i128));
        assert!(expected(2).to_string().contains("index/mod.rs"));
        // Nothing can be read from an empty dimension; the type rule refuses to clip to one.
        let empty = [Array::from([0i32; 0]), Array::from([[0i64], [5]])];
        check(one(gather(&[0], 0, IndexMode::Drop), &empty), [0, 0]);
    }

    fn scattered<T: Element>(op: Scatter, operand: &[T], indices: &[i64], updates: &[T]) -> Array {
        let indices = Array::from_slice(indices, [indices.len(), 1]).unwrap();
        one(op, &[Array::vector(operand), indices, Array::vector(updates)])
    }

    #[test]
    fn duplicates_apply_in_the_order_of_the_updates() {
        let checked = IndexMode::Checked;
        let set = scatter(ScatterKind::Set, &[0], 0, checked);
        check(scattered(set, &[1, 2, 3], &[2, 0, 2], &[10, 20, 30]), [20, 2, 30]);
        let add = scatter(ScatterKind::Add, &[0], 0, checked);
        check(scattered(add.clone(), &[1, 2, 3], &[2, 0, 2], &[10, 20, 30]), [21, 2, 43]);
        // (1 + 1e16) - 1e16 rounds to 0, in this order only.
        check(scattered(add.clone(), &[1.0], &[0, 0], &[1e16, -1e16]), [0.0]);
        check(scattered(add, &[i32::MAX], &[0], &[1]), [i32::MIN]);
    }

    #[test]
    fn scatters_windows_batches_and_modes() {
        let rows = scatter(ScatterKind::Add, &[0], 0, IndexMode::Checked);
        let updates = Array::from([[1.0f64, 1.0, 1.0], [2.0, 2.0, 2.0]]);
        check(one(rows, &[table(), Array::from([[1i64], [1]]), updates]), [[1.0, 2.0, 3.0], [7.0, 8.0, 9.0]]);
        let batched = scatter(ScatterKind::Set, &[1], 1, IndexMode::Checked);
        check(
            one(batched, &[table(), Array::from([[[0i64]], [[2]]]), Array::from([[-1.0f64], [-2.0]])]),
            [[-1.0, 2.0, 3.0], [4.0, 5.0, -2.0]],
        );
        let drop = scatter(ScatterKind::Set, &[0], 0, IndexMode::Drop);
        check(scattered(drop, &[true, true], &[5, 1, -1], &[false, false, false]), [true, false]);
        let clip = scatter(ScatterKind::Add, &[0], 0, IndexMode::Clip);
        check(scattered(clip, &[1u64, 2], &[5, -1], &[10, 20]), [21u64, 12]);
        let checked = scatter(ScatterKind::Set, &[0], 0, IndexMode::Checked).into();
        let failed = evaluate_arrays(
            &checked,
            Loc::UNKNOWN,
            &[Array::from([1]), Array::from([[1i64]]), Array::from([1])],
        );
        assert!(matches!(
            failed,
            Err(RuntimeError::IndexOutOfRange { op: "scatter", index: 1, bound: 1, .. })
        ));
    }
}

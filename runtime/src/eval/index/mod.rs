//! Reading and writing at computed indices.

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

    /// The index meant, or `None` if there is none. Clipping to an empty extent leaves none either.
    fn resolve(&self, index: i128, bound: usize) -> Result<Option<usize>, RuntimeError> {
        if (0..bound as i128).contains(&index) {
            return Ok(Some(index as usize));
        }
        match self.mode {
            IndexMode::Checked => {
                Err(RuntimeError::IndexOutOfRange { op: self.op.0, index, bound, loc: self.op.1 })
            }
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

//! Triangles, diagonals, traces and one-hot vectors: masks made of indices.

use crate::error::Error;
use crate::ops::axes::Index;
use crate::tensor::{Tensor, attempt};
use pullback_ir::ops::leaf::iota::Iota;
use pullback_ir::{DType, Loc, Problem, Shape, TensorType};

impl Tensor {
    /// Indices (i64) along an axis of a tensor of this shape, recorded where this tensor is recorded.
    #[track_caller]
    fn indices_like(&self, axis: usize) -> Tensor {
        let ty = attempt!(self.ty()).with_dtype(DType::I64);
        self.leaf_beside(Iota { ty, dim: axis })
    }

    fn require_matrix(&self, name: &str, at: Loc) -> Result<(usize, usize), Error> {
        let ty = self.ty()?;
        if ty.shape.rank() >= 2 {
            return Ok((ty.shape.rank() - 2, ty.shape.rank() - 1));
        }
        let text = format!("{ty} is no matrix; give at least two axes");
        Err(Error::op(name, &[ty], Problem::Constraint(text), at))
    }

    /// The number of a diagonal, or of the nearest one with all elements on the same side: an index can be added to it.
    fn within_matrix(&self, k: i64) -> Result<i64, Error> {
        let shape = self.shape()?;
        let (rows, columns) = (shape[shape.rank() - 2] as i64, shape[shape.rank() - 1] as i64);
        Ok(k.clamp(-rows, columns))
    }

    /// Zero above diagonal `k` of the last two axes: 0 is the main one, 1 the one above it.
    #[track_caller]
    pub fn tril(&self, k: i64) -> Tensor {
        let (rows, columns) = attempt!(self.require_matrix("tril", Loc::caller()));
        let keep = self.indices_like(columns).le(self.indices_like(rows) + attempt!(self.within_matrix(k)));
        keep.select(self, self.zeros_like())
    }

    /// Zero below diagonal `k` of the last two axes.
    #[track_caller]
    pub fn triu(&self, k: i64) -> Tensor {
        let (rows, columns) = attempt!(self.require_matrix("triu", Loc::caller()));
        let keep = self.indices_like(columns).ge(self.indices_like(rows) + attempt!(self.within_matrix(k)));
        keep.select(self, self.zeros_like())
    }

    /// Of a vector: the matrix with it on the diagonal. Of a matrix: its diagonal.
    #[track_caller]
    pub fn diag(&self) -> Tensor {
        let ty = attempt!(self.ty());
        match ty.shape.rank() {
            1 => {
                let n = ty.shape[0];
                let matrix = self.broadcast_to([n, n]);
                let on_diagonal = matrix.indices_like(0).eq(matrix.indices_like(1));
                on_diagonal.select(&matrix, matrix.zeros_like())
            }
            2 => self.diagonal(),
            _ => {
                let text = format!("{ty} is neither vector nor matrix; use diagonal for stacks of matrices");
                Tensor::failed(Error::op("diag", &[ty], Problem::Constraint(text), Loc::caller()))
            }
        }
    }

    /// The main diagonal of the last two axes, as the last axis.
    #[track_caller]
    pub fn diagonal(&self) -> Tensor {
        let (rows, columns) = attempt!(self.require_matrix("diagonal", Loc::caller()));
        let shape = attempt!(self.shape());
        let (n, m) = (shape[rows], shape[columns]);
        let k = n.min(m);
        let square = self.narrow(rows, 0, k).narrow(columns, 0, k);
        let mut extents: Vec<usize> = shape[..rows].to_vec();
        // Row-major, the diagonal of a square matrix is every (k + 1)-th element.
        extents.push(k.saturating_mul(k));
        let flat = square.reshape_to(Shape::new(&extents), Loc::caller());
        if k == 0 { flat } else { flat.stride(rows, k + 1) }
    }

    /// The sum of the main diagonal of the last two axes.
    #[track_caller]
    pub fn trace(&self) -> Tensor {
        self.diagonal().sum_axes(-1)
    }

    /// One at the index, zero elsewhere, along a new last axis of extent `count`. Indices outside give zeros.
    #[track_caller]
    pub fn one_hot(&self, count: usize, dtype: DType) -> Tensor {
        let ty = attempt!(self.ty());
        if !ty.dtype.is_int() {
            let problem = Problem::DType { operand: 0, found: ty.dtype, expected: "an integer type" };
            return Tensor::failed(Error::op("one_hot", &[ty], problem, Loc::caller()));
        }
        let shape: Shape = ty.shape.iter().copied().chain([count]).collect();
        let places = self.leaf_beside(Iota { ty: TensorType::new(ty.dtype, shape), dim: ty.shape.rank() });
        self.expand_dims(-1).eq(&places).to_dtype(dtype)
    }

    /// Indices (i64) along an axis of a tensor of this shape.
    #[track_caller]
    pub fn iota_like(&self, axis: impl Index) -> Tensor {
        let axis = attempt!(self.one_axis("iota_like", axis, Loc::caller()));
        self.indices_like(axis)
    }
}

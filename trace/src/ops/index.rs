//! Reading and writing at computed indices. Out of range, an index is an error of the call unless another mode says
//! otherwise; the mode holds for values and slopes alike.

use crate::apply::{apply, apply_all};
use crate::error::Error;
use crate::ops::IndexMode;
use crate::ops::axes::Index;
use crate::tensor::{Tensor, attempt};
use pullback_ir::ops::index::dynamic_slice::DynamicSlice;
use pullback_ir::ops::index::dynamic_update_slice::DynamicUpdateSlice;
use pullback_ir::ops::index::gather::Gather;
use pullback_ir::ops::index::scatter::{Scatter, ScatterKind};
use pullback_ir::{Dims, Loc, Problem, Shape};
use smallvec::smallvec;

impl Tensor {
    /// The slices at the indices along an axis: the axis is replaced by the axes of `indices`.
    #[track_caller]
    pub fn take(&self, indices: &Tensor, axis: impl Index) -> Tensor {
        self.take_with(indices, axis, IndexMode::Checked)
    }

    /// [`Tensor::take`] with a mode for indices out of range.
    #[track_caller]
    pub fn take_with(&self, indices: &Tensor, axis: impl Index, mode: IndexMode) -> Tensor {
        let at = Loc::caller();
        let dim = attempt!(self.one_axis("take", axis, at));
        let leading = attempt!(indices.rank());
        let rank = attempt!(self.rank());
        let op = Gather { index_dims: smallvec![dim], batch_dims: 0, mode };
        let picked = apply(op, &[self, &indices.expand_dims(-1)]);
        // Gather puts the indices' axes first; they belong where the axis was.
        let before = leading..leading + dim;
        let after = leading + dim..leading + rank - 1;
        picked.permute_to(before.chain(0..leading).chain(after).collect(), at)
    }

    /// [`Tensor::take`] along an axis, by PyTorch's name and order.
    #[track_caller]
    pub fn index_select(&self, axis: impl Index, indices: &Tensor) -> Tensor {
        self.take(indices, axis)
    }

    /// The axis moved to the end, for this tensor and one of the same extents elsewhere.
    #[track_caller]
    fn along_last(&self, name: &str, indices: &Tensor, axis: usize) -> Result<(Tensor, Tensor), Error> {
        let (x, i, at) = (self.ty()?, indices.ty()?, Loc::caller());
        let refuse = |problem: Problem| Error::op(name, &[x, i], problem, at);
        if x.shape.rank() != i.shape.rank() {
            return Err(refuse(Problem::ShapesDiffer { left: x.shape.clone(), right: i.shape.clone() }));
        }
        if let Some(d) = (0..x.shape.rank()).find(|&d| d != axis && x.shape[d] != i.shape[d]) {
            let text = format!(
                "the extents at axis {d} are {} and {}; they must be equal at every axis but {axis}",
                x.shape[d], i.shape[d]
            );
            return Err(refuse(Problem::Constraint(text)));
        }
        Ok((self.moveaxis(axis, -1), indices.moveaxis(axis, -1).expand_dims(-1)))
    }

    /// Element by element: the element whose index along the axis the tensor of indices gives.
    #[track_caller]
    pub fn take_along_axis(&self, indices: &Tensor, axis: impl Index) -> Tensor {
        self.take_along_axis_with(indices, axis, IndexMode::Checked)
    }

    /// [`Tensor::take_along_axis`] with a mode for indices out of range.
    #[track_caller]
    pub fn take_along_axis_with(&self, indices: &Tensor, axis: impl Index, mode: IndexMode) -> Tensor {
        let dim = attempt!(self.one_axis("take_along_axis", axis, Loc::caller()));
        let (operand, indices) = attempt!(self.along_last("take_along_axis", indices, dim));
        let last = attempt!(operand.rank()) - 1;
        apply(Gather { index_dims: smallvec![last], batch_dims: last, mode }, &[&operand, &indices])
            .moveaxis(-1, dim)
    }

    /// The updates added element by element where [`Tensor::take_along_axis`] would read.
    #[track_caller]
    pub fn scatter_add(&self, axis: impl Index, indices: &Tensor, updates: &Tensor) -> Tensor {
        self.scatter_along(ScatterKind::Add, axis, indices, updates, IndexMode::Checked)
    }

    /// The updates written element by element where [`Tensor::take_along_axis`] would read; of several the last stays.
    #[track_caller]
    pub fn scatter_set(&self, axis: impl Index, indices: &Tensor, updates: &Tensor) -> Tensor {
        self.scatter_along(ScatterKind::Set, axis, indices, updates, IndexMode::Checked)
    }

    /// [`Tensor::scatter_add`] or [`Tensor::scatter_set`] with a mode for indices out of range.
    #[track_caller]
    pub fn scatter_along(
        &self,
        kind: ScatterKind,
        axis: impl Index,
        indices: &Tensor,
        updates: &Tensor,
        mode: IndexMode,
    ) -> Tensor {
        let dim = attempt!(self.one_axis("scatter", axis, Loc::caller()));
        let (operand, indices) = attempt!(self.along_last("scatter", indices, dim));
        let last = attempt!(operand.rank()) - 1;
        let op = Scatter { kind, index_dims: smallvec![last], batch_dims: last, mode };
        apply(op, &[&operand, &indices, &updates.moveaxis(dim, -1)]).moveaxis(-1, dim)
    }

    /// The updates added to the slices at the indices along an axis: `updates` has the shape that
    /// [`Tensor::take`] would give.
    #[track_caller]
    pub fn index_add(&self, axis: impl Index, indices: &Tensor, updates: &Tensor) -> Tensor {
        self.index_write(ScatterKind::Add, axis, indices, updates, IndexMode::Checked)
    }

    /// The updates in place of the slices at the indices along an axis; of several the last stays.
    #[track_caller]
    pub fn index_set(&self, axis: impl Index, indices: &Tensor, updates: &Tensor) -> Tensor {
        self.index_write(ScatterKind::Set, axis, indices, updates, IndexMode::Checked)
    }

    /// [`Tensor::index_add`] or [`Tensor::index_set`] with a mode for indices out of range.
    #[track_caller]
    pub fn index_write(
        &self,
        kind: ScatterKind,
        axis: impl Index,
        indices: &Tensor,
        updates: &Tensor,
        mode: IndexMode,
    ) -> Tensor {
        let at = Loc::caller();
        let dim = attempt!(self.one_axis("index_write", axis, at));
        let (leading, rank) = (attempt!(indices.rank()), attempt!(updates.rank()));
        if rank + 1 != leading + attempt!(self.rank()) {
            let types = [attempt!(self.ty()), attempt!(indices.ty()), attempt!(updates.ty())];
            let text =
                "updates must have the shape that take with these indices gives; reshape them".to_string();
            return Tensor::failed(Error::op("index_write", &types, Problem::Constraint(text), at));
        }
        let rest = (0..dim).chain(dim + leading..rank);
        let updates = updates.permute_to((dim..dim + leading).chain(rest).collect(), at);
        let op = Scatter { kind, index_dims: smallvec![dim], batch_dims: 0, mode };
        apply(op, &[self, &indices.expand_dims(-1), &updates])
    }

    /// `count` elements from a computed start along an axis. A start that does not leave room is moved to the
    /// nearest that does.
    #[track_caller]
    pub fn dynamic_slice(&self, axis: impl Index, start: &Tensor, count: usize) -> Tensor {
        let dim = attempt!(self.one_axis("dynamic_slice", axis, Loc::caller()));
        let shape = attempt!(self.shape());
        let sizes: Shape = (0..shape.rank()).map(|d| if d == dim { count } else { shape[d] }).collect();
        let zero = Tensor::zeros(attempt!(start.dtype()), []);
        let starts: Vec<&Tensor> = (0..sizes.rank()).map(|d| if d == dim { start } else { &zero }).collect();
        self.dynamic_slice_with(&starts, sizes, IndexMode::Clip)
    }

    /// The box of these sizes from a computed start along each axis, with a mode for boxes that leave this tensor.
    #[track_caller]
    pub fn dynamic_slice_with(&self, starts: &[&Tensor], sizes: impl Into<Shape>, mode: IndexMode) -> Tensor {
        let op = DynamicSlice { sizes: sizes.into().iter().copied().collect(), mode };
        let operands: Vec<&Tensor> = [self].into_iter().chain(starts.iter().copied()).collect();
        apply(op, &operands)
    }

    /// The update written from a computed start along an axis, moved as [`Tensor::dynamic_slice`] moves it.
    #[track_caller]
    pub fn dynamic_update_slice(&self, axis: impl Index, start: &Tensor, update: &Tensor) -> Tensor {
        let dim = attempt!(self.one_axis("dynamic_update_slice", axis, Loc::caller()));
        let zero = Tensor::zeros(attempt!(start.dtype()), []);
        let rank = attempt!(self.rank());
        let starts: Vec<&Tensor> = (0..rank).map(|d| if d == dim { start } else { &zero }).collect();
        self.dynamic_update_slice_with(&starts, update, IndexMode::Clip)
    }

    /// The update written from a computed start along each axis, with a mode for boxes that leave this tensor.
    #[track_caller]
    pub fn dynamic_update_slice_with(&self, starts: &[&Tensor], update: &Tensor, mode: IndexMode) -> Tensor {
        let operands: Vec<&Tensor> = [self, update].into_iter().chain(starts.iter().copied()).collect();
        apply(DynamicUpdateSlice { mode }, &operands)
    }

    /// The elements at index tuples: the last axis of `indices` counts the leading axes of this tensor.
    #[track_caller]
    pub fn gather_nd(&self, indices: &Tensor, mode: IndexMode) -> Tensor {
        let at = Loc::caller();
        let count = attempt!(indices.shape()).last().copied().unwrap_or(0);
        let op = Gather { index_dims: (0..count).collect::<Dims>(), batch_dims: 0, mode };
        attempt!(apply_all(op.into(), &[self, indices], at)).remove(0)
    }

    /// Sums of the slices along axis 0 that belong to each of `count` segments, whose numbers `segments` gives.
    #[track_caller]
    pub fn segment_sum(&self, segments: &Tensor, count: usize) -> Tensor {
        let ty = attempt!(self.ty());
        let shape: Shape = [count].into_iter().chain(ty.shape.iter().copied().skip(1)).collect();
        Tensor::zeros(ty.dtype, shape).index_add(0, segments, self)
    }
}

//! Putting tensors together, taking them apart, and repeating them.

use crate::apply::apply_all;
use crate::error::Error;
use crate::ops::axes::Index;
use crate::ops::number::Operand;
use crate::tensor::{Tensor, attempt};
use pullback_ir::ops::shape::broadcast::Broadcast;
use pullback_ir::ops::shape::concat::Concat;
use pullback_ir::ops::shape::pad::{Amounts, Pad};
use pullback_ir::{Dims, Loc, Op, Problem, Shape, TensorType};

/// Tensors side by side along an axis.
#[track_caller]
pub fn concat(tensors: &[Tensor], axis: impl Index) -> Tensor {
    let at = Loc::caller();
    let Some(first) = tensors.first() else {
        return Tensor::failed(Error::invalid("concat", "there is no tensor; give at least one", at));
    };
    let dim = attempt!(first.one_axis("concat", axis, at));
    if tensors.len() == 1 {
        return first.clone();
    }
    let operands: Vec<&Tensor> = tensors.iter().collect();
    attempt!(apply_all(Concat { dim }.into(), &operands, at)).remove(0)
}

/// Tensors of one shape along a new axis, which becomes axis `axis` of the result.
#[track_caller]
pub fn stack(tensors: &[Tensor], axis: impl Index) -> Tensor {
    let at = Loc::caller();
    let Some(first) = tensors.first() else {
        return Tensor::failed(Error::invalid("stack", "there is no tensor; give at least one", at));
    };
    let ty = attempt!(first.ty());
    let rank = ty.shape.rank() + 1;
    let axis = match crate::ops::axes::axis(axis, rank) {
        Ok(axis) => axis,
        Err(problem) => return Tensor::failed(Error::op("stack", &[ty], problem, at)),
    };
    let mut slices = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        let other = attempt!(tensor.ty());
        if other.shape != ty.shape {
            let problem = Problem::ShapesDiffer { left: ty.shape.clone(), right: other.shape.clone() };
            return Tensor::failed(Error::op("stack", &[ty, other], problem, at));
        }
        slices.push(tensor.expand_dims(axis));
    }
    concat(&slices, axis)
}

impl Tensor {
    /// Parts of these extents along an axis, in order. Together they must be the whole: else each part, of which there
    /// is at least one then, carries the error.
    #[track_caller]
    pub fn split(&self, axis: impl Index, extents: &[usize]) -> Vec<Tensor> {
        let dim = match self.check_split(axis, extents, Loc::caller()) {
            Ok(dim) => dim,
            Err(error) => return vec![Tensor::failed(error); extents.len().max(1)],
        };
        let mut parts = Vec::with_capacity(extents.len());
        let mut start = 0;
        for &extent in extents {
            parts.push(self.narrow(dim, start, extent));
            start += extent;
        }
        parts
    }

    fn check_split(&self, axis: impl Index, extents: &[usize], at: Loc) -> Result<usize, Error> {
        let dim = self.one_axis("split", axis, at)?;
        let ty = self.ty()?;
        let sum = extents.iter().try_fold(0usize, |sum, &extent| sum.checked_add(extent));
        if sum == Some(ty.shape[dim]) {
            return Ok(dim);
        }
        let sum = sum.map_or_else(|| "more than can be counted".to_string(), |sum| sum.to_string());
        let text = format!(
            "parts {extents:?} are {sum} in all, and axis {dim} has extent {}; the sum must be the extent, or use narrow \
             for parts of it",
            ty.shape[dim]
        );
        Err(Error::op("split", &[ty], Problem::Constraint(text), at))
    }

    /// `count` equal parts along an axis.
    #[track_caller]
    pub fn chunk(&self, axis: impl Index, count: usize) -> Result<Vec<Tensor>, Error> {
        let at = Loc::caller();
        let dim = self.one_axis("chunk", axis, at)?;
        let extent = self.shape()?[dim];
        if count == 0 || extent % count != 0 {
            let text =
                format!("an extent of {extent} has no {count} equal parts; choose a divisor, or use split");
            return Err(Error::op("chunk", &[self.ty()?], Problem::Constraint(text), at));
        }
        Ok(self.split(dim, &vec![extent / count; count]))
    }

    /// The slices along an axis, without it.
    #[track_caller]
    pub fn unbind(&self, axis: impl Index) -> Result<Vec<Tensor>, Error> {
        let dim = self.one_axis("unbind", axis, Loc::caller())?;
        let mut slices = Vec::new();
        for i in 0..self.shape()?[dim] {
            slices.push(self.index_axis(dim, i));
        }
        Ok(slices)
    }

    /// The whole tensor repeated, `counts[i]` times along axis `i`.
    #[track_caller]
    pub fn tile(&self, counts: &[usize]) -> Tensor {
        let ty = attempt!(self.ty());
        if counts.len() != ty.shape.rank() {
            let problem = Problem::AttributeLength {
                attribute: "counts",
                expected: ty.shape.rank(),
                found: counts.len(),
            };
            return Tensor::failed(Error::op("tile", &[ty], problem, Loc::caller()));
        }
        let apart: Dims = counts.iter().zip(ty.shape.iter()).flat_map(|(&c, &n)| [c, n]).collect();
        let whole = counts.iter().zip(ty.shape.iter()).map(|(&c, &n)| c.saturating_mul(n)).collect();
        let dims = (0..ty.shape.rank()).map(|d| 2 * d + 1).collect();
        self.repeat_to(Shape::new(&apart), dims, whole, Loc::caller())
    }

    /// Each element repeated `count` times along an axis.
    #[track_caller]
    pub fn repeat(&self, axis: impl Index, count: usize) -> Tensor {
        let dim = attempt!(self.one_axis("repeat", axis, Loc::caller()));
        let shape = attempt!(self.shape());
        let mut apart = Dims::from_slice(shape);
        apart.insert(dim + 1, count);
        let mut whole = Dims::from_slice(shape);
        whole[dim] = whole[dim].saturating_mul(count);
        let dims = (0..shape.rank()).map(|d| if d > dim { d + 1 } else { d }).collect();
        self.repeat_to(Shape::new(&apart), dims, Shape::new(&whole), Loc::caller())
    }

    fn repeat_to(&self, apart: Shape, dims: Dims, whole: Shape, at: Loc) -> Tensor {
        let repeated = attempt!(apply_all(Broadcast { shape: apart, dims }.into(), &[self], at)).remove(0);
        repeated.reshape_to(whole, at)
    }

    /// `amounts[i]` elements of `value` before and after along axis `i`; negative amounts cut elements off.
    #[track_caller]
    pub fn pad(&self, amounts: &[(i64, i64)], value: impl Into<Operand>) -> Tensor {
        let interior = Dims::from_elem(0, amounts.len());
        let (low, high) = amounts.iter().copied().unzip::<i64, i64, Amounts, Amounts>();
        self.pad_with(Pad { low, high, interior }, value.into(), Loc::caller())
    }

    /// `interior[i]` elements of `value` between neighbours along axis `i`.
    #[track_caller]
    pub fn dilate(&self, interior: &[usize], value: impl Into<Operand>) -> Tensor {
        let none = Amounts::from_elem(0, interior.len());
        let pad = Pad { low: none.clone(), high: none, interior: Dims::from_slice(interior) };
        self.pad_with(pad, value.into(), Loc::caller())
    }

    fn pad_with(&self, pad: Pad, value: Operand, at: Loc) -> Tensor {
        let ty = attempt!(self.ty());
        let value = match value {
            Operand::Number(number) if ty.dtype == pullback_ir::DType::Bool => {
                let filled = !matches!(number, crate::Number::Int(0));
                Tensor::full(filled, Shape::scalar())
            }
            value => attempt!(value.beside(ty.dtype, at)),
        };
        let filling = attempt!(value.ty());
        if let Err(problem) = Op::from(pad.clone()).infer(&[ty, filling]) {
            return Tensor::failed(Error::op("pad", &[ty, filling], problem, at));
        }
        attempt!(apply_all(pad.into(), &[self, &value], at)).remove(0)
    }

    /// Elements moved by `shift` places along an axis; those that leave at one end come in at the other.
    #[track_caller]
    pub fn roll(&self, axis: impl Index, shift: i64) -> Tensor {
        let dim = attempt!(self.one_axis("roll", axis, Loc::caller()));
        let extent = attempt!(self.shape())[dim];
        let split =
            if extent == 0 { 0 } else { (extent - shift.rem_euclid(extent as i64) as usize) % extent };
        if split == 0 {
            return self.clone();
        }
        concat(&[self.narrow(dim, split, extent - split), self.narrow(dim, 0, split)], dim)
    }

    /// Elements moved by `shift` places along an axis; zeros come in.
    #[track_caller]
    pub fn shift(&self, axis: impl Index, shift: i64) -> Tensor {
        let dim = attempt!(self.one_axis("shift", axis, Loc::caller()));
        let ty = attempt!(self.ty());
        let shift = shift.clamp(-(ty.shape[dim] as i64), ty.shape[dim] as i64);
        let mut amounts = vec![(0, 0); ty.shape.rank()];
        amounts[dim] = (shift, -shift);
        let zero = Tensor::zeros(ty.dtype, Shape::scalar());
        self.pad(&amounts, zero)
    }

    /// Differences of neighbours: element `i + 1` less element `i` along an axis.
    #[track_caller]
    pub fn diff(&self, axis: impl Index) -> Tensor {
        let dim = attempt!(self.one_axis("diff", axis, Loc::caller()));
        let TensorType { shape, .. } = attempt!(self.ty());
        let n = shape[dim].saturating_sub(1);
        self.narrow(dim, shape[dim] - n, n) - self.narrow(dim, 0usize, n)
    }

    /// All axes from `first` to `last`, both included, merged into one; `last` must not come before `first`.
    #[track_caller]
    pub fn flatten(&self, first: impl Index, last: impl Index) -> Tensor {
        let at = Loc::caller();
        let first = attempt!(self.one_axis("flatten", first, at));
        let last = attempt!(self.one_axis("flatten", last, at));
        let ty = attempt!(self.ty());
        if last < first {
            let text = format!("the last axis {last} comes before the first axis {first}; exchange them");
            return Tensor::failed(Error::op("flatten", &[ty], Problem::Constraint(text), at));
        }
        let shape = &ty.shape;
        let merged: usize = shape[first..=last].iter().product();
        let extents = shape[..first].iter().copied().chain([merged]).chain(shape[last + 1..].iter().copied());
        self.reshape_to(extents.collect(), at)
    }
}

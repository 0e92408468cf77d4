//! Other shapes over the same elements.

use crate::apply::{apply, apply_all};
use crate::error::Error;
use crate::ops::axes::{self, Axes, Extents, Index};
use crate::tensor::{Tensor, attempt};
use pullback_ir::ops::shape::reshape::Reshape;
use pullback_ir::ops::shape::transpose::Transpose;
use pullback_ir::{Dims, Loc, Problem, Shape};

impl Tensor {
    pub(crate) fn reshape_to(&self, shape: Shape, at: Loc) -> Tensor {
        if *attempt!(self.shape()) == shape {
            return self.clone();
        }
        attempt!(apply_all(Reshape { shape }.into(), &[self], at)).remove(0)
    }

    /// The same elements in row-major order under another shape, of which one extent may be -1.
    #[track_caller]
    pub fn reshape(&self, shape: impl Extents) -> Tensor {
        let ty = attempt!(self.ty());
        match axes::infer_extents(&shape, &ty.shape) {
            Ok(shape) => self.reshape_to(shape, Loc::caller()),
            Err(problem) => Tensor::failed(Error::op("reshape", &[ty], problem, Loc::caller())),
        }
    }

    /// The elements as a vector.
    #[track_caller]
    pub fn ravel(&self) -> Tensor {
        self.reshape_to(Shape::new(&[attempt!(self.size())]), Loc::caller())
    }

    /// Permuted axes: axis `i` of the result is axis `permutation[i]` of this tensor.
    #[track_caller]
    pub fn permute(&self, permutation: impl Axes) -> Tensor {
        let ty = attempt!(self.ty());
        let rank = ty.shape.rank();
        let refuse = |problem, at| Tensor::failed(Error::op("permute", &[ty], problem, at));
        match axes::axes(&permutation, rank) {
            Ok(permutation) if permutation.len() == rank => self.permute_to(permutation, Loc::caller()),
            Ok(short) => {
                let problem =
                    Problem::AttributeLength { attribute: "permutation", expected: rank, found: short.len() };
                refuse(problem, Loc::caller())
            }
            Err(problem) => refuse(problem, Loc::caller()),
        }
    }

    pub(crate) fn permute_to(&self, permutation: Dims, at: Loc) -> Tensor {
        if permutation.iter().enumerate().all(|(i, &p)| i == p) {
            return self.clone();
        }
        attempt!(apply_all(Transpose { permutation }.into(), &[self], at)).remove(0)
    }

    /// The axes in opposite order.
    #[track_caller]
    pub fn transpose(&self) -> Tensor {
        let rank = attempt!(self.rank());
        self.permute_to((0..rank).rev().collect(), Loc::caller())
    }

    /// The last two axes exchanged.
    #[track_caller]
    pub fn t(&self) -> Tensor {
        self.swapaxes(-2, -1)
    }

    /// Two axes exchanged.
    #[track_caller]
    pub fn swapaxes(&self, one: impl Index, other: impl Index) -> Tensor {
        let [one, other] = attempt!(self.two_axes("swapaxes", one, other, Loc::caller()));
        let mut permutation: Dims = (0..attempt!(self.rank())).collect();
        permutation.swap(one, other);
        self.permute_to(permutation, Loc::caller())
    }

    /// One axis moved, the others keeping their order.
    #[track_caller]
    pub fn moveaxis(&self, from: impl Index, to: impl Index) -> Tensor {
        let [from, to] = attempt!(self.two_axes("moveaxis", from, to, Loc::caller()));
        let mut permutation: Dims = (0..attempt!(self.rank())).filter(|&d| d != from).collect();
        permutation.insert(to, from);
        self.permute_to(permutation, Loc::caller())
    }

    pub(crate) fn one_axis(&self, name: &str, axis: impl Index, at: Loc) -> Result<usize, Error> {
        let ty = self.ty()?;
        axes::axis(axis, ty.shape.rank()).map_err(|problem| Error::op(name, &[ty], problem, at))
    }

    fn two_axes(&self, name: &str, one: impl Index, other: impl Index, at: Loc) -> Result<[usize; 2], Error> {
        Ok([self.one_axis(name, one, at)?, self.one_axis(name, other, at)?])
    }

    /// A new axis of extent 1, which becomes axis `axis` of the result.
    #[track_caller]
    pub fn expand_dims(&self, axis: impl Index) -> Tensor {
        let ty = attempt!(self.ty());
        match axes::axis(axis, ty.shape.rank() + 1) {
            Ok(axis) => {
                let mut extents = Dims::from_slice(&ty.shape);
                extents.insert(axis, 1);
                self.reshape_to(Shape::new(&extents), Loc::caller())
            }
            Err(problem) => Tensor::failed(Error::op("expand_dims", &[ty], problem, Loc::caller())),
        }
    }

    /// Without any axis of extent 1.
    #[track_caller]
    pub fn squeeze(&self) -> Tensor {
        let shape = attempt!(self.shape()).iter().copied().filter(|&n| n != 1).collect();
        self.reshape_to(shape, Loc::caller())
    }

    /// Without these axes, which must have extent 1.
    #[track_caller]
    pub fn squeeze_axes(&self, axes: impl Axes) -> Tensor {
        let dims = attempt!(self.reduced_axes("squeeze", &axes, Loc::caller()));
        let ty = attempt!(self.ty());
        match dims.iter().find(|&&d| ty.shape[d] != 1) {
            None => self.reshape_to(ty.shape.without(&dims), Loc::caller()),
            Some(&axis) => {
                let text = format!(
                    "axis {axis} has extent {} and not 1; only axes of extent 1 can go",
                    ty.shape[axis]
                );
                Tensor::failed(Error::op("squeeze", &[ty], Problem::Constraint(text), Loc::caller()))
            }
        }
    }

    /// Opposite order along the axes.
    #[track_caller]
    pub fn flip(&self, axes: impl Axes) -> Tensor {
        let dims = attempt!(self.reduced_axes("flip", &axes, Loc::caller()));
        if dims.is_empty() {
            return self.clone();
        }
        apply(pullback_ir::ops::shape::reverse::Reverse { dims }, &[self])
    }
}

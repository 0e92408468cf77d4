//! Reductions. Each comes in three forms: over everything, over axes, and over axes that stay with extent 1.

use crate::apply::apply;
use crate::error::Error;
use crate::ops::axes::{self, Axes, Index};
use crate::tensor::{Tensor, attempt};
use pullback_ir::ops::reduce::arg_reduce::{ArgReduce, Extreme};
use pullback_ir::ops::reduce::reduce::{Reduce, Reducer};
use pullback_ir::{DType, Dims, Loc, Op, Shape};

/// Defines a reduction over everything and over kept axes from the one over axes.
macro_rules! reduction_forms {
    ($($(#[$doc:meta])* $all:ident $axes:ident $keep:ident;)*) => {
        impl Tensor {
            $($(#[$doc])*
            /// Over all elements.
            #[track_caller]
            pub fn $all(&self) -> Tensor {
                self.$axes(..)
            }

            $(#[$doc])*
            /// Over the axes, which stay with extent 1.
            #[track_caller]
            pub fn $keep(&self, axes: impl Axes) -> Tensor {
                let kept = attempt!(self.kept_shape(stringify!($all), &axes, Loc::caller()));
                self.$axes(axes).reshape_to(kept, Loc::caller())
            })*
        }
    };
}
pub(crate) use reduction_forms;

macro_rules! reductions {
    ($($(#[$doc:meta])* $all:ident $axes:ident $keep:ident = $reducer:ident;)*) => {
        impl Tensor {
            $($(#[$doc])*
            /// Over the axes.
            #[track_caller]
            pub fn $axes(&self, axes: impl Axes) -> Tensor {
                let dims = attempt!(self.reduced_axes(stringify!($all), &axes, Loc::caller()));
                self.reduce(stringify!($all), Reducer::$reducer, dims)
            })*
        }
        reduction_forms! { $($(#[$doc])* $all $axes $keep;)* }
    };
}

reductions! {
    /// Sum.
    sum sum_axes sum_keepdims = Sum;
    /// Product.
    prod prod_axes prod_keepdims = Prod;
    /// The largest element; NaN if there is one. Equal ones share the slope evenly.
    max max_axes max_keepdims = Max;
    /// The smallest element; NaN if there is one. Equal ones share the slope evenly.
    min min_axes min_keepdims = Min;
    /// Whether all are true; of integers, the bitwise and.
    all all_axes all_keepdims = And;
    /// Whether any is true; of integers, the bitwise or.
    any any_axes any_keepdims = Or;
}

impl Tensor {
    #[track_caller]
    fn reduce(&self, name: &str, reducer: Reducer, dims: Dims) -> Tensor {
        let ty = attempt!(self.ty());
        let op = Reduce { reducer, dims: dims.clone() };
        if let Err(problem) = Op::from(op.clone()).infer(&[ty]) {
            return Tensor::failed(Error::op(name, &[ty], problem, Loc::caller()));
        }
        if dims.is_empty() { self.clone() } else { apply(op, &[self]) }
    }

    /// The axes, ascending and counted from the front.
    pub(crate) fn reduced_axes(&self, name: &str, axes: &impl Axes, at: Loc) -> Result<Dims, Error> {
        let ty = self.ty()?;
        axes::sorted_axes(axes, ty.shape.rank()).map_err(|problem| Error::op(name, &[ty], problem, at))
    }

    /// The shape with an extent of 1 at the axes.
    pub(crate) fn kept_shape(&self, name: &str, axes: &impl Axes, at: Loc) -> Result<Shape, Error> {
        let dims = self.reduced_axes(name, axes, at)?;
        let shape = self.shape()?;
        Ok(shape.iter().enumerate().map(|(d, &n)| if dims.contains(&d) { 1 } else { n }).collect())
    }

    /// Number of elements along the axes.
    pub(crate) fn reduced_count(&self, name: &str, axes: &impl Axes, at: Loc) -> Result<usize, Error> {
        let dims = self.reduced_axes(name, axes, at)?;
        let shape = self.shape()?;
        Ok(dims.iter().map(|&d| shape[d]).product())
    }

    #[track_caller]
    fn arg_reduce(&self, name: &str, extreme: Extreme, axis: impl Index) -> Tensor {
        let at = Loc::caller();
        let dim = attempt!(self.one_axis(name, axis, at));
        let ty = attempt!(self.ty());
        let op = Op::from(ArgReduce { extreme, dim });
        match op.infer(&[ty]) {
            Ok(_) => apply(op, &[self]),
            Err(problem) => Tensor::failed(Error::op(name, &[ty], problem, at)),
        }
    }

    /// Index (i64) of the largest element along the axis: the first of equal ones, the first NaN if there is one.
    #[track_caller]
    pub fn argmax(&self, axis: impl Index) -> Tensor {
        self.arg_reduce("argmax", Extreme::Max, axis)
    }

    /// Index (i64) of the smallest element along the axis: the first of equal ones, the first NaN if there is one.
    #[track_caller]
    pub fn argmin(&self, axis: impl Index) -> Tensor {
        self.arg_reduce("argmin", Extreme::Min, axis)
    }

    /// Number (i64) of elements that are not zero.
    #[track_caller]
    pub fn count_nonzero(&self) -> Tensor {
        match attempt!(self.dtype()) {
            DType::Bool => self.to_dtype(DType::I64).sum(),
            DType::I32 | DType::I64 | DType::U32 | DType::U64 | DType::F32 | DType::F64 => {
                self.ne(0).to_dtype(DType::I64).sum()
            }
        }
    }
}

//! Boxes, and what users write for them: bounds along axes, and indices.

use crate::apply::apply_all;
use crate::error::Error;
use crate::ops::axes::Index;
use crate::tensor::{Tensor, attempt};
use pullback_ir::ops::shape::slice::Slice;
use pullback_ir::{Dims, Loc, Problem, Shape};
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo};

/// What is taken along one axis.
#[derive(Clone, Debug)]
pub enum Span {
    /// From the first bound to before the second; negative bounds count from the end; `None`: the end.
    Range(i64, Option<i64>),
    /// One index, and the axis goes; a negative one counts from the end.
    At(i64),
    /// One index that is computed, an integer of rank 0, and the axis goes. Counted from the front alone.
    Computed(Tensor),
}

impl<I: Index> From<I> for Span {
    fn from(at: I) -> Span {
        Span::At(at.index())
    }
}
impl From<&Tensor> for Span {
    fn from(at: &Tensor) -> Span {
        Span::Computed(at.clone())
    }
}
impl From<Tensor> for Span {
    fn from(at: Tensor) -> Span {
        Span::Computed(at)
    }
}
impl<I: Index> From<Range<I>> for Span {
    fn from(range: Range<I>) -> Span {
        Span::Range(range.start.index(), Some(range.end.index()))
    }
}
impl<I: Index> From<RangeInclusive<I>> for Span {
    fn from(range: RangeInclusive<I>) -> Span {
        // The element after the last one, which counted from the end is the end itself.
        let end = range.end().index();
        Span::Range(range.start().index(), if end == -1 { None } else { Some(end.saturating_add(1)) })
    }
}
impl<I: Index> From<RangeFrom<I>> for Span {
    fn from(range: RangeFrom<I>) -> Span {
        Span::Range(range.start.index(), None)
    }
}
impl<I: Index> From<RangeTo<I>> for Span {
    fn from(range: RangeTo<I>) -> Span {
        Span::Range(0, Some(range.end.index()))
    }
}
impl From<RangeFull> for Span {
    fn from(_: RangeFull) -> Span {
        Span::Range(0, None)
    }
}

/// Spans of the leading axes: one span, `3`, `1..` or `&i`, or a tuple of them, `(1.., .., -1)`. Axes not mentioned
/// are kept whole; `()` mentions none.
pub trait Slices {
    /// One span per leading axis.
    fn spans(self) -> Vec<Span>;
}

macro_rules! slices {
    ($($($t:ident)*;)*) => {
        $(impl<$($t: Into<Span>),*> Slices for ($($t,)*) {
            #[allow(non_snake_case)]
            fn spans(self) -> Vec<Span> {
                let ($($t,)*) = self;
                vec![$($t.into()),*]
            }
        })*
    };
}

slices! { A; A B; A B C; A B C D; A B C D E; A B C D E F; }

impl Slices for () {
    fn spans(self) -> Vec<Span> {
        Vec::new()
    }
}

macro_rules! single {
    ($([$($generics:tt)*] $t:ty;)*) => {
        $(impl<$($generics)*> Slices for $t {
            fn spans(self) -> Vec<Span> {
                vec![self.into()]
            }
        })*
    };
}

single! {
    [I: Index] I; [] &Tensor; [] Tensor; [] Span; [I: Index] Range<I>; [I: Index] RangeInclusive<I>;
    [I: Index] RangeFrom<I>; [I: Index] RangeTo<I>; [] RangeFull;
}

impl Tensor {
    pub(crate) fn slice_to(&self, start: Dims, limit: Dims, stride: Dims, at: Loc) -> Tensor {
        let shape = attempt!(self.shape());
        if start.iter().all(|&s| s == 0) && *limit == **shape && stride.iter().all(|&s| s == 1) {
            return self.clone();
        }
        attempt!(apply_all(Slice { start, limit, stride }.into(), &[self], at)).remove(0)
    }

    /// `count` elements from `start` along an axis.
    #[track_caller]
    pub fn narrow(&self, axis: impl Index, start: usize, count: usize) -> Tensor {
        let at = Loc::caller();
        let dim = attempt!(self.one_axis("narrow", axis, at));
        let ty = attempt!(self.ty());
        let extent = ty.shape[dim];
        if start.checked_add(count).is_none_or(|end| end > extent) {
            let text = format!(
                "{count} elements from {start} are not within axis {dim} of extent {extent}; start plus count must \
                 be at most the extent"
            );
            return Tensor::failed(Error::op("narrow", &[ty], Problem::Constraint(text), at));
        }
        let mut low = Dims::from_elem(0, ty.shape.rank());
        let mut high = Dims::from_slice(&ty.shape);
        (low[dim], high[dim]) = (start, start + count);
        self.slice_to(low, high, Dims::from_elem(1, ty.shape.rank()), at)
    }

    /// Every `step`-th element along an axis, from the first.
    #[track_caller]
    pub fn stride(&self, axis: impl Index, step: usize) -> Tensor {
        let at = Loc::caller();
        let dim = attempt!(self.one_axis("stride", axis, at));
        let ty = attempt!(self.ty());
        let mut stride = Dims::from_elem(1, ty.shape.rank());
        stride[dim] = step;
        self.slice_to(Dims::from_elem(0, ty.shape.rank()), Dims::from_slice(&ty.shape), stride, at)
    }

    /// The slice at an index of an axis, which goes; a negative index counts from the end.
    #[track_caller]
    pub fn index_axis(&self, axis: impl Index, index: impl Index) -> Tensor {
        let at = Loc::caller();
        let dim = attempt!(self.one_axis("index_axis", axis, at));
        let ty = attempt!(self.ty());
        match crate::ops::axes::axis(index, ty.shape[dim]) {
            Ok(i) => {
                let shape: Shape = ty.shape.without(&[dim]);
                self.narrow(dim, i, 1).reshape_to(shape, at)
            }
            Err(_) => {
                let text = format!(
                    "index {} is not within axis {dim} of extent {}; indices go from 0, or from the end with -1",
                    index.index(),
                    ty.shape[dim]
                );
                Tensor::failed(Error::op("index_axis", &[ty], Problem::Constraint(text), at))
            }
        }
    }
}

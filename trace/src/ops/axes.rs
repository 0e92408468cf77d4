//! Axes and extents as users write them: negative axes count from the end, an extent of -1 is inferred.

use pullback_ir::ops::shape::pad::Amounts;
use pullback_ir::{Dims, Problem, Shape};
use smallvec::{SmallVec, smallvec};
use std::ops::RangeFull;

/// An integer that can be an axis, an extent or an index; negative ones count from the end.
pub trait Index: Copy {
    /// The integer; one that does not fit is out of every range anyway.
    fn index(self) -> i64;
}

macro_rules! index {
    ($($t:ty)*) => {
        $(impl Index for $t {
            fn index(self) -> i64 {
                i64::try_from(self).unwrap_or(i64::MAX)
            }
        })*
    };
}

index! { i32 i64 isize u32 usize }

/// One axis, or several: `-1`, `[0, 2]`, a slice, or `..` for all.
pub trait Axes {
    /// The axes as written, or `None` for all.
    fn axes(&self) -> Option<SmallVec<[i64; 4]>>;
}

impl<I: Index> Axes for I {
    fn axes(&self) -> Option<SmallVec<[i64; 4]>> {
        Some(smallvec![self.index()])
    }
}

impl<I: Index, const N: usize> Axes for [I; N] {
    fn axes(&self) -> Option<SmallVec<[i64; 4]>> {
        Some(self.iter().map(|i| i.index()).collect())
    }
}

impl<I: Index> Axes for &[I] {
    fn axes(&self) -> Option<SmallVec<[i64; 4]>> {
        Some(self.iter().map(|i| i.index()).collect())
    }
}

impl Axes for RangeFull {
    fn axes(&self) -> Option<SmallVec<[i64; 4]>> {
        None
    }
}

/// The extents of a shape; one of them may be -1.
pub trait Extents {
    /// The extents as written.
    fn extents(&self) -> Amounts;
}

impl<I: Index, const N: usize> Extents for [I; N] {
    fn extents(&self) -> Amounts {
        self.iter().map(|i| i.index()).collect()
    }
}

impl<I: Index> Extents for &[I] {
    fn extents(&self) -> Amounts {
        self.iter().map(|i| i.index()).collect()
    }
}

impl Extents for &Shape {
    fn extents(&self) -> Amounts {
        self.iter().map(|i| i.index()).collect()
    }
}

impl Extents for Shape {
    fn extents(&self) -> Amounts {
        (&self).extents()
    }
}

/// The axis counted from the front.
pub(crate) fn axis(axis: impl Index, rank: usize) -> Result<usize, Problem> {
    let axis = axis.index();
    let counted = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(counted).ok().filter(|&a| a < rank).ok_or(Problem::AxisOutOfRange { axis, rank })
}

/// The axes counted from the front, in the order written.
pub(crate) fn axes(written: &impl Axes, rank: usize) -> Result<Dims, Problem> {
    let Some(written) = written.axes() else { return Ok((0..rank).collect()) };
    let mut dims = Dims::new();
    for a in written {
        let axis = axis(a, rank)?;
        if dims.contains(&axis) {
            return Err(Problem::AxisRepeated { axis });
        }
        dims.push(axis);
    }
    Ok(dims)
}

/// The axes counted from the front, ascending.
pub(crate) fn sorted_axes(written: &impl Axes, rank: usize) -> Result<Dims, Problem> {
    let mut dims = axes(written, rank)?;
    dims.sort_unstable();
    Ok(dims)
}

/// The shape written, with an extent of -1 chosen so that it has as many elements as `from`.
pub(crate) fn infer_extents(written: &impl Extents, from: &Shape) -> Result<Shape, Problem> {
    let written = written.extents();
    let unknown = written.iter().position(|&e| e == -1);
    let refuse =
        |why: &str| Err(Problem::Constraint(format!("cannot reshape {from} to {:?}: {why}", &written[..])));
    if written.iter().enumerate().any(|(i, &e)| e < 0 && Some(i) != unknown) {
        return refuse("give extents of at least 0, and at most one -1");
    }
    let Some(unknown) = unknown else { return Ok(written.iter().map(|&e| e as usize).collect()) };
    let known = written.iter().filter(|&&e| e != -1).try_fold(1usize, |n, &e| n.checked_mul(e as usize));
    match known {
        Some(known) if known > 0 && from.elements().is_multiple_of(known) => {
            let inferred = from.elements() / known;
            Ok(written
                .iter()
                .enumerate()
                .map(|(i, &e)| if i == unknown { inferred } else { e as usize })
                .collect())
        }
        Some(_) | None => {
            refuse("the other extents do not divide the number of elements, so -1 stands for nothing")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_axes_count_from_the_end() {
        assert_eq!(axis(-1, 3), Ok(2));
        assert_eq!(axis(-4, 3), Err(Problem::AxisOutOfRange { axis: -4, rank: 3 }));
        assert_eq!(axis(0, 0), Err(Problem::AxisOutOfRange { axis: 0, rank: 0 }));
        assert_eq!(axes(&[-1, 2], 3), Err(Problem::AxisRepeated { axis: 2 }));
        assert_eq!(sorted_axes(&[-1, 0], 3).unwrap().as_slice(), [0, 2]);
        assert_eq!(axes(&.., 2).unwrap().as_slice(), [0, 1]);
    }

    #[test]
    fn one_extent_is_inferred() {
        let from = Shape::new(&[2, 6]);
        assert_eq!(infer_extents(&[3, -1], &from), Ok(Shape::new(&[3, 4])));
        assert_eq!(infer_extents(&[12usize], &from), Ok(Shape::new(&[12])));
        assert!(infer_extents(&[-1, -1], &from).is_err());
        assert!(infer_extents(&[5, -1], &from).is_err());
        assert!(infer_extents(&[0, -1], &Shape::new(&[0])).is_err());
        assert_eq!(infer_extents(&[-1, 3], &Shape::new(&[0, 3])), Ok(Shape::new(&[0, 3])));
    }
}

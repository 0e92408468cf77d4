//! Index of the extreme element.

use crate::array::{ArrayError, Element, with_element};
use crate::view::{View, ViewMut};
use pullback_ir::ops::reduce::arg_reduce::{ArgReduce, Extreme};

pub(in crate::eval) fn evaluate(
    op: &ArgReduce,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), ArrayError> {
    let shape = x.shape();
    let extent = shape[op.dim];
    let inner: usize = shape[op.dim + 1..].iter().product();
    with_element!(x.dtype(), T => {
        let (x, out) = (x.as_slice::<T>()?, out.as_mut_slice::<i64>()?);
        for (position, out) in out.iter_mut().enumerate() {
            let start = position / inner * inner * extent + position % inner;
            *out = first_extreme((0..extent).map(|i| x[start + i * inner]), op.extreme);
        }
    });
    Ok(())
}

/// The first NaN if there is one, else the first of the largest or smallest.
#[allow(clippy::eq_op)] // Only NaN differs from itself.
fn first_extreme<T: Element>(elements: impl Iterator<Item = T>, extreme: Extreme) -> i64 {
    let mut best: Option<(usize, T)> = None;
    for (i, x) in elements.enumerate() {
        let better = match (best, extreme) {
            (None, _) => true,
            (Some((_, b)), _) if b != b => false,
            (Some((_, b)), Extreme::Max) => x > b || x != x,
            (Some((_, b)), Extreme::Min) => x < b || x != x,
        };
        if better {
            best = Some((i, x));
        }
    }
    best.map_or(0, |(i, _)| i as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::eval::testing::{check, one};

    fn arg(extreme: Extreme, dim: usize, x: impl Into<Array>) -> Array {
        one(ArgReduce { extreme, dim }, &[x.into()])
    }

    #[test]
    fn first_extreme_or_first_nan() {
        check(arg(Extreme::Max, 0, [0.0f64, 3.0, 3.0]), 1i64);
        check(arg(Extreme::Min, 0, [2.0f64, -1.0, -1.0]), 1i64);
        check(arg(Extreme::Max, 0, [0.0f64, 1.0, f64::NAN, f64::NAN]), 2i64);
        check(arg(Extreme::Min, 0, [f64::NAN, f64::NEG_INFINITY]), 0i64);
        check(arg(Extreme::Max, 0, [-0.0f32, 0.0]), 0i64);
        check(arg(Extreme::Max, 0, [1u64, u64::MAX, 3]), 1i64);
        check(arg(Extreme::Max, 1, [[1, 5, 2], [7, 0, 7]]), [1i64, 0]);
        check(arg(Extreme::Min, 0, [[1, 5, 2], [7, 0, 7]]), [0i64, 1, 0]);
        check(arg(Extreme::Max, 1, [[0.0f32; 3]; 0]), [0i64; 0]);
    }
}

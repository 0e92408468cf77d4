//! All partial results of an associative function, in logarithmic depth.

use super::body::difference;
use super::steps::{Sequence, Steps};
use crate::apply::apply_all;
use crate::error::Error;
use crate::tensor::{Tensor, attempt};
use crate::transform::{Due, IntoOutput};
use crate::tree::{self, Tree};
use pullback_ir::ops::shape::concat::Concat;
use pullback_ir::ops::shape::reverse::Reverse;
use pullback_ir::{Dims, Loc, Shape};
use smallvec::smallvec;
use std::ops::Range;

/// The results of combining the slices of `xs` along axis 0 from the first to each: `x0`, `x0 * x1`,
/// `(x0 * x1) * x2`, ...
///
/// `combine` must be associative, which is not checked: the grouping is another one. It is given many slices at once,
/// stacked along axis 0, and must treat each pair of slices alone; so it is called about `2 log2(n)` times for `n`
/// slices, and the calls are ordinary ops, no loop. `xs` as for [`scan`](super::scan); in reverse order the combining
/// starts at the last slice, which is then the left operand.
///
/// ```
/// use pullback_trace::control::associative_scan;
/// use pullback_trace::{Error, Tensor};
///
/// // y[i] = a[i] * y[i - 1] + b[i], as a composition of linear functions.
/// let (a, b) = (Tensor::from([0.5, 0.5, 2.0]), Tensor::from([1.0, 1.0, 1.0]));
/// let (_, y) = associative_scan((&a, &b), |(a1, b1), (a2, b2)| (a1 * a2, a2 * b1 + b2));
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 1.5, 4.0]);
/// # Ok::<(), Error>(())
/// ```
///
/// Errors: extents along axis 0 that differ, and a `combine` that changes structure or types.
#[track_caller]
pub fn associative_scan<S, R>(xs: S, combine: impl Fn(&S::Slice, &S::Slice) -> R) -> R::Form<S::Slice>
where
    S: Sequence,
    R: IntoOutput<Tree = S::Slice>,
{
    let at = Loc::caller();
    let steps = xs.into_steps();
    let checked = |left: &S::Slice, right: &S::Slice| {
        let found = combine(left, right).into_output()?;
        match difference("a slice", (left, "given to combine"), (&found, "returned by it"))? {
            None => Ok(found),
            Some(text) => {
                let text = format!("{text}; combine must return what it is given");
                Err(Error::invalid("associative_scan", text, at))
            }
        }
    };
    let tensors = partial_results(&steps, &checked, at);
    let tensors = tensors.map(|found| tree::leaves(&found).into_iter().cloned().collect());
    R::form(Due { like: steps.xs, tensors })
}

/// Pairs of neighbours are combined until one slice is left. What is left of each level are the partial results at
/// the odd positions of the level before; one more combination gives those at the even positions.
fn partial_results<X: Tree>(
    steps: &Steps<X>,
    combine: &dyn Fn(&X, &X) -> Result<X, Error>,
    at: Loc,
) -> Result<X, Error> {
    let slices = |xs: &X, range: Range<usize>, step| tree::map(xs, |x| slices(x, range.clone(), step, at));
    let flip = |xs: &X| tree::map(xs, |x| if steps.reverse { flipped(x, at) } else { x.clone() });
    let mut n = steps.len("associative_scan", at)?;
    let mut now = flip(&steps.xs);
    let mut levels = Vec::new();
    while n > 1 {
        let pairs = 2 * (n / 2);
        let combined = combine(&slices(&now, 0..pairs, 2), &slices(&now, 1..pairs, 2))?;
        levels.push((now, n));
        (now, n) = (combined, n / 2);
    }
    while let Some((xs, n)) = levels.pop() {
        let mut even = slices(&xs, 0..1, 1);
        if n > 2 {
            let later = combine(&slices(&now, 0..(n - 1) / 2, 1), &slices(&xs, 2..n, 2))?;
            even = tree::zip_map(&even, &later, |first, later| concatenated(&[first, later], 0, at))?;
        }
        now = tree::zip_map(&even, &now, |even, odd| interleaved(even, odd, at))?;
    }
    Ok(flip(&now))
}

/// Every `step`-th slice along axis 0.
fn slices(x: &Tensor, range: Range<usize>, step: usize, at: Loc) -> Tensor {
    let shape = attempt!(x.shape());
    let mut start = Dims::from_elem(0, shape.rank());
    let mut limit = Dims::from_slice(shape);
    let mut stride = Dims::from_elem(1, shape.rank());
    (start[0], limit[0], stride[0]) = (range.start, range.end, step);
    x.slice_to(start, limit, stride, at)
}

fn flipped(x: &Tensor, at: Loc) -> Tensor {
    attempt!(apply_all(Reverse { dims: smallvec![0] }.into(), &[x], at)).remove(0)
}

fn concatenated(parts: &[&Tensor], dim: usize, at: Loc) -> Tensor {
    attempt!(apply_all(Concat { dim }.into(), parts, at)).remove(0)
}

/// Slices of two tensors in turns along axis 0; the first has as many as the second, or one more.
fn interleaved(even: &Tensor, odd: &Tensor, at: Loc) -> Tensor {
    let (n, shape) = (attempt!(even.shape())[0], attempt!(odd.shape()));
    let (m, rest) = (shape[0], &shape[1..]);
    let column: Shape = [m, 1].iter().chain(rest).copied().collect();
    let both = [slices(even, 0..m, 1, at), odd.clone()].map(|x| x.reshape_to(column.clone(), at));
    let both = concatenated(&both.each_ref(), 1, at);
    let both = both.reshape_to([2 * m].iter().chain(rest).copied().collect(), at);
    if n == m { both } else { concatenated(&[&both, &slices(even, m..n, 1, at)], 0, at) }
}

//! Loops with a counter.

use super::body::{Recorder, check_carry, share};
use super::chunks::apply_loop;
use super::operands::Operands;
use crate::error::Error;
use crate::ops::axes::Index;
use crate::tensor::Tensor;
use crate::transform::forward::leaf_types;
use crate::transform::{Due, IntoOutput};
use crate::tree;
use pullback_ir::ops::control::looping::{Loop, Trip};
use pullback_ir::{DType, Loc, Shape};

/// Where a counter starts or ends: an integer, or an `i64` tensor of rank 0.
#[derive(Clone, Debug)]
pub enum Bound {
    /// Known when the loop is made.
    Known(i64),
    /// Computed.
    Computed(Tensor),
}

impl<I: Index> From<I> for Bound {
    fn from(bound: I) -> Bound {
        Bound::Known(bound.index())
    }
}
impl From<&Tensor> for Bound {
    fn from(bound: &Tensor) -> Bound {
        Bound::Computed(bound.clone())
    }
}
impl From<Tensor> for Bound {
    fn from(bound: Tensor) -> Bound {
        Bound::Computed(bound)
    }
}

impl Bound {
    #[track_caller]
    fn tensor(&self) -> Tensor {
        match self {
            Bound::Known(bound) => Tensor::full(*bound, Shape::scalar()),
            Bound::Computed(bound) => bound.clone(),
        }
    }
}

/// Hands a carry from `lower` to before `upper`: the body maps a counter, an `i64` of rank 0, and the carry to the
/// next carry. Where `upper` is not above `lower` the carry is returned as it came.
///
/// ```
/// use pullback_trace::control::fori_loop;
/// use pullback_trace::{Error, Tensor, grad};
///
/// let x = Tensor::from(2.0);
/// let cube = |x: &Tensor| fori_loop(0, 3, &Tensor::from(1.0), |_, y| y * x);
/// assert_eq!(grad(cube).call((&x,))?.item::<f64>()?, 12.0);
///
/// let power = |x: &Tensor, n: &Tensor| fori_loop(0, n, &Tensor::from(1.0), |_, y| y * x);
/// assert_eq!(grad(power).call((&x, &Tensor::from(5i64)))?.item::<f64>()?, 80.0);
/// # Ok::<(), Error>(())
/// ```
///
/// Errors: a carry that changes its structure or type, bounds that are not integers, and what the body refuses.
#[track_caller]
pub fn fori_loop<I, R>(
    lower: impl Into<Bound>,
    upper: impl Into<Bound>,
    init: I,
    body: impl FnOnce(&Tensor, &I::Tree) -> R,
) -> R::Form<I::Tree>
where
    I: Operands,
    R: IntoOutput<Tree = I::Tree>,
{
    let (at, function) = (Loc::caller(), "fori_loop");
    let (lower, upper) = (lower.into(), upper.into());
    let chunks = init.chunks();
    let inputs = (lower.tensor(), init.into_tree());
    let (trip, times) = match trips(&lower, &upper, at) {
        Ok(trips) => trips,
        Err(error) => (Trip::Times, Some(Tensor::failed(error))),
    };
    let types = times.iter().try_for_each(|times| times.ty().map(|_| ()));
    let types = types.and_then(|()| leaf_types(&tree::leaves(&inputs)));
    let (recorder, params) = Recorder::begin(function, at, &inputs, types);
    body(&params.0, &params.1).then(|next| {
        let tensors = check_carry(function, at, (&params.1, &next)).and_then(|()| {
            let outputs = (&params.0 + 1, next);
            let leaves = tree::leaves(&outputs);
            let mut shared = share(vec![recorder.finish(&leaves)?])?;
            let (consts, carries) = (shared.consts.len(), leaves.len());
            let op = Loop { trip, reverse: false, consts, carries, body: shared.programs.remove(0) };
            let operands = times.iter().chain(&shared.consts).chain(tree::leaves(&inputs));
            let mut results = apply_loop(function, op, &operands.collect::<Vec<_>>(), chunks, at)?;
            results.remove(0);
            Ok(results)
        });
        Due { like: inputs.1, tensors }
    })
}

/// The trip, with the number of iterations where that is computed.
#[track_caller]
fn trips(lower: &Bound, upper: &Bound, at: Loc) -> Result<(Trip, Option<Tensor>), Error> {
    if let (&Bound::Known(lower), &Bound::Known(upper)) = (lower, upper) {
        let count = (i128::from(upper) - i128::from(lower)).max(0);
        return Ok((Trip::Count(usize::try_from(count).unwrap_or(usize::MAX)), None));
    }
    for bound in [lower.tensor(), upper.tensor()] {
        let ty = bound.ty()?;
        if ty.dtype != DType::I64 || ty.shape.rank() != 0 {
            let text = format!("a bound is {ty} and must be an integer or i64[]; convert or reshape it");
            return Err(Error::invalid("fori_loop", text, at));
        }
    }
    Ok((Trip::Times, Some(distance(&lower.tensor(), &upper.tensor()))))
}

/// How far it is up to `upper`: 0 where it is not above, and the most an `i64` holds where it is farther.
#[track_caller]
fn distance(lower: &Tensor, upper: &Tensor) -> Tensor {
    let difference = upper - lower;
    // It wraps to a negative number exactly where it does not fit.
    let distance = difference.lt(0).select(i64::MAX, &difference);
    upper.gt(lower).select(distance, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_neither_wrap_nor_point_down() {
        let cases = [
            (0, 5, 5),
            (-2, 3, 5),
            (3, 3, 0),
            (5, -5, 0),
            (5, i64::MIN, 0),
            (i64::MAX, i64::MIN, 0),
            (i64::MIN, i64::MAX, i64::MAX),
            (-1, i64::MAX, i64::MAX),
            (0, i64::MAX, i64::MAX),
            (i64::MIN, -1, i64::MAX),
            (i64::MIN, 0, i64::MAX),
            (i64::MIN, i64::MIN + 1, 1),
        ];
        for (lower, upper, due) in cases {
            for bounds in [
                (Bound::Computed(Tensor::from(lower)), Bound::Computed(Tensor::from(upper))),
                (Bound::Known(lower), Bound::Computed(Tensor::from(upper))),
                (Bound::Computed(Tensor::from(lower)), Bound::Known(upper)),
            ] {
                let (trip, times) = trips(&bounds.0, &bounds.1, Loc::UNKNOWN).unwrap();
                assert_eq!(trip, Trip::Times);
                assert_eq!(times.unwrap().item::<i64>().unwrap(), due, "{lower}..{upper}");
            }
        }
    }
}

//! Batching: a function of one example becomes a function of many.

use crate::apply::apply_program;
use crate::custom::autodiff;
use crate::error::Error;
use crate::tensor::Tensor;
use crate::transform::arguments::{argument_name, output_name};
use crate::transform::lanes::{Lanes, counted};
use crate::transform::record::record;
use crate::transform::{Args, Function, callable};
use crate::tree::{self, Tree};
use pullback_autodiff::{AdError, Hooks};
use pullback_ir::{Loc, TensorType};

/// A function on many lanes at once: see [`vmap`].
#[derive(Clone)]
pub struct Vmap<F> {
    function: F,
    in_axes: Lanes,
    out_axes: Lanes,
    at: Loc,
}

/// Turns a function of single examples into one of whole batches. Each tensor of the arguments holds its examples, the
/// lanes, along axis 0, and so does each tensor of the output, unless [`in_axes`](Vmap::in_axes) and
/// [`out_axes`](Vmap::out_axes) say otherwise.
///
/// The function is recorded once, for one lane, and every op in it becomes one op on all lanes: it gives what a loop
/// over the lanes would give. What is the same in every lane, captured tensors among it, is computed once, even if
/// there are no lanes. An index out of range in one lane fails the call. Bits are those of the loop, except that the
/// products of a lane's matrix with one that all lanes share are one larger product, whose sums may be rounded in
/// another order.
///
/// ```
/// use pullback_trace::{Error, Tensor, grad, jit, vmap};
///
/// // Gradients of a loss for each example by itself.
/// let loss = |w: &Tensor, x: &Tensor| (w * x).sum().square();
/// let per_example = jit(vmap(grad(loss)).in_axes((None, 0)));
/// let (w, xs) = (Tensor::from([1.0, 2.0]), Tensor::from([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]));
/// let gradients = per_example.call((&w, &xs))?;
/// assert_eq!(gradients.to_vec::<f64>()?, [2.0, 0.0, 0.0, 4.0, 6.0, 6.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn vmap<F>(function: F) -> Vmap<F> {
    Vmap { function, in_axes: Lanes::from(0), out_axes: Lanes::from(0), at: Loc::caller() }
}

impl<F> Vmap<F> {
    /// Where the lanes of the arguments lie: one axis for all of them, or one entry per argument and, where wanted, per
    /// part of an argument. `None` is the same in every lane. `in_axes((0, None))` maps over the first of two
    /// arguments, `in_axes(((0, None), 1))` treats two parts of the first one differently.
    pub fn in_axes(self, axes: impl Into<Lanes>) -> Vmap<F> {
        Vmap { in_axes: axes.into(), ..self }
    }

    /// Where the lanes of the output are to lie: one axis for all of its tensors, or one entry per part. `None` asks for
    /// what is the same in every lane, and is refused where it is not.
    pub fn out_axes(self, axes: impl Into<Lanes>) -> Vmap<F> {
        Vmap { out_axes: axes.into(), ..self }
    }
}

callable! { Vmap<F> }

impl<A: Args, F: Function<A>> Function<A> for Vmap<F> {
    type Output = F::Output;

    fn invoke(&self, arguments: &A) -> Result<F::Output, Error> {
        let (mut in_axes, size) = self.arguments(arguments)?;
        let mut lanes = Vec::with_capacity(in_axes.len());
        for (leaf, axis) in tree::leaves(arguments).into_iter().zip(&in_axes) {
            let ty = leaf.ty()?;
            let shape = axis.map_or_else(|| ty.shape.clone(), |axis| ty.shape.without(&[axis]));
            lanes.push(Tensor::zeros(ty.dtype, shape));
        }
        let lane = tree::unflatten(arguments, lanes)?;
        let recording = record("vmap", self.at, &self.function, &lane, false)?;
        in_axes.resize(recording.program.params().len(), None);
        let out_axes = self.outputs(&recording.output, &recording.program.output_types())?;
        let batched = autodiff(&Hooks::default()).batch(&recording.program, &in_axes, &out_axes, size);
        let batched = batched.map_err(|error| self.named(error, &recording.output))?;
        let outputs = apply_program(&batched, &recording.inputs(arguments), self.at)?;
        tree::unflatten(&recording.output, outputs)
    }
}

impl<F> Vmap<F> {
    /// The axis of each tensor of the arguments, counted from the front, and the number of lanes.
    fn arguments<A: Args>(&self, arguments: &A) -> Result<(Vec<Option<usize>>, usize), Error> {
        let written = self.follow("in_axes", &self.in_axes, "the arguments", arguments)?;
        let mut axes = Vec::with_capacity(written.len());
        let mut first: Option<(usize, String)> = None;
        for (position, (leaf, written)) in tree::leaves(arguments).into_iter().zip(written).enumerate() {
            let ty = leaf.ty()?;
            let Some(written) = written else {
                axes.push(None);
                continue;
            };
            let name = || argument_name(arguments, position);
            let Some(axis) = counted(written, ty.shape.rank()) else {
                return Err(self.no_such_axis("in_axes", name(), ty, written));
            };
            let described = || format!("{} along axis {axis} of {} ({ty})", ty.shape[axis], name());
            match &first {
                None => first = Some((ty.shape[axis], described())),
                Some((size, _)) if *size == ty.shape[axis] => {}
                Some((_, first)) => {
                    let (first, other) = (first.clone(), described());
                    return Err(Error::LaneCountsDiffer { transform: "vmap", first, other, at: self.at });
                }
            }
            axes.push(Some(axis));
        }
        match first {
            Some((size, _)) => Ok((axes, size)),
            None => {
                let message = format!(
                    "in_axes is {}, so nothing says how many lanes there are; give an axis for at least one tensor",
                    self.in_axes
                );
                Err(Error::invalid("vmap", message, self.at))
            }
        }
    }

    /// The axis of each tensor of the output, counted from the front, from the types in one lane.
    fn outputs<O: Tree>(&self, output: &O, types: &[TensorType]) -> Result<Vec<Option<usize>>, Error> {
        let written = self.follow("out_axes", &self.out_axes, "the output", output)?;
        let axis = |(position, (written, ty)): (usize, (Option<i64>, &TensorType))| match written {
            None => Ok(None),
            Some(written) => match counted(written, ty.shape.rank() + 1) {
                Some(axis) => Ok(Some(axis)),
                None => {
                    let name = output_name(&tree::paths(output)[position]);
                    Err(self.no_such_axis("out_axes", name, ty, written))
                }
            },
        };
        written.into_iter().zip(types).enumerate().map(axis).collect()
    }

    fn follow<T: Tree>(
        &self,
        what: &str,
        lanes: &Lanes,
        of: &str,
        tree: &T,
    ) -> Result<Vec<Option<i64>>, Error> {
        lanes.of(tree).ok_or_else(|| {
            let paths = tree::paths(tree);
            let tensors = match &paths[..] {
                [path] if path.is_empty() => "which is one tensor".to_string(),
                _ => format!("whose tensors are at {}", paths.join(" ")),
            };
            let message = format!(
                "{what} is {lanes} and does not follow {of}, {tensors}; give one axis for all, or one entry per part"
            );
            Error::invalid("vmap", message, self.at)
        })
    }

    fn no_such_axis(&self, what: &'static str, place: String, ty: &TensorType, axis: i64) -> Error {
        Error::LaneAxis { transform: "vmap", what, place, ty: ty.clone(), axis, at: self.at }
    }

    /// The error with the output's path where it says only its number.
    fn named<O: Tree>(&self, error: AdError, output: &O) -> Error {
        match error {
            AdError::LanesWithoutAxis { index, .. } => {
                let place = output_name(&tree::paths(output)[index]);
                Error::invalid(
                    "vmap",
                    format!(
                        "{place} differs from lane to lane, and out_axes is None for it; give it an axis"
                    ),
                    self.at,
                )
            }
            error => error.into(),
        }
    }
}

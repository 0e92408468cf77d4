//! Trading work for memory: a function whose intermediate results derivatives compute again instead of keeping them.

use crate::apply::{apply, apply_all};
use crate::error::Error;
use crate::tensor::Tensor;
use crate::transform::record::record;
use crate::transform::{Args, Function, callable};
use crate::tree;
use pullback_ir::Loc;
use pullback_ir::ops::control::call::Call;
use pullback_ir::ops::control::offer::Offer;
use std::sync::Arc;

pub use pullback_ir::ops::control::call::Keep;

/// A function that keeps little for its derivative: see [`checkpoint`].
#[derive(Clone)]
pub struct Checkpoint<F> {
    function: F,
    keep: Keep,
    at: Loc,
}

/// The same function, but of its intermediate results none is kept between the two halves of a derivative: the backward
/// half computes them again, from the arguments and what the function captured. Values and first derivatives are the same
/// to the bit, and so is forward mode over reverse mode. In a second reverse pass what was computed twice has its uses
/// split between the copies, so that sums over uses may round another way.
///
/// Checkpoint the blocks of a deep function, and as many values are kept as there are blocks, while one block at a time
/// is computed again:
///
/// ```
/// use pullback_trace::{Error, Tensor, checkpoint, grad};
///
/// let block = |x: &Tensor| (x.sin() * x).tanh();
/// let plain = |x: &Tensor| block(&block(&block(x)));
/// let lean = |x: &Tensor| {
///     let block = checkpoint(block);
///     let mut x = x.clone();
///     for _ in 0..3 {
///         x = block.call((&x,))?;
///     }
///     Ok::<_, Error>(x)
/// };
/// let x = Tensor::from(0.5);
/// assert_eq!(grad(lean).call((&x,))?.item::<f64>()?, grad(plain).call((&x,))?.item::<f64>()?);
/// # Ok::<(), Error>(())
/// ```
///
/// Checkpoints nest: within an outer one an inner one bounds what is alive while the outer one is computed again.
/// [`keep`](Checkpoint::keep) says what is kept all the same. What happens inside a loop is kept or computed again as a
/// whole. Custom calls that the derivative needs run again.
#[track_caller]
pub fn checkpoint<F>(function: F) -> Checkpoint<F> {
    Checkpoint { function, keep: Keep::Nothing, at: Loc::caller() }
}

impl<F> Checkpoint<F> {
    /// With some results kept: of contractions ([`Keep::Dots`]), those given a name by [`Tensor::offer`]
    /// ([`Keep::offered`]), or what fits into so many bytes ([`Keep::Budget`]).
    ///
    /// ```
    /// use pullback_trace::transform::Keep;
    /// use pullback_trace::{Error, Tensor, checkpoint, grad};
    ///
    /// let block = |x: &Tensor| (x.exp().offer("exponential").sin() * x).sum();
    /// let lean = grad(checkpoint(block).keep(Keep::offered(["exponential"])));
    /// let x = Tensor::from([0.5, 1.0]);
    /// assert_eq!(lean.call((&x,))?.to_vec::<f64>()?, grad(block).call((&x,))?.to_vec::<f64>()?);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn keep(self, keep: Keep) -> Checkpoint<F> {
        let keep = match keep {
            // The most that a program says; it is enough for everything.
            Keep::Budget(bytes) => Keep::Budget(bytes.min(i64::MAX as usize)),
            keep @ (Keep::Nothing | Keep::Dots | Keep::Offered(_)) => keep,
        };
        Checkpoint { keep, ..self }
    }
}

callable! { Checkpoint<F> }

impl<A: Args, F: Function<A>> Function<A> for Checkpoint<F> {
    type Output = F::Output;

    fn invoke(&self, arguments: &A) -> Result<F::Output, Error> {
        let recording = record("checkpoint", self.at, &self.function, arguments, true)?;
        let inputs = recording.inputs(arguments);
        let program = Arc::new(recording.program.clone());
        let call = Call { program, checkpoint: Some(self.keep.clone()) };
        tree::unflatten(&recording.output, apply_all(call.into(), &inputs, self.at)?)
    }
}

impl Tensor {
    /// The same tensor, offered under a name: a [`checkpoint`] that is told [`Keep::offered`] with this name keeps it.
    /// Everywhere else the name means nothing.
    #[track_caller]
    pub fn offer(&self, name: &str) -> Tensor {
        apply(Offer { name: name.into() }, &[self])
    }
}

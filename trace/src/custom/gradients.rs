//! Identities with another derivative.

use super::jvp::custom_jvp;
use crate::error::Error;
use crate::tensor::{Tensor, attempt};
use pullback_ir::Loc;

impl Tensor {
    /// The same value, whose tangents and cotangents are scaled: by 0 as by [`stop_gradient`](Tensor::stop_gradient), by
    /// -1 for gradients that are to be ascended.
    #[track_caller]
    pub fn with_gradient_scale(&self, scale: f64) -> Tensor {
        let rule = move |_: &(Tensor,), _: &Tensor, (dx,): &(Tensor,)| dx * scale;
        let identity = custom_jvp(Tensor::clone, rule).named("with_gradient_scale");
        identity.call((self,)).unwrap_or_else(Tensor::failed)
    }

    /// `value`, with the derivative of this tensor: for what has no useful derivative of its own, as in
    /// `x.straight_through(&x.round())`. Both must have one type.
    ///
    /// Reference: Bengio, Léonard, Courville, "Estimating or Propagating Gradients Through Stochastic Neurons for
    /// Conditional Computation", 2013.
    #[track_caller]
    pub fn straight_through(&self, value: &Tensor) -> Tensor {
        let [due, given] = [attempt!(self.ty()), attempt!(value.ty())];
        if due != given {
            let text = format!(
                "the value is {given} and the tensor whose derivative it takes {due}; they must have one type"
            );
            return Tensor::failed(Error::invalid("straight_through", text, Loc::caller()));
        }
        let rule = |_: &(Tensor, Tensor), _: &Tensor, (dx, _): &(Tensor, Tensor)| dx.clone();
        let second = custom_jvp(|_: &Tensor, value: &Tensor| value.clone(), rule);
        let second = second.named("straight_through").nondiff(&[1]);
        second.call((self, value)).unwrap_or_else(Tensor::failed)
    }
}

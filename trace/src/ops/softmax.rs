//! Logarithms of sums of exponentials, and what is made of them.
//!
//! All are shifted by the maximum, which carries no tangent: then slopes are exactly the softmax weights. Where the
//! maximum is infinite, the entries equal to it share the weight evenly.

use crate::ops::axes::{Axes, Index};
use crate::ops::reduce::reduction_forms;
use crate::tensor::{Tensor, attempt};
use pullback_ir::Loc;

impl Tensor {
    /// `log(sum(exp(x)))` over the axes, without overflow; of nothing: -inf.
    #[track_caller]
    pub fn logsumexp_axes(&self, axes: impl Axes) -> Tensor {
        attempt!(self.require_float("logsumexp", Loc::caller()));
        let dims = attempt!(self.reduced_axes("logsumexp", &axes, Loc::caller()));
        if attempt!(self.reduced_count("logsumexp", &axes, Loc::caller())) == 0 {
            return self.sum_axes(axes).ln();
        }
        let largest = self.max_keepdims(dims.as_slice());
        let infinite = largest.is_inf();
        let shift = infinite.select(0, largest.stop_gradient());
        let sum = (self - &shift).exp().sum_keepdims(dims.as_slice());
        let result = infinite.select(&largest, &(sum.ln() + shift));
        result.squeeze_axes(dims.as_slice())
    }

    /// The entries less their maximum along the axis. Under an infinite maximum: 0 for its equals, else -inf.
    #[track_caller]
    fn shifted(&self, axis: impl Index) -> Tensor {
        let largest = self.max_keepdims(axis).stop_gradient();
        let infinite = largest.is_inf();
        let at_infinity = self.eq(&largest).select(0.0, self.full_like(f64::NEG_INFINITY));
        infinite.select(&at_infinity, &(self - &largest))
    }

    /// `exp(x)` as parts of their sum along the axis.
    #[track_caller]
    pub fn softmax(&self, axis: impl Index) -> Tensor {
        attempt!(self.require_float("softmax", Loc::caller()));
        if attempt!(self.reduced_count("softmax", &axis, Loc::caller())) == 0 {
            return self.clone();
        }
        let exponentials = self.shifted(axis).exp();
        &exponentials / exponentials.sum_keepdims(axis)
    }

    /// The logarithm of [`Tensor::softmax`], without overflow.
    #[track_caller]
    pub fn log_softmax(&self, axis: impl Index) -> Tensor {
        attempt!(self.require_float("log_softmax", Loc::caller()));
        if attempt!(self.reduced_count("log_softmax", &axis, Loc::caller())) == 0 {
            return self.clone();
        }
        let shifted = self.shifted(axis);
        &shifted - shifted.exp().sum_keepdims(axis).ln()
    }
}

reduction_forms! {
    /// `log(sum(exp(x)))` without overflow; of nothing: -inf.
    logsumexp logsumexp_axes logsumexp_keepdims;
}

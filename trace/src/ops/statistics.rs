//! Mean, variance, standard deviation and norm.

use crate::error::Error;
use crate::ops::axes::Axes;
use crate::ops::reduce::reduction_forms;
use crate::tensor::{Tensor, attempt};
use pullback_ir::{Loc, Problem};

impl Tensor {
    /// Mean over the axes; of nothing: NaN.
    #[track_caller]
    pub fn mean_axes(&self, axes: impl Axes) -> Tensor {
        attempt!(self.require_float("mean", Loc::caller()));
        let count = attempt!(self.reduced_count("mean", &axes, Loc::caller()));
        self.sum_axes(axes) / count as f64
    }

    /// Variance of the population over the axes: the mean square distance from the mean.
    #[track_caller]
    pub fn var_axes(&self, axes: impl Axes) -> Tensor {
        self.var_with(axes, 0.0)
    }

    /// Sum of the square distances from the mean over the axes, divided by the count less `correction`: 1 gives the
    /// unbiased estimate.
    #[track_caller]
    pub fn var_with(&self, axes: impl Axes, correction: f64) -> Tensor {
        attempt!(self.require_float("var", Loc::caller()));
        let count = attempt!(self.reduced_count("var", &axes, Loc::caller())) as f64;
        let kept = attempt!(self.kept_shape("var", &axes, Loc::caller()));
        let mean = (self.sum_axes(attempt!(self.reduced_axes("var", &axes, Loc::caller())).as_slice())
            / count)
            .reshape_to(kept, Loc::caller());
        (self - mean).square().sum_axes(axes) / (count - correction)
    }

    /// Standard deviation of the population over the axes; slope 0 where it is 0.
    #[track_caller]
    pub fn std_axes(&self, axes: impl Axes) -> Tensor {
        self.var_axes(axes).sqrt_flat_at_zero()
    }

    /// Euclidean norm over the axes; slope 0 where it is 0.
    #[track_caller]
    pub fn norm_axes(&self, axes: impl Axes) -> Tensor {
        self.square().sum_axes(axes).sqrt_flat_at_zero()
    }

    /// The square root with slope 0 at 0: of the sums of squares, whose own slope is 0 there.
    #[track_caller]
    fn sqrt_flat_at_zero(&self) -> Tensor {
        let zero = self.eq(0);
        zero.select(0, zero.select(1, self).sqrt())
    }

    pub(crate) fn require_float(&self, name: &str, at: Loc) -> Result<(), Error> {
        let ty = self.ty()?;
        if ty.dtype.is_float() {
            return Ok(());
        }
        let problem = Problem::DType { operand: 0, found: ty.dtype, expected: "a float" };
        Err(Error::op(name, &[ty], problem, at))
    }
}

reduction_forms! {
    /// Mean; of nothing: NaN.
    mean mean_axes mean_keepdims;
    /// Variance of the population.
    var var_axes var_keepdims;
    /// Standard deviation of the population; slope 0 where it is 0.
    std std_axes std_keepdims;
    /// Euclidean norm; slope 0 where it is 0.
    norm norm_axes norm_keepdims;
}

//! Mean, variance, standard deviation and norm.

use crate::error::Error;
use crate::ops::axes::Axes;
use crate::ops::reduce::reduction_forms;
use crate::tensor::{Tensor, attempt};
use pullback_ir::{DType, Loc, Problem};

impl Tensor {
    /// Mean over the axes; of nothing: NaN.
    #[track_caller]
    pub fn mean_axes(&self, axes: impl Axes) -> Tensor {
        attempt!(self.require_float("mean", Loc::caller()));
        let count = attempt!(self.reduced_count("mean", &axes, Loc::caller()));
        self.sum_axes(axes) / count as f64
    }

    /// Differences from the mean over the axes, and how many there are of each.
    #[track_caller]
    fn centered(&self, name: &str, axes: &impl Axes) -> Result<(Tensor, f64), Error> {
        let at = Loc::caller();
        self.require_float(name, at)?;
        let count = self.reduced_count(name, axes, at)? as f64;
        let (dims, kept) = (self.reduced_axes(name, axes, at)?, self.kept_shape(name, axes, at)?);
        let mean = (self.sum_axes(dims.as_slice()) / count).reshape_to(kept, at);
        Ok((self - mean, count))
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
        let (differences, count) = attempt!(self.centered("var", &axes));
        differences.square().sum_axes(axes) / (count - correction)
    }

    /// Standard deviation of the population over the axes; slope 0 where it is 0. No square overflows or vanishes on
    /// the way.
    #[track_caller]
    pub fn std_axes(&self, axes: impl Axes) -> Tensor {
        let (differences, count) = attempt!(self.centered("std", &axes));
        let dims = attempt!(self.reduced_axes("std", &axes, Loc::caller()));
        let scale = attempt!(differences.magnitude(&dims));
        let squares = (differences / &scale).square().sum_axes(axes) / count;
        squares.sqrt_flat_at_zero() * scale.squeeze_axes(dims.as_slice())
    }

    /// Euclidean norm over the axes; slope 0 where it is 0. No square overflows or vanishes on the way.
    #[track_caller]
    pub fn norm_axes(&self, axes: impl Axes) -> Tensor {
        attempt!(self.require_float("norm", Loc::caller()));
        let dims = attempt!(self.reduced_axes("norm", &axes, Loc::caller()));
        let scale = attempt!(self.magnitude(&dims));
        let squares = (self / &scale).square().sum_axes(axes);
        squares.sqrt_flat_at_zero() * scale.squeeze_axes(dims.as_slice())
    }

    /// A power of two near the largest magnitude of floats along the axes, which stay with extent 1. Squares of what is
    /// divided by it neither overflow nor vanish, and as only exponents change, results are rounded as they would be
    /// without it. It is made of bits, so it has no tangent.
    #[track_caller]
    pub(crate) fn magnitude(&self, dims: &[usize]) -> Result<Tensor, Error> {
        let ty = self.ty()?;
        // Where the exponent lies, and the least and the greatest that will do: squares of what such a scale leaves of any
        // float are far from either end, and so is the scale times a cotangent.
        let (bits, exponent, least, greatest) = match ty.dtype {
            DType::F64 => (DType::U64, 0x7ff_i64 << 52, 128_i64 << 52, 1918_i64 << 52),
            _ => (DType::U32, 0xff_i64 << 23, 40_i64 << 23, 214_i64 << 23),
        };
        if dims.iter().any(|&d| ty.shape[d] == 0) {
            return Ok(self.sum_keepdims(dims).ones_like());
        }
        let largest = (self.bitcast(bits) & exponent).max_keepdims(dims);
        Ok(largest.maximum(least).minimum(greatest).bitcast(ty.dtype))
    }

    /// The square root with slope 0 at 0: of the sums of squares, whose own slope is 0 there.
    #[track_caller]
    pub(crate) fn sqrt_flat_at_zero(&self) -> Tensor {
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

//! Activation functions. At a kink the slope is that of the left side, so relu'(0) = 0.

use crate::ops::number::Operand;
use crate::tensor::Tensor;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

impl Tensor {
    /// The positive part. Unlike `maximum(0)`, which shares the slope of a tie, its slope at 0 is 0.
    #[track_caller]
    pub fn relu(&self) -> Tensor {
        self.le(0).select(0, self)
    }

    /// The positive part up to 6; slope 0 at both ends.
    #[track_caller]
    pub fn relu6(&self) -> Tensor {
        self.le(0).select(0, self.ge(6).select(6, self))
    }

    /// `x` where positive, else `slope * x`.
    #[track_caller]
    pub fn leaky_relu(&self, slope: impl Into<Operand>) -> Tensor {
        let negative = self.with_operand("mul", pullback_ir::ops::elementwise::binary::Binary::Mul, slope);
        self.gt(0).select(self, negative)
    }

    /// `x` where positive, else `alpha * (exp(x) - 1)`.
    #[track_caller]
    pub fn elu(&self, alpha: f64) -> Tensor {
        self.gt(0).select(self, self.expm1() * alpha)
    }

    /// The scaled exponential unit that keeps mean and variance.
    #[track_caller]
    pub fn selu(&self) -> Tensor {
        self.elu(1.673_263_242_354_377_2) * 1.050_700_987_355_480_5
    }

    /// `log(1 + exp(x))` without overflow.
    #[track_caller]
    pub fn softplus(&self) -> Tensor {
        // -|x| and max(x, 0) in pieces that are linear, so that second derivatives at 0 are right as well.
        let positive = self.gt(0);
        let minus_abs = positive.select(-self, self);
        positive.select(self, 0) + minus_abs.exp().log1p()
    }

    /// `log(sigmoid(x))` without overflow.
    #[track_caller]
    pub fn log_sigmoid(&self) -> Tensor {
        -(-self).softplus()
    }

    /// `x * sigmoid(x)`
    #[track_caller]
    pub fn silu(&self) -> Tensor {
        self * self.sigmoid()
    }

    /// `x` times the probability that a standard normal number is below it.
    #[track_caller]
    pub fn gelu(&self) -> Tensor {
        self * ((self * FRAC_1_SQRT_2).erf() + 1.0) * 0.5
    }

    /// [`Tensor::gelu`] as approximated with tanh.
    #[track_caller]
    pub fn gelu_tanh(&self) -> Tensor {
        let inner = (self + self.powi(3) * 0.044715) * FRAC_2_PI.sqrt();
        self * (inner.tanh() + 1.0) * 0.5
    }

    /// `x * tanh(softplus(x))`
    #[track_caller]
    pub fn mish(&self) -> Tensor {
        self * self.softplus().tanh()
    }

    /// `x` squeezed into (-cap, cap) by tanh.
    #[track_caller]
    pub fn softcap(&self, cap: f64) -> Tensor {
        (self / cap).tanh() * cap
    }
}

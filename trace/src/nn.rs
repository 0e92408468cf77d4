//! Losses, normalizations and attention, as compositions. Activations are methods of [`Tensor`].

use crate::error::Error;
use crate::ops::axes::Index;
use crate::random;
use crate::tensor::{Tensor, attempt};
use pullback_ir::{DType, Loc, Problem, Shape};

impl Tensor {
    /// Cross entropy of logits along the last axis, one loss per row. Targets are indices of classes (integers, one
    /// per row) or probabilities (floats, one per logit).
    #[track_caller]
    pub fn cross_entropy(&self, targets: &Tensor) -> Tensor {
        let (logits, t) = (attempt!(self.ty()), attempt!(targets.ty()));
        let logs = self.log_softmax(-1);
        if t.dtype.is_int() {
            if t.shape[..] != logits.shape[..logits.shape.rank().saturating_sub(1)] {
                let text = "targets must have the shape of the logits without the last axis; reshape them";
                let problem = Problem::Constraint(text.into());
                return Tensor::failed(Error::op("cross_entropy", &[logits, t], problem, Loc::caller()));
            }
            return -logs.take_along_axis(&targets.expand_dims(-1), -1).squeeze_axes(-1);
        }
        -(targets * logs).sum_axes(-1)
    }

    /// Binary cross entropy of logits, elementwise, without overflow.
    #[track_caller]
    pub fn binary_cross_entropy(&self, targets: &Tensor) -> Tensor {
        self.softplus() - self * targets
    }

    /// Mean squared difference.
    #[track_caller]
    pub fn mse(&self, targets: &Tensor) -> Tensor {
        (self - targets).square().mean()
    }

    /// Half the square of the difference where it is at most `delta`, and linear beyond, elementwise.
    #[track_caller]
    pub fn huber(&self, targets: &Tensor, delta: f64) -> Tensor {
        let distance = (self - targets).abs();
        let (near, far) = (distance.square() * 0.5, (&distance - 0.5 * delta) * delta);
        distance.le(delta).select(near, far)
    }

    /// Less its mean and divided by its deviation along an axis.
    #[track_caller]
    pub fn standardize(&self, axis: impl Index, epsilon: f64) -> Tensor {
        let centered = self - self.mean_keepdims(axis);
        let variance = centered.square().mean_keepdims(axis);
        centered * (variance + epsilon).rsqrt()
    }

    /// Standardized along the last axis, then scaled and shifted.
    #[track_caller]
    pub fn layer_norm(&self, scale: &Tensor, shift: &Tensor, epsilon: f64) -> Tensor {
        self.standardize(-1, epsilon) * scale + shift
    }

    /// Divided by its root mean square along the last axis, then scaled.
    #[track_caller]
    pub fn rms_norm(&self, scale: &Tensor, epsilon: f64) -> Tensor {
        self * (self.square().mean_keepdims(-1) + epsilon).rsqrt() * scale
    }
}

/// Attention of queries `[.., n, d]` over keys `[.., m, d]` and values `[.., m, v]`. `mask` is added to the scores.
#[track_caller]
pub fn attention(queries: &Tensor, keys: &Tensor, values: &Tensor, mask: Option<&Tensor>) -> Tensor {
    let width = attempt!(queries.shape()).last().copied().unwrap_or(1);
    let mut scores = queries.matmul(&keys.t()) / (width as f64).sqrt();
    if let Some(mask) = mask {
        scores += mask;
    }
    scores.softmax(-1).matmul(values)
}

/// Rows of a table at indices.
#[track_caller]
pub fn embedding(table: &Tensor, indices: &Tensor) -> Tensor {
    table.take(indices, 0)
}

/// Normal numbers with the variance that keeps activations of a relu layer `[inputs, outputs]` (He et al. 2015).
#[track_caller]
pub fn he_normal(key: &Tensor, dtype: DType, shape: impl Into<Shape>) -> Tensor {
    let shape = shape.into();
    let inputs = shape.first().copied().unwrap_or(1).max(1);
    random::normal(key, dtype, shape) * (2.0 / inputs as f64).sqrt()
}

/// Uniform numbers with the variance that keeps activations and gradients of a layer `[inputs, outputs]` (Glorot and
/// Bengio 2010).
#[track_caller]
pub fn glorot_uniform(key: &Tensor, dtype: DType, shape: impl Into<Shape>) -> Tensor {
    let shape = shape.into();
    let sum = shape.first().copied().unwrap_or(1) + shape.last().copied().unwrap_or(1);
    let limit = (6.0 / sum.max(1) as f64).sqrt();
    (random::uniform(key, dtype, shape) * 2.0 - 1.0) * limit
}

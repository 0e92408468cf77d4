//! Optimizers as pure functions on trees: `init` makes a state, `update` takes parameters, gradients and state to new
//! parameters and a new state. Both can be compiled together with the loss.

use crate::error::Error;
use crate::ops::number::Operand;
use crate::tensor::{Tensor, attempt};
use crate::{Tree, tree};
use pullback_ir::{DType, Loc, Shape};

/// Gradient descent with momentum.
#[derive(Clone, Debug)]
pub struct Sgd {
    /// Step size; a tensor if it changes while compiled code is kept.
    pub rate: Operand,
    /// Part of the last step taken again; 0: none.
    pub momentum: f64,
    /// Whether the gradient is weighed as if the momentum's step had been made already.
    pub nesterov: bool,
}

impl Sgd {
    /// Without momentum.
    pub fn new(rate: impl Into<Operand>) -> Sgd {
        Sgd { rate: rate.into(), momentum: 0.0, nesterov: false }
    }

    /// With momentum.
    pub fn momentum(self, momentum: f64) -> Sgd {
        Sgd { momentum, ..self }
    }

    /// With Nesterov's momentum.
    pub fn nesterov(self) -> Sgd {
        Sgd { nesterov: true, ..self }
    }

    /// The velocity at rest, for [`Sgd::update`].
    pub fn init<P: Tree>(&self, parameters: &P) -> P {
        tree::map(parameters, Tensor::zeros_like)
    }

    /// New parameters and the new velocity.
    ///
    /// Errors: gradients or a velocity of other types than the parameters, and a rate of more elements.
    #[track_caller]
    pub fn update<P: Tree>(&self, parameters: &P, gradients: &P, velocity: &P) -> Result<(P, P), Error> {
        let at = Loc::caller();
        tree::check_same_types("sgd: parameters and gradients", parameters, gradients, at)?;
        tree::check_same_types("sgd: parameters and velocity", parameters, velocity, at)?;
        let (gradients, velocities) = (tree::leaves(gradients), tree::leaves(velocity));
        let (mut next, mut next_velocities) = (Vec::new(), Vec::new());
        for ((p, g), v) in tree::leaves(parameters).into_iter().zip(gradients).zip(velocities) {
            let rate = self.rate.clone().beside(p.dtype()?, at)?.to_dtype(p.dtype()?);
            let v = if self.momentum == 0.0 { g.clone() } else { v * self.momentum + g };
            let step = if self.nesterov { g + &v * self.momentum } else { v.clone() };
            next.push(p - step * rate);
            next_velocities.push(v);
        }
        let (next, velocity) =
            (tree::unflatten(parameters, next)?, tree::unflatten(velocity, next_velocities)?);
        tree::check_same_types(
            "sgd: parameters before and after a step of this rate",
            parameters,
            &next,
            at,
        )?;
        Ok((next, velocity))
    }
}

/// Adam (Kingma and Ba 2015), and with weight decay AdamW (Loshchilov and Hutter 2019).
#[derive(Clone, Debug)]
pub struct Adam {
    /// Step size; a tensor if it changes while compiled code is kept.
    pub rate: Operand,
    /// How much of the mean of gradients stays.
    pub beta1: f64,
    /// How much of the mean of squared gradients stays.
    pub beta2: f64,
    /// Added to the root of the mean square.
    pub epsilon: f64,
    /// Part of the parameters, times the rate, that goes at each step, apart from the gradient.
    pub weight_decay: f64,
}

/// What Adam remembers.
#[derive(Tree)]
pub struct AdamState<P: Tree> {
    /// Number of steps made: i64.
    pub step: Tensor,
    /// Mean of gradients.
    pub first: P,
    /// Mean of squared gradients.
    pub second: P,
}

impl Adam {
    /// With the constants of the paper.
    pub fn new(rate: impl Into<Operand>) -> Adam {
        Adam { rate: rate.into(), beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0 }
    }

    /// With weight decay that does not go through the gradient.
    pub fn weight_decay(self, weight_decay: f64) -> Adam {
        Adam { weight_decay, ..self }
    }

    /// The state before the first step.
    pub fn init<P: Tree>(&self, parameters: &P) -> AdamState<P> {
        let zeros = || tree::map(parameters, Tensor::zeros_like);
        AdamState { step: Tensor::zeros(DType::I64, []), first: zeros(), second: zeros() }
    }

    /// New parameters and the new state.
    ///
    /// Errors: gradients or a state of other types than the parameters, and a rate of more elements.
    #[track_caller]
    pub fn update<P: Tree>(
        &self,
        parameters: &P,
        gradients: &P,
        state: &AdamState<P>,
    ) -> Result<(P, AdamState<P>), Error> {
        let at = Loc::caller();
        tree::check_same_types("adam: parameters and gradients", parameters, gradients, at)?;
        tree::check_same_types("adam: parameters and mean gradients", parameters, &state.first, at)?;
        tree::check_same_types("adam: parameters and mean squares", parameters, &state.second, at)?;
        let before = Tensor::zeros(DType::I64, []);
        tree::check_same_types("adam: a number of steps and that of the state", &before, &state.step, at)?;
        let step = &state.step + 1;
        let (firsts, seconds) = (tree::leaves(&state.first), tree::leaves(&state.second));
        let (mut next, mut next_first, mut next_second) = (Vec::new(), Vec::new(), Vec::new());
        let gradients = tree::leaves(gradients).into_iter();
        for (((p, g), m), v) in tree::leaves(parameters).into_iter().zip(gradients).zip(firsts).zip(seconds) {
            let dtype = p.dtype()?;
            let rate = self.rate.clone().beside(dtype, at)?.to_dtype(dtype);
            let steps = step.to_dtype(dtype);
            let unbiased = |beta: f64| 1.0 - (&steps * beta.ln()).exp();
            let m = m * self.beta1 + g * (1.0 - self.beta1);
            let v = v * self.beta2 + g.square() * (1.0 - self.beta2);
            let root = (&v / unbiased(self.beta2)).sqrt() + self.epsilon;
            let mut change = (&m / unbiased(self.beta1)) / root;
            if self.weight_decay != 0.0 {
                change += p * self.weight_decay;
            }
            next.push(p - change * rate);
            next_first.push(m);
            next_second.push(v);
        }
        let first = tree::unflatten(&state.first, next_first)?;
        let second = tree::unflatten(&state.second, next_second)?;
        let next = tree::unflatten(parameters, next)?;
        tree::check_same_types(
            "adam: parameters before and after a step of this rate",
            parameters,
            &next,
            at,
        )?;
        Ok((next, AdamState { step, first, second }))
    }
}

/// The Euclidean norm over all tensors of a tree of floats of one dtype; slope 0 where it is 0. No square overflows or
/// vanishes on the way.
#[track_caller]
pub fn global_norm<T: Tree>(tree: &T) -> Tensor {
    let leaves = tree::leaves(tree);
    let mut scale: Option<Tensor> = None;
    for leaf in &leaves {
        attempt!(leaf.require_float("global_norm", Loc::caller()));
        let all: Vec<usize> = (0..attempt!(leaf.rank())).collect();
        let magnitude = attempt!(leaf.magnitude(&all)).reshape_to(Shape::scalar(), Loc::caller());
        scale = Some(match scale {
            Some(scale) => scale.maximum(magnitude),
            None => magnitude,
        });
    }
    let Some(scale) = scale else { return Tensor::from(0.0) };
    let mut squares = scale.zeros_like();
    for leaf in leaves {
        squares += (leaf / &scale).square().sum();
    }
    squares.sqrt_flat_at_zero() * scale
}

/// The tree, scaled down if its norm is over `limit`.
#[track_caller]
pub fn clip_by_global_norm<T: Tree>(tree: &T, limit: f64) -> T {
    let norm = global_norm(tree);
    let scale = norm.gt(limit).select(limit / &norm, 1.0);
    tree::map(tree, |leaf| leaf * &scale)
}

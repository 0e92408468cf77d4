//! Reverse mode: what a weighting of the outputs means for the inputs.

use crate::apply::apply_program;
use crate::custom::autodiff;
use crate::error::Error;
use crate::tensor::Tensor;
use crate::transform::forward::{floats, leaf_types};
use crate::transform::record::{check_types, record};
use crate::transform::{Args, Arguments, Function, Hooks, hookable};
use crate::tree::{self, Tree};
use pullback_ir::{Loc, Program, TensorType};
use std::sync::Arc;

/// A function's output and pullback: see [`vjp`].
#[derive(Clone)]
pub struct Vjp<F> {
    function: F,
    hooks: Hooks,
    at: Loc,
}

hookable! { Vjp<F> }

/// Evaluates a function once and keeps its pullback, which takes cotangents of the output to cotangents of the
/// arguments, any number of times.
#[track_caller]
pub fn vjp<F>(function: F) -> Vjp<F> {
    Vjp { function, hooks: Hooks::default(), at: Loc::caller() }
}

/// Takes cotangents of a function's output to cotangents of its arguments, at the point of the evaluation.
#[derive(Clone)]
pub struct Pullback<A, O> {
    /// `residuals.., cotangents of active outputs.. -> cotangents of float arguments..`
    program: Arc<Program>,
    residuals: Vec<Tensor>,
    /// Types of the output's tensors.
    types: Vec<TensorType>,
    active: Vec<usize>,
    arguments: A,
    output: O,
    at: Loc,
}

impl<F> Vjp<F> {
    /// The output at the arguments, and the pullback there.
    pub fn call<R: Arguments>(
        &self,
        arguments: R,
    ) -> Result<(F::Output, Pullback<R::Owned, F::Output>), Error>
    where
        F: Function<R::Owned>,
    {
        let arguments = arguments.into_owned();
        let wrt = floats(&leaf_types(&tree::leaves(&arguments))?);
        let recording = record("vjp", self.at, &self.function, &arguments, true)?;
        let autodiff = autodiff(&self.hooks);
        let linearized = autodiff.linearize(&recording.program, &wrt)?.keep_least()?;
        let transposed = autodiff.transpose(&linearized.linear, linearized.residuals())?;
        let mut outputs = apply_program(&linearized.primal, &recording.inputs(&arguments), self.at)?;
        let residuals = outputs.split_off(linearized.outputs);
        let output = tree::unflatten(&recording.output, outputs)?;
        let pullback = Pullback {
            program: Arc::new(transposed),
            residuals,
            types: leaf_types(&tree::leaves(&output))?,
            active: linearized.active,
            arguments,
            output: tree::map(&output, Tensor::clone),
            at: self.at,
        };
        Ok((output, pullback))
    }
}

impl<A: Args, O: Tree> Pullback<A, O> {
    /// The cotangents of the arguments under this cotangent of the output. Those of integers and bools are zeros.
    pub fn call(&self, cotangent: &O) -> Result<A, Error> {
        tree::check_same("vjp: output and cotangent", &self.output, cotangent, self.at)?;
        check_types("cotangent", &self.types, cotangent, self.at)?;
        let cotangents = tree::leaves(cotangent);
        let inputs: Vec<&Tensor> =
            self.residuals.iter().chain(self.active.iter().map(|&i| cotangents[i])).collect();
        let mut found = apply_program(&self.program, &inputs, self.at)?.into_iter();
        let mut result = Vec::new();
        for leaf in tree::leaves(&self.arguments) {
            let cotangent = if leaf.dtype()?.is_float() { found.next() } else { None };
            result.push(cotangent.unwrap_or_else(|| leaf.zeros_like()));
        }
        tree::unflatten(&self.arguments, result)
    }

    /// The pullback as a program: residuals, then cotangents of the outputs, to cotangents of the float arguments.
    pub fn program(&self) -> &Program {
        &self.program
    }
}

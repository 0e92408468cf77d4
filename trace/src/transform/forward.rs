//! Forward mode: how outputs change along a direction.

use crate::apply::apply_program;
use crate::custom::autodiff;
use crate::error::Error;
use crate::tensor::Tensor;
use crate::transform::record::{check_types, record};
use crate::transform::{Args, Arguments, Function, Hooks, hookable};
use crate::tree::{self, Tree};
use pullback_ir::{Loc, Program, TensorType};
use std::sync::Arc;

/// Output and directional derivative of a function: see [`jvp`].
#[derive(Clone)]
pub struct Jvp<F> {
    function: F,
    hooks: Hooks,
    at: Loc,
}

hookable! { Jvp<F> }

/// The output of a function and its derivative along a direction, in one pass. As a function it takes two tuples,
/// the arguments and their tangents. Tangents of integers and bools have their type and mean nothing.
#[track_caller]
pub fn jvp<F>(function: F) -> Jvp<F> {
    Jvp { function, hooks: Hooks::default(), at: Loc::caller() }
}

impl<F> Jvp<F> {
    /// Calls it on a tuple of references and the tuple of their tangents: `call((&x,), (&dx,))`.
    pub fn call<R: Arguments, T: Arguments<Owned = R::Owned>>(
        &self,
        arguments: R,
        tangents: T,
    ) -> Result<(F::Output, F::Output), Error>
    where
        F: Function<R::Owned>,
    {
        self.invoke(&(arguments.into_owned(), tangents.into_owned()))
    }
}

impl<A: Args, F: Function<A>> Function<(A, A)> for Jvp<F> {
    type Output = (F::Output, F::Output);

    fn invoke(&self, (arguments, tangents): &(A, A)) -> Result<Self::Output, Error> {
        tree::check_same("jvp: arguments and tangents", arguments, tangents, self.at)?;
        let leaves = tree::leaves(arguments);
        let types = leaf_types(&leaves)?;
        check_types("tangent", &types, tangents, self.at)?;
        let recording = record("jvp", self.at, &self.function, arguments, true)?;
        let wrt = floats(&types);
        let program = autodiff(&self.hooks).jvp(&recording.program, &wrt)?;
        let directions = tree::leaves(tangents);
        let mut inputs = recording.inputs(arguments);
        inputs.extend(wrt.iter().map(|&i| directions[i]));
        let mut outputs = apply_program(&program, &inputs, self.at)?;
        let found = outputs.split_off(tree::count(&recording.output));
        let output = tree::unflatten(&recording.output, outputs)?;
        let tangent = with_tangents(&output, found)?;
        Ok((output, tangent))
    }
}

/// The derivative of a function at a point, ready to be applied: see [`linearize`].
#[derive(Clone)]
pub struct Linearize<F> {
    function: F,
    hooks: Hooks,
    at: Loc,
}

hookable! { Linearize<F> }

/// Evaluates a function once and keeps its derivative there, which can be applied to any number of tangents.
#[track_caller]
pub fn linearize<F>(function: F) -> Linearize<F> {
    Linearize { function, hooks: Hooks::default(), at: Loc::caller() }
}

/// The derivative of a function at the point where it was linearized.
#[derive(Clone)]
pub struct Linear<A, O> {
    /// `residuals.., tangents.. -> tangents of active outputs..`
    program: Arc<Program>,
    residuals: Vec<Tensor>,
    types: Vec<TensorType>,
    /// Which outputs may have a tangent that is not zero.
    active: Vec<usize>,
    arguments: A,
    output: O,
    at: Loc,
}

impl<F> Linearize<F> {
    /// The output at the arguments, and the derivative there.
    pub fn call<R: Arguments>(&self, arguments: R) -> Result<(F::Output, Linear<R::Owned, F::Output>), Error>
    where
        F: Function<R::Owned>,
    {
        let arguments = arguments.into_owned();
        let types = leaf_types(&tree::leaves(&arguments))?;
        let recording = record("linearize", self.at, &self.function, &arguments, true)?;
        let linearized = autodiff(&self.hooks).linearize(&recording.program, &floats(&types))?;
        linearized.check_forward()?;
        let mut outputs = apply_program(&linearized.primal, &recording.inputs(&arguments), self.at)?;
        let residuals = outputs.split_off(linearized.outputs);
        let output = tree::unflatten(&recording.output, outputs)?;
        let linear = Linear {
            program: Arc::new(linearized.linear),
            residuals,
            types,
            active: linearized.active,
            arguments,
            output: tree::map(&output, Tensor::clone),
            at: self.at,
        };
        Ok((output, linear))
    }
}

impl<A: Args, O: Tree> Linear<A, O> {
    /// The tangent of the output along these tangents of the arguments.
    pub fn call<T: Arguments<Owned = A>>(&self, tangents: T) -> Result<O, Error> {
        let tangents = tangents.into_owned();
        tree::check_same("linearize: arguments and tangents", &self.arguments, &tangents, self.at)?;
        check_types("tangent", &self.types, &tangents, self.at)?;
        let directions = tree::leaves(&tangents);
        let wrt = floats(&self.types);
        let inputs: Vec<&Tensor> = self.residuals.iter().chain(wrt.iter().map(|&i| directions[i])).collect();
        let found = apply_program(&self.program, &inputs, self.at)?;
        let mut tangents: Vec<Tensor> =
            tree::leaves(&self.output).into_iter().map(Tensor::zeros_like).collect();
        for (&i, tangent) in self.active.iter().zip(found) {
            tangents[i] = tangent;
        }
        tree::unflatten(&self.output, tangents)
    }

    /// The derivative as a program: residuals, then tangents of the float arguments, to tangents.
    pub fn program(&self) -> &Program {
        &self.program
    }
}

/// Types of tensors.
pub(crate) fn leaf_types(leaves: &[&Tensor]) -> Result<Vec<TensorType>, Error> {
    leaves.iter().map(|leaf| leaf.ty().cloned()).collect()
}

/// Positions of the floats.
pub(crate) fn floats(types: &[TensorType]) -> Vec<usize> {
    (0..types.len()).filter(|&i| types[i].dtype.is_float()).collect()
}

/// The output's structure with the tangents of its floats, and zeros for everything else.
fn with_tangents<O: Tree>(output: &O, found: Vec<Tensor>) -> Result<O, Error> {
    let mut found = found.into_iter();
    let mut tangents = Vec::new();
    for leaf in tree::leaves(output) {
        let tangent = if leaf.dtype()?.is_float() { found.next() } else { None };
        tangents.push(tangent.unwrap_or_else(|| leaf.zeros_like()));
    }
    tree::unflatten(output, tangents)
}

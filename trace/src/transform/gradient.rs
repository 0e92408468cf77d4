//! Gradients of functions with one float scalar as output.

use crate::apply::apply_program;
use crate::custom::autodiff;
use crate::error::Error;
use crate::tensor::Tensor;
use crate::transform::arguments::differentiated;
use crate::transform::record::{Recording, record};
use crate::transform::{Args, First, Function, Hooks, Select, callable, hookable, selection};
use crate::tree::{self, Tree};
use pullback_ir::passes::prune;
use pullback_ir::{Builder, Loc, Program, Value};

/// The gradient of a function: see [`grad`].
#[derive(Clone)]
pub struct Grad<F, S = First> {
    function: F,
    select: S,
    hooks: Hooks,
    at: Loc,
}

/// The value of a function and its gradient: see [`value_and_grad`].
#[derive(Clone)]
pub struct ValueAndGrad<F, S = First> {
    function: F,
    select: S,
    hooks: Hooks,
    at: Loc,
}

/// The gradient of a function whose output is one float scalar, with respect to its first argument or those
/// selected. It has the structure, shapes and dtypes of that argument.
#[track_caller]
pub fn grad<F>(function: F) -> Grad<F> {
    Grad { function, select: First, hooks: Hooks::default(), at: Loc::caller() }
}

/// The output of a function and its gradient, from one evaluation: see [`grad`].
#[track_caller]
pub fn value_and_grad<F>(function: F) -> ValueAndGrad<F> {
    ValueAndGrad { function, select: First, hooks: Hooks::default(), at: Loc::caller() }
}

macro_rules! gradient {
    ($name:ident) => {
        selection! { $name { hooks } }
        hookable! { $name<F, S> }
        callable! { $name<F, S> }
    };
}

gradient! { Grad }
gradient! { ValueAndGrad }
gradient! { ValueAndGradWithAux }

/// The value of a function, what it returns besides, and its gradient: see [`ValueAndGrad::with_aux`].
#[derive(Clone)]
pub struct ValueAndGradWithAux<F, S = First> {
    function: F,
    select: S,
    hooks: Hooks,
    at: Loc,
}

impl<F, S> ValueAndGrad<F, S> {
    /// For a function that returns its loss and something besides, which is passed on: metrics, or a new state.
    pub fn with_aux(self) -> ValueAndGradWithAux<F, S> {
        let ValueAndGrad { function, select, hooks, at } = self;
        ValueAndGradWithAux { function, select, hooks, at }
    }
}

/// The function as a program whose first output is the loss, and the positions of the parameters to differentiate
/// with respect to.
pub(super) fn prepare<A: Args, F: Function<A>, S: Select<A>>(
    transform: &'static str,
    (function, select, at): (&F, &S, Loc),
    arguments: &A,
) -> Result<(Recording<F::Output>, Vec<usize>), Error> {
    let wrt = differentiated(transform, arguments, &select.numbers(arguments), at)?;
    let recording = record(transform, at, function, arguments, true)?;
    check_loss(transform, &recording.program, at)?;
    Ok((recording, wrt))
}

/// Checks that the first output is a float scalar.
pub(super) fn check_loss(transform: &'static str, program: &Program, at: Loc) -> Result<(), Error> {
    let found = program.ty(program.outputs()[0]).clone();
    if found.shape.rank() != 0 || !found.dtype.is_float() {
        return Err(Error::GradientRequiresScalarOutput { transform, found, at });
    }
    Ok(())
}

impl<A: Args, F: Function<A, Output = Tensor>, S: Select<A>> Function<A> for Grad<F, S> {
    type Output = S::Picked;

    fn invoke(&self, arguments: &A) -> Result<S::Picked, Error> {
        let (recording, wrt) = prepare("grad", (&self.function, &self.select, self.at), arguments)?;
        let program = autodiff(&self.hooks).grad(&recording.program, &wrt)?;
        let gradients = apply_program(&program, &recording.inputs(arguments), self.at)?;
        Ok(rebuild(&self.select, arguments, gradients))
    }
}

impl<A: Args, F: Function<A, Output = Tensor>, S: Select<A>> Function<A> for ValueAndGrad<F, S> {
    type Output = (Tensor, S::Picked);

    fn invoke(&self, arguments: &A) -> Result<(Tensor, S::Picked), Error> {
        let (recording, wrt) = prepare("value_and_grad", (&self.function, &self.select, self.at), arguments)?;
        let program = autodiff(&self.hooks).value_and_grad(&recording.program, &wrt)?;
        let mut outputs = apply_program(&program, &recording.inputs(arguments), self.at)?;
        let gradients = outputs.split_off(1);
        Ok((outputs.remove(0), rebuild(&self.select, arguments, gradients)))
    }
}

impl<A, F, S, X> Function<A> for ValueAndGradWithAux<F, S>
where
    A: Args,
    F: Function<A, Output = (Tensor, X)>,
    S: Select<A>,
    X: Tree,
{
    type Output = ((Tensor, X), S::Picked);

    fn invoke(&self, arguments: &A) -> Result<Self::Output, Error> {
        let (recording, wrt) = prepare("value_and_grad", (&self.function, &self.select, self.at), arguments)?;
        let mut builder = Builder::new("value_and_grad");
        let program = &recording.program;
        let params: Vec<Value> = program.param_types().into_iter().map(|ty| builder.param(ty)).collect();
        let (outputs, gradients) =
            autodiff(&self.hooks).value_and_grad_into(&mut builder, program, &params, &wrt)?;
        let program = prune(&builder.finish(&[&outputs[..], &gradients].concat()));
        let mut found = apply_program(&program, &recording.inputs(arguments), self.at)?;
        let gradients = found.split_off(outputs.len());
        Ok((tree::unflatten(&recording.output, found)?, rebuild(&self.select, arguments, gradients)))
    }
}

fn rebuild<A: Args, S: Select<A>>(select: &S, arguments: &A, gradients: Vec<Tensor>) -> S::Picked {
    let mut gradients = gradients.into_iter();
    select.rebuild(arguments, &mut |old| gradients.next().unwrap_or_else(|| old.clone()))
}

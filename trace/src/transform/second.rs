//! Second derivatives of functions with one float scalar as output.

use crate::apply::apply_program;
use crate::custom::autodiff;
use crate::error::Error;
use crate::tensor::Tensor;
use crate::transform::forward::leaf_types;
use crate::transform::gradient::prepare;
use crate::transform::jacobian::arrange;
use crate::transform::record::check_types;
use crate::transform::{
    Args, Arguments, Codomain, First, Function, Hooks, Select, callable, hookable, selection,
};
use crate::tree;
use pullback_ir::Loc;

/// The Hessian of a function: see [`hessian`].
#[derive(Clone)]
pub struct Hessian<F, S = First> {
    function: F,
    select: S,
    hooks: Hooks,
    at: Loc,
}

/// The second derivatives of a function whose output is one float scalar, by its first argument or those selected:
/// forward mode over reverse mode, one lane per element.
///
/// It is the [`jacobian`](crate::jacobian) of the [`grad`](crate::grad), arranged as such: of one tensor a tensor with its
/// shape twice over; of a tuple a tuple of tuples; of a struct a map with a struct for each path.
///
/// ```
/// use pullback_trace::{Error, Tensor, hessian, jit};
///
/// let f = |x: &Tensor| x.powi(3).sum();
/// let second = jit(hessian(f)).call((&Tensor::from([1.0, 2.0]),))?;
/// assert_eq!(second.to_vec::<f64>()?, [6.0, 0.0, 0.0, 12.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn hessian<F>(function: F) -> Hessian<F> {
    Hessian { function, select: First, hooks: Hooks::default(), at: Loc::caller() }
}

selection! { Hessian { hooks } }
hookable! { Hessian<F, S> }
callable! { Hessian<F, S> }

impl<A, F, S> Function<A> for Hessian<F, S>
where
    A: Args,
    F: Function<A, Output = Tensor>,
    S: Select<A>,
    S::Picked: Codomain,
{
    type Output = <S::Picked as Codomain>::Jacobian<S::Picked>;

    fn invoke(&self, arguments: &A) -> Result<Self::Output, Error> {
        let (recording, wrt) = prepare("hessian", (&self.function, &self.select, self.at), arguments)?;
        let autodiff = autodiff(&self.hooks);
        let program = autodiff.jacfwd(&autodiff.grad(&recording.program, &wrt)?, &wrt)?;
        let blocks = apply_program(&program, &recording.inputs(arguments), self.at)?;
        let gradient = self.select.rebuild(arguments, &mut Tensor::clone);
        Ok(arrange(&gradient, &self.select, arguments, blocks))
    }
}

/// Products of a function's Hessian with directions: see [`hvp`].
#[derive(Clone)]
pub struct Hvp<F, S = First> {
    function: F,
    select: S,
    hooks: Hooks,
    at: Loc,
}

/// The Hessian of a function whose output is one float scalar, times a direction in its first argument or those
/// selected, for the price of a few gradients: the Hessian itself is never made. As a function it takes the tuple of
/// arguments, and the direction.
///
/// ```
/// use pullback_trace::{Error, Tensor, hvp};
///
/// let f = |x: &Tensor| x.powi(3).sum();
/// let (x, direction) = (Tensor::from([1.0, 2.0]), Tensor::from([1.0, -1.0]));
/// assert_eq!(hvp(f).call((&x,), &direction)?.to_vec::<f64>()?, [6.0, -12.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn hvp<F>(function: F) -> Hvp<F> {
    Hvp { function, select: First, hooks: Hooks::default(), at: Loc::caller() }
}

selection! { Hvp { hooks } }
hookable! { Hvp<F, S> }

impl<F, S> Hvp<F, S> {
    /// The product at the arguments, with a direction of the structure of those selected.
    pub fn call<R: Arguments>(&self, arguments: R, direction: &S::Picked) -> Result<S::Picked, Error>
    where
        F: Function<R::Owned, Output = Tensor>,
        S: Select<R::Owned>,
    {
        self.product(&arguments.into_owned(), direction)
    }

    fn product<A: Args>(&self, arguments: &A, direction: &S::Picked) -> Result<S::Picked, Error>
    where
        F: Function<A, Output = Tensor>,
        S: Select<A>,
    {
        let (recording, wrt) = prepare("hvp", (&self.function, &self.select, self.at), arguments)?;
        let selected = self.select.rebuild(arguments, &mut Tensor::clone);
        tree::check_same("hvp: selected arguments and direction", &selected, direction, self.at)?;
        check_types("direction", &leaf_types(&tree::leaves(&selected))?, direction, self.at)?;
        let program = autodiff(&self.hooks).hvp(&recording.program, &wrt)?;
        let mut inputs = recording.inputs(arguments);
        inputs.extend(tree::leaves(direction));
        let products = apply_program(&program, &inputs, self.at)?;
        tree::unflatten(&selected, products)
    }
}

impl<A, F, S> Function<(A, S::Picked)> for Hvp<F, S>
where
    A: Args,
    F: Function<A, Output = Tensor>,
    S: Select<A>,
{
    type Output = S::Picked;

    fn invoke(&self, (arguments, direction): &(A, S::Picked)) -> Result<S::Picked, Error> {
        self.product(arguments, direction)
    }
}

//! Jacobians of functions from trees to trees.

use crate::apply::apply_program;
use crate::custom::autodiff;
use crate::error::Error;
use crate::tensor::Tensor;
use crate::transform::arguments::{differentiated, output_name};
use crate::transform::record::{Recording, record};
use crate::transform::{Args, First, Function, Hooks, Select, callable, hookable, selection};
use crate::tree::{self, Tree};
use indexmap::IndexMap;
use pullback_ir::Loc;
use std::collections::BTreeMap;

/// The Jacobian of a function: see [`jacobian`].
#[derive(Clone)]
pub struct Jacobian<F, S = First> {
    function: F,
    select: S,
    mode: Mode,
    hooks: Hooks,
    at: Loc,
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    Forward,
    Reverse,
    Cheaper,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Forward => "jacfwd",
            Mode::Reverse => "jacrev",
            Mode::Cheaper => "jacobian",
        }
    }
}

/// The derivative of a function's output by its first argument, or by those selected: forward mode if the arguments
/// have no more elements than the output, else reverse mode.
///
/// A function with one tensor as output has a Jacobian with the structure of the argument, and each tensor in it has the
/// shape of the output followed by that of the argument's tensor. Where the output is a tuple, array, vector or map,
/// there is one such Jacobian in each place of it; a struct that derives [`Tree`] has a map of them by path
/// (see [`Codomain`]). Dtypes are those of the output.
///
/// ```
/// use pullback_trace::{Error, Tensor, jacobian, stack, transform::All};
///
/// let polar = |r: &Tensor, angle: &Tensor| stack(&[r * angle.cos(), r * angle.sin()], 0);
/// let (by_r, by_angle) = jacobian(polar).argnums(All).call((&Tensor::from(2.0), &Tensor::from(0.0)))?;
/// assert_eq!(by_r.to_vec::<f64>()?, [1.0, 0.0]);
/// assert_eq!(by_angle.to_vec::<f64>()?, [0.0, 2.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn jacobian<F>(function: F) -> Jacobian<F> {
    Jacobian::new(function, Mode::Cheaper, Loc::caller())
}

/// The [`jacobian`] by forward mode: one lane per element of the arguments.
#[track_caller]
pub fn jacfwd<F>(function: F) -> Jacobian<F> {
    Jacobian::new(function, Mode::Forward, Loc::caller())
}

/// The [`jacobian`] by reverse mode: one lane per element of the output.
#[track_caller]
pub fn jacrev<F>(function: F) -> Jacobian<F> {
    Jacobian::new(function, Mode::Reverse, Loc::caller())
}

impl<F> Jacobian<F> {
    fn new(function: F, mode: Mode, at: Loc) -> Jacobian<F> {
        Jacobian { function, select: First, mode, hooks: Hooks::default(), at }
    }
}

selection! { Jacobian { mode, hooks } }
hookable! { Jacobian<F, S> }
callable! { Jacobian<F, S> }

impl<A, F, S> Function<A> for Jacobian<F, S>
where
    A: Args,
    F: Function<A>,
    F::Output: Codomain,
    S: Select<A>,
{
    type Output = <F::Output as Codomain>::Jacobian<S::Picked>;

    fn invoke(&self, arguments: &A) -> Result<Self::Output, Error> {
        let (transform, at) = (self.mode.name(), self.at);
        let wrt = differentiated(transform, arguments, &self.select.numbers(arguments), at)?;
        let recording = record(transform, at, &self.function, arguments, true)?;
        check_outputs(transform, &recording, at)?;
        let autodiff = autodiff(&self.hooks);
        let program = match self.mode {
            Mode::Forward => autodiff.jacfwd(&recording.program, &wrt),
            Mode::Reverse => autodiff.jacrev(&recording.program, &wrt),
            Mode::Cheaper => autodiff.jacobian(&recording.program, &wrt),
        }?;
        let blocks = apply_program(&program, &recording.inputs(arguments), at)?;
        Ok(arrange(&recording.output, &self.select, arguments, blocks))
    }
}

/// Checks that all outputs are floats.
pub(super) fn check_outputs<O: Tree>(
    transform: &'static str,
    recording: &Recording<O>,
    at: Loc,
) -> Result<(), Error> {
    let types = recording.program.output_types();
    if let Some(i) = types.iter().position(|ty| !ty.dtype.is_float()) {
        let (output, found) = (output_name(&tree::paths(&recording.output)[i]), types[i].clone());
        return Err(Error::OutputNotDifferentiable { transform, output, found, at });
    }
    Ok(())
}

/// Blocks, by output, then selected tensor, as a Jacobian.
pub(super) fn arrange<O: Codomain, A: Args, S: Select<A>>(
    output: &O,
    select: &S,
    arguments: &A,
    blocks: Vec<Tensor>,
) -> O::Jacobian<S::Picked> {
    let mut blocks = blocks.into_iter();
    output
        .jacobian(&mut || select.rebuild(arguments, &mut |old| blocks.next().unwrap_or_else(|| old.clone())))
}

/// What a function returns whose [`jacobian`] is taken. `#[derive(Tree)]` implements it, with a map by path.
#[diagnostic::on_unimplemented(
    message = "the Jacobian of a function that returns `{Self}` has no shape here",
    note = "return a `Tensor`, or a tuple, array, vector or map of what has one, or a type with `#[derive(Tree)]`"
)]
pub trait Codomain: Tree {
    /// The Jacobian by an argument of type `P`: a `P` in place of each tensor.
    type Jacobian<P: Tree>: Tree;

    /// Arranges the Jacobians of the tensors, which `next` gives in their order.
    fn jacobian<P: Tree>(&self, next: &mut dyn FnMut() -> P) -> Self::Jacobian<P>;
}

impl Codomain for Tensor {
    type Jacobian<P: Tree> = P;
    fn jacobian<P: Tree>(&self, next: &mut dyn FnMut() -> P) -> P {
        next()
    }
}

impl<T: Codomain> Codomain for Vec<T> {
    type Jacobian<P: Tree> = Vec<T::Jacobian<P>>;
    fn jacobian<P: Tree>(&self, next: &mut dyn FnMut() -> P) -> Self::Jacobian<P> {
        self.iter().map(|part| part.jacobian(next)).collect()
    }
}

impl<T: Codomain, const N: usize> Codomain for [T; N] {
    type Jacobian<P: Tree> = [T::Jacobian<P>; N];
    fn jacobian<P: Tree>(&self, next: &mut dyn FnMut() -> P) -> Self::Jacobian<P> {
        self.each_ref().map(|part| part.jacobian(next))
    }
}

impl<T: Codomain> Codomain for BTreeMap<String, T> {
    type Jacobian<P: Tree> = BTreeMap<String, T::Jacobian<P>>;
    fn jacobian<P: Tree>(&self, next: &mut dyn FnMut() -> P) -> Self::Jacobian<P> {
        self.iter().map(|(key, part)| (key.clone(), part.jacobian(next))).collect()
    }
}

impl<T: Codomain> Codomain for IndexMap<String, T> {
    type Jacobian<P: Tree> = IndexMap<String, T::Jacobian<P>>;
    fn jacobian<P: Tree>(&self, next: &mut dyn FnMut() -> P) -> Self::Jacobian<P> {
        self.iter().map(|(key, part)| (key.clone(), part.jacobian(next))).collect()
    }
}

macro_rules! tuples {
    ($($($t:ident $i:tt)*;)*) => {
        $(impl<$($t: Codomain),*> Codomain for ($($t,)*) {
            type Jacobian<P: Tree> = ($($t::Jacobian<P>,)*);
            fn jacobian<P: Tree>(&self, next: &mut dyn FnMut() -> P) -> Self::Jacobian<P> {
                ($(self.$i.jacobian(next),)*)
            }
        })*
    };
}

tuples! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
}

/// The Jacobians of a tree's tensors by the path of each, such as `layers.0.weight`.
pub fn by_path<T: Tree, P: Tree>(tree: &T, next: &mut dyn FnMut() -> P) -> BTreeMap<String, P> {
    tree::paths(tree).into_iter().map(|path| (path.trim_start_matches('.').to_string(), next())).collect()
}

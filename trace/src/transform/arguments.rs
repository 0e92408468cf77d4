//! Arguments of functions: tuples of trees, passed as tuples of references, some of them selected.

use crate::error::Error;
use crate::tensor::Tensor;
use crate::tree::{self, Tree};
use pullback_ir::Loc;

/// A tuple of trees that a function takes.
pub trait Args: Tree {
    /// Number of tensors in each argument.
    fn counts(&self) -> Vec<usize>;
}

/// A tuple of references to trees.
pub trait Arguments {
    /// The tuple of trees.
    type Owned: Args;
    /// The trees themselves; their tensors are shared.
    fn into_owned(self) -> Self::Owned;
}

/// Argument `N` of a tuple.
pub trait Pick<const N: usize>: Args {
    /// Its type.
    type Item: Tree;
    /// The argument.
    fn pick(&self) -> &Self::Item;
}

macro_rules! arguments {
    ($($($t:ident $i:tt)*;)*) => {
        $(impl<$($t: Tree),*> Args for ($($t,)*) {
            fn counts(&self) -> Vec<usize> {
                vec![$(tree::count(&self.$i)),*]
            }
        }
        impl<$($t: Tree),*> Arguments for ($(&$t,)*) {
            type Owned = ($($t,)*);
            fn into_owned(self) -> Self::Owned {
                ($(self.$i.rebuild(&mut Tensor::clone),)*)
            }
        }
        arguments! { @pick [$($t)*] $($t $i)* })*
    };
    (@pick $all:tt $($t:ident $i:tt)*) => { $(arguments! { @one $all $t $i })* };
    (@one [$($all:ident)*] $t:ident $i:tt) => {
        impl<$($all: Tree),*> Pick<$i> for ($($all,)*) {
            type Item = $t;
            fn pick(&self) -> &$t {
                &self.$i
            }
        }
    };
}

arguments! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
}

/// Which arguments a gradient is taken with respect to.
pub trait Select<A: Args> {
    /// What the gradient looks like: the selected argument, or a tuple of them.
    type Picked: Tree;
    /// Numbers of the arguments, in the order of the gradients.
    fn numbers(&self, arguments: &A) -> Vec<usize>;
    /// The selected arguments with other tensors.
    fn rebuild(&self, arguments: &A, replace: &mut dyn FnMut(&Tensor) -> Tensor) -> Self::Picked;
}

/// The first argument.
#[derive(Clone, Copy, Debug)]
pub struct First;

/// Argument `N`, counted from 0.
#[derive(Clone, Copy, Debug)]
pub struct Arg<const N: usize>;

/// All arguments.
#[derive(Clone, Copy, Debug)]
pub struct All;

impl<A: Pick<0>> Select<A> for First {
    type Picked = A::Item;
    fn numbers(&self, _: &A) -> Vec<usize> {
        vec![0]
    }
    fn rebuild(&self, arguments: &A, replace: &mut dyn FnMut(&Tensor) -> Tensor) -> A::Item {
        arguments.pick().rebuild(replace)
    }
}

impl<A: Pick<N>, const N: usize> Select<A> for Arg<N> {
    type Picked = A::Item;
    fn numbers(&self, _: &A) -> Vec<usize> {
        vec![N]
    }
    fn rebuild(&self, arguments: &A, replace: &mut dyn FnMut(&Tensor) -> Tensor) -> A::Item {
        arguments.pick().rebuild(replace)
    }
}

impl<A: Args> Select<A> for All {
    type Picked = A;
    fn numbers(&self, arguments: &A) -> Vec<usize> {
        (0..arguments.counts().len()).collect()
    }
    fn rebuild(&self, arguments: &A, replace: &mut dyn FnMut(&Tensor) -> Tensor) -> A {
        Tree::rebuild(arguments, replace)
    }
}

impl<A, S: Select<A>, T: Select<A>> Select<A> for (S, T)
where
    A: Args,
{
    type Picked = (S::Picked, T::Picked);
    fn numbers(&self, arguments: &A) -> Vec<usize> {
        [self.0.numbers(arguments), self.1.numbers(arguments)].concat()
    }
    fn rebuild(&self, arguments: &A, replace: &mut dyn FnMut(&Tensor) -> Tensor) -> Self::Picked {
        (self.0.rebuild(arguments, replace), self.1.rebuild(arguments, replace))
    }
}

impl<A: Args, S: Select<A>, T: Select<A>, U: Select<A>> Select<A> for (S, T, U) {
    type Picked = (S::Picked, T::Picked, U::Picked);
    fn numbers(&self, arguments: &A) -> Vec<usize> {
        [self.0.numbers(arguments), self.1.numbers(arguments), self.2.numbers(arguments)].concat()
    }
    fn rebuild(&self, arguments: &A, replace: &mut dyn FnMut(&Tensor) -> Tensor) -> Self::Picked {
        (
            self.0.rebuild(arguments, replace),
            self.1.rebuild(arguments, replace),
            self.2.rebuild(arguments, replace),
        )
    }
}

/// Positions among all tensors of the arguments of those that are differentiated, after checking that they are floats.
pub(crate) fn differentiated<A: Args>(
    transform: &'static str,
    arguments: &A,
    numbers: &[usize],
    at: Loc,
) -> Result<Vec<usize>, Error> {
    let counts = arguments.counts();
    let leaves = tree::leaves(arguments);
    let mut positions = Vec::new();
    for (i, &number) in numbers.iter().enumerate() {
        if numbers[..i].contains(&number) {
            return Err(Error::ArgumentRepeated { transform, argument: number, at });
        }
        let start: usize = counts[..number].iter().sum();
        positions.extend(start..start + counts[number]);
    }
    for &position in &positions {
        let found = leaves[position].ty()?;
        if !found.dtype.is_float() {
            let argument = argument_name(arguments, position);
            return Err(Error::NotDifferentiable { transform, argument, found: found.clone(), at });
        }
    }
    Ok(positions)
}

/// `argument 0 at .layers.1.weight`, for the tensor at a position among all of the arguments.
pub(crate) fn argument_name<A: Args>(arguments: &A, position: usize) -> String {
    part_name("argument", &tree::paths(arguments)[position])
}

/// `output 0 at .loss`, or `the output` where it is one tensor.
pub(crate) fn output_name(path: &str) -> String {
    if path.is_empty() { "the output".to_string() } else { part_name("output", path) }
}

/// A path into a tuple in words.
pub(crate) fn part_name(kind: &str, path: &str) -> String {
    let path = path.trim_start_matches('.');
    match path.find(['.', '[']) {
        Some(end) => format!("{kind} {} at {}", &path[..end], &path[end..]),
        None => format!("{kind} {path}"),
    }
}

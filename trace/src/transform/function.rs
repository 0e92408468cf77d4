//! What transforms accept: functions on trees.

use crate::error::Error;
use crate::tensor::Tensor;
use crate::transform::Args;
use crate::tree::{self, Tree};

/// A function of the arguments `A`, a tuple of trees. Closures and functions of up to six references to trees are
/// such functions, and so are transforms of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a function of `{A}`",
    note = "functions take references to trees, `|x: &Tensor, y: &Tensor| ...`, with their types written, and return a tree or a `Result` of one"
)]
pub trait Function<A: Args> {
    /// What it returns.
    type Output: Tree;

    /// Calls it.
    fn invoke(&self, arguments: &A) -> Result<Self::Output, Error>;
}

/// What a function may return: a tree, or a `Result` of one. What calls it gives its own result in the same form.
pub trait IntoOutput {
    /// The tree.
    type Tree: Tree;
    /// Another tree in this form.
    type Form<T: Tree>;

    /// The tree, or why there is none.
    fn into_output(self) -> Result<Self::Tree, Error>;

    /// A result in this form.
    fn form<T: Tree>(due: Due<T>) -> Self::Form<T>;

    /// The result, in this form, of what follows from the tree.
    fn then<T: Tree>(self, rest: impl FnOnce(Self::Tree) -> Due<T>) -> Self::Form<T>;
}

/// A result whose structure is certain and whose tensors may have failed.
pub struct Due<T> {
    /// A tree of that structure.
    pub(crate) like: T,
    /// The tensors in its places.
    pub(crate) tensors: Result<Vec<Tensor>, Error>,
}

impl<T: Tree> Due<T> {
    /// The tree, or why there is none.
    fn into_result(self) -> Result<T, Error> {
        tree::unflatten(&self.like, self.tensors?)
    }

    /// The tree, of failed tensors if there is none.
    pub(crate) fn into_tree(self) -> T {
        let filled = self.tensors.and_then(|tensors| tree::unflatten(&self.like, tensors));
        filled.unwrap_or_else(|error| {
            let failed = Tensor::failed(error);
            tree::map(&self.like, |_| failed.clone())
        })
    }
}

impl<T: Tree> IntoOutput for T {
    type Tree = T;
    type Form<U: Tree> = U;
    fn into_output(self) -> Result<T, Error> {
        Ok(self)
    }
    fn form<U: Tree>(due: Due<U>) -> U {
        due.into_tree()
    }
    fn then<U: Tree>(self, rest: impl FnOnce(T) -> Due<U>) -> U {
        rest(self).into_tree()
    }
}

impl<T: Tree, E: Into<Error>> IntoOutput for Result<T, E> {
    type Tree = T;
    type Form<U: Tree> = Result<U, Error>;
    fn into_output(self) -> Result<T, Error> {
        self.map_err(Into::into)
    }
    fn form<U: Tree>(due: Due<U>) -> Result<U, Error> {
        due.into_result()
    }
    fn then<U: Tree>(self, rest: impl FnOnce(T) -> Due<U>) -> Result<U, Error> {
        rest(self.map_err(Into::into)?).into_result()
    }
}

macro_rules! functions {
    ($($($t:ident $i:tt)*;)*) => {
        $(impl<Func, Out, $($t),*> Function<($($t,)*)> for Func
        where
            Func: Fn($(&$t),*) -> Out,
            Out: IntoOutput,
            $($t: Tree),*
        {
            type Output = Out::Tree;
            fn invoke(&self, arguments: &($($t,)*)) -> Result<Out::Tree, Error> {
                self($(&arguments.$i),*).into_output()
            }
        })*
    };
}

functions! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
}

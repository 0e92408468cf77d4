//! What transforms accept: functions on trees.

use crate::error::Error;
use crate::transform::Args;
use crate::tree::Tree;

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

/// What a function may return: a tree, or a `Result` of one.
pub trait IntoOutput {
    /// The tree.
    type Tree: Tree;

    /// The tree, or why there is none.
    fn into_output(self) -> Result<Self::Tree, Error>;
}

impl<T: Tree> IntoOutput for T {
    type Tree = T;
    fn into_output(self) -> Result<T, Error> {
        Ok(self)
    }
}

impl<T: Tree, E: Into<Error>> IntoOutput for Result<T, E> {
    type Tree = T;
    fn into_output(self) -> Result<T, Error> {
        self.map_err(Into::into)
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

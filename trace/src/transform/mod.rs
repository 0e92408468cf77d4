//! Transforms as values. Each takes anything callable on trees and can be called, or handed to another transform.
//!
//! A transform records the function as a closed program at the types of its arguments, transforms the program, and
//! gives the result to the arguments: it runs if they are concrete, and is recorded if they are traced themselves.
//! So transforms nest in any order, and the inner one never sees the outer.

pub(crate) mod arguments;
mod forward;
mod function;
mod gradient;
mod jit;
mod record;
mod reverse;

pub use arguments::{All, Arg, Args, Arguments, First, Pick, Select};
pub use forward::{Jvp, Linear, Linearize, jvp, linearize};
pub use function::{Function, IntoOutput};
pub use gradient::{Grad, ValueAndGrad, ValueAndGradWithAux, grad, value_and_grad};
pub use jit::{CacheStats, Compiled, Jit, Lowered, jit};
pub use reverse::{Pullback, Vjp, vjp};

/// Gives a transform its `call`.
macro_rules! callable {
    ($name:ident<$($p:ident),*>) => {
        impl<$($p),*> $name<$($p),*> {
            /// Calls the transformed function on a tuple of references: `call((&x, &y))`.
            pub fn call<R: $crate::transform::Arguments>(
                &self,
                arguments: R,
            ) -> Result<<Self as $crate::transform::Function<R::Owned>>::Output, $crate::Error>
            where
                Self: $crate::transform::Function<R::Owned>,
            {
                $crate::transform::Function::invoke(self, &arguments.into_owned())
            }
        }
    };
}
pub(crate) use callable;

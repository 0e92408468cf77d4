//! Transforms as values. Each takes anything callable on trees and can be called, or handed to another transform.
//!
//! A transform records the function as a closed program at the types of its arguments, transforms the program, and
//! gives the result to the arguments: it runs if they are concrete, and is recorded if they are traced themselves.
//! So transforms nest in any order, and the inner one never sees the outer.
//!
//! A [`Hook`] sees every op that a derivative is made of, and may count it, scale it or put another in its place:
//!
//! ```
//! use pullback_ir::program::Values;
//! use pullback_ir::{Builder, TypeError};
//! use pullback_trace::transform::{Emission, Hook, Hooks};
//! use pullback_trace::{Error, Tensor, grad};
//! use std::sync::{Arc, Mutex};
//!
//! /// Scales a loss, as training in low precision does, where its cotangent is made.
//! struct LossScale(f64);
//!
//! impl Hook for LossScale {
//!     fn emit(&mut self, b: &mut Builder, seed: &Emission<'_>) -> Result<Option<Values>, TypeError> {
//!         let one = b.one(seed.op.clone(), seed.operands)?;
//!         Ok(Some(Values::from_iter([b.mul_number(one, self.0)?])))
//!     }
//! }
//!
//! let scale = Hooks { seed: Some(Arc::new(Mutex::new(LossScale(1024.0)))), ..Hooks::default() };
//! let gradient = grad(|x: &Tensor| x.square()).hooks(scale).call((&Tensor::from(3.0),))?;
//! assert_eq!(gradient.item::<f64>()?, 6144.0);
//! # Ok::<(), Error>(())
//! ```
//!
//! [`emit_into`] sends what a transform makes into a program under construction.

pub(crate) mod arguments;
mod checkpoint;
mod emit;
pub(crate) mod forward;
mod function;
mod gradient;
mod jacobian;
mod jit;
mod lanes;
mod record;
mod residuals;
mod reverse;
mod second;
pub(crate) mod sparse;
mod taps;
mod vmap;

pub use arguments::{All, Arg, Args, Arguments, First, Pick, Select};
pub use checkpoint::{Checkpoint, Keep, checkpoint};
pub use emit::emit_into;
pub use forward::{Jvp, Linear, Linearize, jvp, linearize};
pub use function::{Due, Function, IntoOutput};
pub use gradient::{Grad, ValueAndGrad, ValueAndGradWithAux, grad, value_and_grad};
pub use jacobian::{Codomain, Jacobian, by_path, jacfwd, jacobian, jacrev};
pub use jit::{CacheStats, Compiled, Jit, Lowered, jit};
pub use lanes::Lanes;
pub use residuals::{Saved, SavedResidual, SavedResiduals, saved_residuals};
pub use reverse::{Pullback, Vjp, vjp};
pub use second::{Hessian, Hvp, hessian, hvp};
pub use sparse::{
    SparseHessian, SparseJacobian, SparsePlan, Sparsity, sparse_hessian, sparse_jacobian, sparsity,
};
pub use taps::{CollectTapCotangents, CollectTaps, Taps, collect_tap_cotangents, collect_taps, tap};
pub use vmap::{Vmap, vmap};

pub use pullback_autodiff::Hooks;
pub use pullback_ir::{Emission, Hook, Stage};

/// Gives a transform its `hooks`.
macro_rules! hookable {
    ($name:ident<$($p:ident),*>) => {
        impl<$($p),*> $name<$($p),*> {
            /// With hooks, which see each op the derivative is made of and may put others in its place.
            pub fn hooks(self, hooks: $crate::transform::Hooks) -> Self {
                $name { hooks, ..self }
            }
        }
    };
}
pub(crate) use hookable;

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

/// Gives a transform the choice of arguments to differentiate with respect to; listed are its other fields.
macro_rules! selection {
    ($name:ident { $($field:ident),* }) => {
        impl<F, S> $name<F, S> {
            /// With respect to argument `N`, counted from 0.
            pub fn argnum<const N: usize>(self) -> $name<F, $crate::transform::Arg<N>> {
                self.argnums($crate::transform::Arg::<N>)
            }

            /// With respect to the arguments selected: `(Arg::<0>, Arg::<2>)`, or [`All`](crate::transform::All).
            pub fn argnums<T>(self, select: T) -> $name<F, T> {
                $name { function: self.function, select, at: self.at, $($field: self.$field),* }
            }
        }
    };
}
pub(crate) use selection;

//! Linearize and transpose, the derivatives they compose to, and batch.
//!
//! [`linearize`](Autodiff::linearize) splits a program into its primal part and its derivative, which is a linear
//! program; [`transpose`](Autodiff::transpose) turns a linear program around. Forward mode, reverse mode and
//! gradients are compositions of the two, and since each of them maps programs to programs, so are derivatives of
//! derivatives. [`batch`](Autodiff::batch) turns a program into one that does its work for many arguments at once, and
//! composes with all of them.
//!
//! This crate knows no op by name except those that hold programs or contracts: it asks ops for their rules.
#![forbid(unsafe_code)]

mod backward;
mod batch;
mod control;
mod custom;
mod derive;
mod error;
mod jacobian;
mod least;
mod linearize;
mod options;
mod transpose;
mod verify_linear;
mod work;

pub use backward::{AtHand, Backward};
pub use batch::batch;
pub use custom::Contracts;
pub use derive::{Linearization, grad, hvp, jvp, linearize, transpose, value_and_grad, vjp};
pub use error::AdError;
pub use jacobian::{jacfwd, jacobian, jacrev};
pub use linearize::Linearized;
pub use options::{Autodiff, Hooks};
pub use verify_linear::verify_linear;

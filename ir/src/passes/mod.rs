//! What every user of programs wants done to them. Each pass is a function from a program to a program that computes
//! the same outputs, bit for bit (which NaN excepted), and fails where that fails ([`prune`] excepted), in near-linear
//! time and without recursion over program size.
//!
//! Passes reach into nested programs. Given a program that does not [verify](crate::Program::verify), a pass may return it
//! as it is.

mod cse;
mod dce;
mod fold;
mod inline;
mod invariant;
mod loops;
mod rebuild;
pub mod simplify;

pub use cse::cse;
pub use dce::{dce, prune};
pub use fold::{Evaluate, fold};
pub use invariant::{invariant_program, invariant_values};
pub use simplify::{simplify, simplify_with};

//! Elementwise functions, each defined once.
//!
//! A definition is generic over a machine ([`Lanes`] for floats, [`IntLanes`] for integers): the interpreter
//! runs it on plain numbers and arrays of them, the code generator on values of a function it is emitting.
//! Same operations in the same order, hence the same bits.

mod constants;
mod double;
mod elementary;
mod error_function;
mod exp;
mod hyperbolic;
mod inverse_trig;
pub mod lanes;
mod log;
pub mod plain;
mod power;
mod slow;
mod trig;

pub use elementary::Elementary;
pub use lanes::{Float, Int, IntLanes, Lanes, Slow, Slow2};
pub use plain::Plain;

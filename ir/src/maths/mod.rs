//! Elementwise functions, each defined once.
//!
//! A definition is generic over a machine ([`Lanes`] for floats, [`IntLanes`] for integers): the interpreter runs
//! it on plain numbers and arrays of them, the code generator on values of a function it is emitting. Same
//! operations in the same order, hence the same bits.

pub mod elementary;
pub mod lanes;
pub mod plain;

pub use elementary::Elementary;
pub use lanes::{Float, Int, IntLanes, Lanes, Slow, Slow2};
pub use plain::Plain;

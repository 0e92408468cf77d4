//! Arrays, buffers, threads, kernels and the reference interpreter.
//!
//! This crate knows no derivatives, no code generator and no tracing. Its interpreter gives programs their meaning;
//! machine code must give the same bits.

pub mod array;
pub mod dependence;
pub mod error;
pub mod eval;
pub mod interpreter;
pub mod kernels;
mod lanes;
pub mod pool;
mod print;
mod stack;
pub mod threads;
pub mod view;

pub use array::{Array, ArrayError, Difference, Element, Nested};
pub use error::RuntimeError;
pub use interpreter::{Interpreter, check_results, first_non_finite, interpret, interpret_checked};
pub use view::{View, ViewMut};

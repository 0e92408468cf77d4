//! Gradients of ordinary Rust functions: a trace-and-transform automatic differentiation compiler for the CPU.
//!
//! ```
//! use pullback::prelude::*;
//!
//! let x = Tensor::from([1.0, 2.0, 3.0]);
//! let y = (&x * 2.0 + 1.0).sum();
//! assert_eq!(y.item::<f64>()?, 15.0);
//! # Ok::<(), pullback::Error>(())
//! ```
#![forbid(unsafe_code)]

pub use pullback_trace::*;

/// The language of programs.
pub use pullback_ir as ir;
/// Arrays and the reference interpreter.
pub use pullback_runtime as runtime;

pub use pullback_ir::{DType, Shape, TensorType};
pub use pullback_runtime::Array;

/// What a program that uses pullback needs nearly always.
pub mod prelude {
    pub use crate::{DType, Error, Tensor, concat, einsum, stack, where_};
}

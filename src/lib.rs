//! Gradients of ordinary Rust functions: a trace-and-transform automatic differentiation compiler for the CPU.
//!
//! ```
//! use pullback::prelude::*;
//!
//! #[derive(Tree)]
//! struct Line { slope: Tensor, offset: Tensor }
//!
//! fn loss(line: &Line, x: &Tensor, y: &Tensor) -> Tensor {
//!     (&line.slope * x + &line.offset - y).square().mean()
//! }
//!
//! let line = Line { slope: Tensor::from(2.0), offset: Tensor::from(0.0) };
//! let (x, y) = (Tensor::from([1.0, 2.0]), Tensor::from([3.0, 5.0]));
//! let step = jit(value_and_grad(loss)); // differentiates the first argument
//! let (value, gradient) = step.call((&line, &x, &y))?;
//! assert_eq!(value.item::<f64>()?, 1.0);
//! assert_eq!(gradient.slope.item::<f64>()?, -3.0);
//! assert_eq!(gradient.offset.item::<f64>()?, -2.0);
//! # Ok::<(), Error>(())
//! ```
//!
//! Functions are ordinary Rust functions on [`Tensor`]. Transforms ([`grad`], [`value_and_grad`], [`jvp`], [`vjp`],
//! [`linearize`], [`jit`]) take functions and nest in any order; arguments and results are [trees](tree::Tree) of
//! tensors. Errors stay in the tensors they befall and come out where a value leaves: see [`Tensor`].
#![forbid(unsafe_code)]

pub use pullback_trace::*;

/// Linearize and transpose on programs.
pub use pullback_autodiff as autodiff;
/// The language of programs.
pub use pullback_ir as ir;
/// Arrays and the reference interpreter.
pub use pullback_runtime as runtime;

pub use pullback_ir::{DType, Shape, TensorType};
pub use pullback_runtime::Array;

/// What a program that uses pullback needs nearly always.
pub mod prelude {
    pub use crate::{DType, Error, Tensor, Tree, concat, einsum, stack, where_};
    pub use crate::{grad, jit, jvp, linearize, value_and_grad, vjp};
}

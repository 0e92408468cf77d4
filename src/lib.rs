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
//! [`vmap`] turns a function of one example into one of many, and composes with everything else:
//!
//! ```
//! use pullback::prelude::*;
//!
//! let distance = |x: &Tensor, y: &Tensor| (x - y).square().sum().sqrt();
//! let xs = Tensor::from([[0.0, 0.0], [3.0, 0.0]]);
//! let from_each_to_each = vmap(vmap(distance).in_axes((None, 0))).in_axes((0, None));
//! assert_eq!(jit(from_each_to_each).call((&xs, &xs))?.to_vec::<f64>()?, [0.0, 3.0, 3.0, 0.0]);
//!
//! let slopes = vmap(grad(distance)).in_axes((0, None)); // one gradient per example
//! let slopes = slopes.call((&xs, &Tensor::from([0.0, 1.0])))?;
//! assert_eq!(slopes.index_axis(0, 0).to_vec::<f64>()?, [0.0, -1.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! Rust's own `for` and `if` unroll while a function is recorded. Loops whose length depends on data, or that are too
//! long to unroll, are [`scan`], [`fori_loop`] and [`while_loop`]; a choice that depends on data is [`cond`] or
//! [`switch`]. All have derivatives in both modes and compile: see [`control`].
//!
//! ```
//! use pullback::prelude::*;
//!
//! // The square root of a by Newton's iteration, as often as it takes.
//! fn root(a: &Tensor) -> Tensor {
//!     while_loop(a, |x| (x * x - a).abs().gt(1e-12), |x| (a / x + x) * 0.5)
//! }
//! let slope = jit(grad(root)).call((&Tensor::from(2.0),))?;
//! assert!((slope.item::<f64>()? - 0.5 / 2f64.sqrt()).abs() < 1e-9);
//!
//! // An array filled in a loop: each element half the one before.
//! let filled = fori_loop(1, 4, &Tensor::from([8.0, 0.0, 0.0, 0.0]), |i, a| a.set_at(i, a.at(i - 1) * 0.5));
//! assert_eq!(filled.to_vec::<f64>()?, [8.0, 4.0, 2.0, 1.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! Functions are ordinary Rust functions on [`Tensor`]. Transforms ([`grad`], [`value_and_grad`], [`jvp`], [`vjp`],
//! [`linearize`], [`jacobian`], [`hessian`], [`hvp`], [`vmap`], [`jit`], [`checkpoint`]) take functions and nest in any order; arguments and results are [trees](tree::Tree) of
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

/// The programs of the README, which are compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// What a program that uses pullback needs nearly always.
pub mod prelude {
    pub use crate::control::Operands;
    pub use crate::custom::{custom_linear_solve, custom_root};
    pub use crate::{DType, Error, Tensor, Tree, concat, einsum, stack, where_};
    pub use crate::{checkpoint, grad, hessian, hvp, jacfwd, jacobian, jacrev, jit, jvp};
    pub use crate::{cond, fori_loop, scan, switch, while_loop};
    pub use crate::{custom_jvp, custom_vjp};
    pub use crate::{linearize, value_and_grad, vjp, vmap};
    pub use crate::{sparse_hessian, sparse_jacobian, sparsity};
}

//! Autograd of live tensors: ops run at once and remember how their results came about, and
//! [`backward`](crate::Tensor::backward) turns that history into a program, which is differentiated like any other.
//!
//! [`Tensor::param`](crate::Tensor::param) makes a tensor whose gradient is kept. Results of ops on it are live: they hold
//! the op, its operands, and of the values what its derivative needs. A backward pass gathers the ops that lead to its
//! root into a program, in the order in which they were run, linearizes it at the saved values, transposes it and runs it;
//! a structure that comes again is compiled. So gradients are the same to the bit as those of the transforms.
//!
//! ```
//! use pullback_trace::Tensor;
//! use pullback_trace::eager::Reset;
//!
//! let (w, x, y) = (Tensor::param(0.0), Tensor::from([1.0, 2.0]), Tensor::from([3.0, 6.0]));
//! for _ in 0..50 {
//!     let loss = (&w * &x - &y).square().mean();
//!     loss.backward()?;
//!     let gradient = w.grad()?.unwrap();
//!     w.update(|w| w - gradient * 0.1)?;
//!     w.zero_grad(Reset::None)?;
//! }
//! assert!((w.item::<f64>()? - 3.0).abs() < 1e-9);
//! # Ok::<(), pullback_trace::Error>(())
//! ```
//!
//! Tensors and their histories may be used from several threads. A value is never changed in place: what changes is which
//! value a parameter has, and ops that read an earlier one are refused in a backward pass. Functions that are themselves
//! transforms (`jit`, `grad`, `scan`, `checkpoint`, ...) are one op in the history.

mod backward;
mod error;
mod functional;
mod gather;
mod graph;
mod hooks;
mod param;
mod plan;
mod scope;

pub use backward::{Node, Pass, Retain};
pub use error::EagerError;
pub use functional::{Seeds, grad, gradients};
pub(crate) use graph::{Live, is_live, record};
pub use hooks::Hook;
pub(crate) use param::Param;
pub use param::Reset;
pub use plan::{EagerStats, clear_cache, stats};
pub use scope::{checked, enable_grad, is_checked, is_grad_enabled, no_grad};

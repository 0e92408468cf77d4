//! Tensors, tracing and the transforms users call.
//!
//! A [`Tensor`] is concrete or a value of a program being recorded. The transforms record the user's function as a
//! closed program, transform the program, and run it or record it in turn. This crate knows no Cranelift and no
//! kernel internals, and it keeps no state but that of the traces themselves.
#![forbid(unsafe_code)]

// The derive names the facade; in here that is this crate.
extern crate self as pullback;

mod apply;
pub mod control;
pub mod custom;
pub mod eager;
mod error;
mod execute;
mod gradcheck;
pub mod nn;
mod ops;
pub mod optim;
pub mod random;
pub mod sparse;
mod tensor;
mod trace;
pub mod transform;
pub mod tree;

pub use control::{associative_scan, cond, fori_loop, scan, switch, while_loop};
pub use custom::{custom_jvp, custom_vjp};
pub use error::Error;
pub use gradcheck::{GradcheckFailure, GradcheckOptions, GradcheckReport, gradcheck};
pub use ops::axes::{Axes, Extents, Index};
pub use ops::number::{Number, Numeric, Operand};
pub use ops::{IndexMode, Slices, Span, concat, einsum, stack, where_};
/// Makes a type a tree: see [`tree::Tree`].
pub use pullback_derive::Tree;
/// A compiled function of plain numbers: see [`transform::Compiled::direct`].
pub use pullback_lower::Direct;
pub use tensor::Tensor;
pub use transform::{
    checkpoint, grad, hessian, hvp, jacfwd, jacobian, jacrev, jit, jvp, linearize, sparse_hessian,
    sparse_jacobian, sparsity, value_and_grad, vjp, vmap,
};
pub use tree::Tree;

//! The methods of [`Tensor`](crate::Tensor), by theme. Each is an op, or a composition of ops; all record the place
//! of the user's call.

mod activation;
mod arrange;
mod at;
pub(crate) mod axes;
pub(crate) mod broadcast;
mod compare;
mod contract;
mod einsum;
mod elementwise;
mod index;
pub(crate) mod number;
mod operators;
mod reduce;
mod shape;
mod slice;
mod softmax;
mod statistics;
mod triangle;

pub use arrange::{concat, stack};
pub use compare::where_;
pub use einsum::einsum;
pub use pullback_ir::ops::index::IndexMode;
pub use slice::{Slices, Span};

//! Sparse derivatives: which entries of a Jacobian or Hessian can differ from zero, and all of those from a few
//! products instead of one per column.
//!
//! [`sparsity`](crate::sparsity) finds the [`Pattern`]; [`sparse_jacobian`](crate::sparse_jacobian) and [`sparse_hessian`](crate::sparse_hessian) plan once for it and
//! evaluate the plan many times, to a [`Csr`].

mod colouring;
pub(crate) mod compression;
mod csr;
mod pattern;

pub use crate::transform::SparsePlan;
pub use csr::Csr;
pub use pattern::Pattern;

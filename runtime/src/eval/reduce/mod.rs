//! Reductions over dimensions.

#[allow(clippy::module_inception)] // Evaluations stand at the path of their op.
pub(super) mod reduce;

pub(super) mod arg_reduce;

//! Reductions over dimensions.

#[allow(clippy::module_inception)] // The file is named after its one concept, which is the folder's as well.
pub mod reduce;

pub mod arg_reduce;

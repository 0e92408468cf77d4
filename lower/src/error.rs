//! Why a program could not be lowered.

use crate::jit::JitError;
use pullback_ir::TypeError;
use thiserror::Error;

/// A program could not be turned into code.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum LowerError {
    /// A pass made an op its type rule refuses.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// Code could not be made.
    #[error(transparent)]
    Jit(#[from] JitError),
}

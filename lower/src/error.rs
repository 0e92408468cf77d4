//! Why a program could not be lowered.

use crate::jit::JitError;
use thiserror::Error;

/// A program could not be turned into code.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum LowerError {
    /// Code could not be made.
    #[error(transparent)]
    Jit(#[from] JitError),
}

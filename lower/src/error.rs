//! Why a program could not be lowered.

use crate::jit::JitError;
use thiserror::Error;

/// A program could not be turned into code.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum LowerError {
    /// A program holds stacks, for which there is no code yet.
    #[error("@{program} holds stacks, and there is no code for them yet; interpret it")]
    Stack {
        /// Name of the program.
        program: String,
    },
    /// Code could not be made.
    #[error(transparent)]
    Jit(#[from] JitError),
}

//! From Cranelift functions to code that can be called.
//!
//! A [`Unit`] collects functions that may call one another and functions of the runtime; [`Unit::finish`] compiles
//! them in parallel, links them into one block of memory and gives a [`Code`], which owns that memory and returns
//! it when dropped. Nothing outlives its owner: there is no module that only grows.

mod code;
mod host;
mod link;
#[cfg(test)]
mod tests;
mod unit;

pub use code::{Code, Entry, EntryFunction, RangeFunction};
pub use host::host;
#[cfg(test)]
pub(crate) use host::plain_processor;
pub use unit::{FunctionId, Unit};

/// Why code could not be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JitError {
    /// Cranelift cannot make code for this machine.
    #[error("there is no code generator for this machine: {0}; use the interpreter")]
    Host(String),
    /// Cranelift refused a function.
    #[error("function `{function}` does not compile: {message}")]
    Compile {
        /// Name of the function.
        function: String,
        /// What Cranelift says.
        message: String,
    },
    /// A function is called and was declared, but never defined.
    #[error("function `{0}` is declared but not defined")]
    Undefined(String),
    /// A call or address that cannot be linked.
    #[error("function `{function}` cannot be linked: {message}")]
    Link {
        /// Name of the function with the reference.
        function: String,
        /// What is wrong with it.
        message: String,
    },
    /// The system gives no executable memory.
    #[error("no executable memory for {bytes} bytes of code: {message}")]
    Memory {
        /// Size of the code.
        bytes: usize,
        /// What the system says.
        message: String,
    },
}

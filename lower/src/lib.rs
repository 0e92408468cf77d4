//! From programs to machine code: fusion, kernels, memory plan, Cranelift.
//!
//! This crate knows no op by name (it asks each for its recipe), no derivatives and no tracing.

pub mod code;
pub mod emit;
mod fuse;
pub mod jit;
pub mod kernel;
pub mod schedule;

//! From programs to machine code: fusion, kernels, memory plan, Cranelift.
//!
//! This crate knows no op by name (it asks each for its recipe), no derivatives and no tracing.

mod cache;
mod code;
mod combine;
pub mod control;
mod direct;
pub mod emit;
mod error;
mod executable;
mod fuse;
pub mod jit;
pub mod kernel;
mod lowered;
mod plan;
mod prepare;
pub mod schedule;
mod scratch;
mod sweep;

pub use cache::Cache;
pub use direct::Direct;
pub use error::LowerError;
pub use executable::Executable;
pub use lowered::{Cost, Lowered, Options, lower};
pub use plan::{Life, MemoryPlan};

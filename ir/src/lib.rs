//! The language of pullback: types, programs in SSA form, their text form, the passes every user of programs
//! shares, and the primitives with every answer that can be given in the vocabulary of programs.
//!
//! This crate knows no arrays, no files, no threads, no code generator and no users' closures.
#![forbid(unsafe_code)]

pub mod dtype;
pub mod error;
pub mod literal;
pub mod loc;
pub mod maths;
pub mod shape;

pub use dtype::DType;
pub use error::{Problem, TypeError};
pub use literal::Literal;
pub use loc::Loc;
pub use shape::{Dims, Shape, TensorType};

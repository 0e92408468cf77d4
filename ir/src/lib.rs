//! The language of pullback: types, programs in SSA form, their text form, the passes every user of programs
//! shares, and the primitives with every answer that can be given in the vocabulary of programs.
//!
//! This crate knows no arrays, no files, no threads, no code generator and no users' closures.
#![forbid(unsafe_code)]

pub mod batch;
pub mod builder;
pub mod dtype;
mod emit;
pub mod error;
pub mod literal;
pub mod loc;
pub mod masks;
pub mod maths;
pub mod ops;
pub mod passes;
pub mod program;
pub mod recipe;
pub mod rules;
pub mod sample;
pub mod shape;
pub mod text;
pub mod verify;

pub use batch::{Batched, Batcher};
pub use builder::{Builder, Emission, Hook, Stage};
pub use dtype::DType;
pub use error::{Problem, TypeError};
pub use literal::Literal;
pub use loc::Loc;
pub use ops::{Op, Primitive};
pub use program::{Def, Node, OpId, Program, Value};
pub use rules::{Arg, Linearizer};
pub use shape::{Dims, Shape, TensorType};
pub use text::ParseError;
pub use verify::VerifyError;

//! Ops that hold programs or leave the language.

pub mod barrier;
pub mod call;
pub mod custom_call;

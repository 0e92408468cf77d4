//! Ops without operands.

pub mod constant;
pub mod iota;

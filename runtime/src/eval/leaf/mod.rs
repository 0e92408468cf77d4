//! Ops without operands.

pub(super) mod constant;
pub(super) mod iota;

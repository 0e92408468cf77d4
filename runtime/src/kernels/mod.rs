//! Heavy computations shared by the interpreter and machine code, and the order of reductions.

pub mod gemm;
pub mod reduce;

//! From programs to machine code: fusion, kernels, memory plan, Cranelift.

pub mod emit;
pub mod jit;

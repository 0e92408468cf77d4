//! Arrays, buffers, threads, kernels and the reference interpreter.

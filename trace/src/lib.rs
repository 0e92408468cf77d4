//! Tensors, tracing and the transforms users call.

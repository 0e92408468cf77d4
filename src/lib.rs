//! Gradients of ordinary Rust functions.

//! Sums of products.

pub mod dot;

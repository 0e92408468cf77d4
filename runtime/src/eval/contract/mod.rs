//! Sums of products.

pub(super) mod dot;

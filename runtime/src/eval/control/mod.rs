//! Nested programs and kernels of the user.

pub(super) mod call;
pub mod custom_call;

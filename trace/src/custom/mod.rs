//! What users add of their own: functions with derivative rules of their own, and kernels.

mod call;
mod elementwise;
mod gradients;
mod jvp;
mod rule;
mod solve;
mod vjp;

pub use call::{custom_call, register_contracts, register_kernel};
pub use elementwise::{Elementwise, custom_elementwise};
pub use jvp::{CustomJvp, custom_jvp};
pub use solve::{Map, custom_linear_solve, custom_root};
pub use vjp::{CotangentOf, CotangentsOf, CustomVjp, custom_vjp};

pub(crate) use call::autodiff;

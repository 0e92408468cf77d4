//! What users add of their own: functions with derivative rules of their own, and kernels.

mod call;
mod jvp;
mod rule;
mod vjp;

pub use call::{custom_call, register_contracts, register_kernel};
pub use jvp::{CustomJvp, custom_jvp};
pub use vjp::{CotangentOf, CotangentsOf, CustomVjp, custom_vjp};

pub(crate) use call::autodiff;

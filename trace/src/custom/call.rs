//! Kernels of the user's own: registered once under a target name, called like any op.

use crate::apply::apply_all;
use crate::error::Error;
use crate::tensor::Tensor;
use pullback_autodiff::{Autodiff, Contracts, Hooks};
use pullback_ir::ops::control::custom_call::CustomCall;
use pullback_ir::{Loc, TensorType};
use std::sync::RwLock;

pub use pullback_runtime::eval::control::custom_call::register as register_kernel;

static CONTRACTS: RwLock<Option<Contracts>> = RwLock::new(None);

/// Registers derivative rules of custom calls for all transforms of this process.
pub fn register_contracts(register: impl FnOnce(&mut Contracts)) {
    let mut contracts = CONTRACTS.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    register(contracts.get_or_insert_default());
}

/// The transforms with all registered contracts, and these hooks.
pub(crate) fn autodiff(hooks: &Hooks) -> Autodiff {
    let contracts = CONTRACTS.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    Autodiff { contracts: contracts.clone().unwrap_or_default(), hooks: hooks.clone() }
}

/// Calls the kernel registered under a target and version. `attributes` is text for the kernel; `results` are the
/// types of what it computes.
#[track_caller]
pub fn custom_call(
    target: &str,
    version: u32,
    attributes: &str,
    operands: &[&Tensor],
    results: &[TensorType],
) -> Result<Vec<Tensor>, Error> {
    let call = CustomCall {
        target: target.to_string(),
        version,
        attributes: attributes.to_string(),
        results: results.to_vec(),
    };
    apply_all(call.into(), operands, Loc::caller())
}

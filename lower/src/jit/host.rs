//! The machine that code is made for: the one this runs on, with all that its processor can do.

use super::JitError;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable, SetError};
use std::sync::LazyLock;

static HOST: LazyLock<Result<OwnedTargetIsa, JitError>> = LazyLock::new(|| {
    let flags = flags().map_err(|error| JitError::Host(error.to_string()))?;
    let builder = cranelift_native::builder().map_err(|message| JitError::Host(message.to_string()))?;
    builder.finish(flags).map_err(|error| JitError::Host(error.to_string()))
});

/// The code generator for this machine.
pub fn host() -> Result<OwnedTargetIsa, JitError> {
    HOST.clone()
}

/// The code generator for a processor of that architecture (as Cranelift names it) without optional features.
#[cfg(test)]
pub(crate) fn plain_processor(architecture: &str) -> OwnedTargetIsa {
    let builder = cranelift_codegen::isa::lookup_by_name(architecture).expect("a known architecture");
    builder.finish(flags().expect("known flags")).expect("a code generator")
}

fn flags() -> Result<settings::Flags, SetError> {
    let mut flags = settings::builder();
    flags.set("opt_level", "speed")?;
    flags.set("is_pic", "false")?;
    flags.set("use_colocated_libcalls", "false")?;
    flags.set("unwind_info", "false")?;
    // A frame with many spilled values is larger than a guard page: touch each page on the way down.
    flags.set("enable_probestack", "true")?;
    flags.set("probestack_strategy", "inline")?;
    flags.set("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" })?;
    Ok(settings::Flags::new(flags))
}

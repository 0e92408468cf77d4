//! Kernels that the user registers under a target name and version.

use crate::error::RuntimeError;
use crate::view::{View, ViewMut};
use indexmap::IndexMap;
use pullback_ir::Loc;
use pullback_ir::ops::control::custom_call::CustomCall;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, RwLock};

/// A kernel: reads operands and the call's attributes, writes results whose previous contents are unspecified. An
/// error is a text for the caller.
pub type Kernel = dyn Fn(&str, &[View<'_>], &mut [ViewMut<'_>]) -> Result<(), String> + Send + Sync;

type Registry = IndexMap<(String, u32), Arc<Kernel>>;

static KERNELS: RwLock<Option<Registry>> = RwLock::new(None);

/// Registers the kernel of a target and version, in place of the one there may be.
pub fn register(
    target: &str,
    version: u32,
    kernel: impl Fn(&str, &[View<'_>], &mut [ViewMut<'_>]) -> Result<(), String> + Send + Sync + 'static,
) {
    let mut kernels = KERNELS.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    kernels.get_or_insert_default().insert((target.to_string(), version), Arc::new(kernel));
}

/// The kernel of a target and version.
pub fn registered(target: &str, version: u32) -> Option<Arc<Kernel>> {
    let kernels = KERNELS.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    kernels.as_ref()?.get(&(target.to_string(), version)).cloned()
}

pub(in crate::eval) fn evaluate(
    op: &CustomCall,
    loc: Loc,
    inputs: &[View<'_>],
    outputs: &mut [ViewMut<'_>],
) -> Result<(), RuntimeError> {
    let CustomCall { target, version, attributes, .. } = op;
    let kernel = registered(target, *version).ok_or_else(|| RuntimeError::UnknownCustomCall {
        target: target.clone(),
        version: *version,
        loc,
    })?;
    let failed = |message| RuntimeError::CustomCallFailed { target: target.clone(), message, loc };
    // A kernel is the user's code; its panic must not unwind through machine code that called us.
    catch_unwind(AssertUnwindSafe(|| kernel(attributes, inputs, outputs)))
        .unwrap_or_else(|panic| Err(format!("it panicked: {}", panic_text(&*panic))))
        .map_err(failed)
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::eval::evaluate_arrays;
    use pullback_ir::{DType, Op, TensorType};

    fn call(target: &str) -> Op {
        let results = vec![TensorType::new(DType::I32, [2])];
        CustomCall { target: target.into(), version: 3, attributes: "7".into(), results }.into()
    }

    #[test]
    fn kernels_are_found_by_target_and_version() {
        let run = |target| evaluate_arrays(&call(target), Loc::UNKNOWN, &[Array::from([1, 2])]);
        assert!(matches!(run("test.add"), Err(RuntimeError::UnknownCustomCall { version: 3, .. })));
        register("test.add", 3, |attributes, inputs, outputs| {
            let by: i32 = attributes.parse().map_err(|_| "the attribute must be a number".to_string())?;
            let x = inputs[0].as_slice::<i32>().map_err(|e| e.to_string())?;
            let y = outputs[0].as_mut_slice::<i32>().map_err(|e| e.to_string())?;
            y.iter_mut().zip(x).for_each(|(y, x)| *y = x + by);
            Ok(())
        });
        assert_eq!(run("test.add").unwrap()[0].to_vec::<i32>().unwrap(), [8, 9]);
        register("test.fail", 3, |_, _, _| Err("not today".into()));
        assert!(run("test.fail").unwrap_err().to_string().contains("not today"));
        register("test.panic", 3, |_, _, _| panic!("oh no"));
        assert!(run("test.panic").unwrap_err().to_string().contains("it panicked: oh no"));
    }
}

//! Hooks on tensors: functions of the user's that see, and may replace, the cotangents that arrive there.
//!
//! In the program of a backward pass a hook is a custom call. Its attribute is its number among those of the pass, so that
//! passes of one structure are one program; which closures are meant is known to the thread that runs the pass.

use crate::eager::scope::no_grad;
use crate::error::Error;
use crate::tensor::{State, Tensor};
use pullback_ir::ops::control::custom_call::CustomCall;
use pullback_ir::ops::control::custom_rule::Scope;
use pullback_ir::ops::control::custom_vjp::CustomVjp;
use pullback_ir::{Builder, Loc, TensorType, Value};
use pullback_runtime::eval::control::custom_call::register;
use pullback_runtime::{View, ViewMut};
use std::cell::RefCell;
use std::sync::{Arc, Once};

/// Target of the custom calls that are hooks.
const TARGET: &str = "pullback.hook";

/// A hook, to be [removed](Tensor::remove_hook) again.
#[derive(Clone)]
pub struct Hook(Arc<Function>);

type Function = dyn Fn(&Tensor) -> Option<Tensor> + Send + Sync;

thread_local! {
    /// The hooks of the passes that this thread runs, the innermost last.
    static RUNNING: RefCell<Vec<Vec<Vec<Hook>>>> = const { RefCell::new(Vec::new()) };
}

/// Takes the hooks of a pass away when it ends, also while a panic unwinds.
struct Ended;

impl Drop for Ended {
    fn drop(&mut self) {
        RUNNING.with_borrow_mut(Vec::pop);
    }
}

/// Runs a pass with its hooks.
pub(super) fn during<R>(hooks: Vec<Vec<Hook>>, run: impl FnOnce() -> R) -> R {
    RUNNING.with_borrow_mut(|running| running.push(hooks));
    let _ended = Ended;
    run()
}

/// Emits the identity whose backward rule runs the hooks of this number.
pub(super) fn emit(builder: &mut Builder, value: Value, number: usize) -> Result<Value, Error> {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| register(TARGET, 1, run_hooks));
    let ty = builder.ty(value).clone();
    let mut identity = Builder::new("hooked");
    let x = identity.param(ty.clone());
    let mut backward = Builder::new("hook");
    backward.param(ty.clone());
    let cotangent = backward.param(ty.clone());
    let call =
        CustomCall { target: TARGET.into(), version: 1, attributes: number.to_string(), results: vec![ty] };
    let seen = backward.one(call, &[cotangent])?;
    let op = CustomVjp {
        scope: Scope { name: "hook".into(), captured: 0, wrt: vec![0] },
        program: Arc::new(identity.finish(&[x])),
        forward: None,
        backward: Arc::new(backward.finish(&[seen])),
        results: 1,
    };
    Ok(builder.one(op, &[value])?)
}

/// The kernel: lets each hook of a number see the cotangent, in the order in which they were added.
fn run_hooks(number: &str, inputs: &[View<'_>], outputs: &mut [ViewMut<'_>]) -> Result<(), String> {
    let hooks = number.parse::<usize>().ok().and_then(|number| {
        RUNNING.with_borrow(|running| running.last().and_then(|hooks| hooks.get(number).cloned()))
    });
    let mut cotangent = Tensor::from_array(inputs[0].to_array());
    for hook in hooks.ok_or("the hooks of a backward pass are known only while it runs")? {
        let Some(replaced) = no_grad(|| (hook.0)(&cotangent)) else { continue };
        let found = replaced.array().map_err(|error| error.to_string())?;
        check(found.ty(), inputs[0].ty())?;
        cotangent = Tensor::from_array(found);
    }
    outputs[0].copy_from(&cotangent.array().map_err(|error| error.to_string())?.view());
    Ok(())
}

fn check(found: &TensorType, due: &TensorType) -> Result<(), String> {
    if found == due {
        return Ok(());
    }
    Err(format!(
        "the hook returned {found} for a gradient of type {due}; return one of the same type, or None"
    ))
}

impl Tensor {
    /// Adds a function that sees the gradient of this tensor in every backward pass that reaches it, once the
    /// contributions of all its uses are summed, and may return another in its place. That is what flows on, and what a
    /// parameter accumulates or a result keeps. Hooks run in the order in which they were added, and record no history;
    /// a hook that fails or panics fails the pass, which then has changed nothing.
    ///
    /// ```
    /// use pullback_trace::Tensor;
    ///
    /// let x = Tensor::param([1.0, 2.0]);
    /// let h = &x * 3.0;
    /// let hook = h.add_hook(|gradient| Some(gradient.clamp(-1.0, 1.0)))?;
    /// (&h * &h).sum().backward()?;
    /// assert_eq!(x.grad()?.unwrap().to_vec::<f64>()?, [3.0, 3.0]);
    /// h.remove_hook(&hook);
    /// # Ok::<(), pullback_trace::Error>(())
    /// ```
    ///
    /// Errors: a tensor that requires no gradient.
    #[track_caller]
    pub fn add_hook(
        &self,
        function: impl Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static,
    ) -> Result<Hook, Error> {
        let hook = Hook(Arc::new(function));
        match &self.0 {
            State::Param(param) => param.lock().hooks.push(hook.clone()),
            State::Live(live) => live.made.notes(live.result, |note| note.hooks.push(hook.clone())),
            State::Concrete(_) | State::Leaf(_) | State::Traced(_) | State::Failed(_) => {
                let (ty, at) = (self.ty()?.clone(), Loc::caller());
                return Err(super::EagerError::NoHistory { function: "add_hook", ty, at }.into());
            }
        }
        Ok(hook)
    }

    /// Takes a hook away again. One that this tensor does not have is no error.
    pub fn remove_hook(&self, hook: &Hook) {
        let others = |hooks: &mut Vec<Hook>| hooks.retain(|other| !Arc::ptr_eq(&other.0, &hook.0));
        match &self.0 {
            State::Param(param) => others(&mut param.lock().hooks),
            State::Live(live) => live.made.notes(live.result, |note| others(&mut note.hooks)),
            State::Concrete(_) | State::Leaf(_) | State::Traced(_) | State::Failed(_) => {}
        }
    }
}

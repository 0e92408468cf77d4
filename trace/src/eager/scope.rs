//! What a thread is told about the ops it runs: whether they are recorded, and whether they are checked.

use std::cell::Cell;

thread_local! {
    static MODE: Cell<Mode> = const { Cell::new(Mode { records: true, checks: false }) };
}

/// How ops on live tensors are treated.
#[derive(Clone, Copy)]
struct Mode {
    records: bool,
    checks: bool,
}

/// Sets the mode back when it is dropped, also while a panic unwinds.
struct Restore(Mode);

impl Drop for Restore {
    fn drop(&mut self) {
        MODE.set(self.0);
    }
}

fn with<R>(change: impl FnOnce(Mode) -> Mode, run: impl FnOnce() -> R) -> R {
    let outer = MODE.get();
    let _restore = Restore(outer);
    MODE.set(change(outer));
    run()
}

/// Runs a closure whose ops record no history: their results depend on no parameter. The values are the same to the bit.
/// Scopes nest, belong to their thread, and end with the closure, also when it panics.
///
/// ```
/// use pullback_trace::Tensor;
/// use pullback_trace::eager::{is_grad_enabled, no_grad};
///
/// let p = Tensor::param([1.0, 2.0]);
/// let (y, inside) = no_grad(|| (&p * 2.0, is_grad_enabled()));
/// assert!(!inside && is_grad_enabled() && !y.requires_grad() && (&p * 2.0).requires_grad());
/// ```
pub fn no_grad<R>(run: impl FnOnce() -> R) -> R {
    with(|mode| Mode { records: false, ..mode }, run)
}

/// Runs a closure whose ops record history even inside of [`no_grad`].
pub fn enable_grad<R>(run: impl FnOnce() -> R) -> R {
    with(|mode| Mode { records: true, ..mode }, run)
}

/// Whether ops of this thread record history now.
pub fn is_grad_enabled() -> bool {
    MODE.get().records
}

/// Runs a closure in which every op is checked: the first that gives an infinity or a NaN fails, and names itself, the
/// element and the ranges of its operands. In a backward pass the line named is that of the op in the forward pass whose
/// derivative it was. Programs are interpreted meanwhile, op by op.
///
/// ```
/// use pullback_trace::Tensor;
/// use pullback_trace::eager::checked;
///
/// let p = Tensor::param([1.0, 0.0]);
/// let loss = p.sqrt().sum();
/// let error = checked(|| loss.backward()).unwrap_err().to_string();
/// assert!(error.contains("sqrt"), "{error}");
/// assert!(p.grad().unwrap().is_none());
/// ```
pub fn checked<R>(run: impl FnOnce() -> R) -> R {
    with(|mode| Mode { checks: true, ..mode }, run)
}

/// Whether ops of this thread are checked now.
pub fn is_checked() -> bool {
    MODE.get().checks
}

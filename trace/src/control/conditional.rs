//! Loops that go on while a condition holds.

use super::body::{Recorder, check_carry, share};
use super::chunks::apply_loop;
use super::operands::Operands;
use crate::error::Error;
use crate::tensor::Tensor;
use crate::transform::forward::leaf_types;
use crate::transform::{Due, IntoOutput};
use crate::tree;
use pullback_ir::ops::control::looping::{Loop, Trip};
use pullback_ir::{DType, Loc, TensorType};

/// Hands a carry on while a condition, a bool of rank 0, holds of it. The number of iterations may depend on the data;
/// derivatives are those of the iterations that were made, in both modes and of any order.
///
/// ```
/// use pullback_trace::control::while_loop;
/// use pullback_trace::{Error, Tensor, grad};
///
/// // How far a ball flies that falls from a height of 1.
/// let flight = |speed: &Tensor| {
///     let start = (&Tensor::from(0.0), &Tensor::from(1.0), &Tensor::from(0.0));
///     let fall = |(x, y, v): &(Tensor, Tensor, Tensor)| (x + speed * 0.01, y + v * 0.01, v - 0.0981);
///     while_loop(start, |(_, y, _)| y.gt(0), fall).0
/// };
/// let slope = grad(flight).call((&Tensor::from(3.0),))?; // the time it takes
/// assert!((slope.item::<f64>()? - 0.46).abs() < 1e-12);
/// # Ok::<(), Error>(())
/// ```
///
/// Errors: a carry that changes its structure or type, a condition that is no bool of rank 0, and what the closures
/// refuse.
#[track_caller]
pub fn while_loop<I, R>(
    init: I,
    condition: impl FnOnce(&I::Tree) -> Tensor,
    body: impl FnOnce(&I::Tree) -> R,
) -> R::Form<I::Tree>
where
    I: Operands,
    R: IntoOutput<Tree = I::Tree>,
{
    let (at, function) = (Loc::caller(), "while_loop");
    let chunks = init.chunks();
    let init = init.into_tree();
    let types = leaf_types(&tree::leaves(&init));
    let (recorder, params) = Recorder::begin(function, at, &init, types.clone());
    let holds = condition(&params);
    let holds = check_condition(&holds, at).and_then(|()| recorder.finish(&[&holds]));
    let (recorder, params) = Recorder::begin(function, at, &init, types);
    body(&params).then(|next| {
        let tensors = check_carry(function, at, (&params, &next)).and_then(|()| {
            let leaves = tree::leaves(&next);
            let shared = share(vec![holds?, recorder.finish(&leaves)?])?;
            let [condition, body] = &shared.programs[..] else { return Ok(Vec::new()) };
            let op = Loop {
                trip: Trip::While(condition.clone()),
                reverse: false,
                consts: shared.consts.len(),
                carries: leaves.len(),
                body: body.clone(),
            };
            let operands: Vec<&Tensor> = shared.consts.iter().chain(tree::leaves(&init)).collect();
            let mut results = apply_loop(function, op, &operands, chunks, at)?;
            results.truncate(leaves.len());
            Ok(results)
        });
        Due { like: init, tensors }
    })
}

fn check_condition(holds: &Tensor, at: Loc) -> Result<(), Error> {
    let ty = holds.ty()?;
    if *ty == TensorType::scalar(DType::Bool) {
        return Ok(());
    }
    let text = format!("the condition is {ty} and must be bool[]; compare, or reduce it with all() or any()");
    Err(Error::invalid("while_loop", text, at))
}

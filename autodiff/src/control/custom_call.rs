//! Custom calls: their rules are contracts, whose answers are checked.

use crate::batch::lane_type;
use crate::custom::Contracts;
use pullback_ir::batch::{Batched, BatchedValues, Batcher};
use pullback_ir::ops::Equation;
use pullback_ir::ops::control::custom_call::CustomCall;
use pullback_ir::rules::{Arg, Cotangents, RuleError};
use pullback_ir::{Builder, Linearizer, TensorType, Value};

/// The tangents of the results, by the jvp contract.
pub(crate) fn linearize(
    contracts: &Contracts,
    call: &CustomCall,
    lin: &mut Linearizer<'_>,
    equation: Equation<'_>,
    tangents: &[Option<Value>],
) -> Result<Cotangents, RuleError> {
    let contract = contracts.jvp(call)?;
    let found = contract(call, lin, equation, tangents)?;
    check(call, "jvp", lin.linear, &call.results.iter().map(Some).collect::<Vec<_>>(), &found)?;
    Ok(found)
}

/// The cotangents of the linear operands, by the vjp contract.
pub(crate) fn transpose(
    contracts: &Contracts,
    call: &CustomCall,
    builder: &mut Builder,
    args: &[Arg],
    cotangents: &[Option<Value>],
) -> Result<Cotangents, RuleError> {
    let contract = contracts.vjp(call)?;
    let found = contract(call, builder, args, cotangents)?;
    let due: Vec<_> = args.iter().map(|arg| arg.is_linear().then_some(&arg.ty)).collect();
    check(call, "vjp", builder, &due, &found)?;
    Ok(found)
}

/// The results in every lane, by the batch contract.
pub(crate) fn batch(
    contracts: &Contracts,
    call: &CustomCall,
    batcher: &mut Batcher<'_>,
    args: &[Batched],
) -> Result<BatchedValues, RuleError> {
    let contract = contracts.batch(call)?;
    let found = contract(call, batcher, args)?;
    let bad = |expected: String, found: String| {
        Err(RuleError::BadContract { target: call.target.clone(), contract: "batch", expected, found })
    };
    if found.len() != call.results.len() {
        return bad(format!("{} values", call.results.len()), format!("{} values", found.len()));
    }
    for (i, (lane, result)) in call.results.iter().zip(&found).enumerate() {
        if !batcher.builder.program().contains(result.value) {
            return bad(format!("{lane} per lane at {i}"), format!("a value of another program at {i}"));
        }
        let ty = batcher.builder.ty(result.value);
        if lane_type(ty, result.axis, batcher.size).as_ref() != Some(lane) {
            let place =
                result.axis.map_or("no axis of lanes".into(), |axis| format!("lanes along axis {axis}"));
            let due = format!("{lane} in each of {} lanes at {i}", batcher.size);
            return bad(due, format!("{ty} with {place}"));
        }
    }
    Ok(found)
}

/// Checks the number and types of what a contract returned. Where no type is due, nothing may come.
fn check(
    call: &CustomCall,
    contract: &'static str,
    builder: &Builder,
    due: &[Option<&TensorType>],
    found: &[Option<Value>],
) -> Result<(), RuleError> {
    let bad = |expected: String, found: String| {
        Err(RuleError::BadContract { target: call.target.clone(), contract, expected, found })
    };
    if found.len() != due.len() {
        return bad(format!("{} values", due.len()), format!("{} values", found.len()));
    }
    for (i, (due, found)) in due.iter().zip(found).enumerate() {
        let Some(found) = *found else { continue };
        let Some(due) = due.filter(|ty| ty.dtype.is_float()) else {
            return bad(format!("no value at {i}, which is not differentiated"), format!("one at {i}"));
        };
        if !builder.program().contains(found) {
            return bad(format!("{due} at {i}"), format!("a value of another program at {i}"));
        }
        if builder.ty(found) != due {
            return bad(format!("{due} at {i}"), format!("{} at {i}", builder.ty(found)));
        }
    }
    Ok(())
}

//! Custom calls: their derivatives are contracts, whose answers are checked.

use crate::custom::Contracts;
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

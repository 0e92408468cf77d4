//! Calls of nested programs: a call's derivative is a call of the program's derivative. What is made of a checkpointed
//! call is checkpointed the same way, so that derivatives of derivatives keep no more.

use super::nested::{Lanes, Residual, Split, Transposed};
use super::spread;
use crate::transpose::Ends;
use pullback_ir::batch::{Batched, BatchedValues, Batcher};
use pullback_ir::ops::Equation;
use pullback_ir::ops::control::call::Call;
use pullback_ir::program::Values;
use pullback_ir::rules::{Arg, Cotangents, Linearizer, RuleError};
use pullback_ir::{Builder, TypeError, Value};

/// The call that gives the results, and the residuals after them.
pub(crate) fn emit_primal(
    split: &Split,
    op: &Call,
    primal: &mut Builder,
    operands: &[Value],
) -> Result<Values, TypeError> {
    primal.emit(op.with_program(&split.primal), operands)
}

/// The tangents of the results, given the results of [`emit_primal`].
pub(crate) fn linearize(
    split: &Split,
    op: &Call,
    lin: &mut Linearizer<'_>,
    equation: Equation<'_>,
    tangents: &[Option<Value>],
) -> Result<Cotangents, RuleError> {
    let mut operands = Values::new();
    for residual in &split.residuals {
        operands.push(lin.residual(match residual {
            Residual::Operand(i) => equation.operands[*i],
            Residual::Result(i) => equation.results[*i],
        })?);
    }
    operands.extend(tangents.iter().copied().flatten());
    let found = lin.linear.emit(op.with_program(&split.linear), &operands)?;
    Ok(spread(split.outputs, split.active.iter().copied(), found))
}

/// The cotangents of the linear operands. Contributions are added to what the cotangents amount to so far in the
/// order of the ops called, as if these stood in the place of the call.
pub(crate) fn transpose(
    transposed: &Transposed,
    op: &Call,
    builder: &mut Builder,
    args: &[Arg],
    ends: Ends<'_>,
) -> Result<Cotangents, RuleError> {
    if transposed.active.is_empty() {
        return Ok(Cotangents::from_elem(None, args.len()));
    }
    let known = args.iter().filter_map(|arg| arg.known);
    let linear = ends.starts.iter().chain(ends.cotangents).copied().flatten();
    let operands: Values = known.chain(linear).collect();
    let found = builder.emit(op.with_program(&transposed.program), &operands)?;
    Ok(spread(args.len(), transposed.active.iter().copied(), found))
}

/// The results in every lane.
pub(crate) fn batch(
    nested: &Lanes,
    op: &Call,
    batcher: &mut Batcher<'_>,
    args: &[Batched],
) -> Result<BatchedValues, RuleError> {
    let operands: Values = args.iter().map(|arg| arg.value).collect();
    let results = batcher.builder.emit(op.with_program(&nested.program), &operands)?;
    Ok(results.into_iter().zip(&nested.axes).map(|(value, &axis)| Batched { value, axis }).collect())
}

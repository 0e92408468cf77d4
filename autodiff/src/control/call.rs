//! Calls of nested programs: a call's derivative is a call of the program's derivative.

use super::nested::{Lanes, Residual, Split, Transposed};
use super::spread;
use pullback_ir::batch::{Batched, BatchedValues, Batcher};
use pullback_ir::ops::Equation;
use pullback_ir::ops::control::call::Call;
use pullback_ir::program::Values;
use pullback_ir::rules::{Arg, Cotangents, Linearizer, RuleError};
use pullback_ir::{Builder, TypeError, Value};
use smallvec::SmallVec;

/// The call that gives the results, and the residuals after them.
pub(crate) fn emit_primal(
    split: &Split,
    primal: &mut Builder,
    operands: &[Value],
) -> Result<Values, TypeError> {
    primal.emit(Call { program: split.primal.clone() }, operands)
}

/// The tangents of the results, given the results of [`emit_primal`].
pub(crate) fn linearize(
    split: &Split,
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
    let found = lin.linear.emit(Call { program: split.linear.clone() }, &operands)?;
    Ok(spread(split.outputs, split.active.iter().copied(), found))
}

/// The cotangents of the linear operands.
pub(crate) fn transpose(
    transposed: &Transposed,
    builder: &mut Builder,
    args: &[Arg],
    cotangents: &[Option<Value>],
) -> Result<Cotangents, RuleError> {
    if transposed.active.is_empty() {
        return Ok(Cotangents::from_elem(None, args.len()));
    }
    let known = args.iter().filter_map(|arg| arg.known);
    let operands: SmallVec<[Value; 4]> = known.chain(cotangents.iter().copied().flatten()).collect();
    let found = builder.emit(Call { program: transposed.program.clone() }, &operands)?;
    Ok(spread(args.len(), transposed.active.iter().copied(), found))
}

/// The results in every lane.
pub(crate) fn batch(
    nested: &Lanes,
    batcher: &mut Batcher<'_>,
    args: &[Batched],
) -> Result<BatchedValues, RuleError> {
    let operands: Values = args.iter().map(|arg| arg.value).collect();
    let results = batcher.builder.emit(Call { program: nested.program.clone() }, &operands)?;
    Ok(results.into_iter().zip(&nested.axes).map(|(value, &axis)| Batched { value, axis }).collect())
}

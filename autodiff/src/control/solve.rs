//! Solvers of linear equations: a `custom_linear` that knows the operator it inverts.
//!
//! Of `A(k) x = b` the tangent is the solution of `A(k) dx = db - dA x`, by the same solver, whatever that does. Its
//! transpose solves the transposed equations.

use super::call;
use super::custom_vjp::{batch_backward, emit};
use super::nested::{Nested, Split};
use crate::linearize::{Failure, given};
use crate::options::Autodiff;
use pullback_ir::batch::{Batched, BatchedValues, Batcher};
use pullback_ir::ops::Equation;
use pullback_ir::ops::control::call::Call;
use pullback_ir::ops::control::custom_linear::{CustomLinear, Operator};
use pullback_ir::program::Values;
use pullback_ir::rules::{Cotangents, Linearizer, RuleError};
use pullback_ir::{Program, Value};
use std::sync::Arc;

/// A solver linearized.
pub(crate) struct Linearized {
    /// The derivative of the operator by those known operands that have tangents, if any have and it depends on them.
    operator: Option<Arc<Split>>,
}

pub(crate) fn linearized(
    autodiff: &Autodiff,
    nested: &mut Nested,
    op: &CustomLinear,
    tangents: &[Option<Value>],
) -> Result<Linearized, Failure> {
    let mut mask = given(&tangents[..op.known]);
    let Some(Operator { apply, .. }) = op.inverse_of.as_ref().filter(|_| mask.contains(&true)) else {
        return Ok(Linearized { operator: None });
    };
    mask.resize(apply.params().len(), false);
    let split = nested.linearized(autodiff, apply, &mask)?;
    Ok(Linearized { operator: Some(split).filter(|split| !split.active.is_empty()) })
}

impl Linearized {
    /// The tangents of the solution.
    pub(crate) fn linearize(
        &self,
        op: &CustomLinear,
        lin: &mut Linearizer<'_>,
        equation: Equation<'_>,
        tangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let (known, right) = equation.operands.split_at(op.known);
        let moved = match &self.operator {
            None => Cotangents::from_elem(None, right.len()),
            Some(split) => {
                let call = Call::new(split.primal.clone());
                let operands = [known, equation.results].concat();
                let applied = call::emit_primal(split, &call, lin.primal, &operands)?;
                let applied = Equation { operands: &operands, results: &applied };
                call::linearize(split, &call, lin, applied, &tangents[..op.known])?
            }
        };
        let mut operands = Values::new();
        for &value in known {
            operands.push(lin.residual(value)?);
        }
        for ((&value, &tangent), moved) in right.iter().zip(&tangents[op.known..]).zip(moved) {
            let ty = lin.primal.ty(value).clone();
            operands.push(match (tangent, moved) {
                (Some(tangent), Some(moved)) => lin.linear.sub(tangent, moved)?,
                (Some(tangent), None) => tangent,
                (None, Some(moved)) => lin.linear.neg(moved)?,
                (None, None) => lin.linear.zeros(&ty)?,
            });
        }
        Ok(lin.linear.emit(op.clone(), &operands)?.into_iter().map(Some).collect())
    }
}

/// A solver on lanes is one again: right-hand sides and solutions have lanes along axis 0.
pub(crate) fn batch(
    autodiff: &Autodiff,
    nested: &mut Nested,
    op: &CustomLinear,
    (forward, operator): (&Arc<Program>, &Operator),
    batcher: &mut Batcher<'_>,
    args: &[Batched],
) -> Result<BatchedValues, Failure> {
    let size = batcher.size;
    let (known, right) = args.split_at(op.known);
    let axes: Vec<Option<usize>> = known.iter().map(|arg| arg.axis).collect();
    let mut args = known.to_vec();
    for &arg in right {
        args.push(Batched::along(batcher.at(arg, 0)?, 0));
    }
    let mut on_lanes = |program: &Arc<Program>| -> Result<Arc<Program>, Failure> {
        batch_backward(autodiff, nested, program, &axes, program.params().len() - op.known, size, |_| Some(0))
    };
    let lanes = CustomLinear {
        name: op.name.clone(),
        known: op.known,
        forward: Some(on_lanes(forward)?),
        backward: on_lanes(&op.backward)?,
        inverse_of: Some(Operator {
            apply: on_lanes(&operator.apply)?,
            transpose: on_lanes(&operator.transpose)?,
        }),
    };
    let results = lanes.backward.params().len() - op.known;
    emit(lanes, batcher, &args, &vec![Some(0); results])
}

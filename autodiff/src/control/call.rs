//! Calls of nested programs: a call's derivative is a call of the program's derivative.

use crate::linearize::Linearized as Split;
use pullback_ir::batch::{Batched, BatchedValues, Batcher};
use pullback_ir::ops::Equation;
use pullback_ir::ops::control::call::Call;
use pullback_ir::program::Values;
use pullback_ir::rules::{Arg, Cotangents, RuleError};
use pullback_ir::{Builder, Def, Linearizer, Program, TypeError, Value};
use smallvec::SmallVec;
use std::sync::Arc;

/// A nested program linearized.
pub(crate) struct Linearized {
    /// `params.. -> outputs.., residuals..`, without residuals that the caller has anyway.
    primal: Arc<Program>,
    /// Where the caller finds each residual of `linear`.
    residuals: Vec<Residual>,
    linear: Arc<Program>,
    /// Number of outputs of the program.
    outputs: usize,
    /// Outputs with a tangent.
    active: Vec<usize>,
}

enum Residual {
    Operand(usize),
    Result(usize),
}

impl Linearized {
    pub(crate) fn new(split: Split) -> Linearized {
        let mut outputs: Vec<Value> = split.primal.outputs()[..split.outputs].to_vec();
        let mut position: slotmap::SecondaryMap<Value, usize> =
            outputs.iter().copied().enumerate().map(|(i, v)| (v, i)).collect();
        let mut residuals = Vec::with_capacity(split.residuals());
        for &v in split.residual_values() {
            residuals.push(match (split.primal.def(v), position.get(v)) {
                (Def::Param(i), _) => Residual::Operand(i),
                (Def::Result(..), Some(&i)) => Residual::Result(i),
                (Def::Result(..), None) => {
                    position.insert(v, outputs.len());
                    outputs.push(v);
                    Residual::Result(outputs.len() - 1)
                }
            });
        }
        Linearized {
            primal: Arc::new(split.primal.with_outputs(&outputs)),
            residuals,
            linear: Arc::new(split.linear),
            outputs: split.outputs,
            active: split.active,
        }
    }

    /// Whether any output has a tangent.
    pub(crate) fn has_tangents(&self) -> bool {
        !self.active.is_empty()
    }

    /// The call that gives the results, and the residuals after them.
    pub(crate) fn emit_primal(&self, primal: &mut Builder, operands: &[Value]) -> Result<Values, TypeError> {
        primal.emit(Call { program: self.primal.clone() }, operands)
    }
}

/// The tangents of the results, given the results of [`Linearized::emit_primal`].
pub(crate) fn linearize(
    nested: &Linearized,
    lin: &mut Linearizer<'_>,
    equation: Equation<'_>,
    tangents: &[Option<Value>],
) -> Result<Cotangents, RuleError> {
    let mut operands = Values::new();
    for residual in &nested.residuals {
        operands.push(lin.residual(match residual {
            Residual::Operand(i) => equation.operands[*i],
            Residual::Result(i) => equation.results[*i],
        })?);
    }
    operands.extend(tangents.iter().copied().flatten());
    let found = lin.linear.emit(Call { program: nested.linear.clone() }, &operands)?;
    let mut all = Cotangents::from_elem(None, nested.outputs);
    for (&i, tangent) in nested.active.iter().zip(found) {
        all[i] = Some(tangent);
    }
    Ok(all)
}

/// A nested program transposed.
pub(crate) struct Transposed {
    /// `known params.., cotangents of outputs.. -> cotangents of params`, those listed in `active`.
    pub(crate) program: Arc<Program>,
    /// Parameters whose cotangent is not zero.
    pub(crate) active: Vec<usize>,
}

/// The cotangents of the linear operands.
pub(crate) fn transpose(
    nested: &Transposed,
    builder: &mut Builder,
    args: &[Arg],
    cotangents: &[Option<Value>],
) -> Result<Cotangents, RuleError> {
    let mut all = Cotangents::from_elem(None, args.len());
    if nested.active.is_empty() {
        return Ok(all);
    }
    let known = args.iter().filter_map(|arg| arg.known);
    let operands: SmallVec<[Value; 4]> = known.chain(cotangents.iter().copied().flatten()).collect();
    let found = builder.emit(Call { program: nested.program.clone() }, &operands)?;
    for (&i, cotangent) in nested.active.iter().zip(found) {
        all[i] = Some(cotangent);
    }
    Ok(all)
}

/// A nested program batched.
pub(crate) struct Lanes {
    /// The program with lanes in those parameters that the caller has lanes for.
    pub(crate) program: Arc<Program>,
    /// Where the lanes of each output are, if it has any.
    pub(crate) axes: Vec<Option<usize>>,
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

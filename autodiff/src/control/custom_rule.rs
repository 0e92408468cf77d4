//! Rules of the user's own that are programs.
//!
//! A rule is linear in tangents, or in cotangents. It is split by linearizing it in those: what it computes from known
//! values alone becomes residuals, and what is left is a linear program, in which a zero stays zero. Residuals that
//! depend on a tangent give away a rule that is not linear.

use super::depends::depends;
use super::nested::{Lanes, Nested, Residual};
use super::spread;
use crate::linearize::Failure;
use crate::options::Autodiff;
use pullback_ir::batch::{Batched, BatchedValues, Batcher};
use pullback_ir::ops::Equation;
use pullback_ir::ops::control::call::Call;
use pullback_ir::ops::control::custom_jvp::CustomJvp;
use pullback_ir::ops::control::custom_rule::Scope;
use pullback_ir::passes::prune;
use pullback_ir::program::Values;
use pullback_ir::rules::{Cotangents, Linearizer, RuleError};
use pullback_ir::{Builder, Program, TypeError, Value};
use std::sync::Arc;

/// A program that is linear in its last parameters, in two parts.
pub(crate) struct Parts {
    /// `known params.. -> residuals..`, without those that are params.
    known: Arc<Program>,
    /// Where each residual of `linear` is found: among the known params, or what `known` gives.
    pub(crate) residuals: Vec<Residual>,
    /// `residuals.., given linear params.. -> outputs`, those in `active`.
    pub(crate) linear: Arc<Program>,
    /// Outputs that depend on the linear params.
    pub(crate) active: Vec<usize>,
}

/// Splits a program that is linear in the parameters after the first `known`, of which those not given are zero.
/// `None` if it is not linear.
pub(crate) fn parts(
    autodiff: &Autodiff,
    nested: &mut Nested,
    program: &Arc<Program>,
    known: usize,
    given: &[bool],
) -> Result<Option<Parts>, Failure> {
    let split = nested.linearized(autodiff, program, &[&vec![false; known], given].concat())?;
    let (mut kept, mut residuals) = (Vec::new(), Vec::new());
    for &residual in &split.residuals {
        residuals.push(match residual {
            Residual::Operand(i) if i < known => residual,
            Residual::Operand(_) => return Ok(None),
            Residual::Result(i) => {
                kept.push(split.primal.outputs()[i]);
                Residual::Result(kept.len() - 1)
            }
        });
    }
    let primal = Program::clone(&split.primal).with_outputs(&kept);
    let is_linear: Vec<bool> = (0..primal.params().len()).map(|i| i >= known).collect();
    if depends(&primal, &is_linear).contains(&true) {
        return Ok(None);
    }
    Ok(Some(Parts {
        known: Arc::new(at_zero(&primal, known)?),
        residuals,
        linear: split.linear.clone(),
        active: split.active.clone(),
    }))
}

/// The program with zeros for the parameters after the first `known`, on which nothing depends.
fn at_zero(program: &Program, known: usize) -> Result<Program, TypeError> {
    let mut builder = Builder::new(&format!("{}_known", program.name()));
    let mut args = Vec::new();
    for (i, ty) in program.param_types().into_iter().enumerate() {
        args.push(if i < known { builder.param(ty) } else { builder.zeros(&ty)? });
    }
    let outputs = builder.inline(program, &args)?;
    Ok(prune(&builder.finish(&outputs)))
}

impl Parts {
    /// The residuals, given the known params.
    pub(crate) fn residuals(&self, builder: &mut Builder, known: &[Value]) -> Result<Vec<Value>, TypeError> {
        let made = match self.known.outputs().len() {
            0 => Values::new(),
            _ => builder.emit(Call::new(self.known.clone()), known)?,
        };
        let value = |residual: &Residual| match *residual {
            Residual::Operand(i) => known[i],
            Residual::Result(i) => made[i],
        };
        Ok(self.residuals.iter().map(value).collect())
    }

    /// The active outputs in the linear program, given the known params in the primal one.
    fn emit(
        &self,
        lin: &mut Linearizer<'_>,
        known: &[Value],
        tangents: impl Iterator<Item = Value>,
    ) -> Result<Values, TypeError> {
        let mut operands = Values::new();
        for residual in self.residuals(lin.primal, known)? {
            operands.push(lin.residual(residual)?);
        }
        operands.extend(tangents);
        lin.linear.emit(Call::new(self.linear.clone()), &operands)
    }
}

/// Refuses tangents of what a user's function captured: its rule says nothing of them.
pub(crate) fn check_captured(
    op: &'static str,
    scope: &Scope,
    types: &[pullback_ir::TensorType],
    tangents: &[Option<Value>],
) -> Result<(), RuleError> {
    match tangents[..scope.captured].iter().position(Option::is_some) {
        None => Ok(()),
        Some(i) => Err(RuleError::CapturedTangent { op, name: scope.name.clone(), ty: types[i].clone() }),
    }
}

/// The rule of a `custom_jvp` for those of its tangents that are not zero. `None` if no result has one.
pub(crate) fn jvp(
    autodiff: &Autodiff,
    nested: &mut Nested,
    op: &CustomJvp,
    tangents: &[Option<Value>],
) -> Result<Option<Parts>, Failure> {
    check_captured("custom_jvp", &op.scope, &op.program.param_types(), tangents)?;
    let given: Vec<bool> = op.scope.wrt.iter().map(|&i| tangents[i].is_some()).collect();
    if !given.contains(&true) {
        return Ok(None);
    }
    let known = op.rule.params().len() - given.len();
    match parts(autodiff, nested, &op.rule, known, &given)? {
        Some(parts) => Ok(Some(parts).filter(|parts| !parts.active.is_empty())),
        None => Err(RuleError::CustomRuleNotLinear { name: op.scope.name.clone() }.into()),
    }
}

/// The tangents of the results of a `custom_jvp`.
pub(crate) fn linearize_jvp(
    parts: &Parts,
    op: &CustomJvp,
    lin: &mut Linearizer<'_>,
    equation: Equation<'_>,
    tangents: &[Option<Value>],
) -> Result<Cotangents, RuleError> {
    let known = [equation.operands, equation.results].concat();
    let tangents = op.scope.wrt.iter().filter_map(|&i| tangents[i]);
    let found = parts.emit(lin, &known, tangents)?;
    let floats = float_outputs(&op.program, equation.results.len());
    Ok(spread(equation.results.len(), parts.active.iter().map(|&i| floats[i]), found))
}

/// Which of the first outputs are floats.
pub(crate) fn float_outputs(program: &Program, first: usize) -> Vec<usize> {
    let types = program.output_types();
    (0..first).filter(|&i| types[i].dtype.is_float()).collect()
}

/// A `custom_jvp` on lanes is one again: all its results have lanes, and so have their tangents.
pub(crate) fn batch_jvp(
    autodiff: &Autodiff,
    nested: &mut Nested,
    op: &CustomJvp,
    batcher: &mut Batcher<'_>,
    args: &[Batched],
) -> Result<BatchedValues, Failure> {
    let mut axes: Vec<Option<usize>> = args.iter().map(|arg| arg.axis).collect();
    let size = batcher.size;
    let program = nested.batched(autodiff, &op.program, &axes, size)?;
    let (program, _) = placed(&program, size, |_| Place::Along(0))?;
    let tangents: Vec<Option<usize>> = op.scope.wrt.iter().map(|&i| axes[i]).collect();
    axes.extend(program.outputs().iter().map(|_| Some(0)));
    axes.extend(tangents);
    let rule = nested.batched(autodiff, &op.rule, &axes, size)?;
    let (rule, _) = placed(&rule, size, |_| Place::Along(0))?;
    let lanes = CustomJvp { scope: op.scope.clone(), program, rule };
    let operands: Values = args.iter().map(|arg| arg.value).collect();
    let results = batcher.builder.emit(lanes, &operands)?;
    Ok(results.into_iter().map(|value| Batched::along(value, 0)).collect())
}

/// Where the lanes of an output are to lie.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// Along this axis.
    Along(usize),
    /// Nowhere: they are summed up.
    Summed,
    /// Wherever they are.
    AsItIs,
}

/// A batched program with the lanes of its outputs in these places, and where that is.
pub(crate) fn placed(
    lanes: &Lanes,
    size: usize,
    place: impl Fn(usize) -> Place,
) -> Result<(Arc<Program>, Vec<Option<usize>>), TypeError> {
    let mut builder = Builder::new(lanes.program.name());
    let params: Vec<Value> = lanes.program.param_types().into_iter().map(|ty| builder.param(ty)).collect();
    let found = builder.inline(&lanes.program, &params)?;
    let mut batcher = Batcher { builder: &mut builder, size };
    let (mut outputs, mut axes) = (Vec::new(), Vec::new());
    for (i, (value, &axis)) in found.into_iter().zip(&lanes.axes).enumerate() {
        let output = Batched { value, axis };
        let (value, axis) = match place(i) {
            Place::Along(axis) => (batcher.at(output, axis)?, Some(axis)),
            Place::Summed => {
                let (value, axis) = batcher.lanes(output)?;
                (batcher.builder.reduce_sum(value, &[axis])?, None)
            }
            Place::AsItIs => (value, axis),
        };
        outputs.push(value);
        axes.push(axis);
    }
    Ok((Arc::new(builder.finish(&outputs)), axes))
}

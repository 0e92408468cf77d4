//! Rules of reverse mode: the derivative of a `custom_vjp` is a `custom_linear`, known by its transpose.

use super::call;
use super::custom_rule::{Place, check_captured, float_outputs, parts, placed};
use super::nested::{Nested, Split};
use super::{solve, spread};
use crate::error::AdError;
use crate::linearize::Failure;
use crate::options::Autodiff;
use indexmap::IndexSet;
use pullback_ir::batch::{Batched, BatchedValues, Batcher};
use pullback_ir::ops::control::call::Call;
use pullback_ir::ops::control::custom_linear::CustomLinear;
use pullback_ir::ops::control::custom_vjp::CustomVjp;
use pullback_ir::ops::{Equation, Op};
use pullback_ir::passes::prune;
use pullback_ir::program::Values;
use pullback_ir::rules::{Cotangents, Linearizer, RuleError};
use pullback_ir::{Builder, Program, TypeError, Value};
use slotmap::SecondaryMap;
use std::sync::Arc;

/// A `custom_vjp` linearized.
pub(crate) struct Linearized {
    /// The op that gives the residuals as well.
    saved: CustomVjp,
    /// The derivative by those operands that have tangents.
    linear: CustomLinear,
    /// What it knows, among the captured operands, the results and the residuals.
    known: Vec<usize>,
    /// The derivative of the residuals, where they are results of the op.
    residuals: Option<Arc<Split>>,
}

/// Linearizes a `custom_vjp` of whose operands these have tangents. `None` if no result has one.
pub(crate) fn linearized(
    autodiff: &Autodiff,
    nested: &mut Nested,
    op: &CustomVjp,
    tangents: &[Option<Value>],
) -> Result<Option<Linearized>, Failure> {
    check_captured("custom_vjp", &op.scope, &op.program.param_types(), tangents)?;
    let saved = op.with_residuals();
    let floats = float_outputs(&saved.program, op.results).len();
    let wrt = &op.scope.wrt;
    let given: Vec<usize> = (0..wrt.len()).filter(|&i| tangents[wrt[i]].is_some()).collect();
    if given.is_empty() || floats == 0 {
        return Ok(None);
    }
    let outputs: Vec<Value> = given.iter().map(|&i| op.backward.outputs()[i]).collect();
    let first = op.backward.params().len() - floats;
    let (backward, known) = least(&Program::clone(&op.backward).with_outputs(&outputs), first)?;
    let backward = Arc::new(backward);
    // Reverse mode does not depend on it, so whatever stands in its way is no error yet.
    let forward = transposed(&autodiff.without_hooks(), nested, &backward, known.len()).ok().flatten();
    let (name, residuals) = (op.scope.name.clone(), saved.program.outputs()[op.results..].to_vec());
    let linear = CustomLinear { name, known: known.len(), forward, backward, inverse_of: None };
    let residuals = match op.forward {
        Some(_) => None,
        None => {
            let program = Arc::new(prune(&Program::clone(&saved.program).with_outputs(&residuals)));
            let mask: Vec<bool> = (0..tangents.len()).map(|i| given.iter().any(|&g| wrt[g] == i)).collect();
            Some(nested.linearized(autodiff, &program, &mask)?).filter(|split| !split.active.is_empty())
        }
    };
    Ok(Some(Linearized { saved, linear, known, residuals }))
}

/// The program without those of its first parameters that it does not use, and which are left.
fn least(program: &Program, first: usize) -> Result<(Program, Vec<usize>), TypeError> {
    let program = prune(program);
    let used: SecondaryMap<Value, ()> =
        program.nodes().flat_map(|node| &node.operands).chain(program.outputs()).map(|&v| (v, ())).collect();
    let is_kept = |i: usize| i >= first || used.contains_key(program.params()[i]);
    let mut builder = Builder::new(program.name());
    let mut args = Vec::new();
    for (i, ty) in program.param_types().into_iter().enumerate() {
        args.push(if is_kept(i) { builder.param(ty) } else { builder.zeros(&ty)? });
    }
    let outputs = builder.inline(&program, &args)?;
    Ok((prune(&builder.finish(&outputs)), (0..first).filter(|&i| is_kept(i)).collect()))
}

/// `known.., tangents.. -> results..`, the transpose of a backward rule `known.., cotangents.. -> cotangents..`. `None`
/// if that is not linear.
pub(crate) fn transposed(
    autodiff: &Autodiff,
    nested: &mut Nested,
    backward: &Arc<Program>,
    known: usize,
) -> Result<Option<Arc<Program>>, Failure> {
    let types = backward.param_types();
    let Some(parts) = parts(autodiff, nested, backward, known, &vec![true; types.len() - known])? else {
        return Ok(None);
    };
    let residuals = parts.residuals.len();
    let linear: Vec<bool> = (0..parts.linear.params().len()).map(|i| i >= residuals).collect();
    let seeded = vec![true; parts.active.len()];
    let found = nested.transposed(autodiff, &parts.linear, &linear, &seeded, &vec![false; linear.len()])?;
    let mut builder = Builder::new(&format!("{}_transpose", backward.name()));
    let values: Vec<Value> = types[..known].iter().map(|ty| builder.param(ty.clone())).collect();
    let tangents: Vec<Value> = backward.output_types().into_iter().map(|ty| builder.param(ty)).collect();
    let mut args = parts.residuals(&mut builder, &values)?;
    args.extend(parts.active.iter().map(|&i| tangents[i]));
    let results = builder.inline(&found.program, &args)?;
    let results = spread(types.len() - known, found.active.iter().map(|&i| i - residuals), results);
    let mut outputs = Vec::new();
    for (result, ty) in results.into_iter().zip(&types[known..]) {
        outputs.push(result.map_or_else(|| builder.zeros(ty), Ok)?);
    }
    Ok(Some(Arc::new(builder.finish(&outputs))))
}

impl Linearized {
    /// The op that gives the results, and the residuals after them.
    pub(crate) fn emit_primal(&self, primal: &mut Builder, operands: &[Value]) -> Result<Values, TypeError> {
        primal.emit(self.saved.clone(), operands)
    }

    /// The tangents of the results and the residuals, given those of [`Linearized::emit_primal`].
    pub(crate) fn linearize(
        &self,
        lin: &mut Linearizer<'_>,
        equation: Equation<'_>,
        tangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let scope = &self.saved.scope;
        let values = [&equation.operands[..scope.captured], equation.results].concat();
        let mut operands = Values::new();
        for &i in &self.known {
            operands.push(lin.residual(values[i])?);
        }
        operands.extend(scope.wrt.iter().filter_map(|&i| tangents[i]));
        let found = lin.linear.emit(self.linear.clone(), &operands)?;
        let results = self.saved.results;
        let mut all = spread(equation.results.len(), float_outputs(&self.saved.program, results), found);
        if let Some(split) = &self.residuals {
            let op = Call::new(split.primal.clone());
            let made = call::emit_primal(split, &op, lin.primal, equation.operands)?;
            let called = Equation { operands: equation.operands, results: &made };
            let own: Cotangents =
                (0..tangents.len()).map(|i| tangents[i].filter(|_| scope.wrt.contains(&i))).collect();
            all.truncate(results);
            all.extend(call::linearize(split, &op, lin, called, &own)?);
        }
        Ok(all)
    }
}

/// The tangents of a `custom_linear` whose known operands have none: the op on the tangents.
pub(crate) fn linearize_linear(
    op: &CustomLinear,
    lin: &mut Linearizer<'_>,
    equation: Equation<'_>,
    tangents: &[Option<Value>],
) -> Result<Cotangents, RuleError> {
    let mut operands = Values::new();
    for &known in &equation.operands[..op.known] {
        operands.push(lin.residual(known)?);
    }
    for (&operand, &tangent) in equation.operands.iter().zip(tangents).skip(op.known) {
        let ty = lin.primal.ty(operand).clone();
        operands.push(tangent.map_or_else(|| lin.linear.zeros(&ty), Ok)?);
    }
    Ok(lin.linear.emit(op.clone(), &operands)?.into_iter().map(Some).collect())
}

/// A `custom_vjp` on lanes is one again. Its results have lanes; its residuals where they need them.
pub(crate) fn batch(
    autodiff: &Autodiff,
    nested: &mut Nested,
    op: &CustomVjp,
    batcher: &mut Batcher<'_>,
    args: &[Batched],
) -> Result<BatchedValues, Failure> {
    let axes: Vec<Option<usize>> = args.iter().map(|arg| arg.axis).collect();
    let size = batcher.size;
    let place = |i: usize| if i < op.results { Place::Along(0) } else { Place::AsItIs };
    let (program, kept) = placed(&*nested.batched(autodiff, &op.program, &axes, size)?, size, place)?;
    let forward = match &op.forward {
        None => None,
        Some(forward) => Some(placed(&*nested.batched(autodiff, forward, &axes, size)?, size, place)?),
    };
    let saved = forward.as_ref().map_or(&kept, |(_, kept)| kept);
    let cotangents = float_outputs(&op.program, op.results).len();
    let known = [&axes[..op.scope.captured], saved].concat();
    let backward =
        batch_backward(autodiff, nested, &op.backward, &known, cotangents, size, |i| axes[op.scope.wrt[i]])?;
    let lanes = CustomVjp {
        scope: op.scope.clone(),
        program,
        forward: forward.map(|(program, _)| program),
        backward,
        results: op.results,
    };
    emit(lanes, batcher, args, &kept)
}

/// A `custom_linear` on lanes is one again.
pub(crate) fn batch_linear(
    autodiff: &Autodiff,
    nested: &mut Nested,
    op: &CustomLinear,
    batcher: &mut Batcher<'_>,
    args: &[Batched],
) -> Result<BatchedValues, Failure> {
    if let (Some(forward), Some(operator)) = (&op.forward, &op.inverse_of) {
        return solve::batch(autodiff, nested, op, (forward, operator), batcher, args);
    }
    let axes: Vec<Option<usize>> = args.iter().map(|arg| arg.axis).collect();
    let size = batcher.size;
    let (known, tangents) = axes.split_at(op.known);
    let results = op.backward.params().len() - op.known;
    let backward = batch_backward(autodiff, nested, &op.backward, known, results, size, |i| tangents[i])?;
    let forward = match &op.forward {
        None => None,
        Some(forward) => {
            let lanes = nested.batched(autodiff, forward, &axes, size)?;
            Some(placed(&lanes, size, |_| Place::Along(0))?.0)
        }
    };
    let lanes = CustomLinear { name: op.name.clone(), known: op.known, forward, backward, inverse_of: None };
    emit(lanes, batcher, args, &vec![Some(0); results])
}

/// A backward rule on lanes: cotangents that come in have lanes, those that go out where their operands have them. For an
/// operand that all lanes share they are summed up.
pub(super) fn batch_backward(
    autodiff: &Autodiff,
    nested: &mut Nested,
    backward: &Arc<Program>,
    known: &[Option<usize>],
    cotangents: usize,
    size: usize,
    operand: impl Fn(usize) -> Option<usize>,
) -> Result<Arc<Program>, Failure> {
    let axes = [known, &vec![Some(0); cotangents]].concat();
    let lanes = nested.batched(autodiff, backward, &axes, size)?;
    Ok(placed(&lanes, size, |i| operand(i).map_or(Place::Summed, Place::Along))?.0)
}

pub(super) fn emit(
    op: impl Into<Op>,
    batcher: &mut Batcher<'_>,
    args: &[Batched],
    axes: &[Option<usize>],
) -> Result<BatchedValues, Failure> {
    let operands: Values = args.iter().map(|arg| arg.value).collect();
    let results = batcher.builder.emit(op, &operands)?;
    Ok(results.into_iter().zip(axes).map(|(value, &axis)| Batched { value, axis }).collect())
}

/// Refuses a linear program that is to be run as it stands and holds the derivative of a rule of reverse mode that has no
/// other form.
pub(crate) fn check_forward(linear: &Program) -> Result<(), AdError> {
    let mut programs: IndexSet<*const Program> = IndexSet::new();
    let mut waiting = vec![linear];
    while let Some(program) = waiting.pop() {
        if !programs.insert(program) {
            continue;
        }
        for node in program.nodes() {
            if let Op::CustomLinear(op) = &node.op
                && op.forward.is_none()
            {
                let source = RuleError::NoForwardMode { name: op.name.clone() };
                return Err(AdError::Rule { origin: Box::new(node.loc), source });
            }
            waiting.extend(node.op.programs().into_iter().map(|program| &**program));
        }
    }
    Ok(())
}

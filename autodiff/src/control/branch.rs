//! Branches: the derivative of a branch is a branch over the derivatives of its arms, on the same index.
//!
//! The arms of the primal branch return what any of them needs kept. Residuals of one type share a slot: only one arm
//! runs.
//!
//! On lanes that choose different arms every arm runs, and each lane takes from its own.

use super::nested::{Lanes, Nested, Residual, Split};
use super::{call, spread};
use crate::linearize::{Failure, given};
use crate::options::Autodiff;
use crate::transpose::Ends;
use indexmap::{IndexMap, IndexSet};
use pullback_ir::batch::{Batched, BatchedValues, Batcher};
use pullback_ir::masks::minds_no_data;
use pullback_ir::ops::Equation;
use pullback_ir::ops::control::branch::Branch;
use pullback_ir::ops::control::call::Call;
use pullback_ir::ops::elementwise::compare::Compare;
use pullback_ir::program::Values;
use pullback_ir::rules::{Arg, Cotangents, Linearizer, RuleError};
use pullback_ir::{Builder, DType, Program, TensorType, TypeError, Value};
use std::sync::Arc;

/// A branch linearized.
pub(crate) struct Linearized {
    /// The branch, its arms with slots as more outputs.
    primal: Branch,
    /// The residuals that the linear branch takes, of which each arm uses its own.
    sources: IndexSet<Residual>,
    arms: Vec<Arm>,
    /// Outputs with a tangent in any arm.
    active: Vec<usize>,
    /// Number of outputs of the branch.
    outputs: usize,
}

struct Arm {
    split: Arc<Split>,
    /// For each output of its primal program beyond the branch's own the slot it takes.
    slots: Vec<usize>,
}

/// Outputs added to a branch.
#[derive(Default)]
struct Slots {
    types: Vec<TensorType>,
    of_type: IndexMap<TensorType, Vec<usize>>,
}

impl Slots {
    /// A slot for each of these, no two the same. A stack has its slot for itself: on lanes that choose different arms
    /// one stack cannot be the long one of one arm and the short one of another.
    fn take(&mut self, types: &[TensorType]) -> Vec<usize> {
        let mut taken: IndexMap<&TensorType, usize> = IndexMap::new();
        let mut slots = Vec::with_capacity(types.len());
        for ty in types {
            let nth = taken.entry(ty).or_insert(0);
            let of_type = self.of_type.entry(ty.clone()).or_default();
            if *nth == of_type.len() || ty.is_stack() {
                of_type.push(self.types.len());
                self.types.push(ty.clone());
                *nth = of_type.len() - 1;
            }
            slots.push(of_type[*nth]);
            *nth += 1;
        }
        slots
    }
}

/// Linearizes a branch of whose operands these have tangents. `None` if no result has one.
pub(crate) fn linearized(
    autodiff: &Autodiff,
    nested: &mut Nested,
    op: &Branch,
    tangents: &[Option<Value>],
) -> Result<Option<Linearized>, Failure> {
    let mask = given(&tangents[1..]);
    let (mut arms, mut slots, mut active) = (Vec::new(), Slots::default(), IndexSet::new());
    for arm in &op.arms {
        let split = nested.linearized(autodiff, arm, &mask)?;
        active.extend(split.active.iter().copied());
        let slots = slots.take(&split.primal.output_types()[split.outputs..]);
        arms.push(Arm { split, slots });
    }
    if active.is_empty() {
        return Ok(None);
    }
    active.sort_unstable();
    let programs: Result<_, TypeError> = arms.iter().map(|arm| arm.primal(&slots.types)).collect();
    Ok(Some(Linearized {
        primal: Branch { arms: programs? },
        sources: arms.iter().flat_map(|arm| arm.split.residuals.iter().map(|&r| arm.source(r))).collect(),
        outputs: op.arms[0].outputs().len(),
        arms,
        active: active.into_iter().collect(),
    }))
}

impl Arm {
    /// The arm with a value for each slot: its own, or zeros.
    fn primal(&self, slots: &[TensorType]) -> Result<Arc<Program>, TypeError> {
        let program = &self.split.primal;
        let mut builder = Builder::new(program.name());
        let params: Vec<Value> = program.param_types().into_iter().map(|ty| builder.param(ty)).collect();
        let mut outputs = builder.inline(program, &params)?;
        let kept = outputs.split_off(self.split.outputs);
        let own = spread(slots.len(), self.slots.iter().copied(), kept);
        for (own, ty) in own.into_iter().zip(slots) {
            outputs.push(own.map_or_else(|| builder.zeros(ty), Ok)?);
        }
        Ok(Arc::new(builder.finish(&outputs)))
    }

    /// Where the branch has a residual of this arm.
    fn source(&self, residual: Residual) -> Residual {
        match residual {
            Residual::Result(i) if i >= self.split.outputs => {
                Residual::Result(self.split.outputs + self.slots[i - self.split.outputs])
            }
            Residual::Operand(_) | Residual::Result(_) => residual,
        }
    }

    /// The arm of the linear branch: from all sources and the tangents to the tangents of the active outputs.
    fn linear(
        &self,
        sources: &IndexSet<Residual>,
        types: &[TensorType],
        active: &[usize],
    ) -> Result<Program, TypeError> {
        let program = &self.split.linear;
        let mut builder = Builder::new(program.name());
        let given: Vec<Value> = types.iter().map(|ty| builder.param(ty.clone())).collect();
        let residuals = &self.split.residuals;
        let mut args: Vec<Value> = Vec::new();
        args.extend(
            residuals.iter().filter_map(|&r| sources.get_index_of(&self.source(r))).map(|i| given[i]),
        );
        args.extend(program.param_types().split_off(residuals.len()).into_iter().map(|ty| builder.param(ty)));
        let found = builder.inline(program, &args)?;
        let tangents = spread(self.split.outputs, self.split.active.iter().copied(), found);
        let outputs = self.split.primal.output_types();
        let mut results = Vec::new();
        for &i in active {
            results.push(tangents[i].map_or_else(|| builder.zeros(&outputs[i]), Ok)?);
        }
        Ok(builder.finish(&results))
    }
}

impl Linearized {
    /// The branch that gives the results, and the slots after them.
    pub(crate) fn emit_primal(&self, primal: &mut Builder, operands: &[Value]) -> Result<Values, TypeError> {
        primal.emit(self.primal.clone(), operands)
    }

    /// The tangents of the results, given the results of [`Linearized::emit_primal`].
    pub(crate) fn linearize(
        &self,
        lin: &mut Linearizer<'_>,
        equation: Equation<'_>,
        tangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let mut operands = Values::from_elem(lin.residual(equation.operands[0])?, 1);
        let mut types = Vec::new();
        for &source in &self.sources {
            let value = match source {
                Residual::Operand(i) => equation.operands[i + 1],
                Residual::Result(i) => equation.results[i],
            };
            types.push(lin.primal.ty(value).clone());
            operands.push(lin.residual(value)?);
        }
        operands.extend(tangents.iter().copied().flatten());
        let arms = self.arms.iter().map(|arm| arm.linear(&self.sources, &types, &self.active).map(Arc::new));
        let arms: Result<_, TypeError> = arms.collect();
        let found = lin.linear.emit(Branch { arms: arms? }, &operands)?;
        Ok(spread(self.outputs, self.active.iter().copied(), found))
    }
}

/// The results in every lane.
pub(crate) fn batch(
    autodiff: &Autodiff,
    nested: &mut Nested,
    op: &Branch,
    batcher: &mut Batcher<'_>,
    args: &[Batched],
) -> Result<BatchedValues, Failure> {
    let (index, args) = (args[0], &args[1..]);
    match index.axis {
        None => {
            let axes: Vec<Option<usize>> = args.iter().map(|arg| arg.axis).collect();
            let arms = op.arms.iter().map(|arm| nested.batched(autodiff, arm, &axes, batcher.size));
            let arms: Vec<Arc<Lanes>> = arms.collect::<Result<_, _>>()?;
            Ok(choose_once(&arms, batcher, index.value, args)?)
        }
        Some(_) => {
            let masks = masks(op, batcher, index)?;
            let mut arms = Vec::new();
            for (arm, &mask) in op.arms.iter().zip(&masks) {
                arms.push(masked_arm(autodiff, nested, arm, batcher, mask, args)?);
            }
            Ok(choose_by_lane(op, batcher, &masks, &arms)?)
        }
    }
}

/// A branch whose index all lanes share. A result has lanes where the first arm that gives it lanes has them.
fn choose_once(
    arms: &[Arc<Lanes>],
    batcher: &mut Batcher<'_>,
    index: Value,
    args: &[Batched],
) -> Result<BatchedValues, TypeError> {
    let results = 0..arms[0].axes.len();
    let axes: Vec<Option<usize>> = results.map(|i| arms.iter().find_map(|arm| arm.axes[i])).collect();
    let mut programs = Vec::new();
    for arm in arms {
        if arm.axes == axes {
            programs.push(arm.program.clone());
            continue;
        }
        let mut builder = Builder::new(arm.program.name());
        builder.set_loc(batcher.builder.loc());
        let params: Vec<Value> = arm.program.param_types().into_iter().map(|ty| builder.param(ty)).collect();
        let mut outputs = builder.inline(&arm.program, &params)?;
        let mut inner = Batcher { builder: &mut builder, size: batcher.size };
        for ((output, &found), &due) in outputs.iter_mut().zip(&arm.axes).zip(&axes) {
            if let Some(due) = due {
                *output = inner.at(Batched { value: *output, axis: found }, due)?;
            }
        }
        programs.push(Arc::new(builder.finish(&outputs)));
    }
    let operands: Values = std::iter::once(index).chain(args.iter().map(|arg| arg.value)).collect();
    let found = batcher.builder.emit(Branch { arms: programs }, &operands)?;
    Ok(found.into_iter().zip(axes).map(|(value, axis)| Batched { value, axis }).collect())
}

/// For each arm which lanes choose it.
fn masks(op: &Branch, batcher: &mut Batcher<'_>, index: Batched) -> Result<Vec<Value>, TypeError> {
    let index = batcher.at(index, 0)?;
    let last = op.arms.len() - 1;
    let mask = |i: usize| {
        let arm = batcher.builder.number_like(index, i as f64)?;
        if i == 0 && i == last {
            // Whatever the index is.
            return batcher.builder.compare(Compare::Eq, index, index);
        }
        let how = match i {
            0 => Compare::Le,
            i if i == last => Compare::Ge,
            _ => Compare::Eq,
        };
        batcher.builder.compare(how, index, arm)
    };
    (0..op.arms.len()).map(mask).collect()
}

/// The results of an arm in every lane, of which only those that choose it are looked at. An arm that minds its data
/// runs if there is such a lane, in the other lanes on its data.
fn masked_arm(
    autodiff: &Autodiff,
    nested: &mut Nested,
    arm: &Arc<Program>,
    batcher: &mut Batcher<'_>,
    mask: Value,
    args: &[Batched],
) -> Result<BatchedValues, Failure> {
    let axes: Vec<Option<usize>> = args.iter().map(|arg| arg.axis).collect();
    let lanes = nested.batched(autodiff, arm, &axes, batcher.size)?;
    if minds_no_data(arm) {
        return Ok(call::batch(&lanes, &Call::new(arm.clone()), batcher, args)?);
    }
    let mut operands: Values = args.iter().map(|arg| arg.value).collect();
    if batcher.size > 0 {
        let stand_ins = batcher.stand_ins(mask)?;
        for (operand, &arg) in operands.iter_mut().zip(args) {
            *operand = batcher.stand_in(arg, stand_ins)?.value;
        }
    }
    let any = batcher.any(mask)?;
    operands.insert(0, batcher.builder.convert(any, DType::I32)?);
    let arms = vec![Arc::new(zeros(&lanes.program)?), lanes.program.clone()];
    let found = batcher.builder.emit(Branch { arms }, &operands)?;
    Ok(found.into_iter().zip(&lanes.axes).map(|(value, &axis)| Batched { value, axis }).collect())
}

/// A program of the same type that gives zeros.
fn zeros(like: &Program) -> Result<Program, TypeError> {
    let mut builder = Builder::new("zeros");
    like.param_types().into_iter().for_each(|ty| {
        builder.param(ty);
    });
    let outputs: Result<Vec<Value>, _> = like.output_types().iter().map(|ty| builder.zeros(ty)).collect();
    Ok(builder.finish(&outputs?))
}

/// From the results of all arms in all lanes each lane's own.
fn choose_by_lane(
    op: &Branch,
    batcher: &mut Batcher<'_>,
    masks: &[Value],
    arms: &[BatchedValues],
) -> Result<BatchedValues, RuleError> {
    let last = arms.len() - 1;
    let mut results = BatchedValues::new();
    for (i, ty) in op.arms[0].output_types().into_iter().enumerate() {
        if ty.is_stack() {
            results.push(arms[the_stack(op, i, ty)?][i]);
            continue;
        }
        let mut result = arms[last][i];
        for (arm, &mask) in arms[..last].iter().zip(masks).rev() {
            result = batcher.choose(mask, arm[i], result)?;
        }
        results.push(result);
    }
    Ok(results)
}

/// The arm whose stack is the result: of those that the others give nobody reads a slice, if they have none.
fn the_stack(op: &Branch, output: usize, ty: TensorType) -> Result<usize, RuleError> {
    let has_slices = |arm: &Program| !arm.is_empty_stack(arm.outputs()[output]);
    let mut some = (0..op.arms.len()).filter(|&i| has_slices(&op.arms[i]));
    match (some.next(), some.next()) {
        (found, None) => Ok(found.unwrap_or(0)),
        (_, Some(_)) => {
            let problem = "takes it from one arm in some and from another in others";
            Err(RuleError::RaggedLanes { op: "branch", ty, problem })
        }
    }
}

/// The cotangents of the linear operands of a linear branch.
pub(crate) fn transpose(
    autodiff: &Autodiff,
    nested: &mut Nested,
    op: &Branch,
    builder: &mut Builder,
    args: &[Arg],
    ends: Ends<'_>,
) -> Result<Cotangents, Failure> {
    let Some(index) = args[0].known else {
        return Err(RuleError::NotLinear { op: "branch", operand: 0 }.into());
    };
    let (args, starts) = (&args[1..], &ends.starts[1..]);
    let linear: Vec<bool> = args.iter().map(Arg::is_linear).collect();
    let (seeded, started) = (given(ends.cotangents), given(starts));
    let mut transposed = Vec::new();
    for arm in &op.arms {
        transposed.push(nested.transposed(autodiff, arm, &linear, &seeded, &started)?);
    }
    let mut active: Vec<usize> = transposed.iter().flat_map(|arm| arm.active.iter().copied()).collect();
    active.sort_unstable();
    active.dedup();
    if active.is_empty() {
        return Ok(Cotangents::from_elem(None, args.len() + 1));
    }
    let known = args.iter().filter(|arg| !arg.is_linear()).count();
    let mut arms = Vec::new();
    for arm in &transposed {
        let mut program = Builder::new(arm.program.name());
        let params: Vec<Value> = arm.program.param_types().into_iter().map(|ty| program.param(ty)).collect();
        let found = program.inline(&arm.program, &params)?;
        let found = spread(args.len(), arm.active.iter().copied(), found);
        let mut outputs = Vec::new();
        for &i in &active {
            let start = started[i].then(|| params[known + started[..i].iter().filter(|&&is| is).count()]);
            outputs.push(found[i].or(start).map_or_else(|| program.zeros(&args[i].ty), Ok)?);
        }
        arms.push(Arc::new(program.finish(&outputs)));
    }
    let known = args.iter().filter_map(|arg| arg.known);
    let linear = starts.iter().chain(ends.cotangents).copied().flatten();
    let operands: Values = std::iter::once(index).chain(known).chain(linear).collect();
    let found = builder.emit(Branch { arms }, &operands)?;
    Ok(spread(args.len() + 1, active.into_iter().map(|i| i + 1), found))
}

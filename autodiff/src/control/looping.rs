//! Loops: the derivative of a loop is a loop over the derivative of its body.
//!
//! The residuals of an iteration become ys of the primal loop and xs of the linear one, except those that every
//! iteration shares, which are passed once as consts. The transpose runs in the other direction: its carries are the
//! cotangents of the carries, and sums of the contributions to the consts' cotangents, each of which goes through the
//! iterations as it would through their ops one after the other.

use super::nested::{Nested, Residual, Split, Transposed};
use super::spread;
use crate::least::{bytes, least};
use crate::linearize::{Failure, given};
use crate::options::Autodiff;
use crate::transpose::Ends;
use crate::work::trips;
use pullback_ir::ops::control::looping::{Loop, Trip};
use pullback_ir::ops::{Equation, Primitive};
use pullback_ir::passes::{invariant_program, invariant_values};
use pullback_ir::program::Values;
use pullback_ir::rules::{Arg, Cotangents, Linearizer, RuleError};
use pullback_ir::{Builder, DType, Def, Program, TensorType, TypeError, Value};
use slotmap::SecondaryMap;
use std::sync::Arc;

/// A loop linearized.
pub(crate) struct Linearized {
    /// The loop, with residuals as more ys.
    primal: Loop,
    /// The program of residuals that depend on consts alone, from the consts.
    invariant: Program,
    /// Where each residual of the body's linear program comes from.
    residuals: Vec<Source>,
    split: Arc<Split>,
    /// Parameters of the body (consts, carries, xs) with a tangent.
    active: Vec<bool>,
}

/// Where the linear loop finds a residual of its body.
#[derive(Clone, Copy)]
enum Source {
    /// The const of this number.
    Const(usize),
    /// The output of this number of the invariant program.
    Invariant(usize),
    /// The x of this number, slice by slice.
    X(usize),
    /// The y of this number of the primal loop, slice by slice.
    Y(usize),
}

impl Source {
    fn is_invariant(self) -> bool {
        match self {
            Source::Const(_) | Source::Invariant(_) => true,
            Source::X(_) | Source::Y(_) => false,
        }
    }
}

/// Linearizes a loop of whose operands these have tangents. `None` if no result has one.
pub(crate) fn linearized(
    autodiff: &Autodiff,
    nested: &mut Nested,
    op: &Loop,
    tangents: &[Option<Value>],
) -> Result<Option<Linearized>, Failure> {
    let operands = given(tangents);
    let roles = op.roles(&operands);
    let mut active = [roles.consts, roles.carries, roles.xs].concat();
    // A carry has a tangent if it begins with one, or gets one in an iteration.
    let split = loop {
        let split = nested.linearized(autodiff, &op.body, &active)?;
        let carries = split.active.iter().copied().filter(|&i| i < op.carries);
        let gained: Vec<usize> = carries.filter(|&i| !active[op.consts + i]).collect();
        if gained.is_empty() {
            break split;
        }
        gained.into_iter().for_each(|i| active[op.consts + i] = true);
    };
    let has_tangents = active[op.consts..][..op.carries].contains(&true) || !split.active.is_empty();
    Ok(if has_tangents { Some(place_residuals(op, keep_least(op, split)?, active)?) } else { None })
}

/// The split of the body that stacks least: what iterations share is not stacked, and xs and ys are stacks already.
fn keep_least(op: &Loop, split: Arc<Split>) -> Result<Arc<Split>, TypeError> {
    let body = &*split.primal;
    let shared = invariant_values(body, op.consts, |_| true);
    let ys: SecondaryMap<Value, ()> =
        body.outputs()[op.carries..split.outputs].iter().map(|&v| (v, ())).collect();
    let is_stacked =
        |v| ys.contains_key(v) || matches!(body.def(v), Def::Param(i) if i >= op.consts + op.carries);
    let times = trips(op);
    let cost = |v| {
        let is_had = shared.contains_key(v) || is_stacked(v);
        if is_had { 0 } else { bytes(body, v, times) }
    };
    let kept = least(body, &split.residuals_in(body), &cost);
    kept.map_or(Ok(split.clone()), |kept| split.keeping(body, &kept).map(Arc::new))
}

fn place_residuals(op: &Loop, split: Arc<Split>, active: Vec<bool>) -> Result<Linearized, TypeError> {
    let body = &split.primal;
    let is_invariant = invariant_values(body, op.consts, |_| true);
    let mut outputs: Vec<Value> = body.outputs()[..split.outputs].to_vec();
    let (mut invariant, mut residuals) = (Vec::new(), Vec::new());
    for residual in &split.residuals {
        let value = match *residual {
            Residual::Operand(i) => body.params()[i],
            Residual::Result(i) => body.outputs()[i],
        };
        residuals.push(match *residual {
            Residual::Operand(i) if i < op.consts => Source::Const(i),
            Residual::Operand(i) if i >= op.consts + op.carries => Source::X(i - op.consts - op.carries),
            _ if is_invariant.contains_key(value) => {
                Source::Invariant(position_or_push(&mut invariant, value, 0))
            }
            Residual::Operand(_) | Residual::Result(_) => {
                Source::Y(position_or_push(&mut outputs, value, op.carries) - op.carries)
            }
        });
    }
    Ok(Linearized {
        primal: Loop { body: Arc::new((**body).clone().with_outputs(&outputs)), ..op.clone() },
        invariant: invariant_program(body, op.consts, &is_invariant, &invariant)?,
        residuals,
        split,
        active,
    })
}

/// The position of a value in a list from `start` on, at whose end it is put if it is not there.
fn position_or_push(values: &mut Vec<Value>, value: Value, start: usize) -> usize {
    let found = values[start..].iter().position(|&v| v == value);
    found.map_or_else(
        || {
            values.push(value);
            values.len() - 1
        },
        |i| start + i,
    )
}

impl Linearized {
    /// Emits the primal loop: the loop's results, and the residuals as the linear loop takes them.
    pub(crate) fn emit_primal(
        &self,
        primal: &mut Builder,
        operands: &[Value],
    ) -> Result<(Values, Vec<Value>), TypeError> {
        let roles = self.primal.roles(operands);
        let invariant = primal.inline(&self.invariant, roles.consts)?;
        let all = primal.emit(self.primal.clone(), operands)?;
        let ys = &all[self.primal.carries..][..self.primal.ys()];
        let residuals = self.residuals.iter().map(|&source| match source {
            Source::Const(i) => roles.consts[i],
            Source::Invariant(i) => invariant[i],
            Source::X(i) => roles.xs[i],
            Source::Y(i) => ys[i],
        });
        let mut results: Values = all[..self.split.outputs].into();
        results.extend(self.primal.has_count().then(|| all[all.len() - 1]));
        Ok((results, residuals.collect()))
    }

    /// The tangents of the results: the linear loop.
    pub(crate) fn linearize(
        &self,
        lin: &mut Linearizer<'_>,
        equation: Equation<'_>,
        residuals: &[Value],
        tangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let op = &self.primal;
        let body = self.linear_body()?;
        let trip = match &op.trip {
            Trip::Count(n) => Trip::Count(*n),
            Trip::Times | Trip::Each | Trip::While(_) => Trip::Times,
        };
        let times = match &op.trip {
            Trip::Count(_) => None,
            Trip::Times => Some(equation.operands[0]),
            Trip::While(_) => Some(equation.results[equation.results.len() - 1]),
            Trip::Each => Some(stack_length(lin.primal, op.roles(equation.operands).xs[0])?),
        };
        let mut operands = Values::new();
        if let Some(times) = times {
            operands.push(lin.residual(times)?);
        }
        let (shared, sliced): (Vec<usize>, Vec<usize>) =
            (0..residuals.len()).partition(|&i| self.residuals[i].is_invariant());
        for &i in &shared {
            operands.push(lin.residual(residuals[i])?);
        }
        let given = op.roles(tangents);
        operands.extend(given.consts.iter().copied().flatten());
        let primal_carries = op.roles(equation.operands).carries;
        let mut carries = Vec::new();
        for (i, &tangent) in given.carries.iter().enumerate().filter(|&(i, _)| self.active[op.consts + i]) {
            carries.push(i);
            operands.push(match tangent {
                Some(tangent) => tangent,
                None => self.zero(lin, primal_carries[i])?,
            });
        }
        for &i in &sliced {
            operands.push(lin.residual(residuals[i])?);
        }
        operands.extend(given.xs.iter().copied().flatten());
        let consts = shared.len() + given.consts.iter().flatten().count();
        let linear = Loop { trip, reverse: op.reverse, consts, carries: carries.len(), body: Arc::new(body) };
        let found = lin.linear.emit(linear, &operands)?;
        let ys = self.split.active.iter().copied().filter(|&i| i >= op.carries);
        Ok(spread(equation.results.len(), carries.into_iter().chain(ys), found))
    }

    /// The zero tangent of a primal value.
    fn zero(&self, lin: &mut Linearizer<'_>, primal: Value) -> Result<Value, TypeError> {
        if !lin.primal.ty(primal).is_stack() {
            let ty = lin.primal.ty(primal).clone();
            return lin.linear.number(&ty, 0.0);
        }
        let like = lin.residual(primal)?;
        lin.linear.zeros_like(like)
    }

    /// The linear program of the body with its parameters in the order of a loop: shared residuals, tangents of consts
    /// and carries, residuals by slice, tangents of xs; and with a tangent for every active carry.
    fn linear_body(&self) -> Result<Program, TypeError> {
        let (op, linear) = (&self.primal, &self.split.linear);
        let mut builder = Builder::new(linear.name());
        let types = linear.param_types();
        let residuals = self.residuals.len();
        // The tangents of the active consts, carries and xs follow the residuals.
        let actives = |range: std::ops::Range<usize>| self.active[range].iter().filter(|&&is| is).count();
        let invariant = residuals + actives(0..op.consts + op.carries);
        let shared = (0..residuals).filter(|&i| self.residuals[i].is_invariant());
        let sliced = (0..residuals).filter(|&i| !self.residuals[i].is_invariant());
        let order = shared.chain(residuals..invariant).chain(sliced).chain(invariant..types.len());
        let mut args: Vec<Option<Value>> = vec![None; types.len()];
        for i in order {
            args[i] = Some(builder.param(types[i].clone()));
        }
        let args: Vec<Value> = args.into_iter().flatten().collect();
        let found = builder.inline(linear, &args)?;
        let mut outputs = Vec::new();
        let of_output = spread(self.split.outputs, self.split.active.iter().copied(), found);
        for i in (0..op.carries).filter(|&i| self.active[op.consts + i]) {
            outputs.push(match of_output[i] {
                Some(tangent) => tangent,
                None => builder.zeros_like(args[residuals + actives(0..op.consts + i)])?,
            });
        }
        outputs.extend(of_output[op.carries..].iter().copied().flatten());
        Ok(builder.finish(&outputs))
    }
}

/// The number of slices of a stack: counted by a loop through it.
fn stack_length(builder: &mut Builder, stack: Value) -> Result<Value, TypeError> {
    let int = TensorType::scalar(DType::I64);
    let mut body = Builder::new("count");
    let n = body.param(int);
    let slice = builder.ty(stack).stack_slice();
    slice.map(|ty| body.param(ty));
    let one = body.number_like(n, 1.0)?;
    let next = body.add(n, one)?;
    let body = Arc::new(body.finish(&[next]));
    let zero = builder.scalar(0i64)?;
    builder.one(Loop { trip: Trip::Each, reverse: false, consts: 0, carries: 1, body }, &[zero, stack])
}

/// The cotangents of the linear operands of a linear loop.
pub(crate) fn transpose(
    autodiff: &Autodiff,
    nested: &mut Nested,
    op: &Loop,
    builder: &mut Builder,
    args: &[Arg],
    ends: Ends<'_>,
) -> Result<Cotangents, Failure> {
    let types: Vec<&TensorType> = args.iter().map(|arg| &arg.ty).collect();
    let linear = linear_params(op, &types, &args.iter().map(Arg::is_linear).collect::<Vec<_>>())?;
    let mut seeded = given(&ends.cotangents[..op.body.outputs().len()]);
    // A carry has a cotangent if it ends with one, or gets one in an iteration.
    let none = vec![false; linear.len()];
    let mut transposed = loop {
        let transposed = nested.transposed(autodiff, &op.body, &linear, &seeded, &none)?;
        let carries = op.consts..op.consts + op.carries;
        let gained = transposed.active.iter().filter(|&i| carries.contains(i)).map(|i| i - op.consts);
        let gained: Vec<usize> = gained.filter(|&i| !seeded[i]).collect();
        if gained.is_empty() {
            break transposed;
        }
        gained.into_iter().for_each(|i| seeded[i] = true);
    };
    // The sums for consts go through the iterations.
    let started: Vec<bool> =
        (0..linear.len()).map(|i| i < op.consts && transposed.active.contains(&i)).collect();
    if started.contains(&true) {
        transposed = nested.transposed(autodiff, &op.body, &linear, &seeded, &started)?;
    }
    Ok(Backwards { op, transposed: &transposed, linear: &linear, seeded: &seeded }
        .emit(builder, args, ends)?)
}

/// The parameters of the body of a linear loop that carry tangents, given which operands do. Each carry does, and
/// whether to go on depends on none, or the loop is none that linearization made.
pub(crate) fn linear_params(
    op: &Loop,
    types: &[&TensorType],
    linear: &[bool],
) -> Result<Vec<bool>, RuleError> {
    let not_linear = |operand| Err(RuleError::NotLinear { op: op.name(), operand });
    let roles = op.roles(linear);
    if roles.times == Some(&true) {
        return not_linear(0);
    }
    let first = usize::from(op.has_times()) + op.consts;
    let fixed = |i: &usize| op.has_count() || !types[first + i].dtype.is_float();
    if let Some(i) = (0..op.carries).find(fixed) {
        return not_linear(first + i);
    }
    Ok([roles.consts, &vec![true; op.carries], roles.xs].concat())
}

/// The transpose of a linear loop, to be emitted.
struct Backwards<'a> {
    op: &'a Loop,
    transposed: &'a Transposed,
    /// Parameters of the body that carry tangents.
    linear: &'a [bool],
    /// Outputs of the body that have cotangents.
    seeded: &'a [bool],
}

impl Backwards<'_> {
    fn emit(
        &self,
        builder: &mut Builder,
        args: &[Arg],
        Ends { starts, cotangents }: Ends<'_>,
    ) -> Result<Cotangents, RuleError> {
        let op = self.op;
        let (roles, starts) = (op.roles(args), op.roles(starts).consts);
        let mut operands: Values = roles.times.iter().filter_map(|arg| arg.known).collect();
        let consts: Vec<Value> = roles.consts.iter().filter_map(|arg| arg.known).collect();
        operands.extend(consts.iter().copied());
        for i in self.carries() {
            operands.push(match cotangents[i] {
                Some(cotangent) => cotangent,
                None => zero(builder, &roles.carries[i].ty)?,
            });
        }
        for i in self.consts() {
            operands.push(match starts[i] {
                Some(start) => start,
                None => zero(builder, &roles.consts[i].ty)?,
            });
        }
        operands.extend(roles.xs.iter().filter_map(|arg| arg.known));
        operands.extend(self.ys().filter_map(|i| cotangents[i]));
        let results = builder.emit(
            Loop {
                trip: op.trip.clone(),
                reverse: !op.reverse,
                consts: consts.len(),
                carries: self.carries().count() + self.consts().count(),
                body: Arc::new(self.body()?),
            },
            &operands,
        )?;
        let first = usize::from(op.has_times());
        let carries = self.carries().map(|i| first + op.consts + i);
        let places = carries.chain(self.consts().map(|i| first + i)).chain(self.xs().map(|i| first + i));
        Ok(spread(args.len(), places, results))
    }

    /// From known consts, cotangents of carries, sums for consts, known xs and cotangents of ys.
    fn body(&self) -> Result<Program, TypeError> {
        let (op, body) = (self.op, &self.op.body);
        let params = body.param_types();
        let outputs = body.output_types();
        let mut builder = Builder::new(self.transposed.program.name());
        let known = |range: std::ops::Range<usize>| range.filter(|&i| !self.linear[i]);
        let xs = op.consts + op.carries..params.len();
        let mut args: Vec<Value> = known(0..op.consts).map(|i| builder.param(params[i].clone())).collect();
        let carries: Vec<Value> = self.carries().map(|i| builder.param(outputs[i].clone())).collect();
        let sums: Vec<Value> = self.consts().map(|i| builder.param(params[i].clone())).collect();
        args.extend(known(xs).map(|i| builder.param(params[i].clone())));
        args.extend(sums.iter().copied());
        args.extend(carries.iter().copied());
        args.extend(self.ys().map(|i| builder.param(outputs[i].clone())));
        let found = builder.inline(&self.transposed.program, &args)?;
        let of_param = spread(params.len(), self.transposed.active.iter().copied(), found);
        let mut results = Vec::new();
        for (i, &cotangent) in self.carries().zip(&carries) {
            results.push(match of_param[op.consts + i] {
                Some(cotangent) => cotangent,
                None => builder.zeros_like(cotangent)?,
            });
        }
        for (i, &sum) in self.consts().zip(&sums) {
            results.push(of_param[i].unwrap_or(sum));
        }
        results.extend(self.xs().filter_map(|i| of_param[i]));
        Ok(builder.finish(&results))
    }

    /// Carries that have a cotangent.
    fn carries(&self) -> impl Iterator<Item = usize> {
        (0..self.op.carries).filter(|&i| self.seeded[i])
    }

    /// Ys that have a cotangent, as outputs of the body.
    fn ys(&self) -> impl Iterator<Item = usize> {
        (self.op.carries..self.seeded.len()).filter(|&i| self.seeded[i])
    }

    /// Consts that get a cotangent.
    fn consts(&self) -> impl Iterator<Item = usize> {
        self.transposed.active.iter().copied().filter(|&i| i < self.op.consts)
    }

    /// Xs that get a cotangent, as parameters of the body.
    fn xs(&self) -> impl Iterator<Item = usize> {
        self.transposed.active.iter().copied().filter(|&i| i >= self.op.consts + self.op.carries)
    }
}

/// The zero that a sum of cotangents starts from.
fn zero(builder: &mut Builder, ty: &TensorType) -> Result<Value, RuleError> {
    match ty.is_stack() {
        false => Ok(builder.number(ty, 0.0)?),
        true => Err(RuleError::StackCotangent { ty: ty.clone() }),
    }
}

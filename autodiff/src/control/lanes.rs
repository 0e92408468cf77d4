//! Loops on lanes: one loop that does an iteration of every lane at once.
//!
//! Carries that differ from lane to lane, or come to, have their lanes along axis 0. Where lanes may end at different
//! times the loop goes on until the last has, and iterations are masked: the carries of a lane that is done stay as
//! they are, and its ys are zeros. So a stack has as many slices in every lane as in the one that has most, and what
//! reads it runs as often in each lane as that lane's own number says.

use super::nested::{Lanes, Nested};
use crate::linearize::Failure;
use crate::options::Autodiff;
use pullback_ir::batch::{Batched, BatchedValues, Batcher};
use pullback_ir::masks::minds_no_data;
use pullback_ir::ops::Primitive;
use pullback_ir::ops::control::call::Call;
use pullback_ir::ops::control::looping::{Loop, Trip};
use pullback_ir::ops::elementwise::binary::Binary;
use pullback_ir::ops::elementwise::compare::Compare;
use pullback_ir::ops::reduce::reduce::Reducer;
use pullback_ir::rules::RuleError;
use pullback_ir::{Builder, DType, Program, TensorType, TypeError, Value};
use std::sync::Arc;

/// A loop on lanes, to be emitted.
struct Batching<'a> {
    op: &'a Loop,
    size: usize,
    ending: Ending,
    body: Arc<Lanes>,
    /// Where the consts, the carries and the slices of the xs have lanes.
    axes: Vec<Option<usize>>,
    /// Whether a lane that is done works on the data of one that is not.
    stands_in: bool,
}

/// When the lanes of a loop end.
enum Ending {
    /// All at once.
    Together(Trip),
    /// Each when this condition does not hold in it.
    Condition(Arc<Lanes>),
    /// Each after its own number of iterations.
    Number(Batched),
}

/// The results in every lane.
pub(crate) fn batch(
    autodiff: &Autodiff,
    nested: &mut Nested,
    op: &Loop,
    batcher: &mut Batcher<'_>,
    args: &[Batched],
) -> Result<BatchedValues, Failure> {
    let first = usize::from(op.has_times()) + op.consts + op.carries;
    let (mut args, mut slices) = (args.to_vec(), Vec::new());
    for x in &mut args[first..] {
        let is_stack = batcher.builder.ty(x.value).is_stack();
        if !is_stack && x.axis == Some(0) {
            // Slices are along the first dimension.
            *x = Batched::along(batcher.at(*x, 1)?, 1);
        }
        slices.push(if is_stack { x.axis } else { x.axis.map(|axis| axis - 1) });
    }
    let batching = Batching::new(autodiff, nested, op, batcher.size, &args, &slices)?;
    batching.check_stacks(&slices)?;
    Ok(batching.emit(batcher, &args)?)
}

impl<'a> Batching<'a> {
    /// Finds the carries that have lanes: those that begin with some or get some in an iteration, and all of them if
    /// lanes end each for itself.
    fn new(
        autodiff: &Autodiff,
        nested: &mut Nested,
        op: &'a Loop,
        size: usize,
        args: &[Batched],
        slices: &[Option<usize>],
    ) -> Result<Batching<'a>, Failure> {
        let roles = op.roles(args);
        let consts = roles.consts.iter().map(|arg| arg.axis);
        let carries = roles.carries.iter().map(|arg| arg.axis.map(|_| 0));
        let mut axes: Vec<Option<usize>> = consts.chain(carries).chain(slices.iter().copied()).collect();
        let carries = op.consts..op.consts + op.carries;
        loop {
            let ending = match &op.trip {
                Trip::While(condition) => {
                    let condition = nested.batched(autodiff, condition, &axes[..carries.end], size)?;
                    match condition.axes[0] {
                        Some(_) => Ending::Condition(condition),
                        None => Ending::Together(Trip::While(condition.program.clone())),
                    }
                }
                trip @ (Trip::Count(_) | Trip::Times | Trip::Each) => match roles.times {
                    Some(&times) if times.axis.is_some() => Ending::Number(times),
                    _ => Ending::Together(trip.clone()),
                },
            };
            let is_masked = !matches!(ending, Ending::Together(_));
            if is_masked && axes[carries.clone()].contains(&None) {
                axes[carries.clone()].fill(Some(0));
                continue;
            }
            let body = nested.batched(autodiff, &op.body, &axes, size)?;
            let gained = |&i: &usize| axes[op.consts + i].is_none() && body.axes[i].is_some();
            let gained: Vec<usize> = (0..op.carries).filter(gained).collect();
            if gained.is_empty() {
                let stands_in = is_masked && size > 0 && !minds_no_data(&op.body);
                return Ok(Batching { op, size, ending, body, axes, stands_in });
            }
            gained.into_iter().for_each(|i| axes[op.consts + i] = Some(0));
        }
    }

    /// Refuses to hand on stacks that come to differ in length, and to go through one in lanes that have to know its
    /// length.
    fn check_stacks(&self, slices: &[Option<usize>]) -> Result<(), RuleError> {
        let (op, types) = (self.op, self.op.body.param_types());
        let refused =
            |ty: &TensorType, problem| Err(RuleError::RaggedLanes { op: op.name(), ty: ty.clone(), problem });
        let carries = &types[op.consts..][..op.carries];
        let is_masked = !matches!(self.ending, Ending::Together(_));
        if let Some(i) = (0..op.carries).find(|&i| is_masked && carries[i].is_stack() && !self.is_kept(i)) {
            return refused(&carries[i], "hands it on in lanes that are not done, and not in others");
        }
        let has_lanes = |axis: &Option<usize>| axis.is_some();
        let hands_on = self.axes[op.consts..][..op.carries].iter().any(has_lanes);
        if op.trip == Trip::Each
            && hands_on
            && let Some(i) = slices.iter().position(has_lanes)
            && let Some(stack) = types[op.consts + op.carries + i].stack()
        {
            return refused(&stack, "runs once for each slice that the longest has");
        }
        Ok(())
    }

    /// Whether iterations hand this carry on as it is.
    fn is_kept(&self, carry: usize) -> bool {
        self.op.body.outputs()[carry] == self.op.body.params()[self.op.consts + carry]
    }

    fn emit(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        let op = self.op;
        let roles = op.roles(args);
        let mut consts: Vec<Value> = roles.consts.iter().map(|arg| arg.value).collect();
        let mut carries = Vec::new();
        for (&carry, axis) in roles.carries.iter().zip(&self.axes[op.consts..]) {
            carries.push(if axis.is_some() { batcher.at(carry, 0)? } else { carry.value });
        }
        let mut xs: Vec<Value> = roles.xs.iter().map(|arg| arg.value).collect();
        let (trip, times) = match (&self.ending, roles.times) {
            (Ending::Together(trip), times) => (trip.clone(), times.map(|times| times.value)),
            (Ending::Condition(condition), _) => {
                let operands = [&consts[..], &carries[..]].concat();
                let active = holds(batcher, condition, &operands)?;
                let counts = batcher.builder.number(&self.per_lane(DType::I64), 0.0)?;
                carries.extend([active, counts]);
                let operands = operands.iter().chain(&carries[op.carries..]);
                let types: Vec<TensorType> = operands.map(|&v| batcher.builder.ty(v).clone()).collect();
                (Trip::While(Arc::new(self.any_lane(&types)?)), None)
            }
            (Ending::Number(numbers), _) => {
                let numbers = batcher.at(*numbers, 0)?;
                let most = most(batcher, numbers)?;
                consts.push(numbers);
                xs.push(positions(batcher.builder, most)?);
                (Trip::Times, Some(most))
            }
        };
        let body = Arc::new(self.body(batcher)?);
        let masked = Loop { trip, reverse: op.reverse, consts: consts.len(), carries: carries.len(), body };
        let operands: Vec<Value> = times.into_iter().chain(consts).chain(carries).chain(xs).collect();
        let found = batcher.builder.emit(masked.clone(), &operands)?;
        Ok(self.results(&masked, &found))
    }

    /// The results of the loop among those of the loop on lanes.
    fn results(&self, masked: &Loop, found: &[Value]) -> BatchedValues {
        let op = self.op;
        let slices = &op.body.output_types()[op.carries..];
        let carries = found.iter().zip(&self.axes[op.consts..][..op.carries]);
        let mut results: BatchedValues = carries.map(|(&value, &axis)| Batched { value, axis }).collect();
        let ys = found[masked.carries..].iter().zip(slices).zip(&self.body.axes[op.carries..]);
        results.extend(ys.map(|((&value, slice), axis)| {
            let is_row = matches!(op.trip, Trip::Count(_)) && !slice.is_stack();
            Batched { value, axis: axis.map(|axis| axis + usize::from(is_row)) }
        }));
        match &self.ending {
            Ending::Together(_) if op.has_count() => results.push(Batched::same(found[found.len() - 1])),
            Ending::Condition(_) => results.push(Batched::along(found[op.carries + 1], 0)),
            Ending::Together(_) | Ending::Number(_) => {}
        }
        results
    }

    /// From consts, carries and slices of xs to carries and slices of ys, in the lanes that are not done. Beyond its own
    /// operands the loop has, if lanes end by a condition, two carries: which are not done, and how many iterations
    /// each has done; if by number, the numbers as a const and the position as an x.
    fn body(&self, outer: &Batcher<'_>) -> Result<Program, TypeError> {
        let (op, program) = (self.op, &self.body.program);
        let mut builder = Builder::new(program.name());
        builder.set_loc(outer.builder.loc());
        let types = program.param_types();
        let param =
            |b: &mut Builder, i: usize| Batched { value: b.param(types[i].clone()), axis: self.axes[i] };
        let first_x = op.consts + op.carries;
        let mut args: Vec<Batched> = (0..op.consts).map(|i| param(&mut builder, i)).collect();
        let numbers = match self.ending {
            Ending::Number(_) => Some(builder.param(self.per_lane(DType::I64))),
            Ending::Together(_) | Ending::Condition(_) => None,
        };
        args.extend((op.consts..first_x).map(|i| param(&mut builder, i)));
        let progress = match self.ending {
            Ending::Condition(_) => {
                Some([DType::Bool, DType::I64].map(|dtype| builder.param(self.per_lane(dtype))))
            }
            Ending::Together(_) | Ending::Number(_) => None,
        };
        args.extend((first_x..types.len()).map(|i| param(&mut builder, i)));
        let mut active = progress.map(|[active, _]| active);
        if let Some(numbers) = numbers {
            let position = builder.param(TensorType::scalar(DType::I64));
            let position = builder.broadcast(position, [self.size], &[])?;
            active = Some(builder.compare(Compare::Lt, position, numbers)?);
        }
        let mut batcher = Batcher { builder: &mut builder, size: self.size };
        let (mut outputs, ys) = self.iteration(&mut batcher, &args, active)?;
        if let (Ending::Condition(condition), Some([active, counts])) = (&self.ending, progress) {
            let consts: Vec<Value> = args[..op.consts].iter().map(|arg| arg.value).collect();
            let goes_on = holds(&mut batcher, condition, &[&consts[..], &outputs[..]].concat())?;
            let one = builder.convert(active, DType::I64)?;
            // A condition that asks a kernel of the user's may hold again; a lane that is done stays so.
            outputs.push(builder.one(Binary::And, &[active, goes_on])?);
            outputs.push(builder.add(counts, one)?);
        }
        outputs.extend(ys);
        Ok(builder.finish(&outputs))
    }

    /// The carries and the slices of ys after an iteration in the lanes that are active, which without a mask are all.
    fn iteration(
        &self,
        batcher: &mut Batcher<'_>,
        args: &[Batched],
        active: Option<Value>,
    ) -> Result<(Vec<Value>, Vec<Value>), TypeError> {
        let op = self.op;
        let mut operands: Vec<Value> = args.iter().map(|arg| arg.value).collect();
        if let Some(active) = active.filter(|_| self.stands_in) {
            let lanes = batcher.stand_ins(active)?;
            for (operand, &arg) in operands.iter_mut().zip(args) {
                *operand = batcher.stand_in(arg, lanes)?.value;
            }
        }
        let found = batcher.builder.inline(&self.body.program, &operands)?;
        let found = found.into_iter().zip(&self.body.axes).map(|(value, &axis)| Batched { value, axis });
        let (mut carries, mut ys) = (Vec::new(), Vec::new());
        for (i, found) in found.enumerate() {
            if i >= op.carries {
                ys.push(active.map_or(Ok(found), |active| batcher.keep(active, found))?.value);
                continue;
            }
            let carry = args[op.consts + i];
            carries.push(match (active, carry.axis) {
                _ if self.is_kept(i) => carry.value,
                (_, None) => found.value,
                (None, Some(axis)) => batcher.at(found, axis)?,
                (Some(active), Some(axis)) => {
                    let next = Batched::along(batcher.at(found, axis)?, axis);
                    batcher.choose(active, next, carry)?.value
                }
            });
        }
        Ok((carries, ys))
    }

    /// From the operands of a condition, which lanes are active and what each has done, to whether any is active.
    fn any_lane(&self, types: &[TensorType]) -> Result<Program, TypeError> {
        let mut builder = Builder::new("any_lane");
        let params: Vec<Value> = types.iter().map(|ty| builder.param(ty.clone())).collect();
        let any = Batcher { builder: &mut builder, size: self.size }.any(params[params.len() - 2])?;
        Ok(builder.finish(&[any]))
    }

    /// One of these for each lane.
    fn per_lane(&self, dtype: DType) -> TensorType {
        TensorType::new(dtype, [self.size])
    }
}

/// Whether a condition on lanes holds, lane by lane.
fn holds(batcher: &mut Batcher<'_>, condition: &Lanes, operands: &[Value]) -> Result<Value, TypeError> {
    let value = batcher.builder.one(Call::new(condition.program.clone()), operands)?;
    batcher.at(Batched { value, axis: condition.axes[0] }, 0)
}

/// The largest of the lanes' numbers of iterations; without lanes none.
fn most(batcher: &mut Batcher<'_>, numbers: Value) -> Result<Value, TypeError> {
    match batcher.size {
        0 => batcher.builder.scalar(0i64),
        _ => batcher.builder.reduce(Reducer::Max, numbers, &[0]),
    }
}

/// The stack of the numbers below `n`. As xs they are known to every iteration, in either direction, and to its
/// transpose; a counter among the carries of a linear loop would not be linear.
fn positions(builder: &mut Builder, n: Value) -> Result<Value, TypeError> {
    let mut body = Builder::new("positions");
    let position = body.param(TensorType::scalar(DType::I64));
    let one = body.scalar(1i64)?;
    let next = body.add(position, one)?;
    let body = Arc::new(body.finish(&[next, position]));
    let zero = builder.scalar(0i64)?;
    let count = Loop { trip: Trip::Times, reverse: false, consts: 0, carries: 1, body };
    Ok(builder.emit(count, &[n, zero])?[1])
}

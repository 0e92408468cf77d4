//! Loops and branches of which something is known before they run.

use super::{Rebuild, Rewrites, Simplifier, walk_until_done};
use crate::error::TypeError;
use crate::literal::{Literal, Scalar};
use crate::ops::control::branch::Branch;
use crate::ops::control::looping::{Loop, Trip};
use crate::ops::shape::reshape::Reshape;
use crate::passes::invariant::{Fate, hoisted, rearranged};
use crate::passes::rebuild::replay;
use crate::program::{Program, Value, Values};
use crate::shape::{Shape, TensorType};
use std::sync::Arc;

/// Constants of more elements stay outside: in a loop's body they would be printed and compiled once more.
const MAX_CONSTANT: usize = 64;

impl Simplifier<'_> {
    /// A branch whose index is known is the arm it chooses.
    pub(super) fn branching(&mut self, branch: &Branch, operands: &[Value]) -> Rewrites {
        let Some(index) = self.splat(operands[0]) else { return Ok(None) };
        let arm = branch.arm(i32::from_bits64(index)).clone();
        Ok(Some(replay(&arm, &operands[1..], self)?.into()))
    }

    /// The rules of loops, in turn.
    pub(super) fn looping(&mut self, op: &Loop, operands: &[Value]) -> Rewrites {
        if let Some(values) = self.few_trips(op, operands)? {
            return Ok(Some(values));
        }
        if let Some(values) = self.known_operands(op, operands)? {
            return Ok(Some(values));
        }
        self.invariant_ops(op, operands)
    }

    /// So many `times`, known, without stacks = that count. None = the carries as they came, once = the body.
    fn few_trips(&mut self, op: &Loop, operands: &[Value]) -> Rewrites {
        let roles = op.roles(operands);
        if let (Trip::Times, 0, 0, Some(times)) = (&op.trip, op.xs(), op.ys(), roles.times.copied()) {
            let Some(times) = self.splat(times) else { return Ok(None) };
            let trip = Trip::Count(usize::try_from(i64::from_bits64(times)).unwrap_or(0));
            return self.emit(Loop { trip, ..op.clone() }.into(), &operands[1..]).map(Some);
        }
        // The lengths of stacks are checked where the loop runs, and no op makes a stack of one slice.
        let slices = op.body.output_types().split_off(op.carries);
        if roles.xs.iter().any(|&x| self.ty(x).is_stack()) || slices.iter().any(TensorType::is_stack) {
            return Ok(None);
        }
        match op.trip {
            Trip::Count(0) => self.no_trips(roles.carries, &slices).map(Some),
            Trip::Count(1) => self.one_trip(op, operands).map(Some),
            Trip::Count(_) | Trip::Times | Trip::Each | Trip::While(_) => Ok(None),
        }
    }

    fn no_trips(&mut self, carries: &[Value], slices: &[TensorType]) -> Result<Values, TypeError> {
        let mut results = Values::from_slice(carries);
        for slice in slices {
            results.push(self.constant_value(Literal::number(stacked(slice, 0), 0.0))?);
        }
        Ok(results)
    }

    fn one_trip(&mut self, op: &Loop, operands: &[Value]) -> Result<Values, TypeError> {
        let mut arguments = Values::from_slice(operands);
        for x in &mut arguments[op.consts + op.carries..] {
            let shape = self.ty(*x).shape[1..].into();
            *x = self.one(Reshape { shape }, &[*x])?;
        }
        let mut results = replay(&op.body, &arguments, self)?;
        for y in &mut results[op.carries..] {
            let shape = stacked(self.ty(*y), 1).shape;
            *y = self.one(Reshape { shape }, &[*y])?;
        }
        Ok(results.into())
    }

    /// A const that is a small constant is written into the body; a carry that never changes is a const.
    fn known_operands(&mut self, op: &Loop, operands: &[Value]) -> Rewrites {
        let roles = op.roles(operands);
        let mut fates = Vec::with_capacity(op.body.params().len());
        for &value in roles.consts {
            let literal = self.constant(value).filter(|literal| is_small(literal));
            fates.push(literal.map_or(Fate::Const, |literal| Fate::Constant(literal.clone())));
        }
        let invariant = |k: usize| op.body.outputs()[k] == op.body.params()[op.consts + k];
        fates.extend((0..op.carries).map(|k| if invariant(k) { Fate::Const } else { Fate::Carry }));
        fates.extend(roles.xs.iter().map(|_| Fate::X));
        if fates[..op.consts].iter().all(|fate| *fate == Fate::Const)
            && fates[op.consts..].iter().all(|fate| *fate != Fate::Const)
        {
            return Ok(None);
        }
        let kept: Vec<usize> = (0..op.carries).filter(|&k| !invariant(k)).collect();
        let outputs = kept.iter().copied().chain(op.carries..op.body.outputs().len());
        let outputs: Vec<Value> = outputs.map(|i| op.body.outputs()[i]).collect();
        let body = rearranged(&op.body, &fates, &outputs)?;
        let trip = match &op.trip {
            Trip::While(condition) => {
                Trip::While(self.again(rearranged(condition, &fates, condition.outputs())?))
            }
            trip @ (Trip::Count(_) | Trip::Times | Trip::Each) => trip.clone(),
        };
        let count = |role| fates.iter().filter(|&fate| *fate == role).count();
        let (consts, carries) = (count(Fate::Const), count(Fate::Carry));
        let new = Loop { trip, reverse: op.reverse, consts, carries, body: self.again(body) };
        let passed = &operands[usize::from(op.has_times())..];
        let mut arguments: Values = roles.times.copied().into_iter().collect();
        for role in [Fate::Const, Fate::Carry, Fate::X] {
            arguments.extend(passed.iter().zip(&fates).filter(|(_, fate)| **fate == role).map(|(&v, _)| v));
        }
        let mut found = self.emit(new.into(), &arguments)?.into_iter();
        let mut results = Values::from_slice(roles.carries);
        for k in kept {
            results[k] = found.next().unwrap_or(results[k]);
        }
        results.extend(found);
        Ok(Some(results))
    }

    /// What gives the same in every iteration is done once, before the loop.
    fn invariant_ops(&mut self, op: &Loop, operands: &[Value]) -> Rewrites {
        let Some((once, new)) = hoisted(op)? else { return Ok(None) };
        let (before, rest) = operands.split_at(usize::from(op.has_times()) + op.consts);
        let values = replay(&once, &before[usize::from(op.has_times())..], self)?;
        let operands: Values = before.iter().copied().chain(values).chain(rest.iter().copied()).collect();
        self.emit(new.into(), &operands).map(Some)
    }

    /// A nested program, simplified with what is known of it now.
    fn again(&self, program: Program) -> Arc<Program> {
        Arc::new(walk_until_done(&program, self.evaluator))
    }
}

fn is_small(literal: &Literal) -> bool {
    literal.splat_value().is_some() || literal.ty().shape.elements() <= MAX_CONSTANT
}

/// The tensor of so many slices.
fn stacked(slice: &TensorType, slices: usize) -> TensorType {
    slice.with_shape(std::iter::once(slices).chain(slice.shape.iter().copied()).collect::<Shape>())
}

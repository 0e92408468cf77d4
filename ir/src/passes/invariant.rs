//! What is the same in every iteration of a loop.

use crate::builder::Builder;
use crate::error::TypeError;
use crate::literal::Literal;
use crate::ops::control::looping::{Loop, Trip};
use crate::ops::{Effect, Op};
use crate::program::{Node, Program, Value, Values};
use crate::recipe::Recipe;
use crate::shape::TensorType;
use slotmap::SecondaryMap;
use std::sync::Arc;

/// A value of no more elements may be kept while a loop runs, whatever it is computed from. A larger one only if a
/// const of the loop is as large: a table of all pairs of consts costs more to keep than to compute.
const MAX_KEPT: usize = 4096;

/// What becomes of a parameter of a loop's body.
#[derive(Clone, PartialEq)]
pub(super) enum Fate {
    /// It is a const.
    Const,
    /// It is a carry.
    Carry,
    /// It is a slice of an x.
    X,
    /// It is this constant.
    Constant(Literal),
}

/// A body or condition with consts first, then carries, then slices of xs, the others as constants; and with these
/// outputs. There may be more fates than the program has parameters.
pub(super) fn rearranged(program: &Program, fates: &[Fate], outputs: &[Value]) -> Result<Program, TypeError> {
    let mut new = Builder::new(program.name());
    let types = program.param_types();
    let mut arguments = Vec::with_capacity(types.len());
    for (ty, fate) in types.into_iter().zip(fates) {
        arguments.push(match fate {
            Fate::Constant(literal) => new.constant(literal.clone())?,
            Fate::Const | Fate::Carry | Fate::X => new.param(ty),
        });
    }
    let outputs = new.inline(&program.clone().with_outputs(outputs), &arguments)?;
    let mut params = Vec::with_capacity(arguments.len());
    for role in [Fate::Const, Fate::Carry, Fate::X] {
        params.extend(arguments.iter().zip(fates).filter(|(_, fate)| **fate == role).map(|(&v, _)| v));
    }
    Ok(new.finish_with_params(&params, &outputs))
}

/// A loop without the ops that give the same in every iteration, and the program of these: from the loop's consts to
/// further consts, which follow them. `None` if there is nothing worth doing once.
///
/// Ops that only move elements stay, as they cost nothing where they are; so does what may fail, or not end: the loop
/// may have no iterations.
pub(super) fn hoisted(op: &Loop) -> Result<Option<(Program, Loop)>, TypeError> {
    let body = &op.body;
    let invariant = Invariant::of(op);
    let needed = invariant.needed();
    if needed.is_empty() {
        return Ok(None);
    }
    let types = body.param_types();
    let mut once = Builder::new(body.name());
    let mut map: SecondaryMap<Value, Value> = SecondaryMap::new();
    for (&param, ty) in body.params()[..op.consts].iter().zip(&types) {
        map.insert(param, once.param(ty.clone()));
    }
    for node in body.nodes().filter(|node| invariant.contains(node)) {
        copy(node, &mut once, &mut map)?;
    }
    let kept: Vec<Value> = needed.iter().map(|&v| map[v]).collect();
    let once = once.finish(&kept);

    let mut rest = Builder::new(body.name());
    let mut map: SecondaryMap<Value, Value> = SecondaryMap::new();
    let (consts, others) = body.params().split_at(op.consts);
    for &value in consts.iter().chain(&needed).chain(others) {
        map.insert(value, rest.param(body.ty(value).clone()));
    }
    for node in body.nodes().filter(|node| !invariant.is_hoisted(node)) {
        if node.operands.iter().all(|&v| map.contains_key(v)) {
            copy(node, &mut rest, &mut map)?;
        }
    }
    let outputs: Vec<Value> = body.outputs().iter().map(|&v| map[v]).collect();
    let trip = match &op.trip {
        Trip::While(condition) => Trip::While(Arc::new(with_consts(condition, op.consts, &once)?)),
        trip @ (Trip::Count(_) | Trip::Times | Trip::Each) => trip.clone(),
    };
    let consts = op.consts + needed.len();
    let body = Arc::new(rest.finish(&outputs));
    Ok(Some((once, Loop { trip, consts, body, ..op.clone() })))
}

fn copy(node: &Node, target: &mut Builder, map: &mut SecondaryMap<Value, Value>) -> Result<(), TypeError> {
    let operands: Values = node.operands.iter().map(|&v| map[v]).collect();
    target.set_loc(node.loc);
    let results = target.emit(node.op.clone(), &operands)?;
    map.extend(node.results.iter().copied().zip(results));
    Ok(())
}

/// A condition that has the outputs of a program as further consts, and ignores them.
fn with_consts(condition: &Program, consts: usize, more: &Program) -> Result<Program, TypeError> {
    let mut new = Builder::new(condition.name());
    let mut types = condition.param_types();
    let carries = types.split_off(consts);
    let mut arguments: Vec<Value> = types.into_iter().map(|ty| new.param(ty)).collect();
    for ty in more.output_types() {
        new.param(ty);
    }
    arguments.extend(carries.into_iter().map(|ty| new.param(ty)));
    let outputs = new.inline(condition, &arguments)?;
    Ok(new.finish(&outputs))
}

/// The values of a body that are the same in every iteration: consts and what follows from them.
struct Invariant<'a> {
    body: &'a Program,
    values: SecondaryMap<Value, ()>,
}

impl Invariant<'_> {
    fn of(op: &Loop) -> Invariant<'_> {
        let body = &op.body;
        let consts = &body.params()[..op.consts];
        let limit = consts.iter().map(|&v| body.ty(v).shape.elements()).fold(MAX_KEPT, usize::max);
        let is_kept = |&v: &Value| body.ty(v).shape.elements() <= limit;
        let mut invariant = Invariant { body, values: consts.iter().map(|&v| (v, ())).collect() };
        for node in body.nodes() {
            let is_plain = node.op.effect() == Effect::None
                && node.op.programs().is_empty()
                && !matches!(node.op, Op::Barrier(_));
            if is_plain && invariant.has_all(&node.operands) && node.results.iter().all(is_kept) {
                invariant.values.extend(node.results.iter().map(|&v| (v, ())));
            }
        }
        invariant
    }

    fn has_all(&self, values: &[Value]) -> bool {
        values.iter().all(|&v| self.values.contains_key(v))
    }

    fn contains(&self, node: &Node) -> bool {
        self.has_all(&node.results)
    }

    /// Whether an op is done once and for all.
    fn is_hoisted(&self, node: &Node) -> bool {
        let types: Vec<&TensorType> = node.operands.iter().map(|&v| self.body.ty(v)).collect();
        self.contains(node)
            && match node.op.recipe(&types) {
                Recipe::Move(_)
                | Recipe::Reshape
                | Recipe::Concat { .. }
                | Recipe::Constant(_)
                | Recipe::Iota { .. }
                | Recipe::Barrier => false,
                Recipe::Scalar(_)
                | Recipe::Reduce { .. }
                | Recipe::Contract(_)
                | Recipe::Kernel
                | Recipe::Update
                | Recipe::Call(_)
                | Recipe::Loop(_)
                | Recipe::Branch(_) => true,
            }
    }

    /// Results of hoisted ops that the rest of the body reads.
    fn needed(&self) -> Vec<Value> {
        let mut used: SecondaryMap<Value, ()> = self.body.outputs().iter().map(|&v| (v, ())).collect();
        let mut needed = Vec::new();
        for node in self.body.nodes().rev() {
            let is_used = node.results.iter().any(|&v| used.contains_key(v));
            if self.is_hoisted(node) {
                needed.extend(node.results.iter().copied().filter(|&v| used.contains_key(v)));
            } else if is_used || node.op.effect() > Effect::None {
                used.extend(node.operands.iter().map(|&v| (v, ())));
            }
        }
        needed.reverse();
        needed
    }
}

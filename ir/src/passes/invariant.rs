//! What is the same in every iteration of a loop.

use super::dce::dce;
use crate::builder::Builder;
use crate::error::TypeError;
use crate::literal::Literal;
use crate::ops::Effect;
use crate::ops::control::looping::{Loop, Trip};
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
    let once = invariant_program(body, op.consts, &invariant.values, &needed)?;
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

/// The values of a loop's body that are the same in every iteration: its consts, and what follows from them by ops that
/// may as well run where the loop does not, as far as the types of their results are those of values to keep.
pub fn invariant_values(
    body: &Program,
    consts: usize,
    is_kept: impl Fn(&TensorType) -> bool,
) -> SecondaryMap<Value, ()> {
    let mut invariant: SecondaryMap<Value, ()> = body.params()[..consts].iter().map(|&v| (v, ())).collect();
    for node in body.nodes() {
        let moves =
            node.op.is_shareable() && node.op.effect() == Effect::None && node.op.programs().is_empty();
        let follows = node.operands.iter().all(|&v| invariant.contains_key(v));
        if moves && follows && node.results.iter().all(|&v| is_kept(body.ty(v))) {
            invariant.extend(node.results.iter().map(|&v| (v, ())));
        }
    }
    invariant
}

/// The program from the consts of a loop's body to these of its invariant values.
pub fn invariant_program(
    body: &Program,
    consts: usize,
    invariant: &SecondaryMap<Value, ()>,
    outputs: &[Value],
) -> Result<Program, TypeError> {
    let mut builder = Builder::new("invariant");
    let mut map = SecondaryMap::new();
    for &param in &body.params()[..consts] {
        map.insert(param, builder.param(body.ty(param).clone()));
    }
    for node in body.nodes().filter(|node| node.results.iter().all(|&v| invariant.contains_key(v))) {
        copy(node, &mut builder, &mut map)?;
    }
    let outputs: Vec<Value> = outputs.iter().map(|&v| map[v]).collect();
    Ok(dce(&builder.finish(&outputs)))
}

/// What of a loop's body is the same in every iteration.
struct Invariant<'a> {
    body: &'a Program,
    values: SecondaryMap<Value, ()>,
}

impl Invariant<'_> {
    fn of(op: &Loop) -> Invariant<'_> {
        let body = &op.body;
        let elements = |ty: &TensorType| ty.shape.elements();
        let limit =
            body.params()[..op.consts].iter().map(|&v| elements(body.ty(v))).fold(MAX_KEPT, usize::max);
        Invariant { body, values: invariant_values(body, op.consts, |ty| elements(ty) <= limit) }
    }

    /// Whether an op is done once and for all.
    fn is_hoisted(&self, node: &Node) -> bool {
        let types: Vec<&TensorType> = node.operands.iter().map(|&v| self.body.ty(v)).collect();
        node.results.iter().all(|&v| self.values.contains_key(v))
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

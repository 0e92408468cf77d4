//! What makes a program linear: each op either has no operand that carries a tangent, or is linear in exactly
//! those that do.
//!
//! The transposition rules are the witnesses. An op is linear in a set of operands together if its rule transposes
//! it in that set. If the rule also accepts the set with a known operand added, the op is a sum of a part in the
//! set and a part in that operand (as `add` is), and only a zero there leaves it linear.

use crate::control::looping::linear_params;
use crate::error::AdError;
use indexmap::IndexSet;
use pullback_ir::ops::Op;
use pullback_ir::ops::control::looping::Loop;
use pullback_ir::rules::{Arg, RuleError};
use pullback_ir::{Builder, Node, Program, TensorType, Value};
use slotmap::SecondaryMap;
use std::sync::Arc;

/// Checks that a program is linear in all parameters after the first `residuals`. Custom calls are taken at their
/// word.
pub fn verify_linear(program: &Program, residuals: usize) -> Result<(), AdError> {
    let linear: Vec<bool> = (0..program.params().len()).map(|i| i >= residuals).collect();
    let mut nested = IndexSet::new();
    verify(program, &linear, &mut nested)?;
    let mut checked = 0;
    while let Some((address, linear)) = nested.get_index(checked).cloned() {
        verify(&address.0, &linear, &mut nested)?;
        checked += 1;
    }
    Ok(())
}

/// A nested program, compared by address.
#[derive(Clone)]
struct Address(Arc<Program>);

impl PartialEq for Address {
    fn eq(&self, other: &Address) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Address {}

impl std::hash::Hash for Address {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

fn verify(
    program: &Program,
    linear: &[bool],
    nested: &mut IndexSet<(Address, Vec<bool>)>,
) -> Result<(), AdError> {
    let params = program.params().iter().zip(linear);
    let mut carries: SecondaryMap<Value, ()> = params.filter(|(_, is)| **is).map(|(&v, _)| (v, ())).collect();
    for node in program.nodes() {
        let linear: Vec<bool> = node.operands.iter().map(|&v| carries.contains_key(v)).collect();
        if !linear.contains(&true) {
            continue;
        }
        match &node.op {
            Op::Call(call) => {
                nested.insert((Address(call.program.clone()), linear));
            }
            Op::Loop(op) => {
                let params = verify_loop(program, node, op, &linear)?;
                nested.insert((Address(op.body.clone()), params));
            }
            Op::Branch(_) if linear[0] => {
                let source = RuleError::NotLinear { op: node.op.name(), operand: 0 };
                return Err(AdError::Rule { origin: Box::new(node.loc), source });
            }
            Op::Branch(op) => {
                nested.extend(op.arms.iter().map(|arm| (Address(arm.clone()), linear[1..].to_vec())));
            }
            Op::CustomCall(_) => {}
            _ => verify_node(program, node, &linear)?,
        }
        let results = node.results.iter().filter(|&&v| program.ty(v).dtype.is_float());
        carries.extend(results.map(|&v| (v, ())));
    }
    let affine = |v: &Value| !carries.contains_key(*v) && !program.is_zero(*v);
    match program.outputs().iter().position(affine) {
        None => Ok(()),
        Some(operand) => {
            let origin = program.producer(program.outputs()[operand]).map_or(Default::default(), |n| n.loc);
            Err(AdError::Affine { op: "return", operand, origin })
        }
    }
}

/// Checks the operands of a loop and returns which parameters of its body carry tangents. A carry that begins without
/// one begins with zero.
fn verify_loop(program: &Program, node: &Node, op: &Loop, linear: &[bool]) -> Result<Vec<bool>, AdError> {
    let types: Vec<&TensorType> = node.operands.iter().map(|&v| program.ty(v)).collect();
    let params = linear_params(op, &types, linear)
        .map_err(|source| AdError::Rule { origin: Box::new(node.loc), source })?;
    let first = usize::from(op.has_times()) + op.consts;
    let known = |&i: &usize| !linear[i] && !program.is_zero(node.operands[i]);
    match (first..first + op.carries).find(known) {
        None => Ok(params),
        Some(operand) => Err(AdError::Affine { op: node.op.name(), operand, origin: node.loc }),
    }
}

fn verify_node(program: &Program, node: &Node, linear: &[bool]) -> Result<(), AdError> {
    let failed = |source| AdError::Rule { origin: Box::new(node.loc), source };
    try_transpose(program, node, linear).map_err(failed)?;
    for (operand, &v) in node.operands.iter().enumerate() {
        if linear[operand] || !program.ty(v).dtype.is_float() || program.is_zero(v) {
            continue;
        }
        let mut together = linear.to_vec();
        together[operand] = true;
        match try_transpose(program, node, &together) {
            Ok(()) => return Err(AdError::Affine { op: node.op.name(), operand, origin: node.loc }),
            Err(RuleError::NotLinear { .. }) => {}
            Err(source) => return Err(failed(source)),
        }
    }
    Ok(())
}

/// Transposes one op in these operands, into a program that is thrown away.
fn try_transpose(program: &Program, node: &Node, linear: &[bool]) -> Result<(), RuleError> {
    let mut scratch = Builder::new("scratch");
    let args = node.operands.iter().zip(linear).map(|(&v, &is_linear)| {
        let ty = program.ty(v).clone();
        Arg { known: (!is_linear).then(|| scratch.param(ty.clone())), ty }
    });
    let args: Vec<Arg> = args.collect();
    let cotangent = |&v: &Value| {
        let ty = program.ty(v);
        ty.dtype.is_float().then(|| scratch.param(ty.clone()))
    };
    let cotangents: Vec<Option<Value>> = node.results.iter().map(cotangent).collect();
    if cotangents.iter().all(Option::is_none) {
        let operand = linear.iter().position(|&is| is).unwrap_or(0);
        return Err(RuleError::NotLinear { op: node.op.name(), operand });
    }
    node.op.transpose(&mut scratch, &args, &cotangents).map(|_| ())
}

//! How much work an op is, roughly. It decides what is kept and what is computed twice, never what is computed.

use indexmap::IndexMap;
use pullback_ir::ops::control::looping::{Loop, Trip};
use pullback_ir::recipe::Recipe;
use pullback_ir::{Node, Program, TensorType};
use std::sync::Arc;

/// Iterations of a loop whose number is known only later.
const SOME: u64 = 100;

/// Work per element of an op that is no elementary step.
const MUCH: u64 = 40;

/// About how many machine instructions the op takes on numbers one by one.
pub(crate) fn work(program: &Program, node: &Node) -> u64 {
    node_work(program, node, &mut IndexMap::new())
}

/// Work of programs already looked at, by address: programs nest and share.
type Known = IndexMap<*const Program, u64>;

fn node_work(program: &Program, node: &Node, known: &mut Known) -> u64 {
    let types: Vec<&TensorType> = node.operands.iter().map(|&v| program.ty(v)).collect();
    let elements = |ty: &TensorType| ty.shape.elements() as u64;
    let results: u64 = node.results.iter().map(|&v| elements(program.ty(v))).sum();
    match node.op.recipe(&types) {
        Recipe::Constant(_) | Recipe::Barrier | Recipe::Reshape => 0,
        Recipe::Scalar(op) => results.saturating_mul(op.weight().into()),
        Recipe::Move(_) | Recipe::Concat { .. } | Recipe::Iota { .. } => results,
        Recipe::Reduce { .. } => elements(types[0]),
        Recipe::Contract(dot) => {
            let (batch, m, n, k) = dot.sizes(&types[0].shape, &types[1].shape);
            [batch, m, n, k, 2].into_iter().fold(1, |product: u64, n| product.saturating_mul(n as u64))
        }
        Recipe::Kernel | Recipe::Update => {
            types.iter().map(|ty| elements(ty)).fold(results, u64::saturating_add).saturating_mul(MUCH)
        }
        Recipe::Call(program) => whole(&program, known),
        Recipe::Branch(op) => op.arms.iter().map(|arm| whole(arm, known)).max().unwrap_or(0),
        Recipe::Loop(op) => trips(&op).saturating_mul(whole(&op.body, known)),
    }
}

/// About how many iterations a loop has.
pub(crate) fn trips(op: &Loop) -> u64 {
    match op.trip {
        Trip::Count(n) => n as u64,
        Trip::Times | Trip::Each | Trip::While(_) => SOME,
    }
}

/// The work of a program, as deep as programs are nested.
fn whole(program: &Arc<Program>, known: &mut Known) -> u64 {
    if let Some(&work) = known.get(&Arc::as_ptr(program)) {
        return work;
    }
    let work = program.nodes().map(|node| node_work(program, node, known)).fold(0, u64::saturating_add);
    known.insert(Arc::as_ptr(program), work);
    work
}

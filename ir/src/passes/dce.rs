//! Dead code: ops whose results nobody uses are left out.

use super::loops::Needed;
use super::rebuild::bottom_up;
use crate::ops::{Effect, Op};
use crate::program::{OpId, Program, Value};
use slotmap::SecondaryMap;

/// The program without ops that no output depends on and that do nothing besides. Parameters stay; so do ops that may
/// fail the call, and custom calls, which run as often as they are written.
pub fn dce(program: &Program) -> Program {
    bottom_up(program, &mut |program| with_effects_from(program, Effect::Check))
}

/// The program without ops that no output depends on, checks among them. Custom calls stay. For a transform whose
/// result owes its outputs and nothing else: it may succeed where the program given fails.
pub fn prune(program: &Program) -> Program {
    bottom_up(program, &mut |program| with_effects_from(program, Effect::Any))
}

/// The program without ops that no output depends on and whose effect is less than this, and with no more of its loops
/// than is needed.
pub(super) fn with_effects_from(program: &Program, least: Effect) -> Program {
    let live = live_ops(program, least);
    let mut program = program.clone();
    program.order.retain(|&id| live.contains_key(id));
    for (_, node) in program.nodes.iter().filter(|(id, _)| !live.contains_key(*id)) {
        for &result in &node.results {
            program.values.remove(result);
        }
    }
    program.nodes.retain(|id, _| live.contains_key(id));
    for (id, needed) in live {
        if let Some(needed) = needed {
            needed.trim(&mut program, id, least);
        }
    }
    program
}

/// Ops that are kept; of loops that are needed in part, which part.
fn live_ops(program: &Program, least: Effect) -> SecondaryMap<OpId, Option<Needed>> {
    let mut used: SecondaryMap<Value, ()> = program.outputs.iter().map(|&v| (v, ())).collect();
    let mut live = SecondaryMap::new();
    for &id in program.order.iter().rev() {
        let node = &program.nodes[id];
        let read: Vec<bool> = node.results.iter().map(|&v| used.contains_key(v)).collect();
        if !read.contains(&true) && node.op.effect() < least {
            continue;
        }
        let needed = match &node.op {
            Op::Loop(op) => Some(Needed::new(op, &read, least)).filter(|needed| !needed.is_all()),
            _ => None,
        };
        match (&node.op, &needed) {
            (Op::Loop(op), Some(needed)) => {
                let operands = node.operands.iter().zip(needed.operands(op));
                used.extend(operands.filter(|(_, needed)| *needed).map(|(&v, _)| (v, ())));
            }
            _ => used.extend(node.operands.iter().map(|&v| (v, ()))),
        }
        live.insert(id, needed);
    }
    live
}

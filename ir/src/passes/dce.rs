//! Dead code: ops whose results nobody uses are left out.

use super::rebuild::bottom_up;
use crate::ops::Op;
use crate::program::{OpId, Program, Value};
use slotmap::SecondaryMap;

/// The program without ops that no output depends on. Parameters stay, and so do custom calls, which run as often
/// as they are written, and calls of programs that hold some. A gather or scatter with checked indices goes if
/// unused, and its check with it.
pub fn dce(program: &Program) -> Program {
    bottom_up(program, &mut |program| {
        let live = live_ops(program);
        let mut program = program.clone();
        program.order.retain(|&id| live.contains_key(id));
        for (_, node) in program.nodes.iter().filter(|(id, _)| !live.contains_key(*id)) {
            for &result in &node.results {
                program.values.remove(result);
            }
        }
        program.nodes.retain(|id, _| live.contains_key(id));
        program
    })
}

fn live_ops(program: &Program) -> SecondaryMap<OpId, ()> {
    let mut used: SecondaryMap<Value, ()> = program.outputs.iter().map(|&v| (v, ())).collect();
    let mut live = SecondaryMap::new();
    for &id in program.order.iter().rev() {
        let node = &program.nodes[id];
        if has_effect(&node.op) || node.results.iter().any(|&v| used.contains_key(v)) {
            live.insert(id, ());
            used.extend(node.operands.iter().map(|&v| (v, ())));
        }
    }
    live
}

/// Whether running the op may be seen from outside. Nested programs have been through the pass already, so a custom
/// call in them is at any depth one that is kept.
fn has_effect(op: &Op) -> bool {
    let nested = op.programs();
    matches!(op, Op::CustomCall(_)) || nested.iter().any(|p| p.nodes().any(|node| has_effect(&node.op)))
}

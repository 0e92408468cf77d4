//! Which outputs of a program depend on which of its parameters, through the programs nested in it.

use pullback_ir::ops::Op;
use pullback_ir::ops::control::looping::{Loop, Trip};
use pullback_ir::{Program, Value};
use slotmap::SecondaryMap;

/// For each output whether it depends on one of the parameters marked.
pub(crate) fn depends(program: &Program, marked: &[bool]) -> Vec<bool> {
    let params = program.params().iter().zip(marked).filter(|(_, marked)| **marked);
    let mut reached: SecondaryMap<Value, ()> = params.map(|(&v, _)| (v, ())).collect();
    for node in program.nodes() {
        let operands: Vec<bool> = node.operands.iter().map(|&v| reached.contains_key(v)).collect();
        if !operands.contains(&true) {
            continue;
        }
        let results = match &node.op {
            Op::Call(op) => depends(&op.program, &operands),
            Op::CustomJvp(op) => depends(&op.program, &operands),
            Op::CustomVjp(op) => depends(&op.program, &operands),
            Op::Branch(_) if operands[0] => vec![true; node.results.len()],
            Op::Branch(op) => {
                let arms = op.arms.iter().map(|arm| depends(arm, &operands[1..]));
                arms.reduce(|left, right| either(&left, &right)).unwrap_or_default()
            }
            Op::Loop(op) => loop_depends(op, &operands, node.results.len()),
            _ => vec![true; node.results.len()],
        };
        reached.extend(node.results.iter().zip(results).filter(|(_, is)| *is).map(|(&v, _)| (v, ())));
    }
    program.outputs().iter().map(|&v| reached.contains_key(v)).collect()
}

/// The same of the results of a loop: a carry depends on what any iteration makes of it.
fn loop_depends(op: &Loop, operands: &[bool], results: usize) -> Vec<bool> {
    let roles = op.roles(operands);
    let mut carries = roles.carries.to_vec();
    loop {
        let goes_on = match &op.trip {
            Trip::While(condition) => depends(condition, &[roles.consts, &carries].concat())[0],
            Trip::Times => roles.times == Some(&true),
            Trip::Count(_) | Trip::Each => false,
        };
        if goes_on {
            return vec![true; results];
        }
        let mut found = depends(&op.body, &[roles.consts, &carries, roles.xs].concat());
        let next = either(&carries, &found[..op.carries]);
        if next == carries {
            found[..op.carries].copy_from_slice(&carries);
            found.resize(results, false);
            return found;
        }
        carries = next;
    }
}

fn either(left: &[bool], right: &[bool]) -> Vec<bool> {
    left.iter().zip(right).map(|(left, right)| left | right).collect()
}

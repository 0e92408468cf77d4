//! Which outputs of a program depend on which of its parameters, through the programs nested in it.

use indexmap::IndexMap;
use pullback_ir::ops::Op;
use pullback_ir::ops::control::looping::{Loop, Trip};
use pullback_ir::{Program, Value};
use slotmap::SecondaryMap;

/// For each output whether it depends on one of the parameters marked.
pub(crate) fn depends(program: &Program, marked: &[bool]) -> Vec<bool> {
    Walk::default().program(program, marked)
}

/// What was found of nested programs, by address and marked parameters: programs nest and share.
#[derive(Default)]
struct Walk(IndexMap<(*const Program, Vec<bool>), Vec<bool>>);

impl Walk {
    fn program(&mut self, program: &Program, marked: &[bool]) -> Vec<bool> {
        let key = (std::ptr::from_ref(program), marked.to_vec());
        if let Some(known) = self.0.get(&key) {
            return known.clone();
        }
        let params = program.params().iter().zip(marked).filter(|(_, marked)| **marked);
        let mut reached: SecondaryMap<Value, ()> = params.map(|(&v, _)| (v, ())).collect();
        for node in program.nodes() {
            let operands: Vec<bool> = node.operands.iter().map(|&v| reached.contains_key(v)).collect();
            if operands.contains(&true) {
                let results = self.op(&node.op, &operands, node.results.len());
                let results = node.results.iter().zip(results).filter(|(_, is)| *is);
                reached.extend(results.map(|(&v, _)| (v, ())));
            }
        }
        let found: Vec<bool> = program.outputs().iter().map(|&v| reached.contains_key(v)).collect();
        self.0.insert(key, found.clone());
        found
    }

    /// Which results of an op depend on one of the operands marked.
    fn op(&mut self, op: &Op, operands: &[bool], results: usize) -> Vec<bool> {
        match op {
            Op::Call(op) => self.program(&op.program, operands),
            Op::CustomJvp(op) => self.program(&op.program, operands),
            Op::CustomVjp(op) => self.program(&op.program, operands),
            Op::Branch(op) if !operands[0] => {
                let arms = op.arms.iter().map(|arm| self.program(arm, &operands[1..]));
                arms.reduce(|left, right| either(&left, &right)).unwrap_or_default()
            }
            Op::Loop(op) => self.looping(op, operands, results),
            _ => vec![true; results],
        }
    }

    /// The same of the results of a loop: a carry depends on what any iteration makes of it.
    fn looping(&mut self, op: &Loop, operands: &[bool], results: usize) -> Vec<bool> {
        let roles = op.roles(operands);
        let mut carries = roles.carries.to_vec();
        loop {
            let goes_on = match &op.trip {
                Trip::While(condition) => self.program(condition, &[roles.consts, &carries].concat())[0],
                Trip::Times => roles.times == Some(&true),
                Trip::Count(_) | Trip::Each => false,
            };
            if goes_on {
                return vec![true; results];
            }
            let mut found = self.program(&op.body, &[roles.consts, &carries, roles.xs].concat());
            let next = either(&carries, &found[..op.carries]);
            if next == carries {
                found[..op.carries].copy_from_slice(&carries);
                found.resize(results, false);
                return found;
            }
            carries = next;
        }
    }
}

fn either(left: &[bool], right: &[bool]) -> Vec<bool> {
    left.iter().zip(right).map(|(left, right)| left | right).collect()
}

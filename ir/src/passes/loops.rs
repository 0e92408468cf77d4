//! What of a loop is needed: carries and ys that nobody reads are left out, and what only they need.

use super::dce::with_effects_from;
use crate::ops::control::looping::{Loop, Trip};
use crate::ops::{Effect, Op};
use crate::program::{Def, OpId, Program, Value};
use slotmap::SecondaryMap;
use std::sync::Arc;

/// The parts of a loop that are needed.
#[derive(Clone, PartialEq)]
pub(super) struct Needed {
    consts: Vec<bool>,
    carries: Vec<bool>,
    xs: Vec<bool>,
    ys: Vec<bool>,
}

impl Needed {
    /// Of a loop of which these results are read. A carry is needed if it is read, if the condition looks at it, or if
    /// something needed does in the next iteration.
    pub(super) fn new(op: &Loop, read: &[bool], least: Effect) -> Needed {
        let (carries, rest) = read.split_at(op.carries);
        let mut needed = Needed {
            consts: vec![false; op.consts],
            carries: carries.to_vec(),
            xs: vec![false; op.xs()],
            ys: rest[..op.ys()].to_vec(),
        };
        if let Trip::While(condition) = &op.trip {
            needed.add(&reached(condition, &[true], least));
        }
        loop {
            let before = needed.clone();
            needed.add(&reached(&op.body, &[&needed.carries[..], &needed.ys].concat(), least));
            if needed == before {
                break;
            }
        }
        // Once for each slice of the xs: of one at least.
        if op.trip == Trip::Each && !needed.xs.contains(&true) {
            needed.xs[0] = true;
        }
        needed
    }

    /// Adds parameters of the body, or those of the condition, which are the first of them.
    fn add(&mut self, params: &[bool]) {
        let mine = self.consts.iter_mut().chain(&mut self.carries).chain(&mut self.xs);
        mine.zip(params).for_each(|(mine, &needed)| *mine |= needed);
    }

    /// Whether nothing can be left out.
    pub(super) fn is_all(&self) -> bool {
        [&self.consts, &self.carries, &self.xs, &self.ys].iter().all(|part| part.iter().all(|&is| is))
    }

    /// Which operands are needed.
    pub(super) fn operands(&self, op: &Loop) -> Vec<bool> {
        let times = vec![true; op.has_times().into()];
        [&times, &self.consts, &self.carries, &self.xs].into_iter().flatten().copied().collect()
    }

    /// Leaves the rest out of a loop of this program.
    pub(super) fn trim(&self, program: &mut Program, id: OpId, least: Effect) {
        let Op::Loop(op) = program.nodes[id].op.clone() else { return };
        let invariant = [&self.consts[..], &self.carries].concat();
        let trip = match &op.trip {
            Trip::While(condition) => {
                Trip::While(Arc::new(restricted(condition, &invariant, &[true], least)))
            }
            trip @ (Trip::Count(_) | Trip::Times | Trip::Each) => trip.clone(),
        };
        let params = [&invariant[..], &self.xs].concat();
        let outputs = [&self.carries[..], &self.ys].concat();
        let count = |part: &[bool]| part.iter().filter(|&&is| is).count();
        let new = Loop {
            trip,
            reverse: op.reverse,
            consts: count(&self.consts),
            carries: count(&self.carries),
            body: Arc::new(restricted(&op.body, &params, &outputs, least)),
        };
        let node = &mut program.nodes[id];
        retain(&mut node.operands, &self.operands(&op));
        let results = std::mem::take(&mut node.results);
        let kept = outputs.into_iter().chain(std::iter::repeat(true));
        for (&result, kept) in results.iter().zip(kept) {
            if kept {
                program.values[result].def = Def::Result(id, node.results.len());
                node.results.push(result);
            } else {
                program.values.remove(result);
            }
        }
        node.op = new.into();
    }
}

fn retain(values: &mut crate::program::Values, kept: &[bool]) {
    let mut kept = kept.iter();
    values.retain(|_| kept.next() == Some(&true));
}

/// The parameters that these outputs of a program depend on, or its effects.
fn reached(program: &Program, outputs: &[bool], least: Effect) -> Vec<bool> {
    let outputs = program.outputs.iter().zip(outputs).filter(|(_, needed)| **needed);
    let mut used: SecondaryMap<Value, ()> = outputs.map(|(&v, _)| (v, ())).collect();
    for node in program.nodes().rev() {
        if node.results.iter().any(|&v| used.contains_key(v)) || node.op.effect() >= least {
            used.extend(node.operands.iter().map(|&v| (v, ())));
        }
    }
    program.params.iter().map(|&v| used.contains_key(v)).collect()
}

/// The program with these of its outputs, which depend on no other than these of its parameters.
fn restricted(program: &Program, params: &[bool], outputs: &[bool], least: Effect) -> Program {
    let outputs: Vec<Value> =
        program.outputs.iter().zip(outputs).filter(|(_, kept)| **kept).map(|(&v, _)| v).collect();
    let mut program = with_effects_from(&program.clone().with_outputs(&outputs), least);
    let all = std::mem::take(&mut program.params);
    for (&param, &kept) in all.iter().zip(params) {
        if kept {
            program.values[param].def = Def::Param(program.params.len());
            program.params.push(param);
        } else {
            program.values.remove(param);
        }
    }
    program
}

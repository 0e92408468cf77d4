//! Building a program anew from an old one, op by op.

use crate::builder::Builder;
use crate::error::TypeError;
use crate::ops::Op;
use crate::program::{Program, Value, Values};
use crate::text::MAX_NESTING;
use indexmap::IndexMap;
use slotmap::SecondaryMap;
use std::sync::Arc;

/// What receives the ops of the old program, their operands already mapped.
pub(super) trait Rebuild {
    /// The new program.
    fn builder(&mut self) -> &mut Builder;

    /// Results that stand for those of the op.
    fn emit(&mut self, op: Op, operands: &[Value]) -> Result<Values, TypeError>;
}

/// The program anew, parameters and all; returns what stands for the outputs.
pub(super) fn rebuild(program: &Program, target: &mut impl Rebuild) -> Result<Vec<Value>, TypeError> {
    let params: Vec<Value> = program.param_types().into_iter().map(|ty| target.builder().param(ty)).collect();
    replay(program, &params, target)
}

/// Walks the ops in order, with these values for the parameters, and returns what stands for the outputs.
pub(super) fn replay(
    program: &Program,
    arguments: &[Value],
    target: &mut impl Rebuild,
) -> Result<Vec<Value>, TypeError> {
    let mut map: SecondaryMap<Value, Value> =
        program.params().iter().copied().zip(arguments.iter().copied()).collect();
    let outer = target.builder().loc();
    for node in program.nodes() {
        let operands: Values = node.operands.iter().map(|&v| map[v]).collect();
        target.builder().set_loc(if node.loc.is_known() { node.loc } else { outer });
        let results = target.emit(node.op.clone(), &operands)?;
        map.extend(node.results.iter().copied().zip(results));
    }
    target.builder().set_loc(outer);
    Ok(program.outputs().iter().map(|&v| map[v]).collect())
}

/// A program with every program nested in it, however deep, replaced by what `pass` makes of it, and then itself.
/// One that is nested in several places is done once.
pub(super) fn bottom_up(program: &Program, pass: &mut dyn FnMut(&Program) -> Program) -> Program {
    Nested { pass, done: IndexMap::new() }.program(program, 0)
}

struct Nested<'a> {
    pass: &'a mut dyn FnMut(&Program) -> Program,
    done: IndexMap<*const Program, Arc<Program>>,
}

impl Nested<'_> {
    fn program(&mut self, program: &Program, depth: usize) -> Program {
        let has_nested = program.nodes().any(|node| !node.op.programs().is_empty());
        if !has_nested || depth >= MAX_NESTING {
            return (self.pass)(program);
        }
        let mut replaced = program.clone();
        for &id in &program.order {
            let op = &program.nodes[id].op;
            if !op.programs().is_empty() {
                replaced.nodes[id].op = op.map_programs(&mut |program| self.shared(program, depth + 1));
            }
        }
        (self.pass)(&replaced)
    }

    fn shared(&mut self, program: &Arc<Program>, depth: usize) -> Arc<Program> {
        if let Some(done) = self.done.get(&Arc::as_ptr(program)) {
            return done.clone();
        }
        let new = Arc::new(self.program(program, depth));
        self.done.insert(Arc::as_ptr(program), new.clone());
        new
    }
}

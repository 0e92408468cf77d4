//! Transposition: a walk backwards over a linear program, from cotangents of its outputs to cotangents of its
//! linear parameters.

use crate::control::nested::Nested;
use crate::control::{branch, call, custom_call, looping};
use crate::error::AdError;
use crate::linearize::{Failure, derived, given};
use crate::options::Autodiff;
use indexmap::IndexSet;
use pullback_ir::ops::Op;
use pullback_ir::program::Values;
use pullback_ir::rules::{Arg, Cotangents, add_contributions};
use pullback_ir::{Builder, Node, Program, Stage, TypeError, Value};
use slotmap::SecondaryMap;
use smallvec::SmallVec;
use std::ops::Range;

/// Where a transposition begins. `None` is zero.
#[derive(Clone, Copy)]
pub(crate) struct Ends<'a> {
    /// What the cotangent of each parameter, or operand, amounts to so far.
    pub(crate) starts: &'a [Option<Value>],
    /// The cotangents of the outputs, or results.
    pub(crate) cotangents: &'a [Option<Value>],
}

/// Emits the transpose of `program` into `builder`. A parameter with an argument is known (a residual); the others
/// are linear, and their cotangents are returned (`None` where the program contributes nothing, and for known
/// parameters).
///
/// Contributions to one cotangent are added as they come: that of the last use first. One sum is alive at a time,
/// however often a value is used. Calls, branches and loops go on with the sum so far, so that it is the same to the
/// bit whether ops are called or stand in the place of the call, and whether iterations are one loop or two nested
/// ones.
pub(crate) fn transpose_into(
    autodiff: &Autodiff,
    nested: &mut Nested,
    builder: &mut Builder,
    program: &Program,
    args: &[Option<Value>],
    ends: Ends<'_>,
) -> Result<Vec<Option<Value>>, AdError> {
    let outer = builder.loc();
    let known: SecondaryMap<Value, Value> =
        program.params().iter().zip(args).filter_map(|(&v, arg)| Some((v, (*arg)?))).collect();
    let is_known = without_tangent(program, &known);
    let result = autodiff.hooks.during(Stage::Transpose, builder, |builder| {
        let starts = program.params().iter().zip(ends.starts).filter_map(|(&v, start)| Some((v, (*start)?)));
        Walk { autodiff, program, builder, is_known, known, cotangents: starts.collect() }.run(nested, ends)
    });
    builder.set_loc(outer);
    result
}

/// The values that carry no tangent: those that depend on known parameters alone.
fn without_tangent(program: &Program, known: &SecondaryMap<Value, Value>) -> SecondaryMap<Value, ()> {
    let mut found: SecondaryMap<Value, ()> = known.keys().map(|v| (v, ())).collect();
    for node in program.nodes() {
        if node.operands.iter().all(|&v| found.contains_key(v)) {
            found.extend(node.results.iter().map(|&v| (v, ())));
        }
    }
    found
}

struct Walk<'a> {
    autodiff: &'a Autodiff,
    program: &'a Program,
    builder: &'a mut Builder,
    /// Values of the program that carry no tangent.
    is_known: SecondaryMap<Value, ()>,
    /// Those of them that are needed so far, in the builder.
    known: SecondaryMap<Value, Value>,
    /// Cotangents so far, in the builder.
    cotangents: SecondaryMap<Value, Value>,
}

impl<'a> Walk<'a> {
    fn run(mut self, nested: &mut Nested, ends: Ends<'_>) -> Result<Vec<Option<Value>>, AdError> {
        for (&output, &cotangent) in self.program.outputs().iter().zip(ends.cotangents).rev() {
            self.contribute(output, cotangent).map_err(AdError::Type)?;
        }
        for node in self.program.nodes().rev() {
            self.node(nested, node).map_err(|failure| failure.at(node))?;
        }
        let found = self.program.params().iter().map(|&v| self.cotangents.get(v).copied());
        Ok(found.zip(ends.starts).map(|(found, start)| found.filter(|_| found != *start)).collect())
    }

    fn node(&mut self, nested: &mut Nested, node: &Node) -> Result<(), Failure> {
        // Also for ops with a known result no cotangent is ever recorded.
        let cotangents: Cotangents = node.results.iter().map(|&v| self.cotangents.remove(v)).collect();
        if cotangents.iter().all(Option::is_none) {
            return Ok(());
        }
        self.copy_known(&node.operands)?;
        self.builder.set_loc(derived(node, Stage::Transpose.name()));
        let merged: Option<(Op, Values)> = match &node.op {
            Op::Call(call) if self.repeats(&node.operands) => {
                let (call, operands) = nested.merged(call, &node.operands)?;
                Some((call.into(), operands))
            }
            _ => None,
        };
        let (op, operands) =
            merged.as_ref().map_or((&node.op, &node.operands), |(op, operands)| (op, operands));
        let arg = |&v: &Value| Arg { ty: self.program.ty(v).clone(), known: self.known.get(v).copied() };
        let args: SmallVec<[Arg; 4]> = operands.iter().map(arg).collect();
        let mut starts = Cotangents::from_elem(None, operands.len());
        for i in summed(op).rev() {
            starts[i] = self.cotangents.remove(operands[i]);
        }
        let ends = Ends { starts: &starts, cotangents: &cotangents };
        let contributions = match op {
            Op::Call(call) => {
                let linear: Vec<bool> = args.iter().map(Arg::is_linear).collect();
                let (seeded, started) = (given(&cotangents), given(&starts));
                let transposed =
                    nested.transposed(self.autodiff, &call.program, &linear, &seeded, &started)?;
                call::transpose(&transposed, call, self.builder, &args, ends)?
            }
            Op::Loop(op) => looping::transpose(self.autodiff, nested, op, self.builder, &args, ends)?,
            Op::Branch(op) => branch::transpose(self.autodiff, nested, op, self.builder, &args, ends)?,
            Op::CustomCall(call) => {
                custom_call::transpose(&self.autodiff.contracts, call, self.builder, &args, &cotangents)?
            }
            op => op.transpose(self.builder, &args, &cotangents)?,
        };
        for ((&operand, contribution), start) in operands.iter().zip(contributions).zip(starts).rev() {
            self.contribute(operand, contribution.or(start))?;
        }
        Ok(())
    }

    /// Copies the ops that compute those of the values that carry no tangent, now that they are needed: what is
    /// computed again is alive no longer than its uses.
    fn copy_known(&mut self, values: &[Value]) -> Result<(), TypeError> {
        let hook = self.builder.set_hook(None);
        let mut nodes: Vec<(&Node, bool)> = self.missing(values).map(|node| (node, false)).collect();
        while let Some((node, has_operands)) = nodes.pop() {
            if self.known.contains_key(node.results[0]) {
                continue;
            }
            if !has_operands {
                nodes.push((node, true));
                nodes.extend(self.missing(&node.operands).map(|node| (node, false)));
                continue;
            }
            let operands: Values = node.operands.iter().map(|&v| self.known[v]).collect();
            self.builder.set_loc(node.loc);
            let results = self.builder.emit(node.op.clone(), &operands)?;
            self.known.extend(node.results.iter().copied().zip(results));
        }
        self.builder.set_hook(hook);
        Ok(())
    }

    /// The ops of known values that are not yet in the builder.
    fn missing(&self, values: &[Value]) -> impl Iterator<Item = &'a Node> {
        let is_missing = |&&v: &&Value| self.is_known.contains_key(v) && !self.known.contains_key(v);
        values.iter().filter(is_missing).filter_map(|&v| self.program.producer(v))
    }

    /// Whether a value that carries a tangent is among them twice.
    fn repeats(&self, operands: &[Value]) -> bool {
        let linear = || operands.iter().filter(|&&v| !self.is_known.contains_key(v));
        linear().collect::<IndexSet<_>>().len() < linear().count()
    }

    fn contribute(&mut self, value: Value, contribution: Option<Value>) -> Result<(), TypeError> {
        if self.is_known.contains_key(value) {
            return Ok(());
        }
        let sum = add_contributions(self.builder, self.cotangents.get(value).copied(), contribution)?;
        if let Some(sum) = sum {
            debug_assert_eq!(self.builder.ty(sum), self.program.ty(value), "cotangent");
            self.cotangents.insert(value, sum);
        }
        Ok(())
    }
}

/// The operands to whose cotangents an op adds its contributions itself, one by one: those that ops nested in it share.
fn summed(op: &Op) -> Range<usize> {
    match op {
        Op::Call(call) => 0..call.program.params().len(),
        Op::Loop(op) => usize::from(op.has_times())..usize::from(op.has_times()) + op.consts,
        Op::Branch(op) => 1..1 + op.arms[0].params().len(),
        _ => 0..0,
    }
}

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
use pullback_ir::{Builder, Node, Program, Stage, Value};
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
    let mut known = program.params().iter().zip(args).filter_map(|(&v, arg)| Some((v, (*arg)?))).collect();
    copy_known(builder, program, &mut known)?;
    let result = autodiff.hooks.during(Stage::Transpose, builder, |builder| {
        let starts = program.params().iter().zip(ends.starts).filter_map(|(&v, start)| Some((v, (*start)?)));
        Walk { autodiff, program, builder, known, cotangents: starts.collect() }.run(nested, ends)
    });
    builder.set_loc(outer);
    result
}

/// Copies the ops none of whose operands carries a tangent.
fn copy_known(
    builder: &mut Builder,
    program: &Program,
    known: &mut SecondaryMap<Value, Value>,
) -> Result<(), AdError> {
    for node in program.nodes() {
        let operands: Option<Values> = node.operands.iter().map(|&v| known.get(v).copied()).collect();
        if let Some(operands) = operands {
            builder.set_loc(node.loc);
            let results = builder.emit(node.op.clone(), &operands)?;
            known.extend(node.results.iter().copied().zip(results));
        }
    }
    Ok(())
}

struct Walk<'a> {
    autodiff: &'a Autodiff,
    program: &'a Program,
    builder: &'a mut Builder,
    /// Values of the program that carry no tangent, in the builder.
    known: SecondaryMap<Value, Value>,
    /// Cotangents so far, in the builder.
    cotangents: SecondaryMap<Value, Value>,
}

impl Walk<'_> {
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

    /// Whether a value that carries a tangent is among them twice.
    fn repeats(&self, operands: &[Value]) -> bool {
        let linear = || operands.iter().filter(|&&v| !self.known.contains_key(v));
        linear().collect::<IndexSet<_>>().len() < linear().count()
    }

    fn contribute(
        &mut self,
        value: Value,
        contribution: Option<Value>,
    ) -> Result<(), pullback_ir::TypeError> {
        if self.known.contains_key(value) {
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

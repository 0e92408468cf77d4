//! Transposition: a walk backwards over a linear program, from cotangents of its outputs to cotangents of its
//! linear parameters.

use crate::control::nested::Nested;
use crate::control::{branch, call, custom_call, looping};
use crate::error::AdError;
use crate::linearize::{Failure, derived, given};
use crate::options::Autodiff;
use pullback_ir::ops::Op;
use pullback_ir::program::Values;
use pullback_ir::rules::{Arg, Cotangents, add_contributions};
use pullback_ir::{Builder, Node, Program, Stage, Value};
use slotmap::SecondaryMap;
use smallvec::SmallVec;

/// Emits the transpose of `program` into `builder`. A parameter with an argument is known (a residual); the others
/// are linear, and their cotangents are returned (`None` for zero, and for known parameters). `cotangents` are
/// those of the outputs.
///
/// Contributions to one cotangent are added as they come: that of the last use first. One sum is alive at a time,
/// however often a value is used.
pub(crate) fn transpose_into(
    autodiff: &Autodiff,
    nested: &mut Nested,
    builder: &mut Builder,
    program: &Program,
    args: &[Option<Value>],
    cotangents: &[Option<Value>],
) -> Result<Vec<Option<Value>>, AdError> {
    let outer = builder.loc();
    let mut known = program.params().iter().zip(args).filter_map(|(&v, arg)| Some((v, (*arg)?))).collect();
    copy_known(builder, program, &mut known)?;
    let result = autodiff.hooks.during(Stage::Transpose, builder, |builder| {
        Walk { autodiff, program, builder, known, cotangents: SecondaryMap::new() }.run(nested, cotangents)
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
    fn run(
        mut self,
        nested: &mut Nested,
        cotangents: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, AdError> {
        for (&output, &cotangent) in self.program.outputs().iter().zip(cotangents).rev() {
            self.contribute(output, cotangent).map_err(AdError::Type)?;
        }
        for node in self.program.nodes().rev() {
            self.node(nested, node).map_err(|failure| failure.at(node))?;
        }
        Ok(self.program.params().iter().map(|&v| self.cotangents.get(v).copied()).collect())
    }

    fn node(&mut self, nested: &mut Nested, node: &Node) -> Result<(), Failure> {
        // Also for ops with a known result no cotangent is ever recorded.
        let cotangents: Cotangents = node.results.iter().map(|&v| self.cotangents.remove(v)).collect();
        if cotangents.iter().all(Option::is_none) {
            return Ok(());
        }
        self.builder.set_loc(derived(node, Stage::Transpose.name()));
        let arg = |&v: &Value| Arg { ty: self.program.ty(v).clone(), known: self.known.get(v).copied() };
        let args: SmallVec<[Arg; 4]> = node.operands.iter().map(arg).collect();
        let contributions = match &node.op {
            Op::Call(call) => {
                let linear: Vec<bool> = args.iter().map(Arg::is_linear).collect();
                let transposed =
                    nested.transposed(self.autodiff, &call.program, &linear, &given(&cotangents))?;
                call::transpose(&transposed, self.builder, &args, &cotangents)?
            }
            Op::Loop(op) => looping::transpose(self.autodiff, nested, op, self.builder, &args, &cotangents)?,
            Op::Branch(op) => branch::transpose(self.autodiff, nested, op, self.builder, &args, &cotangents)?,
            Op::CustomCall(call) => {
                custom_call::transpose(&self.autodiff.contracts, call, self.builder, &args, &cotangents)?
            }
            op => op.transpose(self.builder, &args, &cotangents)?,
        };
        for (&operand, contribution) in node.operands.iter().zip(contributions).rev() {
            self.contribute(operand, contribution)?;
        }
        Ok(())
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

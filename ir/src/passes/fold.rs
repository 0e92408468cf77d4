//! Constant folding: ops on constants are evaluated once and for all.

use super::rebuild::{Rebuild, bottom_up, rebuild};
use crate::builder::Builder;
use crate::error::TypeError;
use crate::literal::Literal;
use crate::ops::Op;
use crate::program::{Program, Value, Values};
use crate::shape::{Shape, TensorType};

/// Computes an op on constants: the meaning, lent to a crate that knows no arrays.
pub trait Evaluate {
    /// The results, or `None` where there is nothing to gain or the op fails.
    fn evaluate(&self, op: &Op, operands: &[Literal]) -> Option<Vec<Literal>>;
}

/// Results (and operands that are not one number repeated) of more elements are left alone: a constant takes memory
/// and time to print, hash and compile that computing it may not, and constants captured from outside stay what they
/// were.
const MAX_FOLDED: usize = 1024;

/// The program with ops on small constants replaced by their results.
pub fn fold(program: &Program, evaluator: &dyn Evaluate) -> Program {
    bottom_up(program, &mut |program| {
        let mut folder = Folder { builder: Builder::new(program.name()), evaluator };
        match rebuild(program, &mut folder) {
            Ok(outputs) => folder.builder.finish(&outputs),
            Err(_) => program.clone(),
        }
    })
}

struct Folder<'a> {
    builder: Builder,
    evaluator: &'a dyn Evaluate,
}

impl Rebuild for Folder<'_> {
    fn builder(&mut self) -> &mut Builder {
        &mut self.builder
    }

    fn emit(&mut self, op: Op, operands: &[Value]) -> Result<Values, TypeError> {
        match folded(&mut self.builder, self.evaluator, &op, operands)? {
            Some(values) => Ok(values),
            None => self.builder.emit(op, operands),
        }
    }
}

/// Constants for the results of an op on constants, where that is worthwhile.
pub(super) fn folded(
    builder: &mut Builder,
    evaluator: &dyn Evaluate,
    op: &Op,
    operands: &[Value],
) -> Result<Option<Values>, TypeError> {
    let Some(literals) = constant_operands(builder.program(), op, operands) else { return Ok(None) };
    let results = match repeated(evaluator, op, &literals) {
        Some(result) => vec![result],
        None => match evaluated(evaluator, op, &literals) {
            Some(results) => results,
            None => return Ok(None),
        },
    };
    results.into_iter().map(|value| builder.constant(value)).collect::<Result<_, _>>().map(Some)
}

/// The operands if all are constants and the op is one that is evaluated. Ops without operands are constants of
/// their own kind; a barrier keeps its sides apart; custom calls run where they stand; calls are inlined first; a loop
/// may take any time.
fn constant_operands(program: &Program, op: &Op, operands: &[Value]) -> Option<Vec<Literal>> {
    let stays = matches!(op, Op::Barrier(_) | Op::CustomCall(_)) || !op.programs().is_empty();
    if operands.is_empty() || stays {
        return None;
    }
    operands.iter().map(|&v| program.constant(v).cloned()).collect()
}

/// An elementwise op on repeated numbers, whatever the shape: evaluated once.
fn repeated(evaluator: &dyn Evaluate, op: &Op, operands: &[Literal]) -> Option<Literal> {
    if !op.is_elementwise() {
        return None;
    }
    let shape = operands[0].ty().shape.clone();
    let scalar = |literal: &Literal| {
        Some(Literal::splat_bits(TensorType::scalar(literal.ty().dtype), literal.splat_value()?))
    };
    let scalars: Vec<Literal> = operands.iter().map(scalar).collect::<Option<_>>()?;
    let result = evaluator.evaluate(op, &scalars)?.pop()?;
    Some(Literal::splat_bits(result.ty().with_shape(shape), result.splat_value()?))
}

fn evaluated(evaluator: &dyn Evaluate, op: &Op, operands: &[Literal]) -> Option<Vec<Literal>> {
    let is_small = |shape: &Shape| shape.elements() <= MAX_FOLDED;
    let types: Vec<&TensorType> = operands.iter().map(Literal::ty).collect();
    let results = op.infer(&types).ok()?;
    let worthwhile =
        types.iter().all(|ty| is_small(&ty.shape)) && results.iter().all(|ty| is_small(&ty.shape));
    if worthwhile { evaluator.evaluate(op, operands) } else { None }
}

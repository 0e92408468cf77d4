//! Algebra on programs, exact in IEEE arithmetic to the bit (which NaN excepted).
//!
//! One walk in program order builds the new program; before an op is appended the rules look at it and at what
//! defines its operands, which is simple already, and may name a value that stands for the result. What rules append
//! goes through the rules as well, to a limited depth; only if the limit was met is the walk repeated. Equal ops
//! merge on the way, and dead ones are left out at the end. Barriers are opaque: no rule looks through one.
//!
//! Rules are grouped by theme; the algebra stands above each.

mod arithmetic;
mod control;
mod conversion;
mod facts;
mod logic;
mod movement;
mod reduction;
mod sinking;

use super::dce::dce;
use super::fold::{Evaluate, folded};
use super::rebuild::{Rebuild, bottom_up, rebuild};
use crate::builder::Builder;
use crate::error::TypeError;
use crate::literal::Literal;
use crate::ops::elementwise::unary::Unary;
use crate::ops::{Op, Types};
use crate::program::{Node, Program, Value, Values};
use crate::shape::TensorType;
use facts::Facts;
use slotmap::SecondaryMap;
use smallvec::smallvec;

/// How deep rules may cause one another before the rest is left to the next walk.
const MAX_DEPTH: usize = 16;

/// Walks, at most. Each ends with less to do; the bound only guards against rules that undo one another.
const MAX_WALKS: usize = 8;

/// The value that stands for an op's result, if a rule applies.
type Rewrite = Result<Option<Value>, TypeError>;

/// The values that stand for the results of an op that may have several.
type Rewrites = Result<Option<Values>, TypeError>;

/// The program simplified, without evaluating anything.
pub fn simplify(program: &Program) -> Program {
    bottom_up(program, &mut |program| walk_until_done(program, None))
}

/// The program simplified and ops on small constants evaluated.
pub fn simplify_with(program: &Program, evaluator: &dyn Evaluate) -> Program {
    bottom_up(program, &mut |program| walk_until_done(program, Some(evaluator)))
}

fn walk_until_done(program: &Program, evaluator: Option<&dyn Evaluate>) -> Program {
    let mut simplified = program.clone();
    for _ in 0..MAX_WALKS {
        let builder = Builder::new(program.name());
        let mut walk =
            Simplifier { builder, evaluator, facts: SecondaryMap::new(), depth: 0, is_unfinished: false };
        let Ok(outputs) = rebuild(&simplified, &mut walk) else { return simplified };
        let is_unfinished = walk.is_unfinished;
        simplified = dce(&walk.builder.finish(&outputs));
        if !is_unfinished {
            break;
        }
    }
    simplified
}

/// The new program under construction, and what is known of its values.
struct Simplifier<'a> {
    builder: Builder,
    evaluator: Option<&'a dyn Evaluate>,
    facts: SecondaryMap<Value, Facts>,
    depth: usize,
    is_unfinished: bool,
}

impl Rebuild for Simplifier<'_> {
    fn builder(&mut self) -> &mut Builder {
        &mut self.builder
    }

    fn emit(&mut self, op: Op, operands: &[Value]) -> Result<Values, TypeError> {
        if self.depth >= MAX_DEPTH {
            self.is_unfinished = true;
            return self.append(op, operands);
        }
        self.depth += 1;
        let rewritten = self.rewrite(&op, operands);
        self.depth -= 1;
        match rewritten? {
            Some(values) => Ok(values),
            None => self.append(op, operands),
        }
    }
}

impl Simplifier<'_> {
    fn append(&mut self, op: Op, operands: &[Value]) -> Result<Values, TypeError> {
        let results = self.builder.emit(op, operands)?;
        self.learn_all(&results);
        Ok(results)
    }

    fn learn_all(&mut self, values: &[Value]) {
        for &value in values {
            if !self.facts.contains_key(value) {
                let facts = self.learn(value);
                self.facts.insert(value, facts);
            }
        }
    }

    fn rewrite(&mut self, op: &Op, operands: &[Value]) -> Rewrites {
        if let Some(evaluator) = self.evaluator
            && let Some(values) = folded(&mut self.builder, evaluator, op, operands)?
        {
            self.learn_all(&values);
            return Ok(Some(values));
        }
        match op {
            Op::Loop(op) => return self.looping(op, operands),
            Op::Branch(op) => return self.branching(op, operands),
            _ => {}
        }
        let by_rule = self.by_rule(op, operands)?;
        let value = match by_rule {
            None if op.is_elementwise() => self.sink(op, operands)?,
            by_rule => by_rule,
        };
        Ok(value.map(|value| smallvec![value]))
    }

    fn by_rule(&mut self, op: &Op, operands: &[Value]) -> Rewrite {
        match op {
            Op::Unary(function) => self.unary(*function, operands[0]),
            Op::Binary(function) => self.binary(*function, operands[0], operands[1]),
            Op::Compare(how) => self.comparison(*how, operands[0], operands[1]),
            Op::Select(_) => self.selection(operands[0], operands[1], operands[2]),
            Op::Convert(convert) => self.conversion(convert.dtype, operands[0]),
            Op::Bitcast(bitcast) => Ok((self.ty(operands[0]).dtype == bitcast.dtype).then_some(operands[0])),
            Op::ScaleBy(_) => self.scaling(operands[0], operands[1]),
            Op::IntegerPow(power) => self.power(power.exponent, operands[0]),
            Op::Reshape(reshape) => self.reshaping(&reshape.shape, operands[0]),
            Op::Transpose(transpose) => self.transposition(&transpose.permutation, operands[0]),
            Op::Broadcast(broadcast) => self.repetition(broadcast, operands[0]),
            Op::Slice(slice) => self.slicing(slice, operands[0]),
            Op::Pad(pad) => self.padding(pad, operands[0], operands[1]),
            Op::Concat(_) => self.concatenation(operands),
            Op::Reverse(reverse) => self.reversal(&reverse.dims, operands[0]),
            Op::Reduce(reduce) => self.reduction(reduce, operands[0]),
            Op::Constant(_)
            | Op::Iota(_)
            | Op::ArgReduce(_)
            | Op::Dot(_)
            | Op::Gather(_)
            | Op::DynamicSlice(_)
            | Op::DynamicUpdateSlice(_)
            | Op::Scatter(_)
            | Op::Call(_)
            | Op::Loop(_)
            | Op::Branch(_)
            | Op::CustomJvp(_)
            | Op::CustomVjp(_)
            | Op::CustomLinear(_)
            | Op::CustomCall(_)
            | Op::Barrier(_)
            | Op::Offer(_) => Ok(None),
        }
    }

    /// Appends what a rule asks for, simplified in turn.
    fn rewritten(&mut self, op: impl Into<Op>, operands: &[Value]) -> Rewrite {
        Ok(Some(self.one(op, operands)?))
    }

    fn one(&mut self, op: impl Into<Op>, operands: &[Value]) -> Result<Value, TypeError> {
        Ok(self.emit(op.into(), operands)?[0])
    }

    fn ty(&self, value: Value) -> &TensorType {
        self.builder.ty(value)
    }

    fn producer(&self, value: Value) -> Option<&Node> {
        self.builder.program().producer(value)
    }

    fn constant(&self, value: Value) -> Option<&Literal> {
        self.builder.program().constant(value)
    }

    /// The bits of every element, if the value is a constant that repeats one.
    fn splat(&self, value: Value) -> Option<u64> {
        self.constant(value)?.splat_value()
    }

    /// Whether every element is this number, to the bit.
    fn is_number(&self, value: Value, number: f64) -> bool {
        let ty = TensorType::scalar(self.ty(value).dtype);
        self.splat(value).is_some_and(|bits| Literal::number(ty, number).splat_value() == Some(bits))
    }

    /// A constant with every element equal to a number.
    fn number(&mut self, ty: TensorType, number: f64) -> Rewrite {
        self.constant_value(Literal::number(ty, number)).map(Some)
    }

    fn constant_value(&mut self, value: Literal) -> Result<Value, TypeError> {
        self.one(crate::ops::leaf::constant::Constant { value }, &[])
    }

    /// The operand of a unary function.
    fn argument(&self, function: Unary, value: Value) -> Option<Value> {
        let node = self.producer(value)?;
        (node.op == Op::Unary(function)).then(|| node.operands[0])
    }

    /// Types an op gives on values of the new program.
    fn infer(&self, op: &Op, operands: &[Value]) -> Option<Types> {
        let types: Vec<&TensorType> = operands.iter().map(|&v| self.ty(v)).collect();
        op.infer(&types).ok()
    }
}

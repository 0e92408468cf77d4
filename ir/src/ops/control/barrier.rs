//! Identity that no pass looks through: what is computed on its far side is not merged with or moved to the near
//! side. Rematerialisation depends on it.

use crate::batch::{Batched, BatchedValues, Batcher};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Problem;
use crate::ops::{AttrError, AttrReader, Equation, Primitive, Types};
use crate::program::Value;
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, Linearizer, RuleError};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::TensorType;

/// As many results as operands, each equal to its operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Barrier;

impl Primitive for Barrier {
    fn names() -> Vec<&'static str> {
        vec!["barrier"]
    }

    fn parse(_name: &str, _attrs: &mut AttrReader) -> Result<Barrier, AttrError> {
        Ok(Barrier)
    }

    fn samples() -> Vec<Sample> {
        let float = SampleOperand::new(TensorType::new(DType::F64, [2, 3]), Domain::Uniform(-2.0, 2.0));
        let int = SampleOperand::new(TensorType::new(DType::I32, [4]), Domain::Any);
        let scalar = SampleOperand::new(TensorType::scalar(DType::F32), Domain::Uniform(-2.0, 2.0));
        vec![
            Sample::new(Barrier, vec![float.clone()]),
            Sample::new(Barrier, vec![float, int, scalar]),
            Sample::new(Barrier, vec![]),
        ]
    }

    fn name(&self) -> &'static str {
        "barrier"
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        Ok(operands.iter().map(|&t| t.clone()).collect())
    }

    fn linearize(
        &self,
        lin: &mut Linearizer<'_>,
        _equation: Equation<'_>,
        tangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        pass_through(lin.linear, tangents)
    }

    fn transpose(
        &self,
        b: &mut Builder,
        _args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        pass_through(b, cotangents)
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        let operands: Vec<Value> = args.iter().map(|arg| arg.value).collect();
        let results = batcher.builder.emit(Barrier, &operands)?;
        Ok(results.into_iter().zip(args).map(|(value, arg)| Batched { value, axis: arg.axis }).collect())
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Barrier
    }

    fn is_shareable(&self) -> bool {
        false
    }

    fn takes_stacks(&self) -> bool {
        true
    }
}

/// A barrier over those values that are not symbolic zeros.
fn pass_through(b: &mut Builder, values: &[Option<Value>]) -> Result<Cotangents, RuleError> {
    let present: Vec<Value> = values.iter().copied().flatten().collect();
    let mut results = b.emit(Barrier, &present)?.into_iter();
    Ok(values.iter().map(|v| v.and_then(|_| results.next())).collect())
}

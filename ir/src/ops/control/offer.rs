//! Identity that gives a value a name, by which a checkpoint can be told to keep it. Names are what a composition
//! could not carry: no other op holds one.

use crate::batch::{Batched, BatchedValues, Batcher};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Problem;
use crate::ops::{Attr, AttrError, AttrReader, Equation, Primitive, Types, arity, one};
use crate::program::Value;
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, Linearizer, RuleError};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::TensorType;

/// The operand itself, offered under a name to [`Keep::Offered`](super::call::Keep::Offered).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Offer {
    /// The name.
    pub name: String,
}

impl Primitive for Offer {
    fn names() -> Vec<&'static str> {
        vec!["offer"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Offer, AttrError> {
        Ok(Offer { name: attrs.text("name")? })
    }

    fn samples() -> Vec<Sample> {
        let op = Offer { name: "hidden".into() };
        let float = SampleOperand::new(TensorType::new(DType::F64, [2, 3]), Domain::Uniform(-2.0, 2.0));
        let int = SampleOperand::new(TensorType::new(DType::I32, [4]), Domain::Any);
        vec![Sample::new(op.clone(), vec![float]), Sample::new(op, vec![int])]
    }

    fn name(&self) -> &'static str {
        "offer"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        vec![("name", Attr::Text(self.name.clone()))]
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 1)?;
        one(operands[0].clone())
    }

    /// The name is the value's; its tangent goes without.
    fn linearize(
        &self,
        _lin: &mut Linearizer<'_>,
        _equation: Equation<'_>,
        tangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        Ok(tangents.into())
    }

    fn transpose(
        &self,
        _b: &mut Builder,
        _args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        Ok(cotangents.into())
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        let value = batcher.builder.one(self.clone(), &[args[0].value])?;
        Ok(BatchedValues::from_iter([Batched { value, ..args[0] }]))
    }

    /// The same elements under the same shape.
    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Reshape
    }

    fn offered(&self) -> Option<&str> {
        Some(&self.name)
    }
}

//! A constant tensor: every program needs numbers of its own.

use crate::batch::{Batched, BatchedValues, Batcher};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Problem;
use crate::literal::Literal;
use crate::ops::{Attr, AttrError, AttrReader, Equation, Primitive, Types, arity, one};
use crate::program::Value;
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, Linearizer, RuleError};
use crate::sample::Sample;
use crate::shape::TensorType;

/// A dense constant or one number repeated.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Constant {
    /// The constant.
    pub value: Literal,
}

impl Primitive for Constant {
    fn names() -> Vec<&'static str> {
        vec!["constant"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Constant, AttrError> {
        Ok(Constant { value: attrs.literal("value")? })
    }

    fn samples() -> Vec<Sample> {
        let dense = Literal::dense(&[1.5f64, -0.0, f64::INFINITY, f64::NAN, 5e-324, 0.1], [2, 3]);
        let ints = Literal::dense(&[i64::MIN, -1, 0, i64::MAX], [4]);
        let numbers = DType::ALL.map(|d| Literal::number(TensorType::new(d, [2, 0, 3]), 1.0));
        let scalars = DType::ALL.map(|d| Literal::number(TensorType::scalar(d), 1.0));
        dense
            .into_iter()
            .chain(ints)
            .chain(numbers)
            .chain(scalars)
            .map(|value| Sample::new(Constant { value }, vec![]))
            .collect()
    }

    fn name(&self) -> &'static str {
        "constant"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        vec![("value", Attr::Literal(self.value.clone()))]
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 0)?;
        one(self.value.ty().clone())
    }

    fn linearize(
        &self,
        _linearizer: &mut Linearizer<'_>,
        _equation: Equation<'_>,
        _tangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        Ok(Cotangents::from_elem(None, 1))
    }

    fn transpose(&self, _: &mut Builder, _: &[Arg], _: &[Option<Value>]) -> Result<Cotangents, RuleError> {
        Ok(Cotangents::new())
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        batcher.unbatched(self.clone(), args)
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Constant(self.value.clone())
    }
}

//! Elementwise choice: both operands are computed, one is taken.

use super::same_type;
use crate::batch::{Batched, BatchedValues, Batcher};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Problem;
use crate::ops::{AttrError, AttrReader, Primitive, Types, arity, one};
use crate::program::Value;
use crate::recipe::{Recipe, ScalarOp};
use crate::rules::{Arg, Cotangents, RuleError, not_linear};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::TensorType;
use smallvec::smallvec;

/// `select(condition, x, y)`: `x` where the bool `condition` holds, else `y`. All three have one shape.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Select;

impl Primitive for Select {
    fn names() -> Vec<&'static str> {
        vec!["select"]
    }

    fn parse(_name: &str, _attrs: &mut AttrReader) -> Result<Select, AttrError> {
        Ok(Select)
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for dtype in DType::ALL {
            let domain = if dtype.is_float() { Domain::Uniform(-2.0, 2.0) } else { Domain::Any };
            for shape in [&[2, 3][..], &[], &[0], &[37]] {
                let ty = TensorType::new(dtype, shape);
                let condition = SampleOperand::new(ty.with_dtype(DType::Bool), Domain::Any);
                let operand = SampleOperand::new(ty, domain);
                samples.push(Sample::new(Select, vec![condition, operand.clone(), operand]));
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        "select"
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 3)?;
        if operands[0].dtype != DType::Bool {
            return Err(Problem::DType { operand: 0, found: operands[0].dtype, expected: "bool" });
        }
        same_type(operands[1], operands[2])?;
        same_type(operands[0], &operands[1].with_dtype(DType::Bool))?;
        one(operands[1].clone())
    }

    fn transpose(
        &self,
        b: &mut Builder,
        args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let Some(condition) = args[0].known else { return Err(not_linear(self.name(), args)) };
        let Some(ct) = cotangents[0] else { return Ok(smallvec![None, None, None]) };
        let zero = b.number_like(ct, 0.0)?;
        let x = if args[1].is_linear() { Some(b.select(condition, ct, zero)?) } else { None };
        let y = if args[2].is_linear() { Some(b.select(condition, zero, ct)?) } else { None };
        Ok(smallvec![None, x, y])
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        batcher.elementwise(*self, args)
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Scalar(ScalarOp::Select)
    }
}

//! Conversion to another element type by value.
//!
//! To float: rounded to nearest even. Float to integer: towards zero, saturating, NaN to 0 (Rust's `as`). Between
//! integers: truncated or extended. To bool: whether the number is not zero (NaN is not). From bool: 0 or 1.

use crate::batch::{Batched, BatchedValues, Batcher};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Problem;
use crate::ops::{Attr, AttrError, AttrReader, Equation, Primitive, Types, arity, one};
use crate::program::Value;
use crate::recipe::{Recipe, ScalarOp};
use crate::rules::{Arg, Cotangents, Linearizer, RuleError, not_linear};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::TensorType;
use smallvec::smallvec;

/// Conversion to `dtype`. Linear between float types; elsewhere its slope is 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Convert {
    /// Element type of the result.
    pub dtype: DType,
}

impl Primitive for Convert {
    fn names() -> Vec<&'static str> {
        vec!["convert"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Convert, AttrError> {
        Ok(Convert { dtype: attrs.dtype("dtype")? })
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for from in DType::ALL {
            let domain = if from.is_float() { Domain::Uniform(-2.0, 2.0) } else { Domain::Any };
            for dtype in DType::ALL {
                for shape in [&[2, 3][..], &[], &[0], &[37]] {
                    let operand = SampleOperand::new(TensorType::new(from, shape), domain);
                    // Through f32 a difference quotient keeps only seven digits.
                    let tolerance = if dtype == DType::F32 || from == DType::F32 { 1e-2 } else { 1e-7 };
                    let sample = Sample { tolerance, ..Sample::new(Convert { dtype }, vec![operand]) };
                    samples.push(sample);
                }
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        "convert"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        vec![("dtype", Attr::Word(self.dtype.name().to_string()))]
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 1)?;
        one(operands[0].with_dtype(self.dtype))
    }

    fn linearize(
        &self,
        lin: &mut Linearizer<'_>,
        _equation: Equation<'_>,
        tangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        match tangents[0] {
            Some(dx) if self.dtype.is_float() => Ok(smallvec![Some(lin.linear.convert(dx, self.dtype)?)]),
            _ => Ok(smallvec![None]),
        }
    }

    fn transpose(
        &self,
        b: &mut Builder,
        args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        match cotangents[0] {
            Some(ct) if args[0].ty.dtype.is_float() => Ok(smallvec![Some(b.convert(ct, args[0].ty.dtype)?)]),
            Some(_) => Err(not_linear(self.name(), args)),
            None => Ok(smallvec![None]),
        }
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        batcher.elementwise(*self, args)
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Scalar(ScalarOp::Convert(self.dtype))
    }
}

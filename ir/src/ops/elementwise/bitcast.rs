//! Conversion to another element type by bits: what random bits and tests of floats are built from.
//!
//! Which NaN an operation produces is unspecified, so a NaN's bits are not observable: cast to an integer, every
//! NaN gives the canonical quiet one (sign 0, only the top bit of the significand set).

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

/// The bits of each element as an element of `dtype`, which has the same size. Between equal types this is the
/// identity; between floats and integers there is no derivative.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bitcast {
    /// Element type of the result.
    pub dtype: DType,
}

impl Primitive for Bitcast {
    fn names() -> Vec<&'static str> {
        vec!["bitcast"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Bitcast, AttrError> {
        Ok(Bitcast { dtype: attrs.dtype("dtype")? })
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for from in DType::ALL {
            for dtype in DType::ALL.into_iter().filter(|d| d.size() == from.size()) {
                let domain = if from.is_float() { Domain::Uniform(-2.0, 2.0) } else { Domain::Any };
                for shape in [&[2, 3][..], &[], &[0]] {
                    let operand = SampleOperand::new(TensorType::new(from, shape), domain);
                    samples.push(Sample::new(Bitcast { dtype }, vec![operand]));
                }
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        "bitcast"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        vec![("dtype", Attr::Word(self.dtype.name().to_string()))]
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 1)?;
        let from = operands[0].dtype;
        if from.size() != self.dtype.size() {
            let text = format!(
                "{from} has {} bytes and {} has {}; cast between types of one size, or convert by value",
                from.size(),
                self.dtype,
                self.dtype.size()
            );
            return Err(Problem::Constraint(text));
        }
        one(operands[0].with_dtype(self.dtype))
    }

    fn linearize(
        &self,
        _: &mut Linearizer<'_>,
        _: Equation<'_>,
        tangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        // Of equal size are only equal float types.
        Ok(smallvec![tangents[0].filter(|_| self.dtype.is_float())])
    }

    fn transpose(&self, _: &mut Builder, args: &[Arg], _: &[Option<Value>]) -> Result<Cotangents, RuleError> {
        Err(not_linear(self.name(), args))
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        batcher.elementwise(*self, args)
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Scalar(ScalarOp::Bitcast(self.dtype))
    }
}

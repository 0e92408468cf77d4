//! Tangent times slope. A primitive because a product is wrong here: an exactly zero tangent contributes exactly
//! zero, even where the slope is infinite or NaN, so that masked branches have the right gradient.

use super::{Domain as On, same_type};
use crate::batch::{Batched, BatchedValues, Batcher};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Problem, TypeError};
use crate::maths::{Float, Lanes};
use crate::ops::elementwise::compare::Compare;
use crate::ops::{AttrError, AttrReader, Equation, Primitive, Types, arity, one};
use crate::program::Value;
use crate::recipe::{Recipe, ScalarOp};
use crate::rules::{Arg, Cotangents, Linearizer, RuleError, not_linear};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::TensorType;
use smallvec::smallvec;

/// `scale_by(t, slope)`: `t * slope`, except that a zero `t` meeting a slope that is not finite gives `t`. Where
/// the slope is finite it equals `mul` to the bit. Linear in `t`, and its own transpose.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ScaleBy;

impl ScaleBy {
    /// The function.
    #[inline(always)]
    pub fn float<T: Float, L: Lanes<T>>(l: &mut L, t: L::V, slope: L::V) -> L::V {
        let zero = l.int(0);
        let zero = l.from_bits(zero);
        let product = l.mul(t, slope);
        let is_zero = l.eq(t, zero);
        let is_number = l.eq(product, product);
        let is_nan = l.not(is_number);
        let singular = l.and(is_zero, is_nan);
        l.select(singular, t, product)
    }
}

/// The term of the slope's tangent `d`, which is zero where `t` is zero, too, however singular `d` is: what is
/// masked in a derivative is masked in the derivative of that.
fn by_slope(lin: &mut Linearizer<'_>, t: Value, d: Value) -> Result<Value, TypeError> {
    let zero = lin.primal.number_like(t, 0.0)?;
    let vanishes = lin.primal.compare(Compare::Eq, t, zero)?;
    let (vanishes, zero) = (lin.residual(vanishes)?, lin.residual(zero)?);
    let d = lin.linear.select(vanishes, zero, d)?;
    lin.scale(d, t)
}

impl Primitive for ScaleBy {
    fn names() -> Vec<&'static str> {
        vec!["scale_by"]
    }

    fn parse(_name: &str, _attrs: &mut AttrReader) -> Result<ScaleBy, AttrError> {
        Ok(ScaleBy)
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for dtype in [DType::F32, DType::F64] {
            for shape in [&[2, 3][..], &[], &[0], &[37]] {
                let operand = SampleOperand::new(TensorType::new(dtype, shape), Domain::Uniform(-2.0, 2.0));
                samples.push(Sample::new(ScaleBy, vec![operand.clone(), operand]));
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        "scale_by"
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 2)?;
        same_type(operands[0], operands[1])?;
        On::Floats.check(0, operands[0])?;
        one(operands[0].clone())
    }

    fn linearize(
        &self,
        lin: &mut Linearizer<'_>,
        equation: Equation<'_>,
        tangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let by_t = tangents[0].map(|d| lin.scale(d, equation.operands[1])).transpose()?;
        let by_slope = tangents[1].map(|d| by_slope(lin, equation.operands[0], d)).transpose()?;
        Ok(smallvec![lin.sum(by_t, by_slope)?])
    }

    fn transpose(
        &self,
        b: &mut Builder,
        args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        match (args[0].known, args[1].known, cotangents[0]) {
            (None, Some(slope), Some(ct)) => Ok(smallvec![Some(b.scale_by(ct, slope)?), None]),
            (None, Some(_), None) => Ok(smallvec![None, None]),
            _ => Err(not_linear(self.name(), args)),
        }
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        batcher.elementwise(*self, args)
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Scalar(ScalarOp::ScaleBy)
    }
}

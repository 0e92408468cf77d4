//! A constant integer power. A primitive because its slope must hold no logarithm and be right at 0, and because
//! repeated squaring is faster and more accurate than `pow`.

use super::Domain as On;
use crate::batch::{Batched, BatchedValues, Batcher};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Problem;
use crate::maths::{Float, Int, IntLanes, Lanes};
use crate::ops::{Attr, AttrError, AttrReader, Equation, Primitive, Types, arity, one};
use crate::program::Value;
use crate::recipe::{Recipe, ScalarOp};
use crate::rules::{Arg, Cotangents, Linearizer, RuleError, not_linear};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::TensorType;
use smallvec::smallvec;

/// `x` to the power `exponent` by repeated squaring from the low bit up; `x^0` is 1, for NaN too. A negative
/// exponent gives the reciprocal of the positive power; integers do not take one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IntegerPow {
    /// The exponent.
    pub exponent: i32,
}

impl IntegerPow {
    /// The function on floats.
    #[inline(always)]
    pub fn float<T: Float, L: Lanes<T>>(self, l: &mut L, x: L::V) -> L::V {
        let one = l.int((T::BIAS) << T::MANTISSA);
        let one = l.from_bits(one);
        let power = power(self.exponent.unsigned_abs(), x, |a, b| l.mul(a, b)).unwrap_or(one);
        if self.exponent < 0 { l.div(one, power) } else { power }
    }

    /// The function on integers; the exponent is not negative.
    #[inline(always)]
    pub fn int<T: Int, L: IntLanes<T>>(self, l: &mut L, x: L::V) -> L::V {
        let one = l.int(1);
        power(self.exponent.unsigned_abs(), x, |a, b| l.mul(a, b)).unwrap_or(one)
    }
}

/// `x^n` by repeated squaring; `None` for n = 0.
#[inline(always)]
fn power<V: Copy>(mut n: u32, x: V, mut mul: impl FnMut(V, V) -> V) -> Option<V> {
    let mut square = x;
    let mut product = None;
    while n > 0 {
        if n & 1 == 1 {
            product = Some(product.map_or(square, |p| mul(p, square)));
        }
        n >>= 1;
        if n > 0 {
            square = mul(square, square);
        }
    }
    product
}

impl Primitive for IntegerPow {
    fn names() -> Vec<&'static str> {
        vec!["integer_pow"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<IntegerPow, AttrError> {
        let exponent = i32::try_from(attrs.int("exponent")?)
            .map_err(|_| AttrError::new("attribute `exponent` must fit in 32 bits"))?;
        Ok(IntegerPow { exponent })
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for dtype in [DType::I32, DType::I64, DType::U32, DType::U64, DType::F32, DType::F64] {
            let exponents: &[i32] = if dtype.is_float() { &[0, 1, 2, 3, 7, -1, -3] } else { &[0, 1, 2, 5] };
            let domain = if dtype.is_float() { Domain::Uniform(0.5, 1.5) } else { Domain::Any };
            for &exponent in exponents {
                for shape in [&[2, 3][..], &[], &[0]] {
                    let operand = SampleOperand::new(TensorType::new(dtype, shape), domain);
                    samples.push(Sample::new(IntegerPow { exponent }, vec![operand]));
                }
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        "integer_pow"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        vec![("exponent", Attr::Int(self.exponent as i64))]
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 1)?;
        On::Numbers.check(0, operands[0])?;
        if operands[0].dtype.is_int() && self.exponent < 0 {
            let text =
                format!("an integer cannot have the exponent {}; convert it to a float first", self.exponent);
            return Err(Problem::Constraint(text));
        }
        one(operands[0].clone())
    }

    fn linearize(
        &self,
        lin: &mut Linearizer<'_>,
        equation: Equation<'_>,
        tangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let (Some(dx), true) = (tangents[0], self.exponent != 0) else { return Ok(smallvec![None]) };
        let x = equation.operands[0];
        let power = match self.exponent.checked_sub(1) {
            Some(exponent) => lin.primal.integer_pow(x, exponent)?,
            // The least exponent has none below it.
            None => {
                let power = lin.primal.integer_pow(x, self.exponent)?;
                lin.primal.div(power, x)?
            }
        };
        let slope = lin.primal.mul_number(power, self.exponent as f64)?;
        Ok(smallvec![Some(lin.scale(dx, slope)?)])
    }

    fn transpose(&self, _: &mut Builder, args: &[Arg], _: &[Option<Value>]) -> Result<Cotangents, RuleError> {
        Err(not_linear(self.name(), args))
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        batcher.elementwise(*self, args)
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Scalar(ScalarOp::IntegerPow(self.exponent))
    }
}

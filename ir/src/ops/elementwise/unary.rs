//! Elementwise functions of one operand, one row each.
//!
//! A row is a name, the element types it takes, an interval where it is smooth (for samples), its scalar
//! definition and its slope. Slopes are written so that they can be differentiated again. Outside a function's
//! domain, where its value is NaN, its slope is NaN too.

use super::Domain as On;
use crate::batch::{Batched, BatchedValues, Batcher};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Problem, TypeError};
use crate::maths::{Elementary, Int, IntLanes, Lanes};
use crate::ops::elementwise::compare::Compare;
use crate::ops::{AttrError, AttrReader, Equation, Primitive, Types, arity, one};
use crate::program::Value;
use crate::recipe::{Recipe, ScalarOp};
use crate::rules::{Arg, Cotangents, Linearizer, RuleError, not_linear};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::TensorType;
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LOG2_E};

/// A function of one operand. Elements keep their type, except that the tests give bool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Unary {
    /// `-x`; integers wrap.
    Neg,
    /// Absolute value; integers wrap. Slope 0 at 0.
    Abs,
    /// -1, 0 or 1; keeps zeros' signs, NaN stays NaN. Slope 0 everywhere.
    Sign,
    /// Next integer towards minus infinity. Slope 0.
    Floor,
    /// Next integer towards infinity. Slope 0.
    Ceil,
    /// Nearest integer, halves to even. Slope 0.
    Round,
    /// Square root. Slope infinite at 0.
    Sqrt,
    /// `1 / sqrt(x)`
    Rsqrt,
    /// Cube root, also of negative numbers.
    Cbrt,
    /// e to the x.
    Exp,
    /// 2 to the x.
    Exp2,
    /// `exp(x) - 1` without cancellation.
    Expm1,
    /// Natural logarithm.
    Log,
    /// Logarithm to base 2.
    Log2,
    /// `log(1 + x)` without cancellation.
    Log1p,
    /// Sine of radians.
    Sin,
    /// Cosine of radians.
    Cos,
    /// Tangent of radians.
    Tan,
    /// Inverse sine.
    Asin,
    /// Inverse cosine.
    Acos,
    /// Inverse tangent.
    Atan,
    /// Hyperbolic sine.
    Sinh,
    /// Hyperbolic cosine.
    Cosh,
    /// Hyperbolic tangent.
    Tanh,
    /// Inverse hyperbolic sine.
    Asinh,
    /// Inverse hyperbolic cosine.
    Acosh,
    /// Inverse hyperbolic tangent.
    Atanh,
    /// `1 / (1 + exp(-x))`
    Logistic,
    /// Error function.
    Erf,
    /// `1 - erf(x)` without cancellation.
    Erfc,
    /// Logical not of bool, bitwise not of integers.
    Not,
    /// Number of ones in an integer's bits.
    Popcount,
    /// Whether a float is neither infinite nor NaN; gives bool.
    IsFinite,
    /// Whether a float is NaN; gives bool.
    IsNan,
}

use Unary::*;

struct Row(Unary, &'static str, On, (f64, f64));

const ROWS: &[Row] = &[
    Row(Neg, "neg", On::Numbers, (-2.0, 2.0)),
    Row(Abs, "abs", On::Numbers, (0.1, 2.0)),
    Row(Sign, "sign", On::Numbers, (0.1, 2.0)),
    Row(Floor, "floor", On::Floats, (0.1, 0.9)),
    Row(Ceil, "ceil", On::Floats, (0.1, 0.9)),
    Row(Round, "round", On::Floats, (0.6, 1.4)),
    Row(Sqrt, "sqrt", On::Floats, (0.5, 3.0)),
    Row(Rsqrt, "rsqrt", On::Floats, (0.5, 3.0)),
    Row(Cbrt, "cbrt", On::Floats, (0.5, 3.0)),
    Row(Exp, "exp", On::Floats, (-2.0, 2.0)),
    Row(Exp2, "exp2", On::Floats, (-2.0, 2.0)),
    Row(Expm1, "expm1", On::Floats, (-2.0, 2.0)),
    Row(Log, "log", On::Floats, (0.5, 3.0)),
    Row(Log2, "log2", On::Floats, (0.5, 3.0)),
    Row(Log1p, "log1p", On::Floats, (-0.4, 2.0)),
    Row(Sin, "sin", On::Floats, (-3.0, 3.0)),
    Row(Cos, "cos", On::Floats, (-3.0, 3.0)),
    Row(Tan, "tan", On::Floats, (-1.0, 1.0)),
    Row(Asin, "asin", On::Floats, (-0.8, 0.8)),
    Row(Acos, "acos", On::Floats, (-0.8, 0.8)),
    Row(Atan, "atan", On::Floats, (-2.0, 2.0)),
    Row(Sinh, "sinh", On::Floats, (-2.0, 2.0)),
    Row(Cosh, "cosh", On::Floats, (-2.0, 2.0)),
    Row(Tanh, "tanh", On::Floats, (-2.0, 2.0)),
    Row(Asinh, "asinh", On::Floats, (-2.0, 2.0)),
    Row(Acosh, "acosh", On::Floats, (1.5, 3.0)),
    Row(Atanh, "atanh", On::Floats, (-0.8, 0.8)),
    Row(Logistic, "logistic", On::Floats, (-3.0, 3.0)),
    Row(Erf, "erf", On::Floats, (-2.0, 2.0)),
    Row(Erfc, "erfc", On::Floats, (-2.0, 2.0)),
    Row(Not, "not", On::Bits, (0.0, 0.0)),
    Row(Popcount, "popcount", On::Integers, (0.0, 0.0)),
    Row(IsFinite, "is_finite", On::Floats, (-2.0, 2.0)),
    Row(IsNan, "is_nan", On::Floats, (-2.0, 2.0)),
];

impl Unary {
    /// Every function, in declaration order.
    pub fn all() -> impl Iterator<Item = Unary> {
        ROWS.iter().map(|row| row.0)
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Whether the result is bool whatever the operand.
    pub fn is_test(self) -> bool {
        matches!(self, IsFinite | IsNan)
    }

    /// The function on floats; the identity for rows that floats do not have or whose result is bool.
    #[inline(always)]
    pub fn float<T: Elementary, L: Lanes<T>>(self, l: &mut L, x: L::V) -> L::V {
        match self {
            Neg => l.neg(x),
            Abs => l.abs(x),
            Sign => T::sign(l, x),
            Floor => l.floor(x),
            Ceil => l.ceil(x),
            Round => l.nearest(x),
            Sqrt => l.sqrt(x),
            Rsqrt => T::rsqrt(l, x),
            Cbrt => T::cbrt(l, x),
            Exp => T::exp(l, x),
            Exp2 => T::exp2(l, x),
            Expm1 => T::expm1(l, x),
            Log => T::log(l, x),
            Log2 => T::log2(l, x),
            Log1p => T::log1p(l, x),
            Sin => T::sin(l, x),
            Cos => T::cos(l, x),
            Tan => T::tan(l, x),
            Asin => T::asin(l, x),
            Acos => T::acos(l, x),
            Atan => T::atan(l, x),
            Sinh => T::sinh(l, x),
            Cosh => T::cosh(l, x),
            Tanh => T::tanh(l, x),
            Asinh => T::asinh(l, x),
            Acosh => T::acosh(l, x),
            Atanh => T::atanh(l, x),
            Logistic => T::logistic(l, x),
            Erf => T::erf(l, x),
            Erfc => T::erfc(l, x),
            Not | Popcount | IsFinite | IsNan => x,
        }
    }

    /// The tests on floats; false for rows that are none.
    #[inline(always)]
    pub fn test<T: Elementary, L: Lanes<T>>(self, l: &mut L, x: L::V) -> L::M {
        match self {
            IsFinite => {
                // x - x is 0 for finite numbers and NaN for the others.
                let difference = l.sub(x, x);
                l.eq(difference, difference)
            }
            IsNan => {
                let number = l.eq(x, x);
                l.not(number)
            }
            _ => l.lt(x, x),
        }
    }

    /// The function on integers; the identity for rows that integers do not have.
    #[inline(always)]
    pub fn int<T: Int, L: IntLanes<T>>(self, l: &mut L, x: L::V) -> L::V {
        let zero = l.int(0);
        match self {
            Neg => l.sub(zero, x),
            Abs => {
                let negative = l.lt(x, zero);
                let negated = l.sub(zero, x);
                l.select(negative, negated, x)
            }
            Sign => {
                let (one, minus_one) = (l.int(1), l.int(-1));
                let positive = l.lt(zero, x);
                let negative = l.lt(x, zero);
                let upper = l.select(positive, one, zero);
                l.select(negative, minus_one, upper)
            }
            Not => {
                let ones = l.int(-1);
                l.xor(x, ones)
            }
            Popcount => l.popcount(x),
            _ => x,
        }
    }

    /// The slope at `x`, where `y` is the result; `None` where it is 0 everywhere.
    fn slope(self, b: &mut Builder, x: Value, y: Value) -> Result<Option<Value>, TypeError> {
        let slope = match self {
            Neg => b.number_like(x, -1.0)?,
            Abs => b.unary(Sign, x)?,
            Sign | Floor | Ceil | Round | Not | Popcount | IsFinite | IsNan => return Ok(None),
            Sqrt => {
                let half = b.number_like(x, 0.5)?;
                b.div(half, y)?
            }
            Rsqrt => {
                let square = b.mul(y, y)?;
                let cube = b.mul(square, y)?;
                b.mul_number(cube, -0.5)?
            }
            Cbrt => {
                let square = b.mul(y, y)?;
                let third = b.number_like(x, 1.0 / 3.0)?;
                b.div(third, square)?
            }
            Exp => y,
            Exp2 => b.mul_number(y, LN_2)?,
            Expm1 => b.unary(Exp, x)?,
            Log => {
                let slope = b.unary_reciprocal(x)?;
                b.nan_below(x, 0.0, slope)?
            }
            Log2 => {
                let log2_e = b.number_like(x, LOG2_E)?;
                let slope = b.div(log2_e, x)?;
                b.nan_below(x, 0.0, slope)?
            }
            Log1p => {
                let shifted = b.add_number(x, 1.0)?;
                let slope = b.unary_reciprocal(shifted)?;
                b.nan_below(x, -1.0, slope)?
            }
            Sin => b.unary(Cos, x)?,
            Cos => {
                let sin = b.unary(Sin, x)?;
                b.neg(sin)?
            }
            Tan => {
                let square = b.mul(y, y)?;
                b.add_number(square, 1.0)?
            }
            Asin => b.reciprocal_root_of_one_minus_square(x)?,
            Acos => {
                let slope = b.reciprocal_root_of_one_minus_square(x)?;
                b.neg(slope)?
            }
            Atan => {
                let square = b.mul(x, x)?;
                let sum = b.add_number(square, 1.0)?;
                b.unary_reciprocal(sum)?
            }
            Sinh => b.unary(Cosh, x)?,
            Cosh => b.unary(Sinh, x)?,
            Tanh => {
                let square = b.mul(y, y)?;
                b.number_sub(1.0, square)?
            }
            Asinh => {
                let square = b.mul(x, x)?;
                let sum = b.add_number(square, 1.0)?;
                b.unary(Rsqrt, sum)?
            }
            Acosh => {
                // Two roots, not the root of the product: below -1 the slope is NaN as the value is.
                let (below, above) = (b.add_number(x, -1.0)?, b.add_number(x, 1.0)?);
                let (below, above) = (b.unary(Rsqrt, below)?, b.unary(Rsqrt, above)?);
                b.mul(below, above)?
            }
            Atanh => {
                let slope = b.one_minus_square(x)?;
                let slope = b.unary_reciprocal(slope)?;
                b.nan_below(slope, 0.0, slope)?
            }
            Logistic => {
                let rest = b.number_sub(1.0, y)?;
                b.mul(y, rest)?
            }
            Erf => b.gauss(x, FRAC_2_SQRT_PI)?,
            Erfc => b.gauss(x, -FRAC_2_SQRT_PI)?,
        };
        Ok(Some(slope))
    }
}

/// Parts of slopes.
impl Builder {
    fn unary_reciprocal(&mut self, x: Value) -> Result<Value, TypeError> {
        let one = self.number_like(x, 1.0)?;
        self.div(one, x)
    }

    /// `slope`, but NaN where `x` is below `bound`.
    fn nan_below(&mut self, x: Value, bound: f64, slope: Value) -> Result<Value, TypeError> {
        let bound = self.number_like(x, bound)?;
        let outside = self.compare(Compare::Lt, x, bound)?;
        let nan = self.number_like(x, f64::NAN)?;
        self.select(outside, nan, slope)
    }

    fn one_minus_square(&mut self, x: Value) -> Result<Value, TypeError> {
        let (low, high) = (self.number_sub(1.0, x)?, self.add_number(x, 1.0)?);
        self.mul(low, high)
    }

    fn reciprocal_root_of_one_minus_square(&mut self, x: Value) -> Result<Value, TypeError> {
        let product = self.one_minus_square(x)?;
        self.unary(Rsqrt, product)
    }

    /// `scale * exp(-x * x)`
    fn gauss(&mut self, x: Value, scale: f64) -> Result<Value, TypeError> {
        let square = self.mul(x, x)?;
        let negated = self.neg(square)?;
        let bell = self.unary(Exp, negated)?;
        self.mul_number(bell, scale)
    }
}

impl Primitive for Unary {
    fn names() -> Vec<&'static str> {
        ROWS.iter().map(|row| row.1).collect()
    }

    fn parse(name: &str, _attrs: &mut AttrReader) -> Result<Unary, AttrError> {
        let row = ROWS.iter().find(|row| row.1 == name);
        row.map(|row| row.0).ok_or_else(|| AttrError::new(format!("there is no unary op `{name}`")))
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for Row(function, _, on, (low, high)) in ROWS {
            let dtypes = DType::ALL.into_iter().filter(|&d| on.check(0, &TensorType::scalar(d)).is_ok());
            for dtype in dtypes {
                let domain = if dtype.is_float() { Domain::Uniform(*low, *high) } else { Domain::Any };
                for shape in [&[2, 3][..], &[], &[0], &[37]] {
                    let operand = SampleOperand::new(TensorType::new(dtype, shape), domain);
                    samples.push(Sample::new(*function, vec![operand]));
                }
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        self.row().1
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 1)?;
        self.row().2.check(0, operands[0])?;
        one(if self.is_test() { operands[0].with_dtype(DType::Bool) } else { operands[0].clone() })
    }

    fn linearize(
        &self,
        linearizer: &mut Linearizer<'_>,
        equation: Equation<'_>,
        tangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let Some(dx) = tangents[0] else { return Ok(Cotangents::from_elem(None, 1)) };
        if *self == Neg {
            return Ok(Cotangents::from_elem(Some(linearizer.linear.neg(dx)?), 1));
        }
        let slope = self.slope(linearizer.primal, equation.operands[0], equation.results[0])?;
        let dy = slope.map(|slope| linearizer.scale(dx, slope)).transpose()?;
        Ok(Cotangents::from_elem(dy, 1))
    }

    fn transpose(
        &self,
        builder: &mut Builder,
        args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        match (self, cotangents[0]) {
            (Neg, Some(ct)) => Ok(Cotangents::from_elem(Some(builder.neg(ct)?), 1)),
            _ => Err(not_linear(self.name(), args)),
        }
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        batcher.elementwise(*self, args)
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Scalar(ScalarOp::Unary(*self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_at_the_number_of_their_variant() {
        for (i, row) in ROWS.iter().enumerate() {
            assert_eq!(row.0 as usize, i, "{}", row.1);
        }
    }
}

//! Elementwise functions of two operands of one type, one row each.

use super::{Domain as On, same_type};
use crate::batch::{Batched, BatchedValues, Batcher};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Problem, TypeError};
use crate::maths::{Elementary, Int, IntLanes, Lanes};
use crate::ops::elementwise::compare::Compare;
use crate::ops::elementwise::unary::Unary;
use crate::ops::{AttrError, AttrReader, Equation, Primitive, Types, arity, one};
use crate::program::Value;
use crate::recipe::{Recipe, ScalarOp};
use crate::rules::{Arg, Cotangents, Linearizer, RuleError, not_linear};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::TensorType;
use smallvec::smallvec;

/// A function of two operands of one type; the result has that type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Binary {
    /// `x + y`; integers wrap.
    Add,
    /// `x - y`; integers wrap.
    Sub,
    /// `x * y`; integers wrap.
    Mul,
    /// `x / y`. Integers: towards zero, by zero gives all ones (-1), MIN / -1 gives MIN.
    Div,
    /// Remainder of `x / y` with the sign of `x`, exact. Integers: by zero gives `x`.
    Rem,
    /// `x` to the `y`.
    Pow,
    /// The larger; NaN if either is; 0.0 is larger than -0.0. Ties share the slope evenly.
    Max,
    /// The smaller; NaN if either is; -0.0 is smaller than 0.0. Ties share the slope evenly.
    Min,
    /// Angle of the point (y, x), in radians from -pi to pi: operand 0 is y.
    Atan2,
    /// `log(e^x + e^y)`, which overflows only where an operand is infinite: inf wins, -inf adds nothing, NaN if
    /// either is. The slopes are the softmax weights, halves where the operands are equal. A primitive because the
    /// composition is wrong at infinities. Where the result is near 0 its error is small absolutely, not relatively.
    LogAddExp,
    /// Logical or bitwise and.
    And,
    /// Logical or bitwise or.
    Or,
    /// Logical or bitwise exclusive or.
    Xor,
    /// `x` shifted left by `y` bits; by the width or more gives 0.
    Shl,
    /// `x` shifted right, filled with zeros; by the width or more gives 0.
    ShrLogical,
    /// `x` shifted right, filled with its top bit; by the width or more fills everything.
    ShrArithmetic,
}

use Binary::*;

struct Row(Binary, &'static str, On, [(f64, f64); 2]);

const ROWS: &[Row] = &[
    Row(Add, "add", On::Numbers, [(-2.0, 2.0), (-2.0, 2.0)]),
    Row(Sub, "sub", On::Numbers, [(-2.0, 2.0), (-2.0, 2.0)]),
    Row(Mul, "mul", On::Numbers, [(-2.0, 2.0), (-2.0, 2.0)]),
    Row(Div, "div", On::Numbers, [(-2.0, 2.0), (0.5, 2.0)]),
    Row(Rem, "rem", On::Numbers, [(2.1, 2.3), (0.8, 1.0)]),
    Row(Pow, "pow", On::Floats, [(0.5, 2.0), (-2.0, 2.0)]),
    Row(Max, "max", On::Numbers, [(-2.0, 0.4), (0.6, 2.0)]),
    Row(Min, "min", On::Numbers, [(-2.0, 0.4), (0.6, 2.0)]),
    Row(Atan2, "atan2", On::Floats, [(0.5, 2.0), (-2.0, 2.0)]),
    Row(LogAddExp, "logaddexp", On::Floats, [(-2.0, 2.0), (-2.0, 2.0)]),
    Row(And, "and", On::Bits, [(0.0, 0.0); 2]),
    Row(Or, "or", On::Bits, [(0.0, 0.0); 2]),
    Row(Xor, "xor", On::Bits, [(0.0, 0.0); 2]),
    Row(Shl, "shl", On::Integers, [(0.0, 0.0); 2]),
    Row(ShrLogical, "shr_logical", On::Integers, [(0.0, 0.0); 2]),
    Row(ShrArithmetic, "shr_arithmetic", On::Integers, [(0.0, 0.0); 2]),
];

impl Binary {
    /// Every function, in declaration order.
    pub fn all() -> impl Iterator<Item = Binary> {
        ROWS.iter().map(|row| row.0)
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The function on floats; `x` for rows that floats do not have.
    #[inline(always)]
    pub fn float<T: Elementary, L: Lanes<T>>(self, l: &mut L, x: L::V, y: L::V) -> L::V {
        match self {
            Add => l.add(x, y),
            Sub => l.sub(x, y),
            Mul => l.mul(x, y),
            Div => l.div(x, y),
            Rem => T::rem(l, x, y),
            Pow => T::pow(l, x, y),
            Max => l.max(x, y),
            Min => l.min(x, y),
            Atan2 => T::atan2(l, x, y),
            LogAddExp => log_add_exp(l, x, y),
            And | Or | Xor | Shl | ShrLogical | ShrArithmetic => x,
        }
    }

    /// The function on integers; `x` for rows that integers do not have.
    #[inline(always)]
    pub fn int<T: Int, L: IntLanes<T>>(self, l: &mut L, x: L::V, y: L::V) -> L::V {
        match self {
            Add => l.add(x, y),
            Sub => l.sub(x, y),
            Mul => l.mul(x, y),
            Div => guarded_division(l, x, y, true),
            Rem => guarded_division(l, x, y, false),
            Max => {
                let less = l.lt(x, y);
                l.select(less, y, x)
            }
            Min => {
                let less = l.lt(y, x);
                l.select(less, y, x)
            }
            And => l.and(x, y),
            Or => l.or(x, y),
            Xor => l.xor(x, y),
            Shl | ShrLogical | ShrArithmetic => guarded_shift(l, self, x, y),
            Pow | Atan2 | LogAddExp => x,
        }
    }
}

/// `max + log1p(e^-|x - y|)`; of equal operands the distance is 0, also where their difference is NaN.
#[inline(always)]
fn log_add_exp<T: Elementary, L: Lanes<T>>(l: &mut L, x: L::V, y: L::V) -> L::V {
    let (zero, equal) = (l.float(T::ZERO), l.eq(x, y));
    let difference = l.sub(x, y);
    let difference = l.select(equal, zero, difference);
    let distance = l.abs(difference);
    let negated = l.neg(distance);
    let ratio = T::exp(l, negated);
    let rest = T::log1p(l, ratio);
    let larger = l.max(x, y);
    l.add(larger, rest)
}

/// Quotient or remainder without traps: the divisor becomes 1 where it is 0, or -1 under the least value.
#[inline(always)]
fn guarded_division<T: Int, L: IntLanes<T>>(l: &mut L, x: L::V, y: L::V, quotient: bool) -> L::V {
    let (zero, one, ones) = (l.int(0), l.int(1), l.int(-1));
    let by_zero = l.eq(y, zero);
    let mut divisor = l.select(by_zero, one, y);
    if T::SIGNED {
        // x / 1 = MIN and x rem 1 = 0 are just what MIN / -1 and MIN rem -1 are defined to give.
        let least = l.int(1i64.wrapping_shl(T::WIDTH - 1));
        let (is_least, is_ones) = (l.eq(x, least), l.eq(y, ones));
        let overflow = l.both(is_least, is_ones);
        divisor = l.select(overflow, one, divisor);
    }
    if quotient {
        let result = l.div(x, divisor);
        l.select(by_zero, ones, result)
    } else {
        let result = l.rem(x, divisor);
        l.select(by_zero, x, result)
    }
}

/// Shift by an amount clamped to the width; amounts count as unsigned, so negative ones are too large.
#[inline(always)]
fn guarded_shift<T: Int, L: IntLanes<T>>(l: &mut L, shift: Binary, x: L::V, y: L::V) -> L::V {
    let (zero, last, width) = (l.int(0), l.int(T::WIDTH as i64 - 1), l.int(T::WIDTH as i64));
    let inside = l.lt_unsigned(y, width);
    let amount = l.select(inside, y, last);
    match shift {
        Shl => {
            let result = l.shl(x, amount);
            l.select(inside, result, zero)
        }
        ShrLogical => {
            let result = l.shr_logical(x, amount);
            l.select(inside, result, zero)
        }
        _ => l.shr_arithmetic(x, amount),
    }
}

/// Slopes of `x / y`: by x, and by y.
fn div_slopes(b: &mut Builder, y: Value, z: Value) -> Result<[Value; 2], TypeError> {
    let one = b.number_like(y, 1.0)?;
    let by_x = b.div(one, y)?;
    let ratio = b.div(z, y)?;
    Ok([by_x, b.neg(ratio)?])
}

/// Slope of `x^y` by x: `y * x^(y-1)`. Only at (0, 0) does that need help; a wider guard would hide how the
/// slope depends on y from second derivatives.
fn pow_slope_by_base(b: &mut Builder, x: Value, y: Value) -> Result<Value, TypeError> {
    let exponent = b.add_number(y, -1.0)?;
    let power = b.one(Pow, &[x, exponent])?;
    let slope = b.mul(y, power)?;
    let zero = b.number_like(x, 0.0)?;
    let (x_zero, y_zero) = (b.compare(Compare::Eq, x, zero)?, b.compare(Compare::Eq, y, zero)?);
    let origin = b.one(And, &[x_zero, y_zero])?;
    b.select(origin, zero, slope)
}

/// Slope of `x^y` by y: `x^y * log x`, whose limit at x = 0 is 0 for positive y.
fn pow_slope_by_exponent(b: &mut Builder, x: Value, y: Value, z: Value) -> Result<Value, TypeError> {
    let log = b.unary(Unary::Log, x)?;
    let slope = b.mul(z, log)?;
    let zero = b.number_like(x, 0.0)?;
    let (x_zero, y_positive) = (b.compare(Compare::Eq, x, zero)?, b.compare(Compare::Gt, y, zero)?);
    let limit = b.one(And, &[x_zero, y_positive])?;
    b.select(limit, zero, slope)
}

/// Slopes of `atan2(y, x)`: `x / (x^2 + y^2)` and `-y / (x^2 + y^2)`, right wherever they are numbers of the type.
fn atan2_slopes(b: &mut Builder, y: Value, x: Value) -> Result<[Value; 2], TypeError> {
    let scale = atan2_scale(b, y, x)?;
    let (x, y) = (b.mul(x, scale)?, b.mul(y, scale)?);
    let (xx, yy) = (b.mul(x, x)?, b.mul(y, y)?);
    let square = b.add(xx, yy)?;
    let (by_y, by_x) = (b.div(x, square)?, b.div(y, square)?);
    let (by_y, by_x) = (b.mul(by_y, scale)?, b.mul(by_x, scale)?);
    Ok([by_y, b.neg(by_x)?])
}

/// A power of two by which both operands can be multiplied so that the sum of their squares neither overflows nor
/// loses the larger one: 1 but for extreme operands. It has no slope, and the slopes of `atan2` do not depend on it.
fn atan2_scale(b: &mut Builder, y: Value, x: Value) -> Result<Value, TypeError> {
    let (bound, scale) = match b.ty(x).dtype {
        DType::F32 => (60, 90),
        _ => (500, 600),
    };
    let power = |k: i32| 2f64.powi(k);
    let (xs, ys) = (b.unary(Unary::Abs, x)?, b.unary(Unary::Abs, y)?);
    let larger = b.one(Max, &[xs, ys])?;
    let (high, low) = (b.number_like(x, power(bound))?, b.number_like(x, power(-bound))?);
    let (is_huge, is_tiny) = (b.compare(Compare::Gt, larger, high)?, b.compare(Compare::Lt, larger, low)?);
    let [one, down, up] = [1.0, power(-scale), power(scale)].map(|number| b.number_like(x, number));
    let scale = b.select(is_tiny, up?, one?)?;
    b.select(is_huge, down?, scale)
}

/// Slope of `log(e^x + e^y)` by x: the weight `e^x / (e^x + e^y)`. Only at equal infinities, where the difference is
/// NaN, does that need help; a wider guard would hide how the slope depends on x from second derivatives.
fn log_add_exp_slope(b: &mut Builder, x: Value, y: Value) -> Result<Value, TypeError> {
    let difference = b.sub(x, y)?;
    let (equal, undefined) = (b.compare(Compare::Eq, x, y)?, b.unary(Unary::IsNan, difference)?);
    let infinities = b.one(And, &[equal, undefined])?;
    let zero = b.number_like(x, 0.0)?;
    let difference = b.select(infinities, zero, difference)?;
    b.unary(Unary::Logistic, difference)
}

impl Binary {
    /// The tangent of max or min: that of the operand chosen, the mean of both at a tie.
    fn linearize_choice(
        self,
        lin: &mut Linearizer<'_>,
        equation: Equation<'_>,
        tangents: &[Option<Value>],
    ) -> Result<Option<Value>, RuleError> {
        let (x, y) = (equation.operands[0], equation.operands[1]);
        let (x_wins, y_wins) =
            if self == Max { (Compare::Gt, Compare::Lt) } else { (Compare::Lt, Compare::Gt) };
        let x_wins = lin.primal.compare(x_wins, x, y)?;
        let y_wins = lin.primal.compare(y_wins, x, y)?;
        let (x_wins, y_wins) = (lin.residual(x_wins)?, lin.residual(y_wins)?);
        let ty = lin.primal.ty(x).clone();
        let zero = lin.linear.number(&ty, 0.0)?;
        let half = match (tangents[0], tangents[1]) {
            (Some(dx), Some(dy)) => {
                let sum = lin.linear.add(dx, dy)?;
                lin.linear.mul_number(sum, 0.5)?
            }
            (Some(d), None) | (None, Some(d)) => lin.linear.mul_number(d, 0.5)?,
            (None, None) => return Ok(None),
        };
        let (dx, dy) = (tangents[0].unwrap_or(zero), tangents[1].unwrap_or(zero));
        let rest = lin.linear.select(y_wins, dy, half)?;
        Ok(Some(lin.linear.select(x_wins, dx, rest)?))
    }

    /// Slope by operand `i`, where there is one.
    fn slope(self, b: &mut Builder, equation: Equation<'_>, i: usize) -> Result<Option<Value>, TypeError> {
        let (x, y, z) = (equation.operands[0], equation.operands[1], equation.results[0]);
        Ok(match self {
            Mul => Some(if i == 0 { y } else { x }),
            Div => Some(div_slopes(b, y, z)?[i]),
            Rem if i == 0 => Some(b.number_like(x, 1.0)?),
            Rem => {
                // -trunc(x / y), found exactly as (z - x) / y.
                let difference = b.sub(z, x)?;
                let quotient = b.div(difference, y)?;
                Some(b.unary(Unary::Round, quotient)?)
            }
            Pow if i == 0 => Some(pow_slope_by_base(b, x, y)?),
            Pow => Some(pow_slope_by_exponent(b, x, y, z)?),
            Atan2 => Some(atan2_slopes(b, x, y)?[i]),
            LogAddExp if i == 0 => Some(log_add_exp_slope(b, x, y)?),
            LogAddExp => Some(log_add_exp_slope(b, y, x)?),
            Add | Sub | Max | Min | And | Or | Xor | Shl | ShrLogical | ShrArithmetic => None,
        })
    }
}

impl Primitive for Binary {
    fn names() -> Vec<&'static str> {
        ROWS.iter().map(|row| row.1).collect()
    }

    fn parse(name: &str, _attrs: &mut AttrReader) -> Result<Binary, AttrError> {
        let row = ROWS.iter().find(|row| row.1 == name);
        row.map(|row| row.0).ok_or_else(|| AttrError::new(format!("there is no binary op `{name}`")))
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for Row(function, _, on, intervals) in ROWS {
            let dtypes = DType::ALL.into_iter().filter(|&d| on.check(0, &TensorType::scalar(d)).is_ok());
            for dtype in dtypes {
                for shape in [&[2, 3][..], &[], &[0], &[37]] {
                    let operand = |i: usize| {
                        let (low, high) = intervals[i];
                        let domain = if dtype.is_float() { Domain::Uniform(low, high) } else { Domain::Any };
                        SampleOperand::new(TensorType::new(dtype, shape), domain)
                    };
                    samples.push(Sample::new(*function, vec![operand(0), operand(1)]));
                }
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        self.row().1
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 2)?;
        same_type(operands[0], operands[1])?;
        self.row().2.check(0, operands[0])?;
        one(operands[0].clone())
    }

    fn linearize(
        &self,
        lin: &mut Linearizer<'_>,
        equation: Equation<'_>,
        tangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let (dx, dy) = (tangents[0], tangents[1]);
        let dz = match self {
            Add => lin.sum(dx, dy)?,
            Sub => match (dx, dy) {
                (Some(dx), Some(dy)) => Some(lin.linear.sub(dx, dy)?),
                (dx, Some(dy)) => dx.or(Some(lin.linear.neg(dy)?)),
                (dx, None) => dx,
            },
            Max | Min => self.linearize_choice(lin, equation, tangents)?,
            Mul | Div | Rem | Pow | Atan2 | LogAddExp | And | Or | Xor | Shl | ShrLogical | ShrArithmetic => {
                let mut dz = None;
                for i in 0..2 {
                    let Some(tangent) = tangents[i] else { continue };
                    if let Some(slope) = self.slope(lin.primal, equation, i)? {
                        let term = lin.scale(tangent, slope)?;
                        dz = lin.sum(dz, Some(term))?;
                    }
                }
                dz
            }
        };
        Ok(smallvec![dz])
    }

    fn transpose(
        &self,
        b: &mut Builder,
        args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let Some(ct) = cotangents[0] else { return Ok(smallvec![None, None]) };
        match (self, args[0].known, args[1].known) {
            (Add, x, y) => Ok(smallvec![x.is_none().then_some(ct), y.is_none().then_some(ct)]),
            (Sub, x, y) => {
                let negated = if y.is_none() { Some(b.neg(ct)?) } else { None };
                Ok(smallvec![x.is_none().then_some(ct), negated])
            }
            (Mul, None, Some(y)) => Ok(smallvec![Some(b.mul(ct, y)?), None]),
            (Mul, Some(x), None) => Ok(smallvec![None, Some(b.mul(x, ct)?)]),
            (Div, None, Some(y)) => Ok(smallvec![Some(b.div(ct, y)?), None]),
            _ => Err(not_linear(self.name(), args)),
        }
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        batcher.elementwise(*self, args)
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Scalar(ScalarOp::Binary(*self))
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

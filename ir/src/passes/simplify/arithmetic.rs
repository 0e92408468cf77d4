//! Sums, products and their like.

use super::{Rewrite, Simplifier};
use crate::dtype::DType;
use crate::ops::elementwise::binary::Binary;
use crate::ops::elementwise::unary::Unary;
use crate::program::Value;

impl Simplifier<'_> {
    pub(super) fn binary(&mut self, function: Binary, x: Value, y: Value) -> Rewrite {
        match function {
            Binary::Add => self.sum(x, y),
            Binary::Sub => self.difference(x, y),
            Binary::Mul => self.product(x, y),
            Binary::Div => self.quotient(x, y),
            // max(x, x) = min(x, x) = x
            Binary::Max | Binary::Min => Ok((x == y).then_some(x)),
            Binary::And | Binary::Or | Binary::Xor => self.bits(function, x, y),
            // x << 0 = x >> 0 = x
            Binary::Shl | Binary::ShrLogical | Binary::ShrArithmetic => {
                Ok(self.is_number(y, 0.0).then_some(x))
            }
            Binary::Rem | Binary::Pow | Binary::Atan2 | Binary::LogAddExp => Ok(None),
        }
    }

    fn is_float(&self, x: Value) -> bool {
        self.ty(x).dtype.is_float()
    }

    /// Whether `y + zero = y` for every element: adding -0.0 changes nothing, adding 0.0 only turns -0.0 into 0.0.
    fn is_neutral(&self, zero: Value, y: Value) -> bool {
        match self.is_float(zero) {
            true => self.is_number(zero, -0.0) || (self.is_number(zero, 0.0) && self.never_negative_zero(y)),
            false => self.is_number(zero, 0.0),
        }
    }

    fn sum(&mut self, x: Value, y: Value) -> Rewrite {
        // x + 0 = 0 + x = x
        if self.is_neutral(y, x) {
            return Ok(Some(x));
        }
        if self.is_neutral(x, y) {
            return Ok(Some(y));
        }
        // x + (-y) = x - y, and (-x) + y = y - x: a difference is defined as that sum
        if let Some(y) = self.argument(Unary::Neg, y) {
            return self.rewritten(Binary::Sub, &[x, y]);
        }
        if let Some(x) = self.argument(Unary::Neg, x) {
            return self.rewritten(Binary::Sub, &[y, x]);
        }
        Ok(None)
    }

    fn difference(&mut self, x: Value, y: Value) -> Rewrite {
        let is_float = self.is_float(x);
        // x - 0 = x; x - (-0.0) = x + 0.0
        if self.is_number(y, 0.0) || (self.is_number(y, -0.0) && self.never_negative_zero(x)) {
            return Ok(Some(x));
        }
        // -0.0 - y = -y; for integers 0 - y = -y
        if self.is_number(x, -0.0) {
            return self.rewritten(Unary::Neg, &[y]);
        }
        // x - (-y) = x + y
        if let Some(y) = self.argument(Unary::Neg, y) {
            return self.rewritten(Binary::Add, &[x, y]);
        }
        // x - x = 0 for integers; for floats not where x is infinite or NaN
        if x == y && (!is_float || self.is_finite(x)) {
            return self.number(self.ty(x).clone(), 0.0);
        }
        Ok(None)
    }

    fn product(&mut self, x: Value, y: Value) -> Rewrite {
        for (x, factor) in [(x, y), (y, x)] {
            // x * 1 = x
            if self.is_number(factor, 1.0) {
                return Ok(Some(x));
            }
            // x * -1 = -x
            if self.ty(x).dtype.is_signed() && self.is_number(factor, -1.0) {
                return self.rewritten(Unary::Neg, &[x]);
            }
            // x * 0 = 0 for integers; for floats not where x is negative, infinite or NaN
            if !self.is_float(x) && self.is_number(factor, 0.0) {
                return Ok(Some(factor));
            }
        }
        // (-x) * (-y) = x * y
        if let (Some(x), Some(y)) = (self.argument(Unary::Neg, x), self.argument(Unary::Neg, y)) {
            return self.rewritten(Binary::Mul, &[x, y]);
        }
        Ok(None)
    }

    fn quotient(&mut self, x: Value, y: Value) -> Rewrite {
        // x / 1 = x
        if self.is_number(y, 1.0) {
            return Ok(Some(x));
        }
        // x / -1 = -x
        if self.ty(x).dtype.is_signed() && self.is_number(y, -1.0) {
            return self.rewritten(Unary::Neg, &[x]);
        }
        // x / 2^k = x * 2^-k: both round the same real number
        let ty = self.ty(y).clone();
        let divisor = self.constant(y).and_then(|literal| literal.splat_float());
        if let Some(reciprocal) = divisor.and_then(|divisor| exact_reciprocal(ty.dtype, divisor)) {
            let y = self.number(ty, reciprocal)?;
            return y.map_or(Ok(None), |y| self.rewritten(Binary::Mul, &[x, y]));
        }
        Ok(None)
    }

    pub(super) fn power(&mut self, exponent: i32, x: Value) -> Rewrite {
        match exponent {
            // x^0 = 1, for NaN too
            0 => self.number(self.ty(x).clone(), 1.0),
            // x^1 = x
            1 => Ok(Some(x)),
            _ => Ok(None),
        }
    }

    pub(super) fn scaling(&mut self, tangent: Value, slope: Value) -> Rewrite {
        // scale_by(t, s) = t * s where s is finite or t is not zero
        if self.is_finite(slope) || self.never_zero(tangent) {
            return self.rewritten(Binary::Mul, &[tangent, slope]);
        }
        Ok(None)
    }

    pub(super) fn unary(&mut self, function: Unary, x: Value) -> Rewrite {
        match function {
            // --x = x
            Unary::Neg => Ok(self.argument(Unary::Neg, x)),
            // |-x| = |x| for numbers with a sign, ||x|| = |x|
            Unary::Abs => match self.argument(Unary::Neg, x) {
                Some(x) if self.ty(x).dtype.is_signed() => self.rewritten(Unary::Abs, &[x]),
                Some(_) | None => Ok(self.argument(Unary::Abs, x).map(|_| x)),
            },
            // sign(sign(x)) = sign(x)
            Unary::Sign => Ok(self.argument(Unary::Sign, x).map(|_| x)),
            // Whole numbers round to themselves.
            Unary::Floor | Unary::Ceil | Unary::Round => {
                let is_whole = [Unary::Floor, Unary::Ceil, Unary::Round, Unary::Sign]
                    .iter()
                    .any(|&rounding| self.argument(rounding, x).is_some());
                Ok(is_whole.then_some(x))
            }
            Unary::Not => self.negation(x),
            // is_finite(x) = true and is_nan(x) = false where x is known to be finite
            Unary::IsFinite | Unary::IsNan if self.is_finite(x) => {
                let truth = if function == Unary::IsFinite { 1.0 } else { 0.0 };
                self.number(self.ty(x).with_dtype(DType::Bool), truth)
            }
            _ => Ok(None),
        }
    }
}

/// `1 / divisor` if the divisor is a power of two and its reciprocal a number of the type.
fn exact_reciprocal(dtype: DType, divisor: f64) -> Option<f64> {
    const MANTISSA: u64 = (1 << 52) - 1;
    let is_power = divisor.is_normal() && divisor.to_bits() & MANTISSA == 0;
    // That of a normal power of two is one in f64, if need be a subnormal one.
    let reciprocal = 1.0 / divisor;
    let is_number = dtype != DType::F32 || (reciprocal as f32) as f64 == reciprocal;
    (is_power && is_number).then_some(reciprocal)
}

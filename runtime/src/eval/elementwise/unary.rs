//! Functions of one operand.

use super::{by_kind, by_row, rows};
use crate::array::{ArrayError, Element};
use crate::lanes::{Elemental, Machine, Simple, elemental, simple};
use crate::view::{View, ViewMut};
use pullback_ir::maths::{Elementary, Int, IntLanes, Lanes, Plain};
use pullback_ir::ops::elementwise::unary::Unary;

rows! { Unary: Neg Abs Sign Floor Ceil Round Sqrt Rsqrt Cbrt Exp Exp2 Expm1 Log Log2 Log1p Sin Cos Tan Asin Acos Atan
Sinh Cosh Tanh Asinh Acosh Atanh Logistic Erf Erfc Not Popcount IsFinite IsNan }

/// A row on floats.
struct Float<F>(F);

impl<T, F: Row> Elemental<1, T> for Float<F>
where
    T: Elementary,
    Plain: Lanes<T, V = T>,
    Machine: Lanes<T, V = T>,
{
    #[inline(always)]
    fn exact(&self, [x]: [T; 1]) -> T {
        F::ROW.float::<T, Plain>(&mut Plain, x)
    }
    #[inline(always)]
    fn fast(&self, machine: &mut Machine, [x]: [T; 1]) -> T {
        F::ROW.float::<T, Machine>(machine, x)
    }
}

impl<T, F: Row> Simple<1, T, T> for Float<F>
where
    T: Elementary,
    Plain: Lanes<T, V = T>,
{
    #[inline(always)]
    fn call(&self, [x]: [T; 1]) -> T {
        F::ROW.float::<T, Plain>(&mut Plain, x)
    }
}

/// A test of floats.
struct Test<F>(F);

impl<T, F: Row> Simple<1, T, bool> for Test<F>
where
    T: Elementary,
    Plain: Lanes<T, V = T, M = bool>,
{
    #[inline(always)]
    fn call(&self, [x]: [T; 1]) -> bool {
        F::ROW.test::<T, Plain>(&mut Plain, x)
    }
}

/// A row on integers.
struct Integer<F>(F);

impl<T, F: Row> Simple<1, T, T> for Integer<F>
where
    T: Int,
    Plain: IntLanes<T, V = T>,
{
    #[inline(always)]
    fn call(&self, [x]: [T; 1]) -> T {
        F::ROW.int::<T, Plain>(&mut Plain, x)
    }
}

pub(in crate::eval) fn evaluate(op: Unary, x: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), ArrayError> {
    by_kind! { x.dtype(),
        float T => floats::<T>(op, x, out),
        int T => integers::<T>(op, x, out),
        bool => {
            // Not is the only row on bool.
            let (x, out) = (x.as_slice::<bool>()?, out.as_mut_slice::<bool>()?);
            out.iter_mut().zip(x).for_each(|(out, x)| *out = !x);
            Ok(())
        },
    }
}

fn floats<T: Element + Elementary>(op: Unary, x: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), ArrayError>
where
    Plain: Lanes<T, V = T, M = bool>,
    Machine: Lanes<T, V = T>,
{
    let x = [x.as_slice::<T>()?];
    by_row! { op, Unary: [IsFinite IsNan], F => simple(&Test(F), x, out.as_mut_slice::<bool>()?),
        [Neg Abs Sign Floor Ceil Round Sqrt Rsqrt Cbrt Exp Exp2 Expm1 Log Log2 Log1p Sin Cos Tan Asin Acos Atan
            Sinh Cosh Tanh Asinh Acosh Atanh Logistic Erf Erfc Not Popcount] =>
            float_to_float::<T>(op, x, out.as_mut_slice::<T>()?)
    }
    Ok(())
}

fn float_to_float<T: Element + Elementary>(op: Unary, x: [&[T]; 1], out: &mut [T])
where
    Plain: Lanes<T, V = T>,
    Machine: Lanes<T, V = T>,
{
    by_row! { op, Unary: [
        Cbrt Exp Exp2 Expm1 Log Log2 Log1p Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Logistic
        Erf Erfc
    ], F => elemental(&Float(F), x, out),
        [Neg Abs Sign Floor Ceil Round Sqrt Rsqrt Not Popcount IsFinite IsNan] =>
        by_row! { op, Unary: [Neg Abs Sign Floor Ceil Round Sqrt Rsqrt], F => simple(&Float(F), x, out),
            // The type rule refuses these on floats, or they have been dealt with.
            [Cbrt Exp Exp2 Expm1 Log Log2 Log1p Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Logistic
                Erf Erfc Not Popcount IsFinite IsNan] => out.copy_from_slice(x[0])
        }
    }
}

fn integers<T: Element + Int>(op: Unary, x: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), ArrayError>
where
    Plain: IntLanes<T, V = T>,
{
    let (x, out) = (x.as_slice::<T>()?, out.as_mut_slice::<T>()?);
    by_row! { op, Unary: [Neg Abs Sign Not Popcount], F => simple(&Integer(F), [x], out),
        // The type rule refuses these on integers.
        [Floor Ceil Round Sqrt Rsqrt Cbrt Exp Exp2 Expm1 Log Log2 Log1p Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh
            Asinh Acosh Atanh Logistic Erf Erfc IsFinite IsNan] => out.copy_from_slice(x)
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::eval::testing::{check, one, words};
    use crate::lanes::tests::check_levels;
    use pullback_ir::literal::Scalar;
    use pullback_ir::maths::Float as FloatType;

    /// Special values, then all magnitudes.
    fn arguments<T: FloatType>() -> Vec<T> {
        let special =
            [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, f64::INFINITY, -f64::INFINITY, f64::NAN, 5e-324];
        let more = [1e-40, 1e-310, 87.0, 89.0, -104.0, 709.0, 710.0, -746.0, 1e22, 3e38, 1e300, 1e5, -1e9];
        let number = |x: f64| {
            let f32_bits = (x as f32).to_bits64();
            T::from_bits64(if T::MANTISSA == 23 { f32_bits } else { x.to_bits64() })
        };
        let uniform = words(1500).into_iter().map(|w| number((w >> 11) as f64 / (1u64 << 50) as f64 - 4.0));
        let anything =
            words(1500).into_iter().map(|w| T::from_bits64(w >> if T::MANTISSA == 23 { 32 } else { 0 }));
        special.into_iter().chain(more).map(number).chain(uniform).chain(anything).collect()
    }

    macro_rules! check_rows {
        ($T:ty; $($row:ident)*) => {
            let x = arguments::<$T>();
            $({
                use row::$row as F;
                check_levels(stringify!($row), &Float(F), [&x[..]]);
                let found = one(Unary::$row, &[Array::vector(&x)]);
                let expected: Vec<$T> = x.iter().map(|&x| Elemental::exact(&Float(F), [x])).collect();
                check(found, Array::vector(&expected));
            })*
        };
    }

    #[test]
    fn all_levels_give_the_bits_of_plain_numbers_f32() {
        check_rows! { f32;
            Neg Abs Sign Floor Ceil Round Sqrt Rsqrt Cbrt Exp Exp2 Expm1 Log Log2 Log1p Sin Cos Tan Asin Acos Atan
            Sinh Cosh Tanh Asinh Acosh Atanh Logistic Erf Erfc
        }
    }

    #[test]
    fn all_levels_give_the_bits_of_plain_numbers_f64() {
        check_rows! { f64;
            Neg Abs Sign Floor Ceil Round Sqrt Rsqrt Cbrt Exp Exp2 Expm1 Log Log2 Log1p Sin Cos Tan Asin Acos Atan
            Sinh Cosh Tanh Asinh Acosh Atanh Logistic Erf Erfc
        }
    }

    #[test]
    fn floats() {
        let x = Array::from([-1.5f64, -0.0, 0.0, 2.5, f64::NAN, f64::NEG_INFINITY]);
        check(one(Unary::Neg, &[x.clone()]), [1.5, 0.0, -0.0, -2.5, f64::NAN, f64::INFINITY]);
        check(one(Unary::Abs, &[x.clone()]), [1.5, 0.0, 0.0, 2.5, f64::NAN, f64::INFINITY]);
        check(one(Unary::Sign, &[x.clone()]), [-1.0, -0.0, 0.0, 1.0, f64::NAN, -1.0]);
        check(one(Unary::Round, &[x.clone()]), [-2.0, -0.0, 0.0, 2.0, f64::NAN, f64::NEG_INFINITY]);
        check(one(Unary::Floor, &[x.clone()]), [-2.0, -0.0, 0.0, 2.0, f64::NAN, f64::NEG_INFINITY]);
        check(one(Unary::Ceil, &[x.clone()]), [-1.0, -0.0, 0.0, 3.0, f64::NAN, f64::NEG_INFINITY]);
        check(one(Unary::IsFinite, &[x.clone()]), [true, true, true, true, false, false]);
        check(one(Unary::IsNan, &[x]), [false, false, false, false, true, false]);
        check(one(Unary::Sqrt, &[Array::from([4.0f32, -0.0, -1.0])]), [2.0f32, -0.0, f32::NAN]);
        check(one(Unary::Exp, &[Array::from([[0.0f32; 0]; 3])]), [[0.0f32; 0]; 3]);
        check(one(Unary::Exp, &[Array::from(0.0f64)]), 1.0f64);
    }

    #[test]
    fn integers_and_bools() {
        let x = Array::from([i32::MIN, -7, 0, 5]);
        check(one(Unary::Neg, &[x.clone()]), [i32::MIN, 7, 0, -5]);
        check(one(Unary::Abs, &[x.clone()]), [i32::MIN, 7, 0, 5]);
        check(one(Unary::Sign, &[x.clone()]), [-1, -1, 0, 1]);
        check(one(Unary::Not, &[x.clone()]), [i32::MAX, 6, -1, -6]);
        check(one(Unary::Popcount, &[x]), [1, 30, 0, 2]);
        check(one(Unary::Abs, &[Array::from(u64::MAX)]), u64::MAX);
        check(one(Unary::Popcount, &[Array::from([u64::MAX, 1 << 63])]), [64u64, 1]);
        check(one(Unary::Not, &[Array::from([true, false])]), [false, true]);
    }
}

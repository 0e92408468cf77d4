//! Constant integer powers.

use super::by_kind;
use crate::array::{ArrayError, Element};
use crate::lanes::{Simple, simple};
use crate::view::{View, ViewMut};
use pullback_ir::maths::{Float, Int, IntLanes, Lanes, Plain};
use pullback_ir::ops::elementwise::integer_pow::IntegerPow;

/// Any exponent.
struct General(IntegerPow);

/// An exponent the loop is compiled for.
struct Fixed<const EXPONENT: i32>;

trait Exponent: Sync {
    fn pow(&self) -> IntegerPow;
}

impl Exponent for General {
    #[inline(always)]
    fn pow(&self) -> IntegerPow {
        self.0
    }
}

impl<const EXPONENT: i32> Exponent for Fixed<EXPONENT> {
    #[inline(always)]
    fn pow(&self) -> IntegerPow {
        IntegerPow { exponent: EXPONENT }
    }
}

struct Floats<E>(E);

impl<T: Float, E: Exponent> Simple<1, T, T> for Floats<E>
where
    Plain: Lanes<T, V = T>,
{
    #[inline(always)]
    fn call(&self, [x]: [T; 1]) -> T {
        self.0.pow().float::<T, Plain>(&mut Plain, x)
    }
}

struct Integers<E>(E);

impl<T: Int, E: Exponent> Simple<1, T, T> for Integers<E>
where
    Plain: IntLanes<T, V = T>,
{
    #[inline(always)]
    fn call(&self, [x]: [T; 1]) -> T {
        self.0.pow().int::<T, Plain>(&mut Plain, x)
    }
}

pub(in crate::eval) fn evaluate(
    op: IntegerPow,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), ArrayError> {
    by_kind! { x.dtype(),
        float T => floats::<T>(op, x, out),
        int T => {
            simple(&Integers(General(op)), [x.as_slice::<T>()?], out.as_mut_slice::<T>()?);
            Ok(())
        },
        // The type rule refuses bool, which would be its own power.
        bool => {
            out.copy_from(x);
            Ok(())
        },
    }
}

fn floats<T: Element + Float>(op: IntegerPow, x: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), ArrayError>
where
    Plain: Lanes<T, V = T>,
{
    let (x, out) = (x.as_slice::<T>()?, out.as_mut_slice::<T>()?);
    match op.exponent {
        -1 => simple(&Floats(Fixed::<-1>), [x], out),
        2 => simple(&Floats(Fixed::<2>), [x], out),
        3 => simple(&Floats(Fixed::<3>), [x], out),
        _ => simple(&Floats(General(op)), [x], out),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::eval::testing::{check, one};

    fn pow(exponent: i32, x: impl Into<Array>) -> Array {
        one(IntegerPow { exponent }, &[x.into()])
    }

    #[test]
    fn exponents() {
        let x = [2.0f64, -3.0, 0.0, f64::NAN];
        check(pow(0, x), [1.0f64; 4]);
        check(pow(1, x), x);
        check(pow(2, x), [4.0f64, 9.0, 0.0, f64::NAN]);
        check(pow(3, x), [8.0f64, -27.0, 0.0, f64::NAN]);
        check(pow(5, x), [32.0f64, -243.0, 0.0, f64::NAN]);
        check(pow(-1, x), [0.5f64, 1.0 / -3.0, f64::INFINITY, f64::NAN]);
        check(pow(-2, x), [0.25f64, 1.0 / 9.0, f64::INFINITY, f64::NAN]);
        check(pow(i32::MIN, [1.0f32, 2.0]), [1.0f32, 0.0]);
        check(pow(3, [3i32, -2, i32::MAX]), [27, -8, i32::MAX]);
        check(pow(0, [0u64]), [1u64]);
    }

    /// Exponents with a loop of their own give what the general one gives.
    #[test]
    fn compiled_exponents_agree_with_the_general_one() {
        for exponent in [-1, 2, 3] {
            for x in [0.1f64, -1.7, 1e200, 3e-320] {
                let expected = IntegerPow { exponent }.float::<f64, Plain>(&mut Plain, x);
                check(pow(exponent, x), expected);
            }
        }
    }
}

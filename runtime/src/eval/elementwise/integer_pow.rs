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

//! Functions of one operand.

use super::{by_kind, by_row};
use crate::array::{ArrayError, Element};
use crate::lanes::{Elemental, Machine, Simple, elemental, simple};
use crate::view::{View, ViewMut};
use pullback_ir::maths::{Elementary, Int, IntLanes, Lanes, Plain};
use pullback_ir::ops::elementwise::unary::Unary;

trait Row: Sync {
    const ROW: Unary;
}

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

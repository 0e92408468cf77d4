//! Functions of one operand.

use super::{by_kind, by_row};
use crate::array::{ArrayError, Element};
use crate::lanes::{Machine, Map, map};
use crate::view::{View, ViewMut};
use pullback_ir::maths::{Elementary, Int, IntLanes, Lanes, Plain};
use pullback_ir::ops::elementwise::unary::Unary;

trait Row: Sync {
    const ROW: Unary;
}

/// A row on floats.
struct Float<F>(F);

impl<T, F: Row> Map<1, T, T> for Float<F>
where
    T: Elementary,
    Machine: Lanes<T, V = T>,
{
    const PICOSECONDS: u64 = 1000;
    #[inline(always)]
    fn call(&self, machine: &mut Machine, [x]: [T; 1]) -> T {
        F::ROW.float::<T, Machine>(machine, x)
    }
}

/// A test of floats.
struct Test<F>(F);

impl<T, F: Row> Map<1, T, bool> for Test<F>
where
    T: Elementary,
    Machine: Lanes<T, V = T, M = bool>,
{
    const PICOSECONDS: u64 = 250;
    #[inline(always)]
    fn call(&self, machine: &mut Machine, [x]: [T; 1]) -> bool {
        F::ROW.test::<T, Machine>(machine, x)
    }
}

/// A row on integers.
struct Integer<F>(F);

impl<T, F: Row> Map<1, T, T> for Integer<F>
where
    T: Int,
    Plain: IntLanes<T, V = T>,
{
    const PICOSECONDS: u64 = 250;
    #[inline(always)]
    fn call(&self, _: &mut Machine, [x]: [T; 1]) -> T {
        F::ROW.int::<T, Plain>(&mut Plain, x)
    }
}

pub(in crate::eval) fn evaluate(op: Unary, x: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), ArrayError> {
    by_kind! { x.dtype(),
        float T => if op.is_test() { tests::<T>(op, x, out) } else { floats::<T>(op, x, out) },
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
    Machine: Lanes<T, V = T>,
{
    let (x, out) = (x.as_slice::<T>()?, out.as_mut_slice::<T>()?);
    by_row! { op, Unary: [
        Neg Abs Sign Floor Ceil Round Sqrt Rsqrt Cbrt Exp Exp2 Expm1 Log Log2 Log1p Sin Cos Tan Asin Acos Atan
        Sinh Cosh Tanh Asinh Acosh Atanh Logistic Erf Erfc Not Popcount IsFinite IsNan
    ], F => map(&Float(F), [x], out) }
    Ok(())
}

fn tests<T: Element + Elementary>(op: Unary, x: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), ArrayError>
where
    Machine: Lanes<T, V = T, M = bool>,
{
    struct IsFinite;
    impl Row for IsFinite {
        const ROW: Unary = Unary::IsFinite;
    }
    struct IsNan;
    impl Row for IsNan {
        const ROW: Unary = Unary::IsNan;
    }
    let (x, out) = (x.as_slice::<T>()?, out.as_mut_slice::<bool>()?);
    if op == Unary::IsFinite {
        map(&Test(IsFinite), [x], out)
    } else {
        map(&Test(IsNan), [x], out)
    }
    Ok(())
}

fn integers<T: Element + Int>(op: Unary, x: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), ArrayError>
where
    Plain: IntLanes<T, V = T>,
{
    let (x, out) = (x.as_slice::<T>()?, out.as_mut_slice::<T>()?);
    by_row! { op, Unary: [
        Neg Abs Sign Floor Ceil Round Sqrt Rsqrt Cbrt Exp Exp2 Expm1 Log Log2 Log1p Sin Cos Tan Asin Acos Atan
        Sinh Cosh Tanh Asinh Acosh Atanh Logistic Erf Erfc Not Popcount IsFinite IsNan
    ], F => map(&Integer(F), [x], out) }
    Ok(())
}

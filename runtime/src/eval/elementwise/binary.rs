//! Functions of two operands of one type.

use super::{by_kind, by_row, rows};
use crate::array::{ArrayError, Element};
use crate::lanes::{Elemental, Machine, Simple, elemental, simple};
use crate::view::{View, ViewMut};
use pullback_ir::maths::{Elementary, Int, IntLanes, Lanes, Plain};
use pullback_ir::ops::elementwise::binary::Binary;

rows! { Binary: Add Sub Mul Div Rem Pow Max Min Atan2 LogAddExp And Or Xor Shl ShrLogical ShrArithmetic }

/// A row on floats.
struct Float<F>(F);

impl<T, F: Row> Elemental<2, T> for Float<F>
where
    T: Elementary,
    Plain: Lanes<T, V = T>,
    Machine: Lanes<T, V = T>,
{
    #[inline(always)]
    fn exact(&self, [x, y]: [T; 2]) -> T {
        F::ROW.float::<T, Plain>(&mut Plain, x, y)
    }
    #[inline(always)]
    fn fast(&self, machine: &mut Machine, [x, y]: [T; 2]) -> T {
        F::ROW.float::<T, Machine>(machine, x, y)
    }
}

impl<T, F: Row> Simple<2, T, T> for Float<F>
where
    T: Elementary,
    Plain: Lanes<T, V = T>,
{
    #[inline(always)]
    fn call(&self, [x, y]: [T; 2]) -> T {
        F::ROW.float::<T, Plain>(&mut Plain, x, y)
    }
}

/// A row on integers.
struct Integer<F>(F);

impl<T, F: Row> Simple<2, T, T> for Integer<F>
where
    T: Int,
    Plain: IntLanes<T, V = T>,
{
    #[inline(always)]
    fn call(&self, [x, y]: [T; 2]) -> T {
        F::ROW.int::<T, Plain>(&mut Plain, x, y)
    }
}

pub(in crate::eval) fn evaluate(
    op: Binary,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), ArrayError> {
    by_kind! { inputs[0].dtype(),
        float T => floats::<T>(op, inputs, out),
        int T => integers::<T>(op, inputs, out),
        bool => bools(op, inputs, out),
    }
}

fn floats<T: Element + Elementary>(
    op: Binary,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), ArrayError>
where
    Plain: Lanes<T, V = T>,
    Machine: Lanes<T, V = T>,
{
    let (x, y, out) = (inputs[0].as_slice::<T>()?, inputs[1].as_slice::<T>()?, out.as_mut_slice::<T>()?);
    by_row! { op, Binary: [Rem Pow Atan2 LogAddExp], F => elemental(&Float(F), [x, y], out),
        [Add Sub Mul Div Max Min And Or Xor Shl ShrLogical ShrArithmetic] =>
        by_row! { op, Binary: [Add Sub Mul Div Max Min], F => simple(&Float(F), [x, y], out),
            // The type rule refuses these on floats, or they have been dealt with.
            [Rem Pow Atan2 LogAddExp And Or Xor Shl ShrLogical ShrArithmetic] => out.copy_from_slice(x)
        }
    }
    Ok(())
}

fn integers<T: Element + Int>(
    op: Binary,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), ArrayError>
where
    Plain: IntLanes<T, V = T>,
{
    let (x, y, out) = (inputs[0].as_slice::<T>()?, inputs[1].as_slice::<T>()?, out.as_mut_slice::<T>()?);
    by_row! { op, Binary: [Add Sub Mul Div Rem Max Min And Or Xor Shl ShrLogical ShrArithmetic],
        F => simple(&Integer(F), [x, y], out),
        // The type rule refuses these on integers.
        [Pow Atan2 LogAddExp] => out.copy_from_slice(x)
    }
    Ok(())
}

fn bools(op: Binary, inputs: &[View<'_>], out: &mut ViewMut<'_>) -> Result<(), ArrayError> {
    let (x, y, out) =
        (inputs[0].as_slice::<bool>()?, inputs[1].as_slice::<bool>()?, out.as_mut_slice::<bool>()?);
    let function = match op {
        Binary::And => |x, y| x & y,
        Binary::Or => |x, y| x | y,
        Binary::Xor => |x, y| x ^ y,
        Binary::Add
        | Binary::Sub
        | Binary::Mul
        | Binary::Div
        | Binary::Rem
        | Binary::Pow
        | Binary::Max
        | Binary::Min
        | Binary::Atan2
        | Binary::LogAddExp
        | Binary::Shl
        | Binary::ShrLogical
        | Binary::ShrArithmetic => |x, _| x,
    };
    out.iter_mut().zip(x.iter().zip(y)).for_each(|(out, (&x, &y))| *out = function(x, y));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::eval::testing::{check, one, words};
    use crate::lanes::tests::check_levels;

    fn two(op: Binary, x: impl Into<Array>, y: impl Into<Array>) -> Array {
        one(op, &[x.into(), y.into()])
    }

    macro_rules! check_rows {
        ($x:expr, $y:expr; $($row:ident)*) => {
            $({
                use row::$row as F;
                check_levels(stringify!($row), &Float(F), [&$x[..], &$y[..]]);
            })*
        };
    }

    #[test]
    fn all_levels_give_the_bits_of_plain_numbers() {
        let special =
            [0.0, -0.0, 1.0, -1.0, f64::INFINITY, -f64::INFINITY, f64::NAN, 2.0, 0.5, -3.0, 1e300, 5e-324];
        let mut pairs: Vec<(f64, f64)> = special.iter().flat_map(|&x| special.map(|y| (x, y))).collect();
        let uniform =
            words(3000).into_iter().map(|w| ((w >> 32) as f64 / 5e8, (w as u32) as f64 / 5e8 - 4.0));
        let anything = words(1000).into_iter().zip(words(2000).into_iter().skip(1000));
        pairs.extend(uniform);
        pairs.extend(anything.map(|(x, y)| (f64::from_bits(x), f64::from_bits(y))));
        let (x, y): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        check_rows! { x, y; Add Sub Mul Div Max Min Pow Atan2 Rem LogAddExp }
        let (x, y): (Vec<f32>, Vec<f32>) = x.iter().zip(&y).map(|(&x, &y)| (x as f32, y as f32)).unzip();
        check_rows! { x, y; Add Sub Mul Div Max Min Pow Atan2 Rem LogAddExp }
    }

    #[test]
    fn floats() {
        let (x, y) = ([0.0f32, -0.0, f32::NAN, 3.0, -1.0], [-0.0f32, 0.0, 1.0, f32::NAN, 5.0]);
        check(two(Binary::Max, x, y), [0.0f32, 0.0, f32::NAN, f32::NAN, 5.0]);
        check(two(Binary::Min, x, y), [-0.0f32, -0.0, f32::NAN, f32::NAN, -1.0]);
        check(two(Binary::Add, [-0.0f64, 1e308], [-0.0f64, 1e308]), [-0.0f64, f64::INFINITY]);
        check(
            two(Binary::Div, [1.0f64, -1.0, 0.0], [0.0f64, 0.0, 0.0]),
            [f64::INFINITY, f64::NEG_INFINITY, f64::NAN],
        );
        check(two(Binary::Rem, [5.5f64, -5.5, 1.0], [2.0f64, 2.0, 0.0]), [1.5f64, -1.5, f64::NAN]);
        check(two(Binary::Pow, [2.0f64, 0.0, f64::NAN], [10.0f64, 0.0, 0.0]), [1024.0f64, 1.0, 1.0]);
    }

    #[test]
    fn logaddexp_at_infinities_ties_and_great_distances() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let x = [inf, inf, inf, -inf, -inf, -inf, nan, nan, nan, 1e308, 1000.0, 0.0, 710.0, -1e5];
        let y = [inf, -inf, 3.0, -inf, 3.0, -0.0, 1.0, inf, -inf, -1e308, -1000.0, 0.0, 710.0, -1e5];
        let ln_2 = std::f64::consts::LN_2;
        let z =
            [inf, inf, inf, -inf, 3.0, 0.0, nan, nan, nan, 1e308, 1000.0, ln_2, 710.0 + ln_2, -1e5 + ln_2];
        check(two(Binary::LogAddExp, x, y), z);
        check(two(Binary::LogAddExp, y, x), z);
        check(two(Binary::LogAddExp, x.map(|x| x as f32), y.map(|y| y as f32)), z.map(|z| z as f32));
        // Far below the larger, the smaller is still seen where the larger is small.
        check(
            two(Binary::LogAddExp, [0.0f64, 0.0], [-50.0f64, -700.0]),
            [(-50.0f64).exp(), (-700.0f64).exp()],
        );
    }

    #[test]
    fn integer_division_never_traps() {
        let (x, y) = ([7, -7, 7, i32::MIN, i32::MIN, 0], [2, 2, 0, -1, 0, 0]);
        check(two(Binary::Div, x, y), [3, -3, -1, i32::MIN, -1, -1]);
        check(two(Binary::Rem, x, y), [1, -1, 7, 0, i32::MIN, 0]);
        check(two(Binary::Div, [7u64, u64::MAX], [0u64, 2]), [u64::MAX, u64::MAX / 2]);
        check(two(Binary::Rem, [7u64, u64::MAX], [0u64, 2]), [7u64, 1]);
        check(two(Binary::Div, [i64::MIN; 2], [-1i64, 0]), [i64::MIN, -1]);
    }

    #[test]
    fn integer_arithmetic_wraps_and_compares_in_its_own_order() {
        check(two(Binary::Add, [i32::MAX], [1]), [i32::MIN]);
        check(two(Binary::Mul, [u32::MAX], [u32::MAX]), [1u32]);
        check(two(Binary::Sub, [0u64], [1u64]), [u64::MAX]);
        check(two(Binary::Max, [-1i64, 3], [1i64, 2]), [1i64, 3]);
        check(two(Binary::Max, [u64::MAX], [1u64]), [u64::MAX]);
        check(two(Binary::Min, [u32::MAX], [1u32]), [1u32]);
    }

    #[test]
    fn shifts_by_the_width_or_more_are_defined() {
        let by = [0, 1, 31, 32, 100, -1];
        check(two(Binary::Shl, [1i32; 6], by), [1, 2, i32::MIN, 0, 0, 0]);
        check(two(Binary::ShrLogical, [-1i32; 6], by), [-1, i32::MAX, 1, 0, 0, 0]);
        check(two(Binary::ShrArithmetic, [-8i32; 6], by), [-8, -4, -1, -1, -1, -1]);
        check(two(Binary::ShrArithmetic, [8i32; 2], [1, 40]), [4, 0]);
        check(two(Binary::ShrArithmetic, [1u64 << 63], [64u64]), [u64::MAX]);
        check(two(Binary::Shl, [1u64; 2], [63u64, 64]), [1u64 << 63, 0]);
    }

    #[test]
    fn logic() {
        let (x, y) = ([true, true, false, false], [true, false, true, false]);
        check(two(Binary::And, x, y), [true, false, false, false]);
        check(two(Binary::Or, x, y), [true, true, true, false]);
        check(two(Binary::Xor, x, y), [false, true, true, false]);
        check(two(Binary::Xor, [0b1100u32], [0b1010u32]), [0b0110u32]);
    }
}

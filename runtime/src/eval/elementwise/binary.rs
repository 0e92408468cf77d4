//! Functions of two operands of one type.

use super::{by_kind, by_row};
use crate::array::{ArrayError, Element};
use crate::lanes::{Machine, Map, map};
use crate::view::{View, ViewMut};
use pullback_ir::maths::{Elementary, Int, IntLanes, Lanes, Plain};
use pullback_ir::ops::elementwise::binary::Binary;

trait Row: Sync {
    const ROW: Binary;
}

/// A row on floats.
struct Float<F>(F);

impl<T, F: Row> Map<2, T, T> for Float<F>
where
    T: Elementary,
    Machine: Lanes<T, V = T>,
{
    const PICOSECONDS: u64 =
        if matches!(F::ROW, Binary::Pow | Binary::Atan2 | Binary::Rem) { 2000 } else { 400 };
    #[inline(always)]
    fn call(&self, machine: &mut Machine, [x, y]: [T; 2]) -> T {
        F::ROW.float::<T, Machine>(machine, x, y)
    }
}

/// A row on integers.
struct Integer<F>(F);

impl<T, F: Row> Map<2, T, T> for Integer<F>
where
    T: Int,
    Plain: IntLanes<T, V = T>,
{
    const PICOSECONDS: u64 = if matches!(F::ROW, Binary::Div | Binary::Rem) { 2000 } else { 400 };
    #[inline(always)]
    fn call(&self, _: &mut Machine, [x, y]: [T; 2]) -> T {
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
    Machine: Lanes<T, V = T>,
{
    let (x, y, out) = (inputs[0].as_slice::<T>()?, inputs[1].as_slice::<T>()?, out.as_mut_slice::<T>()?);
    by_row! { op, Binary: [
        Add Sub Mul Div Rem Pow Max Min Atan2 And Or Xor Shl ShrLogical ShrArithmetic
    ], F => map(&Float(F), [x, y], out) }
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
    by_row! { op, Binary: [
        Add Sub Mul Div Rem Pow Max Min Atan2 And Or Xor Shl ShrLogical ShrArithmetic
    ], F => map(&Integer(F), [x, y], out) }
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
        | Binary::Shl
        | Binary::ShrLogical
        | Binary::ShrArithmetic => |x, _| x,
    };
    out.iter_mut().zip(x.iter().zip(y)).for_each(|(out, (&x, &y))| *out = function(x, y));
    Ok(())
}

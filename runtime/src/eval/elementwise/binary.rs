//! Functions of two operands of one type.

use super::{by_kind, by_row};
use crate::array::{ArrayError, Element};
use crate::lanes::{Elemental, Machine, Simple, elemental, simple};
use crate::view::{View, ViewMut};
use pullback_ir::maths::{Elementary, Int, IntLanes, Lanes, Plain};
use pullback_ir::ops::elementwise::binary::Binary;

trait Row: Sync {
    const ROW: Binary;
}

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
    by_row! { op, Binary: [Rem Pow Atan2], F => elemental(&Float(F), [x, y], out),
        [Add Sub Mul Div Max Min And Or Xor Shl ShrLogical ShrArithmetic] =>
        by_row! { op, Binary: [Add Sub Mul Div Max Min], F => simple(&Float(F), [x, y], out),
            // The type rule refuses these on floats, or they have been dealt with.
            [Rem Pow Atan2 And Or Xor Shl ShrLogical ShrArithmetic] => out.copy_from_slice(x)
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
        [Pow Atan2] => out.copy_from_slice(x)
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
        | Binary::Shl
        | Binary::ShrLogical
        | Binary::ShrArithmetic => |x, _| x,
    };
    out.iter_mut().zip(x.iter().zip(y)).for_each(|(out, (&x, &y))| *out = function(x, y));
    Ok(())
}

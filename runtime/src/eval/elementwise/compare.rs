//! Comparison.

use super::{by_kind, by_row};
use crate::array::{ArrayError, Element};
use crate::lanes::{Simple, simple};
use crate::view::{View, ViewMut};
use pullback_ir::maths::{Float, Int, IntLanes, Lanes, Plain};
use pullback_ir::ops::elementwise::compare::Compare;

trait Row: Sync {
    const ROW: Compare;
}

struct Floats<F>(F);

impl<T, F: Row> Simple<2, T, bool> for Floats<F>
where
    T: Float,
    Plain: Lanes<T, V = T, M = bool>,
{
    #[inline(always)]
    fn call(&self, [x, y]: [T; 2]) -> bool {
        F::ROW.float::<T, Plain>(&mut Plain, x, y)
    }
}

struct Integers<F>(F);

impl<T, F: Row> Simple<2, T, bool> for Integers<F>
where
    T: Int,
    Plain: IntLanes<T, V = T, M = bool>,
{
    #[inline(always)]
    fn call(&self, [x, y]: [T; 2]) -> bool {
        F::ROW.int::<T, Plain>(&mut Plain, x, y)
    }
}

pub(in crate::eval) fn evaluate(
    op: Compare,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), ArrayError> {
    let out = out.as_mut_slice::<bool>()?;
    by_kind! { inputs[0].dtype(),
        float T => {
            let (x, y) = (inputs[0].as_slice::<T>()?, inputs[1].as_slice::<T>()?);
            by_row! { op, Compare: [Eq Ne Lt Le Gt Ge], F => simple(&Floats(F), [x, y], out), [] => () }
        },
        int T => {
            let (x, y) = (inputs[0].as_slice::<T>()?, inputs[1].as_slice::<T>()?);
            by_row! { op, Compare: [Eq Ne Lt Le Gt Ge], F => simple(&Integers(F), [x, y], out), [] => () }
        },
        bool => {
            let (x, y) = (inputs[0].as_slice::<bool>()?, inputs[1].as_slice::<bool>()?);
            out.iter_mut().zip(x.iter().zip(y)).for_each(|(out, (x, y))| *out = ordered(op, x, y));
        },
    }
    Ok(())
}

fn ordered<T: Element>(op: Compare, x: &T, y: &T) -> bool {
    match op {
        Compare::Eq => x == y,
        Compare::Ne => x != y,
        Compare::Lt => x < y,
        Compare::Le => x <= y,
        Compare::Gt => x > y,
        Compare::Ge => x >= y,
    }
}

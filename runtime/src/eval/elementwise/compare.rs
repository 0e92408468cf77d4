//! Comparison.

use super::{by_kind, by_row, rows};
use crate::array::{ArrayError, Element};
use crate::lanes::{Simple, simple};
use crate::view::{View, ViewMut};
use pullback_ir::maths::{Float, Int, IntLanes, Lanes, Plain};
use pullback_ir::ops::elementwise::compare::Compare;

rows! { Compare: Eq Ne Lt Le Gt Ge }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::eval::testing::{check, one};

    fn all<const N: usize>(x: impl Into<Array>, y: impl Into<Array>, expected: [[bool; N]; 6]) {
        let operands = [x.into(), y.into()];
        let directions = [Compare::Eq, Compare::Ne, Compare::Lt, Compare::Le, Compare::Gt, Compare::Ge];
        for (how, expected) in directions.into_iter().zip(expected) {
            check(one(how, &operands), expected);
        }
    }

    #[test]
    fn directions() {
        const T: bool = true;
        const F: bool = false;
        let (x, y) = ([1.0f64, -0.0, f64::NAN, 2.0], [2.0f64, 0.0, f64::NAN, f64::NAN]);
        all(x, y, [[F, T, F, F], [T, F, T, T], [T, F, F, F], [T, T, F, F], [F, F, F, F], [F, T, F, F]]);
        let (x, y) = ([-1i32, 3, 4], [1i32, 3, -4]);
        all(x, y, [[F, T, F], [T, F, T], [T, F, F], [T, T, F], [F, F, T], [F, T, T]]);
        all([u64::MAX], [1u64], [[F], [T], [F], [F], [T], [T]]);
        let (x, y) = ([F, F, T, T], [F, T, F, T]);
        all(x, y, [[T, F, F, T], [F, T, T, F], [F, T, F, F], [T, T, F, T], [F, F, T, F], [T, F, T, T]]);
    }
}

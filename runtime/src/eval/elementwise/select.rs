//! Choice by a condition.

use crate::array::ArrayError;
use crate::threads;
use crate::view::{View, ViewMut, with_word};

pub(in crate::eval) fn evaluate(inputs: &[View<'_>], out: &mut ViewMut<'_>) -> Result<(), ArrayError> {
    let condition = inputs[0].as_slice::<bool>()?;
    with_word!(out.dtype(), W => {
        let (x, y, out) = (inputs[1].words::<W>(), inputs[2].words::<W>(), out.words_mut::<W>());
        let nanoseconds = out.len() as u64 / 2;
        threads::for_chunks_mut(out, 1 << 14, nanoseconds, |first, out| {
            let range = first..first + out.len();
            let (condition, x, y) = (&condition[range.clone()], &x[range.clone()], &y[range]);
            for i in 0..out.len() {
                out[i] = if condition[i] { x[i] } else { y[i] };
            }
        });
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::array::Array;
    use crate::eval::testing::{check, one};
    use pullback_ir::ops::elementwise::select::Select;

    #[test]
    fn takes_one_side() {
        let condition = Array::from([true, false, true]);
        let (x, y) = (Array::from([1.0f32, 2.0, f32::NAN]), Array::from([-1.0f32, f32::NAN, 3.0]));
        check(one(Select, &[condition.clone(), x, y]), [1.0f32, f32::NAN, f32::NAN]);
        let (x, y) = (Array::from([true, true, false]), Array::from([false, false, true]));
        check(one(Select, &[condition, x, y]), [true, false, false]);
        check(one(Select, &[Array::from(false), Array::from(1u64), Array::from(2u64)]), 2u64);
    }
}

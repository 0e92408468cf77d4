//! Conversion by bits.

use crate::array::ArrayError;
use crate::view::{View, ViewMut, with_word};
use pullback_ir::DType;

pub(in crate::eval) fn evaluate(x: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), ArrayError> {
    match (x.dtype(), out.dtype().is_float()) {
        (DType::F32, false) => {
            let canonical = |x: &f32| if x.is_nan() { 0x7FC0_0000 } else { x.to_bits() };
            write(out.words_mut::<u32>(), x.as_slice::<f32>()?, canonical);
        }
        (DType::F64, false) => {
            let canonical = |x: &f64| if x.is_nan() { 0x7FF8_0000_0000_0000 } else { x.to_bits() };
            write(out.words_mut::<u64>(), x.as_slice::<f64>()?, canonical);
        }
        _ => with_word!(x.dtype(), W => out.words_mut::<W>().copy_from_slice(x.words::<W>())),
    }
    Ok(())
}

fn write<W, T>(out: &mut [W], x: &[T], bits: impl Fn(&T) -> W) {
    out.iter_mut().zip(x).for_each(|(out, x)| *out = bits(x));
}

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

#[cfg(test)]
mod tests {
    use crate::array::Array;
    use crate::eval::testing::{check, one};
    use pullback_ir::DType;
    use pullback_ir::ops::elementwise::bitcast::Bitcast;

    #[test]
    fn bits_stay_and_nan_is_canonical() {
        let x = Array::from([1.0f32, -0.0, f32::from_bits(0xFFC0_1234)]);
        check(one(Bitcast { dtype: DType::U32 }, &[x]), [0x3F80_0000u32, 0x8000_0000, 0x7FC0_0000]);
        let x = Array::from([f64::from_bits(0xFFF8_0000_0000_0001), 1.0]);
        check(one(Bitcast { dtype: DType::I64 }, &[x]), [0x7FF8_0000_0000_0000i64, 0x3FF0_0000_0000_0000]);
        let back = one(Bitcast { dtype: DType::F32 }, &[Array::from([0x3F80_0000u32])]);
        check(back, [1.0f32]);
        check(one(Bitcast { dtype: DType::I32 }, &[Array::from([u32::MAX])]), [-1]);
    }
}

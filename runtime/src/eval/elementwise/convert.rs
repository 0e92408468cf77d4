//! Conversion by value.

use crate::array::{ArrayError, Element, with_element};
use crate::threads;
use crate::view::{View, ViewMut};

/// Conversion by value to another element type.
trait ConvertTo<R> {
    fn convert(self) -> R;
}

macro_rules! conversions {
    ($from:ty => $($to:ty)*) => {
        $(impl ConvertTo<$to> for $from {
            #[inline(always)]
            fn convert(self) -> $to {
                // Rounds to nearest even, saturates from floats (NaN to 0), wraps between integers.
                self as $to
            }
        })*
        impl ConvertTo<bool> for $from {
            #[inline(always)]
            fn convert(self) -> bool {
                self != 0 as $from
            }
        }
        impl ConvertTo<$from> for bool {
            #[inline(always)]
            fn convert(self) -> $from {
                self as u8 as $from
            }
        }
    };
}

conversions!(i32 => i32 i64 u32 u64 f32 f64);
conversions!(i64 => i32 i64 u32 u64 f32 f64);
conversions!(u32 => i32 i64 u32 u64 f32 f64);
conversions!(u64 => i32 i64 u32 u64 f32 f64);
conversions!(f32 => i32 i64 u32 u64 f32 f64);
conversions!(f64 => i32 i64 u32 u64 f32 f64);

impl ConvertTo<bool> for bool {
    fn convert(self) -> bool {
        self
    }
}

pub(in crate::eval) fn evaluate(x: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), ArrayError> {
    with_element!(x.dtype(), T => with_element!(out.dtype(), R => convert::<T, R>(x, out)))
}

fn convert<T: Element + ConvertTo<R>, R: Element>(
    x: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), ArrayError> {
    let (x, out) = (x.as_slice::<T>()?, out.as_mut_slice::<R>()?);
    let nanoseconds = out.len() as u64 / 2;
    threads::for_chunks_mut(out, 1 << 14, nanoseconds, |first, out| {
        out.iter_mut().zip(&x[first..]).for_each(|(out, &x)| *out = x.convert());
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::array::Array;
    use crate::eval::testing::{check, one};
    use pullback_ir::DType;
    use pullback_ir::ops::elementwise::convert::Convert;

    fn to(dtype: DType, x: impl Into<Array>) -> Array {
        one(Convert { dtype }, &[x.into()])
    }

    #[test]
    fn floats_saturate_to_integers() {
        let x = [1.9f64, -1.9, 1e20, -1e20, f64::NAN, f64::INFINITY];
        check(to(DType::I32, x), [1, -1, i32::MAX, i32::MIN, 0, i32::MAX]);
        check(to(DType::U32, x), [1u32, 0, u32::MAX, 0, 0, u32::MAX]);
        check(to(DType::I64, x), [1i64, -1, i64::MAX, i64::MIN, 0, i64::MAX]);
        check(to(DType::U64, [1e20f32, -1.0]), [u64::MAX, 0]);
    }

    #[test]
    fn the_rest() {
        check(to(DType::F32, [0.1f64, 1e300, 1e-50]), [0.1f32, f32::INFINITY, 0.0]);
        check(to(DType::F32, [(1u64 << 24) + 1, u64::MAX]), [16777216.0f32, 18446744073709551616.0]);
        check(to(DType::F64, [-3i64]), [-3.0f64]);
        check(to(DType::I32, [u64::MAX, 1 << 32]), [-1, 0]);
        check(to(DType::U64, [-1i32]), [u64::MAX]);
        check(to(DType::U32, [-1i64]), [u32::MAX]);
        check(to(DType::Bool, [0.0f64, -0.0, f64::NAN, 0.1]), [false, false, true, true]);
        check(to(DType::Bool, [0u32, 256]), [false, true]);
        check(to(DType::F32, [true, false]), [1.0f32, 0.0]);
        check(to(DType::Bool, [true, false]), [true, false]);
    }
}

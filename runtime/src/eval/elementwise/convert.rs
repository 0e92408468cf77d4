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

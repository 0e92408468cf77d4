//! Arguments outside the fast range: trigonometric functions of huge numbers, remainders of huge quotients.

use super::Elementary;
use super::constants::Constants;
use super::double::{Double, fast_two_sum, product};
use super::lanes::{Slow, Slow2};
use super::plain::Plain;
use super::trig::{Quadrant, cosine_in_quadrant, sine_in_quadrant, tangent_in_quadrant};

/// `2/pi`: a word before the point, which is zero, and 1216 bits after it.
const TWO_OVER_PI: [u64; 20] = [
    0x0000000000000000,
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
];

/// Reduces a finite `x >= 1` by multiples of `pi/2` after Payne and Hanek: `x = m 2^e` with integral `m`, and
/// of the product of `m` and `2/pi` only the bits that matter to the quadrant and the fraction are formed.
fn reduce_huge(x: f64) -> Quadrant<i64, f64> {
    let bits = x.to_bits();
    let m = (bits & ((1 << 52) - 1)) | (1 << 52);
    // e + 62, where e = (biased exponent) - 1075: bit i of the table weighs 2^(63 - i), and those before
    // `start` give multiples of 4 quadrants.
    let start = (bits >> 52) as usize - 1013;
    let (word, shift) = (start / 64, start % 64);
    let window = |i: usize| {
        let two_words = u128::from(TWO_OVER_PI[word + i]) << 64 | u128::from(TWO_OVER_PI[word + i + 1]);
        (two_words << shift >> 64) as u64
    };
    // m times 192 bits of the table, modulo 2^192. Two bits before the point remain.
    let low = u128::from(m) * u128::from(window(2));
    let middle = u128::from(m) * u128::from(window(1)) + (low >> 64);
    let high = m.wrapping_mul(window(0)).wrapping_add((middle >> 64) as u64);
    let quadrant = (high >> 62) as i64;
    let fraction = u128::from(high) << 66 | u128::from(middle as u64) << 2 | u128::from(low as u64 >> 62);
    // As a number of 2^-128 between -1/2 and 1/2, then as a double word.
    let fraction = fraction as i128;
    let n = if fraction < 0 { quadrant + 1 } else { quadrant };
    let hi = fraction as f64;
    let lo = (fraction - hi as i128) as f64;
    let unit = 2f64.powi(-128);
    let half_pi = Double { hi: f64::HALF_PI[0], lo: f64::HALF_PI[1] };
    let r = fast_two_sum::<f64, Plain>(&mut Plain, hi * unit, lo * unit);
    Quadrant { n, r: product::<f64, Plain>(&mut Plain, r, half_pi) }
}

fn trigonometric(x: f64, f: fn(&mut Plain, Quadrant<i64, f64>) -> f64) -> f64 {
    if x.is_finite() { f(&mut Plain, reduce_huge(x.abs())) } else { f64::NAN }
}

extern "C" fn sin_f64(x: f64) -> f64 {
    trigonometric(x, sine_in_quadrant::<f64, Plain>) * 1f64.copysign(x)
}

extern "C" fn cos_f64(x: f64) -> f64 {
    trigonometric(x, cosine_in_quadrant::<f64, Plain>)
}

extern "C" fn tan_f64(x: f64) -> f64 {
    trigonometric(x, tangent_in_quadrant::<f64, Plain>) * 1f64.copysign(x)
}

extern "C" fn sin_f32(x: f32) -> f32 {
    <f64 as Elementary>::sin(&mut Plain, f64::from(x)) as f32
}

extern "C" fn cos_f32(x: f32) -> f32 {
    <f64 as Elementary>::cos(&mut Plain, f64::from(x)) as f32
}

extern "C" fn tan_f32(x: f32) -> f32 {
    <f64 as Elementary>::tan(&mut Plain, f64::from(x)) as f32
}

extern "C" fn rem_f64(x: f64, y: f64) -> f64 {
    x % y
}

extern "C" fn rem_f32(x: f32, y: f32) -> f32 {
    x % y
}

pub(super) const SIN_F64: Slow<f64> = Slow { name: "sin_f64", call: sin_f64 };
pub(super) const COS_F64: Slow<f64> = Slow { name: "cos_f64", call: cos_f64 };
pub(super) const TAN_F64: Slow<f64> = Slow { name: "tan_f64", call: tan_f64 };
pub(super) const SIN_F32: Slow<f32> = Slow { name: "sin_f32", call: sin_f32 };
pub(super) const COS_F32: Slow<f32> = Slow { name: "cos_f32", call: cos_f32 };
pub(super) const TAN_F32: Slow<f32> = Slow { name: "tan_f32", call: tan_f32 };
pub(super) const REM_F64: Slow2<f64> = Slow2 { name: "rem_f64", call: rem_f64 };
pub(super) const REM_F32: Slow2<f32> = Slow2 { name: "rem_f32", call: rem_f32 };

//! `exp`, `exp2`, `expm1`.
//!
//! Method: `x = n ln 2 + r` with integral `n` and `|r| <= ln 2 / 2` (Cody and Waite 1980, `ln 2` split so
//! that `n ln 2` loses nothing), a minimax polynomial for `e^r = 1 + r + r^2 P(r)`, and scaling by `2^n` in
//! two factors, so that subnormal results are rounded once.

use super::constants::Constants;
use super::double::{Double, add_small, constant, fast_two_sum, polynomial, product, two_product, two_sum};
use super::lanes::Lanes;

/// `x = n ln 2 + hi + lo`.
pub(super) struct Reduced<V> {
    pub(super) n: V,
    pub(super) r: Double<V>,
}

/// Reduces `x`.
#[inline(always)]
pub(super) fn reduce<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> Reduced<L::V> {
    let (n, high) = reduce_high(l, x);
    let low = l.float(T::MINUS_LN2_CUT.1);
    let correction = l.mul(n, low);
    Reduced { n, r: fast_two_sum(l, high, correction) }
}

/// `n`, and `x` less `n` times the first part of `ln 2`, which has no error.
#[inline(always)]
fn reduce_high<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> (L::V, L::V) {
    let log2_e = l.float(T::LOG2_E.0);
    let quotient = l.mul(x, log2_e);
    let n = l.nearest(quotient);
    let high = l.float(T::MINUS_LN2_CUT.0);
    (n, l.fma(n, high, x))
}

/// `e^(r.hi + r.lo) - 1 - r.hi` for a reduced argument.
#[inline(always)]
pub(super) fn beyond_linear<T: Constants, L: Lanes<T>>(l: &mut L, r: Double<L::V>) -> L::V {
    let p = polynomial(l, r.hi, T::EXP);
    let square = l.mul(r.hi, r.hi);
    let rest = l.fma(r.hi, r.lo, r.lo);
    l.fma(square, p, rest)
}

/// `e^r` as a double word.
#[inline(always)]
pub(super) fn exp_reduced<T: Constants, L: Lanes<T>>(l: &mut L, r: Double<L::V>) -> Double<L::V> {
    let rest = beyond_linear(l, r);
    let one = l.float(T::ONE);
    let sum = fast_two_sum(l, one, r.hi);
    let lo = l.add(sum.lo, rest);
    fast_two_sum(l, sum.hi, lo)
}

/// `2^n` for integral `n` within the normal range.
#[inline(always)]
pub(super) fn power_of_two<T: Constants, L: Lanes<T>>(l: &mut L, n: L::I) -> L::V {
    let bias = l.int(T::BIAS);
    let exponent = l.iadd(n, bias);
    let bits = l.ishl(exponent, T::MANTISSA);
    l.from_bits(bits)
}

/// Two powers of two whose product is `2^n`, for integral `n` up to twice the normal range.
#[inline(always)]
pub(super) fn scale_factors<T: Constants, L: Lanes<T>>(l: &mut L, n: L::V) -> (L::V, L::V) {
    let n = l.to_int(n);
    let half = l.sshr(n, 1);
    let other = l.isub(n, half);
    (power_of_two(l, half), power_of_two(l, other))
}

/// `y 2^n`, rounded once.
#[inline(always)]
pub(super) fn scale<T: Constants, L: Lanes<T>>(l: &mut L, y: L::V, n: L::V) -> L::V {
    let (first, second) = scale_factors(l, n);
    let y = l.mul(y, first);
    l.mul(y, second)
}

/// `y` where `low <= x <= high`, 0 below and infinity above; `y` for NaN.
#[inline(always)]
pub(super) fn saturate<T: Constants, L: Lanes<T>>(l: &mut L, y: L::V, x: L::V, low: T, high: T) -> L::V {
    let high = l.float(high);
    let above = l.lt(high, x);
    let infinity = l.float(T::INFINITY);
    let y = l.select(above, infinity, y);
    let low = l.float(low);
    let below = l.lt(x, low);
    let zero = l.float(T::ZERO);
    l.select(below, zero, y)
}

/// `e^x`.
#[inline(always)]
pub(super) fn exp<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let (n, high) = reduce_high(l, x);
    let low = l.float(T::MINUS_LN2_CUT.1);
    let r = l.fma(n, low, high);
    let p = polynomial(l, r, T::EXP);
    let square = l.mul(r, r);
    let p = l.fma(square, p, r);
    let one = l.float(T::ONE);
    let y = l.add(one, p);
    let y = scale(l, y, n);
    saturate(l, y, x, T::EXP_LOW, T::EXP_HIGH)
}

/// `2^x`: the fraction of `x` times `ln 2` in double words, then as `exp`.
#[inline(always)]
pub(super) fn exp2<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let n = l.nearest(x);
    let fraction = l.sub(x, n);
    let ln2 = constant(l, T::LN2);
    let r = two_product(l, fraction, ln2.hi);
    let lo = l.fma(fraction, ln2.lo, r.lo);
    let y = exp_reduced(l, Double { hi: r.hi, lo });
    let y = scale(l, y.hi, n);
    saturate(l, y, x, T::EXP2_LOW, T::EXP2_HIGH)
}

/// `2^(x.hi + x.lo)`, where only `x.lo` may be NaN if `x.hi` is infinite.
#[inline(always)]
pub(super) fn exp2_double<T: Constants, L: Lanes<T>>(l: &mut L, x: Double<L::V>) -> L::V {
    let n = l.nearest(x.hi);
    let fraction = l.sub(x.hi, n);
    let fraction = two_sum(l, fraction, x.lo);
    let ln2 = constant(l, T::LN2);
    let r = product(l, fraction, ln2);
    let y = exp_reduced(l, r);
    let y = scale(l, y.hi, n);
    saturate(l, y, x.hi, T::EXP2_LOW, T::EXP2_HIGH)
}

/// `e^x - 1` as a double word, relatively accurate at small `x`, for `x` at most `EXP_HIGH - ln 2`.
#[inline(always)]
pub(super) fn expm1_double<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> Double<L::V> {
    let Reduced { n, r } = reduce(l, x);
    let rest = beyond_linear(l, r);
    let n = l.to_int(n);
    let power = power_of_two(l, n);
    let minus_one = l.float(T::MINUS_ONE);
    let base = two_sum(l, power, minus_one);
    let linear = l.mul(power, r.hi);
    let sum = two_sum(l, base.hi, linear);
    let lo = l.fma(power, rest, base.lo);
    add_small(l, sum, lo)
}

/// `e^x - 1`.
#[inline(always)]
pub(super) fn expm1<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    // Near overflow e^(x - ln 2) - 1/2, doubled: half of e^x is what the reduction scales by.
    let Reduced { n, r } = reduce(l, x);
    let rest = beyond_linear(l, r);
    let one = l.int(1);
    let n = l.to_int(n);
    let n = l.isub(n, one);
    let half_power = power_of_two(l, n);
    let minus_half = l.float(T::MINUS_HALF);
    let base = two_sum(l, half_power, minus_half);
    let linear = l.mul(half_power, r.hi);
    let sum = two_sum(l, base.hi, linear);
    let lo = l.fma(half_power, rest, base.lo);
    let lo = l.add(lo, sum.lo);
    let half = l.add(sum.hi, lo);
    let y = l.add(half, half);
    let high = l.float(T::EXP_HIGH);
    let above = l.lt(high, x);
    let infinity = l.float(T::INFINITY);
    let y = l.select(above, infinity, y);
    let low = l.float(T::EXPM1_LOW);
    let below = l.lt(x, low);
    let minus_one = l.float(T::MINUS_ONE);
    let y = l.select(below, minus_one, y);
    keep_tiny(l, y, x)
}

/// `x` where it is so small that `f(x) = x + O(x^2)` rounds to it, or a zero; else `y`.
#[inline(always)]
pub(super) fn keep_tiny<T: Constants, L: Lanes<T>>(l: &mut L, y: L::V, x: L::V) -> L::V {
    let size = l.abs(x);
    let tiny = l.float(T::TINY);
    let is_tiny = l.lt(size, tiny);
    l.select(is_tiny, x, y)
}

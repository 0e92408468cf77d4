//! Double words: a value held as the unevaluated sum of two floats, the second no larger than the rounding
//! error of the first. The sums and products are the classical error-free transformations of Dekker and
//! Knuth, with products by fused multiply-add.

use super::constants::Constants;
use super::lanes::Lanes;

/// `hi + lo`.
#[derive(Clone, Copy)]
pub(super) struct Double<V> {
    pub(super) hi: V,
    pub(super) lo: V,
}

/// `a + b` exactly, for `a = 0` or `|a| >= |b|`.
#[inline(always)]
pub(super) fn fast_two_sum<T: Constants, L: Lanes<T>>(l: &mut L, a: L::V, b: L::V) -> Double<L::V> {
    let hi = l.add(a, b);
    let taken = l.sub(hi, a);
    let lo = l.sub(b, taken);
    Double { hi, lo }
}

/// `a + b` exactly.
#[inline(always)]
pub(super) fn two_sum<T: Constants, L: Lanes<T>>(l: &mut L, a: L::V, b: L::V) -> Double<L::V> {
    let hi = l.add(a, b);
    let b_taken = l.sub(hi, a);
    let a_taken = l.sub(hi, b_taken);
    let a_left = l.sub(a, a_taken);
    let b_left = l.sub(b, b_taken);
    let lo = l.add(a_left, b_left);
    Double { hi, lo }
}

/// `a * b` exactly (barring underflow).
#[inline(always)]
pub(super) fn two_product<T: Constants, L: Lanes<T>>(l: &mut L, a: L::V, b: L::V) -> Double<L::V> {
    let hi = l.mul(a, b);
    let negative = l.neg(hi);
    let lo = l.fma(a, b, negative);
    Double { hi, lo }
}

/// `a + b` for a double word `a` and `|a| >= |b|` or `a = 0`.
#[inline(always)]
pub(super) fn add_small<T: Constants, L: Lanes<T>>(l: &mut L, a: Double<L::V>, b: L::V) -> Double<L::V> {
    let sum = fast_two_sum(l, a.hi, b);
    let lo = l.add(sum.lo, a.lo);
    fast_two_sum(l, sum.hi, lo)
}

/// `a + b` for a double word `b`, whichever is larger.
#[inline(always)]
pub(super) fn add_to<T: Constants, L: Lanes<T>>(l: &mut L, a: L::V, b: Double<L::V>) -> Double<L::V> {
    let sum = two_sum(l, a, b.hi);
    let lo = l.add(sum.lo, b.lo);
    fast_two_sum(l, sum.hi, lo)
}

/// `a * b`.
#[inline(always)]
pub(super) fn product<T: Constants, L: Lanes<T>>(
    l: &mut L,
    a: Double<L::V>,
    b: Double<L::V>,
) -> Double<L::V> {
    let p = two_product(l, a.hi, b.hi);
    let lo = l.fma(a.hi, b.lo, p.lo);
    let lo = l.fma(a.lo, b.hi, lo);
    fast_two_sum(l, p.hi, lo)
}

/// `a / b`.
#[inline(always)]
pub(super) fn quotient<T: Constants, L: Lanes<T>>(
    l: &mut L,
    a: Double<L::V>,
    b: Double<L::V>,
) -> Double<L::V> {
    let hi = l.div(a.hi, b.hi);
    let negative = l.neg(hi);
    let rest = l.fma(negative, b.hi, a.hi);
    let rest = l.add(rest, a.lo);
    let rest = l.fma(negative, b.lo, rest);
    let lo = l.div(rest, b.hi);
    Double { hi, lo }
}

/// Square root of a double word that is at least 0.
#[inline(always)]
pub(super) fn square_root<T: Constants, L: Lanes<T>>(l: &mut L, a: Double<L::V>) -> Double<L::V> {
    let hi = l.sqrt(a.hi);
    let negative = l.neg(hi);
    let rest = l.fma(negative, hi, a.hi);
    let rest = l.add(rest, a.lo);
    let twice = l.add(hi, hi);
    let zero = l.float(T::ZERO);
    let is_zero = l.eq(hi, zero);
    let one = l.float(T::ONE);
    let divisor = l.select(is_zero, one, twice);
    let lo = l.div(rest, divisor);
    Double { hi, lo }
}

/// A double word constant.
#[inline(always)]
pub(super) fn constant<T: Constants, L: Lanes<T>>(l: &mut L, (hi, lo): (T, T)) -> Double<L::V> {
    Double { hi: l.float(hi), lo: l.float(lo) }
}

/// The polynomial with these coefficients, that of the lowest power first.
#[inline(always)]
pub(super) fn polynomial<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V, coefficients: &[T]) -> L::V {
    let degree = coefficients.len() - 1;
    let mut sum = l.float(coefficients[degree]);
    for i in (0..degree).rev() {
        let c = l.float(coefficients[i]);
        sum = l.fma(sum, x, c);
    }
    sum
}

/// `a`, or `-a` where `b` has a sign.
#[inline(always)]
pub(super) fn times_sign<T: Constants, L: Lanes<T>>(l: &mut L, a: L::V, b: L::V) -> L::V {
    let sign = l.to_bits(b);
    let sign = l.ushr(sign, T::WIDTH - 1);
    let sign = l.ishl(sign, T::WIDTH - 1);
    let bits = l.to_bits(a);
    let bits = l.ixor(bits, sign);
    l.from_bits(bits)
}

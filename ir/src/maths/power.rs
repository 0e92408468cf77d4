//! `pow`, `rsqrt`, `cbrt`, `rem`, `sign`.
//!
//! Methods: `pow` as `2^(y log2 |x|)` with the logarithm a double word, from `2 atanh s` by the series whose
//! first two terms and argument are double words; roots by Newton's method with residuals by fused
//! multiply-add.

use super::constants::Constants;
use super::double::{
    Double, add_small, add_to, constant, fast_two_sum, polynomial, product, quotient, times_sign, two_product,
};
use super::exp::{exp2_double, power_of_two};
use super::lanes::Lanes;
use super::log::{Split, split_any};

/// `log2 x` for positive finite `x`.
#[inline(always)]
fn log2_double<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> Double<L::V> {
    let Split { k, m } = split_any(l, x);
    let one = l.float(T::ONE);
    let f = l.sub(m, one);
    let two = l.float(T::TWO);
    let zero = l.float(T::ZERO);
    let sum = fast_two_sum(l, two, f);
    let s = quotient(l, Double { hi: f, lo: zero }, sum);
    let z = product(l, s, s);
    // 2 atanh s = 2 s (1 + z (1/3 + z (1/5 + ..)))
    let p = polynomial(l, z.hi, T::ATANH);
    let p = l.mul(p, z.hi);
    let third = constant(l, T::THIRD);
    let p = add_small(l, third, p);
    let p = product(l, p, z);
    let p = add_to(l, one, p);
    let p = product(l, p, s);
    let e = constant(l, T::LOG2_E);
    let e = Double { hi: l.add(e.hi, e.hi), lo: l.add(e.lo, e.lo) };
    let p = product(l, p, e);
    let k = l.from_int(k);
    add_to(l, k, p)
}

/// `|x|^y` for any `x` and `y`, except that 0 or 1 raised to something may give NaN.
#[inline(always)]
fn pow_of_size<T: Constants, L: Lanes<T>>(l: &mut L, size: L::V, y: L::V) -> L::V {
    let log = log2_double(l, size);
    let zero = l.float(T::ZERO);
    let infinity = l.float(T::INFINITY);
    let minus_infinity = l.float(T::MINUS_INFINITY);
    let finite = l.lt(size, infinity);
    let hi = l.select(finite, log.hi, size);
    let is_zero = l.eq(size, zero);
    let hi = l.select(is_zero, minus_infinity, hi);
    let main = two_product(l, hi, y);
    let lo = l.fma(log.lo, y, main.lo);
    exp2_double(l, Double { hi: main.hi, lo })
}

/// `x^y`, with the special values of C99 Annex F.
#[inline(always)]
pub(super) fn pow<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V, y: L::V) -> L::V {
    let size = l.abs(x);
    let power = pow_of_size(l, size, y);
    let zero = l.float(T::ZERO);
    let one = l.float(T::ONE);
    let whole = l.trunc(y);
    let is_integer = l.eq(y, whole);
    let half = l.float(T::HALF);
    let half_y = l.mul(y, half);
    let half_whole = l.trunc(half_y);
    let is_even = l.eq(half_y, half_whole);
    let is_fraction = l.not(is_integer);
    let is_not_odd = l.or(is_even, is_fraction);
    // (-1)^inf = 1
    let unit = l.eq(size, one);
    let size_of_y = l.abs(y);
    let infinity = l.float(T::INFINITY);
    let endless = l.eq(size_of_y, infinity);
    let level = l.and(unit, endless);
    let power = l.select(level, one, power);
    let sign = l.select(is_not_odd, zero, x);
    let signed = times_sign(l, power, sign);
    let minus_infinity = l.float(T::MINUS_INFINITY);
    let negative = l.lt(x, zero);
    let finite = l.lt(minus_infinity, x);
    let negative = l.and(negative, finite);
    let outside = l.and(negative, is_fraction);
    let nan = l.float(T::NAN);
    let signed = l.select(outside, nan, signed);
    let no_power = l.eq(y, zero);
    let is_one = l.eq(x, one);
    let is_trivial = l.or(no_power, is_one);
    l.select(is_trivial, one, signed)
}

/// `1 / sqrt x`.
#[inline(always)]
pub(super) fn rsqrt<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    // Small numbers are scaled so that the residual does not underflow; the root of the factor is a power of
    // two.
    let small = l.float(T::SMALL);
    let is_small = l.lt(x, small);
    let one = l.float(T::ONE);
    let up = l.float(T::EVEN_POWER);
    let factor = l.select(is_small, up, one);
    let scaled = l.mul(x, factor);
    let root = l.sqrt(scaled);
    let y = l.div(one, root);
    // sqrt = root + rest / (2 root), so y is to be multiplied by 1 + (1 - y root) - rest y^2 / 2.
    let minus_root = l.neg(root);
    let rest = l.fma(minus_root, root, scaled);
    let error = l.fma(minus_root, y, one);
    let square = l.mul(y, y);
    let minus_half = l.float(T::MINUS_HALF);
    let half_square = l.mul(minus_half, square);
    let error = l.fma(rest, half_square, error);
    let better = l.fma(y, error, y);
    let root_up = l.float(T::EVEN_POWER_ROOT);
    let back = l.select(is_small, root_up, one);
    let better = l.mul(better, back);
    // At zero and infinity the first quotient is right.
    let zero = l.float(T::ZERO);
    let infinity = l.float(T::INFINITY);
    let positive = l.lt(zero, x);
    let finite = l.lt(x, infinity);
    let ordinary = l.and(positive, finite);
    l.select(ordinary, better, y)
}

/// Cube root.
#[inline(always)]
pub(super) fn cbrt<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let size = l.abs(x);
    // |x| = 2^3q 2^j m with j from -1 to 1.
    let Split { k, m } = split_any(l, size);
    let exponent = l.from_int(k);
    let third = l.float(T::THIRD.0);
    let q = l.mul(exponent, third);
    let q = l.nearest(q);
    let q = l.to_int(q);
    let twice = l.iadd(q, q);
    let thrice = l.iadd(twice, q);
    let j = l.isub(k, thrice);
    let power = power_of_two(l, j);
    let v = l.mul(m, power);
    let y = polynomial(l, m, T::CBRT);
    let none = l.int(0);
    let is_below = l.ilt(j, none);
    let is_above = l.ilt(none, j);
    let one = l.float(T::ONE);
    let root = l.float(T::CBRT_HALF);
    let factor = l.select(is_below, root, one);
    let root = l.float(T::CBRT_TWO);
    let factor = l.select(is_above, root, factor);
    let mut y = l.mul(y, factor);
    let three = l.float(T::THREE);
    for _ in 0..T::CBRT_STEPS {
        let square = two_product(l, y, y);
        let minus = l.neg(y);
        let rest = l.fma(minus, square.hi, v);
        let rest = l.fma(minus, square.lo, rest);
        let slope = l.mul(three, square.hi);
        let step = l.div(rest, slope);
        y = l.add(y, step);
    }
    let scale = power_of_two(l, q);
    let y = l.mul(y, scale);
    let y = times_sign(l, y, x);
    let zero = l.float(T::ZERO);
    let infinity = l.float(T::INFINITY);
    let positive = l.lt(zero, size);
    let finite = l.lt(size, infinity);
    let ordinary = l.and(positive, finite);
    l.select(ordinary, y, x)
}

/// Remainder of the quotient towards zero, exact, with the sign of `x`.
#[inline(always)]
pub(super) fn rem<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V, y: L::V) -> L::V {
    let (a, b) = (l.abs(x), l.abs(y));
    let ratio = l.div(a, b);
    let q = l.trunc(ratio);
    let minus_q = l.neg(q);
    // The rounded quotient may be one too large.
    let rest = l.fma(minus_q, b, a);
    let zero = l.float(T::ZERO);
    let is_over = l.lt(rest, zero);
    let corrected = l.add(rest, b);
    let rest = l.select(is_over, corrected, rest);
    let is_less = l.lt(a, b);
    let rest = l.select(is_less, a, rest);
    let rest = times_sign(l, rest, x);
    let limit = l.float(T::REM_LIMIT);
    let is_large = l.lt(limit, ratio);
    l.slow2(is_large, rest, x, y, T::SLOW_REM)
}

/// -1, 1, or `x` where it is a zero or NaN.
#[inline(always)]
pub(super) fn sign<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let zero = l.float(T::ZERO);
    let one = l.float(T::ONE);
    let minus_one = l.float(T::MINUS_ONE);
    let positive = l.lt(zero, x);
    let negative = l.lt(x, zero);
    let y = l.select(negative, minus_one, x);
    l.select(positive, one, y)
}

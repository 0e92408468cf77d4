//! `log`, `log2`, `log1p`.
//!
//! Method: `x = 2^k m` with `sqrt(1/2) <= m < sqrt 2`, `f = m - 1`, `s = f / (2 + f)`; then `log m = 2 atanh
//! s = f - f^2/2 + s (f^2/2 + s^2 R(s^2))`, where `f` has no error and what follows is small (the arrangement
//! is that of K. C. Ng's log for 4.3BSD).

use super::constants::Constants;
use super::double::{Double, constant, fast_two_sum, polynomial, two_product, two_sum};
use super::exp::power_of_two;
use super::lanes::Lanes;

/// `x = 2^k m`.
pub(super) struct Split<L: Lanes<T>, T: Constants> {
    pub(super) k: L::I,
    pub(super) m: L::V,
}

/// Splits a positive normal number.
#[inline(always)]
pub(super) fn split<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> Split<L, T> {
    let bits = l.to_bits(x);
    let least = l.int(T::SQRT_HALF_BITS);
    let above = l.isub(bits, least);
    let k = l.sshr(above, T::MANTISSA);
    let exponent = l.ishl(k, T::MANTISSA);
    let bits = l.isub(bits, exponent);
    Split { k, m: l.from_bits(bits) }
}

/// Splits a positive number.
#[inline(always)]
pub(super) fn split_any<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> Split<L, T> {
    let least = l.float(T::LEAST_NORMAL);
    let subnormal = l.lt(x, least);
    let up = l.float(T::TWO_TO_MANTISSA);
    let scaled = l.mul(x, up);
    let x = l.select(subnormal, scaled, x);
    let Split { k, m } = split(l, x);
    let shift = l.int(i64::from(T::MANTISSA));
    let less = l.isub(k, shift);
    Split { k: l.iselect(subnormal, less, k), m }
}

/// `log(1 + f) = f - f^2/2 + s rest`.
struct Series<V> {
    half_f: V,
    half_square: V,
    s: V,
    rest: V,
}

/// The series for `1 + f` between `sqrt(1/2)` and `sqrt 2`.
#[inline(always)]
fn series<T: Constants, L: Lanes<T>>(l: &mut L, f: L::V) -> Series<L::V> {
    let two = l.float(T::TWO);
    let sum = l.add(two, f);
    let s = l.div(f, sum);
    let z = l.mul(s, s);
    let r = polynomial(l, z, T::LOG);
    let half = l.float(T::HALF);
    let half_f = l.mul(half, f);
    let half_square = l.mul(half_f, f);
    Series { half_f, half_square, s, rest: l.fma(z, r, half_square) }
}

/// `log(1 + f) - f` for `1 + f` between `sqrt(1/2)` and `sqrt 2`.
#[inline(always)]
fn beyond_linear<T: Constants, L: Lanes<T>>(l: &mut L, f: L::V) -> L::V {
    let Series { half_square, s, rest, .. } = series(l, f);
    let negative = l.neg(half_square);
    l.fma(s, rest, negative)
}

/// `k ln 2 + main + small`.
#[inline(always)]
fn assemble<T: Constants, L: Lanes<T>>(l: &mut L, k: L::I, main: L::V, small: L::V) -> L::V {
    let k = l.from_int(k);
    let high = l.float(T::LN2_CUT.0);
    let low = l.float(T::LN2_CUT.1);
    let base = l.mul(k, high);
    let sum = fast_two_sum(l, base, main);
    let rest = l.fma(k, low, small);
    let rest = l.add(rest, sum.lo);
    l.add(sum.hi, rest)
}

/// The values of a logarithm at 0 (minus infinity), below (NaN) and at infinity, else `y`. NaN where `x` is.
#[inline(always)]
pub(super) fn at_the_ends<T: Constants, L: Lanes<T>>(l: &mut L, y: L::V, x: L::V) -> L::V {
    let infinity = l.float(T::INFINITY);
    let finite = l.lt(x, infinity);
    let y = l.select(finite, y, x);
    let zero = l.float(T::ZERO);
    let is_zero = l.eq(x, zero);
    let minus_infinity = l.float(T::MINUS_INFINITY);
    let nan = l.float(T::NAN);
    let otherwise = l.select(is_zero, minus_infinity, nan);
    let positive = l.lt(zero, x);
    l.select(positive, y, otherwise)
}

/// Natural logarithm.
#[inline(always)]
pub(super) fn log<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let Split { k, m } = split_any(l, x);
    let one = l.float(T::ONE);
    let f = l.sub(m, one);
    let small = beyond_linear(l, f);
    let y = assemble(l, k, f, small);
    at_the_ends(l, y, x)
}

/// `log(1 + f)` for `1 + f` between `sqrt(1/2)` and `sqrt 2`, the square exact, as a sum of two floats.
#[inline(always)]
fn near_one<T: Constants, L: Lanes<T>>(l: &mut L, f: L::V) -> Double<L::V> {
    let Series { half_f, half_square, s, rest } = series(l, f);
    let minus_half_square = l.neg(half_square);
    let log = fast_two_sum(l, f, minus_half_square);
    let square_error = l.fma(half_f, f, minus_half_square);
    let low = l.sub(log.lo, square_error);
    Double { hi: log.hi, lo: l.fma(s, rest, low) }
}

/// Logarithm to base 2: the natural one times `log2 e`, both double words.
#[inline(always)]
pub(super) fn log2<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let Split { k, m } = split_any(l, x);
    let one = l.float(T::ONE);
    let f = l.sub(m, one);
    let log = near_one(l, f);
    let e = constant(l, T::LOG2_E);
    let main = two_product(l, log.hi, e.hi);
    let low = l.fma(log.lo, e.hi, main.lo);
    let low = l.fma(log.hi, e.lo, low);
    let k = l.from_int(k);
    let sum = fast_two_sum(l, k, main.hi);
    let low = l.add(low, sum.lo);
    let y = l.add(sum.hi, low);
    at_the_ends(l, y, x)
}

/// `log(u.hi + u.lo + tail) + extra ln 2` for a positive normal `u.hi`, where each is at most about a
/// rounding error of the one before. Relatively accurate where `u` is near 1.
#[inline(always)]
pub(super) fn log_double<T: Constants, L: Lanes<T>>(
    l: &mut L,
    u: Double<L::V>,
    tail: L::V,
    extra: L::I,
) -> L::V {
    let Split { k, m } = split(l, u.hi);
    let one = l.float(T::ONE);
    let f = l.sub(m, one);
    let log = near_one(l, f);
    // Scaling by 2^-k in two steps, as k may be the greatest exponent.
    let zero = l.int(0);
    let down = l.isub(zero, k);
    let half = l.sshr(down, 1);
    let other = l.isub(down, half);
    let first = power_of_two(l, half);
    let second = power_of_two(l, other);
    let c = l.mul(u.lo, first);
    let c = l.mul(c, second);
    let tail = l.mul(tail, first);
    let tail = l.mul(tail, second);
    // log(m + c) = log m + d - d^2 / 2 with d = c / m = c - c f / m. Near m = 1 all but c is tiny, and is
    // added up before c is.
    let slope = l.div(f, m);
    let both = l.add(c, tail);
    let minus = l.neg(both);
    let d = l.fma(minus, slope, both);
    let minus_half = l.float(T::MINUS_HALF);
    let half_d = l.mul(minus_half, d);
    let tail = l.fma(minus, slope, tail);
    let tail = l.fma(half_d, d, tail);
    let tail = l.add(log.lo, tail);
    let small = l.add(c, tail);
    let k = l.iadd(k, extra);
    assemble(l, k, log.hi, small)
}

/// `log(1 + x)`: `1 + x` is a double word.
#[inline(always)]
pub(super) fn log1p<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let one = l.float(T::ONE);
    let u = two_sum(l, one, x);
    let zero = l.float(T::ZERO);
    let none = l.int(0);
    let y = log_double(l, u, zero, none);
    let y = at_the_ends(l, y, u.hi);
    super::exp::keep_tiny(l, y, x)
}

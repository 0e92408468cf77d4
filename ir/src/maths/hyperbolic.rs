//! `sinh`, `cosh`, `tanh`, `logistic`, `asinh`, `acosh`, `atanh`.
//!
//! Methods: exponentials as double words, so that the definitions through `e^x` lose nothing, and the inverse
//! functions as logarithms of double words.

use super::constants::Constants;
use super::double::{
    Double, add_to, fast_two_sum, polynomial, quotient, square_root, times_sign, two_product, two_sum,
};
use super::exp::{Reduced, exp_reduced, expm1_double, power_of_two, reduce, scale_factors};
use super::lanes::Lanes;
use super::log::log_double;

/// `e^x / 4` and `e^-x / 4` for `x >= 0` up to `SINH_HIGH`.
#[inline(always)]
fn quarters<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> (Double<L::V>, L::V) {
    let Reduced { n, r } = reduce(l, x);
    let e = exp_reduced(l, r);
    let n = l.to_int(n);
    let two = l.int(2);
    let n = l.isub(n, two);
    let power = power_of_two(l, n);
    let up = Double { hi: l.mul(e.hi, power), lo: l.mul(e.lo, power) };
    let sixteenth = l.float(T::SIXTEENTH);
    (up, l.div(sixteenth, up.hi))
}

#[inline(always)]
fn overflowing<T: Constants, L: Lanes<T>>(l: &mut L, y: L::V, size: L::V) -> L::V {
    let high = l.float(T::SINH_HIGH);
    let above = l.lt(high, size);
    let infinity = l.float(T::INFINITY);
    l.select(above, infinity, y)
}

/// Hyperbolic sine: a polynomial below 1.
#[inline(always)]
pub(super) fn sinh<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let size = l.abs(x);
    let (up, down) = quarters(l, size);
    let low = l.sub(up.lo, down);
    let half = l.add(up.hi, low);
    let large = l.add(half, half);
    let large = overflowing(l, large, size);
    let z = l.mul(size, size);
    let p = polynomial(l, z, T::SINH);
    let cube = l.mul(z, size);
    let small = l.fma(cube, p, size);
    let one = l.float(T::ONE);
    let is_small = l.lt(size, one);
    let y = l.select(is_small, small, large);
    times_sign(l, y, x)
}

/// Hyperbolic cosine.
#[inline(always)]
pub(super) fn cosh<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let size = l.abs(x);
    let (up, down) = quarters(l, size);
    let low = l.add(up.lo, down);
    let half = l.add(up.hi, low);
    let y = l.add(half, half);
    overflowing(l, y, size)
}

/// Hyperbolic tangent: `(e^2x - 1) / (e^2x - 1 + 2)`.
#[inline(always)]
pub(super) fn tanh<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let size = l.abs(x);
    let limit = l.float(T::TANH_LIMIT);
    let above = l.lt(limit, size);
    let size = l.select(above, limit, size);
    let twice = l.add(size, size);
    let e = expm1_double(l, twice);
    let two = l.float(T::TWO);
    let below = add_to(l, two, e);
    let y = quotient(l, e, below);
    let y = l.add(y.hi, y.lo);
    times_sign(l, y, x)
}

/// `1 / (1 + e^-x)`: with `a = e^-|x|`, `1 / (1 + a)` or `a / (1 + a)`.
#[inline(always)]
pub(super) fn logistic<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let size = l.abs(x);
    let minus = l.neg(size);
    let low = l.float(T::EXP_LOW);
    let below = l.lt(minus, low);
    let minus = l.select(below, low, minus);
    let Reduced { n, r } = reduce(l, minus);
    let e = exp_reduced(l, r);
    let (first, second) = scale_factors(l, n);
    let hi = l.mul(e.hi, first);
    let hi = l.mul(hi, second);
    let lo = l.mul(e.lo, first);
    let lo = l.mul(lo, second);
    let one = l.float(T::ONE);
    let sum = fast_two_sum(l, one, hi);
    let sum = Double { hi: sum.hi, lo: l.add(sum.lo, lo) };
    // The numerator stays unscaled until the end, as the result may be subnormal.
    let zero = l.float(T::ZERO);
    let negative = l.lt(x, zero);
    let above = Double { hi: l.select(negative, e.hi, one), lo: l.select(negative, e.lo, zero) };
    let inverse = l.div(one, sum.hi);
    let hi = l.mul(above.hi, inverse);
    let minus = l.neg(hi);
    let rest = l.fma(minus, sum.hi, above.hi);
    let rest = l.fma(minus, sum.lo, rest);
    let rest = l.add(rest, above.lo);
    let y = l.fma(rest, inverse, hi);
    let first = l.select(negative, first, one);
    let second = l.select(negative, second, one);
    let y = l.mul(y, first);
    l.mul(y, second)
}

/// Inverse hyperbolic sine: `log(|x| + sqrt(x^2 + 1))`.
#[inline(always)]
pub(super) fn asinh<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let size = l.abs(x);
    let one = l.float(T::ONE);
    let square = two_product(l, size, size);
    let sum = add_to(l, one, square);
    let root = square_root(l, sum);
    let y = log_of_sum(l, size, root);
    times_sign(l, y, x)
}

/// Inverse hyperbolic cosine: `log(x + sqrt(x^2 - 1))`.
#[inline(always)]
pub(super) fn acosh<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let minus_one = l.float(T::MINUS_ONE);
    let square = two_product(l, x, x);
    let sum = add_to(l, minus_one, square);
    let root = square_root(l, sum);
    let y = log_of_sum(l, x, root);
    let one = l.float(T::ONE);
    let outside = l.lt(x, one);
    let nan = l.float(T::NAN);
    l.select(outside, nan, y)
}

/// `log(x + root)`, or `log 2x` for `x` so large that `root` is `x`.
#[inline(always)]
fn log_of_sum<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V, root: Double<L::V>) -> L::V {
    let sum = two_sum(l, root.hi, x);
    let low = two_sum(l, sum.lo, root.lo);
    let limit = l.float(T::TWO_TO_MANTISSA);
    let is_large = l.lt(limit, x);
    let zero = l.float(T::ZERO);
    let u = Double { hi: l.select(is_large, x, sum.hi), lo: l.select(is_large, zero, low.hi) };
    let tail = l.select(is_large, zero, low.lo);
    let one = l.int(1);
    let none = l.int(0);
    let doubled = l.iselect(is_large, one, none);
    let y = log_double(l, u, tail, doubled);
    let infinity = l.float(T::INFINITY);
    let finite = l.lt(x, infinity);
    l.select(finite, y, x)
}

/// Inverse hyperbolic tangent: half of `log(1 + 2x / (1 - x))`.
#[inline(always)]
pub(super) fn atanh<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let size = l.abs(x);
    let one = l.float(T::ONE);
    let zero = l.float(T::ZERO);
    let minus = l.neg(size);
    let below = fast_two_sum(l, one, minus);
    let twice = l.add(size, size);
    let q = quotient(l, Double { hi: twice, lo: zero }, below);
    let u = two_sum(l, one, q.hi);
    let none = l.int(0);
    let y = log_double(l, u, q.lo, none);
    let half = l.float(T::HALF);
    let y = l.mul(y, half);
    let at_end = l.eq(size, one);
    let infinity = l.float(T::INFINITY);
    let y = l.select(at_end, infinity, y);
    let outside = l.lt(one, size);
    let nan = l.float(T::NAN);
    let y = l.select(outside, nan, y);
    times_sign(l, y, x)
}

//! `sin`, `cos`, `tan`.
//!
//! Method: `x = n pi/2 + r` with `|r| <= pi/4`, `pi/2` in three floats (Cody and Waite; the first step is
//! exact with a fused multiply-add), `r` a double word; minimax polynomials for sine and cosine of `r`; the
//! quadrant chooses. Beyond `TRIG_LIMIT` the slow functions reduce by all the bits of `2/pi` that matter
//! (Payne and Hanek 1983).

use super::constants::Constants;
use super::double::{Double, fast_two_sum, polynomial, quotient, times_sign, two_product, two_sum};
use super::lanes::Lanes;

/// `x = n pi/2 + r.hi + r.lo`.
pub(super) struct Quadrant<N, V> {
    pub(super) n: N,
    pub(super) r: Double<V>,
}

/// Reduces `x` of magnitude up to `TRIG_LIMIT`.
#[inline(always)]
fn reduce<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> Quadrant<L::I, L::V> {
    let inverse = l.float(T::TWO_OVER_PI);
    let quotient = l.mul(x, inverse);
    let n = l.nearest(quotient);
    let negative = l.neg(n);
    let [first, second, third] = T::HALF_PI.map(|c| l.float(c));
    let rest = l.fma(negative, first, x);
    let product = two_product(l, negative, second);
    let sum = two_sum(l, rest, product.hi);
    let lo = l.add(sum.lo, product.lo);
    let lo = l.fma(negative, third, lo);
    Quadrant { n: l.to_int(n), r: fast_two_sum(l, sum.hi, lo) }
}

/// `sin(r) - r.hi`.
#[inline(always)]
fn sine_beyond_linear<T: Constants, L: Lanes<T>>(l: &mut L, r: Double<L::V>, z: L::V) -> L::V {
    let p = polynomial(l, z, T::SIN);
    let cube = l.mul(r.hi, z);
    // The low word counts times cos r = 1 - z / 2.
    let minus_half = l.float(T::MINUS_HALF);
    let slope = l.mul(minus_half, z);
    let low = l.fma(slope, r.lo, r.lo);
    l.fma(cube, p, low)
}

/// `cos(r)` as a sum of two floats, the first within a rounding error of it or `z / 2` of it.
#[inline(always)]
fn cosine<T: Constants, L: Lanes<T>>(l: &mut L, r: Double<L::V>, z: L::V) -> Double<L::V> {
    let p = polynomial(l, z, T::COS);
    let one = l.float(T::ONE);
    let minus_half = l.float(T::MINUS_HALF);
    let half = l.mul(minus_half, z);
    let sum = fast_two_sum(l, one, half);
    let fourth = l.mul(z, z);
    let negative = l.neg(r.hi);
    let low = l.fma(negative, r.lo, sum.lo);
    Double { hi: sum.hi, lo: l.fma(fourth, p, low) }
}

/// The sine if `n` is even, else the cosine; negative in the upper two quadrants.
#[inline(always)]
pub(super) fn sine_in_quadrant<T: Constants, L: Lanes<T>>(l: &mut L, q: Quadrant<L::I, L::V>) -> L::V {
    let z = l.mul(q.r.hi, q.r.hi);
    let rest = sine_beyond_linear(l, q.r, z);
    let cos = cosine(l, q.r, z);
    let odd = is_odd(l, q.n);
    let hi = l.select(odd, cos.hi, q.r.hi);
    let lo = l.select(odd, cos.lo, rest);
    let y = l.add(hi, lo);
    let upper = l.ushr(q.n, 1);
    let sign = l.ishl(upper, T::WIDTH - 1);
    let bits = l.to_bits(y);
    let bits = l.ixor(bits, sign);
    l.from_bits(bits)
}

/// The cosine: the sine a quadrant on.
#[inline(always)]
pub(super) fn cosine_in_quadrant<T: Constants, L: Lanes<T>>(l: &mut L, q: Quadrant<L::I, L::V>) -> L::V {
    let one = l.int(1);
    let n = l.iadd(q.n, one);
    sine_in_quadrant(l, Quadrant { n, r: q.r })
}

/// The tangent: the quotient of sine and cosine in double words, or its negative inverse.
#[inline(always)]
pub(super) fn tangent_in_quadrant<T: Constants, L: Lanes<T>>(l: &mut L, q: Quadrant<L::I, L::V>) -> L::V {
    let z = l.mul(q.r.hi, q.r.hi);
    let rest = sine_beyond_linear(l, q.r, z);
    let sin = fast_two_sum(l, q.r.hi, rest);
    let cos = cosine(l, q.r, z);
    let cos = fast_two_sum(l, cos.hi, cos.lo);
    let minus_sin = Double { hi: l.neg(sin.hi), lo: l.neg(sin.lo) };
    let odd = is_odd(l, q.n);
    let above = Double { hi: l.select(odd, cos.hi, sin.hi), lo: l.select(odd, cos.lo, sin.lo) };
    let below = Double { hi: l.select(odd, minus_sin.hi, cos.hi), lo: l.select(odd, minus_sin.lo, cos.lo) };
    let y = quotient(l, above, below);
    l.add(y.hi, y.lo)
}

#[inline(always)]
fn is_odd<T: Constants, L: Lanes<T>>(l: &mut L, n: L::I) -> L::M {
    let one = l.int(1);
    let low = l.iand(n, one);
    l.ieq(low, one)
}

#[inline(always)]
fn is_huge<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::M {
    let size = l.abs(x);
    let limit = l.float(T::TRIG_LIMIT);
    l.lt(limit, size)
}

/// Sine.
#[inline(always)]
pub(super) fn sin<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    // The reduction of -0 is +0.
    let size = l.abs(x);
    let q = reduce(l, size);
    let y = sine_in_quadrant(l, q);
    let y = times_sign(l, y, x);
    let huge = is_huge(l, x);
    l.slow(huge, y, x, T::SLOW_SIN)
}

/// Cosine.
#[inline(always)]
pub(super) fn cos<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let q = reduce(l, x);
    let y = cosine_in_quadrant(l, q);
    let huge = is_huge(l, x);
    l.slow(huge, y, x, T::SLOW_COS)
}

/// Tangent.
#[inline(always)]
pub(super) fn tan<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let size = l.abs(x);
    let q = reduce(l, size);
    let y = tangent_in_quadrant(l, q);
    let y = times_sign(l, y, x);
    let huge = is_huge(l, x);
    l.slow(huge, y, x, T::SLOW_TAN)
}

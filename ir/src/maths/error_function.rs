//! `erf`, `erfc`.
//!
//! Methods: `erf` below 1 a polynomial, above `1 - e^-Q` with `Q` a polynomial fitted to `-log erfc`; `erfc`
//! from 1/2 on as `e^-x^2 H(t) / (1 + 2x)` with `t = (x - K)/(x + K)`, which maps the half line to an
//! interval on which `H` is nearly flat (Shepherd and Laframboise 1981). All polynomials minimax.

use super::constants::Constants;
use super::double::{
    Double, constant, fast_two_sum, polynomial, product, quotient, times_sign, two_product, two_sum,
};
use super::exp::{Reduced, beyond_linear, exp_reduced, power_of_two, reduce, scale};
use super::lanes::Lanes;

/// Error function.
#[inline(always)]
pub(super) fn erf<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let size = l.abs(x);
    let z = l.mul(size, size);
    let p = polynomial(l, z, T::ERF);
    let small = l.fma(size, p, size);
    let one = l.float(T::ONE);
    let t = l.sub(size, one);
    let q = polynomial(l, t, T::ERF_TAIL);
    let minus_q = l.neg(q);
    let Reduced { n, r } = reduce(l, minus_q);
    let rest = beyond_linear(l, r);
    let e = l.add(r.hi, rest);
    let n = l.to_int(n);
    let power = power_of_two(l, n);
    // 1 - 2^n (1 + e)
    let minus_power = l.neg(power);
    let base = l.sub(one, power);
    let large = l.fma(minus_power, e, base);
    let limit = l.float(T::ERF_LIMIT);
    let above = l.lt(limit, size);
    let large = l.select(above, one, large);
    let is_small = l.lt(size, one);
    let y = l.select(is_small, small, large);
    times_sign(l, y, x)
}

/// Complementary error function.
#[inline(always)]
pub(super) fn erfc<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let size = l.abs(x);
    let large = erfc_large(l, size);
    let two = l.float(T::TWO);
    let reflected = l.sub(two, large);
    let zero = l.float(T::ZERO);
    let negative = l.lt(x, zero);
    let large = l.select(negative, reflected, large);
    // 1 - erf
    let z = l.mul(x, x);
    let p = polynomial(l, z, T::ERF);
    let one = l.float(T::ONE);
    let minus_x = l.neg(x);
    let main = fast_two_sum(l, one, minus_x);
    let low = l.fma(minus_x, p, main.lo);
    let small = l.add(main.hi, low);
    let half = l.float(T::HALF);
    let is_small = l.lt(size, half);
    l.select(is_small, small, large)
}

/// `erfc x` for `x >= 1/2`.
#[inline(always)]
fn erfc_large<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let k = l.float(T::ERFC_MIDDLE);
    let minus_k = l.neg(k);
    let above = two_sum(l, x, minus_k);
    let below = two_sum(l, x, k);
    let t = quotient(l, above, below);
    let h = flat(l, t);
    let square = two_product(l, x, x);
    let minus = l.neg(square.hi);
    let Reduced { n, r } = reduce(l, minus);
    let low = l.sub(r.lo, square.lo);
    let r = two_sum(l, r.hi, low);
    let e = exp_reduced(l, r);
    let y = product(l, e, h);
    let twice = l.add(x, x);
    let one = l.float(T::ONE);
    let divisor = two_sum(l, one, twice);
    let y = quotient(l, y, divisor);
    let y = l.add(y.hi, y.lo);
    let y = scale(l, y, n);
    let limit = l.float(T::ERFC_LIMIT);
    let beyond = l.lt(limit, x);
    let zero = l.float(T::ZERO);
    l.select(beyond, zero, y)
}

/// `H(t) = (1 + 2x) e^x^2 erfc x`.
#[inline(always)]
fn flat<T: Constants, L: Lanes<T>>(l: &mut L, t: Double<L::V>) -> Double<L::V> {
    let p = polynomial(l, t.hi, T::ERFC);
    let rest = two_product(l, p, t.hi);
    let base = constant(l, T::ERFC_BASE);
    let sum = fast_two_sum(l, base.hi, rest.hi);
    let low = l.add(sum.lo, base.lo);
    let low = l.add(low, rest.lo);
    // The low word of t times an estimate of the slope.
    let c = l.float(T::ERFC[0]);
    let twice = l.float(T::ERFC[1]);
    let twice = l.add(twice, twice);
    let slope = l.fma(twice, t.hi, c);
    let low = l.fma(slope, t.lo, low);
    fast_two_sum(l, sum.hi, low)
}

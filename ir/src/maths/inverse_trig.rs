//! `asin`, `acos`, `atan`, `atan2`.
//!
//! Methods: `atan` of a quotient by the angle differences `pi/4` and `pi/2`, which leave `|t| <= tan(pi/8)`,
//! with `t` a double word; `asin` below 1/2 directly, above by `asin x = pi/2 - 2 asin sqrt((1 - x)/2)`;
//! minimax polynomials.

use super::constants::Constants;
use super::double::{Double, constant, fast_two_sum, polynomial, quotient, square_root, times_sign, two_sum};
use super::lanes::Lanes;

/// The angle of the point `(x, y)`, both at least 0 and not both 0, as a sum of two floats, the second far
/// smaller.
#[inline(always)]
fn angle<T: Constants, L: Lanes<T>>(l: &mut L, y: L::V, x: L::V) -> Double<L::V> {
    let zero = l.float(T::ZERO);
    let limit = l.float(T::TAN_EIGHTH);
    let scaled = l.mul(x, limit);
    let is_low = l.le(y, scaled);
    let scaled = l.mul(y, limit);
    let is_high = l.lt(x, scaled);
    let minus_x = l.neg(x);
    let difference = two_sum(l, y, minus_x);
    let sum = two_sum(l, y, x);
    let mut choose = |low, middle, high| {
        let other = l.select(is_high, high, middle);
        l.select(is_low, low, other)
    };
    let above = Double { hi: choose(y, difference.hi, minus_x), lo: choose(zero, difference.lo, zero) };
    let below = Double { hi: choose(x, sum.hi, y), lo: choose(zero, sum.lo, zero) };
    let half = constant(l, (T::HALF_PI[0], T::HALF_PI[1]));
    let one_half = l.float(T::HALF);
    let quarter = Double { hi: l.mul(half.hi, one_half), lo: l.mul(half.lo, one_half) };
    let mut choose = |low, middle, high| {
        let other = l.select(is_high, high, middle);
        l.select(is_low, low, other)
    };
    let base = Double { hi: choose(zero, quarter.hi, half.hi), lo: choose(zero, quarter.lo, half.lo) };
    let t = quotient(l, above, below);
    let z = l.mul(t.hi, t.hi);
    let p = polynomial(l, z, T::ATAN);
    let cube = l.mul(z, t.hi);
    let minus_z = l.neg(z);
    let low = l.fma(minus_z, t.lo, t.lo);
    let low = l.add(low, base.lo);
    let rest = l.fma(cube, p, low);
    let main = fast_two_sum(l, base.hi, t.hi);
    Double { hi: main.hi, lo: l.add(main.lo, rest) }
}

/// Arc tangent.
#[inline(always)]
pub(super) fn atan<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    // Beyond two to the mantissa's square the angle rounds to pi/2 all the same.
    let size = l.abs(x);
    let limit = l.float(T::TWO_TO_MANTISSA);
    let limit = l.mul(limit, limit);
    let above = l.lt(limit, size);
    let size = l.select(above, limit, size);
    let one = l.float(T::ONE);
    let y = angle(l, size, one);
    let y = l.add(y.hi, y.lo);
    times_sign(l, y, x)
}

/// Angle of the point `(x, y)`.
#[inline(always)]
pub(super) fn atan2<T: Constants, L: Lanes<T>>(l: &mut L, y: L::V, x: L::V) -> L::V {
    let (height, width) = (l.abs(y), l.abs(x));
    let zero = l.float(T::ZERO);
    let one = l.float(T::ONE);
    // An infinite coordinate counts 1 and a finite one beside it 0; (0, 0) counts as (1, 0).
    let infinity = l.float(T::INFINITY);
    let tall = l.eq(height, infinity);
    let wide = l.eq(width, infinity);
    let a = l.select(wide, zero, height);
    let a = l.select(tall, one, a);
    let b = l.select(tall, zero, width);
    let b = l.select(wide, one, b);
    let flat = l.eq(a, zero);
    let narrow = l.eq(b, zero);
    let origin = l.and(flat, narrow);
    let b = l.select(origin, one, b);
    // Scaled so that no sum overflows and no rounding error of a quotient underflows.
    let taller = l.lt(b, a);
    let larger = l.select(taller, a, b);
    let large = l.float(T::LARGE);
    let small = l.float(T::SMALL);
    let is_large = l.lt(large, larger);
    let is_small = l.lt(larger, small);
    let down = l.float(T::HALF);
    let down = l.mul(down, down);
    let up = l.float(T::TWO_TO_MANTISSA);
    let factor = l.select(is_large, down, one);
    let factor = l.select(is_small, up, factor);
    let a = l.mul(a, factor);
    let b = l.mul(b, factor);
    let right = angle(l, a, b);
    let bits = l.to_bits(x);
    let none = l.int(0);
    let is_left = l.ilt(bits, none);
    let minus = l.neg(right.hi);
    let turn = constant(l, T::PI);
    let main = fast_two_sum(l, turn.hi, minus);
    let low = l.sub(turn.lo, right.lo);
    let low = l.add(main.lo, low);
    let hi = l.select(is_left, main.hi, right.hi);
    let lo = l.select(is_left, low, right.lo);
    let angle = l.add(hi, lo);
    let angle = times_sign(l, angle, y);
    let x_is_number = l.eq(x, x);
    let y_is_number = l.eq(y, y);
    let numbers = l.and(x_is_number, y_is_number);
    let nan = l.float(T::NAN);
    l.select(numbers, angle, nan)
}

/// `asin s` and what it is to be taken of: for `|x| <= 1/2` that of `|x|`, else half the complement.
struct Arc<M, V> {
    is_small: M,
    s: V,
    /// `asin s - s`.
    rest: V,
}

#[inline(always)]
fn arc<T: Constants, L: Lanes<T>>(l: &mut L, size: L::V) -> Arc<L::M, L::V> {
    let half = l.float(T::HALF);
    let is_small = l.le(size, half);
    let square = l.mul(size, size);
    let minus_half = l.float(T::MINUS_HALF);
    let complement = l.fma(size, minus_half, half);
    let zero = l.float(T::ZERO);
    let root = square_root(l, Double { hi: complement, lo: zero });
    let z = l.select(is_small, square, complement);
    let s = l.select(is_small, size, root.hi);
    let low = l.select(is_small, zero, root.lo);
    let p = polynomial(l, z, T::ASIN);
    let cube = l.mul(s, z);
    Arc { is_small, s, rest: l.fma(cube, p, low) }
}

/// Arc sine.
#[inline(always)]
pub(super) fn asin<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let size = l.abs(x);
    let Arc { is_small, s, rest } = arc(l, size);
    let direct = l.add(s, rest);
    let minus_two = l.float(T::MINUS_TWO);
    let twice = l.mul(minus_two, s);
    let half_pi = constant(l, (T::HALF_PI[0], T::HALF_PI[1]));
    let main = fast_two_sum(l, half_pi.hi, twice);
    let low = l.fma(minus_two, rest, half_pi.lo);
    let low = l.add(main.lo, low);
    let other = l.add(main.hi, low);
    let y = l.select(is_small, direct, other);
    times_sign(l, y, x)
}

/// Arc cosine.
#[inline(always)]
pub(super) fn acos<T: Constants, L: Lanes<T>>(l: &mut L, x: L::V) -> L::V {
    let size = l.abs(x);
    let Arc { is_small, s, rest } = arc(l, size);
    let zero = l.float(T::ZERO);
    let negative = l.lt(x, zero);
    // pi/2 - asin x; 2 asin s; pi - 2 asin s.
    let two = l.float(T::TWO);
    let minus_two = l.float(T::MINUS_TWO);
    let one = l.float(T::ONE);
    let minus_one = l.float(T::MINUS_ONE);
    let small_factor = l.select(negative, one, minus_one);
    let large_factor = l.select(negative, minus_two, two);
    let factor = l.select(is_small, small_factor, large_factor);
    let half_pi = constant(l, (T::HALF_PI[0], T::HALF_PI[1]));
    let pi = constant(l, T::PI);
    let hi = l.select(negative, pi.hi, zero);
    let hi = l.select(is_small, half_pi.hi, hi);
    let lo = l.select(negative, pi.lo, zero);
    let lo = l.select(is_small, half_pi.lo, lo);
    let main = l.mul(factor, s);
    let main = fast_two_sum(l, hi, main);
    let low = l.fma(factor, rest, lo);
    let low = l.add(main.lo, low);
    l.add(main.hi, low)
}

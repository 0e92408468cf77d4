//! The machine of plain numbers: one lane.

use super::lanes::{IntLanes, Lanes, Slow, Slow2};

/// One number at a time, with Rust's own operations.
#[derive(Clone, Copy, Default, Debug)]
pub struct Plain;

macro_rules! plain_float {
    ($t:ty, $int:ty, $bits:ty) => {
        impl Lanes<$t> for Plain {
            type V = $t;
            type I = $int;
            type M = bool;

            #[inline(always)]
            fn float(&mut self, value: $t) -> $t {
                value
            }
            #[inline(always)]
            fn int(&mut self, value: i64) -> $int {
                value as $int
            }
            #[inline(always)]
            fn add(&mut self, a: $t, b: $t) -> $t {
                a + b
            }
            #[inline(always)]
            fn sub(&mut self, a: $t, b: $t) -> $t {
                a - b
            }
            #[inline(always)]
            fn mul(&mut self, a: $t, b: $t) -> $t {
                a * b
            }
            #[inline(always)]
            fn div(&mut self, a: $t, b: $t) -> $t {
                a / b
            }
            #[inline(always)]
            fn fma(&mut self, a: $t, b: $t, c: $t) -> $t {
                a.mul_add(b, c)
            }
            #[inline(always)]
            fn sqrt(&mut self, a: $t) -> $t {
                a.sqrt()
            }
            #[inline(always)]
            fn neg(&mut self, a: $t) -> $t {
                -a
            }
            #[inline(always)]
            fn abs(&mut self, a: $t) -> $t {
                a.abs()
            }
            #[inline(always)]
            fn floor(&mut self, a: $t) -> $t {
                a.floor()
            }
            #[inline(always)]
            fn ceil(&mut self, a: $t) -> $t {
                a.ceil()
            }
            #[inline(always)]
            fn trunc(&mut self, a: $t) -> $t {
                a.trunc()
            }
            #[inline(always)]
            fn nearest(&mut self, a: $t) -> $t {
                a.round_ties_even()
            }
            #[inline(always)]
            fn max(&mut self, a: $t, b: $t) -> $t {
                // Equal operands differ at most in the sign of zero: the and of the bits is then +0.0.
                let same = <$t>::from_bits(a.to_bits() & b.to_bits());
                if a == b {
                    same
                } else if a > b || a.is_nan() {
                    a
                } else {
                    b
                }
            }
            #[inline(always)]
            fn min(&mut self, a: $t, b: $t) -> $t {
                let same = <$t>::from_bits(a.to_bits() | b.to_bits());
                if a == b {
                    same
                } else if a < b || a.is_nan() {
                    a
                } else {
                    b
                }
            }
            #[inline(always)]
            fn eq(&mut self, a: $t, b: $t) -> bool {
                a == b
            }
            #[inline(always)]
            fn lt(&mut self, a: $t, b: $t) -> bool {
                a < b
            }
            #[inline(always)]
            fn le(&mut self, a: $t, b: $t) -> bool {
                a <= b
            }
            #[inline(always)]
            fn and(&mut self, a: bool, b: bool) -> bool {
                a & b
            }
            #[inline(always)]
            fn or(&mut self, a: bool, b: bool) -> bool {
                a | b
            }
            #[inline(always)]
            fn not(&mut self, a: bool) -> bool {
                !a
            }
            #[inline(always)]
            fn select(&mut self, m: bool, a: $t, b: $t) -> $t {
                if m { a } else { b }
            }
            #[inline(always)]
            fn to_bits(&mut self, a: $t) -> $int {
                a.to_bits() as $int
            }
            #[inline(always)]
            fn from_bits(&mut self, a: $int) -> $t {
                <$t>::from_bits(a as $bits)
            }
            #[inline(always)]
            fn to_int(&mut self, a: $t) -> $int {
                // Adding 1.5 * 2^MANTISSA leaves the integer in the low bits.
                let magic: $t = 1.5 / <$t>::EPSILON;
                ((a + magic).to_bits() as $int).wrapping_sub(magic.to_bits() as $int)
            }
            #[inline(always)]
            fn from_int(&mut self, a: $int) -> $t {
                let magic: $t = 1.5 / <$t>::EPSILON;
                <$t>::from_bits(a.wrapping_add(magic.to_bits() as $int) as $bits) - magic
            }
            #[inline(always)]
            fn iadd(&mut self, a: $int, b: $int) -> $int {
                a.wrapping_add(b)
            }
            #[inline(always)]
            fn isub(&mut self, a: $int, b: $int) -> $int {
                a.wrapping_sub(b)
            }
            #[inline(always)]
            fn iand(&mut self, a: $int, b: $int) -> $int {
                a & b
            }
            #[inline(always)]
            fn ior(&mut self, a: $int, b: $int) -> $int {
                a | b
            }
            #[inline(always)]
            fn ixor(&mut self, a: $int, b: $int) -> $int {
                a ^ b
            }
            #[inline(always)]
            fn ishl(&mut self, a: $int, by: u32) -> $int {
                a << by
            }
            #[inline(always)]
            fn ushr(&mut self, a: $int, by: u32) -> $int {
                ((a as $bits) >> by) as $int
            }
            #[inline(always)]
            fn sshr(&mut self, a: $int, by: u32) -> $int {
                a >> by
            }
            #[inline(always)]
            fn ieq(&mut self, a: $int, b: $int) -> bool {
                a == b
            }
            #[inline(always)]
            fn ilt(&mut self, a: $int, b: $int) -> bool {
                a < b
            }
            #[inline(always)]
            fn iselect(&mut self, m: bool, a: $int, b: $int) -> $int {
                if m { a } else { b }
            }
            #[inline(always)]
            fn slow(&mut self, rare: bool, fast: $t, x: $t, slow: Slow<$t>) -> $t {
                if rare { (slow.call)(x) } else { fast }
            }
            #[inline(always)]
            fn slow2(&mut self, rare: bool, fast: $t, x: $t, y: $t, slow: Slow2<$t>) -> $t {
                if rare { (slow.call)(x, y) } else { fast }
            }
        }
    };
}

plain_float!(f32, i32, u32);
plain_float!(f64, i64, u64);

macro_rules! plain_int {
    ($t:ty, $signed:ty, $unsigned:ty) => {
        impl IntLanes<$t> for Plain {
            type V = $t;
            type M = bool;

            #[inline(always)]
            fn int(&mut self, value: i64) -> $t {
                value as $t
            }
            #[inline(always)]
            fn add(&mut self, a: $t, b: $t) -> $t {
                a.wrapping_add(b)
            }
            #[inline(always)]
            fn sub(&mut self, a: $t, b: $t) -> $t {
                a.wrapping_sub(b)
            }
            #[inline(always)]
            fn mul(&mut self, a: $t, b: $t) -> $t {
                a.wrapping_mul(b)
            }
            #[inline(always)]
            fn div(&mut self, a: $t, b: $t) -> $t {
                a.wrapping_div(b)
            }
            #[inline(always)]
            fn rem(&mut self, a: $t, b: $t) -> $t {
                a.wrapping_rem(b)
            }
            #[inline(always)]
            fn and(&mut self, a: $t, b: $t) -> $t {
                a & b
            }
            #[inline(always)]
            fn or(&mut self, a: $t, b: $t) -> $t {
                a | b
            }
            #[inline(always)]
            fn xor(&mut self, a: $t, b: $t) -> $t {
                a ^ b
            }
            #[inline(always)]
            fn shl(&mut self, a: $t, b: $t) -> $t {
                a.wrapping_shl(b as u32)
            }
            #[inline(always)]
            fn shr_logical(&mut self, a: $t, b: $t) -> $t {
                (a as $unsigned).wrapping_shr(b as u32) as $t
            }
            #[inline(always)]
            fn shr_arithmetic(&mut self, a: $t, b: $t) -> $t {
                (a as $signed).wrapping_shr(b as u32) as $t
            }
            #[inline(always)]
            fn popcount(&mut self, a: $t) -> $t {
                a.count_ones() as $t
            }
            #[inline(always)]
            fn eq(&mut self, a: $t, b: $t) -> bool {
                a == b
            }
            #[inline(always)]
            fn lt(&mut self, a: $t, b: $t) -> bool {
                a < b
            }
            #[inline(always)]
            fn lt_unsigned(&mut self, a: $t, b: $t) -> bool {
                (a as $unsigned) < (b as $unsigned)
            }
            #[inline(always)]
            fn select(&mut self, m: bool, a: $t, b: $t) -> $t {
                if m { a } else { b }
            }
            #[inline(always)]
            fn not(&mut self, m: bool) -> bool {
                !m
            }
            #[inline(always)]
            fn both(&mut self, a: bool, b: bool) -> bool {
                a & b
            }
        }
    };
}

plain_int!(i32, i32, u32);
plain_int!(i64, i64, u64);
plain_int!(u32, i32, u32);
plain_int!(u64, i64, u64);

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! floats {
        ($t:ident, $module:ident) => {
            mod $module {
                use super::*;

                const NAN: $t = $t::NAN;
                const INF: $t = $t::INFINITY;
                const GREATEST: $t = 0.5 / $t::EPSILON;

                fn same(x: $t, y: $t) -> bool {
                    x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan()
                }

                #[test]
                fn max_and_min_propagate_nan_and_order_zeros() {
                    let cases = [
                        (-0.0, 0.0, -0.0, 0.0),
                        (-0.0, -0.0, -0.0, -0.0),
                        (0.0, 0.0, 0.0, 0.0),
                        (1.0, 2.0, 1.0, 2.0),
                        (-1.0, -2.0, -2.0, -1.0),
                        (-INF, INF, -INF, INF),
                        (INF, INF, INF, INF),
                        (NAN, 1.0, NAN, NAN),
                        (-NAN, INF, NAN, NAN),
                        (NAN, NAN, NAN, NAN),
                    ];
                    for (a, b, min, max) in cases {
                        for (a, b) in [(a, b), (b, a)] {
                            let got_min = Lanes::<$t>::min(&mut Plain, a, b);
                            let got_max = Lanes::<$t>::max(&mut Plain, a, b);
                            assert!(same(got_min, min), "min({a}, {b}) = {got_min}");
                            assert!(same(got_max, max), "max({a}, {b}) = {got_max}");
                        }
                    }
                }

                #[test]
                fn integral_floats_convert_both_ways() {
                    for x in [0.0, 1.0, 2.0, 1000.0, GREATEST - 1.0, GREATEST] {
                        for x in [x, -x] {
                            let i = Lanes::<$t>::to_int(&mut Plain, x);
                            assert_eq!(i as $t, x);
                            assert_eq!(Lanes::<$t>::from_int(&mut Plain, i), x);
                        }
                    }
                }

                #[test]
                fn halves_round_to_even() {
                    let cases =
                        [(0.5, 0.0), (-0.5, -0.0), (1.5, 2.0), (2.5, 2.0), (-0.2, -0.0), (-INF, -INF)];
                    for (x, y) in cases {
                        assert!(same(Lanes::<$t>::nearest(&mut Plain, x), y));
                    }
                }

                #[test]
                fn shifts_fill_with_zeros_or_the_sign() {
                    let bits = Lanes::<$t>::to_bits(&mut Plain, -0.0);
                    let last = bits.count_zeros();
                    assert_eq!(Lanes::<$t>::ushr(&mut Plain, bits, last), 1);
                    assert_eq!(Lanes::<$t>::sshr(&mut Plain, bits, last), -1);
                    assert_eq!(Lanes::<$t>::ishl(&mut Plain, 1, last), bits);
                }
            }
        };
    }

    floats!(f32, narrow);
    floats!(f64, wide);

    #[test]
    fn unsigned_integers_shift_and_compare_as_either() {
        let top = 1u32 << 31;
        assert_eq!(IntLanes::<u32>::shr_arithmetic(&mut Plain, top, 31), u32::MAX);
        assert_eq!(IntLanes::<u32>::shr_logical(&mut Plain, top, 31), 1);
        assert!(IntLanes::<i32>::lt_unsigned(&mut Plain, 1, -1));
        assert!(IntLanes::<i32>::lt(&mut Plain, -1, 1));
        assert_eq!(IntLanes::<i64>::popcount(&mut Plain, -1), 64);
        assert_eq!(IntLanes::<i32>::add(&mut Plain, i32::MAX, 1), i32::MIN);
    }
}

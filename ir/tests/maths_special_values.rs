//! Special values of the elementary functions, as in Annex F of C99, in both widths.

use pullback_ir::maths::{Elementary, Lanes, Plain};
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};
use std::fmt::LowerExp;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// A width under test.
trait Width: Elementary + LowerExp + PartialOrd {
    /// The greatest number, the least normal one and the least subnormal one.
    const EXTREMES: [f64; 3];
    fn of(x: f64) -> Self;
}

impl Width for f32 {
    const EXTREMES: [f64; 3] = [f32::MAX as f64, f32::MIN_POSITIVE as f64, f32::from_bits(1) as f64];
    fn of(x: f64) -> f32 {
        x as f32
    }
}

impl Width for f64 {
    const EXTREMES: [f64; 3] = [f64::MAX, f64::MIN_POSITIVE, f64::from_bits(1)];
    fn of(x: f64) -> f64 {
        x
    }
}

/// Equal to the bit, or both NaN.
fn same<T: Width>(x: T, y: T) -> bool {
    let is_nan = |x: T| x.partial_cmp(&x).is_none();
    x.to_bits64() == y.to_bits64() || is_nan(x) && is_nan(y)
}

type Unary<T> = fn(&mut Plain, T) -> T;
type Binary<T> = fn(&mut Plain, T, T) -> T;

/// That `f(x)` is `y`, rounded to the width, and that NaN stays.
fn check<T: Width>(f: Unary<T>, cases: &[(f64, f64)]) {
    for &(x, y) in cases.iter().chain(&[(NAN, NAN), (-NAN, NAN)]) {
        let (x, y) = (T::of(x), T::of(y));
        let got = f(&mut Plain, x);
        assert!(same(got, y), "f({x:e}) = {got:e}, not {y:e}");
    }
}

/// That `f(x, y)` is `z`, rounded to the width.
fn check2<T: Width>(f: Binary<T>, cases: &[(f64, f64, f64)]) {
    for &(x, y, z) in cases {
        let (x, y, z) = (T::of(x), T::of(y), T::of(z));
        let got = f(&mut Plain, x, y);
        assert!(same(got, z), "f({x:e}, {y:e}) = {got:e}, not {z:e}");
    }
}

/// That `f(x)` is `x` for zeros, subnormal numbers and others of which `x^2` does not count beside `x`.
fn check_tiny<T: Width>(f: Unary<T>) {
    let [_, normal, least] = T::EXTREMES;
    for x in [0.0, least, 3.0 * least, normal - least, normal, 1e-20] {
        check(f, &[(x, x), (-x, -x)]);
    }
}

fn exponentials<T: Width>()
where
    Plain: Lanes<T, V = T>,
{
    let [max, normal, least] = T::EXTREMES;
    let one = [(0.0, 1.0), (-0.0, 1.0), (least, 1.0), (-normal, 1.0)];
    let ends = [(INF, INF), (-INF, 0.0), (max, INF), (-max, 0.0), (1e5, INF), (-1e5, 0.0)];
    for f in [T::exp::<Plain>, T::exp2::<Plain>] {
        check(f, &one);
        check(f, &ends);
    }
    for n in -1074..1024 {
        // 2^n, the product of two normal numbers where it is not one.
        let power = 2f64.powi(n / 2) * 2f64.powi(n - n / 2);
        check(T::exp2::<Plain>, &[(n as f64, power)]);
    }
    check(T::expm1::<Plain>, &[(INF, INF), (-INF, -1.0), (max, INF), (-max, -1.0), (-100.0, -1.0)]);
    check_tiny(T::expm1::<Plain>);
    check(T::logistic::<Plain>, &one.map(|(x, _)| (x, 0.5)));
    check(
        T::logistic::<Plain>,
        &[(INF, 1.0), (-INF, 0.0), (max, 1.0), (-max, 0.0), (100.0, 1.0), (-1e4, 0.0)],
    );
}

fn logarithms<T: Width>()
where
    Plain: Lanes<T, V = T>,
{
    let [max, _, least] = T::EXTREMES;
    let ends = [(INF, INF), (0.0, -INF), (-0.0, -INF), (-least, NAN), (-1.0, NAN), (-max, NAN), (-INF, NAN)];
    for f in [T::log::<Plain>, T::log2::<Plain>] {
        check(f, &ends);
        check(f, &[(1.0, 0.0)]);
    }
    for n in -149..128 {
        check(T::log2::<Plain>, &[(2f64.powi(n), n as f64)]);
    }
    check(T::log::<Plain>, &[(least, core_math::log(least)), (max, core_math::log(max))]);
    check(
        T::log1p::<Plain>,
        &[(INF, INF), (-1.0, -INF), (-1.5, NAN), (-INF, NAN), (max, core_math::log(max))],
    );
    check_tiny(T::log1p::<Plain>);
}

fn trigonometric<T: Width>()
where
    Plain: Lanes<T, V = T>,
{
    for f in [T::sin::<Plain>, T::cos::<Plain>, T::tan::<Plain>] {
        check(f, &[(INF, NAN), (-INF, NAN)]);
    }
    check_tiny(T::sin::<Plain>);
    check_tiny(T::tan::<Plain>);
    check(T::cos::<Plain>, &[(0.0, 1.0), (-0.0, 1.0), (T::EXTREMES[2], 1.0)]);
}

fn inverse_trigonometric<T: Width>()
where
    Plain: Lanes<T, V = T>,
{
    let [max, normal, least] = T::EXTREMES;
    let outside = [(1.0000002, NAN), (-1.0000002, NAN), (max, NAN), (INF, NAN), (-INF, NAN)];
    check(T::asin::<Plain>, &outside);
    check(T::acos::<Plain>, &outside);
    check(T::asin::<Plain>, &[(1.0, FRAC_PI_2), (-1.0, -FRAC_PI_2)]);
    check(
        T::acos::<Plain>,
        &[(1.0, 0.0), (-1.0, PI), (0.0, FRAC_PI_2), (-0.0, FRAC_PI_2), (least, FRAC_PI_2)],
    );
    check_tiny(T::asin::<Plain>);
    check_tiny(T::atan::<Plain>);
    for x in [INF, max, 1e30] {
        check(T::atan::<Plain>, &[(x, FRAC_PI_2), (-x, -FRAC_PI_2)]);
    }
    check(T::atan::<Plain>, &[(1.0, FRAC_PI_4), (-1.0, -FRAC_PI_4)]);
    for x in [INF, max, 1.0, normal, least, 0.0] {
        let above = if x == 0.0 { 0.0 } else { FRAC_PI_2 };
        let left = if x == 0.0 { PI } else { FRAC_PI_2 };
        let diagonal = if x == 0.0 { [0.0, PI] } else { [FRAC_PI_4, 3.0 * FRAC_PI_4] };
        let cases = [
            (x, 0.0, above),
            (x, -0.0, left),
            (0.0, x, 0.0),
            (0.0, -x, PI),
            (x, x, diagonal[0]),
            (x, -x, diagonal[1]),
        ];
        check2(T::atan2::<Plain>, &cases);
        check2(T::atan2::<Plain>, &cases.map(|(y, x, angle)| (-y, x, -angle)));
    }
    for x in [0.0, least, 1.0, max] {
        let cases = [
            (x, INF, 0.0),
            (x, -INF, PI),
            (INF, x, FRAC_PI_2),
            (INF, -x, FRAC_PI_2),
            (x, NAN, NAN),
            (NAN, x, NAN),
        ];
        check2(T::atan2::<Plain>, &cases);
        check2(T::atan2::<Plain>, &cases.map(|(y, x, angle)| (-y, x, -angle)));
    }
    check2(T::atan2::<Plain>, &[(INF, NAN, NAN), (NAN, INF, NAN), (NAN, -INF, NAN), (NAN, NAN, NAN)]);
    check2(
        T::atan2::<Plain>,
        &[(least, max, 0.0), (-least, max, -0.0), (least, -max, PI), (max, least, FRAC_PI_2)],
    );
    check2(T::atan2::<Plain>, &[(least, 1.0, least), (3.0 * least, -1.0, PI), (normal, 2.0, normal / 2.0)]);
}

fn hyperbolic<T: Width>()
where
    Plain: Lanes<T, V = T>,
{
    let [max, _, least] = T::EXTREMES;
    for x in [INF, max, 1e5] {
        check(T::sinh::<Plain>, &[(x, INF), (-x, -INF)]);
        check(T::cosh::<Plain>, &[(x, INF), (-x, INF)]);
        check(T::tanh::<Plain>, &[(x, 1.0), (-x, -1.0)]);
    }
    check(T::cosh::<Plain>, &[(0.0, 1.0), (-0.0, 1.0), (least, 1.0)]);
    for f in [T::sinh::<Plain>, T::tanh::<Plain>, T::asinh::<Plain>, T::atanh::<Plain>] {
        check_tiny(f);
    }
    check(T::asinh::<Plain>, &[(INF, INF), (-INF, -INF), (max, core_math::acosh(max))]);
    check(T::acosh::<Plain>, &[(INF, INF), (1.0, 0.0), (max, core_math::acosh(max))]);
    for x in [0.0, -0.0, 0.999999, -1.0, -2.0, -max, -INF] {
        check(T::acosh::<Plain>, &[(x, NAN)]);
    }
    check(
        T::atanh::<Plain>,
        &[(1.0, INF), (-1.0, -INF), (1.0000002, NAN), (-2.0, NAN), (INF, NAN), (-INF, NAN)],
    );
}

fn error_functions<T: Width>()
where
    Plain: Lanes<T, V = T>,
{
    let [max, normal, least] = T::EXTREMES;
    for x in [INF, max, 30.0] {
        check(T::erf::<Plain>, &[(x, 1.0), (-x, -1.0)]);
        check(T::erfc::<Plain>, &[(x, 0.0), (-x, 2.0)]);
    }
    check(T::erf::<Plain>, &[(0.0, 0.0), (-0.0, -0.0), (least, least), (-least, -least)]);
    check(T::erfc::<Plain>, &[(0.0, 1.0), (-0.0, 1.0), (least, 1.0), (-normal, 1.0)]);
}

fn roots_and_signs<T: Width>()
where
    Plain: Lanes<T, V = T>,
{
    let [max, normal, least] = T::EXTREMES;
    check(
        T::rsqrt::<Plain>,
        &[(0.0, INF), (-0.0, -INF), (INF, 0.0), (-least, NAN), (-1.0, NAN), (-INF, NAN)],
    );
    check(
        T::rsqrt::<Plain>,
        &[(0.25, 2.0), (4.0, 0.5), (least, core_math::rsqrt(least)), (max, core_math::rsqrt(max))],
    );
    for (x, root) in
        [(0.0, 0.0), (INF, INF), (1.0, 1.0), (27.0, 3.0), (0.125, 0.5), (least, core_math::cbrt(least))]
    {
        check(T::cbrt::<Plain>, &[(x, root), (-x, -root)]);
    }
    for (x, sign) in [(0.0, 0.0), (least, 1.0), (normal, 1.0), (2.5, 1.0), (max, 1.0), (INF, 1.0)] {
        check(T::sign::<Plain>, &[(x, sign), (-x, -sign)]);
    }
}

fn powers<T: Width>()
where
    Plain: Lanes<T, V = T>,
{
    let [max, normal, least] = T::EXTREMES;
    let pow = T::pow::<Plain>;
    for x in [0.0, least, 0.5, 1.0, 2.0, max, INF, NAN] {
        for x in [x, -x] {
            check2(pow, &[(x, 0.0, 1.0), (x, -0.0, 1.0), (1.0, x, 1.0)]);
        }
    }
    // Zeros.
    check2(pow, &[(0.0, -3.0, INF), (-0.0, -3.0, -INF), (0.0, -2.0, INF), (-0.0, -2.0, INF)]);
    check2(pow, &[(0.0, -0.5, INF), (-0.0, -0.5, INF), (0.0, -INF, INF), (-0.0, -INF, INF)]);
    check2(pow, &[(0.0, 3.0, 0.0), (-0.0, 3.0, -0.0), (0.0, 2.0, 0.0), (-0.0, 2.0, 0.0)]);
    check2(pow, &[(-0.0, 0.5, 0.0), (0.0, INF, 0.0), (-0.0, INF, 0.0), (-0.0, -max, INF), (0.0, least, 0.0)]);
    // Infinite exponents.
    check2(pow, &[(-1.0, INF, 1.0), (-1.0, -INF, 1.0)]);
    for x in [least, 0.5, -0.5, -0.999999] {
        check2(pow, &[(x, -INF, INF), (x, INF, 0.0)]);
    }
    for x in [1.000001, -1.000001, 2.0, -2.0, max, -max, INF, -INF] {
        check2(pow, &[(x, -INF, 0.0), (x, INF, INF)]);
    }
    // Infinite bases.
    check2(pow, &[(-INF, -3.0, -0.0), (-INF, -2.0, 0.0), (-INF, -0.5, 0.0), (-INF, 3.0, -INF)]);
    check2(
        pow,
        &[(-INF, 2.0, INF), (-INF, 0.5, INF), (INF, -least, 0.0), (INF, least, INF), (INF, -2.0, 0.0)],
    );
    // NaN.
    check2(pow, &[(NAN, 1.0, NAN), (2.0, NAN, NAN), (0.0, NAN, NAN), (INF, NAN, NAN), (-1.0, NAN, NAN)]);
    check2(pow, &[(NAN, NAN, NAN), (NAN, INF, NAN), (NAN, -1.0, NAN), (-INF, NAN, NAN)]);
    // Negative bases.
    check2(pow, &[(-2.0, 0.5, NAN), (-max, 1.5, NAN), (-least, -0.5, NAN), (-1.0, 0.5, NAN)]);
    check2(
        pow,
        &[(-2.0, 3.0, -8.0), (-2.0, -2.0, 0.25), (-1.0, 3.0, -1.0), (-1.0, 1e30, 1.0), (-1.0, -max, 1.0)],
    );
    // Exact, overflowing and underflowing.
    check2(
        pow,
        &[(2.0, 10.0, 1024.0), (3.0, 4.0, 81.0), (10.0, 3.0, 1000.0), (4.0, -0.5, 0.5), (7.25, 1.0, 7.25)],
    );
    check2(pow, &[(max, 1.0, max), (least, 1.0, least), (normal, 1.0, normal), (-least, 1.0, -least)]);
    check2(
        pow,
        &[(max, 2.0, INF), (-max, 3.0, -INF), (max, -2.0, 0.0), (-max, -3.0, -0.0), (least, 2.0, 0.0)],
    );
    check2(pow, &[(1.000001, 1e30, INF), (1.000001, -1e30, 0.0), (2.0, least, 1.0), (least, least, 1.0)]);
}

fn remainders<T: Width>()
where
    Plain: Lanes<T, V = T>,
{
    let [max, normal, least] = T::EXTREMES;
    let rem = T::rem::<Plain>;
    for y in [INF, -INF, 3.0, max, -max] {
        check2(rem, &[(0.0, y, 0.0), (-0.0, y, -0.0), (2.0, y, 2.0), (-least, y, -least)]);
    }
    for x in [0.0, 1.0, max, INF, NAN] {
        check2(
            rem,
            &[(x, 0.0, NAN), (-x, -0.0, NAN), (INF, x, NAN), (-INF, x, NAN), (NAN, x, NAN), (x, NAN, NAN)],
        );
    }
    check2(rem, &[(max, INF, max), (6.0, 3.0, 0.0), (-6.0, 3.0, -0.0), (6.0, -3.0, 0.0), (7.0, 3.0, 1.0)]);
    check2(
        rem,
        &[
            (-7.0, 3.0, -1.0),
            (7.0, -3.0, 1.0),
            (5.5, 2.0, 1.5),
            (normal, 3.0 * least, normal % (3.0 * least)),
        ],
    );
    check2(rem, &[(max, least, 0.0), (-max, least, -0.0), (max, 3.0, max % 3.0)]);
}

macro_rules! in_both_widths {
    ($($name:ident)*) => {
        $(mod $name {
            #[test]
            fn narrow() {
                super::$name::<f32>();
            }

            #[test]
            fn wide() {
                super::$name::<f64>();
            }
        })*
    };
}

in_both_widths! {
    exponentials logarithms trigonometric inverse_trigonometric hyperbolic error_functions roots_and_signs powers
    remainders
}

//! Errors of the elementary functions against correctly rounded ones. The ignored tests are exhaustive or
//! long; run them as `docs/maths.md` says.

use pullback_ir::maths::{Elementary, Plain};
use std::f64::consts::{FRAC_PI_4, LN_2};

/// A function of one argument in both widths, each with its correctly rounded reference.
struct Unary {
    name: &'static str,
    narrow: fn(f32) -> f32,
    narrow_exact: fn(f32) -> f32,
    wide: fn(f64) -> f64,
    wide_exact: fn(f64) -> f64,
}

macro_rules! unary {
    ($($name:ident: $narrow_exact:expr, $wide_exact:expr;)*) => {
        [$(Unary {
            name: stringify!($name),
            narrow: |x| <f32 as Elementary>::$name(&mut Plain, x),
            narrow_exact: $narrow_exact,
            wide: |x| <f64 as Elementary>::$name(&mut Plain, x),
            wide_exact: $wide_exact,
        }),*]
    };
}

/// Within two ulp, which is exact enough to judge `f32` by. `logistic.txt` has correctly rounded values.
fn logistic(x: f64) -> f64 {
    let a = core_math::exp(-x.abs());
    if x < 0.0 { a / (1.0 + a) } else { 1.0 / (1.0 + a) }
}

const UNARY: [Unary; 24] = unary! {
    exp: core_math::expf, core_math::exp;
    exp2: core_math::exp2f, core_math::exp2;
    expm1: core_math::expm1f, core_math::expm1;
    log: core_math::logf, core_math::log;
    log2: core_math::log2f, core_math::log2;
    log1p: core_math::log1pf, core_math::log1p;
    sin: core_math::sinf, core_math::sin;
    cos: core_math::cosf, core_math::cos;
    tan: core_math::tanf, core_math::tan;
    asin: core_math::asinf, core_math::asin;
    acos: core_math::acosf, core_math::acos;
    atan: core_math::atanf, core_math::atan;
    sinh: core_math::sinhf, core_math::sinh;
    cosh: core_math::coshf, core_math::cosh;
    tanh: core_math::tanhf, core_math::tanh;
    logistic: |x| logistic(f64::from(x)) as f32, logistic;
    asinh: core_math::asinhf, core_math::asinh;
    acosh: core_math::acoshf, core_math::acosh;
    atanh: core_math::atanhf, core_math::atanh;
    erf: core_math::erff, core_math::erf;
    erfc: core_math::erfcf, core_math::erfc;
    rsqrt: core_math::rsqrtf, core_math::rsqrt;
    cbrt: core_math::cbrtf, core_math::cbrt;
    sign: |x| if x == 0.0 { x } else { x.signum() }, |x| if x == 0.0 { x } else { x.signum() };
};

/// Error in units of the last place of the exact value; infinite where NaN, sign or infinity differ from what
/// they are to be. `exact` may be narrower or wider than the float range by a rounding.
fn ulps_f32(got: f32, rounded: f32, exact: f64) -> f64 {
    if got.is_nan() && rounded.is_nan() {
        return 0.0;
    }
    if got.is_nan() || rounded.is_nan() || got.is_sign_negative() != rounded.is_sign_negative() {
        return f64::INFINITY;
    }
    let beyond = 2f64.powi(128).copysign(exact);
    let got = if got.is_infinite() { beyond } else { f64::from(got) };
    if exact.is_infinite() { f64::INFINITY } else { (got - exact).abs() / ulp_f32(exact) }
}

fn ulp_f32(exact: f64) -> f64 {
    let exponent = ((exact.to_bits() >> 52 & 0x7ff) as i32 - 1023).clamp(-126, 127);
    2f64.powi(exponent - 23)
}

/// Floats between the two, which are ordered like integers of sign and magnitude.
fn steps_f64(got: f64, rounded: f64) -> u64 {
    if got.to_bits() == rounded.to_bits() || got.is_nan() && rounded.is_nan() {
        return 0;
    }
    if got.is_nan() || rounded.is_nan() || got.is_sign_negative() != rounded.is_sign_negative() {
        return u64::MAX;
    }
    got.to_bits().abs_diff(rounded.to_bits())
}

/// The largest error and where it is.
#[derive(Clone, Copy, Debug)]
struct Worst<E, X> {
    error: E,
    at: X,
}

/// Over the floats whose bits are `first`, `first + step`, .. What is correctly rounded counts half an ulp.
fn worst_f32(f: &Unary, first: u32, step: usize) -> Worst<f64, f32> {
    let mut worst = Worst { error: 0.5, at: 0.0 };
    for bits in (first..=u32::MAX).step_by(step) {
        let x = f32::from_bits(bits);
        let (got, rounded) = ((f.narrow)(x), (f.narrow_exact)(x));
        if got.to_bits() == rounded.to_bits() {
            continue;
        }
        let error = ulps_f32(got, rounded, (f.wide_exact)(f64::from(x)));
        if error > worst.error {
            worst = Worst { error, at: x };
        }
    }
    worst
}

/// Random bits (Steele, Lea and Flood's SplitMix).
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1.
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / 9007199254740992.0
    }

    /// Of any magnitude, from several distributions: any bits; magnitudes of 2^-40 to 2^12; -1 to 1; near 1;
    /// -50 to 50; near multiples of pi/4; near small multiples of ln 2 / 2.
    fn number(&mut self) -> f64 {
        let near = |centre: f64, bits: u64| f64::from_bits(centre.to_bits() ^ (bits % 4096));
        let bits = self.bits();
        let whole = (bits % 513) as f64 - 256.0;
        match bits >> 61 {
            0 => Some(f64::from_bits(self.bits())).filter(|x| !x.is_nan()).unwrap_or(f64::NAN),
            1 => 2f64.powf(self.unit() * 52.0 - 40.0) * whole.signum(),
            2 => self.unit() * 2.0 - 1.0,
            3 => 1.0 + (self.unit() - 0.5) * 2f64.powi(-(whole.abs() as i32 / 6)),
            4 => self.unit() * 100.0 - 50.0,
            5 => near(whole * FRAC_PI_4 * 2f64.powi((self.bits() % 50) as i32), self.bits()),
            6 => near(whole * (LN_2 / 2.0), self.bits()),
            _ => self.unit() * 1500.0 - 750.0,
        }
    }
}

/// Over this many random numbers.
fn worst_f64(f: &Unary, count: usize) -> (Worst<u64, f64>, f64) {
    let mut random = Random(1);
    let mut worst = Worst { error: 0, at: 0.0 };
    let mut misrounded = 0;
    for _ in 0..count {
        let x = random.number();
        let error = steps_f64((f.wide)(x), (f.wide_exact)(x));
        misrounded += usize::from(error > 0);
        if error > worst.error {
            worst = Worst { error, at: x };
        }
    }
    (worst, misrounded as f64 / count as f64)
}

/// One step from the correctly rounded result is an error below 1.5 ulp. The reference of `logistic` is a
/// step off itself.
fn allowed_steps(f: &Unary) -> u64 {
    if f.name == "logistic" { 2 } else { 1 }
}

#[test]
fn wide_functions_are_within_a_step() {
    for f in &UNARY {
        let (Worst { error, at }, _) = worst_f64(f, 10_000);
        assert!(error <= allowed_steps(f), "{}({at:e}) is {error} steps off", f.name);
    }
}

#[test]
#[ignore = "millions of arguments"]
fn wide_functions_on_many_samples() {
    for f in &UNARY {
        let (Worst { error, at }, misrounded) = worst_f64(f, 4_000_000);
        let share = misrounded * 100.0;
        println!("{:10} {error} steps at {at:e} ({:#018x}), {share:.2}% misrounded", f.name, at.to_bits());
        assert!(error <= allowed_steps(f));
    }
}

#[test]
fn logistic_is_within_a_step() {
    for line in include_str!("logistic.txt").lines() {
        let (x, y) = line.split_once(' ').unwrap();
        let [x, y] = [x, y].map(|word| f64::from_bits(u64::from_str_radix(word, 16).unwrap()));
        assert!(steps_f64(<f64 as Elementary>::logistic(&mut Plain, x), y) <= 1, "logistic({x:e})");
    }
}

/// Numbers of which a multiple of `pi/2` comes very near, and the ends of the slow and fast ranges.
#[test]
fn hard_trigonometric_reductions() {
    let limit = 2f64.powi(30);
    let hard = [
        6381956970095103.0 * 2f64.powi(797),
        5.319372648326541e255,
        f64::MAX,
        2f64.powi(1000),
        1e22,
        limit,
        limit.next_up(),
        limit.next_down(),
        3.0 * FRAC_PI_4 * limit,
    ];
    for f in UNARY.iter().filter(|f| ["sin", "cos", "tan"].contains(&f.name)) {
        for x in hard.into_iter().chain(hard.map(|x| -x)) {
            assert!(steps_f64((f.wide)(x), (f.wide_exact)(x)) <= 1, "{}({x:e})", f.name);
        }
    }
}

/// A function of two arguments in both widths, each with its correctly rounded reference.
struct Binary {
    name: &'static str,
    narrow: fn(f32, f32) -> f32,
    narrow_exact: fn(f32, f32) -> f32,
    wide: fn(f64, f64) -> f64,
    wide_exact: fn(f64, f64) -> f64,
    arguments: fn(&mut Random) -> (f64, f64),
}

macro_rules! binary {
    ($($name:ident: $narrow_exact:expr, $wide_exact:expr, $arguments:expr;)*) => {
        [$(Binary {
            name: stringify!($name),
            narrow: |x, y| <f32 as Elementary>::$name(&mut Plain, x, y),
            narrow_exact: $narrow_exact,
            wide: |x, y| <f64 as Elementary>::$name(&mut Plain, x, y),
            wide_exact: $wide_exact,
            arguments: $arguments,
        }),*]
    };
}

const BINARY: [Binary; 3] = binary! {
    pow: core_math::powf, core_math::pow, power_arguments;
    atan2: core_math::atan2f, core_math::atan2, point;
    rem: |x, y| x % y, |x, y| x % y, dividend_and_divisor;
};

/// Results of all magnitudes, integral exponents, and anything.
fn power_arguments(random: &mut Random) -> (f64, f64) {
    let x = random.number();
    match random.bits() >> 62 {
        0 => (x, random.number()),
        1 => (x, (random.number() * 16.0).round()),
        2 => (x.abs(), (random.unit() - 0.5) * 300.0 / x.abs().log2()),
        _ => (x.abs(), (random.unit() - 0.5) * 2200.0 / x.abs().log2()),
    }
}

/// Anywhere, and near the axes, the diagonals and the borders between the reductions.
fn point(random: &mut Random) -> (f64, f64) {
    let x = random.number();
    let slope = [random.number(), 1.0, 2f64.sqrt() - 1.0, 2f64.sqrt() + 1.0][random.bits() as usize % 4];
    let y = random.number();
    (if random.bits() & 1 == 0 { y } else { x * slope * (1.0 + y * 1e-12) }, x)
}

/// Quotients near integers are the hard ones.
fn dividend_and_divisor(random: &mut Random) -> (f64, f64) {
    let y = random.number();
    let whole = (random.unit() * 2f64.powi((random.bits() % 60) as i32)).round();
    (if random.bits() & 1 == 0 { random.number() } else { whole * y }, y)
}

fn check_binary(f: &Binary, count: usize) {
    let mut random = Random(2);
    let mut narrow_worst = Worst { error: 0.5, at: (0.0, 0.0) };
    let mut wide_worst = Worst { error: 0, at: (0.0, 0.0) };
    for _ in 0..count {
        let (x, y) = (f.arguments)(&mut random);
        let error = steps_f64((f.wide)(x, y), (f.wide_exact)(x, y));
        if error > wide_worst.error {
            wide_worst = Worst { error, at: (x, y) };
        }
        let (x, y) = (x as f32, y as f32);
        let (got, rounded) = ((f.narrow)(x, y), (f.narrow_exact)(x, y));
        if got.to_bits() != rounded.to_bits() {
            let error = ulps_f32(got, rounded, (f.wide_exact)(x.into(), y.into()));
            if error > narrow_worst.error {
                narrow_worst = Worst { error, at: (x, y) };
            }
        }
    }
    println!("{:10} f32: {narrow_worst:?}, f64: {wide_worst:?}", f.name);
    assert!(
        narrow_worst.error <= 1.0 && wide_worst.error <= 1,
        "{}: {narrow_worst:?}, {wide_worst:?}",
        f.name
    );
}

#[test]
fn power_is_accurate() {
    check_binary(&BINARY[0], 100_000);
}

#[test]
fn angles_are_accurate() {
    check_binary(&BINARY[1], 100_000);
}

#[test]
fn remainders_are_accurate() {
    check_binary(&BINARY[2], 100_000);
}

#[test]
#[ignore = "millions of arguments"]
fn functions_of_two_arguments_on_many_samples() {
    for f in &BINARY {
        check_binary(f, 8_000_000);
    }
}

#[test]
fn narrow_functions_are_within_an_ulp() {
    let worst = UNARY.iter().map(|f| (f.name, worst_f32(f, 0, 40_009)));
    let bad: Vec<_> = worst.filter(|(_, worst)| worst.error > 1.0).collect();
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
#[ignore = "all 2^32 arguments of every function: minutes"]
fn narrow_functions_exhaustively() {
    let only = std::env::var("FUNCTION").ok();
    let mut failed = false;
    for f in UNARY.iter().filter(|f| only.as_deref().is_none_or(|name| name == f.name)) {
        let (even, odd) = std::thread::scope(|scope| {
            let even = scope.spawn(|| worst_f32(f, 0, 2));
            (worst_f32(f, 1, 2), even.join().unwrap())
        });
        let worst = if even.error > odd.error { even } else { odd };
        println!("{:10} {:.4} ulp at {:e} ({:#010x})", f.name, worst.error, worst.at, worst.at.to_bits());
        failed |= worst.error > 1.0;
    }
    assert!(!failed);
}

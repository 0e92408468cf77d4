//! The elementary functions by name.

use super::constants::Constants;
use super::lanes::Lanes;
use super::{error_function, exp, hyperbolic, inverse_trig, log, power, trig};

macro_rules! elementary {
    ($($(#[$doc:meta])* $name:ident($($x:ident),+) = $family:ident;)*) => {
        /// A float type with elementary functions: branch free, on any machine, with the special values of
        /// C99 Annex F and subnormal numbers kept. `docs/maths.md` has the measured errors.
        pub trait Elementary: Constants {
            $(
                $(#[$doc])*
                #[inline(always)]
                fn $name<L: Lanes<Self>>(l: &mut L, $($x: L::V),+) -> L::V {
                    $family::$name(l, $($x),+)
                }
            )*
        }
    };
}

elementary! {
    /// `e^x`
    exp(x) = exp;
    /// `2^x`
    exp2(x) = exp;
    /// `e^x - 1`
    expm1(x) = exp;
    /// Natural logarithm.
    log(x) = log;
    /// Logarithm to base 2.
    log2(x) = log;
    /// `log(1 + x)`
    log1p(x) = log;
    /// Sine.
    sin(x) = trig;
    /// Cosine.
    cos(x) = trig;
    /// Tangent.
    tan(x) = trig;
    /// Arc sine.
    asin(x) = inverse_trig;
    /// Arc cosine.
    acos(x) = inverse_trig;
    /// Arc tangent.
    atan(x) = inverse_trig;
    /// Angle of the point `(x, y)`.
    atan2(y, x) = inverse_trig;
    /// Hyperbolic sine.
    sinh(x) = hyperbolic;
    /// Hyperbolic cosine.
    cosh(x) = hyperbolic;
    /// Hyperbolic tangent.
    tanh(x) = hyperbolic;
    /// `1 / (1 + e^-x)`
    logistic(x) = hyperbolic;
    /// Inverse hyperbolic sine.
    asinh(x) = hyperbolic;
    /// Inverse hyperbolic cosine.
    acosh(x) = hyperbolic;
    /// Inverse hyperbolic tangent.
    atanh(x) = hyperbolic;
    /// Error function.
    erf(x) = error_function;
    /// `1 - erf x`
    erfc(x) = error_function;
    /// `1 / sqrt x`
    rsqrt(x) = power;
    /// Cube root.
    cbrt(x) = power;
    /// `x^y`
    pow(x, y) = power;
    /// Remainder of the quotient towards zero, exact, with the sign of `x` (`fmod` of C).
    rem(x, y) = power;
    /// -1 or 1; zeros (with their sign) and NaN stay.
    sign(x) = power;
}

impl Elementary for f32 {}
impl Elementary for f64 {}

//! The numbers behind the elementary functions.
//!
//! Polynomials are minimax: least squares at Chebyshev nodes in 50 digits, reweighted after Lawson until the
//! error is level, the coefficients rounded to the element type in turn from the lowest and the others fitted
//! again each time. The error stated with each is that of the rounded polynomial, exactly evaluated.

use super::lanes::{Float, Slow, Slow2};
use super::slow;

/// Constants of a float type. Coefficients come lowest power first.
pub trait Constants: Float {
    /// Bits.
    const WIDTH: u32;
    /// The bits of the square root of 1/2.
    const SQRT_HALF_BITS: i64;
    /// Steps of Newton's method in `cbrt`.
    const CBRT_STEPS: usize;
    #[allow(missing_docs)]
    const ZERO: Self;
    #[allow(missing_docs)]
    const ONE: Self;
    #[allow(missing_docs)]
    const TWO: Self;
    #[allow(missing_docs)]
    const THREE: Self;
    #[allow(missing_docs)]
    const HALF: Self;
    #[allow(missing_docs)]
    const SIXTEENTH: Self;
    #[allow(missing_docs)]
    const MINUS_ONE: Self;
    #[allow(missing_docs)]
    const MINUS_TWO: Self;
    #[allow(missing_docs)]
    const MINUS_HALF: Self;
    #[allow(missing_docs)]
    const INFINITY: Self;
    #[allow(missing_docs)]
    const MINUS_INFINITY: Self;
    #[allow(missing_docs)]
    const NAN: Self;
    /// ln 2, in two floats.
    const LN2: (Self, Self);
    /// ln 2, in two floats, the first short enough that its products with exponents are exact.
    const LN2_CUT: (Self, Self);
    /// Its negative.
    const MINUS_LN2_CUT: (Self, Self);
    /// 1 / ln 2, in two floats.
    const LOG2_E: (Self, Self);
    /// In two floats.
    const PI: (Self, Self);
    /// 1/3, in two floats.
    const THIRD: (Self, Self);
    /// The constant term that goes with `ERFC`, in two floats.
    const ERFC_BASE: (Self, Self);
    /// pi / 2, in three floats.
    const HALF_PI: [Self; 3];
    /// The least normal number.
    const LEAST_NORMAL: Self;
    /// Two to the number of stored significand bits.
    const TWO_TO_MANTISSA: Self;
    /// Rounding errors of numbers below may underflow.
    const SMALL: Self;
    /// Sums of numbers above may overflow.
    const LARGE: Self;
    /// A power of two that makes numbers below `SMALL` ordinary.
    const EVEN_POWER: Self;
    /// Its root.
    const EVEN_POWER_ROOT: Self;
    /// A number whose square does not count beside it.
    const TINY: Self;
    /// Below, `exp` is 0.
    const EXP_LOW: Self;
    /// Above, `exp` is infinite.
    const EXP_HIGH: Self;
    /// Below, `exp2` is 0.
    const EXP2_LOW: Self;
    /// Above, `exp2` is infinite.
    const EXP2_HIGH: Self;
    /// Below, `expm1` is -1.
    const EXPM1_LOW: Self;
    /// Above, `sinh` and `cosh` are infinite.
    const SINH_HIGH: Self;
    /// Above, `tanh` is 1.
    const TANH_LIMIT: Self;
    /// Above, `erf` is 1.
    const ERF_LIMIT: Self;
    /// Above, `erfc` is 0.
    const ERFC_LIMIT: Self;
    /// The `x` where `t` is 0 in `erfc`.
    const ERFC_MIDDLE: Self;
    /// 2 / pi.
    const TWO_OVER_PI: Self;
    /// Above, `sin`, `cos` and `tan` are slow.
    const TRIG_LIMIT: Self;
    /// tan(pi / 8).
    const TAN_EIGHTH: Self;
    /// The cube root of 1/2.
    const CBRT_HALF: Self;
    /// The cube root of 2.
    const CBRT_TWO: Self;
    /// Quotients above are slow.
    const REM_LIMIT: Self;
    /// (e^r - 1 - r) / r^2 for |r| <= 0.347, relative to e^r - 1.
    const EXP: &'static [Self];
    /// (2 atanh s - 2 s) / s^3 in s^2, for s^2 <= 0.02945, relative to 2 s.
    const LOG: &'static [Self];
    /// (atanh s - s - s^3 / 3) / s^5 in s^2, for s^2 <= 0.02945, relative to s.
    const ATANH: &'static [Self];
    /// (sin r - r) / r^3 in r^2, for |r| <= 0.787, relative to r.
    const SIN: &'static [Self];
    /// (cos r - 1 + r^2 / 2) / r^4 in r^2, for |r| <= 0.787, absolute.
    const COS: &'static [Self];
    /// (atan t - t) / t^3 in t^2, for t^2 <= 0.1717, relative to t.
    const ATAN: &'static [Self];
    /// (asin s - s) / s^3 in s^2, for s^2 <= 1/4, relative to s.
    const ASIN: &'static [Self];
    /// (sinh x - x) / x^3 in x^2, for x^2 <= 1, relative to x.
    const SINH: &'static [Self];
    /// erf x / x - 1 in x^2, for x^2 <= 1, relative to erf x.
    const ERF: &'static [Self];
    /// -log(erfc x) in x - 1, for x from 1 to `ERF_LIMIT`, as an absolute error of erfc.
    const ERF_TAIL: &'static [Self];
    /// ((1 + 2x) e^x^2 erfc x - BASE) / t in t, for x from 1/2 to `ERFC_LIMIT`, relative.
    const ERFC: &'static [Self];
    /// cbrt m for m from sqrt(1/2) to sqrt 2, relative.
    const CBRT: &'static [Self];
    /// `sin` of huge numbers.
    const SLOW_SIN: Slow<Self>;
    /// `cos` of huge numbers.
    const SLOW_COS: Slow<Self>;
    /// `tan` of huge numbers.
    const SLOW_TAN: Slow<Self>;
    /// Remainder of a huge quotient.
    const SLOW_REM: Slow2<Self>;
}

impl Constants for f32 {
    const WIDTH: u32 = 32;
    const SQRT_HALF_BITS: i64 = 0x3f35_04f3;
    const CBRT_STEPS: usize = 1;
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const TWO: Self = 2.0;
    const THREE: Self = 3.0;
    const HALF: Self = 0.5;
    const SIXTEENTH: Self = 0.0625;
    const MINUS_ONE: Self = -1.0;
    const MINUS_TWO: Self = -2.0;
    const MINUS_HALF: Self = -0.5;
    const INFINITY: Self = f32::INFINITY;
    const MINUS_INFINITY: Self = f32::NEG_INFINITY;
    const NAN: Self = f32::NAN;
    const LN2: (Self, Self) = (std::f32::consts::LN_2, -1.9046542e-9);
    const LN2_CUT: (Self, Self) = (0.69314575, 1.4286068e-6);
    const MINUS_LN2_CUT: (Self, Self) = (-Self::LN2_CUT.0, -Self::LN2_CUT.1);
    const LOG2_E: (Self, Self) = (std::f32::consts::LOG2_E, 1.925963e-8);
    const PI: (Self, Self) = (std::f32::consts::PI, -8.742278e-8);
    const THIRD: (Self, Self) = (1.0 / 3.0, -9.934108e-9);
    const ERFC_BASE: (Self, Self) = (1.2769784, 1.1382624e-8);
    const HALF_PI: [Self; 3] = [std::f32::consts::FRAC_PI_2, -4.371139e-8, -1.7151245e-15];
    const LEAST_NORMAL: Self = f32::MIN_POSITIVE;
    const TWO_TO_MANTISSA: Self = 8388608.0;
    const SMALL: Self = f32::MIN_POSITIVE * 33554432.0;
    const LARGE: Self = f32::MAX / 4.0;
    const EVEN_POWER: Self = 18446744073709551616.0;
    const EVEN_POWER_ROOT: Self = 4294967296.0;
    const TINY: Self = 1.4901161e-8;
    const EXP_LOW: Self = -105.0;
    const EXP_HIGH: Self = 89.0;
    const EXP2_LOW: Self = -151.0;
    const EXP2_HIGH: Self = 129.0;
    const EXPM1_LOW: Self = -18.0;
    const SINH_HIGH: Self = 89.5;
    const TANH_LIMIT: Self = 10.0;
    const ERF_LIMIT: Self = 3.95;
    const ERFC_LIMIT: Self = 10.1;
    const ERFC_MIDDLE: Self = 2.0;
    const TWO_OVER_PI: Self = std::f32::consts::FRAC_2_PI;
    const TRIG_LIMIT: Self = 131072.0;
    const TAN_EIGHTH: Self = 0.41421357;
    const CBRT_HALF: Self = 0.7937005;
    const CBRT_TWO: Self = 1.2599211;
    const REM_LIMIT: Self = 4194304.0;
    // Error at most 2^-30.5.
    const EXP: &'static [Self] = &[0.5, 0.16666664, 0.041666474, 0.008333912, 0.0013934051, 0.00019555012];
    // Error at most 2^-30.2.
    const LOG: &'static [Self] = &[0.66666776, 0.39977577, 0.29871073];
    // Error at most 2^-36.8.
    const ATANH: &'static [Self] = &[0.20000076, 0.14273547, 0.1170976];
    // Error at most 2^-28.0.
    const SIN: &'static [Self] = &[-0.16666655, 0.008332189, -0.0001951819];
    // Error at most 2^-33.1.
    const COS: &'static [Self] = &[0.041666646, -0.0013887311, 2.4432513e-05];
    // Error at most 2^-30.5.
    const ATAN: &'static [Self] = &[-0.33333316, 0.19998533, -0.14244507, 0.10600115, -0.060925078];
    // Error at most 2^-31.7.
    const ASIN: &'static [Self] = &[0.1666666, 0.07500518, 0.044514578, 0.03182587, 0.014374789, 0.037600663];
    // Error at most 2^-31.3.
    const SINH: &'static [Self] = &[0.16666667, 0.008333316, 0.00019841417, 2.791574e-06];
    // Error at most 2^-29.3.
    const ERF: &'static [Self] =
        &[0.12837917, -0.37612626, 0.11283583, -0.026853692, 0.0051880744, -0.00080078887, 7.846167e-05];
    // Error at most 2^-26.9.
    const ERF_TAIL: &'static [Self] =
        &[1.8496056, 2.6389654, 0.8431301, 0.041463222, -0.009836981, 0.0017912025, -0.00017733514];
    // Error at most 2^-27.9.
    const ERFC: &'static [Self] = &[
        -0.09276377,
        -0.16603082,
        0.16404884,
        -0.054211278,
        -0.008006556,
        0.008659295,
        0.0011494126,
        -0.0012657957,
        -0.00022864716,
    ];
    // Error at most 2^-16.7.
    const CBRT: &'static [Self] = &[0.4516689, 0.9048081, -0.53561145, 0.21692286, -0.03778415];
    const SLOW_SIN: Slow<Self> = slow::SIN_F32;
    const SLOW_COS: Slow<Self> = slow::COS_F32;
    const SLOW_TAN: Slow<Self> = slow::TAN_F32;
    const SLOW_REM: Slow2<Self> = slow::REM_F32;
}

impl Constants for f64 {
    const WIDTH: u32 = 64;
    const SQRT_HALF_BITS: i64 = 0x3fe6_a09e_667f_3bcd;
    const CBRT_STEPS: usize = 2;
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const TWO: Self = 2.0;
    const THREE: Self = 3.0;
    const HALF: Self = 0.5;
    const SIXTEENTH: Self = 0.0625;
    const MINUS_ONE: Self = -1.0;
    const MINUS_TWO: Self = -2.0;
    const MINUS_HALF: Self = -0.5;
    const INFINITY: Self = f64::INFINITY;
    const MINUS_INFINITY: Self = f64::NEG_INFINITY;
    const NAN: Self = f64::NAN;
    const LN2: (Self, Self) = (std::f64::consts::LN_2, 2.3190468138462996e-17);
    const LN2_CUT: (Self, Self) = (0.693147180559663, 2.8235290563031577e-13);
    const MINUS_LN2_CUT: (Self, Self) = (-Self::LN2_CUT.0, -Self::LN2_CUT.1);
    const LOG2_E: (Self, Self) = (std::f64::consts::LOG2_E, 2.0355273740931033e-17);
    const PI: (Self, Self) = (std::f64::consts::PI, 1.2246467991473532e-16);
    const THIRD: (Self, Self) = (1.0 / 3.0, 1.850371707708594e-17);
    const ERFC_BASE: (Self, Self) = (1.2530080582697296, 4.247741197363512e-17);
    const HALF_PI: [Self; 3] = [std::f64::consts::FRAC_PI_2, 6.123233995736766e-17, -1.4973849048591698e-33];
    const LEAST_NORMAL: Self = f64::MIN_POSITIVE;
    const TWO_TO_MANTISSA: Self = 4503599627370496.0;
    const SMALL: Self = f64::MIN_POSITIVE * 18014398509481984.0;
    const LARGE: Self = f64::MAX / 4.0;
    const EVEN_POWER: Self = 340282366920938463463374607431768211456.0;
    const EVEN_POWER_ROOT: Self = 18446744073709551616.0;
    const TINY: Self = 2.7755575615628914e-17;
    const EXP_LOW: Self = -746.0;
    const EXP_HIGH: Self = 710.0;
    const EXP2_LOW: Self = -1076.0;
    const EXP2_HIGH: Self = 1025.0;
    const EXPM1_LOW: Self = -38.0;
    const SINH_HIGH: Self = 710.6;
    const TANH_LIMIT: Self = 20.0;
    const ERF_LIMIT: Self = 5.95;
    const ERFC_LIMIT: Self = 27.3;
    const ERFC_MIDDLE: Self = 3.0;
    const TWO_OVER_PI: Self = std::f64::consts::FRAC_2_PI;
    const TRIG_LIMIT: Self = 1073741824.0;
    const TAN_EIGHTH: Self = 0.41421356237309503;
    const CBRT_HALF: Self = 0.7937005259840998;
    const CBRT_TWO: Self = 1.2599210498948732;
    const REM_LIMIT: Self = 2251799813685248.0;
    // Error at most 2^-61.5.
    const EXP: &'static [Self] = &[
        0.5,
        0.16666666666666677,
        0.04166666666666661,
        0.008333333333321442,
        0.0013888888888923692,
        0.00019841269886577116,
        2.4801587237854215e-05,
        2.7557243768307255e-06,
        2.7557352565833714e-07,
        2.5109188998731714e-08,
        2.0889613163072907e-09,
    ];
    // Error at most 2^-59.5.
    const LOG: &'static [Self] = &[
        0.6666666666666735,
        0.39999999999410524,
        0.28571428743259475,
        0.22222198485691244,
        0.18183568852338297,
        0.15313934165805954,
        0.14797126663609403,
    ];
    // Error at most 2^-73.5.
    const ATANH: &'static [Self] = &[
        0.1999999999999999,
        0.14285714285721896,
        0.11111111108903376,
        0.09090909420853927,
        0.07692279292498758,
        0.06668129348408733,
        0.058379459046053205,
        0.05990445894674769,
    ];
    // Error at most 2^-58.0.
    const SIN: &'static [Self] = &[
        -0.16666666666666632,
        0.008333333333322429,
        -0.0001984126982977818,
        2.755731367153367e-06,
        -2.5050753720931114e-08,
        1.5896484933634292e-10,
    ];
    // Error at most 2^-64.1.
    const COS: &'static [Self] = &[
        0.041666666666666595,
        -0.00138888888888734,
        2.4801587289053938e-05,
        -2.755731423330363e-07,
        2.0875707548952485e-09,
        -1.1358850894696957e-11,
    ];
    // Error at most 2^-59.5.
    const ATAN: &'static [Self] = &[
        -0.333333333333332,
        0.19999999999953824,
        -0.14285714280222,
        0.1111111078478627,
        -0.09090897796827663,
        0.0769206091912524,
        -0.06663112076599477,
        0.05847947443730636,
        -0.05039564059930628,
        0.0380710606121622,
        -0.017914212670716752,
    ];
    // Error at most 2^-59.8.
    const ASIN: &'static [Self] = &[
        0.16666666666666763,
        0.07499999999970176,
        0.044642857175185346,
        0.030381942681011766,
        0.022372215724299288,
        0.0173515990663891,
        0.01398097259761974,
        0.01139769226511826,
        0.010786964100103826,
        0.003681506269329579,
        0.021767014327936183,
        -0.021081998182205262,
        0.03267968701934952,
    ];
    // Error at most 2^-61.5.
    const SINH: &'static [Self] = &[
        0.16666666666666669,
        0.00833333333333297,
        0.0001984126984153122,
        2.7557319130362926e-06,
        2.5052126860508198e-08,
        1.6057000039108432e-10,
        7.765916133325172e-13,
    ];
    // Error at most 2^-56.3.
    const ERF: &'static [Self] = &[
        0.1283791670955126,
        -0.37612638903183876,
        0.11283791670958747,
        -0.026866170645620812,
        0.005223977629111068,
        -0.0008548327190606324,
        0.00012055337817062846,
        -1.4925739492741016e-05,
        1.6463103439155852e-06,
        -1.637081491427274e-07,
        1.4787750063926828e-08,
        -1.1835262497893243e-09,
        6.692747592342183e-11,
    ];
    // Error at most 2^-58.9.
    const ERF_TAIL: &'static [Self] = &[
        1.8496055099332482,
        2.638967514234791,
        0.8431072563585805,
        0.04156109804343414,
        -0.010033825389575384,
        0.0019779026556022684,
        -0.00023732281880023455,
        -2.627697030901255e-05,
        2.7157366153371804e-05,
        -9.606424169095583e-06,
        2.0571574657344933e-06,
        -1.4080685648729925e-07,
        -9.87731687323435e-08,
        5.257778965620801e-08,
        -1.5085197997889915e-08,
        2.9036300025388454e-09,
        -3.7428574038358144e-10,
        2.9367332078877606e-11,
        -1.0619073135380862e-12,
    ];
    // Error at most 2^-57.8.
    const ERFC: &'static [Self] = &[
        -0.1356211061245813,
        -0.04756229435344997,
        0.1296451587027792,
        -0.11927366341536354,
        0.06830802734323145,
        -0.023770514917061034,
        0.002529391829855965,
        0.001888690334348054,
        -0.0007798324121811075,
        -0.00010515956409583485,
        0.00012510020678356724,
        4.948068489850326e-06,
        -2.010381916476328e-05,
        -7.260209210524292e-07,
        3.4801330983236944e-06,
        3.4313119940394407e-07,
        -6.275584969238115e-07,
        -1.2016399096820758e-07,
        1.0976076018240065e-07,
        2.2337836564735496e-08,
        -1.4666518139062559e-08,
    ];
    // Error at most 2^-16.7.
    const CBRT: &'static [Self] = &[0.4516689, 0.9048081, -0.53561145, 0.21692286, -0.03778415];
    const SLOW_SIN: Slow<Self> = slow::SIN_F64;
    const SLOW_COS: Slow<Self> = slow::COS_F64;
    const SLOW_TAN: Slow<Self> = slow::TAN_F64;
    const SLOW_REM: Slow2<Self> = slow::REM_F64;
}

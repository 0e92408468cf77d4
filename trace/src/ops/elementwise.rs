//! Elementwise arithmetic and functions.

use crate::apply::apply;
use crate::error::Error;
use crate::ops::number::Operand;
use crate::tensor::{Tensor, attempt};
use pullback_ir::ops::elementwise::binary::Binary;
use pullback_ir::ops::elementwise::bitcast::Bitcast;
use pullback_ir::ops::elementwise::convert::Convert;
use pullback_ir::ops::elementwise::integer_pow::IntegerPow;
use pullback_ir::ops::elementwise::unary::Unary;
use pullback_ir::{DType, Loc};

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => {
        impl Tensor {
            $($(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                apply(Unary::$op, &[self])
            })*
        }
    };
}

unary! {
    /// Absolute value; slope 0 at 0.
    abs = Abs;
    /// -1, 0 or 1; slope 0.
    sign = Sign;
    /// The next integer towards minus infinity; slope 0.
    floor = Floor;
    /// The next integer towards infinity; slope 0.
    ceil = Ceil;
    /// The nearest integer, halves to even; slope 0.
    round = Round;
    /// Square root.
    sqrt = Sqrt;
    /// `1 / sqrt(x)`
    rsqrt = Rsqrt;
    /// Cube root, also of negative numbers.
    cbrt = Cbrt;
    /// e to the x.
    exp = Exp;
    /// 2 to the x.
    exp2 = Exp2;
    /// `exp(x) - 1` without cancellation.
    expm1 = Expm1;
    /// Natural logarithm.
    ln = Log;
    /// Natural logarithm, by NumPy's name.
    log = Log;
    /// Logarithm to base 2.
    log2 = Log2;
    /// `log(1 + x)` without cancellation.
    log1p = Log1p;
    /// Sine of radians.
    sin = Sin;
    /// Cosine of radians.
    cos = Cos;
    /// Tangent of radians.
    tan = Tan;
    /// Inverse sine.
    asin = Asin;
    /// Inverse cosine.
    acos = Acos;
    /// Inverse tangent.
    atan = Atan;
    /// Hyperbolic sine.
    sinh = Sinh;
    /// Hyperbolic cosine.
    cosh = Cosh;
    /// Hyperbolic tangent.
    tanh = Tanh;
    /// Inverse hyperbolic sine.
    asinh = Asinh;
    /// Inverse hyperbolic cosine.
    acosh = Acosh;
    /// Inverse hyperbolic tangent.
    atanh = Atanh;
    /// `1 / (1 + exp(-x))`
    sigmoid = Logistic;
    /// Error function.
    erf = Erf;
    /// `1 - erf(x)` without cancellation.
    erfc = Erfc;
    /// Number of ones among the bits of an integer.
    popcount = Popcount;
    /// Whether a float is neither infinite nor NaN.
    is_finite = IsFinite;
    /// Whether a float is NaN.
    is_nan = IsNan;
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => {
        impl Tensor {
            $($(#[$doc])*
            #[track_caller]
            pub fn $name(&self, other: impl Into<Operand>) -> Tensor {
                self.with_operand(stringify!($name), Binary::$op, other)
            })*
        }
    };
}

binary! {
    /// The larger of two; NaN if either is. Equal ones share the slope evenly.
    maximum = Max;
    /// The smaller of two; NaN if either is. Equal ones share the slope evenly.
    minimum = Min;
    /// `log(exp(x) + exp(y))` without overflow; the slopes are the softmax weights.
    logaddexp = LogAddExp;
    /// Angle of the point (other, self) in radians: `self` is y.
    atan2 = Atan2;
    /// Remainder of the division with the sign of `self`, as Rust's `%`.
    rem = Rem;
    /// Bits shifted right and filled with zeros.
    shr_logical = ShrLogical;
}

/// Refuses bounds between which no number lies, where that is known.
fn check_bounds(low: &Operand, high: &Operand, at: Loc) -> Result<(), Error> {
    let refuse = |text: String| Err(Error::invalid("clamp", text, at));
    for bound in [low, high] {
        if let Operand::Number(number) = bound
            && number.is_nan()
        {
            return refuse("a bound is NaN; give a number, infinite where there is no bound".into());
        }
    }
    match (low, high) {
        (Operand::Number(low), Operand::Number(high)) if low.is_above(*high) => {
            refuse(format!("the lower bound {low} is above the upper bound {high}; exchange them"))
        }
        (Operand::Number(_) | Operand::Tensor(_), Operand::Number(_) | Operand::Tensor(_)) => Ok(()),
    }
}

impl Tensor {
    /// `x * x`
    #[track_caller]
    pub fn square(&self) -> Tensor {
        self * self
    }

    /// `1 / x`
    #[track_caller]
    pub fn reciprocal(&self) -> Tensor {
        1.0 / self
    }

    /// Logarithm to base 10.
    #[track_caller]
    pub fn log10(&self) -> Tensor {
        self.ln() * std::f64::consts::LOG10_E
    }

    /// `x` to a constant integer power, which is right at 0 to every order.
    #[track_caller]
    pub fn powi(&self, exponent: i32) -> Tensor {
        apply(IntegerPow { exponent }, &[self])
    }

    /// `x` to the power of a number or a tensor; whole numbers are taken as [`Tensor::powi`] takes them.
    #[track_caller]
    pub fn pow(&self, exponent: impl Into<Operand>) -> Tensor {
        match exponent.into() {
            Operand::Number(number) if number.as_exponent().is_some() => {
                self.powi(number.as_exponent().unwrap_or(1))
            }
            exponent => self.with_operand("pow", Binary::Pow, exponent),
        }
    }

    /// `x` to a constant power.
    #[track_caller]
    pub fn powf(&self, exponent: f64) -> Tensor {
        self.pow(exponent)
    }

    /// Remainder of the division with the sign of `other`, as Python's `%`.
    #[track_caller]
    pub fn floor_mod(&self, other: impl Into<Operand>) -> Tensor {
        let other = attempt!(other.into().beside(attempt!(self.dtype()), Loc::caller()));
        let remainder = self.rem(&other);
        let crosses = remainder.ne(0) & remainder.lt(0).ne(other.lt(0));
        crosses.select(&remainder + &other, &remainder)
    }

    /// The quotient rounded towards minus infinity.
    #[track_caller]
    pub fn floor_div(&self, other: impl Into<Operand>) -> Tensor {
        let dtype = attempt!(self.dtype());
        let other = attempt!(other.into().beside(dtype, Loc::caller()));
        if dtype.is_float() {
            return (self / &other).floor();
        }
        (self - &self.floor_mod(&other)) / other
    }

    /// The value held between two bounds. At the bounds themselves the slope is still 1.
    ///
    /// Errors: numbers as bounds of which one is NaN, or the lower is above the upper. Bounds that are tensors mean what
    /// they mean to NumPy: the result is NaN where a bound is, and the upper bound where the lower is above it.
    #[track_caller]
    pub fn clamp(&self, low: impl Into<Operand>, high: impl Into<Operand>) -> Tensor {
        let (dtype, at) = (attempt!(self.dtype()), Loc::caller());
        let (low, high) = (low.into(), high.into());
        attempt!(check_bounds(&low, &high, at));
        let may_be_nan = |bound: &Operand| matches!(bound, Operand::Tensor(_)) && dtype.is_float();
        let (low_may, high_may) = (may_be_nan(&low), may_be_nan(&high));
        let low = attempt!(low.beside(dtype, at));
        let high = attempt!(high.beside(dtype, at));
        let below = self.lt(&low);
        let below = if low_may { below | low.is_nan() } else { below };
        let raised = below.select(&low, self);
        let above = raised.gt(&high);
        let above = if high_may { above | high.is_nan() } else { above };
        above.select(&high, &raised)
    }

    /// [`Tensor::clamp`] by NumPy's name.
    #[track_caller]
    pub fn clip(&self, low: impl Into<Operand>, high: impl Into<Operand>) -> Tensor {
        self.clamp(low, high)
    }

    /// Each element as a number of another dtype. Floats become integers by cutting the fraction off, saturating.
    #[track_caller]
    pub fn to_dtype(&self, dtype: DType) -> Tensor {
        if attempt!(self.dtype()) == dtype { self.clone() } else { apply(Convert { dtype }, &[self]) }
    }

    /// The bits of each element as an element of another dtype of the same size; slope 0.
    #[track_caller]
    pub fn bitcast(&self, dtype: DType) -> Tensor {
        apply(Bitcast { dtype }, &[self])
    }

    /// The same value, through which nothing is differentiated.
    #[track_caller]
    pub fn stop_gradient(&self) -> Tensor {
        // Bits carry no tangent.
        let bits = match attempt!(self.dtype()) {
            DType::F32 => DType::U32,
            DType::F64 => DType::U64,
            DType::Bool | DType::I32 | DType::I64 | DType::U32 | DType::U64 => return self.clone(),
        };
        self.bitcast(bits).bitcast(attempt!(self.dtype()))
    }

    /// `x * log(y)`, and 0 where x is 0.
    #[track_caller]
    pub fn xlogy(&self, other: impl Into<Operand>) -> Tensor {
        let other = attempt!(other.into().beside(attempt!(self.dtype()), Loc::caller()));
        let product = self * other.ln();
        let zero = self.eq(0) & !other.is_nan();
        zero.select(0, &product)
    }
}

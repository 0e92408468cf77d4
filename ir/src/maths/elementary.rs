//! The elementary functions by width.

use super::lanes::{Float, Lanes};

/// A float type with its elementary functions, each defined on any machine.
pub trait Elementary: Float {
    /// -1, 0 or 1; zeros and NaN unchanged.
    fn sign<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// `1 / sqrt(x)`
    fn rsqrt<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// Cube root.
    fn cbrt<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// e to the x.
    fn exp<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// 2 to the x.
    fn exp2<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// `exp(x) - 1` without cancellation.
    fn expm1<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// Natural logarithm.
    fn log<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// Logarithm to base 2.
    fn log2<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// `log(1 + x)` without cancellation.
    fn log1p<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// Sine.
    fn sin<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// Cosine.
    fn cos<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// Tangent.
    fn tan<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// Inverse sine.
    fn asin<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// Inverse cosine.
    fn acos<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// Inverse tangent.
    fn atan<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// Hyperbolic sine.
    fn sinh<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// Hyperbolic cosine.
    fn cosh<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// Hyperbolic tangent.
    fn tanh<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// Inverse hyperbolic sine.
    fn asinh<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// Inverse hyperbolic cosine.
    fn acosh<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// Inverse hyperbolic tangent.
    fn atanh<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// `1 / (1 + exp(-x))`
    fn logistic<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// Error function.
    fn erf<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// `1 - erf(x)` without cancellation.
    fn erfc<L: Lanes<Self>>(l: &mut L, x: L::V) -> L::V;
    /// `x` to the `y`.
    fn pow<L: Lanes<Self>>(l: &mut L, x: L::V, y: L::V) -> L::V;
    /// Angle of the point (`x`, `y`) from the x axis.
    fn atan2<L: Lanes<Self>>(l: &mut L, y: L::V, x: L::V) -> L::V;
    /// Remainder of `x / y` with the sign of `x`, exact.
    fn rem<L: Lanes<Self>>(l: &mut L, x: L::V, y: L::V) -> L::V;
}

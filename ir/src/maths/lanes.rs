//! The machines that scalar definitions run on.

use crate::literal::Scalar;

/// A float element type.
pub trait Float: Scalar {
    /// Bits of the stored significand (23 or 52).
    const MANTISSA: u32;
    /// Exponent bias (127 or 1023).
    const BIAS: i64;
}

impl Float for f32 {
    const MANTISSA: u32 = 23;
    const BIAS: i64 = 127;
}

impl Float for f64 {
    const MANTISSA: u32 = 52;
    const BIAS: i64 = 1023;
}

/// A function for arguments outside the fast range, called lane by lane. Shared by all machines.
#[derive(Clone, Copy)]
pub struct Slow<T> {
    /// Name, unique among slow functions.
    pub name: &'static str,
    /// The function.
    pub call: extern "C" fn(T) -> T,
}

/// A slow function of two arguments.
#[derive(Clone, Copy)]
pub struct Slow2<T> {
    /// Name, unique among slow functions.
    pub name: &'static str,
    /// The function.
    pub call: extern "C" fn(T, T) -> T,
}

/// A machine for floats of type `T`, one or several lanes at a time. Every operation is the IEEE 754 one, rounded
/// to nearest even; nothing is contracted or reassociated. Which NaN an operation returns is not specified.
#[allow(clippy::wrong_self_convention)] // The receiver is the machine, not what is converted.
pub trait Lanes<T: Float> {
    /// Floats.
    type V: Copy;
    /// Two's complement integers of the same width; arithmetic wraps.
    type I: Copy;
    /// Truth values.
    type M: Copy;

    /// A constant in every lane.
    fn float(&mut self, value: T) -> Self::V;
    /// An integer constant in every lane (truncated to the width).
    fn int(&mut self, value: i64) -> Self::I;

    /// `a + b`
    fn add(&mut self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`
    fn sub(&mut self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`
    fn mul(&mut self, a: Self::V, b: Self::V) -> Self::V;
    /// `a / b`
    fn div(&mut self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    fn fma(&mut self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// Square root.
    fn sqrt(&mut self, a: Self::V) -> Self::V;
    /// Sign flipped, also of zeros and NaN.
    fn neg(&mut self, a: Self::V) -> Self::V;
    /// Sign cleared.
    fn abs(&mut self, a: Self::V) -> Self::V;
    /// Next integer towards minus infinity.
    fn floor(&mut self, a: Self::V) -> Self::V;
    /// Next integer towards infinity.
    fn ceil(&mut self, a: Self::V) -> Self::V;
    /// Next integer towards zero.
    fn trunc(&mut self, a: Self::V) -> Self::V;
    /// Nearest integer, halves to even; keeps the sign of zero.
    fn nearest(&mut self, a: Self::V) -> Self::V;
    /// The larger; NaN if either is NaN; `max(-0.0, 0.0)` is `0.0` in either order.
    fn max(&mut self, a: Self::V, b: Self::V) -> Self::V;
    /// The smaller; NaN if either is NaN; `min(-0.0, 0.0)` is `-0.0` in either order.
    fn min(&mut self, a: Self::V, b: Self::V) -> Self::V;

    /// `a == b`; false if either is NaN.
    fn eq(&mut self, a: Self::V, b: Self::V) -> Self::M;
    /// `a < b`; false if either is NaN.
    fn lt(&mut self, a: Self::V, b: Self::V) -> Self::M;
    /// `a <= b`; false if either is NaN.
    fn le(&mut self, a: Self::V, b: Self::V) -> Self::M;
    /// Both.
    fn and(&mut self, a: Self::M, b: Self::M) -> Self::M;
    /// Either.
    fn or(&mut self, a: Self::M, b: Self::M) -> Self::M;
    /// Not.
    fn not(&mut self, a: Self::M) -> Self::M;
    /// `a` where `m`, else `b`.
    fn select(&mut self, m: Self::M, a: Self::V, b: Self::V) -> Self::V;

    /// Bits of a float.
    fn to_bits(&mut self, a: Self::V) -> Self::I;
    /// Float of these bits.
    fn from_bits(&mut self, a: Self::I) -> Self::V;
    /// The integer equal to an integral float of magnitude at most 2^22 (f32) or 2^51 (f64); anything for others.
    fn to_int(&mut self, a: Self::V) -> Self::I;
    /// The float equal to an integer of magnitude at most 2^22 (f32) or 2^51 (f64); anything for others.
    fn from_int(&mut self, a: Self::I) -> Self::V;
    /// `a + b`
    fn iadd(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// `a - b`
    fn isub(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise and.
    fn iand(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise or.
    fn ior(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise exclusive or.
    fn ixor(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Shift left by a constant below the width.
    fn ishl(&mut self, a: Self::I, by: u32) -> Self::I;
    /// Logical shift right by a constant below the width.
    fn ushr(&mut self, a: Self::I, by: u32) -> Self::I;
    /// Arithmetic shift right by a constant below the width.
    fn sshr(&mut self, a: Self::I, by: u32) -> Self::I;
    /// `a == b`
    fn ieq(&mut self, a: Self::I, b: Self::I) -> Self::M;
    /// Signed `a < b`
    fn ilt(&mut self, a: Self::I, b: Self::I) -> Self::M;
    /// `a` where `m`, else `b`.
    fn iselect(&mut self, m: Self::M, a: Self::I, b: Self::I) -> Self::I;

    /// `slow(x)` in lanes where `rare` holds, `fast` elsewhere. Costs one test where no lane is rare.
    fn slow(&mut self, rare: Self::M, fast: Self::V, x: Self::V, slow: Slow<T>) -> Self::V;
    /// `slow(x, y)` in lanes where `rare` holds, `fast` elsewhere.
    fn slow2(&mut self, rare: Self::M, fast: Self::V, x: Self::V, y: Self::V, slow: Slow2<T>) -> Self::V;
}

/// An integer element type.
pub trait Int: Scalar {
    /// Bits.
    const WIDTH: u32;
    /// Whether it is two's complement.
    const SIGNED: bool;
    /// Zero extended or sign extended to 64 bits.
    fn to_i64(self) -> i64;
    /// Truncated from 64 bits.
    fn from_i64(value: i64) -> Self;
}

macro_rules! int {
    ($($t:ty: $signed:expr),*) => {
        $(impl Int for $t {
            const WIDTH: u32 = <$t>::BITS;
            const SIGNED: bool = $signed;
            fn to_i64(self) -> i64 { self as i64 }
            fn from_i64(value: i64) -> Self { value as $t }
        })*
    };
}
int!(i32: true, i64: true, u32: false, u64: false);

/// A machine for integers of type `T`, one or several lanes at a time. Arithmetic wraps.
pub trait IntLanes<T: Int> {
    /// Integers.
    type V: Copy;
    /// Truth values.
    type M: Copy;

    /// A constant in every lane, truncated to the width.
    fn int(&mut self, value: i64) -> Self::V;
    /// `a + b`
    fn add(&mut self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`
    fn sub(&mut self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`
    fn mul(&mut self, a: Self::V, b: Self::V) -> Self::V;
    /// Quotient towards zero; `b` is not 0, and not -1 where `a` is the least value.
    fn div(&mut self, a: Self::V, b: Self::V) -> Self::V;
    /// Remainder with the sign of `a`; `b` as for [`IntLanes::div`].
    fn rem(&mut self, a: Self::V, b: Self::V) -> Self::V;
    /// Bitwise and.
    fn and(&mut self, a: Self::V, b: Self::V) -> Self::V;
    /// Bitwise or.
    fn or(&mut self, a: Self::V, b: Self::V) -> Self::V;
    /// Bitwise exclusive or.
    fn xor(&mut self, a: Self::V, b: Self::V) -> Self::V;
    /// `a << b` with `b` from 0 to the width less one.
    fn shl(&mut self, a: Self::V, b: Self::V) -> Self::V;
    /// Zero-filling `a >> b` with `b` from 0 to the width less one.
    fn shr_logical(&mut self, a: Self::V, b: Self::V) -> Self::V;
    /// Sign-filling `a >> b` with `b` from 0 to the width less one (on unsigned types too: the top bit is copied).
    fn shr_arithmetic(&mut self, a: Self::V, b: Self::V) -> Self::V;
    /// Number of ones.
    fn popcount(&mut self, a: Self::V) -> Self::V;
    /// `a == b`
    fn eq(&mut self, a: Self::V, b: Self::V) -> Self::M;
    /// `a < b` in the type's own order.
    fn lt(&mut self, a: Self::V, b: Self::V) -> Self::M;
    /// `a < b` as unsigned numbers.
    fn lt_unsigned(&mut self, a: Self::V, b: Self::V) -> Self::M;
    /// `a` where `m`, else `b`.
    fn select(&mut self, m: Self::M, a: Self::V, b: Self::V) -> Self::V;
    /// Not.
    fn not(&mut self, m: Self::M) -> Self::M;
    /// Both.
    fn both(&mut self, a: Self::M, b: Self::M) -> Self::M;
}

//! Rust numbers as operands: they take the dtype of the tensor they meet.

use crate::error::Error;
use crate::tensor::Tensor;
use pullback_ir::literal::Scalar;
use pullback_ir::{DType, Literal, Loc, TensorType};
use std::fmt;

/// A Rust number, before it has met a tensor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
}

/// A Rust number type.
pub trait Numeric: Copy + Into<Number> + Into<Operand> {}

macro_rules! numbers {
    ($($t:ty => $variant:ident;)*) => {
        $(impl Numeric for $t {}
        impl From<$t> for Number {
            fn from(x: $t) -> Number {
                Number::$variant(x.into())
            }
        }
        impl From<$t> for Operand {
            fn from(x: $t) -> Operand {
                Operand::Number(x.into())
            }
        })*
    };
}

numbers! { i32 => Int; i64 => Int; u32 => Int; f32 => Float; f64 => Float; }

impl fmt::Display for Number {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Int(x) => x.fmt(formatter),
            Number::Float(x) => write!(formatter, "{x:?}"),
        }
    }
}

impl Number {
    /// The bits of the number as an element of the dtype, if that can hold it.
    fn bits(self, dtype: DType) -> Option<u64> {
        match (self, dtype) {
            (Number::Int(x), DType::F32) => Some((x as f32).to_bits64()),
            (Number::Int(x), DType::F64) => Some((x as f64).to_bits64()),
            (Number::Float(x), DType::F32) => Some((x as f32).to_bits64()),
            (Number::Float(x), DType::F64) => Some(x.to_bits64()),
            (Number::Int(x), DType::I32) => i32::try_from(x).ok().map(Scalar::to_bits64),
            (Number::Int(x), DType::I64) => Some(x.to_bits64()),
            (Number::Int(x), DType::U32) => u32::try_from(x).ok().map(Scalar::to_bits64),
            (Number::Int(x), DType::U64) => u64::try_from(x).ok().map(Scalar::to_bits64),
            (Number::Int(_), DType::Bool) => None,
            (Number::Float(_), DType::Bool | DType::I32 | DType::I64 | DType::U32 | DType::U64) => None,
        }
    }

    /// A constant of rank 0.
    pub(crate) fn constant(self, dtype: DType, at: Loc) -> Result<Tensor, Error> {
        let bits = self.bits(dtype).ok_or(Error::Literal { literal: self.to_string(), dtype, at })?;
        Ok(Tensor::literal(Literal::splat_bits(TensorType::scalar(dtype), bits)))
    }

    /// Whether it is NaN.
    pub(crate) fn is_nan(self) -> bool {
        matches!(self, Number::Float(x) if x.is_nan())
    }

    /// Whether it is the greater of two.
    pub(crate) fn is_above(self, other: Number) -> bool {
        match (self, other) {
            (Number::Int(x), Number::Int(y)) => x > y,
            (Number::Int(x), Number::Float(y)) => x as f64 > y,
            (Number::Float(x), Number::Int(y)) => x > y as f64,
            (Number::Float(x), Number::Float(y)) => x > y,
        }
    }

    /// The number as an exponent of `integer_pow`, if it is a small integer.
    pub(crate) fn as_exponent(self) -> Option<i32> {
        match self {
            Number::Int(x) => i32::try_from(x).ok(),
            Number::Float(x) => (x.fract() == 0.0 && x.abs() <= 1024.0).then_some(x as i32),
        }
    }
}

/// What a binary method takes besides its tensor: another tensor, or a number.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A tensor.
    Tensor(Tensor),
    /// A number, which takes the dtype of the tensor it meets.
    Number(Number),
}

impl From<Tensor> for Operand {
    fn from(tensor: Tensor) -> Operand {
        Operand::Tensor(tensor)
    }
}
impl From<&Tensor> for Operand {
    fn from(tensor: &Tensor) -> Operand {
        Operand::Tensor(tensor.clone())
    }
}

impl Operand {
    /// The operand as a tensor beside one of this dtype.
    pub(crate) fn beside(self, dtype: DType, at: Loc) -> Result<Tensor, Error> {
        match self {
            Operand::Tensor(tensor) => tensor.ok(),
            Operand::Number(number) => number.constant(dtype, at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_the_dtype_they_meet_or_are_refused() {
        assert_eq!(Number::from(2).bits(DType::F32), Some(2.0f32.to_bits64()));
        assert_eq!(Number::from(-1).bits(DType::U32), None);
        assert_eq!(Number::from(0.5).bits(DType::I64), None);
        assert_eq!(Number::from(i64::MAX).bits(DType::I64), Some(i64::MAX as u64));
        assert_eq!(Number::from(1i64 << 40).bits(DType::I32), None);
    }
}

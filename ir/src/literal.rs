//! Constants inside programs. Equality and hashing are by bits, so -0.0 and every NaN keep their identity.

use crate::dtype::DType;
use crate::shape::{Shape, TensorType};
use std::sync::Arc;

/// A constant tensor.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Literal {
    ty: TensorType,
    data: Data,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Data {
    /// Every element has these bits.
    Splat(u64),
    /// One word of bits per element, row-major.
    Dense(Arc<[u64]>),
}

/// A Rust scalar that can be an element.
pub trait Scalar: Copy + Send + Sync + 'static {
    /// Its element type.
    const DTYPE: DType;
    /// Its bits, zero extended.
    fn to_bits64(self) -> u64;
    /// The scalar with these bits.
    fn from_bits64(bits: u64) -> Self;
}

macro_rules! scalar {
    ($($t:ty => $d:ident, |$x:ident| $to:expr, |$b:ident| $from:expr;)*) => {
        $(impl Scalar for $t {
            const DTYPE: DType = DType::$d;
            fn to_bits64(self) -> u64 { let $x = self; $to }
            fn from_bits64($b: u64) -> Self { $from }
        })*
    };
}

scalar! {
    bool => Bool, |x| x as u64, |b| b != 0;
    i32 => I32, |x| x as u32 as u64, |b| b as u32 as i32;
    i64 => I64, |x| x as u64, |b| b as i64;
    u32 => U32, |x| x as u64, |b| b as u32;
    u64 => U64, |x| x, |b| b;
    f32 => F32, |x| x.to_bits() as u64, |b| f32::from_bits(b as u32);
    f64 => F64, |x| x.to_bits(), |b| f64::from_bits(b);
}

impl Literal {
    /// A tensor of this shape whose elements all equal `value`.
    pub fn splat<T: Scalar>(value: T, shape: impl Into<Shape>) -> Literal {
        Literal::splat_bits(TensorType::new(T::DTYPE, shape), value.to_bits64())
    }

    /// A scalar.
    pub fn scalar<T: Scalar>(value: T) -> Literal {
        Literal::splat(value, Shape::scalar())
    }

    /// A tensor whose elements all have these bits (as [`Scalar::to_bits64`] gives them).
    pub fn splat_bits(ty: TensorType, bits: u64) -> Literal {
        Literal { ty, data: Data::Splat(bits) }
    }

    /// A tensor of the type with every element equal to the number `value`, rounded to the element type
    /// (bool: whether it is not zero).
    pub fn number(ty: TensorType, value: f64) -> Literal {
        let bits = match ty.dtype {
            DType::Bool => (value != 0.0).to_bits64(),
            DType::I32 => (value as i32).to_bits64(),
            DType::I64 => (value as i64).to_bits64(),
            DType::U32 => (value as u32).to_bits64(),
            DType::U64 => (value as u64).to_bits64(),
            DType::F32 => (value as f32).to_bits64(),
            DType::F64 => value.to_bits64(),
        };
        Literal::splat_bits(ty, bits)
    }

    /// A dense constant from one word of bits per element; `None` when the count does not fit the shape.
    /// Equal elements (and single ones) become a splat, so that equal constants have one representation.
    pub fn dense_bits(ty: TensorType, bits: Vec<u64>) -> Option<Literal> {
        if ty.shape.checked_len() != Some(bits.len()) {
            return None;
        }
        let first = bits.first().copied().unwrap_or(0);
        let data =
            if bits.iter().all(|&b| b == first) { Data::Splat(first) } else { Data::Dense(bits.into()) };
        Some(Literal { ty, data })
    }

    /// A dense constant; `None` when the count does not fit the shape.
    pub fn dense<T: Scalar>(values: &[T], shape: impl Into<Shape>) -> Option<Literal> {
        let ty = TensorType::new(T::DTYPE, shape);
        Literal::dense_bits(ty, values.iter().map(|v| v.to_bits64()).collect())
    }

    /// Type of the constant.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// The bits every element has, if the constant is a splat.
    pub fn splat_value(&self) -> Option<u64> {
        match self.data {
            Data::Splat(bits) => Some(bits),
            Data::Dense(_) => None,
        }
    }

    /// The number every element equals, if the constant is a float splat.
    pub fn splat_float(&self) -> Option<f64> {
        let bits = self.splat_value()?;
        match self.ty.dtype {
            DType::F32 => Some(f32::from_bits64(bits) as f64),
            DType::F64 => Some(f64::from_bits64(bits)),
            _ => None,
        }
    }

    /// The bits of each element, row-major.
    pub fn bits(&self) -> impl Iterator<Item = u64> + '_ {
        let n = self.ty.shape.elements();
        (0..n).map(move |i| self.bits_at(i))
    }

    /// The bits of the element at a row-major position below the number of elements.
    pub fn bits_at(&self, index: usize) -> u64 {
        match &self.data {
            Data::Splat(bits) => *bits,
            Data::Dense(bits) => bits[index],
        }
    }

    /// The constant with every NaN as the canonical one: which NaN an op gives is unspecified, so results are shown so.
    pub fn with_canonical_nans(&self) -> Literal {
        let canonical = |bits: u64| match self.ty.dtype {
            DType::F32 if f32::from_bits64(bits).is_nan() => f32::NAN.to_bits64(),
            DType::F64 if f64::from_bits64(bits).is_nan() => f64::NAN.to_bits64(),
            _ => bits,
        };
        match &self.data {
            Data::Splat(bits) => Literal::splat_bits(self.ty.clone(), canonical(*bits)),
            Data::Dense(bits) => {
                let bits = bits.iter().map(|&bits| canonical(bits)).collect();
                Literal::dense_bits(self.ty.clone(), bits).unwrap_or_else(|| self.clone())
            }
        }
    }

    /// The same elements under another shape of equal size; `None` when the sizes differ.
    pub fn reshaped(&self, shape: impl Into<Shape>) -> Option<Literal> {
        let shape = shape.into();
        (shape.checked_len()? == self.ty.shape.elements())
            .then(|| Literal { ty: self.ty.with_shape(shape), data: self.data.clone() })
    }
}

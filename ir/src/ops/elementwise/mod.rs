//! Elementwise functions: each element of the result depends on the operands' elements at the same index.

use crate::error::Problem;
use crate::shape::TensorType;

pub mod binary;
pub mod bitcast;
pub mod compare;
pub mod convert;
pub mod integer_pow;
pub mod scale_by;
pub mod select;
pub mod unary;

/// Checks that two operands have one type.
pub(crate) fn same_type(left: &TensorType, right: &TensorType) -> Result<(), Problem> {
    if left.dtype != right.dtype {
        return Err(Problem::DTypesDiffer { left: left.dtype, right: right.dtype });
    }
    if left.shape != right.shape {
        return Err(Problem::ShapesDiffer { left: left.shape.clone(), right: right.shape.clone() });
    }
    Ok(())
}

/// Element types a function is defined on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Domain {
    Floats,
    Numbers,
    Integers,
    Bits,
}

impl Domain {
    pub(crate) fn check(self, operand: usize, ty: &TensorType) -> Result<(), Problem> {
        let dtype = ty.dtype;
        let (allowed, expected) = match self {
            Domain::Floats => (dtype.is_float(), "a float type (f32, f64)"),
            Domain::Numbers => (dtype.is_float() || dtype.is_int(), "a float or integer type"),
            Domain::Integers => (dtype.is_int(), "an integer type (i32, i64, u32, u64)"),
            Domain::Bits => (!dtype.is_float(), "bool or an integer type"),
        };
        if allowed { Ok(()) } else { Err(Problem::DType { operand, found: dtype, expected }) }
    }
}

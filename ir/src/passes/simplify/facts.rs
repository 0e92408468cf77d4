//! What is known of the values of floats: a bound on their size, and which zeros occur. Learned once per value, when
//! its op is appended, from what is known of the operands.

use super::Simplifier;
use crate::dtype::DType;
use crate::literal::{Literal, Scalar};
use crate::ops::Op;
use crate::ops::elementwise::binary::Binary;
use crate::ops::elementwise::unary::Unary;
use crate::ops::reduce::reduce::Reducer;
use crate::program::Value;

/// What holds of every element of a value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Facts {
    /// No element is NaN or larger in magnitude; infinite when nothing is known.
    bound: f64,
    /// No element is -0.0.
    no_negative_zero: bool,
    /// No element is zero of either sign.
    no_zero: bool,
}

const NOTHING: Facts = Facts { bound: f64::INFINITY, no_negative_zero: false, no_zero: false };

/// What holds of integers (and bool) of at most this magnitude.
const fn integers(bound: f64) -> Facts {
    Facts { bound, no_negative_zero: true, no_zero: false }
}

/// Above every exact bound by more than rounding in f32 can add to it.
const SLACK: f64 = 1.0 + 1e-6;

impl Simplifier<'_> {
    /// Whether it is known that no element is infinite or NaN.
    pub(super) fn is_finite(&self, value: Value) -> bool {
        self.facts_of(value).bound.is_finite()
    }

    /// Whether it is known that no element is -0.0.
    pub(super) fn never_negative_zero(&self, value: Value) -> bool {
        self.facts_of(value).no_negative_zero
    }

    /// Whether it is known that no element is zero.
    pub(super) fn never_zero(&self, value: Value) -> bool {
        self.facts_of(value).no_zero
    }

    fn facts_of(&self, value: Value) -> Facts {
        match self.ty(value).dtype {
            DType::Bool => integers(1.0),
            DType::I32 | DType::U32 => integers(u32::MAX as f64),
            DType::I64 | DType::U64 => integers(u64::MAX as f64),
            DType::F32 | DType::F64 => self.facts.get(value).copied().unwrap_or(NOTHING),
        }
    }

    /// The facts that follow from the op that defines a value.
    pub(super) fn learn(&self, value: Value) -> Facts {
        let Some(node) = self.producer(value) else { return NOTHING };
        let operands: Vec<Facts> = node.operands.iter().map(|&v| self.facts_of(v)).collect();
        let largest = match self.ty(value).dtype {
            DType::F32 => f32::MAX as f64,
            _ => f64::MAX,
        };
        let facts = match &node.op {
            Op::Constant(constant) => of_literal(&constant.value),
            Op::Iota(_) => integers((1u64 << 48) as f64),
            Op::Unary(function) => of_unary(*function, operands[0]),
            Op::Binary(function) => {
                let is_square = node.operands[0] == node.operands[1];
                of_binary(*function, operands[0], operands[1], is_square)
            }
            Op::Select(_) => either(operands[1], operands[2]),
            // Rounded to a neighbour; narrowed, a small number becomes zero.
            Op::Convert(_) => {
                let is_narrowed = self.ty(node.operands[0]).dtype == DType::F64;
                let Facts { bound, no_negative_zero, no_zero } = operands[0];
                Facts {
                    bound: bound * SLACK,
                    no_negative_zero: no_negative_zero && !is_narrowed,
                    no_zero: no_zero && !is_narrowed,
                }
            }
            // Rounding adds up over the products.
            Op::IntegerPow(power) if power.exponent >= 0 => Facts {
                bound: operands[0].bound.max(1.0).powi(power.exponent) * 2.0,
                no_negative_zero: power.exponent % 2 == 0,
                no_zero: false,
            },
            Op::Reduce(reduce) => {
                let count: usize = reduce.dims.iter().map(|&d| self.ty(node.operands[0]).shape[d]).product();
                of_reduction(reduce.reducer, operands[0], count)
            }
            Op::Reshape(_) | Op::Transpose(_) | Op::Broadcast(_) | Op::Slice(_) | Op::Reverse(_) => {
                operands[0]
            }
            Op::Pad(_) | Op::DynamicUpdateSlice(_) => either(operands[0], operands[1]),
            Op::Concat(_) => operands.iter().copied().reduce(either).unwrap_or(NOTHING),
            // What is dropped reads as 0.
            Op::Gather(_) | Op::DynamicSlice(_) => Facts { no_zero: false, ..operands[0] },
            Op::IntegerPow(_)
            | Op::ScaleBy(_)
            | Op::Bitcast(_)
            | Op::Compare(_)
            | Op::ArgReduce(_)
            | Op::Dot(_)
            | Op::Scatter(_)
            | Op::Call(_)
            | Op::Loop(_)
            | Op::Branch(_)
            | Op::CustomJvp(_)
            | Op::CustomVjp(_)
            | Op::CustomLinear(_)
            | Op::CustomCall(_)
            | Op::Barrier(_)
            | Op::Offer(_) => NOTHING,
        };
        // Beyond the largest number lies infinity; a bound that is NaN (0 times infinity) bounds nothing.
        let bound = if facts.bound <= largest { facts.bound } else { f64::INFINITY };
        Facts { bound, ..facts }
    }
}

fn either(x: Facts, y: Facts) -> Facts {
    Facts {
        bound: x.bound.max(y.bound),
        no_negative_zero: x.no_negative_zero && y.no_negative_zero,
        no_zero: x.no_zero && y.no_zero,
    }
}

fn of_literal(literal: &Literal) -> Facts {
    let value = |bits| match literal.ty().dtype {
        DType::F32 => f32::from_bits64(bits) as f64,
        _ => f64::from_bits64(bits),
    };
    let of_bits = |bits| {
        let value: f64 = value(bits);
        let bound = if value.is_finite() { value.abs() } else { f64::INFINITY };
        Facts { bound, no_negative_zero: value.to_bits() != (-0.0f64).to_bits(), no_zero: value != 0.0 }
    };
    match literal.splat_value() {
        Some(bits) => of_bits(bits),
        None => literal.bits().map(of_bits).reduce(either).unwrap_or(NOTHING),
    }
}

fn of_unary(function: Unary, x: Facts) -> Facts {
    match function {
        // -0.0 comes from 0.0
        Unary::Neg => Facts { no_negative_zero: x.no_zero, ..x },
        Unary::Abs => Facts { no_negative_zero: true, ..x },
        Unary::Sign => Facts { bound: if x.bound.is_finite() { 1.0 } else { f64::INFINITY }, ..x },
        // Rounded to the next whole number; -0.5 may become -0.0
        Unary::Floor | Unary::Ceil | Unary::Round => Facts { bound: x.bound + 1.0, ..NOTHING },
        // Positive, 0.0 by underflow, or NaN
        Unary::Exp | Unary::Exp2 | Unary::Logistic => Facts { no_negative_zero: true, ..NOTHING },
        Unary::Sqrt
        | Unary::Rsqrt
        | Unary::Cbrt
        | Unary::Expm1
        | Unary::Log
        | Unary::Log2
        | Unary::Log1p
        | Unary::Sin
        | Unary::Cos
        | Unary::Tan
        | Unary::Asin
        | Unary::Acos
        | Unary::Atan
        | Unary::Sinh
        | Unary::Cosh
        | Unary::Tanh
        | Unary::Asinh
        | Unary::Acosh
        | Unary::Atanh
        | Unary::Erf
        | Unary::Erfc
        | Unary::Not
        | Unary::Popcount
        | Unary::IsFinite
        | Unary::IsNan => NOTHING,
    }
}

fn of_binary(function: Binary, x: Facts, y: Facts, is_square: bool) -> Facts {
    match function {
        // A sum is -0.0 only if both terms are, and a difference only as -0.0 - 0.0.
        Binary::Add => Facts {
            bound: (x.bound + y.bound) * SLACK,
            no_negative_zero: x.no_negative_zero || y.no_negative_zero,
            no_zero: false,
        },
        Binary::Sub => Facts { bound: (x.bound + y.bound) * SLACK, no_zero: false, ..x },
        Binary::Mul => {
            Facts { bound: x.bound * y.bound * SLACK, no_negative_zero: is_square, no_zero: false }
        }
        Binary::Max | Binary::Min => either(x, y),
        Binary::Div
        | Binary::Rem
        | Binary::Pow
        | Binary::Atan2
        | Binary::LogAddExp
        | Binary::And
        | Binary::Or
        | Binary::Xor
        | Binary::Shl
        | Binary::ShrLogical
        | Binary::ShrArithmetic => NOTHING,
    }
}

fn of_reduction(reducer: Reducer, x: Facts, count: usize) -> Facts {
    match reducer {
        // Rounding adds up: a part in 2^23 for each addition on the way, of which a sum in blocks has few.
        Reducer::Sum => Facts { bound: x.bound * count.max(1) as f64 * 2.0, no_zero: false, ..x },
        Reducer::Max | Reducer::Min => x,
        Reducer::Prod | Reducer::And | Reducer::Or => NOTHING,
    }
}

#[cfg(test)]
mod tests;

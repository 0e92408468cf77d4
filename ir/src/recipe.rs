//! How an op is lowered, said as data. The lowering knows these few kinds and no op by name.

use crate::dtype::DType;
use crate::literal::Literal;
use crate::ops::contract::dot::Dot;
use crate::ops::control::branch::Branch;
use crate::ops::control::looping::Loop;
use crate::ops::elementwise::binary::Binary;
use crate::ops::elementwise::compare::Compare;
use crate::ops::elementwise::unary::Unary;
use crate::ops::reduce::reduce::Reducer;
use crate::program::Program;
use crate::shape::Dims;
use std::sync::Arc;

/// The lowering of one op.
#[derive(Clone, Debug)]
pub enum Recipe {
    /// Each element of the result is this function of the operands' elements at the same index.
    Scalar(ScalarOp),
    /// Each element of the result is one element of operand 0, or the scalar operand 1 where the map leaves it.
    Move(IndexMap),
    /// The elements of operand 0 in row-major order under another shape.
    Reshape,
    /// The operands one after the other along a dimension.
    Concat {
        /// Along which dimension.
        dim: usize,
    },
    /// The same constant every time.
    Constant(Literal),
    /// Each element is its index along a dimension.
    Iota {
        /// Which dimension.
        dim: usize,
    },
    /// A reduction of operand 0 in the documented order.
    Reduce {
        /// What combines two elements.
        reducer: Reducer,
        /// Dimensions that disappear.
        dims: Dims,
    },
    /// Sums of products over shared dimensions.
    Contract(Dot),
    /// Results equal the operands; nothing may be moved across.
    Barrier,
    /// A nested program on the operands.
    Call(Arc<Program>),
    /// A nested program again and again.
    Loop(Loop),
    /// One of several nested programs.
    Branch(Branch),
    /// A call of the runtime's evaluation of the op.
    Kernel,
    /// Operand 0 with some elements written anew, by the runtime: in place where nobody else needs operand 0.
    Update,
}

/// An elementwise function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScalarOp {
    /// One operand.
    Unary(Unary),
    /// Two operands of one type.
    Binary(Binary),
    /// Two operands of one type, bool result.
    Compare(Compare),
    /// Bool operand, then two operands of one type.
    Select,
    /// To another element type, by value.
    Convert(DType),
    /// To another element type of equal size, by bits.
    Bitcast(DType),
    /// Tangent times slope, where a zero tangent stays zero.
    ScaleBy,
    /// A constant integer power.
    IntegerPow(i32),
}

/// Where each element of a result comes from: one entry per dimension of the source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexMap {
    /// How the source's index along each of its dimensions follows from the result's index.
    pub dims: Vec<AxisMap>,
}

/// The source index along one dimension: `(scale * result_index[dim] + offset) / dilation`, or `offset` where
/// `dim` is `None`. The element is missing where the division leaves a remainder or the index is out of range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AxisMap {
    /// The dimension of the result it follows.
    pub dim: Option<usize>,
    /// Steps of the source per step of the result.
    pub scale: i64,
    /// Source index (times `dilation`) at result index 0.
    pub offset: i64,
    /// Only every so manieth position holds an element.
    pub dilation: i64,
}

impl AxisMap {
    /// The source index equals the result's index along `dim`.
    pub fn identity(dim: usize) -> AxisMap {
        AxisMap { dim: Some(dim), scale: 1, offset: 0, dilation: 1 }
    }
}

impl ScalarOp {
    /// Roughly how many machine instructions one evaluation takes. Decides what is cheap enough to compute twice, never
    /// what is computed.
    pub fn weight(self) -> u32 {
        const FEW: u32 = 6;
        const MANY: u32 = 40;
        match self {
            ScalarOp::Unary(op) => match op {
                Unary::Neg
                | Unary::Abs
                | Unary::Floor
                | Unary::Ceil
                | Unary::Round
                | Unary::Sqrt
                | Unary::Not
                | Unary::IsNan => 1,
                Unary::Sign | Unary::Rsqrt | Unary::Popcount | Unary::IsFinite => FEW,
                Unary::Cbrt
                | Unary::Exp
                | Unary::Exp2
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
                | Unary::Logistic
                | Unary::Erf
                | Unary::Erfc => MANY,
            },
            ScalarOp::Binary(op) => match op {
                Binary::Add | Binary::Sub | Binary::Mul | Binary::And | Binary::Or | Binary::Xor => 1,
                Binary::Div
                | Binary::Max
                | Binary::Min
                | Binary::Shl
                | Binary::ShrLogical
                | Binary::ShrArithmetic => FEW,
                Binary::Rem | Binary::Pow | Binary::Atan2 | Binary::LogAddExp => MANY,
            },
            ScalarOp::Compare(_) | ScalarOp::Select | ScalarOp::Bitcast(_) => 1,
            ScalarOp::Convert(_) | ScalarOp::ScaleBy => FEW,
            ScalarOp::IntegerPow(exponent) => 2 * (u32::BITS - exponent.unsigned_abs().leading_zeros()),
        }
    }
}

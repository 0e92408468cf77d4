//! Type errors: what an op refused, with the operands it saw, where, and what to do about it.

use crate::dtype::DType;
use crate::loc::Loc;
use crate::shape::{Shape, TensorType};
use thiserror::Error;

/// An op was given operands or attributes that its type rule refuses.
#[derive(Clone, PartialEq, Debug, Error)]
#[error("{}", self.render())]
pub struct TypeError {
    /// Name of the op.
    pub op: String,
    /// Types of the operands it was given.
    pub operands: Vec<TensorType>,
    /// What is wrong.
    pub problem: Box<Problem>,
    /// The user's call.
    pub loc: Loc,
}

impl TypeError {
    fn render(&self) -> String {
        let operands: Vec<String> = self.operands.iter().map(|t| t.to_string()).collect();
        let place = if self.loc.is_known() { format!(" (at {})", self.loc) } else { String::new() };
        format!("{}({}): {}{}", self.op, operands.join(", "), self.problem, place)
    }
}

/// What a type rule can object to. Each text ends with the remedy.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum Problem {
    /// Wrong number of operands.
    #[error("takes {expected} operands, not {found}")]
    Arity {
        /// How many are due.
        expected: usize,
        /// How many came.
        found: usize,
    },
    /// An operand has an element type the op is not defined on.
    #[error("operand {operand} has dtype {found}, which must be {expected}; convert it first")]
    DType {
        /// Which operand.
        operand: usize,
        /// Its element type.
        found: DType,
        /// What is allowed.
        expected: &'static str,
    },
    /// Two operands that must agree have different element types.
    #[error("dtypes {left} and {right} differ, and there is no implicit promotion; convert one of them")]
    DTypesDiffer {
        /// One element type.
        left: DType,
        /// The other.
        right: DType,
    },
    /// Two operands that must have the same shape differ at an axis.
    #[error("shapes {left} and {right} differ{}; reshape or broadcast one of them", axis_text(left, right))]
    ShapesDiffer {
        /// One shape.
        left: Shape,
        /// The other.
        right: Shape,
    },
    /// A dimension number is not below the rank.
    #[error("axis {axis} is out of range for rank {rank}; axes are counted from 0")]
    AxisOutOfRange {
        /// The dimension number.
        axis: i64,
        /// The rank it should be below.
        rank: usize,
    },
    /// A list of dimension numbers names one of them twice.
    #[error("axis {axis} is named twice; name each axis once")]
    AxisRepeated {
        /// The dimension number.
        axis: usize,
    },
    /// Extents that must agree do not.
    #[error("{what}: extents {left} and {right} differ; they must be equal")]
    ExtentsDiffer {
        /// What the two extents are.
        what: &'static str,
        /// One extent.
        left: usize,
        /// The other.
        right: usize,
    },
    /// An attribute has the wrong number of entries.
    #[error("{attribute} has {found} entries and must have {expected}")]
    AttributeLength {
        /// Name of the attribute.
        attribute: &'static str,
        /// How many are due.
        expected: usize,
        /// How many it has.
        found: usize,
    },
    /// A reshape to another number of elements.
    #[error("cannot reshape {from} ({} elements) to {to} ({} elements); the numbers must be equal", from.elements(), count_text(to))]
    ElementCount {
        /// The shape there is.
        from: Shape,
        /// The shape asked for.
        to: Shape,
    },
    /// A tensor would have more elements than can be addressed.
    #[error("the result {shape} has too many elements; at most 2^48 can be addressed")]
    TooLarge {
        /// The shape asked for.
        shape: Shape,
    },
    /// Maximum or minimum of nothing.
    #[error("{what} over an extent of 0 has no value; handle the empty case or give at least one element")]
    EmptyReduction {
        /// Which reduction.
        what: &'static str,
    },
    /// Any other constraint, said in words that include the remedy.
    #[error("{0}")]
    Constraint(String),
}

fn axis_text(left: &Shape, right: &Shape) -> String {
    if left.rank() != right.rank() {
        return format!(" in rank ({} against {})", left.rank(), right.rank());
    }
    match (0..left.rank()).find(|&d| left[d] != right[d]) {
        Some(d) => format!(" at axis {d} ({} against {})", left[d], right[d]),
        None => String::new(),
    }
}

fn count_text(shape: &Shape) -> String {
    shape.checked_len().map_or("too many".to_string(), |n| n.to_string())
}

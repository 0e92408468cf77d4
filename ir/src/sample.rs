//! Samples: operands on which an op is tried by every generic suite. They travel with the op.

use crate::ops::Op;
use crate::shape::TensorType;

/// One way to call an op.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The op with its attributes.
    pub op: Op,
    /// Its operands.
    pub operands: Vec<SampleOperand>,
    /// How far the derivative in f64 may be from central differences, relative to its size.
    pub tolerance: f64,
}

/// An operand of a sample: its type and which values it may take.
#[derive(Clone, Debug)]
pub struct SampleOperand {
    /// Type of the operand.
    pub ty: TensorType,
    /// Its values.
    pub domain: Domain,
}

/// Values of an operand.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Domain {
    /// Uniform in this interval, where the op is smooth.
    Uniform(f64, f64),
    /// Multiples of a quarter, no two alike and none at 0, in a random order: away from ties and kinks.
    Distinct,
    /// Integers from 0 up to but excluding this bound: indices.
    Below(u64),
    /// Any integer or bool of the type, small magnitudes preferred.
    Any,
}

impl Sample {
    /// A sample with the default tolerance.
    pub fn new(op: impl Into<Op>, operands: Vec<SampleOperand>) -> Sample {
        Sample { op: op.into(), operands, tolerance: 1e-7 }
    }
}

impl SampleOperand {
    /// An operand of this type and domain.
    pub fn new(ty: TensorType, domain: Domain) -> SampleOperand {
        SampleOperand { ty, domain }
    }
}

//! Elementwise comparison. One op with a direction, so that rules can build it from data.

use super::same_type;
use crate::batch::{Batched, BatchedValues, Batcher};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Problem;
use crate::maths::{Float, Int, IntLanes, Lanes};
use crate::ops::{Attr, AttrError, AttrReader, Equation, Primitive, Types, arity, one};
use crate::program::Value;
use crate::recipe::{Recipe, ScalarOp};
use crate::rules::{Arg, Cotangents, Linearizer, RuleError, not_linear};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::TensorType;
use smallvec::smallvec;

/// How two elements are compared. Comparisons with NaN are false, except `Ne`; false is less than true.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Compare {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
}

const DIRECTIONS: [(&str, Compare); 6] = [
    ("eq", Compare::Eq),
    ("ne", Compare::Ne),
    ("lt", Compare::Lt),
    ("le", Compare::Le),
    ("gt", Compare::Gt),
    ("ge", Compare::Ge),
];

impl Compare {
    /// The comparison of floats.
    #[inline(always)]
    pub fn float<T: Float, L: Lanes<T>>(self, l: &mut L, x: L::V, y: L::V) -> L::M {
        match self {
            Compare::Eq => l.eq(x, y),
            Compare::Ne => {
                let equal = l.eq(x, y);
                l.not(equal)
            }
            Compare::Lt => l.lt(x, y),
            Compare::Le => l.le(x, y),
            Compare::Gt => l.lt(y, x),
            Compare::Ge => l.le(y, x),
        }
    }

    /// The comparison of integers.
    #[inline(always)]
    pub fn int<T: Int, L: IntLanes<T>>(self, l: &mut L, x: L::V, y: L::V) -> L::M {
        let holds = match self {
            Compare::Eq | Compare::Ne => l.eq(x, y),
            Compare::Lt | Compare::Ge => l.lt(x, y),
            Compare::Gt | Compare::Le => l.lt(y, x),
        };
        match self {
            Compare::Eq | Compare::Lt | Compare::Gt => holds,
            Compare::Ne | Compare::Ge | Compare::Le => l.not(holds),
        }
    }
}

impl Primitive for Compare {
    fn names() -> Vec<&'static str> {
        vec!["compare"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Compare, AttrError> {
        attrs.word("op", &DIRECTIONS)
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for (_, how) in DIRECTIONS {
            for dtype in DType::ALL {
                let domain = if dtype.is_float() { Domain::Distinct } else { Domain::Any };
                for shape in [&[2, 3][..], &[], &[0], &[37]] {
                    let operand = SampleOperand::new(TensorType::new(dtype, shape), domain);
                    samples.push(Sample::new(how, vec![operand.clone(), operand]));
                }
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        "compare"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        vec![("op", Attr::Word(DIRECTIONS[*self as usize].0.to_string()))]
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 2)?;
        same_type(operands[0], operands[1])?;
        one(operands[0].with_dtype(DType::Bool))
    }

    fn linearize(
        &self,
        _: &mut Linearizer<'_>,
        _: Equation<'_>,
        _: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        Ok(smallvec![None])
    }

    fn transpose(&self, _: &mut Builder, args: &[Arg], _: &[Option<Value>]) -> Result<Cotangents, RuleError> {
        Err(not_linear(self.name(), args))
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        batcher.elementwise(*self, args)
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Scalar(ScalarOp::Compare(*self))
    }
}

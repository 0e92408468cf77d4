//! Index of the extreme element along a dimension. A primitive because a composition would compare twice.

use super::reduce::Reducer;
use crate::batch::{Batched, BatchedValues, Batcher, shifted};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Problem;
use crate::ops::{Attr, AttrError, AttrReader, Equation, Primitive, Types, arity, one};
use crate::program::Value;
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, Linearizer, RuleError, not_linear};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::TensorType;
use smallvec::smallvec;

/// Which element is meant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Extreme {
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

/// The index (i64) along `dim`, which disappears, of the extreme element; the first among equals (zeros of both
/// signs are equal), the first NaN if there is one. Numbers only; an empty dimension is an error.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ArgReduce {
    /// Which element is meant.
    pub extreme: Extreme,
    /// The dimension searched.
    pub dim: usize,
}

const EXTREMES: [(&str, Extreme); 2] = [("max", Extreme::Max), ("min", Extreme::Min)];

impl Primitive for ArgReduce {
    fn names() -> Vec<&'static str> {
        vec!["arg_reduce"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<ArgReduce, AttrError> {
        Ok(ArgReduce { extreme: attrs.word("op", &EXTREMES)?, dim: attrs.size("dim")? })
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for (_, extreme) in EXTREMES {
            for dtype in [DType::F64, DType::F32, DType::I32, DType::U64] {
                let domain = if dtype.is_float() { Domain::Distinct } else { Domain::Any };
                let cases: [(&[usize], usize); 4] = [(&[2, 3], 1), (&[4, 2], 0), (&[37], 0), (&[0, 3], 1)];
                for (shape, dim) in cases {
                    let operand = SampleOperand::new(TensorType::new(dtype, shape), domain);
                    samples.push(Sample::new(ArgReduce { extreme, dim }, vec![operand]));
                }
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        "arg_reduce"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        let word = EXTREMES[self.extreme as usize].0.to_string();
        vec![("op", Attr::Word(word)), ("dim", Attr::Int(self.dim as i64))]
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 1)?;
        let x = operands[0];
        if x.dtype == DType::Bool {
            return Err(Problem::DType { operand: 0, found: x.dtype, expected: "a float or integer type" });
        }
        let rank = x.shape.rank();
        match x.shape.get(self.dim) {
            None => Err(Problem::AxisOutOfRange { axis: self.dim as i64, rank }),
            Some(0) => {
                let what = match self.extreme {
                    Extreme::Max => Reducer::Max.name(),
                    Extreme::Min => Reducer::Min.name(),
                };
                Err(Problem::EmptyReduction { what })
            }
            Some(_) => one(TensorType::new(DType::I64, x.shape.without(&[self.dim]))),
        }
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
        let (x, axis) = batcher.lanes(args[0])?;
        let dim = shifted(&[self.dim], axis)[0];
        let place = axis - usize::from(dim < axis);
        batcher.one(ArgReduce { extreme: self.extreme, dim }, &[x], place)
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Kernel
    }
}

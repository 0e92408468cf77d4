//! Several tensors side by side.

use crate::batch::{Batched, BatchedValues, Batcher, shifted};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Problem;
use crate::ops::shape::slice::Slice;
use crate::ops::{Attr, AttrError, AttrReader, Primitive, Types, one};
use crate::program::Value;
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, RuleError};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::{Dims, TensorType};

/// The operands (at least one), one after the other along `dim`; their other extents are equal.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Concat {
    /// The dimension along which extents add up.
    pub dim: usize,
}

impl Primitive for Concat {
    fn names() -> Vec<&'static str> {
        vec!["concat"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Concat, AttrError> {
        Ok(Concat { dim: attrs.size("dim")? })
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for dtype in [DType::F64, DType::F32, DType::I64, DType::Bool] {
            let domain = if dtype.is_float() { Domain::Uniform(-2.0, 2.0) } else { Domain::Any };
            let cases: [(usize, &[&[usize]]); 5] = [
                (0, &[&[2, 3], &[1, 3], &[4, 3]]),
                (1, &[&[2, 3], &[2, 1]]),
                (0, &[&[3]]),
                (0, &[&[0], &[2], &[0]]),
                (1, &[&[0, 2], &[0, 3]]),
            ];
            for (dim, shapes) in cases {
                let operand = |shape: &&[usize]| SampleOperand::new(TensorType::new(dtype, *shape), domain);
                samples.push(Sample::new(Concat { dim }, shapes.iter().map(operand).collect()));
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        "concat"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        vec![("dim", Attr::Int(self.dim as i64))]
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        let Some(first) = operands.first() else {
            return Err(Problem::Constraint(
                "there is nothing to concatenate; give at least one operand".into(),
            ));
        };
        if self.dim >= first.shape.rank() {
            return Err(Problem::AxisOutOfRange { axis: self.dim as i64, rank: first.shape.rank() });
        }
        let mut shape = Dims::from_slice(&first.shape);
        for operand in &operands[1..] {
            if operand.dtype != first.dtype {
                return Err(Problem::DTypesDiffer { left: first.dtype, right: operand.dtype });
            }
            let same = operand.shape.rank() == first.shape.rank()
                && (0..shape.len()).all(|d| d == self.dim || operand.shape[d] == first.shape[d]);
            if !same {
                return Err(Problem::ShapesDiffer {
                    left: first.shape.clone(),
                    right: operand.shape.clone(),
                });
            }
            shape[self.dim] = shape[self.dim].saturating_add(operand.shape[self.dim]);
        }
        one(first.with_shape(&shape[..]))
    }

    fn transpose(
        &self,
        b: &mut Builder,
        args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let Some(ct) = cotangents[0] else { return Ok(Cotangents::from_elem(None, args.len())) };
        let whole = b.ty(ct).shape.clone();
        let mut results = Cotangents::new();
        let mut at = 0;
        for arg in args {
            let mut start = Dims::from_elem(0, whole.rank());
            let mut limit = Dims::from_slice(&whole);
            start[self.dim] = at;
            at += arg.ty.shape[self.dim];
            limit[self.dim] = at;
            let stride = Dims::from_elem(1, whole.rank());
            let part =
                if arg.is_linear() { Some(b.one(Slice { start, limit, stride }, &[ct])?) } else { None };
            results.push(part);
        }
        Ok(results)
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        let (operands, axis) = batcher.aligned(args)?;
        batcher.one(Concat { dim: shifted(&[self.dim], axis)[0] }, &operands, axis)
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Concat { dim: self.dim }
    }
}

//! Repetition along new dimensions. Size-1 dimensions are not stretched: reshape them away first.

use super::{distinct_axes, length};
use crate::batch::{Batched, BatchedValues, Batcher, inserted, shifted};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Problem;
use crate::ops::{Attr, AttrError, AttrReader, Primitive, Types, arity, one};
use crate::program::Value;
use crate::recipe::{AxisMap, IndexMap, Recipe};
use crate::rules::{Arg, Cotangents, RuleError};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::{Dims, Shape, TensorType};
use smallvec::smallvec;

/// Dimension `i` of the operand becomes dimension `dims[i]` of the result, with equal extent; along the
/// others the operand is repeated.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Broadcast {
    /// Extents of the result.
    pub shape: Shape,
    /// For each dimension of the operand, its dimension in the result.
    pub dims: Dims,
}

impl Primitive for Broadcast {
    fn names() -> Vec<&'static str> {
        vec!["broadcast"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Broadcast, AttrError> {
        Ok(Broadcast { shape: attrs.shape("shape")?, dims: attrs.dims_or_empty("dims")? })
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for dtype in [DType::F64, DType::F32, DType::I32, DType::Bool] {
            let domain = if dtype.is_float() { Domain::Uniform(-2.0, 2.0) } else { Domain::Any };
            for (operand, op) in [
                (&[3][..], &[2, 3][..], &[1][..]),
                (&[2], &[2, 3], &[0]),
                (&[], &[2, 3], &[]),
                (&[], &[], &[]),
                (&[2, 3], &[3, 4, 2], &[2, 0]),
                (&[0], &[2, 0], &[1]),
                (&[2], &[0, 2], &[1]),
            ]
            .map(|(from, shape, dims)| {
                (from, Broadcast { shape: Shape::new(shape), dims: Dims::from_slice(dims) })
            }) {
                let operand = SampleOperand::new(TensorType::new(dtype, operand), domain);
                samples.push(Sample::new(op, vec![operand]));
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        "broadcast"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        vec![("shape", Attr::dims(&self.shape)), ("dims", Attr::dims(&self.dims))]
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 1)?;
        let x = operands[0];
        length("dims", self.dims.len(), x.shape.rank())?;
        distinct_axes(&self.dims, self.shape.rank())?;
        for (i, &d) in self.dims.iter().enumerate() {
            if x.shape[i] != self.shape[d] {
                let what = "operand and result along a broadcast dimension";
                return Err(Problem::ExtentsDiffer { what, left: x.shape[i], right: self.shape[d] });
            }
        }
        one(x.with_shape(self.shape.clone()))
    }

    fn transpose(
        &self,
        b: &mut Builder,
        _args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let Some(ct) = cotangents[0] else { return Ok(smallvec![None]) };
        let repeated: Dims = (0..self.shape.rank()).filter(|d| !self.dims.contains(d)).collect();
        let sum = b.reduce_sum(ct, &repeated)?;
        // What is left has the operand's dimensions in ascending order of their place in the result.
        let mut sorted = self.dims.clone();
        sorted.sort_unstable();
        let order: Dims = self.dims.iter().map(|d| sorted.iter().position(|s| s == d).unwrap_or(0)).collect();
        Ok(smallvec![Some(b.transpose(sum, &order)?)])
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        let (x, axis) = batcher.lanes(args[0])?;
        let shape = inserted(&self.shape, 0, batcher.size).into_iter().collect();
        let dims = inserted(&shifted(&self.dims, 0), axis, 0);
        batcher.one(Broadcast { shape, dims }, &[x], 0)
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Move(IndexMap { dims: self.dims.iter().map(|&d| AxisMap::identity(d)).collect() })
    }
}

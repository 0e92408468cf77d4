//! Opposite order along dimensions.

use super::distinct_axes;
use crate::batch::{Batched, BatchedValues, Batcher, shifted};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Problem;
use crate::ops::{Attr, AttrError, AttrReader, Primitive, Types, arity, one};
use crate::program::Value;
use crate::recipe::{AxisMap, IndexMap, Recipe};
use crate::rules::{Arg, Cotangents, RuleError};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::{Dims, TensorType};
use smallvec::smallvec;

/// The elements in opposite order along each of `dims`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Reverse {
    /// Dimensions to reverse.
    pub dims: Dims,
}

impl Primitive for Reverse {
    fn names() -> Vec<&'static str> {
        vec!["reverse"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Reverse, AttrError> {
        Ok(Reverse { dims: attrs.dims("dims")? })
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for dtype in [DType::F64, DType::F32, DType::I32, DType::Bool] {
            let domain = if dtype.is_float() { Domain::Uniform(-2.0, 2.0) } else { Domain::Any };
            for (operand, op) in [
                (&[5][..], &[0][..]),
                (&[2, 3], &[1]),
                (&[2, 3], &[0, 1]),
                (&[2, 3], &[]),
                (&[], &[]),
                (&[0, 2], &[0]),
            ]
            .map(|(from, dims)| (from, Reverse { dims: Dims::from_slice(dims) }))
            {
                let operand = SampleOperand::new(TensorType::new(dtype, operand), domain);
                samples.push(Sample::new(op, vec![operand]));
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        "reverse"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        vec![("dims", Attr::dims(&self.dims))]
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 1)?;
        let x = operands[0];
        distinct_axes(&self.dims, x.shape.rank())?;
        one(x.clone())
    }

    fn transpose(
        &self,
        b: &mut Builder,
        _args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let Some(ct) = cotangents[0] else { return Ok(smallvec![None]) };
        let ct_x = b.one(self.clone(), &[ct])?;
        Ok(smallvec![Some(ct_x)])
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        let (x, axis) = batcher.lanes(args[0])?;
        batcher.one(Reverse { dims: shifted(&self.dims, axis) }, &[x], axis)
    }

    fn recipe(&self, operands: &[&TensorType]) -> Recipe {
        let shape = &operands[0].shape;
        let axis = |d: usize| match self.dims.contains(&d) {
            true => AxisMap { dim: Some(d), scale: -1, offset: shape[d] as i64 - 1, dilation: 1 },
            false => AxisMap::identity(d),
        };
        Recipe::Move(IndexMap { dims: (0..shape.rank()).map(axis).collect() })
    }
}

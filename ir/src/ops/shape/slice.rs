//! A box of a tensor, every so manieth element of it.

use super::length;
use crate::batch::{Batched, BatchedValues, Batcher, inserted};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Problem;
use crate::ops::shape::pad::Pad;
use crate::ops::{Attr, AttrError, AttrReader, Primitive, Types, arity, one};
use crate::program::Value;
use crate::recipe::{AxisMap, IndexMap, Recipe};
use crate::rules::{Arg, Cotangents, RuleError};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::{Dims, Shape, TensorType};
use smallvec::smallvec;

/// Elements `start`, `start + stride`, ... below `limit` along each dimension.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Slice {
    /// First index along each dimension.
    pub start: Dims,
    /// Index that is not reached, along each dimension.
    pub limit: Dims,
    /// Step along each dimension, at least 1.
    pub stride: Dims,
}

impl Primitive for Slice {
    fn names() -> Vec<&'static str> {
        vec!["slice"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Slice, AttrError> {
        Ok(Slice { start: attrs.dims("start")?, limit: attrs.dims("limit")?, stride: attrs.dims("stride")? })
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for dtype in [DType::F64, DType::F32, DType::I32, DType::Bool] {
            let domain = if dtype.is_float() { Domain::Uniform(-2.0, 2.0) } else { Domain::Any };
            for (operand, op) in [
                (&[5, 4][..], &[1, 0][..], &[4, 4][..], &[1, 1][..]),
                (&[7], &[1], &[7], &[3]),
                (&[3, 8], &[0, 1], &[3, 8], &[2, 3]),
                (&[], &[], &[], &[]),
                (&[4], &[2], &[2], &[1]),
                (&[0, 2], &[0, 1], &[0, 2], &[1, 1]),
            ]
            .map(|(from, start, limit, stride)| {
                let dims = Dims::from_slice;
                (from, Slice { start: dims(start), limit: dims(limit), stride: dims(stride) })
            }) {
                let operand = SampleOperand::new(TensorType::new(dtype, operand), domain);
                samples.push(Sample::new(op, vec![operand]));
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        "slice"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        vec![
            ("start", Attr::dims(&self.start)),
            ("limit", Attr::dims(&self.limit)),
            ("stride", Attr::dims(&self.stride)),
        ]
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 1)?;
        let x = operands[0];
        let rank = x.shape.rank();
        length("start", self.start.len(), rank)?;
        length("limit", self.limit.len(), rank)?;
        length("stride", self.stride.len(), rank)?;
        for d in 0..rank {
            let (start, limit, extent) = (self.start[d], self.limit[d], x.shape[d]);
            if start > limit || limit > extent || self.stride[d] == 0 {
                return Err(Problem::Constraint(format!(
                    "along axis {d} the box {start}..{limit} in steps of {} is not within 0..{extent}; \
                     start <= limit <= extent and a step of at least 1 are needed",
                    self.stride[d]
                )));
            }
        }
        let extent = |d: usize| (self.limit[d] - self.start[d]).div_ceil(self.stride[d]);
        one(x.with_shape((0..rank).map(extent).collect::<Shape>()))
    }

    fn transpose(
        &self,
        b: &mut Builder,
        args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let Some(ct) = cotangents[0] else { return Ok(smallvec![None]) };
        let shape = &args[0].ty.shape;
        let rank = shape.rank();
        let zero = TensorType::scalar(args[0].ty.dtype);
        let zero = b.number(&zero, 0.0)?;
        let ct_shape = b.ty(ct).shape.clone();
        let interior: Dims = (0..rank).map(|d| self.stride[d] - 1).collect();
        let covered = |d: usize| match ct_shape[d] {
            0 => 0,
            n => (n - 1) * self.stride[d] + 1,
        };
        let low = self.start.iter().map(|&s| s as i64).collect();
        let high = (0..rank).map(|d| shape[d] as i64 - self.start[d] as i64 - covered(d) as i64).collect();
        let ct_x = b.one(Pad { low, high, interior }, &[ct, zero])?;
        Ok(smallvec![Some(ct_x)])
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        let (x, axis) = batcher.lanes(args[0])?;
        let slice = Slice {
            start: inserted(&self.start, axis, 0),
            limit: inserted(&self.limit, axis, batcher.size),
            stride: inserted(&self.stride, axis, 1),
        };
        batcher.one(slice, &[x], axis)
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        let axis = |d: usize| AxisMap {
            dim: Some(d),
            scale: self.stride[d] as i64,
            offset: self.start[d] as i64,
            dilation: 1,
        };
        Recipe::Move(IndexMap { dims: (0..self.start.len()).map(axis).collect() })
    }
}

//! Permuted dimensions.

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

/// Result dimension `i` is dimension `permutation[i]` of the operand.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Transpose {
    /// Every dimension of the operand, once.
    pub permutation: Dims,
}

impl Primitive for Transpose {
    fn names() -> Vec<&'static str> {
        vec!["transpose"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Transpose, AttrError> {
        Ok(Transpose { permutation: attrs.dims("permutation")? })
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for dtype in [DType::F64, DType::F32, DType::I32, DType::Bool] {
            let domain = if dtype.is_float() { Domain::Uniform(-2.0, 2.0) } else { Domain::Any };
            for (operand, op) in [
                (&[2, 3][..], &[1, 0][..]),
                (&[2, 3, 4], &[2, 0, 1]),
                (&[], &[]),
                (&[0, 3], &[1, 0]),
                (&[2, 1, 3, 2], &[3, 1, 0, 2]),
            ]
            .map(|(from, permutation)| (from, Transpose { permutation: Dims::from_slice(permutation) }))
            {
                let operand = SampleOperand::new(TensorType::new(dtype, operand), domain);
                samples.push(Sample::new(op, vec![operand]));
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        "transpose"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        vec![("permutation", Attr::dims(&self.permutation))]
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 1)?;
        let x = operands[0];
        length("permutation", self.permutation.len(), x.shape.rank())?;
        distinct_axes(&self.permutation, x.shape.rank())?;
        one(x.with_shape(self.permutation.iter().map(|&d| x.shape[d]).collect::<Shape>()))
    }

    fn transpose(
        &self,
        b: &mut Builder,
        args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let Some(ct) = cotangents[0] else { return Ok(smallvec![None]) };
        let shape = &args[0].ty.shape;
        let mut inverse = Dims::from_elem(0, shape.rank());
        for (i, &d) in self.permutation.iter().enumerate() {
            inverse[d] = i;
        }
        let ct_x = b.transpose(ct, &inverse)?;
        Ok(smallvec![Some(ct_x)])
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        let (x, axis) = batcher.lanes(args[0])?;
        let permutation = inserted(&shifted(&self.permutation, axis), 0, axis);
        batcher.one(Transpose { permutation }, &[x], 0)
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        let rank = self.permutation.len();
        let position = |d: usize| self.permutation.iter().position(|&p| p == d).unwrap_or(d);
        Recipe::Move(IndexMap { dims: (0..rank).map(|d| AxisMap::identity(position(d))).collect() })
    }
}

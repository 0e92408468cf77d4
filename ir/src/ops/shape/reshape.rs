//! The same elements, in row-major order, under another shape.

use crate::batch::{Batched, BatchedValues, Batcher, inserted};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Problem;
use crate::ops::{Attr, AttrError, AttrReader, Primitive, Types, arity, one};
use crate::program::Value;
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, RuleError};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::{Shape, TensorType};
use smallvec::smallvec;

/// Another shape with as many elements.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Reshape {
    /// The new extents.
    pub shape: Shape,
}

impl Primitive for Reshape {
    fn names() -> Vec<&'static str> {
        vec!["reshape"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Reshape, AttrError> {
        Ok(Reshape { shape: attrs.shape("shape")? })
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for dtype in [DType::F64, DType::F32, DType::I32, DType::Bool] {
            let domain = if dtype.is_float() { Domain::Uniform(-2.0, 2.0) } else { Domain::Any };
            for (operand, op) in [
                (&[2, 3][..], &[3, 2][..]),
                (&[2, 3, 4], &[6, 4]),
                (&[1], &[]),
                (&[], &[1, 1]),
                (&[0, 3], &[5, 0]),
                (&[4, 6], &[2, 2, 3, 2]),
            ]
            .map(|(from, to)| (from, Reshape { shape: Shape::new(to) }))
            {
                let operand = SampleOperand::new(TensorType::new(dtype, operand), domain);
                samples.push(Sample::new(op, vec![operand]));
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        "reshape"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        vec![("shape", Attr::dims(&self.shape))]
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 1)?;
        let x = operands[0];
        if self.shape.checked_len() != Some(x.shape.elements()) {
            return Err(Problem::ElementCount { from: x.shape.clone(), to: self.shape.clone() });
        }
        one(x.with_shape(self.shape.clone()))
    }

    fn transpose(
        &self,
        b: &mut Builder,
        args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let Some(ct) = cotangents[0] else { return Ok(smallvec![None]) };
        let shape = &args[0].ty.shape;
        let ct_x = b.reshape(ct, shape.clone())?;
        Ok(smallvec![Some(ct_x)])
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        let (x, axis) = batcher.lanes(args[0])?;
        let shape = batcher.builder.ty(x).shape.clone();
        // The lanes stay where they are if the new shape can be cut there.
        let before: usize = shape[..axis].iter().product();
        let cut = (0..=self.shape.rank()).find(|&d| self.shape[..d].iter().product::<usize>() == before);
        let (x, axis) = match cut {
            Some(cut) => (x, cut),
            None => (batcher.at(args[0], 0)?, 0),
        };
        let shape = inserted(&self.shape, axis, batcher.size).into_iter().collect();
        batcher.one(Reshape { shape }, &[x], axis)
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Reshape
    }
}

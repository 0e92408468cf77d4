//! Reading at computed indices: rows of a table, elements along an axis, single elements.

use super::scatter::{Scatter, ScatterKind};
use super::{IndexMode, picked_shape, window_place};
use crate::batch::{Batched, BatchedValues, Batcher, shifted};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Problem;
use crate::ops::{Attr, AttrError, AttrReader, Effect, Primitive, Types, arity, one};
use crate::program::Value;
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, RuleError, not_linear};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::{Dims, TensorType};
use smallvec::smallvec;

/// `gather(operand, indices)`. With `b = batch_dims` and indices of shape `[B.., K]`, where the first `b` of `B..`
/// go along with the first `b` dimensions of the operand and `K` is the number of `index_dims`, the result has
/// shape `[B.., W..]`, `W..` being the operand's other dimensions:
/// `result[i.., w..] = operand` at batch index `i[..b]`, at `indices[i.., k]` along `index_dims[k]`, at `w..` along
/// the rest.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Gather {
    /// Dimensions of the operand that the indices index, one per entry of their last dimension.
    pub index_dims: Dims,
    /// Number of leading dimensions that operand and indices share.
    pub batch_dims: usize,
    /// What an index out of range means; all of them are looked at, whether or not the result is used.
    pub mode: IndexMode,
}

impl Gather {
    /// The scatter that writes where this reads.
    fn scatter(&self, kind: ScatterKind) -> Scatter {
        Scatter { kind, index_dims: self.index_dims.clone(), batch_dims: self.batch_dims, mode: self.mode }
    }
}

/// Shapes of operand and indices, indexed dims and batch dims to sample gather and scatter with.
pub(super) const CASES: [(&[usize], &[usize], &[usize], usize); 7] = [
    (&[4, 2], &[3, 1], &[0], 0),
    (&[3, 4], &[5, 1], &[1], 0),
    (&[3, 4], &[2, 2, 2], &[0, 1], 0),
    (&[2, 5], &[2, 3, 1], &[1], 1),
    (&[5], &[1], &[0], 0),
    (&[4, 2], &[0, 1], &[0], 0),
    (&[2, 3, 2], &[2, 2], &[2, 0], 0),
];

/// The least extent among indexed dimensions: indices below it are in range.
pub(super) fn bound(shape: &[usize], index_dims: &[usize]) -> u64 {
    index_dims.iter().map(|&d| shape[d] as u64).min().unwrap_or(1)
}

impl Primitive for Gather {
    fn names() -> Vec<&'static str> {
        vec!["gather"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Gather, AttrError> {
        let index_dims = attrs.dims("index_dims")?;
        let batch_dims = attrs.size_or("batch_dims", 0)?;
        Ok(Gather { index_dims, batch_dims, mode: IndexMode::parse(attrs)? })
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for dtype in [DType::F64, DType::F32, DType::I32, DType::Bool] {
            let domain = if dtype.is_float() { Domain::Uniform(-2.0, 2.0) } else { Domain::Any };
            for (shape, indices, index_dims, batch_dims) in CASES {
                for (mode, index, slack) in [
                    (IndexMode::Checked, DType::I64, 0),
                    (IndexMode::Clip, DType::I32, 2),
                    (IndexMode::Drop, DType::U32, 2),
                ] {
                    let below = Domain::Below(bound(shape, index_dims) + slack);
                    let gather = Gather { index_dims: Dims::from_slice(index_dims), batch_dims, mode };
                    let operand = SampleOperand::new(TensorType::new(dtype, shape), domain);
                    let indices = SampleOperand::new(TensorType::new(index, indices), below);
                    samples.push(Sample::new(gather, vec![operand, indices]));
                }
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        "gather"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        index_attrs(&self.index_dims, self.batch_dims, self.mode)
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 2)?;
        let shape = picked_shape(operands[0], operands[1], &self.index_dims, self.batch_dims, self.mode)?;
        one(operands[0].with_shape(shape))
    }

    fn transpose(
        &self,
        b: &mut Builder,
        args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let Some(indices) = args[1].known else { return Err(not_linear(self.name(), args)) };
        let Some(ct) = cotangents[0] else { return Ok(smallvec![None, None]) };
        let zeros = b.number(&args[0].ty, 0.0)?;
        let sum = b.one(self.scatter(ScatterKind::Add), &[zeros, indices, ct])?;
        Ok(smallvec![Some(sum), None])
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        let (operand, indices) = (args[0], args[1]);
        let leading = batcher.builder.ty(indices.value).shape.rank() - 1;
        match (operand.axis, indices.axis) {
            // The lanes are part of the window.
            (Some(axis), None) => {
                let axis = axis.max(self.batch_dims);
                let gather = Gather { index_dims: shifted(&self.index_dims, axis), ..self.clone() };
                let place = leading + window_place(&gather.index_dims, self.batch_dims, axis);
                let operand = batcher.at(operand, axis)?;
                batcher.one(gather, &[operand, indices.value], place)
            }
            // Every lane picks its own from the one operand.
            (None, Some(axis)) => {
                let axis = axis.clamp(self.batch_dims, leading - 1);
                let indices = batcher.at(indices, axis)?;
                batcher.one(self.clone(), &[operand.value, indices], axis)
            }
            (Some(_), Some(_)) => {
                let index_dims = shifted(&self.index_dims, 0);
                let gather = Gather { index_dims, batch_dims: self.batch_dims + 1, mode: self.mode };
                let operands = [batcher.at(operand, 0)?, batcher.at(indices, 0)?];
                batcher.one(gather, &operands, 0)
            }
            (None, None) => batcher.unbatched(self.clone(), args),
        }
    }

    fn effect(&self) -> Effect {
        self.mode.effect()
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Kernel
    }
}

/// The attributes gather and scatter share.
pub(super) fn index_attrs(
    index_dims: &Dims,
    batch_dims: usize,
    mode: IndexMode,
) -> Vec<(&'static str, Attr)> {
    let mut attrs = vec![("index_dims", Attr::dims(index_dims))];
    if batch_dims > 0 {
        attrs.push(("batch_dims", Attr::Int(batch_dims as i64)));
    }
    attrs.extend(mode.attr());
    attrs
}

//! Writing at computed indices. The transpose of gather.

use super::gather::{CASES, Gather, bound, index_attrs};
use super::{IndexMode, picked_shape, window_place};
use crate::batch::{Batched, BatchedValues, Batcher, shifted};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Problem, TypeError};
use crate::literal::Literal;
use crate::ops::elementwise::binary::Binary;
use crate::ops::elementwise::compare::Compare;
use crate::ops::{Attr, AttrError, AttrReader, Effect, Primitive, Types, arity, one};
use crate::program::Value;
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, RuleError, not_linear};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::{Dims, Shape, TensorType};
use smallvec::smallvec;

/// What a write does to the element that is there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScatterKind {
    /// Replaces it; of several writes to one element the last stays.
    Set,
    /// Is added to it. Numbers only.
    Add,
}

const KINDS: [(&str, ScatterKind); 2] = [("set", ScatterKind::Set), ("add", ScatterKind::Add)];

/// `scatter(operand, indices, updates)`: the operand with the updates written at the places that a
/// [`Gather`] with the same attributes reads, in row-major order of the updates.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scatter {
    /// What a write does.
    pub kind: ScatterKind,
    /// Dimensions of the operand that the indices index, one per entry of their last dimension.
    pub index_dims: Dims,
    /// Number of leading dimensions that operand and indices share.
    pub batch_dims: usize,
    /// What an index out of range means; all of them are looked at, whether or not the result is used.
    pub mode: IndexMode,
}

impl Scatter {
    fn gather(&self, mode: IndexMode) -> Gather {
        Gather { index_dims: self.index_dims.clone(), batch_dims: self.batch_dims, mode }
    }

    /// For each update of a scatter-set whether it is the one that stays: numbers written and read again.
    fn stays(
        &self,
        b: &mut Builder,
        operand: &Shape,
        indices: Value,
        updates: &Shape,
    ) -> Result<Value, TypeError> {
        let n = updates.elements();
        let numbers = b.iota(TensorType::new(DType::I64, [n]), 0)?;
        let numbers = b.reshape(numbers, updates.clone())?;
        let nobody = b.number(&TensorType::new(DType::I64, operand.clone()), -1.0)?;
        let owners = b.one(self.clone(), &[nobody, indices, numbers])?;
        let read = b.one(self.gather(self.mode), &[owners, indices])?;
        let owns = b.compare(Compare::Eq, read, numbers)?;
        if self.mode != IndexMode::Drop {
            return Ok(owns);
        }
        // A dropped update reads 0, which is the number of the first one: it must also be in range.
        let everywhere = b.constant(Literal::splat(true, operand.clone()))?;
        let inside = b.one(self.gather(self.mode), &[everywhere, indices])?;
        b.one(Binary::And, &[owns, inside])
    }

    /// The cotangent of the operand of a scatter-set: zero where something was written.
    fn unwritten(
        &self,
        b: &mut Builder,
        ct: Value,
        indices: Value,
        updates: &TensorType,
    ) -> Result<Value, TypeError> {
        let zeros = b.number(updates, 0.0)?;
        b.one(self.clone(), &[ct, indices, zeros])
    }
}

impl Primitive for Scatter {
    fn names() -> Vec<&'static str> {
        vec!["scatter"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Scatter, AttrError> {
        let kind = attrs.word("op", &KINDS)?;
        let index_dims = attrs.dims("index_dims")?;
        let batch_dims = attrs.size_or("batch_dims", 0)?;
        Ok(Scatter { kind, index_dims, batch_dims, mode: IndexMode::parse(attrs)? })
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for (dtype, kind) in [
            (DType::F64, ScatterKind::Add),
            (DType::F64, ScatterKind::Set),
            (DType::F32, ScatterKind::Add),
            (DType::I32, ScatterKind::Add),
            (DType::Bool, ScatterKind::Set),
        ] {
            let domain = if dtype.is_float() { Domain::Uniform(-2.0, 2.0) } else { Domain::Any };
            for (shape, indices, index_dims, batch_dims) in CASES {
                for (mode, index, slack) in [
                    (IndexMode::Checked, DType::I64, 0),
                    (IndexMode::Clip, DType::I32, 2),
                    (IndexMode::Drop, DType::U32, 2),
                ] {
                    let below = Domain::Below(bound(shape, index_dims) + slack);
                    let scatter =
                        Scatter { kind, index_dims: Dims::from_slice(index_dims), batch_dims, mode };
                    let operand = TensorType::new(dtype, shape);
                    let indices = TensorType::new(index, indices);
                    let updates = picked_shape(&operand, &indices, &scatter.index_dims, batch_dims, mode);
                    let Ok(updates) = updates else { continue };
                    let operands = vec![
                        SampleOperand::new(operand.clone(), domain),
                        SampleOperand::new(indices, below),
                        SampleOperand::new(operand.with_shape(updates), domain),
                    ];
                    samples.push(Sample::new(scatter, operands));
                }
            }
        }
        samples
    }

    /// What is added to zeros may be added to anything else.
    fn added_to(&self, sum: Value, b: &mut Builder, operands: &[Value]) -> Result<Option<Value>, TypeError> {
        match self.kind {
            ScatterKind::Add if b.program().is_zero(operands[0]) => {
                b.one(self.clone(), &[sum, operands[1], operands[2]]).map(Some)
            }
            ScatterKind::Add | ScatterKind::Set => Ok(None),
        }
    }

    fn name(&self) -> &'static str {
        "scatter"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        let mut attrs = vec![("op", Attr::Word(KINDS[self.kind as usize].0.to_string()))];
        attrs.extend(index_attrs(&self.index_dims, self.batch_dims, self.mode));
        attrs
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 3)?;
        let (operand, updates) = (operands[0], operands[2]);
        let shape = picked_shape(operand, operands[1], &self.index_dims, self.batch_dims, self.mode)?;
        if operand.dtype != updates.dtype {
            return Err(Problem::DTypesDiffer { left: operand.dtype, right: updates.dtype });
        }
        if self.kind == ScatterKind::Add && operand.dtype == DType::Bool {
            let expected = "a float or integer type, or written with set";
            return Err(Problem::DType { operand: 0, found: operand.dtype, expected });
        }
        if updates.shape != shape {
            return Err(Problem::ShapesDiffer { left: shape, right: updates.shape.clone() });
        }
        one(operand.clone())
    }

    fn transpose(
        &self,
        b: &mut Builder,
        args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let Some(indices) = args[1].known else { return Err(not_linear(self.name(), args)) };
        let Some(ct) = cotangents[0] else { return Ok(smallvec![None, None, None]) };
        let operand = match (args[0].is_linear(), self.kind) {
            (false, _) => None,
            (true, ScatterKind::Add) => Some(ct),
            (true, ScatterKind::Set) => Some(self.unwritten(b, ct, indices, &args[2].ty)?),
        };
        let updates = if args[2].is_linear() {
            let read = b.one(self.gather(self.mode), &[ct, indices])?;
            Some(match self.kind {
                ScatterKind::Add => read,
                ScatterKind::Set => {
                    let stays = self.stays(b, &args[0].ty.shape, indices, &args[2].ty.shape)?;
                    let zero = b.number_like(read, 0.0)?;
                    b.select(stays, read, zero)?
                }
            })
        } else {
            None
        };
        Ok(smallvec![operand, None, updates])
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        let (operand, indices, updates) = (args[0], args[1], args[2]);
        if indices.axis.is_some() {
            let index_dims = shifted(&self.index_dims, 0);
            let scatter = Scatter { index_dims, batch_dims: self.batch_dims + 1, ..self.clone() };
            let operands = [batcher.at(operand, 0)?, batcher.at(indices, 0)?, batcher.at(updates, 0)?];
            return batcher.one(scatter, &operands, 0);
        }
        // The lanes are part of the window.
        let axis = operand.axis.unwrap_or(0).max(self.batch_dims);
        let scatter = Scatter { index_dims: shifted(&self.index_dims, axis), ..self.clone() };
        let leading = batcher.builder.ty(indices.value).shape.rank() - 1;
        let place = leading + window_place(&scatter.index_dims, self.batch_dims, axis);
        let operands = [batcher.at(operand, axis)?, indices.value, batcher.at(updates, place)?];
        batcher.one(scatter, &operands, axis)
    }

    fn effect(&self) -> Effect {
        self.mode.effect()
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Update
    }
}

//! A box written at a computed place. A primitive because a scatter would need an index for every element of the box.

use super::IndexMode;
use super::dynamic_slice::{CASES, DynamicSlice, MODES};
use super::scatter::{Scatter, ScatterKind};
use crate::batch::{Batched, BatchedValues, Batcher, shifted};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Problem, TypeError};
use crate::ops::{Attr, AttrError, AttrReader, Effect, Primitive, Types, arity, one};
use crate::program::{Value, Values};
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, RuleError, not_linear};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::{Dims, TensorType};
use smallvec::smallvec;

/// `dynamic_update_slice(operand, update, start..)`, with one integer scalar `start[d]` per dimension: the operand
/// with the update in the place of the box that a [`DynamicSlice`] of its extents reads. A box that leaves the operand
/// means, by mode:
///
/// - checked: the call fails with `IndexOutOfRange`, also where nobody uses the result;
/// - clip: the nearest start is meant at which the whole box fits;
/// - drop: elements outside vanish. Only here may the update be larger than the operand.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DynamicUpdateSlice {
    /// What a box that leaves the operand means.
    pub mode: IndexMode,
}

impl DynamicUpdateSlice {
    /// What reads the box again.
    fn slice(&self, update: &TensorType) -> DynamicSlice {
        DynamicSlice { sizes: Dims::from_slice(&update.shape), mode: self.mode }
    }
}

impl Primitive for DynamicUpdateSlice {
    fn names() -> Vec<&'static str> {
        vec!["dynamic_update_slice"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<DynamicUpdateSlice, AttrError> {
        Ok(DynamicUpdateSlice { mode: IndexMode::parse(attrs)? })
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for dtype in [DType::F64, DType::F32, DType::I32, DType::Bool] {
            let domain = if dtype.is_float() { Domain::Uniform(-2.0, 2.0) } else { Domain::Any };
            for (shape, sizes) in CASES {
                for (mode, index, slack) in MODES {
                    let tensors =
                        [shape, sizes].map(|s| SampleOperand::new(TensorType::new(dtype, s), domain));
                    let mut operands = Vec::from(tensors);
                    operands.extend(shape.iter().zip(sizes).map(|(extent, size)| {
                        let below = Domain::Below((extent - size) as u64 + 1 + slack);
                        SampleOperand::new(TensorType::scalar(index), below)
                    }));
                    samples.push(Sample::new(DynamicUpdateSlice { mode }, operands));
                }
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        "dynamic_update_slice"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        self.mode.attr().into_iter().collect()
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        let rank = operands.first().map_or(0, |x| x.shape.rank());
        arity(operands, 2 + rank)?;
        let (x, update) = (operands[0], operands[1]);
        if x.dtype != update.dtype {
            return Err(Problem::DTypesDiffer { left: x.dtype, right: update.dtype });
        }
        if update.shape.rank() != rank {
            let text = format!("the update {update} must have as many dimensions as {x}; reshape it");
            return Err(Problem::Constraint(text));
        }
        self.slice(update).check(x, &operands[2..], 2)?;
        one(x.clone())
    }

    /// A box written into zeros may be added to that box of anything else.
    fn added_to(&self, sum: Value, b: &mut Builder, operands: &[Value]) -> Result<Option<Value>, TypeError> {
        let (update, starts) = (operands[1], &operands[2..]);
        if !b.program().is_zero(operands[0]) {
            return Ok(None);
        }
        let slice = self.slice(b.ty(update));
        let old = b.one(slice, &[&[sum], starts].concat())?;
        let new = b.add(old, update)?;
        b.one(self.clone(), &[&[sum, new], starts].concat()).map(Some)
    }

    fn transpose(
        &self,
        b: &mut Builder,
        args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let mut result: Cotangents = smallvec![None; args.len()];
        let Some(ct) = cotangents[0] else { return Ok(result) };
        let starts: Option<Values> = args[2..].iter().map(|start| start.known).collect();
        let Some(starts) = starts else { return Err(not_linear(self.name(), args)) };
        let update = &args[1].ty;
        // The box is read first, so that the zeros may be written in place.
        if args[1].is_linear() {
            let operands: Values = [ct].into_iter().chain(starts.iter().copied()).collect();
            result[1] = Some(b.one(self.slice(update), &operands)?);
        }
        if args[0].is_linear() {
            let zeros = b.number(update, 0.0)?;
            let operands: Values = [ct, zeros].into_iter().chain(starts).collect();
            result[0] = Some(b.one(self.clone(), &operands)?);
        }
        Ok(result)
    }

    /// Starts that are the same in every lane place one box in all lanes. Where some differ, that box is read, what
    /// starts elsewhere in each lane is scattered into it, and it is written back.
    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        let (x, update, starts) = (args[0], args[1], &args[2..]);
        let (moving, fixed): (Dims, Dims) = (0..starts.len()).partition(|&d| starts[d].axis.is_some());
        if moving.is_empty() {
            return match x.axis.or(update.axis) {
                None => batcher.unbatched(self.clone(), args),
                Some(axis) => {
                    let operands = [batcher.at(x, axis)?, batcher.at(update, axis)?];
                    self.write_in_all_lanes(batcher, operands, starts, axis)
                }
            };
        }
        let values = batcher.at(update, 0)?;
        let sizes = Dims::from_slice(&batcher.builder.ty(values).shape[1..]);
        let slice = DynamicSlice { sizes, mode: self.mode };
        let part = slice.in_all_lanes(batcher, x, starts)?;
        let operand = batcher.at(part, 0)?;
        let extents = Dims::from_slice(&batcher.builder.ty(operand).shape[1..]);
        let places = slice.places(batcher, starts, &extents, &moving)?;
        let order: Dims = [0].into_iter().chain(moving.iter().chain(&fixed).map(|d| d + 1)).collect();
        let values = batcher.builder.transpose(values, &order)?;
        // The starts are resolved: what is still outside vanishes.
        let (kind, mode) = (ScatterKind::Set, IndexMode::Drop);
        let scatter = Scatter { kind, index_dims: shifted(&moving, 0), batch_dims: 1, mode };
        let written = batcher.builder.one(scatter, &[operand, places, values])?;
        if part == x {
            return Ok(smallvec![Batched::along(written, 0)]);
        }
        let operands = [batcher.at(x, 0)?, written];
        self.write_in_all_lanes(batcher, operands, starts, 0)
    }

    fn effect(&self) -> Effect {
        self.mode.effect()
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Update
    }
}

impl DynamicUpdateSlice {
    /// Operand and update with their lanes along `axis`, where starts that differ from lane to lane count as 0.
    fn write_in_all_lanes(
        &self,
        batcher: &mut Batcher<'_>,
        tensors: [Value; 2],
        starts: &[Batched],
        axis: usize,
    ) -> Result<BatchedValues, RuleError> {
        let zero = batcher.builder.scalar(0i64)?;
        let starts = starts.iter().map(|start| if start.axis.is_some() { zero } else { start.value });
        let mut operands: Values = tensors.into_iter().chain(starts).collect();
        operands.insert(2 + axis, zero);
        batcher.one(self.clone(), &operands, axis)
    }
}

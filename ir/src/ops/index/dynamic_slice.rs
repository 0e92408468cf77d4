//! A box of given sizes at a computed place. A primitive because a gather would need an index for every element of
//! the box.

use super::IndexMode;
use super::dynamic_update_slice::DynamicUpdateSlice;
use super::gather::Gather;
use crate::batch::{Batched, BatchedValues, Batcher, inserted};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Problem, TypeError};
use crate::ops::elementwise::binary::Binary;
use crate::ops::shape::concat::Concat;
use crate::ops::shape::length;
use crate::ops::{Attr, AttrError, AttrReader, Effect, Primitive, Types, arity, one};
use crate::program::{Value, Values};
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, RuleError, not_linear};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::{Dims, Shape, TensorType};
use smallvec::smallvec;

/// `dynamic_slice(operand, start..)`, with one integer scalar `start[d]` per dimension of the operand:
/// `result[i..] = operand[start[0] + i[0], ..]`, without wrapping. A box that leaves the operand means, by mode:
///
/// - checked: the call fails with `IndexOutOfRange`, also where nobody uses the result;
/// - clip: the nearest start is meant at which the whole box fits;
/// - drop: elements outside read 0. Only here may the box be larger than the operand.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DynamicSlice {
    /// Extents of the box.
    pub sizes: Dims,
    /// What a box that leaves the operand means.
    pub mode: IndexMode,
}

/// Shapes of operand and box to sample with.
pub(super) const CASES: [(&[usize], &[usize]); 7] = [
    (&[5], &[2]),
    (&[3, 4], &[2, 3]),
    (&[2, 3, 2], &[1, 2, 2]),
    (&[2, 3], &[2, 3]),
    (&[], &[]),
    (&[4], &[0]),
    (&[0, 2], &[0, 1]),
];

/// What [`CASES`] are tried with: modes, types of the starts, and how far a start may lie beyond the last that fits.
pub(super) const MODES: [(IndexMode, DType, u64); 3] =
    [(IndexMode::Checked, DType::I64, 0), (IndexMode::Clip, DType::I32, 2), (IndexMode::Drop, DType::U64, 2)];

impl DynamicSlice {
    /// The starts that are meant along a dimension, as i64 that can be added to. In mode checked, a start
    /// at which the box leaves the operand fails.
    fn resolved(&self, b: &mut Builder, start: Value, d: usize, extent: usize) -> Result<Value, TypeError> {
        let size = self.sizes[d];
        let room = extent.saturating_sub(size);
        let (low, high) = match self.mode {
            IndexMode::Checked => {
                let starts = b.iota(TensorType::new(DType::I64, [room + 1]), 0)?;
                let shape = b.ty(start).shape.iter().copied().chain([1]).collect::<Shape>();
                let start = b.reshape(start, shape)?;
                let gather = Gather { index_dims: smallvec![0], batch_dims: 0, mode: IndexMode::Checked };
                return b.one(gather, &[starts, start]);
            }
            IndexMode::Clip => (0.0, room as f64),
            // At both the whole box is outside, as it is beyond them.
            IndexMode::Drop => (-(size as f64), extent as f64),
        };
        let start = if b.ty(start).dtype == DType::U64 {
            // The upper half would become negative.
            let high = b.number_like(start, high)?;
            b.one(Binary::Min, &[start, high])?
        } else {
            start
        };
        let start = b.convert(start, DType::I64)?;
        let (low, high) = (b.number_like(start, low)?, b.number_like(start, high)?);
        let start = b.one(Binary::Max, &[start, low])?;
        b.one(Binary::Min, &[start, high])
    }
}

/// Types.
impl DynamicSlice {
    /// Checks the starts, of which `first` is the number as an operand, and that the box fits into `x`.
    pub(super) fn check(&self, x: &TensorType, starts: &[&TensorType], first: usize) -> Result<(), Problem> {
        for (d, start) in starts.iter().enumerate() {
            if !start.dtype.is_int() {
                let (operand, found) = (first + d, start.dtype);
                return Err(Problem::DType { operand, found, expected: "an integer type" });
            }
            if start.shape.rank() != 0 {
                let text = format!("the start along axis {d} is {start} and must be a scalar; reshape it");
                return Err(Problem::Constraint(text));
            }
            if self.mode != IndexMode::Drop && self.sizes[d] > x.shape[d] {
                return Err(Problem::Constraint(format!(
                    "along axis {d} a box of {} does not fit into {}; take a smaller one or use mode drop",
                    self.sizes[d], x.shape[d]
                )));
            }
        }
        Ok(())
    }
}

/// Batching.
impl DynamicSlice {
    /// The box along the dimensions whose start is the same in every lane, and everything along the others.
    pub(super) fn in_all_lanes(
        &self,
        batcher: &mut Batcher<'_>,
        x: Batched,
        starts: &[Batched],
    ) -> Result<Batched, TypeError> {
        let b = &mut *batcher.builder;
        let mut extents = Dims::from_slice(&b.ty(x.value).shape);
        if let Some(axis) = x.axis {
            extents.remove(axis);
        }
        let is_whole = |b: &Builder, d: usize| {
            let start = b.program().constant(starts[d].value).and_then(|start| start.splat_value());
            self.sizes[d] == extents[d] && start == Some(0)
        };
        if (0..starts.len()).all(|d| starts[d].axis.is_some() || is_whole(b, d)) {
            return Ok(x);
        }
        let zero = b.scalar(0i64)?;
        let (mut sizes, mut operands) = (Dims::new(), Values::new());
        for (d, start) in starts.iter().enumerate() {
            let (size, start) = match start.axis {
                None => (self.sizes[d], start.value),
                Some(_) => (extents[d], zero),
            };
            sizes.push(size);
            operands.push(start);
        }
        if let Some(axis) = x.axis {
            sizes.insert(axis, batcher.size);
            operands.insert(axis, zero);
        }
        operands.insert(0, x.value);
        Ok(Batched { value: b.one(DynamicSlice { sizes, mode: self.mode }, &operands)?, axis: x.axis })
    }

    /// Where each element of each lane's box is along `dims`: `[lanes, sizes of dims.., one per dim]`.
    pub(super) fn places(
        &self,
        batcher: &mut Batcher<'_>,
        starts: &[Batched],
        extents: &[usize],
        dims: &[usize],
    ) -> Result<Value, TypeError> {
        let b = &mut *batcher.builder;
        let sizes = dims.iter().map(|&d| self.sizes[d]);
        let shape: Shape = [batcher.size].into_iter().chain(sizes).collect();
        let column: Shape = shape.iter().copied().chain([1]).collect();
        let mut columns = Vec::with_capacity(dims.len());
        for (i, &d) in dims.iter().enumerate() {
            let start = self.resolved(b, starts[d].value, d, extents[d])?;
            let start = b.broadcast(start, shape.clone(), &[0])?;
            let steps = b.iota(TensorType::new(DType::I64, shape.clone()), i + 1)?;
            let places = b.add(start, steps)?;
            columns.push(b.reshape(places, column.clone())?);
        }
        match columns[..] {
            [column] => Ok(column),
            _ => b.one(Concat { dim: shape.rank() }, &columns),
        }
    }
}

impl Primitive for DynamicSlice {
    fn names() -> Vec<&'static str> {
        vec!["dynamic_slice"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<DynamicSlice, AttrError> {
        Ok(DynamicSlice { sizes: attrs.dims("sizes")?, mode: IndexMode::parse(attrs)? })
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for dtype in [DType::F64, DType::F32, DType::I32, DType::Bool] {
            let domain = if dtype.is_float() { Domain::Uniform(-2.0, 2.0) } else { Domain::Any };
            for (shape, sizes) in CASES {
                for (mode, index, slack) in MODES {
                    let mut operands = vec![SampleOperand::new(TensorType::new(dtype, shape), domain)];
                    operands.extend(shape.iter().zip(sizes).map(|(extent, size)| {
                        let below = Domain::Below((extent - size) as u64 + 1 + slack);
                        SampleOperand::new(TensorType::scalar(index), below)
                    }));
                    samples
                        .push(Sample::new(DynamicSlice { sizes: Dims::from_slice(sizes), mode }, operands));
                }
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        "dynamic_slice"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        let mut attrs = vec![("sizes", Attr::dims(&self.sizes))];
        attrs.extend(self.mode.attr());
        attrs
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 1 + self.sizes.len())?;
        let x = operands[0];
        length("sizes", self.sizes.len(), x.shape.rank())?;
        self.check(x, &operands[1..], 1)?;
        one(x.with_shape(self.sizes.iter().copied().collect::<Shape>()))
    }

    /// Read backwards, the operand is zeros with the cotangent written where the box was.
    fn transpose(
        &self,
        b: &mut Builder,
        args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let mut result: Cotangents = smallvec![None; args.len()];
        let Some(ct) = cotangents[0] else { return Ok(result) };
        let starts: Option<Values> = args[1..].iter().map(|start| start.known).collect();
        let Some(starts) = starts else { return Err(not_linear(self.name(), args)) };
        let zeros = b.number(&args[0].ty, 0.0)?;
        let operands: Values = [zeros, ct].into_iter().chain(starts).collect();
        result[0] = Some(b.one(DynamicUpdateSlice { mode: self.mode }, &operands)?);
        Ok(result)
    }

    /// Starts that are the same in every lane cut one box out of all lanes; what starts elsewhere in each lane is then
    /// gathered.
    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        let starts = &args[1..];
        let x = self.in_all_lanes(batcher, args[0], starts)?;
        let (moving, fixed): (Dims, Dims) = (0..starts.len()).partition(|&d| starts[d].axis.is_some());
        if moving.is_empty() {
            return Ok(smallvec![x]);
        }
        let (operand, batch_dims) = match x.axis {
            Some(_) => (batcher.at(x, 0)?, 1),
            None => (x.value, 0),
        };
        let extents = Dims::from_slice(&batcher.builder.ty(operand).shape[batch_dims..]);
        let places = self.places(batcher, starts, &extents, &moving)?;
        let index_dims = moving.iter().map(|d| d + batch_dims).collect();
        // The starts are resolved: what is still outside reads 0.
        let gather = Gather { index_dims, batch_dims, mode: IndexMode::Drop };
        let boxes = batcher.builder.one(gather, &[operand, places])?;
        let mut permutation = Dims::from_elem(0, starts.len());
        for (i, &d) in moving.iter().chain(&fixed).enumerate() {
            permutation[d] = i + 1;
        }
        let boxes = batcher.builder.transpose(boxes, &inserted(&permutation, 0, 0))?;
        Ok(smallvec![Batched::along(boxes, 0)])
    }

    fn effect(&self) -> Effect {
        self.mode.effect()
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Kernel
    }
}

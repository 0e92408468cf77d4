//! The vocabulary of batching rules: a value that differs from lane to lane holds its lanes along one axis, and every
//! rule says where the lanes of its results are. Axes are moved only where an op asks for it.

use crate::builder::Builder;
use crate::error::TypeError;
use crate::literal::Literal;
use crate::ops::Op;
use crate::ops::control::looping::map_stacks;
use crate::ops::shape::broadcast::Broadcast;
use crate::program::{Value, Values};
use crate::rules::RuleError;
use crate::shape::{Dims, Shape};
use smallvec::{SmallVec, smallvec};

/// A value and the axis along which its lanes lie; without an axis it is the same in every lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batched {
    /// The value, with the lanes' axis among its dimensions.
    pub value: Value,
    /// Where the lanes lie.
    pub axis: Option<usize>,
}

impl Batched {
    /// A value that is the same in every lane.
    pub fn same(value: Value) -> Batched {
        Batched { value, axis: None }
    }

    /// A value with one lane per index along `axis`.
    pub fn along(value: Value, axis: usize) -> Batched {
        Batched { value, axis: Some(axis) }
    }
}

/// The results of a batching rule; nearly always one.
pub type BatchedValues = SmallVec<[Batched; 2]>;

/// What a batching rule works with: the batched program under construction, and how many lanes it has.
pub struct Batcher<'a> {
    /// The batched program.
    pub builder: &'a mut Builder,
    /// Number of lanes, which may be 0.
    pub size: usize,
}

impl Batcher<'_> {
    /// The value with its lanes along `axis`: moved there, or repeated if it is the same in every lane.
    pub fn at(&mut self, x: Batched, axis: usize) -> Result<Value, TypeError> {
        if x.axis == Some(axis) {
            return Ok(x.value);
        }
        let size = self.size;
        map_stacks(self.builder, "lanes", &[], &[x.value], &mut |b, v| match x.axis {
            Some(from) => move_axis(b, v[0], from, axis),
            None => repeat(b, v[0], axis, size),
        })
    }

    /// The value and the axis of its lanes; repeated along axis 0 if it is the same in every lane.
    pub fn lanes(&mut self, x: Batched) -> Result<(Value, usize), TypeError> {
        match x.axis {
            Some(axis) => Ok((x.value, axis)),
            None => Ok((self.at(x, 0)?, 0)),
        }
    }

    /// Values with their lanes along one axis, that of the first which differs from lane to lane.
    pub fn aligned(&mut self, args: &[Batched]) -> Result<(Values, usize), TypeError> {
        let axis = args.iter().find_map(|arg| arg.axis).unwrap_or(0);
        let values = args.iter().map(|&arg| self.at(arg, axis)).collect::<Result<_, _>>()?;
        Ok((values, axis))
    }

    /// The rule of ops that work on each element by itself: the op on aligned operands.
    pub fn elementwise(&mut self, op: impl Into<Op>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        let (operands, axis) = self.aligned(args)?;
        self.one(op, &operands, axis)
    }

    /// An op whose one result has its lanes along `axis`.
    pub fn one(
        &mut self,
        op: impl Into<Op>,
        operands: &[Value],
        axis: usize,
    ) -> Result<BatchedValues, RuleError> {
        Ok(smallvec![Batched::along(self.builder.one(op, operands)?, axis)])
    }

    /// The op on operands that are the same in every lane.
    pub fn unbatched(&mut self, op: impl Into<Op>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        let operands: Values = args.iter().map(|arg| arg.value).collect();
        Ok(self.builder.emit(op, &operands)?.into_iter().map(Batched::same).collect())
    }
}

/// The tensor with the dimension `from` in the place `to`.
pub(crate) fn move_axis(b: &mut Builder, x: Value, from: usize, to: usize) -> Result<Value, TypeError> {
    let mut permutation: Dims = (0..b.ty(x).shape.rank()).filter(|&d| d != from).collect();
    permutation.insert(to, from);
    b.transpose(x, &permutation)
}

/// The tensor `size` times along a new dimension `axis`.
fn repeat(b: &mut Builder, x: Value, axis: usize, size: usize) -> Result<Value, TypeError> {
    let lane = b.ty(x).shape.clone();
    let shape: Shape = inserted(&lane, axis, size).into_iter().collect();
    let splat = b.program().constant(x).and_then(Literal::splat_value);
    match splat {
        // A zero stays one that transforms recognise.
        Some(bits) => {
            let ty = b.ty(x).with_shape(shape);
            b.constant(Literal::splat_bits(ty, bits))
        }
        None => {
            let dims = shifted(&(0..lane.rank()).collect::<Dims>(), axis);
            b.one(Broadcast { shape, dims }, &[x])
        }
    }
}

/// Dimensions of a lane as dimensions of the batched tensor.
pub fn shifted(dims: &[usize], axis: usize) -> Dims {
    dims.iter().map(|&d| if d < axis { d } else { d + 1 }).collect()
}

/// What a lane has one of per dimension, with an entry for the lanes' axis.
pub fn inserted<T: Copy>(entries: &[T], axis: usize, entry: T) -> SmallVec<[T; 4]> {
    let mut entries = SmallVec::from_slice(entries);
    entries.insert(axis, entry);
    entries
}

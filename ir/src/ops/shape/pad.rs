//! Elements added before, after and between those of a tensor; negative amounts cut elements off. The transpose
//! of a slice.

use super::length;
use super::slice::Slice;
use crate::batch::{Batched, BatchedValues, Batcher, inserted};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Problem, TypeError};
use crate::literal::Literal;
use crate::ops::elementwise::select::Select;
use crate::ops::{Attr, AttrError, AttrReader, Primitive, Types, arity, one};
use crate::program::Value;
use crate::recipe::{AxisMap, IndexMap, Recipe};
use crate::rules::{Arg, Cotangents, RuleError};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::{Dims, MAX_ELEMENTS, Shape, TensorType};
use smallvec::{SmallVec, smallvec};

/// Signed amounts, one per dimension.
pub type Amounts = SmallVec<[i64; 4]>;

/// `pad(x, filling)` with a scalar filling: along each dimension `interior` fillings between neighbours, then
/// `low` before and `high` after; negative `low` or `high` cut that many elements (fillings included) off.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pad {
    /// Fillings before the first element, per dimension.
    pub low: Amounts,
    /// Fillings after the last element, per dimension.
    pub high: Amounts,
    /// Fillings between two neighbours, per dimension.
    pub interior: Dims,
}

impl Pad {
    /// Extent of the result along a dimension of extent `n`, unless it is negative or does not fit.
    fn extent(&self, d: usize, n: usize) -> Option<usize> {
        let gaps = (n as i64).checked_sub(1)?.max(0);
        let inside = gaps.checked_mul(i64::try_from(self.interior[d]).ok()?)?.checked_add(n as i64)?;
        let padded = inside.checked_add(self.low[d])?.checked_add(self.high[d])?;
        usize::try_from(padded).ok().filter(|&n| n <= MAX_ELEMENTS)
    }

    /// Which elements of the result are the operand's, rather than fillings.
    fn inside(&self, b: &mut Builder, operand: Shape) -> Result<Value, TypeError> {
        let inside = b.constant(Literal::splat(true, operand))?;
        let outside = b.scalar(false)?;
        b.one(self.clone(), &[inside, outside])
    }

    /// The same padding with one more dimension, which is left as it is.
    fn with_axis(&self, axis: usize) -> Pad {
        Pad {
            low: inserted(&self.low, axis, 0),
            high: inserted(&self.high, axis, 0),
            interior: inserted(&self.interior, axis, 0),
        }
    }

    /// The operand's elements at their places in `x`, a tensor of the result's shape.
    fn extract(&self, b: &mut Builder, x: Value, operand: &Shape) -> Result<Value, RuleError> {
        let zero = b.number(&TensorType::scalar(b.ty(x).dtype), 0.0)?;
        let negate = |amounts: &Amounts| amounts.iter().map(|&a| -a).collect();
        let uncut = Pad {
            low: negate(&self.low),
            high: negate(&self.high),
            interior: Dims::from_elem(0, operand.rank()),
        };
        let dilated = b.one(uncut, &[x, zero])?;
        let limit = Dims::from_slice(&b.ty(dilated).shape);
        let stride = self.interior.iter().map(|&i| i + 1).collect();
        let start = Dims::from_elem(0, operand.rank());
        Ok(b.one(Slice { start, limit, stride }, &[dilated])?)
    }
}

impl Primitive for Pad {
    fn names() -> Vec<&'static str> {
        vec!["pad"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Pad, AttrError> {
        let low = attrs.ints("low")?.into();
        let high = attrs.ints("high")?.into();
        Ok(Pad { low, high, interior: attrs.dims("interior")? })
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for dtype in [DType::F64, DType::F32, DType::I32, DType::Bool] {
            let domain = if dtype.is_float() { Domain::Uniform(-2.0, 2.0) } else { Domain::Any };
            let cases: [(&[usize], &[i64], &[i64], &[usize]); 7] = [
                (&[2, 3], &[1, 0], &[0, 2], &[0, 1]),
                (&[5], &[-1], &[-2], &[0]),
                (&[5], &[-2], &[3], &[2]),
                (&[], &[], &[], &[]),
                (&[0], &[2], &[1], &[3]),
                (&[3], &[-1], &[-1], &[1]),
                (&[2, 2], &[-2, 0], &[0, 0], &[0, 0]),
            ];
            for (shape, low, high, interior) in cases {
                let pad = Pad {
                    low: Amounts::from_slice(low),
                    high: Amounts::from_slice(high),
                    interior: Dims::from_slice(interior),
                };
                let operand = SampleOperand::new(TensorType::new(dtype, shape), domain);
                let filling = SampleOperand::new(TensorType::scalar(dtype), domain);
                samples.push(Sample::new(pad, vec![operand, filling]));
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        "pad"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        vec![
            ("low", Attr::Ints(self.low.to_vec())),
            ("high", Attr::Ints(self.high.to_vec())),
            ("interior", Attr::dims(&self.interior)),
        ]
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 2)?;
        let (x, filling) = (operands[0], operands[1]);
        if x.dtype != filling.dtype {
            return Err(Problem::DTypesDiffer { left: x.dtype, right: filling.dtype });
        }
        if filling.shape.rank() != 0 {
            let text =
                format!("the filling has shape {} and must be a scalar; reshape it to []", filling.shape);
            return Err(Problem::Constraint(text));
        }
        let rank = x.shape.rank();
        length("low", self.low.len(), rank)?;
        length("high", self.high.len(), rank)?;
        length("interior", self.interior.len(), rank)?;
        let mut shape = Dims::new();
        for d in 0..rank {
            let extent = self.extent(d, x.shape[d]).ok_or_else(|| {
                Problem::Constraint(format!(
                    "along axis {d} padding {} by low {}, high {} and interior {} leaves no valid extent; \
                     cut off at most what is there",
                    x.shape[d], self.low[d], self.high[d], self.interior[d]
                ))
            })?;
            shape.push(extent);
        }
        one(x.with_shape(&shape[..]))
    }

    fn transpose(
        &self,
        b: &mut Builder,
        args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let Some(ct) = cotangents[0] else { return Ok(smallvec![None, None]) };
        let shape = &args[0].ty.shape;
        let x = if args[0].is_linear() { Some(self.extract(b, ct, shape)?) } else { None };
        let filling = if args[1].is_linear() {
            let inside = self.inside(b, shape.clone())?;
            let zero = b.number_like(ct, 0.0)?;
            let fillings = b.select(inside, zero, ct)?;
            let all: Dims = (0..shape.rank()).collect();
            Some(b.reduce_sum(fillings, &all)?)
        } else {
            None
        };
        Ok(smallvec![x, filling])
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        let (x, filling) = (args[0], args[1]);
        if filling.axis.is_none() {
            let (x, axis) = batcher.lanes(x)?;
            return batcher.one(self.with_axis(axis), &[x, filling.value], axis);
        }
        // Each lane has its own filling: pad with anything, then fill.
        let b = &mut *batcher.builder;
        let zero = b.number(&TensorType::scalar(b.ty(x.value).dtype), 0.0)?;
        let (pad, shape) = match x.axis {
            Some(axis) => (self.with_axis(axis), b.ty(x.value).shape.without(&[axis])),
            None => (self.clone(), b.ty(x.value).shape.clone()),
        };
        let padded = Batched { value: b.one(pad, &[x.value, zero])?, axis: x.axis };
        let inside = self.inside(b, shape)?;
        let shape = inserted(&b.ty(inside).shape, 0, batcher.size);
        let filling = b.broadcast(filling.value, &shape[..], &[0])?;
        batcher.elementwise(Select, &[Batched::same(inside), padded, Batched::along(filling, 0)])
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        let axis = |d: usize| AxisMap {
            dim: Some(d),
            scale: 1,
            offset: -self.low[d],
            dilation: self.interior[d] as i64 + 1,
        };
        Recipe::Move(IndexMap { dims: (0..self.low.len()).map(axis).collect() })
    }
}

//! Reduction over dimensions in the one documented order.
//!
//! Elements along the reduced dimensions are taken in row-major order, in blocks of 4096; inside a block element
//! `i` goes to lane `i mod 16`; a lane starts as its first element; lanes combine by halves (lane `l` with lane
//! `l + 8`, then `l + 4`, `l + 2`, `l + 1`; an absent partner changes nothing); blocks combine pairwise, level by
//! level, an odd last one moving up. So the reduction of one element is that element, bit for bit.

use crate::batch::{Batched, BatchedValues, Batcher, shifted};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Problem, TypeError};
use crate::literal::Literal;
use crate::ops::elementwise::binary::Binary;
use crate::ops::elementwise::compare::Compare;
use crate::ops::shape::distinct_axes;
use crate::ops::shape::pad::{Amounts, Pad};
use crate::ops::{Attr, AttrError, AttrReader, Equation, Primitive, Types, arity, one};
use crate::program::Value;
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, Linearizer, RuleError, not_linear};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::{Dims, Shape, TensorType};
use smallvec::smallvec;

/// Lanes of the reduction order.
pub const LANES: usize = 16;

/// Elements of one block of the reduction order.
pub const BLOCK: usize = 4096;

/// What combines two elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reducer {
    /// Sum; of nothing: 0. Numbers.
    Sum,
    /// Product; of nothing: 1. Numbers.
    Prod,
    /// The largest, as `max` says; of nothing: an error. Numbers.
    Max,
    /// The smallest, as `min` says; of nothing: an error. Numbers.
    Min,
    /// Logical or bitwise and; of nothing: all ones. Bool and integers.
    And,
    /// Logical or bitwise or; of nothing: 0. Bool and integers.
    Or,
}

const REDUCERS: [(&str, Reducer); 6] = [
    ("sum", Reducer::Sum),
    ("prod", Reducer::Prod),
    ("max", Reducer::Max),
    ("min", Reducer::Min),
    ("and", Reducer::And),
    ("or", Reducer::Or),
];

impl Reducer {
    /// Every reducer, in declaration order.
    pub const ALL: [Reducer; 6] =
        [Reducer::Sum, Reducer::Prod, Reducer::Max, Reducer::Min, Reducer::And, Reducer::Or];

    /// Its name in the text form.
    pub fn name(self) -> &'static str {
        REDUCERS[self as usize].0
    }

    /// The reduction of no elements, for reducers that have one.
    pub fn identity(self, dtype: DType) -> Option<Literal> {
        let ty = TensorType::scalar(dtype);
        match self {
            Reducer::Sum | Reducer::Or => Some(Literal::number(ty, 0.0)),
            Reducer::Prod => Some(Literal::number(ty, 1.0)),
            Reducer::And if dtype == DType::Bool => Some(Literal::scalar(true)),
            Reducer::And => {
                let ones = u64::MAX >> (64 - 8 * dtype.size() as u32);
                Some(Literal::splat_bits(ty, ones))
            }
            Reducer::Max | Reducer::Min => None,
        }
    }

    fn accepts(self, dtype: DType) -> Result<(), Problem> {
        let (allowed, expected) = match self {
            Reducer::Sum | Reducer::Prod | Reducer::Max | Reducer::Min => {
                (dtype != DType::Bool, "a float or integer type")
            }
            Reducer::And | Reducer::Or => (!dtype.is_float(), "bool or an integer type"),
        };
        if allowed { Ok(()) } else { Err(Problem::DType { operand: 0, found: dtype, expected }) }
    }
}

/// The reduction of the operand over `dims`, which disappear.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Reduce {
    /// What combines two elements.
    pub reducer: Reducer,
    /// Dimensions that disappear.
    pub dims: Dims,
}

impl Reduce {
    /// The weight of each element in the slope of max or min: 1 over the number of elements equal to the result,
    /// or 0.
    fn tie_weights(&self, b: &mut Builder, x: Value, y: Value) -> Result<Value, TypeError> {
        let ty = b.ty(x).clone();
        let result = b.expand(y, &ty.shape, &self.dims)?;
        let chosen = b.compare(Compare::Eq, x, result)?;
        // Where the result is NaN no element equals it: those that are NaN themselves share the slope.
        let is_nan = b.compare(Compare::Ne, x, x)?;
        let chosen = b.one(Binary::Or, &[chosen, is_nan])?;
        // Counted in f64, where every count is exact.
        let ones = b.convert(chosen, DType::F64)?;
        let count = b.reduce_sum(ones, &self.dims)?;
        let count = b.expand(count, &ty.shape, &self.dims)?;
        let share = b.div(ones, count)?;
        b.convert(share, ty.dtype)
    }

    /// The slope of a product: the product of all other elements, without division so that zeros are right: that
    /// of the elements before times that of the elements after. Dims are brought last and flattened.
    fn products_of_others(&self, b: &mut Builder, x: Value) -> Result<Value, TypeError> {
        let rank = b.ty(x).shape.rank();
        let kept: Dims = (0..rank).filter(|d| !self.dims.contains(d)).collect();
        let mut sorted = self.dims.clone();
        sorted.sort_unstable();
        let order: Dims = kept.iter().chain(&sorted).copied().collect();
        let moved = b.transpose(x, &order)?;
        let moved_shape = b.ty(moved).shape.clone();
        let n: usize = moved_shape[kept.len()..].iter().product();
        let flat: Shape = moved_shape[..kept.len()].iter().copied().chain([n]).collect();
        let flattened = b.reshape(moved, flat)?;
        let before = running_product(b, flattened, 1)?;
        let after = running_product(b, flattened, -1)?;
        let products = b.mul(before, after)?;
        let products = b.reshape(products, moved_shape)?;
        let mut inverse = Dims::from_elem(0, rank);
        for (i, &d) in order.iter().enumerate() {
            inverse[d] = i;
        }
        b.transpose(products, &inverse)
    }
}

/// For each element along the last dimension the product of all elements before it (`direction` 1) or after it
/// (-1), by doubling: each step multiplies with what stands twice as far away.
fn running_product(b: &mut Builder, x: Value, direction: i64) -> Result<Value, TypeError> {
    let shape = b.ty(x).shape.clone();
    let last = shape.rank() - 1;
    let one = b.number(&TensorType::scalar(b.ty(x).dtype), 1.0)?;
    let shifted = |b: &mut Builder, x: Value, by: i64| {
        let mut low = Amounts::from_elem(0, shape.rank());
        low[last] = by * direction;
        let high = low.iter().map(|&a| -a).collect();
        b.one(Pad { low, high, interior: Dims::from_elem(0, shape.rank()) }, &[x, one])
    };
    if shape[last] == 0 {
        return Ok(x);
    }
    let mut product = shifted(b, x, 1)?;
    let mut distance = 1;
    while distance < shape[last] {
        let further = shifted(b, product, distance as i64)?;
        product = b.mul(product, further)?;
        distance *= 2;
    }
    Ok(product)
}

impl Primitive for Reduce {
    fn names() -> Vec<&'static str> {
        vec!["reduce"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Reduce, AttrError> {
        Ok(Reduce { reducer: attrs.word("op", &REDUCERS)?, dims: attrs.dims("dims")? })
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for reducer in Reducer::ALL {
            for dtype in DType::ALL.into_iter().filter(|&d| reducer.accepts(d).is_ok()) {
                let domain = match reducer {
                    _ if !dtype.is_float() => Domain::Any,
                    Reducer::Max | Reducer::Min => Domain::Distinct,
                    _ => Domain::Uniform(0.5, 1.5),
                };
                let cases: [(&[usize], &[usize]); 7] = [
                    (&[2, 3], &[1]),
                    (&[2, 3], &[0]),
                    (&[2, 3, 2], &[2, 0]),
                    (&[37], &[0]),
                    (&[], &[]),
                    (&[0, 3], &[1]),
                    (&[2, 0], &[1]),
                ];
                for (shape, dims) in cases {
                    let empty = dims.iter().any(|&d| shape[d] == 0);
                    if empty && reducer.identity(dtype).is_none() {
                        continue;
                    }
                    let op = Reduce { reducer, dims: Dims::from_slice(dims) };
                    let operand = SampleOperand::new(TensorType::new(dtype, shape), domain);
                    samples.push(Sample::new(op, vec![operand]));
                }
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        "reduce"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        vec![("op", Attr::Word(self.reducer.name().to_string())), ("dims", Attr::dims(&self.dims))]
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 1)?;
        let x = operands[0];
        self.reducer.accepts(x.dtype)?;
        distinct_axes(&self.dims, x.shape.rank())?;
        if self.reducer.identity(x.dtype).is_none() && self.dims.iter().any(|&d| x.shape[d] == 0) {
            return Err(Problem::EmptyReduction { what: self.reducer.name() });
        }
        one(x.with_shape(x.shape.without(&self.dims)))
    }

    fn linearize(
        &self,
        lin: &mut Linearizer<'_>,
        equation: Equation<'_>,
        tangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let Some(dx) = tangents[0] else { return Ok(smallvec![None]) };
        let (x, y) = (equation.operands[0], equation.results[0]);
        let slope = match self.reducer {
            Reducer::Sum => return Ok(smallvec![Some(lin.linear.one(self.clone(), &[dx])?)]),
            Reducer::Prod => self.products_of_others(lin.primal, x)?,
            Reducer::Max | Reducer::Min => self.tie_weights(lin.primal, x, y)?,
            Reducer::And | Reducer::Or => return Ok(smallvec![None]),
        };
        let scaled = lin.scale(dx, slope)?;
        Ok(smallvec![Some(lin.linear.reduce_sum(scaled, &self.dims)?)])
    }

    fn transpose(
        &self,
        b: &mut Builder,
        args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        match (self.reducer, cotangents[0]) {
            (Reducer::Sum, Some(ct)) => Ok(smallvec![Some(b.expand(ct, &args[0].ty.shape, &self.dims)?)]),
            (Reducer::Sum, None) => Ok(smallvec![None]),
            _ => Err(not_linear(self.name(), args)),
        }
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        let (x, axis) = batcher.lanes(args[0])?;
        let dims = shifted(&self.dims, axis);
        let place = axis - dims.iter().filter(|&&d| d < axis).count();
        batcher.one(Reduce { reducer: self.reducer, dims }, &[x], place)
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Reduce { reducer: self.reducer, dims: self.dims.clone() }
    }
}

//! Sums of products over shared dimensions: the op that becomes gemm.

use crate::batch::{Batched, BatchedValues, Batcher, shifted};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Problem, TypeError};
use crate::ops::shape::{distinct_axes, length};
use crate::ops::{Attr, AttrError, AttrReader, Equation, Primitive, Types, arity, one};
use crate::program::Value;
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, Linearizer, RuleError, not_linear};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::{Dims, Shape, TensorType};
use smallvec::smallvec;

/// Which dimensions of the two operands belong together. The result has the batch dimensions, then the free
/// dimensions of the left operand, then those of the right one.
///
/// Products and sums are IEEE ones: a zero meeting an infinity gives NaN here.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Dot {
    /// Dimensions of the left operand summed over.
    pub lhs_contract: Dims,
    /// Dimensions of the right operand summed over, in the order of their partners.
    pub rhs_contract: Dims,
    /// Dimensions of the left operand that go along with dimensions of the right one.
    pub lhs_batch: Dims,
    /// Their partners.
    pub rhs_batch: Dims,
}

impl Dot {
    /// The product of matrices: rows of `x` with columns of `y`, the first `batch` dimensions going along.
    pub fn matmul(batch: usize) -> Dot {
        Dot {
            lhs_contract: smallvec![batch + 1],
            rhs_contract: smallvec![batch],
            lhs_batch: (0..batch).collect(),
            rhs_batch: (0..batch).collect(),
        }
    }

    /// Dimensions of the left operand that are neither contracted nor batch, ascending.
    pub fn lhs_free(&self, rank: usize) -> Dims {
        (0..rank).filter(|d| !self.lhs_contract.contains(d) && !self.lhs_batch.contains(d)).collect()
    }

    /// Dimensions of the right operand that are neither contracted nor batch, ascending.
    pub fn rhs_free(&self, rank: usize) -> Dims {
        (0..rank).filter(|d| !self.rhs_contract.contains(d) && !self.rhs_batch.contains(d)).collect()
    }

    /// Numbers of elements along the batch, left free, right free and contracted dimensions.
    pub fn sizes(&self, lhs: &Shape, rhs: &Shape) -> (usize, usize, usize, usize) {
        let product = |shape: &Shape, dims: &[usize]| dims.iter().map(|&d| shape[d]).product();
        (
            product(lhs, &self.lhs_batch),
            product(lhs, &self.lhs_free(lhs.rank())),
            product(rhs, &self.rhs_free(rhs.rank())),
            product(lhs, &self.lhs_contract),
        )
    }

    /// The same contraction with its operands exchanged; its result has the free dimensions exchanged too.
    fn swapped(&self) -> Dot {
        Dot {
            lhs_contract: self.rhs_contract.clone(),
            rhs_contract: self.lhs_contract.clone(),
            lhs_batch: self.rhs_batch.clone(),
            rhs_batch: self.lhs_batch.clone(),
        }
    }

    /// The cotangent of the left operand: the result's cotangent `ct` contracted with the right operand over its
    /// free dimensions. `rhs_free_at` says where those stand in `ct`.
    fn transpose_lhs(
        &self,
        b: &mut Builder,
        lhs: &TensorType,
        rhs: Value,
        ct: Value,
        rhs_free_at: usize,
    ) -> Result<Value, TypeError> {
        let rhs_rank = b.ty(rhs).shape.rank();
        let rhs_free = self.rhs_free(rhs_rank);
        let lhs_free = self.lhs_free(lhs.shape.rank());
        let batch: Dims = (0..self.lhs_batch.len()).collect();
        let dot = Dot {
            lhs_contract: (rhs_free_at..rhs_free_at + rhs_free.len()).collect(),
            rhs_contract: rhs_free,
            lhs_batch: batch,
            rhs_batch: self.rhs_batch.clone(),
        };
        let product = b.dot(dot, ct, rhs)?;
        // The product has batch, left free, then the contracted dims in the ascending order of the right operand.
        let mut contracted: Vec<usize> = (0..self.rhs_contract.len()).collect();
        contracted.sort_unstable_by_key(|&i| self.rhs_contract[i]);
        let origin: Dims = self
            .lhs_batch
            .iter()
            .copied()
            .chain(lhs_free)
            .chain(contracted.into_iter().map(|i| self.lhs_contract[i]))
            .collect();
        let mut permutation = Dims::from_elem(0, origin.len());
        for (i, &d) in origin.iter().enumerate() {
            permutation[d] = i;
        }
        b.transpose(product, &permutation)
    }
}

impl Primitive for Dot {
    fn names() -> Vec<&'static str> {
        vec!["dot"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Dot, AttrError> {
        let (lhs_contract, rhs_contract) = (attrs.dims("lhs_contract")?, attrs.dims("rhs_contract")?);
        let (lhs_batch, rhs_batch) = (attrs.dims_or_empty("lhs_batch")?, attrs.dims_or_empty("rhs_batch")?);
        Ok(Dot { lhs_contract, rhs_contract, lhs_batch, rhs_batch })
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        let cases: [(&[usize], &[usize], [&[usize]; 4]); 11] = [
            (&[2, 3], &[3, 4], [&[1], &[0], &[], &[]]),
            (&[3, 2], &[3, 4], [&[0], &[0], &[], &[]]),
            (&[2, 3], &[4, 3], [&[1], &[1], &[], &[]]),
            (&[2, 3, 4], &[2, 4, 5], [&[2], &[1], &[0], &[0]]),
            (&[3, 2, 4], &[4, 5, 2], [&[2], &[0], &[1], &[2]]),
            (&[2, 3, 4], &[4, 3, 2], [&[1, 2], &[1, 0], &[], &[]]),
            (&[3], &[3], [&[0], &[0], &[], &[]]),
            (&[2], &[3], [&[], &[], &[], &[]]),
            (&[2, 0], &[0, 3], [&[1], &[0], &[], &[]]),
            (&[37, 40], &[40, 33], [&[1], &[0], &[], &[]]),
            (&[], &[], [&[], &[], &[], &[]]),
        ];
        for dtype in [DType::F64, DType::F32, DType::I32, DType::U64] {
            let domain = if dtype.is_float() { Domain::Uniform(-2.0, 2.0) } else { Domain::Any };
            for (lhs, rhs, [lhs_contract, rhs_contract, lhs_batch, rhs_batch]) in cases {
                let dot = Dot {
                    lhs_contract: Dims::from_slice(lhs_contract),
                    rhs_contract: Dims::from_slice(rhs_contract),
                    lhs_batch: Dims::from_slice(lhs_batch),
                    rhs_batch: Dims::from_slice(rhs_batch),
                };
                let operand = |shape: &[usize]| SampleOperand::new(TensorType::new(dtype, shape), domain);
                samples.push(Sample::new(dot, vec![operand(lhs), operand(rhs)]));
            }
        }
        samples
    }

    fn name(&self) -> &'static str {
        "dot"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        let mut attrs = vec![
            ("lhs_contract", Attr::dims(&self.lhs_contract)),
            ("rhs_contract", Attr::dims(&self.rhs_contract)),
        ];
        if !self.lhs_batch.is_empty() || !self.rhs_batch.is_empty() {
            attrs.push(("lhs_batch", Attr::dims(&self.lhs_batch)));
            attrs.push(("rhs_batch", Attr::dims(&self.rhs_batch)));
        }
        attrs
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 2)?;
        let (lhs, rhs) = (operands[0], operands[1]);
        if lhs.dtype != rhs.dtype {
            return Err(Problem::DTypesDiffer { left: lhs.dtype, right: rhs.dtype });
        }
        if lhs.dtype == DType::Bool {
            return Err(Problem::DType { operand: 0, found: lhs.dtype, expected: "a float or integer type" });
        }
        length("rhs_contract", self.rhs_contract.len(), self.lhs_contract.len())?;
        length("rhs_batch", self.rhs_batch.len(), self.lhs_batch.len())?;
        let all = |a: &Dims, b: &Dims| a.iter().chain(b).copied().collect::<Dims>();
        distinct_axes(&all(&self.lhs_contract, &self.lhs_batch), lhs.shape.rank())?;
        distinct_axes(&all(&self.rhs_contract, &self.rhs_batch), rhs.shape.rank())?;
        let pairs = [
            (&self.lhs_contract, &self.rhs_contract, "contracted dimensions"),
            (&self.lhs_batch, &self.rhs_batch, "batch dimensions"),
        ];
        for (left, right, what) in pairs {
            for (&l, &r) in left.iter().zip(right) {
                if lhs.shape[l] != rhs.shape[r] {
                    return Err(Problem::ExtentsDiffer { what, left: lhs.shape[l], right: rhs.shape[r] });
                }
            }
        }
        let batch = self.lhs_batch.iter().map(|&d| lhs.shape[d]);
        let left = self.lhs_free(lhs.shape.rank()).into_iter().map(|d| lhs.shape[d]);
        let right = self.rhs_free(rhs.shape.rank()).into_iter().map(|d| rhs.shape[d]);
        one(lhs.with_shape(batch.chain(left).chain(right).collect::<Shape>()))
    }

    fn linearize(
        &self,
        lin: &mut Linearizer<'_>,
        equation: Equation<'_>,
        tangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let by_lhs = match tangents[0] {
            Some(dx) => {
                let y = lin.residual(equation.operands[1])?;
                Some(lin.linear.dot(self.clone(), dx, y)?)
            }
            None => None,
        };
        let by_rhs = match tangents[1] {
            Some(dy) => {
                let x = lin.residual(equation.operands[0])?;
                Some(lin.linear.dot(self.clone(), x, dy)?)
            }
            None => None,
        };
        Ok(smallvec![lin.sum(by_lhs, by_rhs)?])
    }

    fn transpose(
        &self,
        b: &mut Builder,
        args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let Some(ct) = cotangents[0] else { return Ok(smallvec![None, None]) };
        let batch = self.lhs_batch.len();
        match (args[0].known, args[1].known) {
            (None, Some(rhs)) => {
                let at = batch + self.lhs_free(args[0].ty.shape.rank()).len();
                Ok(smallvec![Some(self.transpose_lhs(b, &args[0].ty, rhs, ct, at)?), None])
            }
            (Some(lhs), None) => {
                let ct = self.swapped().transpose_lhs(b, &args[1].ty, lhs, ct, batch)?;
                Ok(smallvec![None, Some(ct)])
            }
            _ => Err(not_linear(self.name(), args)),
        }
    }

    /// Lanes of both operands are a batch dimension; those of one operand are a free dimension of it, so that all lanes
    /// are one product with the other operand.
    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        let (lhs, rhs) = (args[0], args[1]);
        let own =
            |dims: &Dims, arg: Batched| arg.axis.map_or_else(|| dims.clone(), |axis| shifted(dims, axis));
        let mut dot = Dot {
            lhs_contract: own(&self.lhs_contract, lhs),
            rhs_contract: own(&self.rhs_contract, rhs),
            lhs_batch: own(&self.lhs_batch, lhs),
            rhs_batch: own(&self.rhs_batch, rhs),
        };
        let batch = dot.lhs_batch.len();
        let lhs_free = dot.lhs_free(batcher.builder.ty(lhs.value).shape.rank());
        let rhs_free = dot.rhs_free(batcher.builder.ty(rhs.value).shape.rank());
        let before = |free: &Dims, axis| free.iter().filter(|&&d| d < axis).count();
        let axis = match (lhs.axis, rhs.axis) {
            (Some(left), Some(right)) => {
                dot.lhs_batch.insert(0, left);
                dot.rhs_batch.insert(0, right);
                0
            }
            (Some(axis), None) => batch + before(&lhs_free, axis),
            (None, Some(axis)) => batch + lhs_free.len() + before(&rhs_free, axis),
            (None, None) => return batcher.unbatched(dot, args),
        };
        batcher.one(dot, &[lhs.value, rhs.value], axis)
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Contract(self.clone())
    }
}

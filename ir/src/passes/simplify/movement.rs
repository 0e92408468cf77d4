//! Movements of movements, movements that move nothing, and movements of one number repeated.

use super::{Rewrite, Simplifier};
use crate::literal::Literal;
use crate::ops::Op;
use crate::ops::shape::broadcast::Broadcast;
use crate::ops::shape::pad::Pad;
use crate::ops::shape::reshape::Reshape;
use crate::ops::shape::reverse::Reverse;
use crate::ops::shape::slice::Slice;
use crate::ops::shape::transpose::Transpose;
use crate::program::Value;
use crate::shape::{Dims, Shape};

impl Simplifier<'_> {
    /// The op that defines a value, and its first operand.
    fn source(&self, x: Value) -> Option<(Op, Value)> {
        let node = self.producer(x)?;
        Some((node.op.clone(), *node.operands.first()?))
    }

    /// move(c.., c) = c.. in the other shape
    fn moved_splat(&mut self, x: Value, shape: &Shape) -> Rewrite {
        match self.splat(x) {
            Some(bits) => {
                let ty = self.ty(x).with_shape(shape.clone());
                self.constant_value(Literal::splat_bits(ty, bits)).map(Some)
            }
            None => Ok(None),
        }
    }

    pub(super) fn reshaping(&mut self, shape: &Shape, x: Value) -> Rewrite {
        // reshape(x) = x where the shape is that of x
        if self.ty(x).shape == *shape {
            return Ok(Some(x));
        }
        match self.source(x) {
            // reshape(reshape(x)) = reshape(x)
            Some((Op::Reshape(_), x)) => self.rewritten(Reshape { shape: shape.clone() }, &[x]),
            // reshape(repeat(scalar)) = repeat(scalar)
            Some((Op::Broadcast(Broadcast { dims, .. }), x)) if dims.is_empty() => {
                self.rewritten(Broadcast { shape: shape.clone(), dims }, &[x])
            }
            _ => self.moved_splat(x, shape),
        }
    }

    pub(super) fn transposition(&mut self, permutation: &Dims, x: Value) -> Rewrite {
        // transpose(x) = x for the identity
        if permutation.iter().copied().eq(0..permutation.len()) {
            return Ok(Some(x));
        }
        let shape: Shape = permutation.iter().map(|&d| self.ty(x).shape[d]).collect();
        match self.source(x) {
            // transpose(transpose(x)) = transpose(x) by the composition
            Some((Op::Transpose(inner), x)) => {
                let permutation = permutation.iter().map(|&d| inner.permutation[d]).collect();
                self.rewritten(Transpose { permutation }, &[x])
            }
            // transpose(repeat(x)) = repeat(x) into the permuted dimensions
            Some((Op::Broadcast(inner), x)) => {
                let place = |d: &usize| permutation.iter().position(|p| p == d).unwrap_or(0);
                let dims = inner.dims.iter().map(place).collect();
                self.rewritten(Broadcast { shape, dims }, &[x])
            }
            _ => self.moved_splat(x, &shape),
        }
    }

    pub(super) fn repetition(&mut self, broadcast: &Broadcast, x: Value) -> Rewrite {
        let Broadcast { shape, dims } = broadcast;
        if self.ty(x).shape.rank() == shape.rank() {
            // repeat(x) = x where nothing is repeated or moved, and is a transposition where nothing is repeated
            if dims.iter().copied().eq(0..shape.rank()) {
                return Ok(Some(x));
            }
            let place = |d| dims.iter().position(|&p| p == d).unwrap_or(0);
            let permutation = (0..shape.rank()).map(place).collect();
            return self.rewritten(Transpose { permutation }, &[x]);
        }
        match self.source(x) {
            // repeat(repeat(x)) = repeat(x)
            Some((Op::Broadcast(inner), x)) => {
                let dims = inner.dims.iter().map(|&d| dims[d]).collect();
                self.rewritten(Broadcast { shape: shape.clone(), dims }, &[x])
            }
            // repeat(transpose(x)) = repeat(x) into the permuted dimensions
            Some((Op::Transpose(inner), x)) => {
                let mut composed = Dims::from_elem(0, dims.len());
                for (i, &d) in inner.permutation.iter().enumerate() {
                    composed[d] = dims[i];
                }
                self.rewritten(Broadcast { shape: shape.clone(), dims: composed }, &[x])
            }
            _ => self.moved_splat(x, shape),
        }
    }

    pub(super) fn slicing(&mut self, slice: &Slice, x: Value) -> Rewrite {
        let Some(shape) = self.infer(&slice.clone().into(), &[x]).map(|types| types[0].shape.clone()) else {
            return Ok(None);
        };
        // x[..] = x
        if self.ty(x).shape == shape {
            return Ok(Some(x));
        }
        match self.source(x) {
            // (x[a.., s])[b.., t] = x[a + b s.., s t]
            Some((Op::Slice(inner), x)) => {
                let rank = shape.rank();
                let start = |d: usize| inner.start[d] + slice.start[d] * inner.stride[d];
                let stride = |d: usize| inner.stride[d].saturating_mul(slice.stride[d]);
                // The last element taken is the end: the limits as written may lie beyond the operand.
                let limit = |d: usize| match shape[d] {
                    0 => start(d),
                    n => start(d) + (n - 1) * stride(d) + 1,
                };
                let combined = Slice {
                    start: (0..rank).map(start).collect(),
                    limit: (0..rank).map(limit).collect(),
                    stride: (0..rank).map(stride).collect(),
                };
                self.rewritten(combined, &[x])
            }
            _ => self.moved_splat(x, &shape),
        }
    }

    pub(super) fn padding(&mut self, pad: &Pad, x: Value, filling: Value) -> Rewrite {
        let Some(shape) = self.infer(&pad.clone().into(), &[x, filling]).map(|types| types[0].shape.clone())
        else {
            return Ok(None);
        };
        // pad(x) = x where nothing is added or cut
        let is_nothing = pad.low.iter().chain(&pad.high).all(|&n| n == 0)
            && (0..shape.rank()).all(|d| pad.interior[d] == 0 || self.ty(x).shape[d] < 2);
        if is_nothing {
            return Ok(Some(x));
        }
        // pad(c.., c) = c..
        if self.splat(x) == self.splat(filling) {
            return self.moved_splat(x, &shape);
        }
        // pad(x, c) = c.. where there is no x
        if self.ty(x).shape.elements() == 0 {
            return self.moved_splat(filling, &shape);
        }
        Ok(None)
    }

    pub(super) fn concatenation(&mut self, operands: &[Value]) -> Rewrite {
        // concat(x) = x
        if let [x] = operands {
            return Ok(Some(*x));
        }
        Ok(None)
    }

    pub(super) fn reversal(&mut self, dims: &Dims, x: Value) -> Rewrite {
        // reverse(x) = x along dimensions of at most one element
        let shape = self.ty(x).shape.clone();
        if dims.iter().all(|&d| shape[d] < 2) {
            return Ok(Some(x));
        }
        match self.source(x) {
            // reverse(reverse(x)) = reverse(x) along those dimensions that are in one of the two
            Some((Op::Reverse(inner), x)) => {
                let once =
                    |a: &Dims, b: &Dims| -> Dims { a.iter().copied().filter(|d| !b.contains(d)).collect() };
                let dims = once(&inner.dims, dims).into_iter().chain(once(dims, &inner.dims)).collect();
                self.rewritten(Reverse { dims }, &[x])
            }
            _ => self.moved_splat(x, &shape),
        }
    }
}

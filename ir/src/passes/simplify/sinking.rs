//! Elementwise ops move from repeated operands to what is repeated.

use super::{Rewrite, Simplifier};
use crate::literal::Literal;
use crate::ops::Op;
use crate::ops::shape::broadcast::Broadcast;
use crate::program::{Value, Values};
use crate::shape::Shape;

impl Simplifier<'_> {
    /// f(repeat(x), repeat(y), c) = repeat(f(x, y, c)) for an elementwise `f`, repetitions that are alike and
    /// constants that are one number: elements are computed once each and not once per copy.
    pub(super) fn sink(&mut self, op: &Op, operands: &[Value]) -> Rewrite {
        let Some((broadcast, shape)) = self.common_broadcast(operands) else { return Ok(None) };
        let mut small = Values::new();
        for &operand in operands {
            small.push(match self.splat(operand) {
                Some(bits) => {
                    let ty = self.ty(operand).with_shape(shape.clone());
                    self.constant_value(Literal::splat_bits(ty, bits))?
                }
                // All others are broadcasts, or there would be none in common.
                None => self.producer(operand).map_or(operand, |node| node.operands[0]),
            });
        }
        let result = self.one(op.clone(), &small)?;
        self.rewritten(broadcast, &[result])
    }

    /// The broadcast that every operand but the constants is the result of, and the shape it starts from. Broadcasts
    /// that only move dimensions repeat nothing, so there is nothing to gain.
    fn common_broadcast(&self, operands: &[Value]) -> Option<(Broadcast, Shape)> {
        let mut common: Option<&Broadcast> = None;
        for &operand in operands.iter().filter(|&&operand| self.splat(operand).is_none()) {
            let Op::Broadcast(broadcast) = &self.producer(operand)?.op else { return None };
            if common.is_some_and(|common| common != broadcast) {
                return None;
            }
            common = Some(broadcast);
        }
        let Broadcast { shape, dims } = common?;
        let from: Shape = dims.iter().map(|&d| shape[d]).collect();
        (from.elements() < shape.elements())
            .then(|| (Broadcast { shape: shape.clone(), dims: dims.clone() }, from))
    }
}

//! Kernels without reductions.

use super::body::Point;
use super::{KernelCode, Units};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};

/// Bodies of at most this weight are unrolled. Larger ones have more constants than there are registers, which several
/// copies in one step would spill.
const UNROLLED: u64 = 20;

/// Vectors per step of an unrolled loop.
const UNROLL: usize = 4;

impl KernelCode<'_, '_> {
    /// One dimension: units are its elements. Several: the indices of all but the innermost.
    pub(super) fn map(&mut self) -> Units {
        let (begin, end) = (self.begin, self.end);
        let extents = self.kernel.parallel.clone();
        let Some((&inner, outer)) = extents.split_last() else { return Units { count: 1, multiple: 1 } };
        if outer.is_empty() {
            self.inner(&[], begin, end, inner);
            return Units { count: inner, multiple: self.step(inner) };
        }
        self.steps(begin, end, 1, |code, position| {
            let indices = code.unflatten(position, outer);
            let (zero, extent) = (code.constant(0), code.constant(inner));
            code.inner(&indices, zero, extent, inner);
        });
        Units { count: outer.iter().product(), multiple: 1 }
    }

    /// Elements per step of the main loop over an extent.
    fn step(&self, extent: usize) -> usize {
        let unrolled = self.kernel.weight() <= UNROLLED && extent >= self.lanes * UNROLL;
        let step = if unrolled { self.lanes * UNROLL } else { self.lanes };
        if step <= extent { step } else { 1 }
    }

    /// The innermost loop, over a part of its extent that begins at a multiple of the step. What the steps leave is
    /// done by a last vector that overlaps the one before: its elements are computed twice, alike.
    fn inner(&mut self, outer: &[Value], begin: Value, end: Value, extent: usize) {
        let along = outer.len();
        let point = |index: Value, shift: usize| {
            let indices = outer.iter().copied().chain([index]).collect();
            Point { indices, along, shift: shift as i64 }
        };
        let step = self.step(extent);
        let lanes = if step == 1 { 1 } else { self.lanes };
        let mut at = self.steps(begin, end, step, |code, index| {
            for shift in (0..step).step_by(lanes) {
                code.once(&point(index, shift), lanes);
            }
        });
        if step > lanes && extent % step >= lanes {
            at = self.steps(at, end, lanes, |code, index| {
                code.once(&point(index, 0), lanes);
            });
        }
        if !extent.is_multiple_of(lanes) {
            let rest = self.emitter.builder.ins().icmp(IntCC::SignedLessThan, at, end);
            self.when(rest, |code| {
                let last = code.plus(end, -(lanes as i64));
                code.once(&point(last, 0), lanes);
            });
        }
    }
}

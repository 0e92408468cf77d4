//! Reduction in the documented order.

use crate::array::{ArrayError, Element};
use crate::eval::elementwise::by_kind;
use crate::eval::offsets::Strided;
use crate::kernels::reduce::{COLUMNS, Reduction, columns, contiguous};
use crate::threads;
use crate::view::{View, ViewMut};
use pullback_ir::literal::Scalar;
use pullback_ir::maths::{IntLanes, Lanes, Plain};
use pullback_ir::ops::reduce::reduce::{Reduce, Reducer};
use pullback_ir::{Dims, Shape};

pub(in crate::eval) fn evaluate(op: &Reduce, x: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), ArrayError> {
    let boxes = Boxes::new(x.shape(), &op.dims);
    let nothing = op.reducer.identity(x.dtype()).map_or(0, |literal| literal.bits_at(0));
    by_kind! { x.dtype(),
        float T => {
            let (x, out, nothing) = (x.as_slice::<T>()?, out.as_mut_slice::<T>()?, T::from_bits64(nothing));
            match op.reducer {
                Reducer::Sum => boxes.reduce(x, out, nothing, |a, b| a + b),
                Reducer::Prod => boxes.reduce(x, out, nothing, |a, b| a * b),
                Reducer::Max => boxes.reduce(x, out, nothing, |a, b| Lanes::<T>::max(&mut Plain, a, b)),
                Reducer::Min => boxes.reduce(x, out, nothing, |a, b| Lanes::<T>::min(&mut Plain, a, b)),
                // The type rule refuses these on floats.
                Reducer::And | Reducer::Or => out.fill(nothing),
            }
        },
        int T => {
            let (x, out, nothing) = (x.as_slice::<T>()?, out.as_mut_slice::<T>()?, T::from_bits64(nothing));
            match op.reducer {
                Reducer::Sum => boxes.reduce(x, out, nothing, |a, b| IntLanes::<T>::add(&mut Plain, a, b)),
                Reducer::Prod => boxes.reduce(x, out, nothing, |a, b| IntLanes::<T>::mul(&mut Plain, a, b)),
                Reducer::Max => boxes.reduce(x, out, nothing, |a, b| a.max(b)),
                Reducer::Min => boxes.reduce(x, out, nothing, |a, b| a.min(b)),
                Reducer::And => boxes.reduce(x, out, nothing, |a, b| a & b),
                Reducer::Or => boxes.reduce(x, out, nothing, |a, b| a | b),
            }
        },
        bool => {
            let (x, out) = (x.as_slice::<bool>()?, out.as_mut_slice::<bool>()?);
            let nothing = bool::from_bits64(nothing);
            match op.reducer {
                Reducer::And => boxes.reduce(x, out, nothing, |a, b| a & b),
                Reducer::Or => boxes.reduce(x, out, nothing, |a, b| a | b),
                // The type rule refuses these on bool.
                Reducer::Sum | Reducer::Prod | Reducer::Max | Reducer::Min => out.fill(nothing),
            }
        },
    }
    Ok(())
}

/// The dimensions that stay and those that are reduced.
struct Boxes {
    kept: Strided,
    reduced: Strided,
    /// Whether neighbours in the result come from neighbours in the operand, in runs of this many.
    run: usize,
}

impl Boxes {
    fn new(shape: &Shape, dims: &[usize]) -> Boxes {
        let (reduced, kept): (Dims, Dims) = (0..shape.rank()).partition(|d| dims.contains(d));
        let run = (0..shape.rank()).rev().take_while(|d| !dims.contains(d)).map(|d| shape[d]).product();
        Boxes { kept: Strided::dims_of(shape, &kept), reduced: Strided::dims_of(shape, &reduced), run }
    }

    fn reduce<T: Element>(
        &self,
        x: &[T],
        out: &mut [T],
        nothing: T,
        combine: impl Fn(T, T) -> T + Copy + Sync,
    ) {
        let n = self.reduced.len();
        let nanoseconds = (out.len() * n) as u64 / 2;
        let starts: Vec<usize> = self.kept.offsets().collect();
        // Pieces of whole runs, with enough work each.
        let piece = (4096 / n.max(1) + 1).next_multiple_of(COLUMNS);
        if self.run >= COLUMNS {
            let piece = self.run.min(piece);
            for (i, out) in out.chunks_mut(self.run).enumerate() {
                let starts = &starts[i * self.run..];
                threads::for_chunks_mut(out, piece, nanoseconds, |first, out| {
                    self.columns(x, &starts[first..], out, nothing, combine);
                });
            }
        } else if out.len() == 1 {
            out[0] = self.single(x, starts[0], nothing, combine, &mut Reduction::new());
        } else {
            threads::for_chunks_mut(out, piece, nanoseconds, |first, out| {
                let mut reduction = Reduction::new();
                for (out, &start) in out.iter_mut().zip(&starts[first..]) {
                    *out = self.single(x, start, nothing, combine, &mut reduction);
                }
            });
        }
    }

    /// The reduction of the box that starts at an element.
    fn single<T: Element>(
        &self,
        x: &[T],
        start: usize,
        nothing: T,
        combine: impl Fn(T, T) -> T + Copy + Sync,
        reduction: &mut Reduction<T>,
    ) -> T {
        let n = self.reduced.len();
        if self.reduced.single_stride() == Some(1) {
            return contiguous(&x[start.min(x.len())..][..n], nothing, combine);
        }
        let mut offsets = self.reduced.offsets();
        let mut fill = |_: usize, block: &mut [T]| {
            block.iter_mut().zip(&mut offsets).for_each(|(slot, offset)| *slot = x[start + offset]);
        };
        reduction.run(n, combine, &mut fill).unwrap_or(nothing)
    }

    /// Reduces neighbouring columns, several at a time where there are enough.
    fn columns<T: Element>(
        &self,
        x: &[T],
        starts: &[usize],
        out: &mut [T],
        nothing: T,
        combine: impl Fn(T, T) -> T + Copy + Sync,
    ) {
        let offsets: Vec<usize> = self.reduced.offsets().collect();
        let (groups, rest) = out.as_chunks_mut::<COLUMNS>();
        let done = groups.len() * COLUMNS;
        for (group, starts) in groups.iter_mut().zip(starts.chunks(COLUMNS)) {
            let row = |i: usize| starts[0] + offsets[i];
            *group = columns(x, offsets.len(), &row, combine).unwrap_or([nothing; COLUMNS]);
        }
        let mut reduction = Reduction::new();
        for (out, &start) in rest.iter_mut().zip(&starts[done..]) {
            *out = self.single(x, start, nothing, combine, &mut reduction);
        }
    }
}

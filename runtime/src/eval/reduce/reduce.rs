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
            let rows = offsets.iter().map(|offset| starts[0] + offset);
            *group = columns(x, rows, combine).unwrap_or([nothing; COLUMNS]);
        }
        let mut reduction = Reduction::new();
        for (out, &start) in rest.iter_mut().zip(&starts[done..]) {
            *out = self.single(x, start, nothing, combine, &mut reduction);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::eval::testing::{check, one, words};

    fn reduce(reducer: Reducer, dims: &[usize], x: impl Into<Array>) -> Array {
        one(Reduce { reducer, dims: Dims::from_slice(dims) }, &[x.into()])
    }

    #[test]
    fn small_sums_over_any_dimensions() {
        let x = [[1.0f64, 2.0, 3.0], [4.0, 5.0, 6.0]];
        check(reduce(Reducer::Sum, &[1], x), [6.0f64, 15.0]);
        check(reduce(Reducer::Sum, &[0], x), [5.0f64, 7.0, 9.0]);
        check(reduce(Reducer::Sum, &[1, 0], x), 21.0f64);
        check(reduce(Reducer::Sum, &[], x), x);
        check(reduce(Reducer::Prod, &[0], [[2, 3], [4, 5]]), [8, 15]);
        check(reduce(Reducer::Sum, &[0], [i32::MAX, 1]), i32::MIN);
    }

    #[test]
    fn extremes_and_logic() {
        check(reduce(Reducer::Max, &[0], [1.0f32, f32::NAN, 3.0]), f32::NAN);
        check(reduce(Reducer::Max, &[0], [-0.0f32, 0.0, -0.0]), 0.0f32);
        check(reduce(Reducer::Min, &[0], [0.0f32, -0.0]), -0.0f32);
        check(reduce(Reducer::Max, &[0], [-5i64, -7]), -5i64);
        check(reduce(Reducer::Min, &[0], [u64::MAX, 3]), 3u64);
        check(reduce(Reducer::And, &[1], [[true, true], [true, false]]), [true, false]);
        check(reduce(Reducer::Or, &[0], [[true, false], [false, false]]), [true, false]);
        check(reduce(Reducer::And, &[0], [0b110u32, 0b011]), 0b010u32);
        check(reduce(Reducer::Or, &[0], [0b100i64, 0b001]), 0b101i64);
    }

    #[test]
    fn nothing_gives_the_identity_and_one_element_itself() {
        check(reduce(Reducer::Sum, &[1], [[0.0f64; 0]; 2]), [0.0f64, 0.0]);
        check(reduce(Reducer::Prod, &[0], [[0.0f32; 2]; 0]), [1.0f32, 1.0]);
        check(reduce(Reducer::And, &[0], [true; 0]), true);
        check(reduce(Reducer::And, &[0], [0i32; 0]), -1);
        check(reduce(Reducer::Or, &[0], [0u64; 0]), 0u64);
        check(reduce(Reducer::Sum, &[1], [[1.0f64; 3]; 0]), [0.0f64; 0]);
        check(reduce(Reducer::Sum, &[0], [[-0.0f64, 1.0]]), [-0.0f64, 1.0]);
    }

    /// Whatever the dimensions, each result is the contiguous reduction of its elements in row-major order.
    #[test]
    fn order_does_not_depend_on_the_layout() {
        let shapes: [(&[usize], &[usize]); 10] = [
            (&[5000, 37], &[0]),
            (&[37, 5000], &[1]),
            (&[3, 4100, 20], &[1]),
            (&[70, 3, 80], &[2, 0]),
            (&[70, 16, 80], &[0]),
            (&[11, 3, 64], &[0]),
            (&[17, 40], &[0]),
            (&[9000], &[0]),
            (&[20, 9, 20], &[0, 1]),
            (&[90, 5, 3], &[0]),
        ];
        for (extents, dims) in shapes {
            let shape = Shape::new(extents);
            let x: Vec<f32> = words(shape.elements()).iter().map(|&w| (w as i32) as f32 * 1e-3).collect();
            let found = reduce(Reducer::Sum, dims, Array::from_slice(&x, extents).unwrap());
            let mut groups = vec![Vec::new(); found.elements()];
            for (position, &element) in x.iter().enumerate() {
                let index = crate::array::unravel(position, &shape);
                let kept = (0..extents.len()).filter(|d| !dims.contains(d));
                groups[kept.fold(0, |at, d| at * extents[d] + index[d])].push(element);
            }
            let expected: Vec<f32> = groups.iter().map(|g| contiguous(g, 0.0, |a, b| a + b)).collect();
            check(found.reshaped([expected.len()]).unwrap(), Array::vector(&expected));
        }
    }
}

//! Walking over strided boxes of elements.

use pullback_ir::Dims;
use smallvec::SmallVec;

/// Signed distances in elements, one per dimension.
pub(super) type Strides = SmallVec<[isize; 4]>;

/// A box of elements of a slice: the element at an index lies at `start + sum(index[d] * strides[d])`.
#[derive(Clone, Debug)]
pub(super) struct Strided {
    extents: Dims,
    strides: Strides,
    start: isize,
}

impl Strided {
    /// The box; dimensions that can be walked as one are merged, which does not change the order.
    pub(super) fn new(extents: &[usize], strides: &[isize], start: isize) -> Strided {
        let mut merged = Strided { extents: Dims::new(), strides: Strides::new(), start };
        for (&extent, &stride) in extents.iter().zip(strides).filter(|&(&extent, _)| extent != 1) {
            match (merged.extents.last_mut(), merged.strides.last_mut()) {
                (Some(outer), Some(outer_stride)) if *outer_stride == stride * extent as isize => {
                    *outer *= extent;
                    *outer_stride = stride;
                }
                _ => {
                    merged.extents.push(extent);
                    merged.strides.push(stride);
                }
            }
        }
        merged
    }

    /// The dimensions `dims` of a dense row-major tensor, as if alone.
    pub(super) fn dims_of(shape: &pullback_ir::Shape, dims: &[usize]) -> Strided {
        let all = shape.strides();
        let extents: Dims = dims.iter().map(|&d| shape[d]).collect();
        let strides: Strides = dims.iter().map(|&d| all[d] as isize).collect();
        Strided::new(&extents, &strides, 0)
    }

    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        self.extents.iter().product()
    }

    /// The stride, if the box is a single row; 1 for a single element.
    pub(super) fn single_stride(&self) -> Option<isize> {
        match self.strides[..] {
            [] => Some(1),
            [stride] => Some(stride),
            _ => None,
        }
    }

    /// Extent and stride of the last dimension; a single element is a row of one.
    fn last(&self) -> (usize, isize) {
        (self.extents.last().copied().unwrap_or(1), self.strides.last().copied().unwrap_or(1))
    }

    /// Where each element lies, in row-major order of the index.
    pub(super) fn offsets(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        let (extent, stride) = self.last();
        self.rows().flat_map(move |start| (0..extent as isize).map(move |i| (start + i * stride) as usize))
    }

    /// Where the first element of each row along the last dimension lies, in order.
    fn rows(&self) -> impl Iterator<Item = isize> + Clone + use<> {
        let outer = self.extents.len().saturating_sub(1);
        let extents = Dims::from_slice(&self.extents[..outer]);
        let strides = Strides::from_slice(&self.strides[..outer]);
        let mut index = Dims::from_elem(0, outer);
        let mut offset = self.start;
        let rows = if self.len() == 0 { 0 } else { extents.iter().product() };
        (0..rows).map(move |_| {
            let at = offset;
            for d in (0..extents.len()).rev() {
                index[d] += 1;
                offset += strides[d];
                if index[d] < extents[d] {
                    break;
                }
                offset -= strides[d] * extents[d] as isize;
                index[d] = 0;
            }
            at
        })
    }

    /// Copies the elements of the box, in row-major order of the index.
    pub(super) fn copy_to<W: Copy>(&self, source: &[W], out: &mut [W]) {
        let (extent, stride) = self.last();
        if out.is_empty() {
            return;
        }
        if self.extents.len() >= 2 && stride != 0 && stride != 1 {
            return self.copy_by_squares(source, out);
        }
        for (start, row) in self.rows().zip(out.chunks_exact_mut(extent)) {
            let first = start as usize;
            match stride {
                0 => row.fill(source[first]),
                1 => row.copy_from_slice(&source[first..first + extent]),
                _ => copy_row(source, start, stride, row),
            }
        }
    }

    /// As above for boxes whose rows are not contiguous, such as transposes: square by square of the last two
    /// dimensions, so that cache lines are used whole.
    fn copy_by_squares<W: Copy>(&self, source: &[W], out: &mut [W]) {
        const SIDE: usize = 32;
        let rank = self.extents.len();
        let (rows, columns) = (self.extents[rank - 2], self.extents[rank - 1]);
        let (down, across) = (self.strides[rank - 2], self.strides[rank - 1]);
        let outer = self.rows().step_by(rows);
        for (start, matrix) in outer.zip(out.chunks_exact_mut(rows * columns)) {
            for top in (0..rows).step_by(SIDE) {
                for left in (0..columns).step_by(SIDE) {
                    for row in top..rows.min(top + SIDE) {
                        let piece = &mut matrix[row * columns..][left..columns.min(left + SIDE)];
                        let first = start + row as isize * down + left as isize * across;
                        copy_row(source, first, across, piece);
                    }
                }
            }
        }
    }
}

fn copy_row<W: Copy>(source: &[W], start: isize, stride: isize, row: &mut [W]) {
    for (i, element) in row.iter_mut().enumerate() {
        *element = source[(start + i as isize * stride) as usize];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive(extents: &[usize], strides: &[isize], start: isize) -> Vec<usize> {
        let n: usize = extents.iter().product();
        (0..n)
            .map(|mut position| {
                let mut offset = start;
                for d in (0..extents.len()).rev() {
                    offset += (position % extents[d]) as isize * strides[d];
                    position /= extents[d];
                }
                offset as usize
            })
            .collect()
    }

    #[test]
    fn boxes_are_walked_in_row_major_order() {
        let cases: [(&[usize], &[isize], isize); 11] = [
            (&[], &[], 5),
            (&[4], &[2], 1),
            (&[2, 3], &[3, 1], 0),
            (&[3, 2], &[1, 3], 0),
            (&[2, 1, 3], &[-3, 7, -1], 5),
            (&[2, 3, 4], &[0, 4, 1], 0),
            (&[2, 3, 4], &[12, 0, 0], 2),
            (&[2, 0, 4], &[1, 1, 1], 0),
            (&[2, 2, 2, 2], &[1, 8, 2, 4], 0),
            (&[2, 70, 40], &[2800, 1, 70], 0),
            (&[70, 40], &[-1, -70], 2799),
        ];
        for (extents, strides, start) in cases {
            let strided = Strided::new(extents, strides, start);
            let expected = naive(extents, strides, start);
            assert_eq!(strided.len(), expected.len());
            assert_eq!(strided.offsets().collect::<Vec<_>>(), expected, "{extents:?} {strides:?}");
            let source: Vec<u32> = (100..6000).collect();
            let mut out = vec![0; expected.len()];
            strided.copy_to(&source, &mut out);
            assert_eq!(out, expected.iter().map(|&o| source[o]).collect::<Vec<_>>());
        }
    }

    #[test]
    fn contiguous_dimensions_merge() {
        assert_eq!(Strided::new(&[2, 3, 4], &[12, 4, 1], 0).single_stride(), Some(1));
        assert_eq!(Strided::new(&[2, 1, 4], &[4, 99, 1], 0).single_stride(), Some(1));
        assert_eq!(Strided::new(&[3, 4], &[1, 3], 0).single_stride(), None);
        assert_eq!(Strided::new(&[3, 4], &[8, 2], 0).single_stride(), Some(2));
    }
}

//! Matrix products through matrixmultiply, with arbitrary strides, batched, and parallel over blocks whose size
//! depends on shapes alone.
//!
//! matrixmultiply computes each element of a product by one chain of multiply-adds over `k` that does not depend on
//! where the element lies, so blocks give the bits of the whole (a test checks it).

use crate::threads;
use pullback_ir::DType;

/// Either side of the output must reach this, or half of each tile of the kernel is wasted.
const MIN_SIDE: usize = 8;

/// Products with fewer multiply-adds per matrix than this are quicker as plain loops.
const MIN_WORK: usize = 8 * 8 * 8;

/// Multiply-adds per nanosecond, roughly, for [`threads`].
const RATE: u64 = 32;

/// Multiply-adds that are worth a block of their own.
const BLOCK_WORK: usize = 1 << 19;

/// Blocks are multiples of this many rows or columns.
const BLOCK_UNIT: usize = 64;

/// Whether a contraction means the gemm kernel (in the order of its multiply-adds) or plain sums. A function of the
/// shapes, shared by interpreter and machine code: it decides bits, not only speed.
pub fn is_gemm(dtype: DType, batch: usize, m: usize, n: usize, k: usize) -> bool {
    dtype.is_float() && batch > 0 && m.min(n) >= MIN_SIDE && m.saturating_mul(n).saturating_mul(k) >= MIN_WORK
}

/// Where the element of a batch, row and column lies, counted in elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// From one matrix to the next.
    pub batch: isize,
    /// From one row to the next.
    pub row: isize,
    /// From one column to the next.
    pub column: isize,
}

impl Layout {
    /// Dense row-major matrices of this many rows and columns, one after the other.
    pub fn row_major(rows: usize, columns: usize) -> Layout {
        Layout { batch: (rows * columns) as isize, row: columns as isize, column: 1 }
    }

    /// The same elements with rows and columns exchanged.
    pub fn transposed(self) -> Layout {
        Layout { row: self.column, column: self.row, ..self }
    }

    fn offset(self, batch: usize, row: usize, column: usize) -> isize {
        batch as isize * self.batch + row as isize * self.row + column as isize * self.column
    }

    /// The least and greatest offset within these extents.
    fn reach(self, extents: [usize; 3]) -> (isize, isize) {
        let spans = [(extents[0], self.batch), (extents[1], self.row), (extents[2], self.column)];
        let ends = spans.map(|(extent, stride)| extent.saturating_sub(1) as isize * stride);
        (ends.iter().map(|&e| e.min(0)).sum(), ends.iter().map(|&e| e.max(0)).sum())
    }
}

/// Extents of a batched product `C[m,n] = A[m,k] * B[k,n]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extents {
    /// Number of products.
    pub batch: usize,
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A and rows of B.
    pub k: usize,
}

impl Extents {
    /// Estimated nanoseconds on one thread.
    pub fn nanoseconds(self) -> u64 {
        [self.batch, self.m, self.n, self.k]
            .iter()
            .fold(1, |work: u64, &extent| work.saturating_mul(extent as u64))
            / RATE
    }
}

/// f32 or f64.
pub trait GemmElement: Copy + Default + Send + Sync {
    /// `C[m,n] = A[m,k] * B[k,n]`; strides as (row, column).
    ///
    /// # Safety
    /// All elements the extents and strides reach are valid; those of C are distinct, and neither in A nor in B.
    #[doc(hidden)]
    unsafe fn product(
        m: usize,
        k: usize,
        n: usize,
        a: (*const Self, isize, isize),
        b: (*const Self, isize, isize),
        c: (*mut Self, isize, isize),
    );
}

macro_rules! gemm_element {
    ($t:ty, $gemm:path) => {
        impl GemmElement for $t {
            unsafe fn product(
                m: usize,
                k: usize,
                n: usize,
                a: (*const $t, isize, isize),
                b: (*const $t, isize, isize),
                c: (*mut $t, isize, isize),
            ) {
                // SAFETY: the caller's contract is matrixmultiply's.
                unsafe { $gemm(m, k, n, 1.0, a.0, a.1, a.2, b.0, b.1, b.2, 0.0, c.0, c.1, c.2) }
            }
        }
    };
}
gemm_element!(f32, matrixmultiply::sgemm);
gemm_element!(f64, matrixmultiply::dgemm);

/// A pointer that threads may share.
#[derive(Clone, Copy)]
struct Shared<P>(P);

// SAFETY: the threads of one product read A and B and write disjoint blocks of C.
unsafe impl<P> Send for Shared<P> {}
// SAFETY: as above.
unsafe impl<P> Sync for Shared<P> {}

impl<P: Copy> Shared<P> {
    /// A method, so that closures capture the whole wrapper.
    fn get(self) -> P {
        self.0
    }
}

/// `C = A * B` for each matrix of the batch, `C` dense row-major.
///
/// # Panics
/// If a layout reaches outside of its slice.
pub fn gemm<T: GemmElement>(extents: Extents, a: (&[T], Layout), b: (&[T], Layout), c: &mut [T]) {
    let Extents { batch, m, n, k } = extents;
    let c_layout = Layout::row_major(m, n);
    assert_eq!(c.len(), batch * m * n, "C is dense");
    if c.is_empty() || k == 0 {
        return c.fill(T::default());
    }
    for (layout, sides, len) in [(a.1, [batch, m, k], a.0.len()), (b.1, [batch, k, n], b.0.len())] {
        let (first, last) = layout.reach(sides);
        assert!(first >= 0 && last < len as isize, "a matrix reaches outside of its elements");
    }
    // SAFETY: the layouts stay inside the slices; C is dense, exclusive, and of the right size.
    unsafe { gemm_raw(extents, (a.0.as_ptr(), a.1), (b.0.as_ptr(), b.1), (c.as_mut_ptr(), c_layout)) }
}

/// `C = A * B` for each matrix of the batch, through pointers.
///
/// # Safety
/// All elements that extents and layouts reach are valid; those of C are distinct, and neither in A nor in B.
pub unsafe fn gemm_raw<T: GemmElement>(
    extents: Extents,
    a: (*const T, Layout),
    b: (*const T, Layout),
    c: (*mut T, Layout),
) {
    let Extents { batch, m, n, k } = extents;
    let nanoseconds = extents.nanoseconds();
    let blocks = if threads::is_shared(nanoseconds) { Blocks::new(m, n, k) } else { Blocks::whole(m, n) };
    let (a_start, b_start, c_start) = (Shared(a.0), Shared(b.0), Shared(c.0));
    threads::for_chunks(batch * blocks.count, blocks.per_chunk, nanoseconds, |range| {
        for i in range {
            let (entry, (row, rows), (column, columns)) =
                (i / blocks.count, blocks.rows(i), blocks.columns(i));
            // SAFETY: the block lies inside the matrices, and blocks of C are disjoint.
            unsafe {
                T::product(
                    rows,
                    k,
                    columns,
                    (a_start.get().wrapping_offset(a.1.offset(entry, row, 0)), a.1.row, a.1.column),
                    (b_start.get().wrapping_offset(b.1.offset(entry, 0, column)), b.1.row, b.1.column),
                    (c_start.get().wrapping_offset(c.1.offset(entry, row, column)), c.1.row, c.1.column),
                );
            }
        }
    });
}

/// How one product is cut: along its longer side, into blocks with enough work to be worth repacking the other operand.
struct Blocks {
    m: usize,
    n: usize,
    by_rows: bool,
    size: usize,
    count: usize,
    /// Small products are handed out several at a time.
    per_chunk: usize,
}

impl Blocks {
    /// All products, uncut.
    fn whole(m: usize, n: usize) -> Blocks {
        Blocks { m, n, by_rows: true, size: m.max(1), count: 1, per_chunk: usize::MAX }
    }

    fn new(m: usize, n: usize, k: usize) -> Blocks {
        let by_rows = m >= n;
        let (long, short) = if by_rows { (m, n) } else { (n, m) };
        let enough = BLOCK_WORK.div_ceil((short * k).max(1)).max(short / 2);
        let size = enough.next_multiple_of(BLOCK_UNIT);
        let block_work = size.min(long) * short * k.max(1);
        let per_chunk = (BLOCK_WORK / block_work.max(1)).max(1);
        Blocks { m, n, by_rows, size, count: long.div_ceil(size).max(1), per_chunk }
    }

    fn cut(&self, i: usize, extent: usize) -> (usize, usize) {
        let start = (i % self.count) * self.size;
        (start, self.size.min(extent - start))
    }

    /// First row and number of rows of a block.
    fn rows(&self, i: usize) -> (usize, usize) {
        if self.by_rows { self.cut(i, self.m) } else { (0, self.m) }
    }

    /// First column and number of columns of a block.
    fn columns(&self, i: usize) -> (usize, usize) {
        if self.by_rows { (0, self.n) } else { self.cut(i, self.n) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize, seed: u64) -> Vec<f64> {
        let mut state = seed;
        let next = |_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
        };
        (0..n).map(next).collect()
    }

    fn naive(e: Extents, a: (&[f64], Layout), b: (&[f64], Layout)) -> Vec<f64> {
        let mut c = Vec::new();
        for (s, i, j) in indices(e) {
            let term = |p| a.0[a.1.offset(s, i, p) as usize] * b.0[b.1.offset(s, p, j) as usize];
            c.push((0..e.k).map(term).sum());
        }
        c
    }

    fn indices(e: Extents) -> impl Iterator<Item = (usize, usize, usize)> {
        (0..e.batch).flat_map(move |s| (0..e.m).flat_map(move |i| (0..e.n).map(move |j| (s, i, j))))
    }

    const SHAPES: [(usize, usize, usize, usize); 8] = [
        (1, 8, 8, 8),
        (3, 9, 17, 5),
        (1, 300, 70, 65),
        (2, 33, 400, 100),
        (1, 1, 5, 3),
        (2, 4, 4, 0),
        (0, 4, 4, 4),
        (1, 0, 3, 2),
    ];

    #[test]
    fn products_agree_with_loops_for_all_layouts() {
        for (batch, m, n, k) in SHAPES {
            let e = Extents { batch, m, n, k };
            let (a, b) = (numbers(batch * m * k, 1), numbers(batch * k * n, 2));
            for a_layout in [Layout::row_major(m, k), Layout::row_major(k, m).transposed()] {
                for b_layout in [Layout::row_major(k, n), Layout::row_major(n, k).transposed()] {
                    let expected = naive(e, (&a, a_layout), (&b, b_layout));
                    let mut c = vec![f64::NAN; expected.len()];
                    gemm(e, (&a, a_layout), (&b, b_layout), &mut c);
                    let close = |(x, y): (&f64, &f64)| (x - y).abs() <= 1e-13 * (k as f64).max(1.0);
                    assert!(c.iter().zip(&expected).all(close), "{e:?}");
                }
            }
        }
    }

    fn blocks_equal_the_whole<T: GemmElement + PartialEq>(cast: impl Fn(f64) -> T) {
        let (m, n, k) = (301, 203, 777);
        let a: Vec<T> = numbers(m * k, 3).into_iter().map(&cast).collect();
        let b: Vec<T> = numbers(k * n, 4).into_iter().map(&cast).collect();
        let (la, lb) = (Layout::row_major(m, k), Layout::row_major(k, n));
        let mut whole = vec![T::default(); m * n];
        gemm(Extents { batch: 1, m, n, k }, (&a, la), (&b, lb), &mut whole);
        for (row, rows) in [(0, 1), (64, 64), (3, 17), (296, 5)] {
            for (column, columns) in [(0, 203), (5, 1), (128, 75), (201, 2)] {
                let mut block = vec![T::default(); rows * columns];
                let e = Extents { batch: 1, m: rows, n: columns, k };
                gemm(e, (&a[row * k..], la), (&b[column..], lb), &mut block);
                for i in 0..rows {
                    for j in 0..columns {
                        let same = block[i * columns + j] == whole[(row + i) * n + column + j];
                        assert!(same, "rows {row}+{rows}, columns {column}+{columns}, at {i},{j}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_block_computed_alone_equals_the_block_of_the_whole() {
        blocks_equal_the_whole::<f32>(|x| x as f32);
        blocks_equal_the_whole::<f64>(|x| x);
    }

    #[test]
    fn threads_do_not_change_bits() {
        for (batch, m, n, k) in [(1, 700, 130, 300), (1, 90, 1000, 200), (40, 60, 60, 60)] {
            let e = Extents { batch, m, n, k };
            let (a, b) = (numbers(batch * m * k, 5), numbers(batch * k * n, 6));
            let results: Vec<Vec<f64>> = [1, 2, 3]
                .map(|count| {
                    threads::set_threads(count);
                    let mut c = vec![0.0; batch * m * n];
                    gemm(e, (&a, Layout::row_major(m, k)), (&b, Layout::row_major(k, n)), &mut c);
                    c
                })
                .to_vec();
            assert!(results.iter().all(|c| c == &results[0]), "{e:?}");
        }
    }

    #[test]
    fn strides_may_be_zero_or_negative() {
        let a = [1.0, 2.0, 3.0];
        let repeated = Layout { batch: 0, row: 0, column: 1 };
        let b = numbers(3 * 8, 7);
        let e = Extents { batch: 1, m: 8, n: 8, k: 3 };
        let mut c = vec![0.0; 64];
        gemm(e, (&a, repeated), (&b, Layout::row_major(3, 8)), &mut c);
        assert!((1..8).all(|i| c[8 * i..8 * i + 8] == c[..8]));
    }

    #[test]
    #[should_panic(expected = "reaches outside")]
    fn layouts_are_checked() {
        let mut c = [0.0; 4];
        let e = Extents { batch: 1, m: 2, n: 2, k: 2 };
        gemm(e, (&[1.0; 3], Layout::row_major(2, 2)), (&[1.0; 4], Layout::row_major(2, 2)), &mut c);
    }

    #[test]
    fn integers_and_thin_products_are_not_gemm() {
        assert!(is_gemm(DType::F32, 1, 8, 8, 8));
        assert!(!is_gemm(DType::I32, 1, 100, 100, 100));
        assert!(!is_gemm(DType::F64, 1, 7, 1000, 1000));
        assert!(!is_gemm(DType::F64, 1, 8, 8, 0));
        assert!(!is_gemm(DType::F64, 0, 8, 8, 8));
        assert!(is_gemm(DType::F64, 1, usize::MAX, usize::MAX, 1));
    }
}

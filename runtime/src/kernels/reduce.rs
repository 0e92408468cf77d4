//! The order of reductions.
//!
//! Elements are combined in one documented order, whatever the machine, the fusion and the number of threads:
//! blocks of [`BLOCK`] elements; inside a block, element `i` goes to lane `i % LANES`, in order; a lane starts as its
//! first element, so that no identity takes part and lanes without elements are skipped; lanes combine by halves
//! (lane `l` with `l + 8`, then `l + 4`, `l + 2`, `l + 1`); blocks combine pairwise, level by level, and an odd
//! last one moves up. The reduction of one element is that element; of none, the identity.
//!
//! Sixteen lanes fill the vector units, and pairwise blocks keep f32 sums of 10^8 elements accurate.

use crate::threads;
use pullback_ir::ops::reduce::reduce::{BLOCK, LANES};

/// Estimated picoseconds per contiguous element, for [`threads`].
const ELEMENT_PICOSECONDS: u64 = 250;

/// Reduces one block: 1 to [`BLOCK`] elements.
#[inline(always)]
fn block<T: Copy>(elements: &[T], combine: impl Fn(T, T) -> T) -> T {
    let (first, rest) = elements.split_at(elements.len().min(LANES));
    let mut lanes = [first[0]; LANES];
    lanes[..first.len()].copy_from_slice(first);
    let mut rows = rest.chunks_exact(LANES);
    for row in &mut rows {
        for l in 0..LANES {
            lanes[l] = combine(lanes[l], row[l]);
        }
    }
    for (lane, &element) in lanes.iter_mut().zip(rows.remainder()) {
        *lane = combine(*lane, element);
    }
    let mut half = LANES / 2;
    while half > 0 {
        for l in 0..half.min(first.len().saturating_sub(half)) {
            lanes[l] = combine(lanes[l], lanes[l + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// Combines block results pairwise by levels, as they come: entry `i` of the stack stands for a number of blocks
/// that is a power of two, larger than that of entry `i + 1`.
struct Levels<T> {
    stack: Vec<T>,
    blocks: usize,
}

impl<T: Copy> Levels<T> {
    /// The next block. Each trailing one of the count is a complete pair to join.
    fn push(&mut self, mut value: T, combine: impl Fn(T, T) -> T) {
        for _ in 0..self.blocks.trailing_ones() {
            if let Some(left) = self.stack.pop() {
                value = combine(left, value);
            }
        }
        self.stack.push(value);
        self.blocks += 1;
    }

    /// What all blocks give, if there were any. Starts over.
    fn finish(&mut self, combine: impl Fn(T, T) -> T) -> Option<T> {
        self.blocks = 0;
        let mut value = self.stack.pop()?;
        while let Some(left) = self.stack.pop() {
            value = combine(left, value);
        }
        Some(value)
    }
}

/// Reductions of elements that are fetched or computed block by block. Holds the memory for a block, so that many
/// short reductions allocate once.
pub struct Reduction<T> {
    block: Vec<T>,
    levels: Levels<T>,
}

impl<T: Copy + Default> Default for Reduction<T> {
    fn default() -> Reduction<T> {
        Reduction::new()
    }
}

impl<T: Copy + Default> Reduction<T> {
    /// With no memory yet.
    pub fn new() -> Reduction<T> {
        Reduction { block: Vec::new(), levels: Levels { stack: Vec::new(), blocks: 0 } }
    }

    /// Reduces `n` elements; `None` if `n` is 0. `fill` gets the number of the first element wanted and where to
    /// put the elements; it is called in order.
    pub fn run(
        &mut self,
        n: usize,
        combine: impl Fn(T, T) -> T + Copy,
        fill: &mut dyn FnMut(usize, &mut [T]),
    ) -> Option<T> {
        if self.block.len() < n.min(BLOCK) {
            self.block.resize(n.min(BLOCK), T::default());
        }
        for first in (0..n).step_by(BLOCK) {
            let elements = &mut self.block[..BLOCK.min(n - first)];
            fill(first, elements);
            let value = block(elements, combine);
            if n <= BLOCK {
                return Some(value);
            }
            self.levels.push(value, combine);
        }
        self.levels.finish(combine)
    }
}

/// Reduces contiguous elements. Long ones use several threads.
pub fn contiguous<T: Copy + Send + Sync>(
    elements: &[T],
    identity: T,
    combine: impl Fn(T, T) -> T + Copy + Sync,
) -> T {
    if elements.len() <= BLOCK {
        return if elements.is_empty() { identity } else { block(elements, combine) };
    }
    let mut results = vec![identity; elements.len().div_ceil(BLOCK)];
    let work = elements.len() as u64 * ELEMENT_PICOSECONDS / 1000;
    threads::for_chunks_mut(&mut results, 64, work, |first, results| {
        for (result, elements) in results.iter_mut().zip(elements[first * BLOCK..].chunks(BLOCK)) {
            *result = block(elements, combine);
        }
    });
    let mut levels = Levels { stack: Vec::new(), blocks: 0 };
    results.into_iter().for_each(|value| levels.push(value, combine));
    levels.finish(combine).unwrap_or(identity)
}

/// Columns that [`columns`] reduces side by side.
pub const COLUMNS: usize = 32;

type Columns<T> = [T; COLUMNS];

/// Reduces [`COLUMNS`] neighbouring columns; the elements at number `i` start at `rows[i]`. Each column is reduced in
/// the order of [`contiguous`]. `None` if there are no rows.
pub fn columns<T: Copy>(
    elements: &[T],
    rows: impl ExactSizeIterator<Item = usize>,
    combine: impl Fn(T, T) -> T + Copy,
) -> Option<Columns<T>> {
    let all = |left: &mut Columns<T>, right: &Columns<T>| {
        for c in 0..COLUMNS {
            left[c] = combine(left[c], right[c]);
        }
    };
    let both = |mut left: Columns<T>, right: Columns<T>| {
        all(&mut left, &right);
        left
    };
    let mut levels = Levels { stack: Vec::new(), blocks: 0 };
    let mut rows = rows.map(|start| elements[start..].first_chunk::<COLUMNS>());
    while let Some(first) = rows.next() {
        let mut lanes = [*first?; LANES];
        let mut filled = 1;
        for (i, row) in rows.by_ref().take(BLOCK - 1).enumerate() {
            match lanes.get_mut(i + 1) {
                Some(lane) => (*lane, filled) = (*row?, i + 2),
                None => all(&mut lanes[(i + 1) % LANES], row?),
            }
        }
        for half in [8, 4, 2, 1] {
            let (left, right) = lanes.split_at_mut(half);
            let present = filled.saturating_sub(half);
            left.iter_mut().zip(right).take(present).for_each(|(left, right)| all(left, right));
        }
        levels.push(lanes[0], both);
    }
    levels.finish(both)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, word by word. Strings show the order exactly: "(a+b)".
    fn definition<T: Clone>(elements: &[T], combine: &dyn Fn(T, T) -> T) -> Option<T> {
        let mut level: Vec<T> = elements
            .chunks(BLOCK)
            .map(|block| {
                let mut lanes: Vec<Option<T>> = vec![None; LANES];
                for (i, element) in block.iter().enumerate() {
                    lanes[i % 16] = Some(match lanes[i % 16].take() {
                        None => element.clone(),
                        Some(lane) => combine(lane, element.clone()),
                    });
                }
                for half in [8, 4, 2, 1] {
                    for l in 0..half {
                        if let (Some(left), Some(right)) = (lanes[l].clone(), lanes[l + half].clone()) {
                            lanes[l] = Some(combine(left, right));
                        }
                    }
                }
                lanes[0].clone().unwrap()
            })
            .collect();
        while level.len() > 1 {
            level = level
                .chunks(2)
                .map(|pair| match pair {
                    [left, right] => combine(left.clone(), right.clone()),
                    _ => pair[0].clone(),
                })
                .collect();
        }
        level.pop()
    }

    fn filled<T: Copy + Default>(
        reduction: &mut Reduction<T>,
        elements: &[T],
        combine: impl Fn(T, T) -> T + Copy,
    ) -> Option<T> {
        reduction.run(elements.len(), combine, &mut |first, block| {
            block.copy_from_slice(&elements[first..first + block.len()]);
        })
    }

    fn random(n: usize) -> Vec<f32> {
        let mut state = 1u64;
        let next = |_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 40) as f32 / (1u64 << 24) as f32 - 0.5) * 2f32.powi((state >> 33 & 15) as i32)
        };
        (0..n).map(next).collect()
    }

    const LENGTHS: [usize; 17] =
        [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 1000, 4096, 4097, 12289, 5 * 4096, 7 * 4096 + 3];

    #[test]
    fn sums_follow_the_definition() {
        for n in LENGTHS {
            let elements = random(n);
            let expected = definition(&elements, &|a, b| a + b).unwrap().to_bits();
            assert_eq!(contiguous(&elements, 0.0, |a, b| a + b).to_bits(), expected, "{n}");
            let mut reduction = Reduction::new();
            for _ in 0..2 {
                assert_eq!(
                    filled(&mut reduction, &elements, |a, b| a + b).unwrap().to_bits(),
                    expected,
                    "{n}"
                );
            }
        }
    }

    /// A function that is neither associative nor commutative notices any other order.
    #[test]
    fn operands_keep_their_sides() {
        let f = |a: u64, b: u64| a.wrapping_mul(31).rotate_left(7) ^ b.wrapping_mul(1_000_003);
        for n in LENGTHS {
            let elements: Vec<u64> = (0..n as u64).map(|i| i * i + 1).collect();
            let expected = definition(&elements, &f).unwrap();
            assert_eq!(contiguous(&elements, 0, f), expected, "{n}");
            assert_eq!(filled(&mut Reduction::new(), &elements, f), Some(expected), "{n}");
        }
    }

    #[test]
    fn columns_keep_the_order_of_each() {
        for n in LENGTHS {
            let width = COLUMNS + 3;
            let elements = random(n * width);
            let found = columns(&elements, (0..n).map(|i| i * width + 2), |a, b| a + b).unwrap();
            for c in 0..COLUMNS {
                let column: Vec<f32> = (0..n).map(|i| elements[i * width + 2 + c]).collect();
                let expected = contiguous(&column, 0.0, |a, b| a + b);
                assert_eq!(found[c].to_bits(), expected.to_bits(), "{n}");
            }
        }
        assert_eq!(columns::<f32>(&[], 0..0, |a, b| a + b), None);
    }

    #[test]
    fn nothing_gives_the_identity_and_one_element_itself() {
        assert_eq!(contiguous(&[], 1.0f64, |a, b| a * b), 1.0);
        assert_eq!(filled(&mut Reduction::new(), &[], |a: f64, b| a + b), None);
        assert_eq!(contiguous(&[-0.0f64], 0.0, |a, b| a + b).to_bits(), (-0.0f64).to_bits());
    }

    #[test]
    fn threads_do_not_change_bits() {
        let elements = random(3_000_001);
        let sums: Vec<u32> = [1, 2, 5]
            .map(|threads| {
                threads::set_threads(threads);
                contiguous(&elements, 0.0, |a, b| a + b).to_bits()
            })
            .to_vec();
        assert!(sums.iter().all(|&s| s == sums[0]));
    }
}

//! Combining the results of the blocks of long reductions, pairwise by levels.

use crate::fuse::body::combine;
use pullback_ir::DType;
use pullback_ir::maths::Plain;
use pullback_ir::ops::elementwise::binary::Binary;
use pullback_ir::ops::reduce::reduce::Reducer;
use pullback_ir::recipe::ScalarOp;

/// Combines each run of `blocks` elements into one, in place; the results are the first elements of the runs.
fn levels<T: Copy>(elements: &mut [T], blocks: usize, f: impl Fn(T, T) -> T) {
    for run in elements.chunks_exact_mut(blocks) {
        let mut n = blocks;
        while n > 1 {
            for i in 0..n / 2 {
                run[i] = f(run[2 * i], run[2 * i + 1]);
            }
            if n % 2 == 1 {
                run[n / 2] = run[n - 1];
            }
            n = n.div_ceil(2);
        }
    }
}

/// Combines `count` runs of `blocks` elements at `from` (which is overwritten) into `count` elements at `to`.
///
/// # Safety
/// Both places hold so many initialised elements of the type, and nobody else uses them.
pub(crate) unsafe fn combine_blocks(
    reducer: Reducer,
    dtype: DType,
    count: usize,
    blocks: usize,
    from: *mut u8,
    to: *mut u8,
) {
    let ScalarOp::Binary(op) = combine(reducer) else { return };
    macro_rules! run {
        ($t:ty, $f:expr) => {{
            // SAFETY: the caller vouches for `count * blocks` elements at `from`.
            let elements = unsafe { std::slice::from_raw_parts_mut(from.cast::<$t>(), count * blocks) };
            levels(elements, blocks, $f);
            // SAFETY: the caller vouches for `count` elements at `to`, which lie elsewhere.
            let results = unsafe { std::slice::from_raw_parts_mut(to.cast::<$t>(), count) };
            results.iter_mut().zip(elements.chunks_exact(blocks)).for_each(|(r, run)| *r = run[0]);
        }};
    }
    match dtype {
        DType::Bool => run!(u8, |a, b| if op == Binary::And { a & b } else { a | b }),
        DType::I32 => run!(i32, |a, b| op.int::<i32, _>(&mut Plain, a, b)),
        DType::I64 => run!(i64, |a, b| op.int::<i64, _>(&mut Plain, a, b)),
        DType::U32 => run!(u32, |a, b| op.int::<u32, _>(&mut Plain, a, b)),
        DType::U64 => run!(u64, |a, b| op.int::<u64, _>(&mut Plain, a, b)),
        DType::F32 => run!(f32, |a, b| op.float::<f32, _>(&mut Plain, a, b)),
        DType::F64 => run!(f64, |a, b| op.float::<f64, _>(&mut Plain, a, b)),
    }
}

#[cfg(test)]
mod tests {
    use super::levels;
    use std::cell::RefCell;

    #[test]
    fn an_odd_last_block_moves_up() {
        // Elements are the numbers of texts, which a combination adds to.
        let texts = RefCell::new(["a", "b", "c", "d", "e"].map(String::from).to_vec());
        let combine = |left: usize, right: usize| {
            let mut texts = texts.borrow_mut();
            let text = format!("({}{})", texts[left], texts[right]);
            texts.push(text);
            texts.len() - 1
        };
        let mut run = [0, 1, 2, 3, 4];
        levels(&mut run, 5, combine);
        assert_eq!(texts.borrow()[run[0]], "(((ab)(cd))e)");
    }
}

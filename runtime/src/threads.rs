//! The worker pool of the process.
//!
//! Work is cut into chunks of a size that the caller fixes from shapes alone, never from the number of threads, so
//! results have the same bits on any number of them. Below a threshold nothing touches the pool.

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::ops::Range;
use std::sync::{Arc, RwLock};

/// Environment variable that says how many threads to use.
pub const THREADS_VARIABLE: &str = "PULLBACK_THREADS";

/// Work below this many nanoseconds (estimated, on one thread) runs where it is: waking workers costs about ten microseconds.
pub const INLINE_NANOSECONDS: u64 = 50_000;

/// `None` before first use, and then the number of threads with a pool if it is above one.
static POOL: RwLock<Option<Workers>> = RwLock::new(None);

#[derive(Clone)]
struct Workers {
    count: usize,
    pool: Option<Arc<ThreadPool>>,
}

impl Workers {
    fn new(count: usize) -> Workers {
        let count = count.max(1);
        let name = |i| format!("pullback-{i}");
        // Where threads cannot be had, work runs on the caller's.
        let pool = (count > 1)
            .then(|| ThreadPoolBuilder::new().num_threads(count).thread_name(name).build().ok().map(Arc::new))
            .flatten();
        Workers { count: if pool.is_some() { count } else { 1 }, pool }
    }
}

fn workers() -> Workers {
    if let Some(workers) = &*POOL.read().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        return workers.clone();
    }
    let mut slot = POOL.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    slot.get_or_insert_with(|| Workers::new(default_count())).clone()
}

fn default_count() -> usize {
    let asked = std::env::var(THREADS_VARIABLE).ok().and_then(|text| text.trim().parse::<usize>().ok());
    asked.filter(|&n| n > 0).unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()))
}

/// How many threads work.
pub fn threads() -> usize {
    workers().count
}

/// Sets how many threads work from now on (at least one). Work under way finishes on the threads it has.
pub fn set_threads(count: usize) {
    let workers = Workers::new(count);
    *POOL.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(workers);
}

/// Calls `f` on `0..n` cut into ranges of `chunk` (the last may be shorter), in parallel if the whole work is
/// worth it. `nanoseconds` estimates the whole work on one thread. A panic of `f` reaches the caller.
pub fn for_chunks(n: usize, chunk: usize, nanoseconds: u64, f: impl Fn(Range<usize>) + Sync) {
    let chunk = chunk.max(1);
    for_each(n.div_ceil(chunk), nanoseconds, &|i| f(i * chunk..((i + 1) * chunk).min(n)));
}

/// Calls `f` on pieces of `chunk` elements of `items`, each with the position of its first element. Otherwise as
/// [`for_chunks`].
pub fn for_chunks_mut<T: Send>(
    items: &mut [T],
    chunk: usize,
    nanoseconds: u64,
    f: impl Fn(usize, &mut [T]) + Sync,
) {
    let start = Start(items.as_mut_ptr());
    for_chunks(items.len(), chunk, nanoseconds, |range| {
        // SAFETY: the ranges lie inside of `items`, which is borrowed until all calls have returned, and are disjoint.
        let piece = unsafe { std::slice::from_raw_parts_mut(start.get().add(range.start), range.len()) };
        f(range.start, piece);
    });
}

/// The start of a slice whose disjoint pieces go to several threads.
struct Start<T>(*mut T);

// SAFETY: pieces are disjoint, and T may be sent.
unsafe impl<T: Send> Sync for Start<T> {}

impl<T> Start<T> {
    /// A method, so that closures capture the whole wrapper.
    fn get(&self) -> *mut T {
        self.0
    }
}

/// Calls `f` on each number below `n`. Not generic: rayon's part is large and would be compiled for every caller.
fn for_each(n: usize, nanoseconds: u64, f: &(dyn Fn(usize) + Sync)) {
    let pool = if n < 2 || nanoseconds < INLINE_NANOSECONDS { None } else { workers().pool };
    match pool {
        Some(pool) => pool.install(|| (0..n).into_par_iter().for_each(f)),
        None => (0..n).for_each(f),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn chunks_cover_the_range_once_whatever_the_threads() {
        for threads in [1, 2, 3] {
            set_threads(threads);
            for (n, chunk) in [(0, 4), (1, 4), (4, 4), (1001, 10), (7, 0)] {
                for work in [0, u64::MAX] {
                    let seen: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
                    for_chunks(n, chunk, work, |range| {
                        assert_eq!(range.start % chunk.max(1), 0);
                        assert!(range.len() <= chunk.max(1));
                        range.for_each(|i| {
                            seen[i].fetch_add(1, Relaxed);
                        });
                    });
                    assert!(seen.iter().all(|c| c.load(Relaxed) == 1));
                    let mut items = vec![0usize; n];
                    for_chunks_mut(&mut items, chunk, work, |first, piece| {
                        piece.iter_mut().enumerate().for_each(|(i, item)| *item += first + i);
                    });
                    assert!(items.iter().enumerate().all(|(i, &item)| i == item));
                }
            }
        }
    }

    #[test]
    fn panics_reach_the_caller_and_the_pool_survives() {
        set_threads(2);
        let result = std::panic::catch_unwind(|| {
            for_chunks(100, 1, u64::MAX, |range| assert!(range.start != 57, "chunk 57"));
        });
        assert!(result.is_err());
        let count = AtomicUsize::new(0);
        for_chunks(100, 1, u64::MAX, |_| {
            count.fetch_add(1, Relaxed);
        });
        assert_eq!(count.load(Relaxed), 100);
    }

    #[test]
    fn nested_use_does_not_hang() {
        set_threads(2);
        let count = AtomicUsize::new(0);
        for_chunks(8, 1, u64::MAX, |_| {
            for_chunks(8, 1, u64::MAX, |_| {
                count.fetch_add(1, Relaxed);
            });
        });
        assert_eq!(count.load(Relaxed), 64);
    }
}

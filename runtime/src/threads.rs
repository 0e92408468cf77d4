//! The worker pool of the process.
//!
//! Work is cut into chunks of a size that the caller fixes from shapes alone, never from the number of threads, so
//! results have the same bits on any number of them. Below a threshold nothing touches the pool.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, RwLock};

/// Environment variable that says how many threads to use.
pub const THREADS_VARIABLE: &str = "PULLBACK_THREADS";

/// Work below this many nanoseconds (estimated, on one thread) is not shared: waking a thread takes ten microseconds or
/// more, and what it takes over must be worth that.
pub const SHARED_NANOSECONDS: u64 = 100_000;

/// `None` before first use.
static WORKERS: RwLock<Option<Workers>> = RwLock::new(None);

/// The threads that help the caller; `None` if the caller's is the only one.
type Workers = Option<Arc<ThreadPool>>;

fn new_workers(count: usize) -> Workers {
    let name = |i| format!("pullback-{}", i + 1);
    // Where threads cannot be had, work runs on the caller's.
    let pool = |helpers| ThreadPoolBuilder::new().num_threads(helpers).thread_name(name).build().ok();
    if count > 1 { pool(count - 1).map(Arc::new) } else { None }
}

fn workers() -> Workers {
    if let Some(workers) = &*WORKERS.read().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        return workers.clone();
    }
    let mut slot = WORKERS.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    slot.get_or_insert_with(|| new_workers(default_count())).clone()
}

fn default_count() -> usize {
    let asked = std::env::var(THREADS_VARIABLE).ok().and_then(|text| text.trim().parse::<usize>().ok());
    asked.filter(|&n| n > 0).unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()))
}

/// How many threads work on what one thread asks for, that one included.
pub fn threads() -> usize {
    workers().map_or(1, |pool| 1 + pool.current_num_threads())
}

/// Sets how many threads work from now on (at least one). Work under way finishes on the threads it has.
pub fn set_threads(count: usize) {
    let workers = new_workers(count);
    *WORKERS.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(workers);
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

/// Calls `f` on each number below `n`. The caller takes numbers as the others do, so that it never waits for a thread to
/// wake but at the end.
fn for_each(n: usize, nanoseconds: u64, f: &(dyn Fn(usize) + Sync)) {
    let pool = if n < 2 { None } else { helpers_for(nanoseconds) };
    let Some(pool) = pool else { return (0..n).for_each(f) };
    let next = AtomicUsize::new(0);
    let work = || {
        let mut i = next.fetch_add(1, Relaxed);
        while i < n {
            f(i);
            i = next.fetch_add(1, Relaxed);
        }
    };
    pool.in_place_scope(|scope| {
        for _ in 0..pool.current_num_threads().min(n - 1) {
            scope.spawn(|_| work());
        }
        work();
    });
}

/// The threads to share so much work with, if it is worth it.
fn helpers_for(nanoseconds: u64) -> Workers {
    if nanoseconds < SHARED_NANOSECONDS { None } else { workers() }
}

/// Whether so much work would be shared. Where it would not, it need not be cut, if that does not change bits.
pub fn is_shared(nanoseconds: u64) -> bool {
    helpers_for(nanoseconds).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn threads_may_share_work_at_the_same_time() {
        set_threads(3);
        let count = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..500 {
                        for_chunks(n % 7, 1, u64::MAX, |range| {
                            count.fetch_add(range.len(), Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(count.load(Relaxed), 4 * (0..500).map(|n| n % 7).sum::<usize>());
    }

    #[test]
    fn several_threads_work_on_what_is_large() {
        set_threads(2);
        let seen = std::sync::Mutex::new(std::collections::BTreeSet::new());
        for_chunks(2, 1, u64::MAX, |_| {
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
            let both = || seen.lock().unwrap().len() == 2;
            seen.lock().unwrap().insert(format!("{:?}", std::thread::current().id()));
            while !both() && std::time::Instant::now() < deadline {
                std::thread::yield_now();
            }
        });
        assert_eq!(seen.lock().unwrap().len(), 2);
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

//! Memory for arrays: 64-byte aligned, recycled.
//!
//! Touching fresh pages costs several times what arithmetic on them does, so freed buffers are kept, by size
//! class, up to a limit. Small requests go to the system allocator, whose thread caches are as good.
//!
//! Invariant: every byte of a [`Buffer`] is initialised. Fresh memory comes zeroed (which costs nothing for
//! fresh pages) and recycled memory holds whatever was written last. So handing out a buffer never needs a fill.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Alignment of every buffer: a cache line, and the widest vector register.
pub const ALIGNMENT: usize = 64;

/// Requests of at most this many bytes are left to the system allocator.
const SMALL: usize = 4096;

/// Default limit of the bytes kept for reuse.
const DEFAULT_LIMIT: usize = 1 << 30;

/// Four classes per power of two: at most a quarter is wasted.
const CLASSES: usize = 4 * usize::BITS as usize;

static SHELVES: [Mutex<Vec<Block>>; CLASSES] = [const { Mutex::new(Vec::new()) }; CLASSES];
static LIMIT: AtomicUsize = AtomicUsize::new(DEFAULT_LIMIT);
static RETAINED: AtomicUsize = AtomicUsize::new(0);
static REUSED: AtomicU64 = AtomicU64::new(0);
static FRESH: AtomicU64 = AtomicU64::new(0);

/// What the pool did so far. Small requests, which it does not serve, are not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Bytes kept for reuse at the moment.
    pub retained_bytes: usize,
    /// Requests served from kept memory.
    pub reused: u64,
    /// Requests served by the system.
    pub fresh: u64,
}

/// The statistics of this process.
pub fn statistics() -> Statistics {
    Statistics {
        retained_bytes: RETAINED.load(Relaxed),
        reused: REUSED.load(Relaxed),
        fresh: FRESH.load(Relaxed),
    }
}

/// Gives all kept memory back to the system.
pub fn trim() {
    for shelf in &SHELVES {
        let blocks = std::mem::take(&mut *lock(shelf));
        for block in blocks {
            RETAINED.fetch_sub(block.capacity, Relaxed);
            block.release();
        }
    }
}

/// Sets how many bytes are kept for reuse at most; kept memory beyond it is given back.
pub fn set_limit(bytes: usize) {
    LIMIT.store(bytes, Relaxed);
    if RETAINED.load(Relaxed) > bytes {
        trim();
    }
}

/// No code panics while it holds a shelf, so a poisoned lock still guards a sound list.
fn lock(shelf: &Mutex<Vec<Block>>) -> std::sync::MutexGuard<'_, Vec<Block>> {
    shelf.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Class of a request above [`SMALL`], and the bytes that a block of the class holds.
fn class(bytes: usize) -> (usize, usize) {
    let power = (bytes - 1).ilog2();
    let quarter = 1usize << (power - 2);
    let quarters = bytes.div_ceil(quarter);
    (4 * power as usize + quarters - 5, quarters * quarter)
}

/// A piece of memory from the system.
struct Block {
    /// What the system gave; [`Block::start`] is the first aligned address in it.
    base: NonNull<u8>,
    capacity: usize,
}

// SAFETY: a block owns its memory, and nothing else refers to it.
unsafe impl Send for Block {}

impl Block {
    /// The system zeroes fresh pages for free only when asked for the alignment it has anyway, so alignment is made by hand.
    fn layout(capacity: usize) -> Layout {
        let padded = capacity.checked_add(ALIGNMENT).expect("tensor sizes are limited to 2^51 bytes");
        Layout::from_size_align(padded, 16).expect("tensor sizes are limited to 2^51 bytes")
    }

    fn fresh(capacity: usize) -> Block {
        let layout = Block::layout(capacity);
        // SAFETY: the layout's size is at least ALIGNMENT, hence not zero.
        let base = unsafe { if capacity <= SMALL { alloc(layout) } else { alloc_zeroed(layout) } };
        let base = NonNull::new(base).unwrap_or_else(|| handle_alloc_error(layout));
        if capacity <= SMALL {
            // The system's thread caches serve only requests that need no zeroing.
            // SAFETY: the allocation has the size of the layout.
            unsafe { base.write_bytes(0, layout.size()) };
        }
        Block { base, capacity }
    }

    fn start(&self) -> NonNull<u8> {
        let offset = self.base.align_offset(ALIGNMENT);
        // SAFETY: the allocation has `capacity + ALIGNMENT` bytes, and the offset is below ALIGNMENT.
        unsafe { self.base.add(offset) }
    }

    fn release(self) {
        // SAFETY: `base` came from `alloc_zeroed` with this layout; the block is consumed.
        unsafe { dealloc(self.base.as_ptr(), Block::layout(self.capacity)) }
    }
}

/// Owned, 64-byte aligned, initialised memory. Dropping it gives it back to the pool.
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
    /// `None` for a buffer without bytes.
    block: Option<Block>,
}

// SAFETY: a buffer owns its memory; shared references only read it.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer of this many bytes, whose contents are unspecified.
    pub fn new(len: usize) -> Buffer {
        if len == 0 {
            return Buffer { start: NonNull::<Aligned>::dangling().cast(), len, block: None };
        }
        let block = if len <= SMALL { Block::fresh(len) } else { pooled(len) };
        Buffer { start: block.start(), len, block: Some(block) }
    }

    /// A buffer of this many zero bytes.
    pub fn zeroed(len: usize) -> Buffer {
        let mut buffer = Buffer::new(len);
        if len > SMALL {
            buffer.bytes_mut().fill(0);
        }
        buffer
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is valid for `len` initialised bytes owned by `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

/// Gives dangling pointers the alignment of buffers.
#[repr(align(64))]
struct Aligned;

fn pooled(len: usize) -> Block {
    let (class, capacity) = class(len);
    let kept = lock(&SHELVES[class]).pop();
    match kept {
        Some(block) => {
            RETAINED.fetch_sub(capacity, Relaxed);
            REUSED.fetch_add(1, Relaxed);
            block
        }
        None => {
            FRESH.fetch_add(1, Relaxed);
            Block::fresh(capacity)
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(block) = self.block.take() else { return };
        if self.len <= SMALL {
            return block.release();
        }
        let capacity = block.capacity;
        let retained = RETAINED.fetch_add(capacity, Relaxed) + capacity;
        if retained > LIMIT.load(Relaxed) {
            RETAINED.fetch_sub(capacity, Relaxed);
            return block.release();
        }
        lock(&SHELVES[class(self.len).0]).push(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_their_requests_and_are_ordered() {
        let mut last = class(SMALL + 1);
        for bytes in (SMALL + 1..200_000).chain([1 << 30, (1 << 30) + 1, 3 << 40]) {
            let (class, capacity) = class(bytes);
            assert!(capacity >= bytes && capacity - bytes <= bytes / 4 + 1, "{bytes} in {capacity}");
            assert!(class >= last.0 && capacity >= last.1, "{bytes}");
            assert_eq!(class == last.0, capacity == last.1, "{bytes}");
            last = (class, capacity);
        }
    }

    #[test]
    fn buffers_are_aligned_and_zeroed_where_asked() {
        for len in [0, 1, 63, 64, 65, 4096, 4097, 1 << 20] {
            let mut dirty = Buffer::new(len);
            dirty.bytes_mut().fill(0xAA);
            assert_eq!(dirty.bytes().as_ptr() as usize % ALIGNMENT, 0);
            assert_eq!(dirty.bytes().len(), len);
            drop(dirty);
            assert!(Buffer::zeroed(len).bytes().iter().all(|&b| b == 0));
        }
    }

    /// One test, because the limit and the statistics belong to the process. Its size class is used by no other.
    #[test]
    fn memory_is_reused_bounded_and_trimmed() {
        let len = 77 << 20;
        let class = class(len).0;
        let first = Buffer::new(len);
        let address = first.bytes().as_ptr() as usize;
        drop(first);
        assert_eq!(lock(&SHELVES[class]).len(), 1);
        let before = statistics().reused;
        let again = Buffer::new(len - 5);
        assert_eq!(again.bytes().as_ptr() as usize, address);
        assert!(statistics().reused > before);
        drop(again);
        trim();
        assert!(lock(&SHELVES[class]).is_empty());
        set_limit(1 << 20);
        drop(Buffer::new(len));
        assert!(lock(&SHELVES[class]).is_empty());
        set_limit(DEFAULT_LIMIT);
    }

    #[test]
    fn threads_share_the_pool() {
        std::thread::scope(|scope| {
            for t in 0..4u8 {
                scope.spawn(move || {
                    for i in 0..200 {
                        let mut buffer = Buffer::new(5000 + 100 * i);
                        buffer.bytes_mut().fill(t);
                        std::thread::yield_now();
                        assert!(buffer.bytes().iter().all(|&b| b == t));
                    }
                });
            }
        });
    }
}

//! Memory that calls of an executable use and leave to the next call.

use crate::control::Stack;
use pullback_runtime::pool::Buffer;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Memory of one call: the table of addresses that code works through, and the buffers planned in one piece.
pub(crate) struct Scratch {
    pub(crate) table: Vec<*mut u8>,
    /// Owns what entries of the table point into.
    #[allow(dead_code)]
    pub(crate) memory: Buffer,
    /// Stacks that are neither arguments nor outputs; entries of the table are their addresses.
    #[allow(dead_code)]
    pub(crate) stacks: Box<[Stack]>,
}

// SAFETY: the addresses are those of `memory`, of `stacks`, of constants that are never written, and of arguments, which are
// replaced before every call; a scratch is used by one call at a time.
unsafe impl Send for Scratch {}

/// Scratches that no call uses. One is at hand without a lock; more are kept for concurrent calls.
#[derive(Default)]
pub(crate) struct Shelf {
    first: AtomicPtr<Scratch>,
    /// Boxed, because they come from and go to `first`, which holds an address.
    #[allow(clippy::vec_box)]
    others: Mutex<Vec<Box<Scratch>>>,
}

impl Shelf {
    pub(crate) fn take(&self) -> Option<Box<Scratch>> {
        let first = self.first.swap(std::ptr::null_mut(), Ordering::Acquire);
        if !first.is_null() {
            // SAFETY: the pointer came from `Box::into_raw` in `give`, and the swap made it ours alone.
            return Some(unsafe { Box::from_raw(first) });
        }
        self.others.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop()
    }

    pub(crate) fn give(&self, scratch: Box<Scratch>) {
        let new = Box::into_raw(scratch);
        let placed =
            self.first.compare_exchange(std::ptr::null_mut(), new, Ordering::Release, Ordering::Relaxed);
        if placed.is_err() {
            // SAFETY: `new` came from `Box::into_raw` above and was not published.
            let scratch = unsafe { Box::from_raw(new) };
            self.others.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(scratch);
        }
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        while self.take().is_some() {}
    }
}

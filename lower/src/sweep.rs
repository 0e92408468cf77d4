//! Steps that run together, some rows at a time, so that what one leaves is still in cache when the next reads it.
//!
//! A sweep is a run of kernels with the same outermost extent, in which every row of a buffer is read only by the work
//! on the same row. Softmax or layer norm become one pass over memory.

use crate::kernel::{Affine, BufferId, Kernel};
use crate::schedule::{Schedule, Step};
use indexmap::IndexMap;
use std::ops::Range;

/// Sweeps that touch fewer bytes than this stay in cache anyway.
const WORTHWHILE: usize = 256 << 10;

/// Bytes that are touched by the rows done at a time.
const CACHED: usize = 64 << 10;

/// A run of steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sweep {
    /// Which steps.
    pub(crate) steps: Range<usize>,
    /// The common outermost extent; 0 where a step runs alone.
    pub(crate) rows: usize,
    /// Rows done at a time.
    pub(crate) chunk: usize,
}

/// The steps of a schedule in runs, each as long as can be.
pub(crate) fn sweeps(schedule: &Schedule) -> Vec<Sweep> {
    let mut sweeps = Vec::new();
    let mut at = 0;
    while at < schedule.steps.len() {
        let sweep = longest(schedule, at);
        at = sweep.steps.end;
        sweeps.push(sweep);
    }
    sweeps
}

fn longest(schedule: &Schedule, first: usize) -> Sweep {
    let alone = Sweep { steps: first..first + 1, rows: 0, chunk: 0 };
    let mut best = alone.clone();
    for rows in candidates(&schedule.steps[first..]) {
        let mut written: IndexMap<BufferId, Reach> = IndexMap::new();
        let mut bytes = 0;
        let mut end = first;
        while let Some(Step::Kernel(kernel)) = schedule.steps.get(end) {
            let Some(touched) = fits(schedule, kernel, rows, &mut written) else { break };
            bytes += touched;
            end += 1;
        }
        if end > best.steps.end && bytes * rows >= WORTHWHILE {
            best = Sweep { steps: first..end, rows, chunk: (CACHED / bytes.max(1)).clamp(1, rows) };
        }
    }
    best
}

/// Extents that the first of these steps may share with the next.
fn candidates(steps: &[Step]) -> Vec<usize> {
    let kernels = steps.iter().take(2).map(|step| match step {
        Step::Kernel(kernel) if kernel.rank() > 0 => Some(kernel),
        Step::Kernel(_)
        | Step::Combine(_)
        | Step::Gemm(_)
        | Step::Evaluate(_)
        | Step::Update(_)
        | Step::Loop(_)
        | Step::Branch(_)
        | Step::Copy { .. } => None,
    });
    let Some(kernels) = kernels.collect::<Option<Vec<&Kernel>>>().filter(|kernels| kernels.len() == 2) else {
        return Vec::new();
    };
    let mut rows: Vec<usize> =
        kernels.iter().filter_map(|kernel| kernel.parallel.first().copied()).filter(|&n| n > 1).collect();
    rows.dedup();
    rows
}

/// Where in a buffer the work on row `r` goes: `stride * r + least ..= stride * r + greatest`.
#[derive(Clone, Copy, PartialEq)]
struct Reach {
    stride: i64,
    least: i64,
    greatest: i64,
}

impl Reach {
    /// Whether rows keep to disjoint places.
    fn is_apart(&self) -> bool {
        self.least >= 0 && self.greatest < self.stride
    }
}

/// Bytes that a row of the kernel touches, if it can go along; notes what it writes.
fn fits(
    schedule: &Schedule,
    kernel: &Kernel,
    rows: usize,
    written: &mut IndexMap<BufferId, Reach>,
) -> Option<usize> {
    if !kernel.goes_by(rows) {
        return None;
    }
    let reach = |affine: &Affine| reach(kernel, affine, rows);
    let mut bytes = 0;
    for access in kernel.loads() {
        let here = reach(&access.index)?;
        bytes += schedule.buffer(access.buffer).ty.dtype.size() * (here.greatest - here.least + 1) as usize;
        if let Some(there) = written.get(&access.buffer) {
            let same_rows = there.stride == here.stride && here.is_apart() && access.divided.is_empty();
            if !same_rows {
                return None;
            }
        }
    }
    let stores = kernel.stores.iter().map(|store| (store.buffer, &store.index));
    for (buffer, index) in stores.chain(kernel.reductions.iter().map(|r| (r.buffer, &r.index))) {
        let here = reach(index)?;
        bytes += schedule.buffer(buffer).ty.dtype.size() * (here.greatest - here.least + 1) as usize;
        // A buffer that several kernels write, or rows of which overlap, is left to later steps.
        if !here.is_apart() || written.insert(buffer, here).is_some() {
            return None;
        }
    }
    Some(bytes)
}

/// What an index reaches in a row of a kernel whose first dimension is, or is cut into, so many rows.
fn reach(kernel: &Kernel, affine: &Affine, rows: usize) -> Option<Reach> {
    let mut extents = kernel.extents();
    let inner = extents.first()? / rows;
    let stride = affine.strides.first()? * inner as i64;
    extents[0] = inner;
    let (least, greatest) = affine.range(&extents);
    Some(Reach { stride, least, greatest })
}

impl Kernel {
    /// Whether equal shares of its units of work (see [`crate::code`]) are its rows.
    fn goes_by(&self, rows: usize) -> bool {
        let Some(&first) = self.parallel.first() else { return false };
        if self.reductions.is_empty() {
            return first == rows || (self.parallel.len() == 1 && first % rows == 0);
        }
        first == rows && self.blocks() == 1 && (self.parallel.len() > 1 || !self.is_by_columns())
    }
}

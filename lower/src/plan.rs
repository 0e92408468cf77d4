//! The memory plan: where in one piece of scratch memory each buffer lies, given when it lives.

use crate::kernel::BufferId;
use crate::schedule::{Buffer, Place, Schedule};
use crate::sweep::Sweep;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// Buffers begin at multiples of this many bytes.
const ALIGNMENT: usize = 64;

/// Where scratch buffers lie and when they live.
#[derive(Clone, Debug, Default)]
pub struct MemoryPlan {
    /// Bytes of scratch memory of a call.
    pub bytes: usize,
    /// Most bytes that live at one time.
    pub peak: usize,
    /// Every scratch buffer, in order of its first step.
    pub lives: Vec<Life>,
}

/// The life of one scratch buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Life {
    /// The buffer.
    pub buffer: BufferId,
    /// Its bytes in scratch memory.
    pub bytes: Range<usize>,
    /// The steps from the one that writes it first to the one that uses it last.
    pub steps: Range<usize>,
}

/// Plans the scratch memory of a schedule. What lives in a step of a sweep lives in the whole sweep, whose steps run
/// interleaved.
pub(crate) fn plan(schedule: &Schedule, sweeps: &[Sweep]) -> MemoryPlan {
    let mut spans: Vec<Option<Range<usize>>> = vec![None; schedule.buffers.len()];
    let together = sweeps.iter().flat_map(|sweep| sweep.steps.clone().map(|_| sweep.steps.clone()));
    for (step, together) in schedule.steps.iter().zip(together) {
        let mut used = Vec::new();
        step.visit(|buffer| used.push(buffer), |_| {});
        step.visit(|_| {}, |buffer| used.push(buffer));
        for BufferId(buffer) in used {
            let span = spans[buffer as usize].get_or_insert(together.clone());
            span.end = together.end;
        }
    }
    let mut ends: Vec<Vec<Range<usize>>> = vec![Vec::new(); schedule.steps.len() + 1];
    let mut starts: Vec<Vec<u32>> = vec![Vec::new(); schedule.steps.len() + 1];
    for (buffer, span) in spans.iter().enumerate() {
        let Buffer { ty, place } = &schedule.buffers[buffer];
        // Stacks have memory of their own, which grows as they do.
        if let (Some(span), Place::Scratch, false) = (span, place, ty.is_stack()) {
            starts[span.start].push(buffer as u32);
        }
    }
    let mut plan = MemoryPlan::default();
    let mut free = Free::default();
    let mut live = 0;
    for step in 0..schedule.steps.len() {
        for &buffer in &starts[step] {
            let size = schedule.buffers[buffer as usize].ty.bytes().next_multiple_of(ALIGNMENT);
            let Some(steps) = spans[buffer as usize].clone() else { continue };
            let start = free.take(size, &mut plan.bytes);
            live += size;
            plan.peak = plan.peak.max(live);
            ends[steps.end].push(start..start + size);
            plan.lives.push(Life { buffer: BufferId(buffer), bytes: start..start + size, steps });
        }
        for range in std::mem::take(&mut ends[step + 1]) {
            live -= range.len();
            free.give(range);
        }
    }
    plan
}

/// Free pieces of the memory planned so far, by their start.
#[derive(Default)]
struct Free(BTreeMap<usize, usize>);

impl Free {
    /// The first piece that is large enough, or new memory at the end.
    fn take(&mut self, size: usize, total: &mut usize) -> usize {
        if size == 0 {
            return 0;
        }
        let found = self.0.iter().find(|(_, len)| **len >= size).map(|(&start, &len)| (start, len));
        if let Some((start, len)) = found {
            self.0.remove(&start);
            if len > size {
                self.0.insert(start + size, len - size);
            }
            return start;
        }
        let last = self.0.last_key_value().map(|(&start, &len)| (start, len));
        let start = match last {
            Some((start, len)) if start + len == *total => {
                self.0.remove(&start);
                start
            }
            _ => *total,
        };
        *total = start + size;
        start
    }

    /// Joins a piece with its free neighbours.
    fn give(&mut self, range: Range<usize>) {
        let (mut start, mut len) = (range.start, range.len());
        if len == 0 {
            return;
        }
        if let Some(next) = self.0.remove(&range.end) {
            len += next;
        }
        if let Some((&before, &size)) = self.0.range(..start).next_back()
            && before + size == start
        {
            self.0.remove(&before);
            start = before;
            len += size;
        }
        self.0.insert(start, len);
    }
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "scratch {} bytes, peak {}", self.bytes, self.peak)?;
        for Life { buffer, bytes, steps } in &self.lives {
            writeln!(
                formatter,
                "{buffer}: bytes {}..{}, steps {}..{}",
                bytes.start, bytes.end, steps.start, steps.end
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_pieces_are_joined_and_reused() {
        let (mut free, mut total) = (Free::default(), 0);
        let pieces = [64, 128, 64].map(|size| free.take(size, &mut total));
        assert_eq!((pieces, total), ([0, 64, 192], 256));
        free.give(0..64);
        free.give(64..192);
        assert_eq!(free.take(192, &mut total), 0);
        assert_eq!(free.take(64, &mut total), 256);
        free.give(256..320);
        assert_eq!(free.take(128, &mut total), 256);
        assert_eq!(total, 384);
    }
}

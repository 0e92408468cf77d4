//! Copies that need not be: what is copied and not used again is written where the copy would lie.

use crate::kernel::BufferId;
use crate::schedule::{Place, Schedule, Step};

/// The steps that use a buffer first and last.
#[derive(Clone, Copy)]
struct Uses {
    first: usize,
    last: usize,
}

fn uses(schedule: &Schedule) -> Vec<Option<Uses>> {
    let mut uses: Vec<Option<Uses>> = vec![None; schedule.buffers.len()];
    for (i, step) in schedule.steps.iter().enumerate() {
        let mut used =
            |buffer: BufferId| uses[buffer.0 as usize].get_or_insert(Uses { first: i, last: i }).last = i;
        step.visit(&mut used, |_| {});
        step.visit(|_| {}, &mut used);
    }
    uses
}

/// The schedule with each buffer that is last used by its copy to another, which is first used by that copy, in the
/// place of the other.
pub(super) fn without_copies(mut schedule: Schedule) -> Schedule {
    if !schedule.steps.iter().any(|step| matches!(step, Step::Copy { .. })) {
        return schedule;
    }
    let uses = uses(&schedule);
    let mut moved: Vec<Option<BufferId>> = vec![None; schedule.buffers.len()];
    for (i, step) in schedule.steps.iter().enumerate() {
        let Step::Copy { from, to } = *step else { continue };
        let (source, target) = (schedule.buffer(from), schedule.buffer(to));
        let is_last = |buffer: BufferId| uses[buffer.0 as usize].is_some_and(|uses| uses.last == i);
        let is_first = |buffer: BufferId| uses[buffer.0 as usize].is_some_and(|uses| uses.first == i);
        let fits = source.place == Place::Scratch && source.ty == target.ty && !source.ty.is_stack();
        if fits && is_last(from) && is_first(to) {
            moved[from.0 as usize] = Some(to);
        }
    }
    // A buffer is moved to one that is used later: from the last back, each is followed once.
    let mut order: Vec<usize> = (0..moved.len()).filter(|&buffer| moved[buffer].is_some()).collect();
    order.sort_by_key(|&buffer| std::cmp::Reverse(uses[buffer].map(|uses| uses.last)));
    for buffer in order {
        if let Some(further) = moved[buffer].and_then(|to| moved[to.0 as usize]) {
            moved[buffer] = Some(further);
        }
    }
    let place = |buffer: BufferId| moved[buffer.0 as usize].unwrap_or(buffer);
    schedule.steps.iter_mut().for_each(|step| step.rename(&place));
    schedule.steps.retain(|step| !matches!(step, Step::Copy { from, to } if from == to));
    schedule
}

/// Whether a program may have a parameter and an output at one place: all it does with the parameter it does before the
/// output is begun, as a copy of it.
pub(super) fn stays(schedule: &Schedule, param: usize, output: usize) -> bool {
    let uses = uses(schedule);
    schedule.steps.iter().enumerate().any(|(i, step)| {
        let Step::Copy { from, to } = *step else { return false };
        let ends = uses[from.0 as usize].is_some_and(|uses| uses.last == i);
        let begins = uses[to.0 as usize].is_some_and(|uses| uses.first == i);
        let (from, to) = (schedule.buffer(from), schedule.buffer(to));
        let is_it = from.place == Place::Param(param) && to.place == Place::Output(output);
        is_it && ends && begins && from.ty == to.ty && !from.ty.is_stack()
    })
}

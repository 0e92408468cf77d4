//! Copies that need not be: what is copied and not used again is written where the copy would lie.

use crate::kernel::BufferId;
use crate::schedule::{Place, Schedule, Step};

/// The step that uses each buffer last.
fn last_uses(schedule: &Schedule) -> Vec<usize> {
    let mut last = vec![0; schedule.buffers.len()];
    for (i, step) in schedule.steps.iter().enumerate() {
        let mut used = |buffer: BufferId| last[buffer.0 as usize] = i;
        step.visit(&mut used, |_| {});
        step.visit(|_| {}, &mut used);
    }
    last
}

/// The schedule with each buffer that is last used by its copy to another in the place of the other, which nothing uses
/// before: a value is copied before anything else is done to its buffer.
pub(super) fn without_copies(mut schedule: Schedule) -> Schedule {
    if !schedule.steps.iter().any(|step| matches!(step, Step::Copy { .. })) {
        return schedule;
    }
    let last = last_uses(&schedule);
    let mut moved: Vec<Option<BufferId>> = vec![None; schedule.buffers.len()];
    for (i, step) in schedule.steps.iter().enumerate() {
        let Step::Copy { from, to } = *step else { continue };
        let (source, target) = (schedule.buffer(from), schedule.buffer(to));
        let fits = source.place == Place::Scratch && source.ty == target.ty && !source.ty.is_stack();
        if fits && last[from.0 as usize] == i {
            moved[from.0 as usize] = Some(to);
        }
    }
    // A buffer is moved to one that is used later: from the last back, each is followed once.
    let mut order: Vec<usize> = (0..moved.len()).filter(|&buffer| moved[buffer].is_some()).collect();
    order.sort_by_key(|&buffer| std::cmp::Reverse(last[buffer]));
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
    let last = last_uses(schedule);
    schedule.steps.iter().enumerate().any(|(i, step)| {
        let Step::Copy { from, to } = *step else { return false };
        let is_last = last[from.0 as usize] == i;
        let (from, to) = (schedule.buffer(from), schedule.buffer(to));
        let is_it = from.place == Place::Param(param) && to.place == Place::Output(output);
        is_it && is_last && from.ty == to.ty && !from.ty.is_stack()
    })
}

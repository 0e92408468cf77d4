//! Running the steps of a program.

use super::Inner;
use crate::code::Launch;
use crate::combine::combine_blocks;
use crate::control::{run_branch, run_loop};
use crate::jit::Entry;
use crate::kernel::BufferId;
use crate::schedule::{Combine, Evaluate, Gemm, Step};
use crate::scratch::Scratch;
use crate::sweep::Sweep;
use pullback_ir::{DType, Loc, Op};
use pullback_runtime::kernels::gemm::gemm_raw;
use pullback_runtime::{RuntimeError, View, ViewMut, eval, threads};
use smallvec::SmallVec;

/// A step, ready to run.
pub(super) enum Run {
    /// A kernel.
    Code { entry: Entry, launch: Launch },
    /// Kernels that run together, so many rows at a time; each with its units of work per row.
    Sweep { kernels: Vec<(Entry, usize)>, rows: usize, chunk: usize, nanoseconds: u64 },
    /// The step of this number in the schedule.
    Step(usize),
}

/// How a run of steps is run.
pub(super) fn run(sweep: &Sweep, code: &[Option<(Entry, Launch)>]) -> Run {
    let kernels: Vec<&(Entry, Launch)> = code[sweep.steps.clone()].iter().flatten().collect();
    match kernels[..] {
        [] => Run::Step(sweep.steps.start),
        [(entry, launch)] => Run::Code { entry: entry.clone(), launch: launch.clone() },
        _ => {
            let multiple =
                |launch: &Launch| launch.multiple.div_ceil(gcd(launch.multiple, launch.units / sweep.rows));
            let multiple = kernels.iter().map(|(_, launch)| multiple(launch)).max().unwrap_or(1);
            Run::Sweep {
                kernels: kernels
                    .iter()
                    .map(|(entry, launch)| (entry.clone(), launch.units / sweep.rows))
                    .collect(),
                rows: sweep.rows,
                // Multiples are powers of two: what the largest divides, all divide.
                chunk: sweep.chunk.next_multiple_of(multiple),
                nanoseconds: kernels.iter().map(|(_, launch)| launch.nanoseconds).sum(),
            }
        }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// How the runtime computes an op.
type Evaluation = fn(&Op, Loc, &[View<'_>], &mut [ViewMut<'_>]) -> Result<(), RuntimeError>;

/// The table of addresses, shared by the threads of a call.
#[derive(Clone, Copy)]
pub(crate) struct Table(*const *mut u8);

// SAFETY: threads only read the table, and write to disjoint elements of the buffers.
unsafe impl Sync for Table {}

impl Table {
    pub(crate) fn buffer(self, BufferId(id): BufferId) -> *mut u8 {
        // SAFETY: the table has an entry for every buffer of the schedule.
        unsafe { *self.0.add(id as usize) }
    }

    fn start(&self) -> *const *mut u8 {
        self.0
    }
}

impl Inner {
    /// Runs all steps.
    ///
    /// # Safety
    /// The table of the scratch holds the addresses of arguments and outputs of the program's types; the outputs are
    /// nobody else's.
    pub(crate) unsafe fn run(&self, scratch: &Scratch) -> Result<(), RuntimeError> {
        let table = Table(scratch.table.as_ptr());
        for run in &self.steps {
            match run {
                Run::Code { entry, launch } if launch.nanoseconds < threads::SHARED_NANOSECONDS => {
                    // SAFETY: the function was made for this table, and the range is the whole of its work.
                    unsafe { entry.call_range(table.start(), 0, launch.units as i64) }
                }
                Run::Code { entry, launch } => {
                    threads::for_chunks(launch.units, launch.chunk, launch.nanoseconds, |range| {
                        // SAFETY: as above; ranges are disjoint parts of the work.
                        unsafe { entry.call_range(table.start(), range.start as i64, range.end as i64) }
                    });
                }
                Run::Sweep { kernels, rows, chunk, nanoseconds } => {
                    threads::for_chunks(*rows, *chunk, *nanoseconds, |range| {
                        for (entry, units) in kernels {
                            let (begin, end) = (range.start * units, range.end * units);
                            // SAFETY: as above; a row depends on no other row of the sweep.
                            unsafe { entry.call_range(table.start(), begin as i64, end as i64) }
                        }
                    });
                }
                // SAFETY: the caller's contract.
                Run::Step(step) => unsafe { self.step(table, &self.schedule.steps[*step])? },
            }
        }
        Ok(())
    }

    /// Runs a step that is not code of its own.
    ///
    /// # Safety
    /// As for [`Inner::run`].
    unsafe fn step(&self, table: Table, step: &Step) -> Result<(), RuntimeError> {
        match step {
            Step::Kernel(_) => {}
            Step::Combine(Combine { reducer, dtype, from, blocks, to }) => {
                let count = self.schedule.buffer(*to).ty.shape.elements();
                // SAFETY: the buffers hold so many elements, and steps run one after the other.
                unsafe {
                    combine_blocks(*reducer, *dtype, count, *blocks, table.buffer(*from), table.buffer(*to))
                };
            }
            // SAFETY: the operands' layouts were checked to stay inside their buffers when they were planned; the product is
            // another buffer.
            Step::Gemm(gemm) => unsafe { run_gemm(table, gemm) },
            // SAFETY: the caller's contract.
            Step::Evaluate(evaluate) => unsafe { self.evaluate(table, evaluate, eval::evaluate)? },
            // SAFETY: the caller's contract.
            Step::Update(update) => unsafe { self.evaluate(table, update, eval::update)? },
            // SAFETY: the caller's contract.
            Step::Loop(step) => unsafe { run_loop(self, table, step)? },
            // SAFETY: the caller's contract.
            Step::Branch(step) => unsafe { run_branch(self, table, step)? },
            // SAFETY: the caller's contract.
            Step::Copy { from, to } => unsafe { self.copy(table, *from, *to) },
        }
        Ok(())
    }

    /// Runs an op that the runtime evaluates.
    ///
    /// # Safety
    ///
    /// Every buffer of the table holds as many bytes as its type says, and no other step runs meanwhile.
    unsafe fn evaluate(&self, table: Table, evaluate: &Evaluate, by: Evaluation) -> Result<(), RuntimeError> {
        let inputs = evaluate.operands.iter().map(|(buffer, ty)| {
            // SAFETY: the buffer holds a tensor of the type, which no step writes meanwhile.
            unsafe { View::from_raw(ty, table.buffer(*buffer)) }
        });
        let inputs: SmallVec<[View<'_>; 4]> = inputs.collect();
        let outputs = evaluate.results.iter().map(|&buffer| {
            // SAFETY: the buffer holds a tensor of the type, and is neither an operand nor another result.
            unsafe { ViewMut::from_raw(&self.schedule.buffer(buffer).ty, table.buffer(buffer)) }
        });
        let mut outputs: SmallVec<[ViewMut<'_>; 1]> = outputs.collect();
        by(&evaluate.op, evaluate.loc, &inputs, &mut outputs)
    }
}

/// # Safety
/// As for [`gemm_raw`].
unsafe fn run_gemm(table: Table, gemm: &Gemm) {
    let Gemm { dtype, extents, lhs, rhs, to } = gemm;
    let c_layout = pullback_runtime::kernels::gemm::Layout::row_major(extents.m, extents.n);
    macro_rules! run {
        ($t:ty) => {{
            let start = |(buffer, offset, _): &(BufferId, usize, _)| {
                table.buffer(*buffer).cast::<$t>().wrapping_add(*offset).cast_const()
            };
            let c = (table.buffer(*to).cast::<$t>(), c_layout);
            // SAFETY: the caller's contract.
            unsafe { gemm_raw::<$t>(*extents, (start(lhs), lhs.2), (start(rhs), rhs.2), c) }
        }};
    }
    if *dtype == DType::F32 { run!(f32) } else { run!(f64) }
}

//! Programs that can be called.

use crate::code::Launch;
use crate::combine::combine_blocks;
use crate::control::{Stack, run_branch, run_loop};
use crate::jit::Entry;
use crate::kernel::BufferId;
use crate::plan::MemoryPlan;
use crate::schedule::{Buffer as ScheduleBuffer, Combine, Evaluate, Gemm, Place, Schedule, Step};
use crate::scratch::{Scratch, Shelf};
use crate::sweep::Sweep;
use pullback_ir::{DType, TensorType};
use pullback_runtime::kernels::gemm::gemm_raw;
use pullback_runtime::pool::Buffer;
use pullback_runtime::{Array, Element, RuntimeError, View, ViewMut, eval, threads};
use smallvec::SmallVec;
use std::sync::Arc;

/// A compiled program. Clones share code and scratch memory; calls may run at the same time.
#[derive(Clone)]
pub struct Executable(Arc<Inner>);

pub(crate) struct Inner {
    name: String,
    params: Vec<TensorType>,
    outputs: Vec<TensorType>,
    /// The element type that all parameters and outputs have, if they have one.
    uniform: Option<DType>,
    /// Whether a parameter or output is a stack.
    has_stacks: bool,
    steps: Vec<Run>,
    schedule: Arc<Schedule>,
    plan: MemoryPlan,
    /// Buffers that are constants.
    constants: Vec<(u32, Array)>,
    /// Buffers that are arguments, each with the number of the argument.
    param_buffers: Vec<(u32, u32)>,
    /// The buffer of each output.
    output_buffers: Vec<u32>,
    /// Programs that steps run.
    nested: Vec<Runnable>,
    shelf: Shelf,
}

/// A program that steps run.
pub(crate) struct Runnable {
    pub(crate) executable: Executable,
    /// The function of the loop whose body or condition it is. The executable is then never run.
    pub(crate) native: Option<Entry>,
}

/// A step, ready to run.
enum Run {
    /// A kernel.
    Code { entry: Entry, launch: Launch },
    /// Kernels that run together, so many rows at a time; each with its units of work per row.
    Sweep { kernels: Vec<(Entry, usize)>, rows: usize, chunk: usize, nanoseconds: u64 },
    /// The step of this number in the schedule.
    Step(usize),
}

/// How a run of steps is run.
fn run(sweep: &Sweep, code: &[Option<(Entry, Launch)>]) -> Run {
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

impl Executable {
    #[allow(clippy::too_many_arguments)] // The parts of a lowered program, each once.
    pub(crate) fn new(
        name: &str,
        params: Vec<TensorType>,
        outputs: Vec<TensorType>,
        schedule: Arc<Schedule>,
        sweeps: &[Sweep],
        plan: MemoryPlan,
        code: Vec<Option<(Entry, Launch)>>,
        nested: Vec<Runnable>,
    ) -> Executable {
        let mut types = params.iter().chain(&outputs).map(|ty| ty.dtype);
        let first = types.next();
        let uniform = first.filter(|&dtype| types.all(|other| other == dtype));
        let has_stacks = params.iter().chain(&outputs).any(TensorType::is_stack);
        let steps =
            if code.is_empty() { &[] } else { sweeps }.iter().map(|sweep| run(sweep, &code)).collect();
        let mut param_buffers = Vec::new();
        let mut constants = Vec::new();
        let mut output_buffers = vec![0; outputs.len()];
        for (i, buffer) in schedule.buffers.iter().enumerate() {
            match &buffer.place {
                Place::Param(number) => param_buffers.push((i as u32, *number as u32)),
                Place::Output(number) => output_buffers[*number] = i as u32,
                Place::Constant(literal) => constants.push((i as u32, Array::from_literal(literal))),
                Place::Scratch => {}
            }
        }
        Executable(Arc::new(Inner {
            name: name.to_string(),
            steps,
            constants,
            params,
            has_stacks,
            outputs,
            uniform,
            schedule,
            plan,
            param_buffers,
            output_buffers,
            nested,
            shelf: Shelf::default(),
        }))
    }

    /// Types of the parameters.
    pub fn param_types(&self) -> &[TensorType] {
        &self.0.params
    }

    /// Types of the outputs.
    pub fn output_types(&self) -> &[TensorType] {
        &self.0.outputs
    }

    /// Runs the program.
    pub fn call(&self, arguments: &[Array]) -> Result<Vec<Array>, RuntimeError> {
        let inner = &*self.0;
        inner.check_count(arguments.len())?;
        for (index, (expected, argument)) in inner.params.iter().zip(arguments).enumerate() {
            if argument.ty() != expected {
                return Err(inner.wrong_argument(index, argument.ty().clone()));
            }
        }
        if inner.has_stacks {
            return inner.call_with_stacks(arguments);
        }
        let mut outputs: Vec<Array> = inner.outputs.iter().cloned().map(Array::unspecified).collect();
        let mut scratch = inner.scratch();
        for &(buffer, number) in &inner.param_buffers {
            scratch.table[buffer as usize] = arguments[number as usize].view().bytes().as_ptr().cast_mut();
        }
        for (&buffer, output) in inner.output_buffers.iter().zip(&mut outputs) {
            scratch.table[buffer as usize] = output.view_mut().start();
        }
        // SAFETY: arguments have been checked and outputs have their types; the latter are not shared yet.
        let done = unsafe { inner.run(&scratch) };
        inner.shelf.give(scratch);
        done.map(|()| outputs)
    }

    /// Runs a program whose parameters and outputs all have elements of type `T`, on elements in row-major order. Nothing
    /// is allocated. After an error the outputs hold anything.
    pub fn call_into<T: Element>(
        &self,
        arguments: &[&[T]],
        outputs: &mut [&mut [T]],
    ) -> Result<(), RuntimeError> {
        let inner = &*self.0;
        inner.check_count(arguments.len())?;
        inner.check_output_count(outputs.len())?;
        let same = inner.uniform.is_none_or(|dtype| dtype == T::DTYPE);
        for (index, (expected, argument)) in inner.params.iter().zip(arguments).enumerate() {
            if !same || expected.dtype != T::DTYPE || expected.shape.elements() != argument.len() {
                return Err(inner.wrong_argument(index, TensorType::new(T::DTYPE, [argument.len()])));
            }
        }
        for (index, (expected, output)) in inner.outputs.iter().zip(outputs.iter()).enumerate() {
            if expected.dtype != T::DTYPE || expected.shape.elements() != output.len() {
                return Err(inner.wrong_output(index, TensorType::new(T::DTYPE, [output.len()])));
            }
        }
        let mut scratch = inner.scratch();
        for &(buffer, number) in &inner.param_buffers {
            scratch.table[buffer as usize] = arguments[number as usize].as_ptr().cast_mut().cast();
        }
        for (&buffer, output) in inner.output_buffers.iter().zip(outputs) {
            scratch.table[buffer as usize] = output.as_mut_ptr().cast();
        }
        // SAFETY: element types and counts have been checked; outputs are borrowed exclusively.
        let done = unsafe { inner.run(&scratch) };
        inner.shelf.give(scratch);
        done
    }

    /// Runs the program on tensors wherever they are. Nothing is allocated. After an error the outputs hold anything.
    pub fn call_views(
        &self,
        arguments: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
    ) -> Result<(), RuntimeError> {
        let inner = &*self.0;
        inner.check_count(arguments.len())?;
        inner.check_output_count(outputs.len())?;
        for (index, (expected, argument)) in inner.params.iter().zip(arguments).enumerate() {
            if argument.ty() != expected {
                return Err(inner.wrong_argument(index, argument.ty().clone()));
            }
        }
        for (index, (expected, output)) in inner.outputs.iter().zip(outputs.iter()).enumerate() {
            if output.ty() != expected {
                return Err(inner.wrong_output(index, output.ty().clone()));
            }
        }
        let mut scratch = inner.scratch();
        for &(buffer, number) in &inner.param_buffers {
            scratch.table[buffer as usize] = arguments[number as usize].bytes().as_ptr().cast_mut();
        }
        for (&buffer, output) in inner.output_buffers.iter().zip(outputs) {
            scratch.table[buffer as usize] = output.start();
        }
        // SAFETY: types have been checked; outputs are borrowed exclusively.
        let done = unsafe { inner.run(&scratch) };
        inner.shelf.give(scratch);
        done
    }

    /// The memory plan of a call.
    pub fn memory(&self) -> &MemoryPlan {
        &self.0.plan
    }
}

impl Inner {
    fn check_count(&self, found: usize) -> Result<(), RuntimeError> {
        let expected = self.params.len();
        if expected == found {
            return Ok(());
        }
        Err(RuntimeError::ArgumentCount { program: self.name.clone(), expected, found })
    }

    fn check_output_count(&self, found: usize) -> Result<(), RuntimeError> {
        let expected = self.outputs.len();
        if expected == found {
            return Ok(());
        }
        Err(RuntimeError::OutputCount { program: self.name.clone(), expected, found })
    }

    #[cold]
    fn wrong_argument(&self, index: usize, found: TensorType) -> RuntimeError {
        let expected = self.params[index].clone();
        RuntimeError::ArgumentType { program: self.name.clone(), index, expected, found }
    }

    #[cold]
    fn wrong_output(&self, index: usize, found: TensorType) -> RuntimeError {
        let expected = self.outputs[index].clone();
        RuntimeError::OutputType { program: self.name.clone(), index, expected, found }
    }

    /// Runs the program on arguments some of which, or of whose outputs, are stacks.
    fn call_with_stacks(&self, arguments: &[Array]) -> Result<Vec<Array>, RuntimeError> {
        let stack = |array: &Array| array.ty().is_stack().then(|| Stack::from_array(array));
        let mut given: Vec<Option<Stack>> = arguments.iter().map(stack).collect();
        let parameters: Vec<*mut u8> = arguments
            .iter()
            .zip(&mut given)
            .map(|(array, stack)| match stack {
                Some(stack) => (stack as *mut Stack).cast(),
                None => array.view().bytes().as_ptr().cast_mut(),
            })
            .collect();
        let tensor = |ty: &TensorType| (!ty.is_stack()).then(|| Array::unspecified(ty.clone()));
        let mut tensors: Vec<Option<Array>> = self.outputs.iter().map(tensor).collect();
        let mut stacks: Vec<Stack> = self.outputs.iter().map(Stack::new).collect();
        let outputs: Vec<*mut u8> = tensors
            .iter_mut()
            .zip(&mut stacks)
            .map(|(tensor, stack)| match tensor {
                Some(tensor) => tensor.view_mut().start(),
                None => (stack as *mut Stack).cast(),
            })
            .collect();
        // SAFETY: arguments have been checked, and outputs have their types.
        unsafe { self.run_once(&parameters, &outputs)? };
        let results = tensors.into_iter().zip(&stacks).zip(&self.outputs);
        Ok(results.map(|((tensor, stack), ty)| tensor.unwrap_or_else(|| stack.to_array(ty))).collect())
    }

    /// A program that steps run.
    pub(crate) fn nested(&self, number: usize) -> &Inner {
        &self.nested[number].executable.0
    }

    /// The function of the loop with this body, if it is native.
    pub(crate) fn native(&self, body: usize) -> Option<&Entry> {
        self.nested[body].native.as_ref()
    }

    /// Types of the parameters.
    pub(crate) fn param_types(&self) -> &[TensorType] {
        &self.params
    }

    /// Types of the outputs.
    pub(crate) fn output_types(&self) -> &[TensorType] {
        &self.outputs
    }

    /// Type of a buffer.
    pub(crate) fn ty(&self, buffer: BufferId) -> &TensorType {
        &self.schedule.buffer(buffer).ty
    }

    /// Puts the addresses of arguments and outputs into the table.
    pub(crate) fn set(&self, scratch: &mut Scratch, arguments: &[*mut u8], outputs: &[*mut u8]) {
        for &(buffer, number) in &self.param_buffers {
            scratch.table[buffer as usize] = arguments[number as usize];
        }
        for (&buffer, &output) in self.output_buffers.iter().zip(outputs) {
            scratch.table[buffer as usize] = output;
        }
    }

    /// Runs the program on arguments at these addresses.
    ///
    /// # Safety
    /// There lie values of the types of the parameters and outputs; the outputs are nobody else's.
    pub(crate) unsafe fn run_once(
        &self,
        arguments: &[*mut u8],
        outputs: &[*mut u8],
    ) -> Result<(), RuntimeError> {
        let mut scratch = self.scratch();
        self.set(&mut scratch, arguments, outputs);
        // SAFETY: the caller's contract.
        let done = unsafe { self.run(&scratch) };
        self.put_back(scratch);
        done
    }

    /// Leaves scratch memory to the next call.
    pub(crate) fn put_back(&self, scratch: Box<Scratch>) {
        self.shelf.give(scratch);
    }

    /// Copies a buffer to another of the same type.
    ///
    /// # Safety
    /// As for [`Inner::run`].
    pub(crate) unsafe fn copy(&self, table: Table, from: BufferId, to: BufferId) {
        let ty = self.ty(to);
        let (from, to) = (table.buffer(from), table.buffer(to));
        if ty.is_stack() {
            // SAFETY: the addresses of two stacks.
            unsafe { (*to.cast::<Stack>()).copy_from(ty, &*from.cast::<Stack>()) };
        } else {
            // SAFETY: two buffers of so many bytes.
            unsafe { std::ptr::copy_nonoverlapping(from, to, ty.bytes()) };
        }
    }

    /// Scratch memory that no other call uses.
    pub(crate) fn scratch(&self) -> Box<Scratch> {
        self.shelf.take().unwrap_or_else(|| self.new_scratch())
    }

    #[cold]
    fn new_scratch(&self) -> Box<Scratch> {
        let mut memory = Buffer::new(self.plan.bytes);
        let start = memory.bytes_mut().as_mut_ptr();
        let mut table = vec![std::ptr::null_mut(); self.schedule.buffers.len()];
        for life in &self.plan.lives {
            table[life.buffer.0 as usize] = start.wrapping_add(life.bytes.start);
        }
        for (buffer, array) in &self.constants {
            table[*buffer as usize] = array.view().bytes().as_ptr().cast_mut();
        }
        let is_stack = |buffer: &&ScheduleBuffer| buffer.ty.is_stack() && buffer.place == Place::Scratch;
        let mut stacks: Box<[Stack]> =
            self.schedule.buffers.iter().filter(is_stack).map(|buffer| Stack::new(&buffer.ty)).collect();
        let entries = table.iter_mut().zip(&self.schedule.buffers).filter(|(_, buffer)| is_stack(buffer));
        for ((entry, _), stack) in entries.zip(&mut stacks) {
            *entry = (stack as *mut Stack).cast();
        }
        Box::new(Scratch { table, memory, stacks })
    }

    /// Runs all steps.
    ///
    /// # Safety
    /// The table of the scratch holds the addresses of arguments and outputs of the program's types; the outputs are
    /// nobody else's.
    pub(crate) unsafe fn run(&self, scratch: &Scratch) -> Result<(), RuntimeError> {
        let table = Table(scratch.table.as_ptr());
        for run in &self.steps {
            match run {
                Run::Code { entry, launch } if launch.nanoseconds < threads::INLINE_NANOSECONDS => {
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
            Step::Evaluate(evaluate) => unsafe { self.evaluate(table, evaluate)? },
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
    unsafe fn evaluate(&self, table: Table, evaluate: &Evaluate) -> Result<(), RuntimeError> {
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
        eval::evaluate(&evaluate.op, evaluate.loc, &inputs, &mut outputs)
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

//! Programs that can be called.

mod steps;

pub(crate) use steps::Table;

use crate::code::Launch;
use crate::control::Stack;
use crate::jit::Entry;
use crate::kernel::BufferId;
use crate::plan::{Life, MemoryPlan};
use crate::schedule::{Buffer as ScheduleBuffer, Place, Schedule};
use crate::scratch::{Scratch, Shelf};
use crate::sweep::Sweep;
use pullback_ir::{DType, TensorType};
use pullback_runtime::pool::Buffer;
use pullback_runtime::{Array, Element, RuntimeError, View, ViewMut};
use std::sync::Arc;
use steps::{Run, run};

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
        let steps: Vec<Run> =
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
        for (index, argument) in arguments.iter().enumerate() {
            inner.check_argument(index, argument.ty())?;
        }
        if inner.has_stacks {
            return inner.call_with_stacks(arguments);
        }
        let mut outputs: Vec<Array> = inner.outputs.iter().cloned().map(Array::unspecified).collect();
        let fill = |table: &mut [*mut u8]| {
            for &(buffer, number) in &inner.param_buffers {
                table[buffer as usize] = arguments[number as usize].view().bytes().as_ptr().cast_mut();
            }
            for (&buffer, output) in inner.output_buffers.iter().zip(&mut outputs) {
                table[buffer as usize] = output.view_mut().start();
            }
        };
        // SAFETY: arguments have been checked and outputs have their types; the latter are not shared yet.
        unsafe { inner.run_on(fill) }.map(|()| outputs)
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
        let fill = |table: &mut [*mut u8]| {
            for &(buffer, number) in &inner.param_buffers {
                table[buffer as usize] = arguments[number as usize].as_ptr().cast_mut().cast();
            }
            for (&buffer, output) in inner.output_buffers.iter().zip(outputs) {
                table[buffer as usize] = output.as_mut_ptr().cast();
            }
        };
        // SAFETY: element types and counts have been checked; outputs are borrowed exclusively.
        unsafe { inner.run_on(fill) }
    }

    /// Runs the program on tensors wherever they are. Nothing is allocated. After an error the outputs hold anything.
    pub fn call_views(
        &self,
        arguments: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
    ) -> Result<(), RuntimeError> {
        self.0.check_views(arguments, outputs)?;
        let fill = |table: &mut [*mut u8]| self.0.fill_views(table, arguments, outputs);
        // SAFETY: types have been checked; outputs are borrowed exclusively.
        unsafe { self.0.run_on(fill) }
    }

    /// As [`Executable::call_views`], with every scratch buffer where `place` says: for tests that watch the memory around
    /// it.
    ///
    /// # Safety
    /// Each place is valid for as many bytes as the type of the buffer says, aligned to its elements, and nobody else's
    /// while the buffer lives.
    #[doc(hidden)]
    pub unsafe fn call_views_in(
        &self,
        arguments: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
        place: impl FnMut(&Life) -> *mut u8,
    ) -> Result<(), RuntimeError> {
        self.0.check_views(arguments, outputs)?;
        let mut scratch = self.0.scratch_in(Buffer::new(0), place);
        self.0.fill_views(&mut scratch.table, arguments, outputs);
        // SAFETY: types have been checked; outputs are borrowed exclusively; the caller answers for the scratch buffers.
        unsafe { self.0.run(&scratch) }
    }

    /// What it is made of.
    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// The memory plan of a call.
    pub fn memory(&self) -> &MemoryPlan {
        &self.0.plan
    }
}

impl Inner {
    fn check_views(&self, arguments: &[View<'_>], outputs: &[ViewMut<'_>]) -> Result<(), RuntimeError> {
        self.check_count(arguments.len())?;
        self.check_output_count(outputs.len())?;
        for (index, argument) in arguments.iter().enumerate() {
            self.check_argument(index, argument.ty())?;
        }
        for (index, output) in outputs.iter().enumerate() {
            self.check_output(index, output.ty())?;
        }
        Ok(())
    }

    fn fill_views(&self, table: &mut [*mut u8], arguments: &[View<'_>], outputs: &mut [ViewMut<'_>]) {
        for &(buffer, number) in &self.param_buffers {
            table[buffer as usize] = arguments[number as usize].bytes().as_ptr().cast_mut();
        }
        for (&buffer, output) in self.output_buffers.iter().zip(outputs) {
            table[buffer as usize] = output.start();
        }
    }

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

    pub(crate) fn check_argument(&self, index: usize, found: &TensorType) -> Result<(), RuntimeError> {
        if *found == self.params[index] { Ok(()) } else { Err(self.wrong_argument(index, found.clone())) }
    }

    pub(crate) fn check_output(&self, index: usize, found: &TensorType) -> Result<(), RuntimeError> {
        if *found == self.outputs[index] { Ok(()) } else { Err(self.wrong_output(index, found.clone())) }
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

    /// Name of the program.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Buffers of the parameters, each with the number of its parameter, and the buffer of each output.
    pub(crate) fn interface(&self) -> (&[(u32, u32)], &[u32]) {
        (&self.param_buffers, &self.output_buffers)
    }

    /// Type of a buffer.
    pub(crate) fn ty(&self, buffer: BufferId) -> &TensorType {
        &self.schedule.buffer(buffer).ty
    }

    /// Puts the addresses of arguments and outputs into the table.
    pub(crate) fn set(&self, table: &mut [*mut u8], arguments: &[*mut u8], outputs: &[*mut u8]) {
        for &(buffer, number) in &self.param_buffers {
            table[buffer as usize] = arguments[number as usize];
        }
        for (&buffer, &output) in self.output_buffers.iter().zip(outputs) {
            table[buffer as usize] = output;
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
        // SAFETY: the caller's contract.
        unsafe { self.run_on(|table| self.set(table, arguments, outputs)) }
    }

    /// Runs the program with scratch memory that no other call uses.
    ///
    /// # Safety
    /// `fill` puts into the table the addresses of values of the types of the parameters and outputs; the outputs are
    /// nobody else's.
    #[inline]
    pub(crate) unsafe fn run_on(&self, fill: impl FnOnce(&mut [*mut u8])) -> Result<(), RuntimeError> {
        let mut scratch = self.scratch();
        fill(&mut scratch.table);
        // SAFETY: the caller's contract.
        let done = unsafe { self.run(&scratch) };
        self.put_back(scratch);
        done
    }

    /// Leaves scratch memory to the next call.
    pub(crate) fn put_back(&self, scratch: Box<Scratch>) {
        self.shelf.give(scratch);
    }

    /// Copies a buffer to another of the same type, unless both lie at one place.
    ///
    /// # Safety
    /// As for [`Inner::run`].
    pub(crate) unsafe fn copy(&self, table: Table, from: BufferId, to: BufferId) {
        let ty = self.ty(to);
        let (from, to) = (table.buffer(from), table.buffer(to));
        if from == to {
            return;
        }
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
        self.scratch_in(memory, |life| start.wrapping_add(life.bytes.start))
    }

    /// Scratch memory with every buffer where `place` says.
    fn scratch_in(&self, memory: Buffer, mut place: impl FnMut(&Life) -> *mut u8) -> Box<Scratch> {
        let mut table = vec![std::ptr::null_mut(); self.schedule.buffers.len()];
        for life in &self.plan.lives {
            table[life.buffer.0 as usize] = place(life);
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
}

//! Running loops and branches over nested executables.

use super::{Branch, Loop, Stack};
use crate::executable::{Inner, Table};
use crate::jit::Entry;
use crate::kernel::BufferId;
use pullback_ir::TensorType;
use pullback_ir::ops::control::looping::Trip;
use pullback_runtime::RuntimeError;
use smallvec::SmallVec;

/// Addresses of operands or results: of elements, or of stacks.
type Addresses = SmallVec<[*mut u8; 16]>;

/// Slices of ys that there is room for at first.
const FIRST_ROOM: usize = 64;

/// Runs the arm that the index chooses.
///
/// # Safety
/// As for [`Inner::run`], for the table of the executable whose step this is.
pub(crate) unsafe fn run_branch(outer: &Inner, table: Table, step: &Branch) -> Result<(), RuntimeError> {
    // SAFETY: the first operand is an i32.
    let index = unsafe { table.buffer(step.operands[0]).cast::<i32>().read() };
    let arm = step.arms[(index.max(0) as usize).min(step.arms.len() - 1)];
    let parameters: Addresses = step.operands[1..].iter().map(|&buffer| table.buffer(buffer)).collect();
    let outputs: Addresses = step.results.iter().map(|&buffer| table.buffer(buffer)).collect();
    // SAFETY: operands and results have the types of the arm's parameters and outputs.
    unsafe { outer.nested(arm).run_once(&parameters, &outputs) }
}

/// Runs a loop.
///
/// # Safety
/// As for [`Inner::run`], for the table of the executable whose step this is.
pub(crate) unsafe fn run_loop(outer: &Inner, table: Table, step: &Loop) -> Result<(), RuntimeError> {
    let places = Places::new(outer, table, step);
    // SAFETY: the caller's contract; the places are those of the operands and results.
    unsafe {
        let trips = places.trips()?;
        places.make_room(trips.unwrap_or(0));
        let done = match outer.native(step.body) {
            Some(native) => places.run_native(native, trips),
            None => {
                let done = places.iterate(trips)?;
                places.settle_carries(trips, done);
                done
            }
        };
        places.write_count(done);
    }
    Ok(())
}

/// Where the operands and results of a loop lie.
struct Places<'a> {
    outer: &'a Inner,
    table: Table,
    step: &'a Loop,
    consts: &'a [BufferId],
    carries: &'a [BufferId],
    xs: &'a [BufferId],
    ys: &'a [BufferId],
}

impl<'a> Places<'a> {
    fn new(outer: &'a Inner, table: Table, step: &'a Loop) -> Places<'a> {
        let roles = step.op.roles(&step.operands);
        Places {
            outer,
            table,
            step,
            consts: roles.consts,
            carries: roles.carries,
            xs: roles.xs,
            ys: &step.results[step.op.carries..][..step.op.ys()],
        }
    }

    fn ty(&self, buffer: BufferId) -> &'a TensorType {
        self.outer.ty(buffer)
    }

    /// # Safety
    /// The buffer is a stack that nobody else uses meanwhile.
    unsafe fn stack(&self, buffer: BufferId) -> &'a mut Stack {
        // SAFETY: the table holds addresses of stacks for buffers of a stack's type.
        unsafe { &mut *self.table.buffer(buffer).cast::<Stack>() }
    }

    /// The number of iterations, where it is known before the first.
    ///
    /// # Safety
    /// As for [`run_loop`].
    unsafe fn trips(&self) -> Result<Option<usize>, RuntimeError> {
        let is_stack = |x: &&BufferId| self.ty(**x).is_stack();
        // SAFETY: stacks are only looked at.
        let mut lengths = self.xs.iter().filter(is_stack).map(|&x| unsafe { self.stack(x).len() });
        let trips = match &self.step.op.trip {
            Trip::Count(n) => *n,
            Trip::Times => {
                // SAFETY: the first operand is an i64.
                let times = unsafe { self.table.buffer(self.step.operands[0]).cast::<i64>().read() };
                times.max(0) as usize
            }
            Trip::Each => lengths.clone().next().unwrap_or(0),
            Trip::While(_) => return Ok(None),
        };
        match lengths.find(|&length| length != trips) {
            None => Ok(Some(trips)),
            Some(found) => Err(RuntimeError::StackLength { expected: trips, found, loc: self.step.loc }),
        }
    }

    /// Makes the stacks of ys so long.
    ///
    /// # Safety
    /// As for [`run_loop`].
    unsafe fn make_room(&self, slices: usize) {
        for &y in self.ys.iter().filter(|&&y| self.ty(y).is_stack()) {
            // SAFETY: results are nobody else's.
            unsafe { self.stack(y).resize(self.ty(y), slices) };
        }
    }

    /// Runs the iterations in one function, and counts them. Where ys grow as they come it is left and entered again
    /// when there is no more room for them.
    ///
    /// # Safety
    /// As for [`run_loop`], after [`Places::make_room`]; the function is that of this loop.
    unsafe fn run_native(&self, native: &Entry, trips: Option<usize>) -> usize {
        for (&operand, &result) in self.carries.iter().zip(&self.step.results) {
            // SAFETY: two buffers with elements of the carry.
            unsafe { self.outer.copy(self.table, operand, result) };
        }
        let mut stop = 0i64;
        let mut done = 0;
        loop {
            let room = match trips {
                Some(trips) => trips,
                None if self.ys.is_empty() => i64::MAX as usize,
                None => done + done.max(FIRST_ROOM),
            };
            if trips.is_none() {
                // SAFETY: the caller's contract.
                unsafe { self.make_room(if self.ys.is_empty() { 0 } else { room }) };
            }
            let carries = &self.step.results[..self.carries.len()];
            let tensors = self.consts.iter().chain(carries).map(|&buffer| self.table.buffer(buffer));
            // SAFETY: the table is used before any stack changes.
            let sliced = self.xs.iter().chain(self.ys).map(|&buffer| unsafe { self.first_slice(buffer) });
            let mut table: Addresses = tensors.chain(sliced).collect();
            table.push((&raw mut stop).cast());
            let (begin, end) = match trips {
                Some(trips) if self.step.op.reverse => (trips as i64 - 1, -1),
                Some(_) | None => (done as i64, room as i64),
            };
            // SAFETY: the table is the one that the function is made for, and there are slices for these positions.
            unsafe { native.call_range(table.as_ptr(), begin, end) };
            if let Some(trips) = trips {
                return trips;
            }
            done = stop as usize;
            if done < room {
                // SAFETY: the caller's contract.
                unsafe { self.make_room(done) };
                return done;
            }
        }
    }

    /// Address of the first slice of an x or y, or of where it would be.
    ///
    /// # Safety
    /// As for [`run_loop`].
    unsafe fn first_slice(&self, buffer: BufferId) -> *mut u8 {
        if self.ty(buffer).is_stack() {
            // SAFETY: the caller's contract.
            return unsafe { self.stack(buffer).slice(self.ty(buffer), 0) };
        }
        self.table.buffer(buffer)
    }

    /// Address of slice number `at`, of this type, of an x or y. A tensor may lie there under another shape.
    ///
    /// # Safety
    /// As for [`run_loop`]; there is such a slice.
    unsafe fn slice(&self, buffer: BufferId, slice: &TensorType, at: usize) -> *mut u8 {
        let ty = self.ty(buffer);
        if ty.is_stack() {
            // SAFETY: the address is taken before the next slice is.
            return unsafe { self.stack(buffer).slice(ty, at) };
        }
        self.table.buffer(buffer).wrapping_add(at * slice.bytes())
    }

    /// Runs the iterations, and counts them. [`Places::settle_carries`] knows where carries end.
    ///
    /// # Safety
    /// As for [`run_loop`], after [`Places::make_room`].
    unsafe fn iterate(&self, trips: Option<usize>) -> Result<usize, RuntimeError> {
        let body = self.outer.nested(self.step.body);
        let condition = self.step.condition.map(|condition| self.outer.nested(condition));
        let types = body.param_types();
        let mut scratch = body.scratch();
        let (first_x, first_y) = (self.consts.len() + self.carries.len(), self.carries.len());
        let at = |buffer: &BufferId| self.table.buffer(*buffer);
        let mut parameters: Addresses = self.consts.iter().chain(self.carries).map(at).collect();
        parameters.resize(first_x + self.xs.len(), std::ptr::null_mut());
        let mut outputs: Addresses = smallvec::smallvec![std::ptr::null_mut(); first_y + self.ys.len()];
        let mut done = 0;
        let result = loop {
            match trips {
                Some(trips) if done == trips => break Ok(done),
                Some(_) => {}
                None => {
                    let mut more = 0u8;
                    let Some(condition) = condition else { break Ok(done) };
                    // SAFETY: consts and carries have the types of the condition's parameters, and it gives one bool.
                    let tested = unsafe { condition.run_once(&parameters[..first_x], &[&raw mut more]) };
                    match tested {
                        Ok(()) if more == 0 => break Ok(done),
                        Ok(()) => {}
                        Err(error) => break Err(error),
                    }
                }
            }
            let position = match trips {
                Some(trips) if self.step.op.reverse => trips - 1 - done,
                Some(_) | None => done,
            };
            for (k, address) in outputs[..first_y].iter_mut().enumerate() {
                *address = self.table.buffer(self.carry(k, trips, done + 1));
            }
            for (k, &x) in self.xs.iter().enumerate() {
                // SAFETY: the position is below the number of slices, which is that of the trips.
                parameters[first_x + k] = unsafe { self.slice(x, &types[first_x + k], position) };
            }
            for (k, &y) in self.ys.iter().enumerate() {
                if trips.is_none() {
                    // SAFETY: the stack is ours; it grows by one slice.
                    unsafe { self.stack(y).resize(self.ty(y), done + 1) };
                }
                // SAFETY: there is room for this position.
                outputs[first_y + k] = unsafe { self.slice(y, &body.output_types()[first_y + k], position) };
            }
            body.set(&mut scratch.table, &parameters, &outputs);
            // SAFETY: addresses are those of values of the body's types; what it writes, nothing else uses: a carry goes
            // to another place than it comes from, or the body has read it before it writes there.
            if let Err(error) = unsafe { body.run(&scratch) } {
                break Err(error);
            }
            parameters[self.consts.len()..first_x].copy_from_slice(&outputs[..first_y]);
            done += 1;
        };
        body.put_back(scratch);
        result
    }

    /// Where a carry is after so many iterations: its operand at first, then the result and the spare by turns. If the
    /// number of trips is known, the result is the last.
    fn carry(&self, k: usize, trips: Option<usize>, done: usize) -> BufferId {
        let is_result = match trips {
            Some(trips) => (trips - done).is_multiple_of(2),
            None => done % 2 == 1,
        };
        match (done, is_result) {
            (0, _) => self.carries[k],
            (_, true) => self.step.results[k],
            (_, false) => self.step.spares[k],
        }
    }

    /// Puts carries that lie elsewhere into the results.
    ///
    /// # Safety
    /// As for [`run_loop`], after so many iterations.
    unsafe fn settle_carries(&self, trips: Option<usize>, done: usize) {
        for (k, &result) in self.step.results[..self.carries.len()].iter().enumerate() {
            let from = self.carry(k, trips, done);
            if from != result {
                // SAFETY: two buffers of one type.
                unsafe { self.outer.copy(self.table, from, result) };
            }
        }
    }

    /// Writes the number of iterations, if it is a result.
    ///
    /// # Safety
    /// As for [`run_loop`].
    unsafe fn write_count(&self, done: usize) {
        if let (true, Some(&count)) = (self.step.op.has_count(), self.step.results.last()) {
            // SAFETY: the last result is an i64.
            unsafe { self.table.buffer(count).cast::<i64>().write(done as i64) };
        }
    }
}

//! From kernels to functions.
//!
//! Every kernel becomes a function of a table of buffer addresses and a range of units of work. A unit is what threads
//! are handed: an index of the outer dimensions, an element of a single dimension, a block of a reduction. Units are in
//! the row-major order of the parallel dimensions.

mod body;
mod columns;
mod loops;
mod map;
mod repeat;
mod rows;

pub(crate) use repeat::define_loop;

use crate::emit::{Emitter, common_lanes};
use crate::jit::Unit;
use crate::kernel::{BufferId, Kernel};
use body::Flags;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use cranelift_frontend::FunctionBuilderContext;
use indexmap::IndexMap;
use pullback_runtime::threads;

/// How the function of a kernel is to be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    /// Name of the function in its unit.
    pub function: String,
    /// Units of work.
    pub units: usize,
    /// Ranges of units begin at multiples of this.
    pub multiple: usize,
    /// Units handed to a thread at a time.
    pub chunk: usize,
    /// Estimated nanoseconds of the whole on one thread.
    pub nanoseconds: u64,
}

/// Picoseconds per unit of weight, roughly.
const PICOSECONDS: u64 = 150;

/// Nanoseconds of work that are handed to a thread at a time: what is shared has at least two chunks.
const CHUNK_NANOSECONDS: u64 = threads::SHARED_NANOSECONDS / 2;

/// Uses of a large operation emitted in place in the body of a loop.
const INLINE_IN_LOOPS: usize = 64;

/// Units of a kernel, and what chunks of them must be multiples of.
struct Units {
    count: usize,
    multiple: usize,
}

/// Defines the function of a kernel.
pub(crate) fn define(unit: &mut Unit, name: String, kernel: &Kernel) -> Launch {
    let signature = unit.signature(&[types::I64; 3], &[]);
    let id = unit.declare(name.clone(), signature);
    let mut function = unit.function(id);
    let mut context = FunctionBuilderContext::new();
    let emitter = Emitter::new(unit, &mut function, &mut context);
    let mut code = KernelCode::new(emitter, kernel);
    let units = code.whole();
    code.emitter.builder.ins().return_(&[]);
    code.emitter.finish();
    unit.define(id, function);
    launch(name, kernel, units)
}

fn launch(function: String, kernel: &Kernel, units: Units) -> Launch {
    let indices = (kernel.outputs() as u64).saturating_mul(kernel.length() as u64);
    let lanes = kernel.lanes() as u64;
    let nanoseconds = indices.saturating_mul(kernel.weight() * PICOSECONDS / lanes) / 1000;
    let share = (nanoseconds / CHUNK_NANOSECONDS).max(1) as usize;
    let chunk = (units.count / share).max(1).next_multiple_of(units.multiple);
    Launch { function, units: units.count, multiple: units.multiple, chunk, nanoseconds }
}

/// A function under construction.
struct KernelCode<'k, 'f> {
    emitter: Emitter<'f>,
    kernel: &'k Kernel,
    /// Address of each buffer.
    pointers: IndexMap<BufferId, Value>,
    flags: Flags,
    /// Elements per vector, or 1.
    lanes: usize,
    begin: Value,
    end: Value,
}

impl<'k, 'f> KernelCode<'k, 'f> {
    fn new(mut emitter: Emitter<'f>, kernel: &'k Kernel) -> KernelCode<'k, 'f> {
        let [table, begin, end] = [0, 1, 2].map(|i| emitter.parameter(i));
        let flags = Flags::new(&mut emitter, kernel);
        let pointers = flags.load_pointers(&mut emitter, table, kernel);
        let lanes = kernel.lanes();
        if kernel.rank() > 0 {
            emitter.set_inline_limit(INLINE_IN_LOOPS);
        }
        KernelCode { emitter, kernel, pointers, flags, lanes, begin, end }
    }

    fn whole(&mut self) -> Units {
        match (self.kernel.rank(), self.kernel.reductions.is_empty()) {
            (0, true) => {
                self.once(&body::Point::nowhere(), 1);
                Units { count: 1, multiple: 1 }
            }
            (_, true) => self.map(),
            (_, false) if self.kernel.is_by_columns() => self.columns(),
            (_, false) => self.rows(),
        }
    }
}

impl Kernel {
    /// Elements per vector of its loops, or 1.
    fn lanes(&self) -> usize {
        match self.rank() {
            0 => 1,
            _ => common_lanes(self.body.iter().map(|inst| inst.dtype)),
        }
    }

    /// Whether reductions go through memory in steps of the last parallel dimension rather than of the last reduced
    /// one.
    pub(crate) fn is_by_columns(&self) -> bool {
        let parallel = self.parallel.len();
        let Some(&extent) = self.parallel.last() else { return false };
        if extent < self.lanes().max(4) || self.reduced.is_empty() || self.reductions.is_empty() {
            return false;
        }
        let jumps = |dim: usize| self.loads().filter(|a| !matches!(a.index.strides[dim], 0 | 1)).count();
        jumps(self.rank() - 1) > jumps(parallel - 1)
    }
}

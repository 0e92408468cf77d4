//! A program on its way to code, to be looked at on every stage.

use crate::code::{self, Launch};
use crate::error::LowerError;
use crate::executable::Executable;
use crate::fuse::fuse;
use crate::jit::{Code, Unit};
use crate::kernel::Kernel;
use crate::plan::{MemoryPlan, plan};
use crate::prepare::prepare;
use crate::schedule::{Schedule, Step};
use crate::sweep::{Sweep, sweeps};
use pullback_ir::Program;
use std::fmt;
use std::sync::Arc;

/// What the lowering is told.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Options {
    /// Tensors of at most this many elements live in registers, where the work on them is small as well.
    pub small: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { small: 64 }
    }
}

/// A lowered program: fused, scheduled and planned, not yet compiled.
pub struct Lowered {
    program: Program,
    schedule: Arc<Schedule>,
    sweeps: Vec<Sweep>,
    plan: MemoryPlan,
}

/// What a call costs, counted on the kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// Elementwise operations and multiply-adds (counted as two).
    pub operations: u64,
    /// Bytes read and written by steps, each access counted.
    pub bytes: u64,
    /// Steps.
    pub steps: u64,
}

/// Fuses, schedules and plans a program.
pub fn lower(program: &Program, options: &Options) -> Result<Lowered, LowerError> {
    let program = prepare(program);
    if program.holds_stacks() {
        return Err(LowerError::Stack { program: program.name().into() });
    }
    let schedule = fuse(&program, options.small);
    let sweeps = sweeps(&schedule);
    let plan = plan(&schedule, &sweeps);
    Ok(Lowered { program, schedule: Arc::new(schedule), sweeps, plan })
}

impl Lowered {
    /// The program after calls were inlined and it was simplified.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Buffers and steps, as text.
    pub fn kernels(&self) -> String {
        self.schedule.to_string()
    }

    /// Buffers and steps.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The memory plan.
    pub fn memory(&self) -> &MemoryPlan {
        &self.plan
    }

    /// What a call costs.
    pub fn cost(&self) -> Cost {
        let mut cost = Cost { steps: self.schedule.steps.len() as u64, ..Cost::default() };
        for step in &self.schedule.steps {
            match step {
                Step::Kernel(kernel) => kernel_cost(&mut cost, kernel),
                Step::Gemm(gemm) => {
                    let e = gemm.extents;
                    cost.operations += 2 * (e.batch * e.m * e.n * e.k) as u64;
                    let elements = e.batch * (e.m * e.k + e.k * e.n + e.m * e.n);
                    cost.bytes += (elements * gemm.dtype.size()) as u64;
                }
                Step::Combine(_) | Step::Evaluate(_) | Step::Copy { .. } => {
                    let mut add = |buffer| cost.bytes += self.schedule.buffer(buffer).ty.bytes() as u64;
                    step.visit(&mut add, |_| {});
                    step.visit(|_| {}, &mut add);
                }
            }
        }
        cost
    }

    /// Every function as Cranelift gets it.
    pub fn clif(&self) -> Result<String, LowerError> {
        let (code, _) = self.code(true)?;
        Ok(code.functions().filter_map(|name| code.clif(name)).collect::<Vec<_>>().join("\n"))
    }

    /// The machine instructions of every function.
    pub fn disassembly(&self) -> Result<String, LowerError> {
        let (code, _) = self.code(true)?;
        let text = |name: &str| code.disassembly(name).map(|text| format!("{name}:\n{text}"));
        Ok(code.functions().filter_map(text).collect::<Vec<_>>().join("\n"))
    }

    /// Compiles it.
    pub fn compile(&self) -> Result<Executable, LowerError> {
        let (code, launches) = self.code(false)?;
        let entry = |launch: Launch| code.entry(&launch.function).map(|entry| (entry, launch));
        let steps = launches.into_iter().map(|launch| launch.and_then(entry)).collect();
        Ok(Executable::new(
            self.program.name(),
            self.program.param_types(),
            self.program.output_types(),
            self.schedule.clone(),
            &self.sweeps,
            self.plan.clone(),
            steps,
        ))
    }

    /// The code of all kernels, and how each step that is one is launched.
    fn code(&self, keep_texts: bool) -> Result<(Arc<Code>, Vec<Option<Launch>>), LowerError> {
        let mut unit = Unit::new()?;
        unit.keep_texts(keep_texts);
        let steps = self.schedule.steps.iter().enumerate();
        let launches = steps.map(|(i, step)| match step {
            Step::Kernel(kernel) => Some(code::define(&mut unit, format!("k{i}"), kernel)),
            Step::Combine(_) | Step::Gemm(_) | Step::Evaluate(_) | Step::Copy { .. } => None,
        });
        let launches = launches.collect();
        Ok((unit.finish()?, launches))
    }
}

fn kernel_cost(cost: &mut Cost, kernel: &Kernel) {
    let indices = (kernel.outputs() * kernel.length()) as u64;
    let loads: u64 = kernel.loads_with_dtypes().map(|(_, dtype)| dtype.size() as u64).sum();
    let stores: u64 = kernel.stores.iter().map(|s| kernel.inst(s.value).dtype.size() as u64).sum();
    cost.operations += indices * kernel.operations();
    cost.bytes += indices * (loads + stores);
}

impl fmt::Display for Lowered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.schedule)
    }
}

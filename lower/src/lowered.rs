//! A program on its way to code, to be looked at on every stage.

use crate::code::{self, Launch};
use crate::error::LowerError;
use crate::executable::{Executable, Runnable};
use crate::fuse::fuse;
use crate::jit::{Code, Unit};
use crate::kernel::Kernel;
use crate::plan::{MemoryPlan, plan};
use crate::prepare::prepare;
use crate::schedule::{Schedule, Step};
use crate::sweep::{Sweep, sweeps};
use pullback_ir::Program;
use pullback_ir::ops::control::looping::Trip;
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
#[derive(Debug)]
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
    Ok(Lowered::new(prepare(program), options.small))
}

/// Launches of the kernels among the steps of a program, and of those nested in it.
#[derive(Default)]
struct Launches {
    steps: Vec<Option<Launch>>,
    nested: Vec<Nested>,
}

/// How a nested program is run.
enum Nested {
    /// By its own steps.
    Steps(Launches),
    /// Within the function of this name, a native loop.
    Native(String),
}

impl Lowered {
    /// Lowers a prepared program, and the programs nested in it.
    pub(crate) fn new(program: Program, small: usize) -> Lowered {
        let schedule = fuse(&program, small);
        let sweeps = sweeps(&schedule);
        let plan = plan(&schedule, &sweeps);
        Lowered { program, schedule: Arc::new(schedule), sweeps, plan }
    }

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

    /// What a call costs. Nested programs count as often as is known that they run: a loop whose number of iterations
    /// depends on data once, and of the arms of a branch the most expensive.
    pub fn cost(&self) -> Cost {
        let mut cost = Cost { steps: self.schedule.steps.len() as u64, ..Cost::default() };
        let nested: Vec<Cost> = self.schedule.nested.iter().map(Lowered::cost).collect();
        for step in &self.schedule.steps {
            match step {
                Step::Kernel(kernel) => kernel_cost(&mut cost, kernel),
                Step::Gemm(gemm) => {
                    let e = gemm.extents;
                    cost.operations += 2 * (e.batch * e.m * e.n * e.k) as u64;
                    let elements = e.batch * (e.m * e.k + e.k * e.n + e.m * e.n);
                    cost.bytes += (elements * gemm.dtype.size()) as u64;
                }
                Step::Loop(step) => {
                    let trips = match step.op.trip {
                        Trip::Count(n) => n as u64,
                        Trip::Times | Trip::Each | Trip::While(_) => 1,
                    };
                    step.nested().for_each(|i| cost.add(nested[i], trips));
                }
                Step::Branch(step) => {
                    let arms = step.arms.iter().map(|&i| nested[i]);
                    if let Some(most) = arms.max_by_key(|arm| arm.operations) {
                        cost.add(most, 1);
                    }
                }
                Step::Combine(_) | Step::Evaluate(_) | Step::Update(_) | Step::Copy { .. } => {
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
        Ok(self.executable(&code, launches))
    }

    fn executable(&self, code: &Arc<Code>, launches: Launches) -> Executable {
        let entry = |launch: Launch| code.entry(&launch.function).map(|entry| (entry, launch));
        let steps = launches.steps.into_iter().map(|launch| launch.and_then(entry)).collect();
        let nested = self.schedule.nested.iter().zip(launches.nested);
        Executable::new(
            self.program.name(),
            self.program.param_types(),
            self.program.output_types(),
            self.schedule.clone(),
            &self.sweeps,
            self.plan.clone(),
            steps,
            nested.map(|(nested, how)| nested.runnable(code, how)).collect(),
        )
    }

    fn runnable(&self, code: &Arc<Code>, how: Nested) -> Runnable {
        match how {
            Nested::Steps(launches) => Runnable { executable: self.executable(code, launches), native: None },
            Nested::Native(name) => {
                Runnable { executable: self.executable(code, Launches::default()), native: code.entry(&name) }
            }
        }
    }

    /// The code of all kernels, and how each step that is one is launched.
    fn code(&self, keep_texts: bool) -> Result<(Arc<Code>, Launches), LowerError> {
        let mut unit = Unit::new()?;
        unit.keep_texts(keep_texts);
        let launches = self.define(&mut unit, "");
        Ok((unit.finish()?, launches))
    }

    /// Defines the kernels of the program and of those nested in it, under names that begin with `prefix`.
    fn define(&self, unit: &mut Unit, prefix: &str) -> Launches {
        let steps = self.schedule.steps.iter().enumerate().map(|(i, step)| match step {
            Step::Kernel(kernel) => Some(code::define(unit, format!("{prefix}k{i}"), kernel)),
            Step::Combine(_)
            | Step::Gemm(_)
            | Step::Evaluate(_)
            | Step::Update(_)
            | Step::Loop(_)
            | Step::Branch(_)
            | Step::Copy { .. } => None,
        });
        let steps = steps.collect();
        let nested = &self.schedule.nested;
        let mut native: Vec<Option<String>> = vec![None; nested.len()];
        for step in &self.schedule.steps {
            let Step::Loop(step) = step else { continue };
            let name = format!("{prefix}n{}", step.body);
            let condition = step.condition.map(|condition| &nested[condition]);
            if code::define_loop(unit, &name, step, &nested[step.body], condition) {
                step.nested().for_each(|i| native[i] = Some(name.clone()));
            }
        }
        let nested = nested.iter().zip(native).enumerate().map(|(i, (nested, native))| match native {
            Some(name) => Nested::Native(name),
            None => Nested::Steps(nested.define(unit, &format!("{prefix}n{i}."))),
        });
        Launches { steps, nested: nested.collect() }
    }
}

impl Cost {
    fn add(&mut self, other: Cost, times: u64) {
        self.operations += other.operations * times;
        self.bytes += other.bytes * times;
        self.steps += other.steps * times;
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

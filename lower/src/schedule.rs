//! What a program becomes before there is code: buffers, and steps over them in order.

use crate::control::{Branch, Loop};
use crate::kernel::{BufferId, Kernel};
use crate::lowered::Lowered;
use pullback_ir::ops::reduce::reduce::Reducer;
use pullback_ir::{DType, Literal, Loc, Op, TensorType};
use pullback_runtime::kernels::gemm::{Extents, Layout};
use std::fmt;

/// Buffers and the steps that fill them.
#[derive(Debug, Default)]
pub struct Schedule {
    /// Every tensor that lies in memory.
    pub buffers: Vec<Buffer>,
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// Programs that steps run, each lowered by itself.
    pub nested: Vec<Lowered>,
}

/// A dense row-major tensor in memory.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Element type and shape.
    pub ty: TensorType,
    /// Where it lies.
    pub place: Place,
}

/// Where a buffer lies.
#[derive(Clone, PartialEq, Debug)]
pub enum Place {
    /// The argument of this number.
    Param(usize),
    /// The output of this number.
    Output(usize),
    /// Scratch memory of the call.
    Scratch,
    /// A constant of the program.
    Constant(Literal),
}

/// One step.
#[derive(Debug)]
pub enum Step {
    /// A loop nest, or straight-line code where there are no loops.
    Kernel(Kernel),
    /// Combines the results of blocks of long reductions.
    Combine(Combine),
    /// Matrix products.
    Gemm(Gemm),
    /// An op that the runtime evaluates.
    Evaluate(Evaluate),
    /// An op that writes some elements of its result, which holds operand 0, anew. The operands are the others.
    Update(Evaluate),
    /// A nested program again and again.
    Loop(Loop),
    /// One of several nested programs.
    Branch(Branch),
    /// Copies a whole buffer to another of as many bytes.
    Copy {
        /// From.
        from: BufferId,
        /// To.
        to: BufferId,
    },
}

/// Combines `blocks` neighbouring elements of `from` into each element of `to`, pairwise by levels.
#[derive(Clone, Debug)]
pub struct Combine {
    /// What combines.
    pub reducer: Reducer,
    /// Element type.
    pub dtype: DType,
    /// Results of blocks.
    pub from: BufferId,
    /// How many there are per element of the result.
    pub blocks: usize,
    /// The result.
    pub to: BufferId,
}

/// A batch of matrix products by the gemm kernel.
#[derive(Clone, Debug)]
pub struct Gemm {
    /// Element type, f32 or f64.
    pub dtype: DType,
    /// Sizes.
    pub extents: Extents,
    /// The left operand: where it is, where in there it begins, and how its matrices lie.
    pub lhs: (BufferId, usize, Layout),
    /// The right operand.
    pub rhs: (BufferId, usize, Layout),
    /// The product, dense.
    pub to: BufferId,
}

/// An op on whole buffers.
#[derive(Clone, Debug)]
pub struct Evaluate {
    /// The op.
    pub op: Op,
    /// Whose call it is.
    pub loc: Loc,
    /// Operands with the type the op sees.
    pub operands: Vec<(BufferId, TensorType)>,
    /// Results.
    pub results: Vec<BufferId>,
}

impl Schedule {
    /// A buffer by its number.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0 as usize]
    }
}

impl Step {
    /// Calls `read` for every buffer it reads and `write` for every one it writes; some may come twice.
    pub fn visit(&self, mut read: impl FnMut(BufferId), mut write: impl FnMut(BufferId)) {
        match self {
            Step::Kernel(kernel) => {
                kernel.loads().for_each(|access| read(access.buffer));
                kernel.stores.iter().for_each(|store| write(store.buffer));
                kernel.reductions.iter().for_each(|reduction| write(reduction.buffer));
            }
            Step::Combine(combine) => {
                read(combine.from);
                write(combine.to);
            }
            Step::Gemm(gemm) => {
                read(gemm.lhs.0);
                read(gemm.rhs.0);
                write(gemm.to);
            }
            Step::Evaluate(evaluate) | Step::Update(evaluate) => {
                evaluate.operands.iter().for_each(|(buffer, _)| read(*buffer));
                evaluate.results.iter().for_each(|&buffer| write(buffer));
            }
            Step::Loop(step) => {
                step.operands.iter().for_each(|&buffer| read(buffer));
                step.results.iter().chain(&step.spares).for_each(|&buffer| write(buffer));
            }
            Step::Branch(step) => {
                step.operands.iter().for_each(|&buffer| read(buffer));
                step.results.iter().for_each(|&buffer| write(buffer));
            }
            Step::Copy { from, to } => {
                read(*from);
                write(*to);
            }
        }
    }
}

impl Step {
    /// Puts other buffers in the place of those it uses.
    pub(crate) fn rename(&mut self, place: &impl Fn(BufferId) -> BufferId) {
        let all = |buffers: &mut [BufferId]| buffers.iter_mut().for_each(|buffer| *buffer = place(*buffer));
        match self {
            Step::Kernel(kernel) => kernel.rename(place),
            Step::Combine(combine) => {
                combine.from = place(combine.from);
                combine.to = place(combine.to);
            }
            Step::Gemm(gemm) => {
                gemm.lhs.0 = place(gemm.lhs.0);
                gemm.rhs.0 = place(gemm.rhs.0);
                gemm.to = place(gemm.to);
            }
            Step::Evaluate(evaluate) | Step::Update(evaluate) => {
                evaluate.operands.iter_mut().for_each(|(buffer, _)| *buffer = place(*buffer));
                all(&mut evaluate.results);
            }
            Step::Loop(step) => {
                all(&mut step.operands);
                all(&mut step.results);
                all(&mut step.spares);
            }
            Step::Branch(step) => {
                all(&mut step.operands);
                all(&mut step.results);
            }
            Step::Copy { from, to } => {
                *from = place(*from);
                *to = place(*to);
            }
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Buffer { ty, place }) in self.buffers.iter().enumerate() {
            write!(formatter, "b{i}: {ty} ")?;
            match place {
                Place::Param(n) => writeln!(formatter, "param {n}")?,
                Place::Output(n) => writeln!(formatter, "output {n}")?,
                Place::Scratch => writeln!(formatter, "scratch")?,
                Place::Constant(_) => writeln!(formatter, "constant")?,
            }
        }
        self.steps.iter().try_for_each(|step| write!(formatter, "{step}"))?;
        for (i, nested) in self.nested.iter().enumerate() {
            writeln!(formatter, "n{i}:")?;
            nested.to_string().lines().try_for_each(|line| writeln!(formatter, "  {line}"))?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Kernel(kernel) => write!(formatter, "{kernel}"),
            Step::Combine(Combine { reducer, from, blocks, to, .. }) => {
                writeln!(formatter, "{to} = combine {} {from} by {blocks}", reducer.name())
            }
            Step::Gemm(Gemm { extents: Extents { batch, m, n, k }, lhs, rhs, to, .. }) => {
                let side = |(buffer, offset, layout): &(BufferId, usize, Layout)| {
                    format!("{buffer}[{offset}, {}, {}, {}]", layout.batch, layout.row, layout.column)
                };
                writeln!(formatter, "{to} = gemm [{batch}, {m}, {n}, {k}] {} {}", side(lhs), side(rhs))
            }
            Step::Evaluate(Evaluate { op, operands, results, .. }) => {
                let results: Vec<String> = results.iter().map(|r| r.to_string()).collect();
                let operands: Vec<String> = operands.iter().map(|(b, _)| b.to_string()).collect();
                writeln!(formatter, "{} = {} {}", results.join(", "), op.name(), operands.join(" "))
            }
            Step::Update(Evaluate { op, operands, results, .. }) => {
                let operands: Vec<String> = operands.iter().map(|(b, _)| b.to_string()).collect();
                writeln!(formatter, "{} in place: {} {}", results[0], op.name(), operands.join(" "))
            }
            Step::Loop(step) => write!(formatter, "{step}"),
            Step::Branch(step) => write!(formatter, "{step}"),
            Step::Copy { from, to } => writeln!(formatter, "{to} = copy {from}"),
        }
    }
}

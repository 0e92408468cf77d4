//! Steps that run nested programs, each lowered by itself.

mod run;
mod stack;

pub(crate) use run::{run_branch, run_loop};
pub(crate) use stack::Stack;

use crate::kernel::BufferId;
use pullback_ir::Loc;
use pullback_ir::ops::control::looping;
use std::fmt;

/// A nested program again and again.
#[derive(Clone, Debug)]
pub struct Loop {
    /// Trips, direction and roles of the operands.
    pub op: looping::Loop,
    /// Whose call it is.
    pub loc: Loc,
    /// Operands, in the order of the op.
    pub operands: Vec<BufferId>,
    /// Results, in the order of the op.
    pub results: Vec<BufferId>,
    /// For each carry a second place: iterations write the one and read the other. A carry that stays in place has its
    /// operand, its result and this in one buffer.
    pub spares: Vec<BufferId>,
    /// Number of the body among the nested programs.
    pub body: usize,
    /// Number of the condition.
    pub condition: Option<usize>,
}

/// One of several nested programs.
#[derive(Clone, Debug)]
pub struct Branch {
    /// The index, and what all arms take.
    pub operands: Vec<BufferId>,
    /// What all arms give.
    pub results: Vec<BufferId>,
    /// Numbers of the arms among the nested programs.
    pub arms: Vec<usize>,
}

impl Loop {
    /// Nested programs.
    pub fn nested(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.body).chain(self.condition)
    }
}

impl fmt::Display for Loop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loop { op, operands, results, body, condition, .. } = self;
        let trip = match &op.trip {
            looping::Trip::Count(n) => format!("count {n}"),
            trip => trip.name().to_string(),
        };
        let order = if op.reverse { " in reverse" } else { "" };
        let roles = op.roles(operands);
        write!(formatter, "{} = loop {trip}{order}", list(results))?;
        if let Some(times) = roles.times {
            write!(formatter, " {times}")?;
        }
        let (consts, carries, xs) = (list(roles.consts), list(roles.carries), list(roles.xs));
        write!(formatter, " consts [{consts}] carries [{carries}] xs [{xs}] body n{body}")?;
        match condition {
            Some(condition) => writeln!(formatter, " condition n{condition}"),
            None => writeln!(formatter),
        }
    }
}

impl fmt::Display for Branch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arms: Vec<String> = self.arms.iter().map(|arm| format!("n{arm}")).collect();
        writeln!(
            formatter,
            "{} = branch {} arms {}",
            list(&self.results),
            list(&self.operands),
            arms.join(", ")
        )
    }
}

fn list(buffers: &[BufferId]) -> String {
    buffers.iter().map(|buffer| buffer.to_string()).collect::<Vec<_>>().join(", ")
}

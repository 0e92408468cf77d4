//! Which elements of its parameters each element of a program's outputs may depend on.
//!
//! The answer holds for all numbers that are not [known](Source::Known): an element that is not in the set of an output's element
//! has no influence on it. It may say too much, never too little, except that a product with a factor that is known
//! to be zero counts as zero, also where the other factor could be infinite or NaN.
//!
//! One walk over the program carries, for each element of each value, the name of a set. Where elements go may depend on
//! numbers, such as the indices of a gather: they are computed if they are known, and otherwise the result depends
//! on all that the op was given.

mod control;
mod flow;
mod ops;
mod sets;

#[cfg(test)]
mod tests;

use crate::array::Array;
use crate::error::RuntimeError;
use crate::eval::evaluate_arrays;
use flow::{Flow, elements, named};
use ops::Operands;
use pullback_ir::ops::control::call::Call;
use pullback_ir::ops::control::custom_jvp::CustomJvp;
use pullback_ir::ops::control::custom_linear::CustomLinear;
use pullback_ir::ops::control::custom_vjp::CustomVjp;
use pullback_ir::{Node, Op, Program, TensorType};
use sets::{Id, Sets};
use slotmap::SecondaryMap;

/// How many ops are followed inside loops step by step.
const FUEL: usize = 1 << 20;

/// What is known of a parameter.
#[derive(Clone, Debug)]
pub enum Source {
    /// Its numbers.
    Known(Array),
    /// Nothing, and dependence on it is not asked for.
    Varying,
    /// Nothing. Its elements are numbered, in row-major order, on from those of the tracked parameter before it.
    Tracked,
}

/// The sets of tracked elements that the elements of outputs may depend on.
pub struct Dependence {
    outputs: Vec<Vec<Id>>,
    sets: Sets,
}

impl Dependence {
    /// For each element of the output, in row-major order, the numbers of the tracked elements it may depend on,
    /// ascending.
    pub fn of_output(&self, output: usize) -> impl ExactSizeIterator<Item = &[u32]> {
        self.outputs[output].iter().map(|&id| self.sets.members(id))
    }
}

/// Finds which elements of the tracked parameters each element of the outputs may depend on. Of a stack among the
/// outputs nothing is said.
///
/// # Errors
/// If there is not one source of the right type per parameter, or more than 2^32 - 2 elements are tracked.
pub fn dependence(program: &Program, sources: &[Source]) -> Result<Dependence, RuntimeError> {
    let tracked = check(program, sources)?;
    let mut walk = Walk { sets: Sets::new(tracked), fuel: FUEL };
    let mut first = 0;
    let mut arguments = Vec::with_capacity(sources.len());
    for (source, ty) in sources.iter().zip(program.param_types()) {
        arguments.push(match source {
            Source::Known(array) => Flow::Known(array.clone()),
            Source::Varying => Flow::Varying,
            Source::Tracked => {
                let next = first + ty.shape.elements() as u32;
                // The set of one number is named one more than it.
                let ids = named(&ty, (first + 1..=next).collect());
                first = next;
                Flow::Sets(ids)
            }
        });
    }
    let flows = walk.program(program, arguments);
    let ids = |(flow, ty): (&Flow, &TensorType)| elements(&flow.ids(ty)).to_vec();
    let outputs = flows.iter().zip(&program.output_types()).map(ids).collect();
    Ok(Dependence { outputs, sets: walk.sets })
}

/// The number of tracked elements.
fn check(program: &Program, sources: &[Source]) -> Result<u32, RuntimeError> {
    let (expected, found) = (program.params().len(), sources.len());
    if expected != found {
        return Err(RuntimeError::ArgumentCount { program: program.name().into(), expected, found });
    }
    let mut tracked = 0u128;
    for (index, (source, expected)) in sources.iter().zip(program.param_types()).enumerate() {
        match source {
            Source::Known(array) if *array.ty() != expected => {
                let (program, found) = (program.name().into(), array.ty().clone());
                return Err(RuntimeError::ArgumentType { program, index, expected, found });
            }
            Source::Known(_) | Source::Varying => {}
            Source::Tracked => tracked += expected.shape.elements() as u128,
        }
    }
    match u32::try_from(tracked) {
        Ok(count) if count < u32::MAX => Ok(count),
        Ok(_) | Err(_) => Err(RuntimeError::TooManyTracked { found: tracked }),
    }
}

struct Walk {
    sets: Sets,
    /// Ops that may still be followed inside loops.
    fuel: usize,
}

impl Walk {
    /// Walks the program in order. Nested programs recurse, as deep as programs are nested; nothing else does.
    fn program(&mut self, program: &Program, arguments: Vec<Flow>) -> Vec<Flow> {
        self.fuel = self.fuel.saturating_sub(program.len().max(1));
        let mut uses = program.use_counts();
        let mut flows: SecondaryMap<_, Flow> = program.params().iter().copied().zip(arguments).collect();
        for node in program.nodes() {
            let results = {
                let operands: Vec<&Flow> = node.operands.iter().map(|&v| &flows[v]).collect();
                self.node(program, node, &operands)
            };
            for &operand in &node.operands {
                uses[operand] -= 1;
                if uses[operand] == 0 {
                    flows.remove(operand);
                }
            }
            flows.extend(node.results.iter().copied().zip(results).filter(|(v, _)| uses[*v] > 0));
        }
        program.outputs().iter().map(|&v| flows[v].clone()).collect()
    }

    fn node(&mut self, program: &Program, node: &Node, operands: &[&Flow]) -> Vec<Flow> {
        let results: Vec<TensorType> = node.results.iter().map(|&v| program.ty(v).clone()).collect();
        match &node.op {
            Op::Barrier(_) | Op::Offer(_) => operands.iter().map(|&flow| flow.clone()).collect(),
            Op::Call(Call { program, .. })
            | Op::CustomJvp(CustomJvp { program, .. })
            | Op::CustomVjp(CustomVjp { program, .. })
            | Op::CustomLinear(CustomLinear { forward: Some(program), .. }) => {
                self.program(program, operands.iter().map(|&flow| flow.clone()).collect())
            }
            Op::Branch(op) => self.branch(op, operands),
            Op::Loop(op) => self.looping(op, operands, &results),
            op if operands.iter().any(|flow| flow.is_tracked()) => {
                let types: Vec<&TensorType> = node.operands.iter().map(|&v| program.ty(v)).collect();
                self.tracked(op, Operands { flows: operands, types: &types }, &results)
            }
            op => untracked(op, node, operands),
        }
    }
}

/// The results of an op on operands that are not tracked. A user's kernel is not called.
fn untracked(op: &Op, node: &Node, operands: &[&Flow]) -> Vec<Flow> {
    let known = operands.iter().map(|flow| match flow {
        Flow::Known(array) => Some(array.clone()),
        Flow::Varying | Flow::Sets(_) | Flow::Stack(_) | Flow::Each(_) => None,
    });
    let known = known.collect::<Option<Vec<Array>>>().filter(|_| !matches!(op, Op::CustomCall(_)));
    // Where the op fails, as an index out of range does, so does each call: anything is right.
    match known.map(|known| evaluate_arrays(op, node.loc, &known)) {
        Some(Ok(results)) => results.into_iter().map(Flow::Known).collect(),
        Some(Err(_)) | None => vec![Flow::Varying; node.results.len()],
    }
}

//! Checkpoints: of a program linearized, what is kept, and how the linear program computes the rest again.
//!
//! The linear program begins with ops that carry no tangent: a barrier, behind which nothing merges with the primal
//! program, and what it takes to have the residuals. They are the ops of the primal program, so bits do not change.

use super::nested::{Residual, Split};
use crate::work::work;
use pullback_ir::ops::control::barrier::Barrier;
use pullback_ir::ops::control::call::Keep;
use pullback_ir::passes::dce;
use pullback_ir::program::Values;
use pullback_ir::recipe::Recipe;
use pullback_ir::{Builder, Def, Node, Program, TensorType, TypeError, Value};
use slotmap::SecondaryMap;
use std::sync::Arc;

/// The split of a called program, keeping its parameters and what it is told to keep.
/// `program` is what was split.
pub(crate) fn checkpointed(split: &Split, program: &Arc<Program>, keep: &Keep) -> Result<Split, TypeError> {
    // Contractions and offers are to be found in what the program calls, too.
    let inlined = match keep {
        Keep::Nothing => None,
        Keep::Dots | Keep::Offered(_) | Keep::Budget(_) => Some(Arc::new(split.primal.inline_calls())),
    };
    let primal = inlined.as_ref().unwrap_or(&split.primal);
    let kept = kept(primal, &split.residuals_in(primal), keep);
    let lean = split.keeping(primal, &kept)?;
    let is_whole = lean.primal.outputs().len() == lean.outputs;
    Ok(if is_whole { Split { primal: program.clone(), ..lean } } else { lean })
}

impl Split {
    /// The residuals as values of the primal program, or of one with the same parameters and outputs.
    pub(crate) fn residuals_in(&self, primal: &Program) -> Vec<Value> {
        let value = |residual: &Residual| match *residual {
            Residual::Operand(i) => primal.params()[i],
            Residual::Result(i) => primal.outputs()[i],
        };
        self.residuals.iter().map(value).collect()
    }

    /// The split with the parameters and these values kept, from which the linear program computes the residuals
    /// again. `primal` is the primal program, in which they are.
    pub(crate) fn keeping(
        &self,
        primal: &Program,
        kept: &SecondaryMap<Value, ()>,
    ) -> Result<Split, TypeError> {
        let residuals = self.residuals_in(primal);
        let again = Again::new(primal, &residuals, kept);
        let mut outputs: Vec<Value> = primal.outputs()[..self.outputs].to_vec();
        let mut sources = Vec::new();
        for &source in &again.sources {
            sources.push(match primal.def(source) {
                Def::Param(i) => Residual::Operand(i),
                Def::Result(..) => {
                    Residual::Result(outputs.iter().position(|&v| v == source).unwrap_or_else(|| {
                        outputs.push(source);
                        outputs.len() - 1
                    }))
                }
            });
        }
        Ok(Split {
            primal: Arc::new(dce(&primal.clone().with_outputs(&outputs))),
            residuals: sources,
            linear: Arc::new(again.linear(primal, &residuals, &self.linear)?),
            outputs: self.outputs,
            active: self.active.clone(),
        })
    }
}

/// The results to keep.
fn kept(primal: &Program, residuals: &[Value], keep: &Keep) -> SecondaryMap<Value, ()> {
    let results = |is: &dyn Fn(&Node) -> bool| -> SecondaryMap<Value, ()> {
        let nodes = primal.nodes().filter(|node| is(node));
        nodes.flat_map(|node| node.results.iter().map(|&v| (v, ()))).collect()
    };
    match keep {
        Keep::Nothing => SecondaryMap::new(),
        Keep::Dots => results(&|node| is_contraction(primal, node)),
        Keep::Offered(names) => {
            results(&|node| node.op.offered().is_some_and(|name| names.iter().any(|kept| kept == name)))
        }
        Keep::Budget(bytes) => within(primal, residuals, *bytes),
    }
}

fn is_contraction(program: &Program, node: &Node) -> bool {
    let types: Vec<&TensorType> = node.operands.iter().map(|&v| program.ty(v)).collect();
    matches!(node.op.recipe(&types), Recipe::Contract(_))
}

/// Of the values it takes to have the residuals so many as fit, those first that are most work for their size. The
/// size of a stack is known only later, so that none is kept.
fn within(primal: &Program, residuals: &[Value], bytes: usize) -> SecondaryMap<Value, ()> {
    let again = Again::new(primal, residuals, &SecondaryMap::new());
    let mut candidates = Vec::new();
    for node in primal.nodes().filter(|node| again.needs(node)) {
        for &value in node.results.iter().filter(|&&v| again.needed.contains_key(v)) {
            let (ty, work) = (primal.ty(value), work(primal, node));
            if work > 0 && !ty.is_stack() {
                candidates.push((work as f64 / ty.bytes().max(1) as f64, ty.bytes(), value));
            }
        }
    }
    candidates.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut left = bytes;
    let mut kept = SecondaryMap::new();
    for (_, size, value) in candidates {
        if size <= left {
            left -= size;
            kept.insert(value, ());
        }
    }
    kept
}

/// What it takes to compute values of a program again.
pub(crate) struct Again {
    /// Everything that is needed, on the way or at the start.
    needed: SecondaryMap<Value, ()>,
    /// Where it starts: parameters, then results that are kept, in program order.
    sources: Vec<Value>,
}

impl Again {
    fn new(program: &Program, targets: &[Value], kept: &SecondaryMap<Value, ()>) -> Again {
        let mut needed: SecondaryMap<Value, ()> = targets.iter().map(|&v| (v, ())).collect();
        let mut sources = Vec::new();
        for node in program.nodes().rev() {
            let results = || node.results.iter().copied().filter(|&v| needed.contains_key(v));
            let found: Values = results().filter(|&v| kept.contains_key(v)).collect();
            let is_computed = results().count() > found.len();
            sources.extend(found.into_iter().rev());
            if is_computed {
                needed.extend(node.operands.iter().map(|&v| (v, ())));
            }
        }
        sources.reverse();
        let params = program.params().iter().copied().filter(|&v| needed.contains_key(v));
        Again { sources: params.chain(sources).collect(), needed }
    }

    fn needs(&self, node: &Node) -> bool {
        node.results.iter().any(|&v| self.needed.contains_key(v))
    }

    /// From the sources and the tangents: `linear`, its residuals computed again.
    fn linear(&self, program: &Program, residuals: &[Value], linear: &Program) -> Result<Program, TypeError> {
        let mut builder = Builder::new(linear.name());
        let sources: Values = self.sources.iter().map(|&v| builder.param(program.ty(v).clone())).collect();
        let tangents = linear.param_types().split_off(residuals.len());
        let tangents: Vec<Value> = tangents.into_iter().map(|ty| builder.param(ty)).collect();
        let sources = if sources.is_empty() { sources } else { builder.emit(Barrier, &sources)? };
        let mut map: SecondaryMap<Value, Value> = self.sources.iter().copied().zip(sources).collect();
        for node in program.nodes() {
            let is_missing = |v: &&Value| self.needed.contains_key(**v) && !map.contains_key(**v);
            if !node.results.iter().any(|v| is_missing(&v)) {
                continue;
            }
            builder.set_loc(node.loc);
            let operands: Values = node.operands.iter().map(|&v| map[v]).collect();
            let results = builder.emit(node.op.clone(), &operands)?;
            for (&value, result) in node.results.iter().zip(results) {
                if !map.contains_key(value) {
                    map.insert(value, result);
                }
            }
        }
        let mut args: Vec<Value> = residuals.iter().map(|&v| map[v]).collect();
        args.extend(tangents);
        let outputs = builder.inline(linear, &args)?;
        Ok(builder.finish(&outputs))
    }
}

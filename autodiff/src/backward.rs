//! Reverse mode from what a forward pass has left: the values at hand are parameters, and nothing is computed again that
//! they give.

use crate::control::nested::Nested;
use crate::derive::end;
use crate::error::AdError;
use crate::linearize::{Linearized, check_wrt, linearize_program};
use crate::options::Autodiff;
use crate::transpose::{Ends, transpose_into};
use pullback_ir::program::Values;
use pullback_ir::{Builder, Program, Value};
use slotmap::SecondaryMap;

/// A value that is at hand when a backward pass begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtHand {
    /// The parameter of this number.
    Param(usize),
    /// The output of this number.
    Output(usize),
}

/// The backward pass of a program whose parameters and outputs are known: see [`Autodiff::backward`].
#[derive(Clone, PartialEq, Debug)]
pub struct Backward {
    /// `saved.., cotangents of the seeded outputs.. -> cotangents of the parameters reached`.
    pub program: Program,
    /// What its first parameters are.
    pub saved: Vec<AtHand>,
    /// The positions in `wrt` of the parameters that the seeded outputs depend on, ascending.
    pub reached: Vec<usize>,
}

impl Autodiff {
    /// The backward pass of a program that has been run: from cotangents of the outputs in `seeded`, which must be floats,
    /// to cotangents of the parameters in `wrt`. All parameters and outputs are known by then; of those the pass takes
    /// what it needs, and computes again only what is not among them.
    pub fn backward(&self, program: &Program, wrt: &[usize], seeded: &[usize]) -> Result<Backward, AdError> {
        check_wrt(program, wrt)?;
        let mut nested = Nested::default();
        let linearized = linearize_program(self, &mut nested, program, wrt)?;
        let mut builder = Builder::new(&format!("{}_backward", program.name()));
        let primal = &linearized.primal;
        let known = (0..primal.params().len()).map(|i| (AtHand::Param(i), primal.params()[i]));
        let outputs = (0..linearized.outputs).map(|i| (AtHand::Output(i), primal.outputs()[i]));
        let mut values: SecondaryMap<Value, Value> = SecondaryMap::new();
        let mut at_hand = Vec::new();
        for (which, value) in known.chain(outputs) {
            if !values.contains_key(value) {
                values.insert(value, builder.param(primal.ty(value).clone()));
                at_hand.push(which);
            }
        }
        let residuals = compute(&mut builder, primal, values, linearized.residual_values())?;
        let (seeds, cotangents) = seeds(&mut builder, program, &linearized, seeded);
        let mut args: Vec<Option<Value>> = residuals.into_iter().map(Some).collect();
        args.resize(linearized.linear.params().len(), None);
        let ends = Ends { starts: &vec![None; args.len()], cotangents: &cotangents };
        let found = transpose_into(self, &mut nested, &mut builder, &linearized.linear, &args, ends)?;
        let found = &found[linearized.residuals()..];
        let reached: Vec<usize> = (0..wrt.len()).filter(|&i| found[i].is_some()).collect();
        let outputs: Vec<Value> = found.iter().flatten().copied().collect();
        let (program, kept) = without_unused(&end(builder, &outputs), seeds)?;
        Ok(Backward { program, saved: kept.into_iter().map(|i| at_hand[i]).collect(), reached })
    }
}

/// Emits what these values of a program need beyond the values that are given, and returns what stands for them.
fn compute(
    builder: &mut Builder,
    program: &Program,
    mut given: SecondaryMap<Value, Value>,
    wanted: &[Value],
) -> Result<Vec<Value>, AdError> {
    let mut needed: SecondaryMap<Value, ()> = wanted.iter().map(|&v| (v, ())).collect();
    let mut due = Vec::new();
    for node in program.nodes().rev() {
        if node.results.iter().any(|&v| needed.contains_key(v) && !given.contains_key(v)) {
            needed.extend(node.operands.iter().map(|&v| (v, ())));
            due.push(node);
        }
    }
    for node in due.into_iter().rev() {
        let operands: Values = node.operands.iter().map(|&v| given[v]).collect();
        builder.set_loc(node.loc);
        let results = builder.emit(node.op.clone(), &operands)?;
        for (&value, result) in node.results.iter().zip(results) {
            if !given.contains_key(value) {
                given.insert(value, result);
            }
        }
    }
    Ok(wanted.iter().map(|&v| given[v]).collect())
}

/// Parameters for the cotangents of the seeded outputs, and the cotangents of all active ones.
fn seeds(
    builder: &mut Builder,
    program: &Program,
    linearized: &Linearized,
    seeded: &[usize],
) -> (usize, Vec<Option<Value>>) {
    let params: Vec<Value> =
        seeded.iter().map(|&i| builder.param(program.ty(program.outputs()[i]).clone())).collect();
    let mut cotangents = vec![None; linearized.outputs];
    for (&i, param) in seeded.iter().zip(params) {
        cotangents[i] = Some(param);
    }
    (seeded.len(), linearized.active.iter().map(|&i| cotangents[i]).collect())
}

/// The program without those of its parameters that it does not use, but for the last `keep`; and which of the others are
/// left.
fn without_unused(program: &Program, keep: usize) -> Result<(Program, Vec<usize>), AdError> {
    let uses = program.use_counts();
    let others = program.params().len() - keep;
    let mut builder = Builder::new(program.name());
    let mut kept = Vec::new();
    let mut given = SecondaryMap::new();
    for (i, &param) in program.params().iter().enumerate() {
        if i >= others || uses[param] > 0 {
            given.insert(param, builder.param(program.ty(param).clone()));
            kept.extend((i < others).then_some(i));
        }
    }
    let outputs = compute(&mut builder, program, given, program.outputs())?;
    Ok((builder.finish(&outputs), kept))
}

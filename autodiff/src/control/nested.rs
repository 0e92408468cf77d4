//! Nested programs transformed, and the memory of those already done.

use super::checkpoint::checkpointed;
use crate::batch::batch_program;
use crate::error::AdError;
use crate::linearize::{Failure, Linearized, linearize_program};
use crate::options::Autodiff;
use crate::transpose::{Ends, transpose_into};
use indexmap::{IndexMap, IndexSet};
use pullback_ir::ops::control::call::{Call, Keep};
use pullback_ir::program::Values;
use pullback_ir::{Builder, Def, Program, TypeError, Value};
use slotmap::SecondaryMap;
use std::sync::Arc;

/// A nested program linearized.
pub(crate) struct Split {
    /// `params.. -> outputs.., residuals..`, without residuals that the caller has anyway.
    pub(crate) primal: Arc<Program>,
    /// Where the caller finds each residual of `linear`.
    pub(crate) residuals: Vec<Residual>,
    /// `residuals.., tangents.. -> tangents` of the outputs in `active`.
    pub(crate) linear: Arc<Program>,
    /// Number of outputs of the program.
    pub(crate) outputs: usize,
    /// Outputs with a tangent.
    pub(crate) active: Vec<usize>,
}

/// Where the owner of a nested program finds a residual.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Residual {
    /// Passed in as this parameter.
    Operand(usize),
    /// Given back as this output of the primal program.
    Result(usize),
}

impl Split {
    pub(crate) fn new(split: Linearized) -> Split {
        let mut outputs: Vec<Value> = split.primal.outputs()[..split.outputs].to_vec();
        let mut position: SecondaryMap<Value, usize> =
            outputs.iter().copied().enumerate().map(|(i, v)| (v, i)).collect();
        let mut residuals = Vec::with_capacity(split.residuals());
        for &v in split.residual_values() {
            residuals.push(match (split.primal.def(v), position.get(v)) {
                (Def::Param(i), _) => Residual::Operand(i),
                (Def::Result(..), Some(&i)) => Residual::Result(i),
                (Def::Result(..), None) => {
                    position.insert(v, outputs.len());
                    outputs.push(v);
                    Residual::Result(outputs.len() - 1)
                }
            });
        }
        Split {
            primal: Arc::new(split.primal.with_outputs(&outputs)),
            residuals,
            linear: Arc::new(split.linear),
            outputs: split.outputs,
            active: split.active,
        }
    }

    /// The two programs on their own, the residuals as outputs of the primal one.
    pub(crate) fn linearized(self) -> Linearized {
        let residuals = self.residuals_in(&self.primal);
        let outputs = [&self.primal.outputs()[..self.outputs], &residuals].concat();
        Linearized {
            primal: Arc::unwrap_or_clone(self.primal).with_outputs(&outputs),
            linear: Arc::unwrap_or_clone(self.linear),
            outputs: self.outputs,
            active: self.active,
        }
    }
}

/// A nested program transposed.
pub(crate) struct Transposed {
    /// `known params.., cotangents of params so far.., cotangents of outputs.. -> cotangents of params`, those listed
    /// in `active`.
    pub(crate) program: Arc<Program>,
    /// Parameters to whose cotangent the program contributes.
    pub(crate) active: Vec<usize>,
}

/// A nested program batched.
pub(crate) struct Lanes {
    /// The program with lanes in those parameters that the caller has lanes for.
    pub(crate) program: Arc<Program>,
    /// Where the lanes of each output are, if it has any.
    pub(crate) axes: Vec<Option<usize>>,
}

/// Nested programs already transformed, by address and by how parameters and outputs take part: a program
/// called many times is transformed once. Entries hold the program, so that no address is reused.
#[derive(Default)]
pub(crate) struct Nested {
    linearized: IndexMap<(usize, Vec<bool>), (Arc<Program>, Arc<Split>)>,
    checkpointed: IndexMap<(usize, Vec<bool>, Keep), (Arc<Program>, Arc<Split>)>,
    transposed: IndexMap<(usize, [Vec<bool>; 3]), (Arc<Program>, Arc<Transposed>)>,
    /// Calls with operands that are passed more than once, by which operands are equal.
    merged: IndexMap<(usize, Vec<usize>), (Arc<Program>, Arc<Program>)>,
    /// For one number of lanes: that of the batching under way.
    batched: IndexMap<(usize, Vec<Option<usize>>), (Arc<Program>, Arc<Lanes>)>,
}

impl Nested {
    /// The linearization of a nested program with respect to these of its parameters.
    pub(crate) fn linearized(
        &mut self,
        autodiff: &Autodiff,
        program: &Arc<Program>,
        active: &[bool],
    ) -> Result<Arc<Split>, Failure> {
        let wrt: Vec<usize> = (0..active.len()).filter(|&i| active[i]).collect();
        let key = (Arc::as_ptr(program) as usize, active.to_vec());
        if let Some((_, known)) = self.linearized.get(&key) {
            return Ok(known.clone());
        }
        let split = linearize_program(autodiff, self, program, &wrt)
            .map_err(|error| Failure::Nested(Box::new(error)))?;
        let split = Arc::new(Split::new(split));
        self.linearized.insert(key, (program.clone(), split.clone()));
        Ok(split)
    }

    /// The linearization of a called program with respect to these of its parameters.
    pub(crate) fn call_linearized(
        &mut self,
        autodiff: &Autodiff,
        call: &Call,
        active: &[bool],
    ) -> Result<Arc<Split>, Failure> {
        let split = self.linearized(autodiff, &call.program, active)?;
        let Some(keep) = &call.checkpoint else { return Ok(split) };
        let key = (Arc::as_ptr(&call.program) as usize, active.to_vec(), keep.clone());
        if let Some((_, known)) = self.checkpointed.get(&key) {
            return Ok(known.clone());
        }
        let split = Arc::new(checkpointed(&split, &call.program, keep)?);
        self.checkpointed.insert(key, (call.program.clone(), split.clone()));
        Ok(split)
    }

    /// The same call with each operand passed once.
    pub(crate) fn merged(&mut self, call: &Call, operands: &[Value]) -> Result<(Call, Values), TypeError> {
        let distinct: IndexSet<Value> = operands.iter().copied().collect();
        let places: Vec<usize> = operands.iter().filter_map(|v| distinct.get_index_of(v)).collect();
        let operands = distinct.into_iter().collect();
        let key = (Arc::as_ptr(&call.program) as usize, places);
        if let Some((_, known)) = self.merged.get(&key) {
            return Ok((call.with_program(known), operands));
        }
        let mut builder = Builder::new(call.program.name());
        let mut params: Vec<Value> = Vec::new();
        for (&place, ty) in key.1.iter().zip(call.program.param_types()) {
            if place == params.len() {
                params.push(builder.param(ty));
            }
        }
        let args: Vec<Value> = key.1.iter().map(|&place| params[place]).collect();
        let outputs = builder.inline(&call.program, &args)?;
        let program = Arc::new(builder.finish(&outputs));
        self.merged.insert(key, (call.program.clone(), program.clone()));
        Ok((call.with_program(&program), operands))
    }

    /// The transpose of a nested program in these of its parameters, for those outputs that have cotangents. The
    /// cotangents of parameters that are `started` go on from what is passed in.
    pub(crate) fn transposed(
        &mut self,
        autodiff: &Autodiff,
        program: &Arc<Program>,
        linear: &[bool],
        seeded: &[bool],
        started: &[bool],
    ) -> Result<Arc<Transposed>, Failure> {
        let masks = [linear, seeded, started].map(<[bool]>::to_vec);
        let key = (Arc::as_ptr(program) as usize, masks);
        if let Some((_, known)) = self.transposed.get(&key) {
            return Ok(known.clone());
        }
        let transposed = transpose_program(autodiff, self, program, linear, seeded, started)
            .map_err(|error| Failure::Nested(Box::new(error)))?;
        let transposed = Arc::new(transposed);
        self.transposed.insert(key, (program.clone(), transposed.clone()));
        Ok(transposed)
    }

    /// A nested program on `size` lanes of its parameters along these axes.
    pub(crate) fn batched(
        &mut self,
        autodiff: &Autodiff,
        program: &Arc<Program>,
        axes: &[Option<usize>],
        size: usize,
    ) -> Result<Arc<Lanes>, Failure> {
        let key = (Arc::as_ptr(program) as usize, axes.to_vec());
        if let Some((_, known)) = self.batched.get(&key) {
            return Ok(known.clone());
        }
        let (batched, axes) = batch_program(autodiff, self, program, axes, size)
            .map_err(|error| Failure::Nested(Box::new(error)))?;
        let lanes = Arc::new(Lanes { program: Arc::new(batched), axes });
        self.batched.insert(key, (program.clone(), lanes.clone()));
        Ok(lanes)
    }
}

/// The transpose of a program as a program: known parameters, then cotangents of parameters as far as they have come,
/// then cotangents of the outputs that have one.
pub(crate) fn transpose_program(
    autodiff: &Autodiff,
    nested: &mut Nested,
    program: &Program,
    linear: &[bool],
    seeded: &[bool],
    started: &[bool],
) -> Result<Transposed, AdError> {
    let mut builder = Builder::new(&format!("{}_transpose", program.name()));
    let mut params = |values: &[Value], wanted: &mut dyn FnMut(usize) -> bool| -> Vec<Option<Value>> {
        let param = |(i, &v): (usize, &Value)| wanted(i).then(|| builder.param(program.ty(v).clone()));
        values.iter().enumerate().map(param).collect()
    };
    let args = params(program.params(), &mut |i| !linear[i]);
    let starts = params(program.params(), &mut |i| started[i]);
    let cotangents = params(program.outputs(), &mut |i| seeded[i]);
    let ends = Ends { starts: &starts, cotangents: &cotangents };
    let results = transpose_into(autodiff, nested, &mut builder, program, &args, ends)?;
    let active: Vec<usize> = (0..results.len()).filter(|&i| results[i].is_some()).collect();
    let outputs: Vec<Value> = results.into_iter().flatten().collect();
    Ok(Transposed { program: Arc::new(builder.finish(&outputs)), active })
}

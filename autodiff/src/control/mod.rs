//! Rules of ops that hold programs or leave the language, and the memory of nested programs already transformed.

pub(crate) mod call;
pub(crate) mod custom_call;

use crate::batch::batch_program;
use crate::error::AdError;
use crate::linearize::{Failure, linearize_program};
use crate::options::Autodiff;
use crate::transpose::transpose_into;
use indexmap::IndexMap;
use pullback_ir::rules::Arg;
use pullback_ir::{Batched, Builder, Program, Value};
use std::sync::Arc;

/// Nested programs already transformed, by address and by how parameters and outputs take part: a program
/// called many times is transformed once. Entries hold the program, so that no address is reused.
#[derive(Default)]
pub(crate) struct Nested {
    linearized: IndexMap<(usize, Vec<bool>), (Arc<Program>, Arc<call::Linearized>)>,
    transposed: IndexMap<(usize, Vec<bool>, Vec<bool>), (Arc<Program>, Arc<call::Transposed>)>,
    /// For one number of lanes: that of the batching under way.
    batched: IndexMap<(usize, Vec<Option<usize>>), (Arc<Program>, Arc<call::Lanes>)>,
}

impl Nested {
    /// The linearization of a nested program with respect to the parameters whose operands have tangents.
    pub(crate) fn linearized(
        &mut self,
        autodiff: &Autodiff,
        program: &Arc<Program>,
        tangents: &[Option<Value>],
    ) -> Result<Arc<call::Linearized>, Failure> {
        let mask: Vec<bool> = tangents.iter().map(Option::is_some).collect();
        let wrt: Vec<usize> = (0..mask.len()).filter(|&i| mask[i]).collect();
        let key = (Arc::as_ptr(program) as usize, mask);
        if let Some((_, known)) = self.linearized.get(&key) {
            return Ok(known.clone());
        }
        let split = linearize_program(autodiff, self, program, &wrt)
            .map_err(|error| Failure::Nested(Box::new(error)))?;
        let linearized = Arc::new(call::Linearized::new(split));
        self.linearized.insert(key, (program.clone(), linearized.clone()));
        Ok(linearized)
    }

    /// The transpose of a nested program in the parameters whose operands are linear, for the outputs that have
    /// cotangents.
    pub(crate) fn transposed(
        &mut self,
        autodiff: &Autodiff,
        program: &Arc<Program>,
        args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Arc<call::Transposed>, Failure> {
        let linear: Vec<bool> = args.iter().map(Arg::is_linear).collect();
        let seeded: Vec<bool> = cotangents.iter().map(Option::is_some).collect();
        let key = (Arc::as_ptr(program) as usize, linear.clone(), seeded.clone());
        if let Some((_, known)) = self.transposed.get(&key) {
            return Ok(known.clone());
        }
        let transposed = transpose_program(autodiff, self, program, &linear, &seeded)
            .map_err(|error| Failure::Nested(Box::new(error)))?;
        let transposed = Arc::new(transposed);
        self.transposed.insert(key, (program.clone(), transposed.clone()));
        Ok(transposed)
    }

    /// A nested program on `size` lanes of those parameters whose operands have them.
    pub(crate) fn batched(
        &mut self,
        autodiff: &Autodiff,
        program: &Arc<Program>,
        args: &[Batched],
        size: usize,
    ) -> Result<Arc<call::Lanes>, Failure> {
        let axes: Vec<Option<usize>> = args.iter().map(|arg| arg.axis).collect();
        let key = (Arc::as_ptr(program) as usize, axes.clone());
        if let Some((_, known)) = self.batched.get(&key) {
            return Ok(known.clone());
        }
        let (batched, axes) = batch_program(autodiff, self, program, &axes, size)
            .map_err(|error| Failure::Nested(Box::new(error)))?;
        let lanes = Arc::new(call::Lanes { program: Arc::new(batched), axes });
        self.batched.insert(key, (program.clone(), lanes.clone()));
        Ok(lanes)
    }
}

/// The transpose of a program as a program: known parameters, then cotangents of the outputs that have one.
fn transpose_program(
    autodiff: &Autodiff,
    nested: &mut Nested,
    program: &Program,
    linear: &[bool],
    seeded: &[bool],
) -> Result<call::Transposed, AdError> {
    let mut builder = Builder::new(&format!("{}_transpose", program.name()));
    let mut params = |values: &[Value], wanted: &mut dyn FnMut(usize) -> bool| -> Vec<Option<Value>> {
        let param = |(i, &v): (usize, &Value)| wanted(i).then(|| builder.param(program.ty(v).clone()));
        values.iter().enumerate().map(param).collect()
    };
    let args = params(program.params(), &mut |i| !linear[i]);
    let cotangents = params(program.outputs(), &mut |i| seeded[i]);
    let results = transpose_into(autodiff, nested, &mut builder, program, &args, &cotangents)?;
    let active: Vec<usize> = (0..results.len()).filter(|&i| results[i].is_some()).collect();
    let outputs: Vec<Value> = results.into_iter().flatten().collect();
    Ok(call::Transposed { program: Arc::new(builder.finish(&outputs)), active })
}

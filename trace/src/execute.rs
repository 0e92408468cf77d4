//! Running programs and single ops on arrays.

use crate::apply::apply_program;
use crate::error::Error;
use crate::tensor::Tensor;
use pullback_ir::{Loc, Op, Program};
use pullback_runtime::eval::evaluate_arrays;
use pullback_runtime::{Array, RuntimeError, interpret};

/// The results of one op.
pub(crate) fn run_op(op: &Op, operands: &[Array], loc: Loc) -> Result<Vec<Array>, Error> {
    evaluate_arrays(op, loc, operands).map_err(from_runtime)
}

/// The outputs of a program.
pub(crate) fn run(program: &Program, arguments: &[Array]) -> Result<Vec<Array>, Error> {
    interpret(program, arguments).map_err(from_runtime)
}

/// A refused op is the same error whether it was recorded or run.
fn from_runtime(error: RuntimeError) -> Error {
    match error {
        RuntimeError::Type(error) => Error::Type(error),
        error => Error::Runtime(error),
    }
}

/// A program made ready to be run many times.
pub(crate) struct Executor {
    program: Program,
}

impl Executor {
    pub(crate) fn new(program: Program) -> Result<Executor, Error> {
        Ok(Executor { program })
    }

    /// The outputs: computed if the inputs are concrete, recorded if some are traced.
    pub(crate) fn call(&self, inputs: &[&Tensor], at: Loc) -> Result<Vec<Tensor>, Error> {
        apply_program(&self.program, inputs, at)
    }
}

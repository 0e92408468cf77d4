//! Running programs and single ops on arrays.

use crate::apply::{apply_program, arrays, called};
use crate::eager::is_checked;
use crate::error::Error;
use crate::tensor::Tensor;
use crate::trace::newest;
use pullback_ir::{Loc, Op, Program};
use pullback_lower::{Direct, Executable, Options, lower};
use pullback_runtime::eval::evaluate_arrays;
use pullback_runtime::{Array, Element, RuntimeError, check_results, interpret, interpret_checked};
use std::sync::OnceLock;

/// The results of one op.
pub(crate) fn run_op(op: &Op, operands: &[Array], loc: Loc) -> Result<Vec<Array>, Error> {
    let results = evaluate_arrays(op, loc, operands).map_err(from_runtime)?;
    if is_checked() {
        check_results(op.name(), loc, operands, &results).map_err(from_runtime)?;
    }
    Ok(results)
}

/// The outputs of a program.
pub(crate) fn run(program: &Program, arguments: &[Array]) -> Result<Vec<Array>, Error> {
    let run = if is_checked() { interpret_checked } else { interpret };
    run(program, arguments).map_err(from_runtime)
}

/// A refused op is the same error whether it was recorded or run.
pub(crate) fn from_runtime(error: RuntimeError) -> Error {
    match error {
        RuntimeError::Type(error) => Error::Type(error),
        error => Error::Runtime(error),
    }
}

/// How a program is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Backend {
    /// As machine code.
    #[default]
    Compiled,
    /// By the reference interpreter.
    Interpreted,
}

/// A program that is run many times.
pub(crate) struct Executor {
    program: Program,
    backend: Backend,
    /// Made when it is first needed: a program that is only recorded into others never is.
    code: OnceLock<Executable>,
}

impl Executor {
    pub(crate) fn new(program: Program, backend: Backend) -> Executor {
        Executor { program, backend, code: OnceLock::new() }
    }

    /// With code that exists already.
    pub(crate) fn with_code(program: Program, code: Executable) -> Executor {
        Executor { program, backend: Backend::Compiled, code: OnceLock::from(code) }
    }

    /// The outputs: computed if the inputs are concrete, recorded if some are traced.
    pub(crate) fn call(&self, inputs: &[&Tensor], at: Loc) -> Result<Vec<Tensor>, Error> {
        if self.backend == Backend::Interpreted || newest(inputs).is_some() || is_checked() {
            return apply_program(&self.program, inputs, at);
        }
        let arrays = arrays(inputs)?;
        let outputs = self.code()?.call(&arrays).map_err(from_runtime)?;
        Ok(called(&self.program, inputs, arrays, outputs, at))
    }

    /// The program as a function of numbers, its last parameters set to these tensors.
    pub(crate) fn direct<T: Element, const I: usize, const O: usize>(
        &self,
        bound: &[Tensor],
    ) -> Result<Direct<T, I, O>, Error> {
        let bound = arrays(&bound.iter().collect::<Vec<_>>())?;
        self.code()?.direct(&bound).map_err(from_runtime)
    }

    fn code(&self) -> Result<&Executable, Error> {
        if let Some(code) = self.code.get() {
            return Ok(code);
        }
        let code = lower(&self.program, &Options::default())?.compile()?;
        Ok(self.code.get_or_init(|| code))
    }
}

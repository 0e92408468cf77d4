//! Ops that hold programs or leave the language.

pub mod barrier;
pub mod branch;
pub mod call;
pub mod custom_call;
pub mod custom_jvp;
pub mod custom_linear;
pub mod custom_rule;
pub mod custom_vjp;
pub mod looping;
pub mod offer;

use crate::error::Problem;
use crate::program::Program;
use crate::shape::TensorType;

/// Checks that the types are those of a program's parameters. `what` names the program.
fn check_params(what: &str, program: &Program, found: &[TensorType]) -> Result<(), Problem> {
    let expected = program.param_types();
    if expected.len() != found.len() {
        let text = format!(
            "{what} has {} parameters, and {} operands are passed to it; pass one for each",
            expected.len(),
            found.len()
        );
        return Err(Problem::Constraint(text));
    }
    match expected.iter().zip(found).position(|(expected, found)| expected != found) {
        None => Ok(()),
        Some(i) => Err(Problem::Constraint(format!(
            "parameter {i} of {what} is {}, and {} is passed to it; pass that type",
            expected[i], found[i]
        ))),
    }
}

/// Checks the parameters and outputs of a program. `what` names it.
fn check_signature(
    what: &str,
    program: &Program,
    params: &[TensorType],
    outputs: &[TensorType],
) -> Result<(), Problem> {
    check_params(what, program, params)?;
    let found = program.output_types();
    if found == outputs {
        return Ok(());
    }
    Err(Problem::Constraint(format!("{what} gives {found:?}, and {outputs:?} is due; return these types")))
}

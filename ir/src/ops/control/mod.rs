//! Ops that hold programs or leave the language.

pub mod barrier;
pub mod branch;
pub mod call;
pub mod custom_call;
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

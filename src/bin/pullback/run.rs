//! Running a program on arguments from the command line.

use crate::input::Failure;
use pullback::ir::text::parse_literal;
use pullback::ir::{Program, TensorType};
use pullback::runtime::{Array, interpret};
use pullback_lower::{Options, lower};

/// Runs the program, compiled or interpreted, and returns its outputs, one per line.
pub(crate) fn run(program: &Program, arguments: &[String], interpreted: bool) -> Result<String, Failure> {
    let arguments = parse_arguments(program, arguments)?;
    let outputs = if interpreted {
        interpret(program, &arguments)
    } else {
        let executable = lower(program, &Options::default()).and_then(|lowered| lowered.compile());
        executable.map_err(|error| Failure::Input(error.to_string()))?.call(&arguments)
    };
    let outputs = outputs.map_err(|error| Failure::Input(error.to_string()))?;
    Ok(outputs.iter().map(|output| format!("{}\n", output.to_literal().with_canonical_nans())).collect())
}

/// Reads one argument per parameter.
fn parse_arguments(program: &Program, arguments: &[String]) -> Result<Vec<Array>, Failure> {
    let types = program.param_types();
    if types.len() != arguments.len() {
        let list: Vec<String> = types.iter().map(|ty| ty.to_string()).collect();
        return Err(Failure::Input(format!(
            "@{} takes {} arguments ({}), and {} are given",
            program.name(),
            types.len(),
            list.join(", "),
            arguments.len()
        )));
    }
    let parse = |(i, (ty, text)): (usize, (&TensorType, &String))| {
        let literal = parse_literal(ty, text)
            .map_err(|error| Failure::Input(format!("argument {i}, which must be {ty}: {error}")))?;
        Ok(Array::from_literal(&literal))
    };
    types.iter().zip(arguments).enumerate().map(parse).collect()
}

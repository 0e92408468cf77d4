//! What the tests of machine code share.

// Each test file uses a part of this.
#![allow(dead_code)]

use pullback_ir::sample::{Domain, Sample, SampleOperand};
use pullback_ir::{Program, TensorType};
use pullback_lower::{Options, lower};
use pullback_runtime::{Array, interpret};

/// Runs a program both ways and compares bits; what differs, as text.
pub(crate) fn differences(program: &Program, arguments: &[Array], options: &Options) -> Option<String> {
    let expected = interpret(program, arguments);
    let lowered = match lower(program, options) {
        Ok(lowered) => lowered,
        Err(error) => return Some(error.to_string()),
    };
    let executable = match lowered.compile() {
        Ok(executable) => executable,
        Err(error) => return Some(format!("{error}\n{lowered}")),
    };
    for _ in 0..2 {
        let found = executable.call(arguments);
        match (&expected, &found) {
            (Err(expected), Err(found)) if expected == found => {}
            (Ok(expected), Ok(found)) => {
                for (i, (expected, found)) in expected.iter().zip(found).enumerate() {
                    if let Some(difference) = expected.first_difference(found) {
                        return Some(format!("output {i}: {difference:?}\n{lowered}"));
                    }
                }
            }
            (expected, found) => return Some(format!("{expected:?} against {found:?}")),
        }
    }
    None
}

/// Arguments of these types: small numbers of both signs, with ties.
pub(crate) fn arguments(types: &[TensorType], seed: u64) -> Vec<Array> {
    let operand = |ty: &TensorType| {
        let domain = if ty.dtype.is_float() { Domain::Uniform(-2.0, 2.0) } else { Domain::Any };
        SampleOperand::new(ty.clone(), domain)
    };
    let operands = types.iter().map(operand).collect();
    let sample = Sample::new(pullback_ir::ops::elementwise::select::Select, operands);
    sample.literals(seed).iter().map(Array::from_literal).collect()
}

//! Machine code gives the bits of the interpreter: every op on every sample, in registers and in loops.

mod common;

use common::differences;
use pullback_ir::ops::control::custom_call::SAMPLE_TARGET;
use pullback_ir::sample::Sample;
use pullback_ir::{Builder, Op, Program};
use pullback_lower::Options;
use pullback_runtime::Array;
use pullback_runtime::eval::control::custom_call::register;

fn register_samples() {
    register(SAMPLE_TARGET, 1, |_, inputs, outputs| {
        let x = inputs[0].as_slice::<f64>().map_err(|e| e.to_string())?;
        let y = outputs[0].as_mut_slice::<f64>().map_err(|e| e.to_string())?;
        y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
        Ok(())
    });
}

fn sample_program(sample: &Sample) -> Program {
    let mut builder = Builder::new("sample");
    let params: Vec<_> = sample.operands.iter().map(|operand| builder.param(operand.ty.clone())).collect();
    let results = builder.emit(sample.op.clone(), &params).expect("samples are well typed");
    builder.finish(&results)
}

fn check_samples(options: &Options) {
    register_samples();
    let mut failures = Vec::new();
    let mut count = 0;
    for family in Op::ALL {
        for sample in (family.samples)() {
            count += 1;
            let program = sample_program(&sample);
            let arguments: Vec<Array> = sample.literals(7).iter().map(Array::from_literal).collect();
            if let Some(difference) = differences(&program, &arguments, options) {
                failures.push(format!("{:?} on {:?}: {difference}", sample.op, program.param_types()));
            }
        }
    }
    failures.iter().take(5).for_each(|failure| println!("{failure}\n"));
    assert!(failures.is_empty(), "{} of {count} samples differ", failures.len());
}

#[test]
fn samples_in_registers() {
    check_samples(&Options::default());
}

#[test]
fn samples_in_loops() {
    check_samples(&Options { small: 0 });
}

//! Loops and branches as machine code: the bits of the interpreter, for programs and their derivatives of every order
//! and mix of modes, on any number of threads.

use pullback::ir::Program;
use pullback::runtime::{Array, interpret};
use pullback_autodiff::{batch, grad, jvp, linearize, vjp};
use pullback_lower::{Options, lower};

/// Functions of one number, and where they are tried.
const PROGRAMS: [(&str, &[f64]); 5] = [
    (include_str!("../snapshots/control/newton.ir"), &[1.0, 1.6, 2.0, 60.0]),
    (include_str!("../snapshots/control/fall.ir"), &[2.0, 0.1, -3.0]),
    (include_str!("../snapshots/control/nested.ir"), &[0.7, -0.4]),
    (include_str!("../snapshots/control/choice.ir"), &[-0.4, 1.6, 60.0]),
    (include_str!("../snapshots/control/ragged.ir"), &[3.4, 0.5, 6.2]),
];

/// Runs a program both ways, several times with the same executable, and compares the bits.
#[track_caller]
fn check(program: &Program, arguments: &[Array]) -> Vec<Array> {
    let expected = interpret(program, arguments).unwrap();
    for small in [64, 0] {
        let executable = lower(program, &Options { small }).unwrap().compile().unwrap();
        for _ in 0..3 {
            let found = executable.call(arguments).unwrap();
            for (found, expected) in found.iter().zip(&expected) {
                if let Some(difference) = found.first_difference(expected) {
                    panic!("{difference}\n{program}");
                }
            }
        }
    }
    expected
}

#[test]
fn programs_and_their_derivatives() {
    for (text, points) in PROGRAMS {
        let f = Program::parse(text).unwrap();
        for &x in points {
            let x = Array::from(x);
            check(&f, &[x.clone()]);
            let first = [grad(&f, &[0]).unwrap(), jvp(&f, &[0]).unwrap()];
            check(&first[0], &[x.clone()]);
            check(&first[1], &[x.clone(), Array::from(1.0)]);
            for (f, arguments) in first.iter().zip([1, 2]) {
                let arguments = vec![x.clone(); arguments];
                let second = vjp(f, &[0]).unwrap();
                let cotangents = vec![Array::from(1.0); f.outputs().len()];
                check(&second, &[arguments, cotangents].concat());
            }
            let second = grad(&first[0], &[0]).unwrap();
            check(&grad(&second, &[0]).unwrap(), &[x]);
        }
    }
}

#[test]
fn stacks_go_in_and_out() {
    for (text, points) in PROGRAMS {
        let f = Program::parse(text).unwrap();
        let linearized = linearize(&f, &[0]).unwrap();
        let outputs = check(&linearized.primal, &[Array::from(points[0])]);
        let residuals = outputs[linearized.outputs..].to_vec();
        check(&linearized.linear, &[residuals, vec![Array::from(1.0)]].concat());
    }
}

/// Lanes that end after different numbers of iterations, and take different arms.
#[test]
fn lanes_go_their_own_ways() {
    for (text, points) in PROGRAMS {
        let f = Program::parse(text).unwrap();
        let lanes = Array::vector(points);
        let first = grad(&f, &[0]).unwrap();
        for program in [f, grad(&first, &[0]).unwrap(), first] {
            let batched = batch(&program, &[Some(0)], &[Some(0)], points.len()).unwrap();
            let found = check(&batched, std::slice::from_ref(&lanes)).remove(0).to_vec::<f64>().unwrap();
            for (&x, found) in points.iter().zip(found) {
                let due = interpret(&program, &[Array::from(x)]).unwrap()[0].item::<f64>().unwrap();
                assert_eq!(found, due, "at {x}\n{program}");
            }
        }
    }
}

/// The derivative of a sum over lanes: batched first, differentiated after.
#[test]
fn derivatives_of_lanes() {
    for (text, points) in PROGRAMS {
        let f = Program::parse(text).unwrap();
        let batched = batch(&f, &[Some(0)], &[Some(0)], points.len()).unwrap();
        let ones = Array::vector(&vec![1.0; points.len()]);
        let found = check(&vjp(&batched, &[0]).unwrap(), &[Array::vector(points), ones]).remove(1);
        let slope = grad(&f, &[0]).unwrap();
        for (&x, found) in points.iter().zip(found.to_vec::<f64>().unwrap()) {
            let due = interpret(&slope, &[Array::from(x)]).unwrap()[0].item::<f64>().unwrap();
            assert!((found - due).abs() <= 1e-12 * due.abs().max(1.0), "{found}, and {due} is due at {x}");
        }
    }
}

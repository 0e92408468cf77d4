//! Random programs and their derivatives on several lanes at once, against a loop over the lanes.

#[allow(dead_code)] // Each test takes what it needs.
#[path = "harness/generate.rs"]
mod generate;
#[path = "harness/properties.rs"]
mod properties;

use generate::{Generated, Style, sample_contracts};
use properties::{Checked, for_programs, given, same_bits};
use proptest::prop_assert;
use proptest::test_runner::TestCaseError;
use pullback::autodiff::Autodiff;
use pullback::ir::sample::{Domain, SampleOperand};
use pullback::ir::{Literal, Program, TensorType};
use pullback::runtime::{Array, RuntimeError, interpret};

/// Arrays of one type, one after the other along a new first axis.
fn stacked<'a>(ty: &TensorType, lanes: impl ExactSizeIterator<Item = &'a Array>) -> Array {
    let shape: Vec<usize> = [lanes.len()].iter().chain(ty.shape.iter()).copied().collect();
    let bits = lanes.flat_map(|lane| lane.to_literal().bits().collect::<Vec<u64>>()).collect();
    Array::from_literal(&Literal::dense_bits(ty.with_shape(&shape[..]), bits).unwrap())
}

/// Lane `number` of an array along axis 0.
fn lane(array: &Array, number: usize) -> Array {
    let ty = array.ty().with_shape(array.shape().without(&[0]));
    let (literal, n) = (array.to_literal(), ty.shape.elements());
    let bits = (number * n..(number + 1) * n).map(|place| literal.bits_at(place)).collect();
    Array::from_literal(&Literal::dense_bits(ty, bits).unwrap())
}

/// The program on lanes in the parameters that have them, against a loop over the lanes: the same bits, and a failure
/// where one of the lanes fails.
fn same_lanes(
    autodiff: &Autodiff,
    program: &Program,
    lanes: &[Vec<Array>],
    has_lanes: impl Fn(usize) -> bool,
) -> Checked {
    let types = program.param_types();
    let in_axes: Vec<Option<usize>> = (0..types.len()).map(|i| has_lanes(i).then_some(0)).collect();
    let out_axes = vec![Some(0); program.outputs().len()];
    let batched = given(autodiff.batch(program, &in_axes, &out_axes, lanes.len()), "batch")?;
    given(batched.verify(), "verify")?;
    let argument = |i: usize| match in_axes[i] {
        Some(_) => stacked(&types[i], lanes.iter().map(|lane| &lane[i])),
        None => lanes[0][i].clone(),
    };
    let found = interpret(&batched, &(0..types.len()).map(argument).collect::<Vec<_>>());
    let due = (0..lanes.len()).map(|number| {
        let own = |i: usize| lanes[if has_lanes(i) { number } else { 0 }][i].clone();
        interpret(program, &(0..types.len()).map(own).collect::<Vec<_>>())
    });
    compare_lanes(&due.collect(), &found, same_bits)
}

/// Compares the outputs of each lane if no lane fails, and else expects a failure.
fn compare_lanes(
    due: &Result<Vec<Vec<Array>>, RuntimeError>,
    found: &Result<Vec<Array>, RuntimeError>,
    compare: impl Fn(&[Array], &[Array], &str) -> Checked,
) -> Checked {
    match (due, found) {
        (Ok(due), Ok(found)) => {
            for (number, due) in due.iter().enumerate() {
                let found: Vec<Array> = found.iter().map(|found| lane(found, number)).collect();
                compare(due, &found, &format!("lane {number}"))?;
            }
            Ok(())
        }
        (Err(_), Err(_)) => Ok(()),
        (Ok(_), Err(error)) => Err(TestCaseError::fail(format!("no lane fails: {error}"))),
        (Err(error), Ok(_)) => Err(TestCaseError::fail(format!("a lane fails: {error}"))),
    }
}

/// Whether a parameter has lanes: as good as at random.
fn some_params(generated: &Generated) -> impl Fn(usize) -> bool {
    let seed = generated.seed();
    move |i| seed >> (i % 8) & 1 == 1
}

#[test]
fn lanes_have_the_bits_of_a_loop() {
    let autodiff = Autodiff { contracts: sample_contracts(), ..Autodiff::default() };
    for_programs(Style::Any, |generated| {
        let lanes: Vec<Vec<Array>> =
            (0..1 + generated.seed() % 3).map(|lane| generated.arguments_of(lane)).collect();
        same_lanes(&autodiff, &generated.program, &lanes, |_| true)?;
        same_lanes(&autodiff, &generated.program, &lanes, some_params(generated))
    });
}

#[test]
fn lanes_of_derivatives_have_the_bits_of_a_loop() {
    let autodiff = Autodiff { contracts: sample_contracts(), ..Autodiff::default() };
    for_programs(Style::Smooth, |generated| {
        let program = &generated.program.inline_calls();
        let params = program.param_types();
        let wrt: Vec<usize> = (0..params.len()).filter(|&i| params[i].dtype.is_float()).collect();
        let vjp = given(autodiff.vjp(program, &wrt), "vjp")?;
        let outputs = program.output_types().into_iter().filter(|ty| ty.dtype.is_float());
        let cotangents = outputs.map(|ty| SampleOperand::new(ty, Domain::Uniform(-1.0, 1.0)));
        let vjp = generated.derived(vjp, cotangents);
        let lanes: Vec<Vec<Array>> = (0..3).map(|lane| vjp.arguments_of(lane)).collect();
        same_lanes(&autodiff, &vjp.program, &lanes, |_| true)?;
        same_lanes(&autodiff, &vjp.program, &lanes, some_params(generated))?;
        // The derivative of the batched program is the batched derivative.
        let some = |n: usize| vec![Some(0); n];
        let (inputs, outputs) = (some(params.len()), some(program.outputs().len()));
        let batched = given(autodiff.batch(program, &inputs, &outputs, 3), "batch")?;
        let derived = given(autodiff.vjp(&batched, &wrt), "vjp of lanes")?;
        let types = vjp.program.param_types();
        let argument = |i: usize| stacked(&types[i], lanes.iter().map(|lane| &lane[i]));
        let found = interpret(&derived, &(0..types.len()).map(argument).collect::<Vec<_>>());
        let due = lanes.iter().map(|own| interpret(&vjp.program, own)).collect();
        compare_lanes(&due, &found, close)
    });
}

/// Equal but for the order of sums: 1e-9 relative to the largest element.
fn close(due: &[Array], found: &[Array], what: &str) -> Checked {
    for (due, found) in due.iter().zip(found) {
        let (Ok(due), Ok(found)) = (due.to_vec::<f64>(), found.to_vec::<f64>()) else {
            prop_assert!(due.bits_equal(found), "{what}: {due} against {found}");
            continue;
        };
        let largest = due.iter().filter(|x| x.is_finite()).fold(0.0f64, |largest, x| largest.max(x.abs()));
        for (due, found) in due.iter().zip(&found) {
            let is_close =
                due == found || due.is_nan() && found.is_nan() || (due - found).abs() <= 1e-9 * largest;
            prop_assert!(is_close, "{what}: {found:e} instead of {due:e}");
        }
    }
    Ok(())
}

//! Properties of random programs. A failure prints the seed and the program; `PULLBACK_CASES` sets how many are tried.

#[allow(dead_code)] // Each test takes what it needs.
#[path = "harness/generate.rs"]
mod generate;

use generate::{Generated, Style, generate, register_sample_kernel};
use pullback::ir::ops::control::custom_call::{CustomCall, SAMPLE_TARGET};
use pullback::ir::passes::{cse, dce, fold, simplify, simplify_with};
use pullback::ir::sample::{Domain, SampleOperand};
use pullback::ir::{Literal, Op, Program, TensorType, text};
use pullback::runtime::{Array, Interpreter, RuntimeError, interpret};
use pullback_autodiff::{self as autodiff, Autodiff};
use pullback_lower::{Options, lower};

/// Runs a property on programs of several sizes.
fn for_programs(style: Style, property: impl Fn(u64, &Generated)) {
    register_sample_kernel();
    let cases = std::env::var("PULLBACK_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    for seed in 0..cases {
        let size = [3, 10, 30, 100][seed as usize % 4];
        let generated = generate(seed, size, style);
        let shown = ShowOnPanic(seed, &generated.program);
        property(seed, &generated);
        drop(shown);
    }
}

/// Prints the program under test if the test panics.
struct ShowOnPanic<'a>(u64, &'a Program);

impl Drop for ShowOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}\n{}", self.0, self.1);
        }
    }
}

fn assert_same_bits(expected: &[Array], found: &[Array], what: &str) {
    assert_eq!(expected.len(), found.len(), "{what}");
    for (i, (expected, found)) in expected.iter().zip(found).enumerate() {
        if let Some(difference) = expected.first_difference(found) {
            panic!("{what}: output {i}: {difference}");
        }
    }
}

/// The same outputs, or the same failure.
fn assert_same_outcome(
    expected: &Result<Vec<Array>, RuntimeError>,
    found: &Result<Vec<Array>, RuntimeError>,
    what: &str,
) {
    match (expected, found) {
        (Ok(expected), Ok(found)) => assert_same_bits(expected, found, what),
        (Ok(_), Err(error)) => panic!("{what}: {error}"),
        (Err(error), Ok(_)) => panic!("{what} does not fail: {error}"),
        (Err(expected), Err(found)) => assert_eq!(expected, found, "{what}"),
    }
}

#[test]
fn every_op_occurs() {
    let mut seen: Vec<&str> = Vec::new();
    for seed in 0..1500 {
        seen.extend(generate(seed, 60, Style::Any).program.op_counts().keys());
    }
    for name in Op::ALL.iter().flat_map(|family| (family.names)()) {
        assert!(seen.contains(&name), "{name}");
    }
}

#[test]
fn the_same_seed_gives_the_same_program() {
    for seed in 0..50 {
        let (one, two) = (generate(seed, 30, Style::Any), generate(seed, 30, Style::Any));
        assert_eq!(one.program.to_string(), two.program.to_string());
    }
}

#[test]
fn text_round_trips() {
    for_programs(Style::Any, |_, Generated { program, .. }| {
        program.verify().unwrap();
        let text = program.to_string();
        let parsed = Program::parse(&text).unwrap();
        assert_eq!(&parsed, program);
        assert_eq!(parsed.to_string(), text);
        assert_eq!(text::format(&text).unwrap(), format!("{text}\n"));
        assert_eq!(parsed.structural_hash(), program.structural_hash());
    });
}

#[test]
fn passes_keep_every_bit_and_every_failure() {
    let passes: [(&str, &dyn Fn(&Program) -> Program); 6] = [
        ("dce", &dce),
        ("cse", &cse),
        ("inline", &Program::inline_calls),
        ("fold", &|program| fold(program, &Interpreter)),
        ("simplify", &simplify),
        ("simplify with folding", &|program| simplify_with(program, &Interpreter)),
    ];
    for_programs(Style::Any, |seed, generated| {
        let arguments = generated.arguments(seed);
        let expected = interpret(&generated.program, &arguments);
        for (name, pass) in &passes {
            let after = pass(&generated.program);
            after.verify().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(after.param_types(), generated.program.param_types(), "{name}");
            assert_same_outcome(&expected, &interpret(&after, &arguments), name);
        }
    });
}

#[test]
fn machine_code_gives_the_bits_and_failures_of_the_interpreter() {
    for_programs(Style::Any, |seed, generated| {
        let arguments = generated.arguments(seed);
        let expected = interpret(&generated.program, &arguments);
        let executable = lower(&generated.program, &Options::default()).unwrap().compile().unwrap();
        for _ in 0..2 {
            assert_same_outcome(&expected, &executable.call(&arguments), "machine code");
        }
    });
}

/// Parameters that may be differentiated.
fn floats(program: &Program) -> Vec<usize> {
    (0..program.params().len()).filter(|&i| program.ty(program.params()[i]).dtype.is_float()).collect()
}

#[test]
fn derivatives_are_programs_that_simplify_exactly() {
    for_programs(Style::Smooth, |seed, generated| {
        let program = &generated.program.inline_calls();
        if program.op_counts().contains_key("custom_call") {
            return;
        }
        let wrt = floats(program);
        let linearized = autodiff::linearize(program, &wrt).unwrap();
        let vjp = autodiff::vjp(program, &wrt).unwrap();
        for derived in [&linearized.primal, &linearized.linear, &vjp, &autodiff::jvp(program, &wrt).unwrap()]
        {
            derived.verify().unwrap();
            assert_eq!(&Program::parse(&derived.to_string()).unwrap(), derived);
        }
        let outputs = program.output_types().into_iter().filter(|ty| ty.dtype.is_float());
        let cotangents = outputs.map(|ty| SampleOperand::new(ty, Domain::Uniform(-1.0, 1.0)));
        let generated = generated.derived(vjp, cotangents);
        let arguments = generated.arguments(seed);
        let expected = interpret(&generated.program, &arguments).unwrap();
        let simplified = simplify_with(&generated.program, &Interpreter);
        assert_same_bits(&expected, &interpret(&simplified, &arguments).unwrap(), "simplified vjp");
    });
}

/// Loops and branches cannot be batched yet.
fn can_batch(program: &Program) -> bool {
    let counts = program.op_counts();
    !counts.contains_key("loop") && !counts.contains_key("branch")
}

/// The transforms with a batch contract for the kernel that samples call, which works on each element by itself.
fn with_contract() -> Autodiff {
    let mut autodiff = Autodiff::default();
    autodiff.contracts.register_batch(SAMPLE_TARGET, 1, |call, batcher, args| {
        let (operands, axis) = batcher.aligned(args)?;
        let results = vec![batcher.builder.ty(operands[0]).clone()];
        batcher.one(CustomCall { results, ..call.clone() }, &operands, axis)
    });
    autodiff
}

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
fn assert_lanes(
    autodiff: &Autodiff,
    program: &Program,
    lanes: &[Vec<Array>],
    has_lanes: impl Fn(usize) -> bool,
) {
    let types = program.param_types();
    let in_axes: Vec<Option<usize>> = (0..types.len()).map(|i| has_lanes(i).then_some(0)).collect();
    let out_axes = vec![Some(0); program.outputs().len()];
    let batched = autodiff.batch(program, &in_axes, &out_axes, lanes.len()).unwrap();
    batched.verify().unwrap();
    let argument = |i: usize| match in_axes[i] {
        Some(_) => stacked(&types[i], lanes.iter().map(|lane| &lane[i])),
        None => lanes[0][i].clone(),
    };
    let found = interpret(&batched, &(0..types.len()).map(argument).collect::<Vec<_>>());
    let due = (0..lanes.len()).map(|number| {
        let own = |i: usize| lanes[if has_lanes(i) { number } else { 0 }][i].clone();
        interpret(program, &(0..types.len()).map(own).collect::<Vec<_>>())
    });
    compare_lanes(&due.collect(), &found, assert_same_bits);
}

/// Compares the outputs of each lane if no lane fails, and else expects a failure.
fn compare_lanes(
    due: &Result<Vec<Vec<Array>>, RuntimeError>,
    found: &Result<Vec<Array>, RuntimeError>,
    compare: impl Fn(&[Array], &[Array], &str),
) {
    match (due, found) {
        (Ok(due), Ok(found)) => {
            for (number, due) in due.iter().enumerate() {
                let found: Vec<Array> = found.iter().map(|found| lane(found, number)).collect();
                compare(due, &found, &format!("lane {number}"));
            }
        }
        (Err(_), Err(_)) => {}
        (Ok(_), Err(error)) => panic!("no lane fails: {error}"),
        (Err(error), Ok(_)) => panic!("a lane fails: {error}"),
    }
}

#[test]
fn lanes_have_the_bits_of_a_loop() {
    let autodiff = with_contract();
    for_programs(Style::Any, |seed, generated| {
        if !can_batch(&generated.program) {
            return;
        }
        let lanes: Vec<Vec<Array>> =
            (0..1 + seed % 3).map(|lane| generated.arguments(seed + 1000 * lane)).collect();
        assert_lanes(&autodiff, &generated.program, &lanes, |_| true);
        assert_lanes(&autodiff, &generated.program, &lanes, |i| seed >> (i % 8) & 1 == 1);
    });
}

#[test]
fn lanes_of_derivatives_have_the_bits_of_a_loop() {
    let autodiff = with_contract();
    for_programs(Style::Smooth, |seed, generated| {
        let program = &generated.program.inline_calls();
        if program.op_counts().contains_key("custom_call") || !can_batch(program) {
            return;
        }
        let vjp = autodiff.vjp(program, &floats(program)).unwrap();
        let outputs = program.output_types().into_iter().filter(|ty| ty.dtype.is_float());
        let cotangents = outputs.map(|ty| SampleOperand::new(ty, Domain::Uniform(-1.0, 1.0)));
        let vjp = generated.derived(vjp, cotangents);
        let lanes: Vec<Vec<Array>> = (0..3).map(|lane| vjp.arguments(seed + 1000 * lane)).collect();
        assert_lanes(&autodiff, &vjp.program, &lanes, |_| true);
        assert_lanes(&autodiff, &vjp.program, &lanes, |i| seed >> (i % 8) & 1 == 1);
        // The derivative of the batched program is the batched derivative.
        let some = |n: usize| vec![Some(0); n];
        let batched =
            autodiff.batch(program, &some(program.params().len()), &some(program.outputs().len()), 3);
        let derived = autodiff.vjp(&batched.unwrap(), &floats(program)).unwrap();
        let types = vjp.program.param_types();
        let argument = |i: usize| stacked(&types[i], lanes.iter().map(|lane| &lane[i]));
        let found = interpret(&derived, &(0..types.len()).map(argument).collect::<Vec<_>>());
        let due = lanes.iter().map(|own| interpret(&vjp.program, own)).collect();
        compare_lanes(&due, &found, |due, found, _| {
            due.iter().zip(found).for_each(|(due, found)| assert_close(due, found));
        });
    });
}

/// Equal but for the order of sums: 1e-9 relative to the largest element.
fn assert_close(due: &Array, found: &Array) {
    let (Ok(due), Ok(found)) = (due.to_vec::<f64>(), found.to_vec::<f64>()) else {
        return assert!(due.bits_equal(found), "{due} against {found}");
    };
    let largest = due.iter().filter(|x| x.is_finite()).fold(0.0f64, |largest, x| largest.max(x.abs()));
    for (due, found) in due.iter().zip(&found) {
        let is_close =
            due == found || due.is_nan() && found.is_nan() || (due - found).abs() <= 1e-9 * largest;
        assert!(is_close, "{found:e} instead of {due:e}");
    }
}

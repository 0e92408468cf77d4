//! Properties of random programs. A failure prints the seed and the program; `PULLBACK_CASES` sets how many are tried.

#[allow(dead_code)] // Each test takes what it needs.
#[path = "harness/generate.rs"]
mod generate;

use generate::{Generated, Style, generate, register_sample_kernel};
use pullback::ir::passes::{cse, dce, fold, simplify, simplify_with};
use pullback::ir::sample::{Domain, SampleOperand};
use pullback::ir::{Op, Program, text};
use pullback::runtime::{Array, Interpreter, RuntimeError, interpret};
use pullback_autodiff as autodiff;
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

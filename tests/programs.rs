//! Random programs as text, through the passes, and as machine code.

#[allow(dead_code)] // Each test takes what it needs.
#[path = "harness/generate.rs"]
mod generate;
#[path = "harness/properties.rs"]
mod properties;

use generate::{Generated, Style, generate};
use properties::{for_programs, given, same_outcome};
use proptest::{prop_assert, prop_assert_eq};
use pullback::ir::passes::{cse, dce, fold, simplify, simplify_with};
use pullback::ir::{Op, Program, text};
use pullback::runtime::{Interpreter, interpret};
use pullback_lower::{Options, lower};

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
    for_programs(Style::Any, |Generated { program, .. }| {
        given(program.verify(), "verify")?;
        let text = program.to_string();
        let parsed = given(Program::parse(&text), "parse")?;
        prop_assert!(parsed == *program);
        prop_assert_eq!(parsed.to_string(), &text[..]);
        prop_assert_eq!(given(text::format(&text), "format")?, format!("{text}\n"));
        prop_assert_eq!(parsed.structural_hash(), program.structural_hash());
        Ok(())
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
    for_programs(Style::Any, |generated| {
        let arguments = generated.arguments();
        let expected = interpret(&generated.program, &arguments);
        for (name, pass) in &passes {
            let after = pass(&generated.program);
            given(after.verify(), name)?;
            prop_assert!(after.param_types() == generated.program.param_types(), "{name}");
            same_outcome(&expected, &interpret(&after, &arguments), name)?;
        }
        Ok(())
    });
}

#[test]
fn machine_code_gives_the_bits_and_failures_of_the_interpreter() {
    for_programs(Style::Any, |generated| {
        let arguments = generated.arguments();
        let expected = interpret(&generated.program, &arguments);
        let lowered = given(lower(&generated.program, &Options::default()), "lower")?;
        let executable = given(lowered.compile(), "compile")?;
        for _ in 0..2 {
            same_outcome(&expected, &executable.call(&arguments), "machine code")?;
        }
        Ok(())
    });
}

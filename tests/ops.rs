//! The table of ops in `docs/ops.md`: every op with every answer it gives, found out by asking. There may be no hole.
//!
//! `INSTA_UPDATE=always cargo test --test ops` writes the page anew.

use pullback::ir::recipe::Recipe;
use pullback::ir::rules::{Arg, RuleError};
use pullback::ir::sample::Sample;
use pullback::ir::{Builder, DType, Op, Program, TensorType};
use pullback_autodiff::{AdError, batch, linearize, vjp};
use std::fs;

const MISSING: &str = "missing";

fn types(sample: &Sample) -> Vec<TensorType> {
    sample.operands.iter().map(|operand| operand.ty.clone()).collect()
}

fn program(sample: &Sample) -> Program {
    let mut builder = Builder::new("sample");
    let params: Vec<_> = types(sample).into_iter().map(|ty| builder.param(ty)).collect();
    let results = builder.emit(sample.op.clone(), &params).unwrap_or_else(|error| panic!("{error}"));
    builder.finish(&results)
}

fn floats(sample: &Sample) -> Vec<usize> {
    let is_float = |&i: &usize| sample.operands[i].ty.dtype.is_float();
    (0..sample.operands.len()).filter(is_float).collect()
}

/// What a transform that failed says of the op: that a contract is asked for, or that a rule is missing.
fn refused(error: &AdError) -> &'static str {
    use RuleError::{
        CustomCallRequiresBatchContract, CustomCallRequiresJvpContract, CustomCallRequiresVjpContract,
    };
    match error {
        AdError::Rule {
            source:
                CustomCallRequiresBatchContract { .. }
                | CustomCallRequiresJvpContract { .. }
                | CustomCallRequiresVjpContract { .. },
            ..
        } => "contract",
        _ => MISSING,
    }
}

fn dtypes(samples: &[&Sample]) -> String {
    let occurs = |dtype: &DType| {
        let of = |sample: &&Sample| program(sample).output_types().iter().any(|ty| ty.dtype == *dtype);
        samples.iter().any(of)
    };
    let names: Vec<&str> =
        DType::ALL.iter().filter(|&dtype| occurs(dtype)).map(|dtype| dtype.name()).collect();
    names.join(" ")
}

fn linearized(samples: &[&Sample]) -> &'static str {
    let mut answer = "no floats";
    for sample in samples {
        let wrt = floats(sample);
        if wrt.is_empty() {
            continue;
        }
        match linearize(&program(sample), &wrt) {
            Ok(split) if !split.active.is_empty() => answer = "rule",
            Ok(_) if answer == "no floats" => answer = "zero",
            Ok(_) => {}
            Err(error) => return refused(&error),
        }
    }
    answer
}

/// In which float operands the op is linear, one at a time, as its transposition rule says.
fn transposed(samples: &[&Sample]) -> String {
    if samples.iter().all(|sample| floats(sample).is_empty()) {
        return "no floats".into();
    }
    let mut linear: Vec<usize> = Vec::new();
    for sample in samples {
        for i in floats(sample) {
            let mut builder = Builder::new("scratch");
            let arg =
                |(j, ty): (usize, TensorType)| Arg { known: (j != i).then(|| builder.param(ty.clone())), ty };
            let args: Vec<Arg> = types(sample).into_iter().enumerate().map(arg).collect();
            let results = program(sample).output_types();
            let cotangent = |ty: TensorType| ty.dtype.is_float().then(|| builder.param(ty));
            let cotangents: Vec<_> = results.into_iter().map(cotangent).collect();
            if cotangents.iter().all(Option::is_none) {
                continue;
            }
            match sample.op.transpose(&mut builder, &args, &cotangents) {
                Ok(_) if !linear.contains(&i) => linear.push(i),
                Ok(_) | Err(RuleError::NotLinear { .. }) => {}
                Err(RuleError::RuleElsewhere { .. }) => {
                    let found = vjp(&program(sample), &floats(sample));
                    return found.map_or_else(|error| refused(&error), |_| "rule").to_string();
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    linear.sort_unstable();
    let numbers: Vec<String> = linear.iter().map(|i| i.to_string()).collect();
    if numbers.is_empty() { "not linear".into() } else { format!("in {}", numbers.join(" ")) }
}

fn batched(samples: &[&Sample]) -> &'static str {
    let mut answer = "no operands";
    for sample in samples.iter().filter(|sample| !sample.operands.is_empty()) {
        let program = program(sample);
        let some = |n: usize| vec![Some(0); n];
        match batch(&program, &some(sample.operands.len()), &some(program.outputs().len()), 2) {
            Ok(_) => answer = "rule",
            Err(error) => return refused(&error),
        }
    }
    answer
}

fn recipe(sample: &Sample) -> &'static str {
    let types = types(sample);
    match sample.op.recipe(&types.iter().collect::<Vec<_>>()) {
        Recipe::Scalar(_) => "scalar",
        Recipe::Move(_) => "move",
        Recipe::Reshape => "reshape",
        Recipe::Concat { .. } => "concat",
        Recipe::Constant(_) => "constant",
        Recipe::Iota { .. } => "iota",
        Recipe::Reduce { .. } => "reduce",
        Recipe::Contract(_) => "contract",
        Recipe::Barrier => "barrier",
        Recipe::Call(_) => "call",
        Recipe::Loop(_) => "loop",
        Recipe::Branch(_) => "branch",
        Recipe::Kernel => "evaluation",
        Recipe::Update => "update",
    }
}

fn table() -> String {
    let mut text = String::from(
        "# Ops\n\n\
         Every primitive with every answer it gives; `cargo test --test ops` makes this page by asking, and fails \
         where an answer is missing.\n\
         *Results*: the dtypes of the results on the samples that every generic suite tries.\n\
         *Linearize*: whether its results have tangents, by a rule of its own or of the transforms, by a contract of \
         the user's, or always zero.\n\
         *Transpose*: the float operands it is linear in, counted from 0, one at a time.\n\
         *Batch*: how it works on many lanes at once.\n\
         *Recipe*: how it becomes machine code; an evaluation is a call of the runtime's.\n\n\
         | op | results | linearize | transpose | batch | recipe |\n|---|---|---|---|---|---|\n",
    );
    for family in Op::ALL {
        let samples = (family.samples)();
        for name in (family.names)() {
            let own: Vec<&Sample> = samples.iter().filter(|sample| sample.op.name() == name).collect();
            assert!(!own.is_empty(), "{name} has no sample");
            let row = [
                ("op", name.to_string()),
                ("results", dtypes(&own)),
                ("linearize", linearized(&own).to_string()),
                ("transpose", transposed(&own)),
                ("batch", batched(&own).to_string()),
                ("recipe", recipe(own[0]).to_string()),
            ];
            for (column, answer) in &row {
                assert!(answer != MISSING, "{name}, {column}");
            }
            let cells: Vec<&str> = row.iter().map(|(_, answer)| answer.as_str()).collect();
            text += &format!("| {} |\n", cells.join(" | "));
        }
    }
    text
}

#[test]
fn the_page_says_what_ops_answer() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/ops.md");
    let table = table();
    if std::env::var("INSTA_UPDATE").as_deref() == Ok("always") {
        fs::write(page, &table).expect("the page can be written");
    }
    let written = fs::read_to_string(page).unwrap_or_default();
    assert!(written == table, "docs/ops.md is out of date; INSTA_UPDATE=always writes it anew:\n{table}");
}

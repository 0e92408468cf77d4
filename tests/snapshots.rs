//! Runs the files under `snapshots/`.
//!
//! A file holds one program and a header of comments that says what to do with it:
//!
//! - `// check: simplify | linearize wrt=0 | transpose` passes the program through commands, left to right;
//!   `kernels`, `memory` and `clif` show stages of its compilation instead of the program;
//! - `// run: f([0.5, -1.0], 2.0)` runs what came out (the last program, if there are several);
//! - `// count: mul 3, broadcast 0` asserts how often ops occur in it, nested programs included.
//!
//! A file whose only command is `// check: refused` holds no program; what comes out is the error.
//!
//! What comes out is compared with the `.snap` file beside it; `INSTA_UPDATE=always` writes it anew.

use pullback::ir::Program;
use pullback::ir::passes::{cse, dce, fold, simplify_with};
use pullback::ir::text::{self, parse_literal};
use pullback::runtime::{Array, Interpreter, interpret};
use pullback_autodiff as autodiff;
use pullback_lower::{Lowered, Options, lower};
use std::fs;

/// What a pipeline works on: one program, or after `linearize` the primal and the linear one.
struct State {
    programs: Vec<Program>,
    /// The stage of compilation shown instead of the programs, if one is.
    shown: Option<String>,
    /// Parameters of the last program that are residuals.
    residuals: usize,
}

impl State {
    fn last(&self) -> &Program {
        self.programs.last().expect("a pipeline keeps at least one program")
    }

    fn map(self, pass: impl Fn(&Program) -> Program) -> State {
        State { programs: self.programs.iter().map(pass).collect(), ..self }
    }

    fn single(program: Program) -> State {
        State { programs: vec![program], shown: None, residuals: 0 }
    }
}

/// Runs one command, such as `grad wrt=0,1` or `batch in=0,_ out=0 size=3`.
fn command(text: &str, state: State) -> State {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let wrt: Vec<usize> = match rest.trim().strip_prefix("wrt=") {
        Some(list) => list.split(',').map(|n| n.parse().expect("a parameter number")).collect(),
        None => vec![0],
    };
    let derived = |program: Result<Program, autodiff::AdError>| State::single(program.expect(text));
    match name {
        "verify" => state,
        "dce" => state.map(dce),
        "cse" => state.map(cse),
        "fold" => state.map(|program| fold(program, &Interpreter)),
        "simplify" => state.map(|program| simplify_with(program, &Interpreter)),
        "inline" => state.map(Program::inline_calls),
        "jvp" => derived(autodiff::jvp(state.last(), &wrt)),
        "vjp" => derived(autodiff::vjp(state.last(), &wrt)),
        "batch" => {
            let axes = |list: Option<&str>| -> Vec<Option<usize>> {
                let axis = |axis: &str| (axis != "_").then(|| axis.parse().expect("an axis or _"));
                list.expect("axes").split(',').map(axis).collect()
            };
            let option = |key: &str| rest.split(' ').find_map(|option| option.strip_prefix(key));
            let size = option("size=").expect("a size").parse().expect("a number of lanes");
            derived(autodiff::batch(state.last(), &axes(option("in=")), &axes(option("out=")), size))
        }
        "grad" => derived(autodiff::grad(state.last(), &wrt)),
        "value_and_grad" => derived(autodiff::value_and_grad(state.last(), &wrt)),
        "linearize" => {
            let linearized = autodiff::linearize(state.last(), &wrt).expect(text);
            let residuals = linearized.residuals();
            State { programs: vec![linearized.primal, linearized.linear], shown: None, residuals }
        }
        "transpose" => {
            let transposed = autodiff::transpose(state.last(), state.residuals).expect(text);
            let mut programs = state.programs;
            programs.pop();
            programs.push(transposed);
            State { programs, ..state }
        }
        "kernels" => show(state, Lowered::kernels),
        "memory" => show(state, |lowered| lowered.memory().to_string()),
        "clif" => show(state, |lowered| lowered.clif().expect(text)),
        _ => panic!("there is no command `{name}`"),
    }
}

/// Shows a stage of the lowering of the last program, after what is shown already.
fn show(state: State, stage: impl Fn(&Lowered) -> String) -> State {
    let lowered = lower(state.last(), &Options::default()).expect("lowers");
    let before = state.shown.map_or(String::new(), |text| text + "\n");
    State { shown: Some(before + &stage(&lowered)), ..state }
}

/// The arguments of `f(...)`, one text each.
fn split_arguments(call: &str) -> Vec<&str> {
    let inside = call.trim().strip_prefix("f(").and_then(|rest| rest.strip_suffix(')')).expect("f(...)");
    let mut depth = 0;
    let separators = |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    };
    inside.split(separators).map(str::trim).filter(|argument| !argument.is_empty()).collect()
}

/// Runs a program, interpreted and compiled, and returns its outputs as text.
fn run(program: &Program, call: &str) -> String {
    let arguments = split_arguments(call);
    assert_eq!(arguments.len(), program.params().len(), "arguments of {call}");
    let typed = program.param_types().into_iter().zip(arguments);
    let arguments: Vec<Array> = typed
        .map(|(ty, text)| Array::from_literal(&parse_literal(&ty, text).unwrap_or_else(|e| panic!("{e}"))))
        .collect();
    let outputs = interpret(program, &arguments).expect(call);
    let executable = lower(program, &Options::default()).and_then(|lowered| lowered.compile()).expect(call);
    for (expected, found) in outputs.iter().zip(executable.call(&arguments).expect(call)) {
        assert!(
            expected.bits_equal(&found),
            "{call}: machine code gives {found}, the interpreter {expected}"
        );
    }
    outputs.iter().map(|output| format!("//   {}\n", output.to_literal().with_canonical_nans())).collect()
}

/// Checks `mul 3, broadcast 0`.
fn check_counts(programs: &[Program], counts: &str) {
    for item in counts.split(',') {
        let (name, expected) = item.trim().split_once(' ').expect("an op and a number");
        let found: usize = programs.iter().map(|p| p.op_counts().get(name).copied().unwrap_or(0)).sum();
        assert_eq!(found, expected.parse::<usize>().expect("a number"), "occurrences of {name}");
    }
}

/// What a file says comes out, as text.
fn outcome(source: &str) -> String {
    if source.lines().any(|line| line == "// check: refused") {
        let error = Program::parse(source).expect_err("the text is no program");
        assert_eq!(text::format(source), Err(error.clone()));
        return format!("{error}\n");
    }
    let program = Program::parse(source).unwrap_or_else(|error| panic!("{error}"));
    program.verify().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        text::format(source).as_deref(),
        Ok(source),
        "the file is not in canonical form; run `pullback fmt`"
    );
    let header = |key: &'static str| {
        source.lines().filter_map(move |line| line.strip_prefix("// ")?.strip_prefix(key))
    };
    let mut state = State::single(program);
    for step in header("check: ").flat_map(|steps| steps.split('|')) {
        state = command(step.trim(), state);
        for program in &state.programs {
            program.verify().unwrap_or_else(|error| panic!("after {step}: {error}"));
        }
    }
    header("count: ").for_each(|counts| check_counts(&state.programs, counts));
    let programs: Vec<String> = state.programs.iter().map(|program| format!("{program}\n")).collect();
    let runs = header("run: ").map(|call| format!("\n// {call} =\n{}", run(state.last(), call)));
    state.shown.clone().unwrap_or_else(|| programs.join("\n")) + &runs.collect::<String>()
}

#[test]
fn files() {
    insta::glob!("../snapshots", "**/*.ir", |path| {
        let source = fs::read_to_string(path).expect("a readable file");
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(path.parent().expect("a folder"));
        settings.set_prepend_module_to_snapshot(false);
        settings.remove_snapshot_suffix();
        settings.set_omit_expression(true);
        settings.remove_input_file();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        settings.bind(|| insta::assert_snapshot!(name, outcome(&source)));
    });
}

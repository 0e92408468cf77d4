//! The command-line tool, as its users see it: what it prints, and how it exits.

use std::io::Write;
use std::process::{Command, Stdio};

const LOSS: &str = "\
// Half the squared length.
program @loss(%x: f64[2]) -> (f64[]) {
  %a = mul %x, %x : f64[2] // squares
  %half = constant {value = f64[2] splat 0.5} : f64[2]
  %b = mul %a, %half : f64[2]
  %c = reduce %b {op = sum, dims = [0]} : f64[]
  return %c
}
";

/// Runs the tool with a text on its standard input; returns what it printed and its exit code.
fn pullback(arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pullback"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A tool that refuses its arguments does not read on.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let code = output.status.code().map_or("killed".to_string(), |code| code.to_string());
    format!("{}{}exit {code}\n", text(output.stdout), text(output.stderr))
}

macro_rules! shows {
    ($($name:ident: $arguments:expr, $input:expr;)*) => {$(
        #[test]
        fn $name() {
            insta::assert_snapshot!(pullback(&$arguments, $input));
        }
    )*};
}

shows! {
    help: ["--help"], "";
    help_of_run: ["run", "--help"], "";
    nothing_to_do: [], "";
    unknown_option: ["fmt", "--backwards", "-"], "";
    missing_file: ["verify", "no/such/file.ir"], "";
    formatted: ["fmt", "-"], LOSS;
    not_formatted: ["fmt", "--check", "-"], LOSS;
    syntax_error: ["fmt", "-"], "program @f(%x: f32[2]) -> (f32[2]) {\n  %y = sine %x : f32[2]\n  return %y\n}\n";
    type_error: ["simplify", "-"], "program @f(%x: f32[2], %y: i32[2]) -> () {\n  %z = add %x, %y : f32[2]\n  return\n}\n";
    valid: ["verify", "-"], LOSS;
    gradient: ["grad", "-"], LOSS;
    gradient_with_value: ["grad", "--value", "-"], LOSS;
    gradient_as_the_rules_make_it: ["grad", "--raw", "-"], LOSS;
    gradient_by_a_parameter_that_is_not_there: ["grad", "--wrt", "0,1", "-"], LOSS;
    forward: ["jvp", "-"], LOSS;
    reverse: ["vjp", "-"], LOSS;
    result_of_a_run: ["run", "-", "[3.0, -4]"], LOSS;
    result_of_an_interpreted_run: ["run", "--interpret", "-", "[3.0, -4]"], LOSS;
    wrong_number_of_arguments: ["run", "-"], LOSS;
    wrong_argument: ["run", "-", "[3.0, -4.0, 1.0]"], LOSS;
    negative_number: ["run", "-", "-1.5"], "program @f(%x: f32[]) -> (f32[]) { %y = neg %x : f32[] return %y }";
    check_that_holds: ["check", "-"], LOSS;
    check_that_fails: ["check", "-", "--cases", "1"], "\
program @f(%x: f64[1]) -> (f64[1]) {
  %y = custom_call %x {target = \"unknown\", results = [f64[1]]} : f64[1]
  return %y
}
";
    simplified_for_compilation: ["show", "--stage", "program", "-"], LOSS;
    several_programs: ["run", "-"], "program @f() -> () { return } program @g() -> () { return }";
    one_of_several: ["simplify", "-", "--program", "@g"], "program @f() -> () { return } program @g() -> () { return }";
}

#[test]
fn code_is_shown() {
    assert!(pullback(&["show", "-"], LOSS).contains("param 0"));
    assert!(pullback(&["show", "--stage", "clif", "-"], LOSS).contains("function "));
    assert!(pullback(&["show", "--stage", "asm", "-"], LOSS).ends_with("exit 0\n"));
}

#[test]
fn files_are_written_in_place() {
    let path = std::env::temp_dir().join(format!("pullback-cli-{}.ir", std::process::id()));
    std::fs::write(&path, LOSS).unwrap();
    let file = path.to_str().unwrap();
    assert_eq!(pullback(&["fmt", "--write", file], ""), "exit 0\n");
    assert_eq!(pullback(&["fmt", "--check", file], ""), "exit 0\n");
    let written = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(pullback(&["fmt", "-"], LOSS), written + "exit 0\n");
}

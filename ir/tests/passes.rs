//! What the passes do to small programs. Each case is the inside of a program; the snapshot shows before and after.

use pullback_ir::ops::Effect;
use pullback_ir::ops::control::call::Call;
use pullback_ir::ops::elementwise::unary::Unary;
use pullback_ir::passes::{cse, dce, prune, simplify};
use pullback_ir::{Builder, DType, Op, Program, TensorType};
use std::sync::Arc;

fn program(case: &str) -> Program {
    let text = format!("program @f{case}\n}}");
    let program = Program::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    program.verify().unwrap();
    program
}

/// The lines of each program between its braces, before and after, case by case.
fn before_and_after(cases: &str, pass: impl Fn(&Program) -> Program) -> String {
    let inside = |program: &Program| program.to_string().replace("program @f", "");
    let cases = cases.trim().split("\n\n").map(|case| {
        let before = program(case);
        let after = pass(&before);
        after.verify().unwrap_or_else(|error| panic!("{error}\n{after}"));
        assert_eq!(after.param_types(), before.param_types());
        assert_eq!(after.output_types(), before.output_types());
        assert_eq!(pass(&after), after, "a second time changes nothing");
        format!("{}\n=> {}", inside(&before), inside(&after))
    });
    cases.collect::<Vec<_>>().join("\n\n")
}

macro_rules! snapshots {
    ($($name:ident: $pass:expr;)*) => {$(
        #[test]
        fn $name() {
            let cases = include_str!(concat!("passes/", stringify!($name), ".txt"));
            insta::assert_snapshot!(before_and_after(cases, $pass));
        }
    )*};
}

snapshots! {
    dead_code: dce;
    pruned: prune;
    trimmed_loops: dce;
    common_subexpressions: cse;
    arithmetic: simplify;
    logic: simplify;
    conversion: simplify;
    movement: simplify;
    sinking: simplify;
    kept: simplify;
    calls: Program::inline_calls;
}

#[test]
fn nothing_is_changed_that_would_change_bits() {
    let cases = include_str!("passes/kept.txt");
    for case in cases.trim().split("\n\n") {
        let before = program(case);
        assert_eq!(simplify(&before).to_string(), before.to_string());
    }
}

#[test]
fn effects_of_nested_programs_are_found() {
    let doubled = |program: Program| {
        let call = Call::new(Arc::new(program));
        let mut b = Builder::new("twice");
        let x = b.param(TensorType::new(DType::F32, [2]));
        let once = b.one(call.clone(), &[x]).unwrap();
        let twice = b.one(call, &[once]).unwrap();
        b.finish(&[twice])
    };
    let effect = |inside: &str| {
        let mut nested = program(&format!("(%x: f32[2]) -> (f32[2]) {{\n  {inside}\n  return %x"));
        for _ in 0..10 {
            nested = dce(&doubled(nested));
        }
        Op::from(Call::new(Arc::new(nested))).effect()
    };
    assert_eq!(effect("%a = sin %x : f32[2]"), Effect::None);
    assert_eq!(
        effect("%i = constant {value = i64[] 7} : i64[]\n%a = dynamic_slice %x, %i {sizes = [1]} : f32[1]"),
        Effect::Check
    );
    assert_eq!(effect("custom_call {target = \"print\", results = []} : ()"), Effect::Any);
}

#[test]
fn long_programs_take_little_stack_and_time() {
    let work = || {
        let mut b = Builder::new("chain");
        let first = b.param(TensorType::scalar(DType::F32));
        let mut x = first;
        for i in 0..100_000 {
            x = b.unary(if i % 3 == 0 { Unary::Sin } else { Unary::Neg }, x).unwrap();
            x = b.add(x, first).unwrap();
        }
        let long = b.finish(&[x]);
        for pass in [simplify, cse, dce, Program::inline_calls] {
            pass(&long).verify().unwrap();
        }
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(work).unwrap().join().unwrap();
}

#[test]
fn a_tower_of_negations_falls_in_one_pass() {
    let mut b = Builder::new("tower");
    let x = b.param(TensorType::scalar(DType::F32));
    let mut y = x;
    for _ in 0..10_001 {
        y = b.neg(y).unwrap();
    }
    assert_eq!(simplify(&b.finish(&[y])).len(), 1);
}

//! What the passes do to small programs. Each case is the inside of a program; the snapshot shows before and after.

use pullback_ir::ops::Effect;
use pullback_ir::ops::control::branch::Branch;
use pullback_ir::ops::control::call::Call;
use pullback_ir::ops::control::looping::{Loop, Trip};
use pullback_ir::ops::elementwise::unary::Unary;
use pullback_ir::passes::{Evaluate, cse, dce, prune, simplify, simplify_with};
use pullback_ir::{Builder, DType, Literal, Op, Program, TensorType};
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
    control: simplify;
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

#[test]
fn constants_go_into_loops_unless_they_are_large() {
    let consts_left = |constant: Literal| {
        let mut body = Builder::new("body");
        let (c, x) = (body.param(constant.ty().clone()), body.param(constant.ty().clone()));
        let product = body.mul(x, c).unwrap();
        let body = Arc::new(body.finish(&[product]));
        let mut b = Builder::new("outer");
        let x = b.param(constant.ty().clone());
        let c = b.constant(constant).unwrap();
        let op = Loop { trip: Trip::Count(5), reverse: false, consts: 1, carries: 1, body };
        let result = b.one(op, &[c, x]).unwrap();
        let simplified = simplify(&b.finish(&[result]));
        simplified.nodes().find_map(|node| match &node.op {
            Op::Loop(op) => Some(op.consts),
            _ => None,
        })
    };
    let numbers = |n: usize| Literal::dense(&(0..n).map(|i| i as f32).collect::<Vec<_>>(), [n]).unwrap();
    assert_eq!(consts_left(numbers(64)), Some(0));
    assert_eq!(consts_left(numbers(65)), Some(1));
    assert_eq!(consts_left(Literal::splat(2.5f32, [65])), Some(0));
}

/// Rules that cause one another further than one walk follows are done by the next walks.
#[test]
fn branches_in_branches_fall_however_deep() {
    let (ty, int) = (TensorType::scalar(DType::F32), TensorType::scalar(DType::I32));
    let same = |b: &mut Builder| (b.param(int.clone()), b.param(ty.clone()));
    let mut b = Builder::new("innermost");
    let (_, x) = same(&mut b);
    let sin = b.unary(Unary::Sin, x).unwrap();
    let mut arm = Arc::new(b.finish(&[sin]));
    for _ in 0..30 {
        let mut b = Builder::new("arm");
        let (i, x) = same(&mut b);
        let result = b.one(Branch { arms: vec![arm.clone(), arm] }, &[i, i, x]).unwrap();
        arm = Arc::new(b.finish(&[result]));
    }
    let mut b = Builder::new("outer");
    let x = b.param(ty.clone());
    let i = b.scalar(1i32).unwrap();
    let result = b.one(Branch { arms: vec![arm] }, &[i, i, x]).unwrap();
    let after = simplify(&b.finish(&[result]));
    assert_eq!(after.op_counts().into_iter().collect::<Vec<_>>(), [("sin", 1)]);
}

#[test]
fn what_is_not_evaluated_is_simplified_all_the_same() {
    struct Nothing;
    impl Evaluate for Nothing {
        fn evaluate(&self, _: &Op, _: &[Literal]) -> Option<Vec<Literal>> {
            None
        }
    }
    for case in include_str!("passes/logic.txt").trim().split("\n\n") {
        let before = program(case);
        assert_eq!(simplify_with(&before, &Nothing), simplify(&before));
    }
}

//! Derivatives through loops and branches: counted, conditional, nested, reversed, without trips, again and again.

use crate::common::*;
use pullback_autodiff::{grad, jvp, linearize};
use pullback_ir::Program;
use pullback_runtime::Array;

fn parse(text: &str) -> Program {
    Program::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

/// The derivative of a function of one number, in reverse mode or along the unit direction.
fn derivative(f: &Program, is_reverse: bool) -> Program {
    if is_reverse {
        return grad(f, &[0]).unwrap();
    }
    let directional = jvp(f, &[0]).unwrap();
    program("slope", &f.param_types(), |b, p| {
        let one = b.scalar(1.0)?;
        Ok(vec![b.inline(&directional, &[p, &[one]].concat())?[1]])
    })
}

fn value(f: &Program, x: f64) -> f64 {
    floats(&run(f, &[scalar(x)])[0])[0]
}

/// Derivatives of order 1, 2, .. in every mix of modes, each verified and through its text and back.
#[track_caller]
fn check_orders(f: &Program, x: f64, due: &[f64], tolerance: f64) {
    for modes in 0..1u32 << due.len() {
        let mut f = f.clone();
        for (order, &due) in due.iter().enumerate() {
            f = derivative(&f, modes >> order & 1 == 1);
            f.verify().unwrap();
            assert_eq!(parse(&f.to_string()), f);
            let found = value(&f, x);
            let close = (found - due).abs() <= tolerance * due.abs().max(1.0);
            assert!(close, "order {}, modes {modes:b}: {found}, and {due} is due", order + 1);
        }
    }
}

/// Newton's iteration for the square root of `%a` until it moves less than 1e-12; and how often it moved.
const NEWTON: &str = include_str!("../../../snapshots/control/newton.ir");

#[test]
fn newtons_iteration_in_every_mix_of_modes() {
    let f = parse(NEWTON);
    let a: f64 = 2.0;
    assert!((value(&f, a) - a.sqrt()).abs() < 1e-12);
    // The last iterate is a rational function of the start and a; its slope is that of the root to within the step.
    check_orders(&f, a, &[0.5 / a.sqrt(), -0.25 * a.powf(-1.5), 0.375 * a.powf(-2.5)], 1e-6);
    // No iteration at all: the root is the start, which is a.
    check_orders(&f, 1.0, &[1.0, 0.0, 0.0], 0.0);
}

#[test]
fn a_conditional_loop_has_the_gradient_of_the_unrolled_program() {
    let f = parse(NEWTON);
    let iterations = |a: f64| {
        let (mut x, mut n) = (a, 0);
        while (x * x - a).abs() > 1e-12 {
            (x, n) = (0.5 * (a / x + x), n + 1);
        }
        n
    };
    for a in [1.0, 1.1, 2.0, 30.0, 1e4] {
        let unrolled = on_f64(&[&[]], |b, p| {
            let mut x = p[0];
            for _ in 0..iterations(a) {
                let q = b.div(p[0], x)?;
                let sum = b.add(q, x)?;
                x = b.mul_number(sum, 0.5)?;
            }
            Ok(vec![x])
        });
        for is_reverse in [false, true] {
            let (found, due) = (derivative(&f, is_reverse), derivative(&unrolled, is_reverse));
            // Contributions may be added up in another order.
            compare("first", &[value(&found, a)], &[value(&due, a)], 1e-15).unwrap();
            let second = [true, false].map(|mode| (derivative(&found, mode), derivative(&due, mode)));
            for (found, due) in second {
                compare("second", &[value(&found, a)], &[value(&due, a)], 1e-14).unwrap();
            }
        }
    }
}

/// A falling body by Euler steps until it is below the ground: `%v` is its first speed. Gives where it is then.
const FALL: &str = include_str!("../../../snapshots/control/fall.ir");

#[test]
fn steps_until_the_ground_agree_with_differences() {
    let f = parse(FALL);
    for v in [2.0, 0.1, -3.0] {
        let slope = slope_of(|t| vec![value(&f, v + t / 1024.0)])[0] * 1024.0;
        let curvature = {
            let first = grad(&f, &[0]).unwrap();
            slope_of(|t| vec![value(&first, v + t / 1024.0)])[0] * 1024.0
        };
        check_orders(&f, v, &[slope, curvature], 1e-6);
    }
}

/// `%x` raised by repeated products: an outer counted loop over `%n`, in which an inner loop runs as often as its
/// own number says. The stacks of the inner loop differ in length from one outer iteration to the next.
const NESTED: &str = include_str!("../../../snapshots/control/nested.ir");

#[test]
fn loops_in_loops_keep_stacks_of_stacks() {
    for (order, counts) in [("", [2, 0, 3, 1]), ("order = reverse, ", [1, 3, 0, 2])] {
        let f = parse(&NESTED.replace("trip = 4, ", &format!("trip = 4, {order}")));
        let unrolled = on_f64(&[&[]], |b, p| {
            let mut s = p[0];
            for n in counts {
                for _ in 0..n {
                    let product = b.mul(s, p[0])?;
                    s = b.unary(pullback_ir::ops::elementwise::unary::Unary::Sin, product)?;
                }
                s = b.add(s, p[0])?;
            }
            Ok(vec![s])
        });
        let mut due = Vec::new();
        let mut g = unrolled;
        for _ in 0..3 {
            g = grad(&g, &[0]).unwrap();
            due.push(value(&g, 0.7));
        }
        check_orders(&f, 0.7, &due, 1e-12);
    }
}

#[test]
fn what_iterations_share_is_kept_once() {
    // The slope of the body in the carry is exp(c), which no iteration changes.
    let f = parse(
        "program @f(%c: f64[3], %s: f64[3]) -> (f64[3]) {
            %r = loop %c, %s {trip = 100, consts = 1, carries = 1, body = program @body(%c: f64[3], %s: f64[3]) -> (f64[3]) {
                %e = exp %c : f64[3]
                %t = mul %s, %e : f64[3]
                return %t
            }} : f64[3]
            return %r
        }",
    );
    let by_carry = linearize(&f, &[1]).unwrap();
    let kept: Vec<String> = by_carry.primal.output_types()[1..].iter().map(|ty| ty.to_string()).collect();
    assert_eq!(kept, ["f64[3]"], "{}", by_carry.primal);
    // With respect to the const the carry is needed as well, once for each iteration.
    let by_both = linearize(&f, &[0, 1]).unwrap();
    let kept: Vec<String> = by_both.primal.output_types()[1..].iter().map(|ty| ty.to_string()).collect();
    assert_eq!(kept, ["f64[3]", "f64[100,3]"], "{}", by_both.primal);
}

#[test]
fn no_trip_gives_the_identity_and_no_cotangent_of_consts() {
    let f = parse(
        "program @f(%n: i64[], %c: f64[], %s: f64[]) -> (f64[]) {
            %r = loop %n, %c, %s {trip = times, consts = 1, carries = 1, body = program @body(%c: f64[], %s: f64[]) -> (f64[]) {
                %t = mul %s, %c : f64[]
                return %t
            }} : f64[]
            return %r
        }",
    );
    for (n, by_c, by_s) in [(0i64, 0.0, 1.0), (-3, 0.0, 1.0), (1, 5.0, 2.0), (3, 60.0, 8.0)] {
        let arguments = [Array::from(n), scalar(2.0), scalar(5.0)];
        assert_eq!(reverse(&f, &[1, 2], &arguments), [[by_c], [by_s]]);
        assert_eq!(forward(&f, &[1, 2], &arguments), [[by_c], [by_s]]);
    }
}

#[test]
fn branches_differentiate_the_arm_that_runs() {
    let f = parse(include_str!("../../../snapshots/control/choice.ir"));
    let x: f64 = -0.4;
    check_orders(&f, x, &[(2.0 * x).sin(), 2.0 * (2.0 * x).cos(), -4.0 * (2.0 * x).sin()], 1e-14);
    // From 1.6 three times the third power, x^27; from 60 none.
    check_orders(&f, 1.6, &[9.0 * 1.6f64.powi(8), 72.0 * 1.6f64.powi(7)], 1e-12);
    check_orders(&f, 60.0, &[1.0, 0.0, 0.0], 0.0);
}

#[test]
fn a_million_trips_in_both_modes() {
    let f = parse(
        "program @f(%x: f64[]) -> (f64[]) {
            %n = constant {value = i64[] 1000000} : i64[]
            %zero = constant {value = f64[] 0.0} : f64[]
            %r = loop %n, %x, %zero {trip = times, consts = 1, carries = 1, body = program @body(%x: f64[], %s: f64[]) -> (f64[]) {
                %c = constant {value = f64[] 0.000001} : f64[]
                %p = mul %x, %x : f64[]
                %q = mul %c, %p : f64[]
                %t = add %s, %q : f64[]
                return %t
            }} : f64[]
            return %r
        }",
    );
    for is_reverse in [false, true] {
        let found = value(&derivative(&f, is_reverse), 3.0);
        assert!((found - 6.0).abs() < 1e-9, "{found}");
    }
}

//! Loops and branches on lanes that end at different times and choose different arms.

use crate::common::*;
use pullback_autodiff::{batch, grad, jvp, linearize, vjp};
use pullback_ir::Program;
use pullback_runtime::{Array, RuntimeError, interpret};

fn parse(text: &str) -> Program {
    Program::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

/// A transform of functions that work on each element by itself.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Transform {
    /// The derivative of each element, in reverse mode.
    Reverse,
    /// The same in forward mode.
    Forward,
    /// On so many lanes.
    Lanes(usize),
}

use Transform::{Forward, Lanes, Reverse};

fn transformed(f: &Program, transform: Transform) -> Program {
    let derived = match transform {
        Lanes(n) => return batch(f, &[Some(0)], &[Some(0)], n).unwrap(),
        Reverse => vjp(f, &[0]).unwrap(),
        Forward => jvp(f, &[0]).unwrap(),
    };
    let slope = program("slope", &f.param_types(), |b, p| {
        let ones = b.number_like(p[0], 1.0)?;
        Ok(vec![b.inline(&derived, &[p[0], ones])?[1]])
    });
    pullback_ir::passes::prune(&slope)
}

/// All sequences of transforms with up to two derivatives and up to two nestings of lanes.
fn sequences() -> Vec<Vec<Transform>> {
    let mut all: Vec<Vec<Transform>> = vec![Vec::new()];
    let mut done = 0;
    while done < all.len() {
        let sequence = all[done].clone();
        let lanes = sequence.iter().filter(|step| matches!(step, Lanes(_))).count();
        let next =
            [(Reverse, sequence.len() - lanes), (Forward, sequence.len() - lanes), (Lanes(3 - lanes), lanes)];
        let longer =
            next.iter().filter(|(_, used)| *used < 2).map(|(step, _)| [&sequence[..], &[*step]].concat());
        all.extend(longer.collect::<Vec<_>>());
        done += 1;
    }
    all
}

/// Checks a function of a number under every sequence against the same derivatives, one lane after the other: to the
/// bit where lanes come last, to rounding otherwise.
fn check_sequences(text: &str, points: [f64; 6]) {
    let f = parse(text);
    for sequence in sequences() {
        let lanes: Vec<usize> = sequence
            .iter()
            .filter_map(|&step| match step {
                Lanes(n) => Some(n),
                Reverse | Forward => None,
            })
            .collect();
        let plain = sequence
            .iter()
            .filter(|step| !matches!(step, Lanes(_)))
            .fold(f.clone(), |f, &s| transformed(&f, s));
        let batched = sequence.iter().fold(f.clone(), |f, &s| transformed(&f, s));
        batched.verify().unwrap();
        assert_eq!(parse(&batched.to_string()), batched);
        let shape: Vec<usize> = lanes.iter().rev().copied().collect();
        let used = &points[..shape.iter().product()];
        let found = floats(&run(&batched, &[array(used, &shape)])[0]);
        let due: Vec<f64> = used.iter().map(|&x| floats(&run(&plain, &[scalar(x)])[0])[0]).collect();
        let is_last =
            sequence.iter().skip_while(|step| !matches!(step, Lanes(_))).all(|step| matches!(step, Lanes(_)));
        for ((&x, &found), &due) in used.iter().zip(&found).zip(&due) {
            let is_close =
                if is_last { found == due } else { (found - due).abs() <= 1e-11 * due.abs().max(1.0) };
            assert!(is_close, "{sequence:?} at {x}: {found}, and {due} is due");
        }
    }
}

#[test]
fn newtons_iteration_under_every_sequence() {
    // The second and the last need no iteration.
    check_sequences(include_str!("../../../snapshots/control/newton.ir"), [2.0, 1.0, 60.0, 1.6, 0.3, 1.0]);
}

#[test]
fn a_fall_under_every_sequence() {
    check_sequences(include_str!("../../../snapshots/control/fall.ir"), [2.0, 0.1, -3.0, -200.0, 0.7, 1.0]);
}

#[test]
fn loops_in_loops_under_every_sequence() {
    check_sequences(include_str!("../../../snapshots/control/nested.ir"), [0.7, -0.4, 0.1, 2.0, 0.0, 1.0]);
}

#[test]
fn a_choice_under_every_sequence() {
    let choice = include_str!("../../../snapshots/control/choice.ir");
    check_sequences(choice, [-0.4, 1.6, 60.0, 1.1, -2.0, 0.3e-3 + 1.2]);
    // No lane takes the loop, which for these would not end.
    check_sequences(choice, [-0.4, -0.1, -1.0, -2.0, -0.7, -0.9]);
}

#[test]
fn arms_that_both_hold_loops_under_every_sequence() {
    // Up from below 1, down from there on; down does not end on what is below 0.
    let text = "program @f(%x: f64[]) -> (f64[]) {
        %k = convert %x {dtype = i32} : i32[]
        %y = branch %k, %x {arms = [program @up(%x: f64[]) -> (f64[]) {
            %y, %n = loop %x {trip = while, carries = 1, condition = program @low(%x: f64[]) -> (bool[]) {
                %c = constant {value = f64[] 50.0} : f64[]
                %a = abs %x : f64[]
                %l = compare %a, %c {op = lt} : bool[]
                return %l
            }, body = program @triple(%x: f64[]) -> (f64[]) {
                %three = constant {value = f64[] 3.0} : f64[]
                %p = mul %x, %three : f64[]
                %s = sin %x : f64[]
                %y = add %p, %s : f64[]
                return %y
            }} : f64[], i64[]
            return %y
        }, program @down(%x: f64[]) -> (f64[]) {
            %one = constant {value = f64[] 1.0} : f64[]
            %z, %y, %n = loop %x, %one {trip = while, carries = 2, condition = program @high(%z: f64[], %y: f64[]) -> (bool[]) {
                %zero = constant {value = f64[] 0.0} : f64[]
                %f = floor %z : f64[]
                %b = compare %f, %zero {op = ne} : bool[]
                return %b
            }, body = program @less(%z: f64[], %y: f64[]) -> (f64[], f64[]) {
                %one = constant {value = f64[] 1.0} : f64[]
                %w = sub %z, %one : f64[]
                %p = mul %y, %z : f64[]
                return %w, %p
            }} : f64[], f64[], i64[]
            return %y
        }]} : f64[]
        return %y
    }";
    check_sequences(text, [0.5, 3.5, 1.25, -0.75, 9.0625, -8.5]);
}

#[test]
fn stacks_of_stacks_whose_lengths_differ_from_lane_to_lane() {
    // In a lane that is done the innermost loop would not end.
    check_sequences(include_str!("../../../snapshots/control/ragged.ir"), [3.4, 0.5, 6.2, 1.2, -1.0, 2.5]);
}

/// Sums up `%x[%i]`, `%n` times, `%i` going up.
const READS: &str = "program @reads(%x: f64[4], %i: i64[], %n: i64[]) -> (f64[]) {
    %zero = constant {value = f64[] 0.0} : f64[]
    %s, %j, %m, %count = loop %x, %zero, %i, %n {trip = while, consts = 1, carries = 3, condition = program @more(%x: f64[4], %s: f64[], %i: i64[], %n: i64[]) -> (bool[]) {
        %zero = constant {value = i64[] 0} : i64[]
        %b = compare %n, %zero {op = gt} : bool[]
        return %b
    }, body = program @read(%x: f64[4], %s: f64[], %i: i64[], %n: i64[]) -> (f64[], i64[], i64[]) {
        %at = reshape %i {shape = [1]} : i64[1]
        %e = gather %x, %at {index_dims = [0]} : f64[]
        %square = mul %e, %e : f64[]
        %t = add %s, %square : f64[]
        %one = constant {value = i64[] 1} : i64[]
        %j = add %i, %one : i64[]
        %m = sub %n, %one : i64[]
        return %t, %j, %m
    }} : f64[], i64[], i64[], i64[]
    return %s
}";

#[test]
fn a_lane_that_is_done_cannot_fail_and_one_that_is_not_can() {
    let f = parse(READS);
    let xs = array(&[1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0, 0.5, 0.5, 0.5, 0.5], &[3, 4]);
    let numbers = |numbers: [i64; 3]| Array::from(numbers);
    for (i, n, due) in [
        // The first lane ends behind its last element, while others go on.
        ([3, 0, 1], [1, 4, 2], Some([16.0, 3000.0, 0.5])),
        ([4, 1, 9], [0, 1, 0], Some([0.0, 400.0, 0.0])),
        ([9, 9, 9], [0, 0, -1], Some([0.0; 3])),
        ([3, 0, 1], [1, 5, 2], None),
        ([-1, 0, 0], [1, 1, 1], None),
    ] {
        for shared in [false, true] {
            let x_axis = (!shared).then_some(0);
            let x = if shared { lane(&xs, 0, 0) } else { xs.clone() };
            let arguments = [x, numbers(i), numbers(n)];
            let batched = batch(&f, &[x_axis, Some(0), Some(0)], &[Some(0)], 3).unwrap();
            let slopes = batch(&grad(&f, &[0]).unwrap(), &[x_axis, Some(0), Some(0)], &[Some(0)], 3).unwrap();
            let total = program("total", &batched.param_types(), |b, p| {
                let values = b.inline(&batched, p)?;
                Ok(vec![sum(b, values[0])?])
            });
            let total = grad(&total, &[0]).unwrap();
            let found = [&batched, &slopes, &total].map(|program| interpret(program, &arguments));
            if due.is_none() {
                for found in found {
                    assert!(matches!(found, Err(RuntimeError::IndexOutOfRange { .. })), "{i:?} {n:?}");
                }
                continue;
            }
            let [values, slopes, total] = found.map(|found| floats(&found.unwrap()[0]));
            assert!(shared || values == due.unwrap(), "{values:?}");
            let mut sum = [0.0; 4];
            for number in 0..3 {
                let own = |axis: usize| lane(&arguments[axis], 0, number);
                let own = [if shared { arguments[0].clone() } else { own(0) }, own(1), own(2)];
                assert_eq!(values[number], floats(&run(&f, &own)[0])[0]);
                let due = &reverse(&f, &[0], &own)[0];
                assert_eq!(&slopes[number * 4..][..4], &due[..]);
                sum.iter_mut().zip(due).for_each(|(sum, due)| *sum += due);
                assert!(shared || total[number * 4..][..4] == due[..], "{total:?}");
            }
            assert!(!shared || total == sum, "{total:?}");
        }
    }
}

#[test]
fn an_arm_that_no_lane_takes_does_not_run() {
    // The first arm reads at the index, which is out of range, the second goes on until it has counted down.
    let f = parse(
        "program @f(%k: i32[], %x: f64[2], %i: i64[]) -> (f64[]) {
            %y = branch %k, %x, %i {arms = [program @read(%x: f64[2], %i: i64[]) -> (f64[]) {
                %at = reshape %i {shape = [1]} : i64[1]
                %e = gather %x, %at {index_dims = [0]} : f64[]
                return %e
            }, program @down(%x: f64[2], %i: i64[]) -> (f64[]) {
                %one = constant {value = f64[] 1.0} : f64[]
                %p, %j, %n = loop %x, %one, %i {trip = while, consts = 1, carries = 2, condition = program @more(%x: f64[2], %p: f64[], %i: i64[]) -> (bool[]) {
                    %zero = constant {value = i64[] 0} : i64[]
                    %b = compare %i, %zero {op = ne} : bool[]
                    return %b
                }, body = program @step(%x: f64[2], %p: f64[], %i: i64[]) -> (f64[], i64[]) {
                    %s = reduce %x {op = sum, dims = [0]} : f64[]
                    %q = mul %p, %s : f64[]
                    %one = constant {value = i64[] 1} : i64[]
                    %j = sub %i, %one : i64[]
                    return %q, %j
                }} : f64[], i64[], i64[]
                return %p
            }, program @sum(%x: f64[2], %i: i64[]) -> (f64[]) {
                %s = reduce %x {op = sum, dims = [0]} : f64[]
                return %s
            }]} : f64[]
            return %y
        }",
    );
    let slope = grad(&f, &[1]).unwrap();
    let x = vector(&[2.0, 3.0]);
    for (k, i) in [
        ([0, 1, 2], [1i64, 4, -7]),
        ([2, 2, 2], [-7, -7, -7]),
        ([-3, 0, 9], [0, 1, -7]),
        ([1, 2, 1], [0, -1, 2]),
    ] {
        let arguments = [Array::from(k), x.clone(), Array::from(i)];
        for program in [&f, &slope] {
            let batched = batch(program, &[Some(0), None, Some(0)], &[Some(0)], 3).unwrap();
            let found = &run(&batched, &arguments)[0];
            for number in 0..3 {
                let own = [lane(&arguments[0], 0, number), x.clone(), lane(&arguments[2], 0, number)];
                assert!(lane(found, 0, number).bits_equal(&run(program, &own)[0]), "{k:?} {i:?}: {found}");
            }
        }
    }
    let batched = batch(&f, &[Some(0), None, Some(0)], &[Some(0)], 3).unwrap();
    let failed = interpret(&batched, &[Array::from([2, 0, 2]), x, Array::from([0i64, 2, 0])]);
    assert!(matches!(failed, Err(RuntimeError::IndexOutOfRange { index: 2, .. })));
}

#[test]
fn infinities_that_a_lane_left_behind_stay_out_of_the_derivative() {
    // Products with 1 / c while c, which goes down by 1, is not 0.
    let f = parse(
        "program @f(%w: f64[2], %c: f64[]) -> (f64[]) {
            %one = constant {value = f64[] 1.0} : f64[]
            %r, %d, %n = loop %w, %one, %c {trip = while, consts = 1, carries = 2, condition = program @more(%w: f64[2], %s: f64[], %c: f64[]) -> (bool[]) {
                %zero = constant {value = f64[] 0.0} : f64[]
                %b = compare %c, %zero {op = ne} : bool[]
                return %b
            }, body = program @step(%w: f64[2], %s: f64[], %c: f64[]) -> (f64[], f64[]) {
                %one = constant {value = f64[] 1.0} : f64[]
                %q = div %s, %c : f64[]
                %v = broadcast %q {shape = [2], dims = []} : f64[2]
                %p = dot %w, %v {lhs_contract = [0], rhs_contract = [0]} : f64[]
                %d = sub %c, %one : f64[]
                return %p, %d
            }} : f64[], f64[], i64[]
            return %r
        }",
    );
    let (w, cs) = (vector(&[0.5, 2.0]), [1.0, 3.0, 0.0]);
    let total = program("total", &[f64s(&[2]), f64s(&[3])], |b, p| {
        let values = b.inline(&batch(&f, &[None, Some(0)], &[Some(0)], 3).unwrap(), p)?;
        Ok(vec![sum(b, values[0])?])
    });
    let due = cs.map(|c| reverse(&f, &[0], &[w.clone(), scalar(c)])[0].clone());
    let due: Vec<f64> = (0..2).map(|i| due.iter().map(|due| due[i]).sum()).collect();
    check_gradient(&total, &[w, vector(&cs)], &[&due], 1e-15);
}

#[test]
fn what_lanes_share_is_not_masked() {
    // The counter and the condition see no lane.
    let f = parse(
        "program @f(%n: i64[], %x: f64[]) -> (f64[], i64[], f64[?], i64[]) {
            %r, %m, %y, %count = loop %x, %n {trip = while, carries = 2, condition = program @more(%x: f64[], %n: i64[]) -> (bool[]) {
                %zero = constant {value = i64[] 0} : i64[]
                %b = compare %n, %zero {op = gt} : bool[]
                return %b
            }, body = program @step(%x: f64[], %n: i64[]) -> (f64[], i64[], f64[]) {
                %one = constant {value = i64[] 1} : i64[]
                %m = sub %n, %one : i64[]
                %y = sin %x : f64[]
                return %y, %m, %x
            }} : f64[], i64[], f64[?], i64[]
            return %r, %m, %y, %count
        }",
    );
    let batched = batch(&f, &[None, Some(0)], &[Some(0), None, Some(0), None], 2).unwrap();
    let counts = batched.op_counts();
    assert!(counts["loop"] == 1 && !counts.contains_key("select"), "{batched}");
    let found = run(&batched, &[Array::from(2i64), vector(&[0.5, 1.0])]);
    assert_eq!(floats(&found[0]), [0.5f64.sin().sin(), 1f64.sin().sin()]);
    assert!(found[3].bits_equal(&Array::from(2i64)));
    // With a number for each lane the counts differ, and the stack is as long as the longest, zeros beyond each end.
    let batched = batch(&f, &[Some(0), Some(0)], &[Some(0), Some(0), Some(0), Some(0)], 2).unwrap();
    let found = run(&batched, &[Array::from([1i64, 2]), vector(&[0.5, 1.0])]);
    assert!(found[3].bits_equal(&Array::from([1i64, 2])));
    let slices: Vec<Vec<f64>> = found[2].stack_slices().unwrap().iter().map(floats).collect();
    assert_eq!(slices, [[0.5, 1.0], [0.0, 1f64.sin()]]);
}

#[test]
fn no_lanes_run_nothing() {
    for text in [
        include_str!("../../../snapshots/control/newton.ir"),
        include_str!("../../../snapshots/control/choice.ir"),
        include_str!("../../../snapshots/control/ragged.ir"),
    ] {
        let f = parse(text);
        let split = linearize(&f, &[0]).unwrap();
        for program in [f.clone(), grad(&f, &[0]).unwrap(), split.primal] {
            let out_axes = vec![Some(0); program.outputs().len()];
            let batched = batch(&program, &[Some(0)], &out_axes, 0).unwrap();
            assert_eq!(run(&batched, &[vector(&[])])[0].shape()[..], [0]);
            let slope = vjp(&batch(&f, &[Some(0)], &[Some(0)], 0).unwrap(), &[0]).unwrap();
            assert_eq!(run(&slope, &[vector(&[]), vector(&[])])[1].shape()[..], [0]);
        }
    }
}

/// The squares below `%n`, as a stack.
const SQUARES: &str = "%zero = constant {value = i64[] 0} : i64[]
    %m, %y = loop %n, %zero {trip = times, carries = 1, body = program @step(%i: i64[]) -> (i64[], i64[]) {
        %one = constant {value = i64[] 1} : i64[]
        %j = add %i, %one : i64[]
        %square = mul %i, %i : i64[]
        return %j, %square
    }} : i64[], i64[?]";

#[test]
fn stacks_of_different_lengths_are_refused_where_lanes_would_have_to_know() {
    let refused = |rest: &str| {
        let f = parse(&format!("program @f(%n: i64[]) -> (i64[]) {{\n{SQUARES}\n{rest}\n}}"));
        batch(&f, &[None], &[None], 2).unwrap();
        batch(&f, &[Some(0)], &[Some(0)], 2).unwrap_err().to_string()
    };
    let place = "make what is read from it in the loop that makes the stack";
    let found = refused(
        "%p = loop %zero, %y {trip = each, carries = 1, body = program @step(%s: i64[], %y: i64[]) -> (i64[]) {
            %t = sub %y, %s : i64[]
            return %t
        }} : i64[]
        return %p",
    );
    assert_eq!(
        found,
        format!(
            "on lanes i64[?] may have another number of slices in each, and loop runs once for each slice that the \
             longest has; {place}"
        )
    );
    let found = refused(
        "%k = convert %n {dtype = i32} : i32[]
        %z = branch %k, %y {arms = [program @same(%y: i64[?]) -> (i64[?]) {
            return %y
        }, program @twice(%y: i64[?]) -> (i64[?]) {
            %z = loop %y {trip = each, body = program @twice(%y: i64[]) -> (i64[]) {
                %t = add %y, %y : i64[]
                return %t
            }} : i64[?]
            return %z
        }]} : i64[?]
        %t = loop %n, %z, %zero {trip = times, consts = 1, carries = 1, body = program @nothing(%z: i64[?], %s: i64[]) -> (i64[]) {
            return %s
        }} : i64[]
        return %t",
    );
    assert_eq!(
        found,
        format!(
            "on lanes i64[?] may have another number of slices in each, and branch takes it from one arm in some and \
             from another in others; {place}"
        )
    );
    let found = refused(
        "%z, %t = loop %n, %y, %zero {trip = times, carries = 2, body = program @grow(%y: i64[?], %s: i64[]) -> (i64[?], i64[]) {
            %z = loop %y {trip = each, body = program @twice(%y: i64[]) -> (i64[]) {
                %t = add %y, %y : i64[]
                return %t
            }} : i64[?]
            return %z, %s
        }} : i64[?], i64[]
        return %t",
    );
    assert_eq!(
        found,
        format!(
            "on lanes i64[?] may have another number of slices in each, and loop hands it on in lanes that are not done, \
             and not in others; {place}"
        )
    );
}

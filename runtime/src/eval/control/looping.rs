//! Loops: the body again and again, carries handed on.

use crate::array::Array;
use crate::error::RuntimeError;
use crate::eval::control::Run;
use pullback_ir::ops::control::looping::{Loop, Roles, Trip};
use pullback_ir::{Loc, TensorType};

/// Runs a loop, each iteration of the body (and of the condition) by `run`.
pub(crate) fn iterate(
    op: &Loop,
    loc: Loc,
    operands: &[Array],
    run: Run<'_>,
) -> Result<Vec<Array>, RuntimeError> {
    let roles = op.roles(operands);
    let known = known_trips(op, &roles, loc)?;
    let slices = &op.body.output_types()[op.carries..];
    let mut carries = roles.carries.to_vec();
    let mut ys: Vec<Vec<Array>> = vec![Vec::new(); slices.len()];
    let mut done = 0;
    while goes_on(op, known, done, roles.consts, &carries, run)? {
        let at = match known {
            Some(n) if op.reverse => n - 1 - done,
            Some(_) | None => done,
        };
        let xs = roles.xs.iter().map(|x| slice(x, at));
        let arguments: Vec<Array> =
            roles.consts.iter().cloned().chain(std::mem::take(&mut carries)).chain(xs).collect();
        carries = run(&op.body, arguments)?;
        for (y, slice) in ys.iter_mut().zip(carries.drain(op.carries..)) {
            y.push(slice);
        }
        done += 1;
    }
    for (slice, mut y) in slices.iter().zip(ys) {
        if op.reverse {
            y.reverse();
        }
        carries.push(stacked(op, slice, y));
    }
    if op.has_count() {
        carries.push(Array::scalar(done as i64));
    }
    Ok(carries)
}

/// The number of iterations, where it is known before the first.
fn known_trips(op: &Loop, roles: &Roles<'_, Array>, loc: Loc) -> Result<Option<usize>, RuntimeError> {
    let mut lengths = roles.xs.iter().map(|x| x.stack_slices().map_or(x.shape()[0], <[Array]>::len));
    let trips = match &op.trip {
        Trip::Count(n) => *n,
        Trip::Times => roles.times.map_or(Ok(0), Array::item::<i64>)?.max(0) as usize,
        Trip::Each => lengths.clone().next().unwrap_or(0),
        Trip::While(_) => return Ok(None),
    };
    match lengths.find(|&length| length != trips) {
        None => Ok(Some(trips)),
        Some(found) => Err(RuntimeError::StackLength { expected: trips, found, loc }),
    }
}

fn goes_on(
    op: &Loop,
    known: Option<usize>,
    done: usize,
    consts: &[Array],
    carries: &[Array],
    run: Run<'_>,
) -> Result<bool, RuntimeError> {
    match (&op.trip, known) {
        (Trip::While(condition), _) => {
            let arguments: Vec<Array> = consts.iter().chain(carries).cloned().collect();
            Ok(run(condition, arguments)?[0].item::<bool>()?)
        }
        (Trip::Count(_) | Trip::Times | Trip::Each, known) => Ok(known.is_some_and(|n| done < n)),
    }
}

/// Slice number `at` of an x.
fn slice(x: &Array, at: usize) -> Array {
    match x.stack_slices() {
        Some(slices) => slices[at].clone(),
        None => x.row(at),
    }
}

/// The y with these slices.
fn stacked(op: &Loop, slice: &TensorType, slices: Vec<Array>) -> Array {
    match op.trip {
        Trip::Count(_) if !slice.is_stack() => Array::from_rows(slice, &slices),
        Trip::Count(_) | Trip::Times | Trip::Each | Trip::While(_) => Array::stack_of(slice, slices),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::evaluate_arrays;
    use crate::interpreter::interpret;
    use pullback_ir::ops::Primitive;
    use pullback_ir::ops::control::branch::Branch;
    use pullback_ir::{Builder, Program};

    fn run(text: &str, arguments: &[Array]) -> Result<Vec<Array>, RuntimeError> {
        interpret(&Program::parse(text).unwrap_or_else(|error| panic!("{error}")), arguments)
    }

    const SUMS: &str = "program @f(%c: f64[], %s: f64[], %x: f64[3]) -> (f64[], f64[3]) {
        %r, %y = loop %c, %s, %x {trip = 3, ORDER consts = 1, carries = 1, body = program @body(%c: f64[], %s: f64[], %x: f64[]) -> (f64[], f64[]) {
            %p = mul %c, %x : f64[]
            %q = add %s, %p : f64[]
            return %q, %s
        }} : f64[], f64[3]
        return %r, %y
    }";

    #[test]
    fn carries_are_handed_on_and_slices_read_in_order() {
        let arguments = [Array::from(2.0), Array::from(1.0), Array::from([1.0, 10.0, 100.0])];
        let forward = run(&SUMS.replace("ORDER", ""), &arguments).unwrap();
        assert_eq!(forward[0].item::<f64>(), Ok(223.0));
        assert_eq!(forward[1].to_vec::<f64>().unwrap(), [1.0, 3.0, 23.0]);
        let reverse = run(&SUMS.replace("ORDER", "order = reverse,"), &arguments).unwrap();
        assert_eq!(reverse[1].to_vec::<f64>().unwrap(), [221.0, 201.0, 1.0]);
    }

    /// Doubles `%s` until it is 100 or more, keeping what it was; then adds up what was kept, last first.
    const WHILE: &str = "program @f(%s: f64[]) -> (f64[], i64[], f64[]) {
        %r, %kept, %n = loop %s {trip = while, carries = 1, condition = program @condition(%s: f64[]) -> (bool[]) {
            %c = constant {value = f64[] 100.0} : f64[]
            %b = compare %s, %c {op = lt} : bool[]
            return %b
        }, body = program @body(%s: f64[]) -> (f64[], f64[]) {
            %d = add %s, %s : f64[]
            return %d, %s
        }} : f64[], f64[?], i64[]
        %z = constant {value = f64[] 0.0} : f64[]
        %t = loop %n, %z, %kept {trip = times, order = reverse, carries = 1, body = program @body(%s: f64[], %x: f64[]) -> (f64[]) {
            %h = constant {value = f64[] 0.5} : f64[]
            %k = mul %h, %s : f64[]
            %d = add %k, %x : f64[]
            return %d
        }} : f64[]
        return %r, %n, %t
    }";

    #[test]
    fn conditional_loops_count_and_keep() {
        let results = run(WHILE, &[Array::from(30.0)]).unwrap();
        assert_eq!((results[0].item::<f64>(), results[1].item::<i64>()), (Ok(120.0), Ok(2)));
        assert_eq!(results[2].item::<f64>(), Ok(60.0 / 2.0 + 30.0));
        let results = run(WHILE, &[Array::from(f64::NAN)]).unwrap();
        assert_eq!((results[1].item::<i64>(), results[2].item::<f64>()), (Ok(0), Ok(0.0)));
    }

    #[test]
    fn stacks_of_other_lengths_fail() {
        let text = WHILE
            .replace("loop %n, %z", "loop %one, %z")
            .replace("%z = constant", "%one = constant {value = i64[] 1} : i64[]\n%z = constant");
        assert!(matches!(
            run(&text, &[Array::from(30.0)]),
            Err(RuntimeError::StackLength { expected: 1, found: 2, .. })
        ));
    }

    #[test]
    fn branches_clamp_their_index() {
        let text = "program @f(%i: i32[], %x: f64[]) -> (f64[]) {
            %y = branch %i, %x {arms = [program @a(%x: f64[]) -> (f64[]) {
                %y = neg %x : f64[]
                return %y
            }, program @b(%x: f64[]) -> (f64[]) {
                return %x
            }]} : f64[]
            return %y
        }";
        for (index, expected) in [(-7, -2.0), (0, -2.0), (1, 2.0), (2, 2.0), (i32::MAX, 2.0)] {
            let results = run(text, &[Array::from(index), Array::from(2.0)]).unwrap();
            assert_eq!(results[0].item::<f64>(), Ok(expected));
        }
    }

    #[test]
    fn evaluation_and_interpretation_agree() {
        for sample in [Loop::samples(), Branch::samples()].concat() {
            let operands: Vec<Array> = sample.literals(3).iter().map(Array::from_literal).collect();
            let mut b = Builder::new("f");
            let params: Vec<_> = operands.iter().map(|array| b.param(array.ty().clone())).collect();
            let results = b.emit(sample.op.clone(), &params).unwrap();
            let program = b.finish(&results);
            let interpreted = interpret(&program, &operands).unwrap();
            let evaluated = evaluate_arrays(&sample.op, Loc::UNKNOWN, &operands).unwrap();
            assert!(interpreted.iter().zip(&evaluated).all(|(a, b)| a.bits_equal(b)));
        }
    }
}

//! Every op on every sample, on many lanes at once, against a loop over the lanes: the same bits.

use crate::common::*;
use crate::contracts::sample_autodiff;
use pullback_ir::sample::Sample;
use pullback_ir::{Op, Program, TensorType};
use pullback_runtime::Array;

/// Which operands have lanes: every way for up to three of them, beyond that all of them and each one alone.
fn patterns(operands: usize) -> Vec<Vec<bool>> {
    let all = (1usize << operands.min(16)) - 1;
    let masks = (1..=all).filter(|&mask| operands <= 3 || mask == all || mask.is_power_of_two());
    masks.map(|mask| (0..operands).map(|i| mask >> i & 1 == 1).collect()).collect()
}

/// Axes for the lanes: all first, all last, and first and last by turns.
fn axes(types: &[TensorType], pattern: &[bool]) -> Vec<Vec<Option<usize>>> {
    let place = |turn: usize, i: usize| match turn {
        0 => 0,
        1 => types[i].shape.rank(),
        _ => types[i].shape.rank() * ((i + turn) % 2),
    };
    (0..4).map(|turn| (0..types.len()).map(|i| pattern[i].then(|| place(turn, i))).collect()).collect()
}

/// Checks that the batched program does on each lane what the program does.
fn check_lanes(
    ad: &pullback_autodiff::Autodiff,
    program: &Program,
    in_axes: &[Option<usize>],
    lanes: &[Vec<Array>],
    shared: &[Array],
) -> Result<(), String> {
    let types = program.param_types();
    let arguments: Vec<Array> = (0..types.len())
        .map(|i| match in_axes[i] {
            Some(axis) => {
                let all: Vec<Array> = lanes.iter().map(|lane| lane[i].clone()).collect();
                stack(&types[i], &all, axis)
            }
            None => shared[i].clone(),
        })
        .collect();
    let out_axes: Vec<Option<usize>> =
        program.output_types().iter().enumerate().map(|(i, ty)| Some(ty.shape.rank() * (i % 2))).collect();
    let batched = ad.batch(program, in_axes, &out_axes, lanes.len()).map_err(|e| e.to_string())?;
    batched.verify().map_err(|e| e.to_string())?;
    let found = pullback_runtime::interpret(&batched, &arguments).map_err(|e| e.to_string())?;
    for (number, own) in lanes.iter().enumerate() {
        let own: Vec<Array> = (0..types.len())
            .map(|i| if in_axes[i].is_some() { &own[i] } else { &shared[i] })
            .cloned()
            .collect();
        for ((due, found), axis) in run(program, &own).iter().zip(&found).zip(&out_axes) {
            if let Some(difference) = due.first_difference(&lane(found, axis.unwrap(), number)) {
                return Err(format!("lane {number}: {difference}\n{batched}"));
            }
        }
    }
    Ok(())
}

/// Every op on `size` lanes.
fn every_op(size: usize) {
    let ad = sample_autodiff();
    let mut failures = Vec::new();
    // Loops and branches cannot be batched yet.
    let has_rule = |sample: &Sample| !matches!(sample.op, Op::Loop(_) | Op::Branch(_));
    let samples: Vec<Sample> =
        Op::ALL.iter().flat_map(|family| (family.samples)()).filter(has_rule).collect();
    let mut tried = 0;
    for (index, sample) in samples.into_iter().enumerate() {
        let types: Vec<TensorType> = sample.operands.iter().map(|operand| operand.ty.clone()).collect();
        let program = program("sample", &types, |b, p| Ok(b.emit(sample.op.clone(), p)?.to_vec()));
        let point = |seed: u64| -> Vec<Array> {
            sample.literals(index as u64 + 1000 * seed).iter().map(Array::from_literal).collect()
        };
        let lanes: Vec<Vec<Array>> = (0..size as u64).map(point).collect();
        let shared = point(size as u64);
        for in_axes in patterns(types.len()).iter().flat_map(|pattern| axes(&types, pattern)) {
            tried += 1;
            if let Err(problem) = check_lanes(&ad, &program, &in_axes, &lanes, &shared) {
                failures
                    .push(format!("{:?} on {types:?}, lanes along {in_axes:?}\n    {problem}", sample.op));
            }
        }
    }
    assert!(tried > 1000, "only {tried} ways");
    failures.truncate(20);
    assert!(failures.is_empty(), "failures of {tried}, the first are:\n{}", failures.join("\n"));
}

#[test]
fn every_op_on_three_lanes_equals_a_loop_to_the_bit() {
    every_op(3);
}

#[test]
fn every_op_on_one_lane_and_on_none() {
    every_op(1);
    every_op(0);
}

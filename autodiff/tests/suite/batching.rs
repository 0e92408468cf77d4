//! Every op on every sample, on many lanes at once, against a loop over the lanes: the same bits.

use crate::common::*;
use crate::contracts::sample_autodiff;
use pullback_autodiff::{AdError, Autodiff, batch, verify_linear};
use pullback_ir::batch::BatchedValues;
use pullback_ir::ops::contract::dot::Dot;
use pullback_ir::ops::control::call::Call;
use pullback_ir::ops::control::custom_call::{CustomCall, SAMPLE_TARGET};
use pullback_ir::ops::elementwise::unary::Unary;
use pullback_ir::rules::RuleError;
use pullback_ir::sample::Sample;
use pullback_ir::{Batched, Batcher, DType, Op, Program, TensorType};
use pullback_runtime::Array;
use std::sync::Arc;

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
    ad: &Autodiff,
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

/// The samples of all ops.
fn samples() -> Vec<Sample> {
    Op::ALL.iter().flat_map(|family| (family.samples)()).collect()
}

/// Every op on `size` lanes.
fn every_op(size: usize) {
    let ad = sample_autodiff();
    let mut failures = Vec::new();
    let mut tried = 0;
    for (index, sample) in samples().into_iter().enumerate() {
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

#[test]
fn batched_derivatives_are_linear_whatever_has_lanes() {
    let ad = sample_autodiff();
    let mut tried = 0;
    for sample in samples() {
        let types: Vec<TensorType> = sample.operands.iter().map(|operand| operand.ty.clone()).collect();
        let wrt: Vec<usize> = (0..types.len()).filter(|&i| types[i].dtype.is_float()).collect();
        let program = program("sample", &types, |b, p| Ok(b.emit(sample.op.clone(), p)?.to_vec()));
        let split = ad.linearize(&program, &wrt).unwrap();
        let (residuals, all) = (split.residuals(), split.linear.params().len());
        let out_axes = vec![Some(0); split.linear.outputs().len()];
        for lanes in [0..all, residuals..all, 0..residuals] {
            let in_axes: Vec<Option<usize>> = (0..all).map(|i| lanes.contains(&i).then_some(0)).collect();
            let batched = ad.batch(&split.linear, &in_axes, &out_axes, 2).unwrap();
            verify_linear(&batched, residuals).unwrap_or_else(|error| panic!("{:?}: {error}", sample.op));
            ad.transpose(&batched, residuals).unwrap();
            tried += 1;
        }
    }
    assert!(tried > 1000, "only {tried}");
}

/// With lanes on one side a contraction becomes one larger one, whose products may be summed up in another order.
#[test]
fn lanes_of_one_side_of_a_product_agree_to_rounding() {
    let dot = on_f64(&[&[3, 50], &[50, 40]], |b, p| Ok(vec![b.dot(Dot::matmul(0), p[0], p[1])?]));
    let operands = directions(&[f64s(&[16, 3, 50]), f64s(&[50, 40])], 3);
    let batched = batch(&dot, &[Some(0), None], &[Some(0)], 16).unwrap();
    assert_eq!((batched.len(), batched.op_counts()["dot"]), (1, 1), "{batched}");
    let found = &run(&batched, &operands)[0];
    for number in 0..16 {
        let due = run(&dot, &[lane(&operands[0], 0, number), operands[1].clone()]);
        compare("product", &floats(&lane(found, 0, number)), &floats(&due[0]), 1e-14).unwrap();
    }
}

#[test]
fn what_is_the_same_in_every_lane_is_done_once() {
    let f = on_f64(&[&[4], &[4]], |b, p| {
        let shared = b.unary(Unary::Exp, p[1])?;
        Ok(vec![b.mul(p[0], shared)?, shared])
    });
    let batched = batch(&f, &[Some(1), None], &[Some(1), None], 7).unwrap();
    let due = "program @f_batch(%0: f64[4,7], %1: f64[4]) -> (f64[4,7], f64[4]) {
  %2 = exp %1 : f64[4]
  %3 = broadcast %2 {shape = [4, 7], dims = [0]} : f64[4,7]
  %4 = mul %0, %3 : f64[4,7]
  return %4, %2
}";
    assert_eq!(batched.to_string(), due);
}

#[test]
fn nested_programs_are_batched_once_for_each_way_of_having_lanes() {
    let inner = Arc::new(on_f64(&[&[2], &[]], |b, p| {
        let y = b.broadcast(p[1], [2], &[])?;
        let product = b.mul(p[0], y)?;
        Ok(vec![product, p[1]])
    }));
    let f = on_f64(&[&[2], &[]], |b, p| {
        let mut x = p[0];
        for _ in 0..5 {
            x = b.one(Call::new(inner.clone()), &[x, p[1]])?;
        }
        let y = b.emit(Call::new(inner.clone()), &[x, p[1]])?;
        Ok(vec![y[0], y[1]])
    });
    let batched = batch(&f, &[Some(0), None], &[Some(0), None], 3).unwrap();
    batched.verify().unwrap();
    let callees: Vec<*const Program> =
        batched.nodes().flat_map(|node| node.op.programs()).map(Arc::as_ptr).collect();
    assert_eq!(callees.len(), 6);
    assert!(callees.iter().all(|callee| *callee == callees[0]));
    let found = run(&batched, &[array(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2]), scalar(2.0)]);
    assert_eq!(floats(&found[0]), [64.0, 128.0, 192.0, 256.0, 320.0, 384.0]);
    assert_eq!(floats(&found[1]), [2.0]);
}

#[test]
fn a_long_program_is_batched_without_recursion() {
    let f = on_f64(&[&[2]], |b, p| {
        let mut x = p[0];
        for i in 0..200_000 {
            x = b.add_number(x, f64::from(i % 3))?;
        }
        Ok(vec![x])
    });
    let batched = batch(&f, &[Some(0)], &[Some(0)], 2).unwrap();
    assert!(batched.len() < 2 * f.len());
}

#[test]
fn refusals_say_what_is_due() {
    let f = on_f64(&[&[2], &[3]], |b, p| Ok(vec![b.neg(p[0])?, p[1]]));
    let text = |result: Result<Program, AdError>| result.unwrap_err().to_string();
    assert_eq!(
        text(batch(&f, &[Some(0)], &[None, None], 2)),
        "1 axes of parameters were given, and 2 are due"
    );
    assert_eq!(
        text(batch(&f, &[Some(0), None], &[Some(0)], 2)),
        "1 axes of outputs were given, and 2 are due"
    );
    assert_eq!(
        text(batch(&f, &[None, Some(2)], &[None, None], 2)),
        "parameter 1 of @f is f64[3], so its lanes can lie along axes 0 to 1, and not 2"
    );
    assert_eq!(
        text(batch(&f, &[None, None], &[Some(3), None], 2)),
        "output 0 of @f is f64[2], so its lanes can lie along axes 0 to 1, and not 3"
    );
    assert_eq!(
        text(batch(&f, &[Some(0), None], &[None, None], 2)),
        "output 0 of @f differs from lane to lane and was given no axis for its lanes; give it one"
    );
    assert!(text(batch(&f, &[Some(0), None], &[Some(0), None], 1 << 48)).contains("too many elements"));
    let wrong = program("f", &[f64s(&[4, 2]), f64s(&[3])], |b, p| {
        let lanes = [Batched::along(p[0], 0), Batched::same(p[1])];
        let error = Autodiff::default().batch_into(b, &f, &lanes, 5).unwrap_err();
        assert_eq!(error.to_string(), "lane of argument 0 has type f64[4,2], and f64[2] is due");
        Ok(vec![p[0]])
    });
    wrong.verify().unwrap();
}

#[test]
fn batch_contracts_are_held_to_number_type_and_lanes() {
    let call = CustomCall {
        target: SAMPLE_TARGET.into(),
        version: 1,
        attributes: String::new(),
        results: vec![f64s(&[2])],
    };
    let f = on_f64(&[&[2]], |b, p| Ok(vec![b.one(call.clone(), p)?]));
    type Answer = fn(&mut Batcher<'_>, Batched) -> Result<BatchedValues, RuleError>;
    let wrong: [(Answer, &str); 4] = [
        (|_, _| Ok(BatchedValues::new()), "0 values, and 1 values is due"),
        (|_, x| Ok(BatchedValues::from_iter([Batched::same(x.value)])), "f64[3,2] with no axis of lanes"),
        (|_, x| Ok(BatchedValues::from_iter([Batched::along(x.value, 1)])), "with lanes along axis 1"),
        (
            |b, x| {
                let single = b.builder.convert(x.value, DType::F32)?;
                Ok(BatchedValues::from_iter([Batched::along(single, 0)]))
            },
            "f32[3,2] with lanes along axis 0, and f64[2] in each of 3 lanes at 0 is due",
        ),
    ];
    for (answer, problem) in wrong {
        let mut ad = Autodiff::default();
        ad.contracts.register_batch(SAMPLE_TARGET, 1, move |_, batcher, args| answer(batcher, args[0]));
        let text = ad.batch(&f, &[Some(0)], &[Some(0)], 3).unwrap_err().to_string();
        assert!(text.contains(problem) && text.contains("batch contract"), "{text}");
    }
    let text = batch(&f, &[Some(0)], &[Some(0)], 3).unwrap_err().to_string();
    assert!(text.contains("CustomCallRequiresBatchContract") && text.contains(SAMPLE_TARGET), "{text}");
    batch(&f, &[None], &[None], 3).unwrap();
}

//! Whole losses on tensors: contractions, attention, broadcasts, empty extents, and what is used twice or never.

use crate::common::*;
use pullback_autodiff::{grad, value_and_grad};
use pullback_ir::ops::contract::dot::Dot;
use pullback_ir::ops::elementwise::binary::Binary;
use pullback_ir::ops::elementwise::unary::Unary;
use pullback_ir::ops::reduce::reduce::Reducer;
use pullback_ir::shape::Dims;
use pullback_ir::{DType, Literal, Program, TensorType, Value};
use pullback_runtime::Array;

/// Compares the gradient of a scalar program with differences, by every element of every parameter: within
/// `absolute` plus `relative` times the difference quotient.
#[track_caller]
fn check_by_differences(f: &Program, at: &[Array], step: f64, absolute: f64, relative: f64) {
    let wrt: Vec<usize> = (0..at.len()).collect();
    let gradients = reverse(f, &wrt, at);
    for (i, gradient) in gradients.iter().enumerate() {
        for (element, &slope) in gradient.iter().enumerate() {
            let value = |t: f64| {
                let mut elements = floats(&at[i]);
                elements[element] += t;
                let mut at = at.to_vec();
                at[i] = from_floats(&elements, at[i].ty());
                floats(&run(f, &at)[0])[0]
            };
            let due = (value(step) - value(-step)) / (2.0 * step);
            let close = (slope - due).abs() <= absolute + relative * due.abs();
            assert!(close, "parameter {i}, element {element}: {slope}, and {due} by differences");
        }
    }
}

#[test]
fn the_loss_comes_before_the_gradients() {
    let f = program("loss", &[f32s(&[4]), f32s(&[4])], |b, p| {
        let product = b.mul(p[0], p[1])?;
        Ok(vec![sum(b, product)?])
    });
    let (x, y) = ([1.0, 2.0, 3.0, 4.0], [0.5, -1.0, 2.0, 0.25]);
    let at = [from_floats(&x, &f32s(&[4])), from_floats(&y, &f32s(&[4]))];
    let found: Vec<Vec<f64>> = run(&value_and_grad(&f, &[0, 1]).unwrap(), &at).iter().map(floats).collect();
    assert_eq!(found, [vec![5.5], y.to_vec(), x.to_vec()]);
    assert_eq!(floats(&run(&grad(&f, &[1]).unwrap(), &at)[0]), x);
}

#[test]
fn maxima_with_constant_and_variable_starts() {
    let from = |b: &mut pullback_ir::Builder, x: Value, start: Value| {
        let largest = b.reduce(Reducer::Max, x, &[0])?;
        b.one(Binary::Max, &[largest, start])
    };
    let constant = on_f64(&[&[3]], |b, p| {
        let start = b.scalar(2.0)?;
        Ok(vec![from(b, p[0], start)?])
    });
    check_gradient(&constant, &[vector(&[1.0, 3.0, 2.5])], &[&[0.0, 1.0, 0.0]], 0.0);
    check_gradient(&constant, &[vector(&[1.0, 1.5, 0.5])], &[&[0.0; 3]], 0.0);
    let variable = on_f64(&[&[3], &[]], |b, p| Ok(vec![from(b, p[0], p[1])?]));
    check_gradient(&variable, &[vector(&[1.0, 3.0, 2.5]), scalar(2.0)], &[&[0.0, 1.0, 0.0], &[0.0]], 0.0);
    check_gradient(&variable, &[vector(&[1.0, 3.0, 2.5]), scalar(4.0)], &[&[0.0; 3], &[1.0]], 0.0);
    check_gradient(&variable, &[vector(&[1.0, 4.0, 2.5]), scalar(4.0)], &[&[0.0, 0.5, 0.0], &[0.5]], 0.0);
}

#[test]
fn smooth_parts_of_kinked_functions_agree_with_differences() {
    let f = on_f64(&[&[4]], |b, p| {
        let zero = b.number_like(p[0], 0.0)?;
        let relu = b.one(Binary::Max, &[p[0], zero])?;
        let (abs, tan) = (b.unary(Unary::Abs, p[0])?, b.unary(Unary::Tan, p[0])?);
        let product = b.mul(abs, tan)?;
        let total = b.add(relu, product)?;
        Ok(vec![sum(b, total)?])
    });
    check_by_differences(&f, &[vector(&[-1.2, -0.3, 0.4, 1.1])], 1e-5, 1e-8, 1e-8);
}

#[test]
fn constant_powers_hold_no_logarithm() {
    let cube = on_f64(&[&[]], |b, p| Ok(vec![b.integer_pow(p[0], 3)?]));
    assert!(!grad(&cube, &[0]).unwrap().op_counts().contains_key("log"));
    let power = on_f64(&[&[], &[]], |b, p| Ok(vec![b.one(Binary::Pow, p)?]));
    assert!(!grad(&power, &[0]).unwrap().op_counts().contains_key("log"));
    assert!(grad(&power, &[0, 1]).unwrap().op_counts().contains_key("log"));
}

#[test]
fn contractions_agree_with_loops() {
    let (batch, m, k, n) = (2, 3, 4, 5);
    let types = [f32s(&[batch, m, k]), f32s(&[batch, k, n]), f32s(&[batch, m, n])];
    let f = program("f", &types, |b, p| {
        let product = b.dot(Dot::matmul(1), p[0], p[1])?;
        let product = b.mul(product, p[2])?;
        Ok(vec![sum(b, product)?])
    });
    let at = directions(&types, 1);
    let (x, y, w) = (floats(&at[0]), floats(&at[1]), floats(&at[2]));
    let (mut dx, mut dy) = (vec![0.0; x.len()], vec![0.0; y.len()]);
    for b in 0..batch {
        for i in 0..m {
            for l in 0..k {
                for j in 0..n {
                    let (xi, yi, wi) = ((b * m + i) * k + l, (b * k + l) * n + j, (b * m + i) * n + j);
                    dx[xi] += w[wi] * y[yi];
                    dy[yi] += w[wi] * x[xi];
                }
            }
        }
    }
    let found = reverse(&f, &[0, 1], &at);
    compare("lhs", &found[0], &dx, 1e-6).unwrap();
    compare("rhs", &found[1], &dy, 1e-6).unwrap();
}

#[test]
fn contractions_of_leading_dimensions() {
    let types = [f32s(&[4, 3]), f32s(&[4, 5]), f32s(&[3, 5])];
    let dims = Dims::from_slice;
    let dot = Dot {
        lhs_contract: dims(&[0]),
        rhs_contract: dims(&[0]),
        lhs_batch: dims(&[]),
        rhs_batch: dims(&[]),
    };
    let f = program("f", &types, |b, p| {
        let product = b.dot(dot, p[0], p[1])?;
        let product = b.mul(product, p[2])?;
        Ok(vec![sum(b, product)?])
    });
    let at = directions(&types, 2);
    let (x, y, w) = (floats(&at[0]), floats(&at[1]), floats(&at[2]));
    let (mut dx, mut dy) = (vec![0.0; 12], vec![0.0; 20]);
    for l in 0..4 {
        for i in 0..3 {
            for j in 0..5 {
                dx[l * 3 + i] += w[i * 5 + j] * y[l * 5 + j];
                dy[l * 5 + j] += w[i * 5 + j] * x[l * 3 + i];
            }
        }
    }
    let found = reverse(&f, &[0, 1], &at);
    compare("lhs", &found[0], &dx, 1e-6).unwrap();
    compare("rhs", &found[1], &dy, 1e-6).unwrap();
}

/// Causal attention of 4 tokens with 3 channels, weighted and summed.
fn attention(dtype: DType) -> Program {
    let ty = TensorType::new(dtype, [4, 3]);
    program("attention", &[ty.clone(), ty.clone(), ty], |b, p| {
        let keys = b.transpose(p[1], &[1, 0])?;
        let scores = b.dot(Dot::matmul(0), p[0], keys)?;
        let scores = b.mul_number(scores, 1.0 / 3f64.sqrt())?;
        let mask: Vec<f64> = (0..16).map(|i| if i % 4 > i / 4 { -30.0 } else { 0.0 }).collect();
        let mask = b.constant(Literal::dense(&mask, [4, 4]).unwrap())?;
        let mask = b.convert(mask, dtype)?;
        let scores = b.add(scores, mask)?;
        let shape = b.ty(scores).shape.clone();
        let largest = b.reduce(Reducer::Max, scores, &[1])?;
        let largest = b.expand(largest, &shape, &[1])?;
        let shifted = b.sub(scores, largest)?;
        let weights = b.unary(Unary::Exp, shifted)?;
        let totals = b.reduce_sum(weights, &[1])?;
        let totals = b.expand(totals, &shape, &[1])?;
        let weights = b.div(weights, totals)?;
        let mixed = b.dot(Dot::matmul(0), weights, p[2])?;
        let outputs: Vec<f64> = (0..12).map(|i| (i as f64 * 0.7).sin() + 0.2).collect();
        let outputs = b.constant(Literal::dense(&outputs, [4, 3]).unwrap())?;
        let outputs = b.convert(outputs, dtype)?;
        let product = b.mul(mixed, outputs)?;
        Ok(vec![sum(b, product)?])
    })
}

#[test]
fn causal_attention() {
    for (dtype, step, absolute, relative) in [(DType::F32, 0.01, 0.002, 0.02), (DType::F64, 1e-4, 1e-7, 0.0)]
    {
        let f = attention(dtype);
        let at = directions(&f.param_types(), 3);
        check_by_differences(&f, &at, step, absolute, relative);
    }
}

/// A product of tensors whose extents of 1 and missing dimensions are repeated.
#[test]
fn broadcasts_come_back_as_sums() {
    let f = on_f64(&[&[3], &[1, 3], &[2, 1], &[]], |b, p| {
        let shape = [2, 3];
        let m: Vec<f64> = (0..6).map(f64::from).collect();
        let mut product = b.constant(Literal::dense(&m, shape).unwrap())?;
        let row = b.reshape(p[1], [3])?;
        let column = b.reshape(p[2], [2])?;
        for (x, dims) in [(p[0], &[1][..]), (row, &[1]), (column, &[0]), (p[3], &[])] {
            let x = b.broadcast(x, shape, dims)?;
            product = b.mul(product, x)?;
        }
        Ok(vec![sum(b, product)?])
    });
    let at = [array(&[1.0; 3], &[3]), array(&[1.0; 3], &[1, 3]), array(&[1.0; 2], &[2, 1]), scalar(1.0)];
    check_gradient(&f, &at, &[&[3.0, 5.0, 7.0], &[3.0, 5.0, 7.0], &[3.0, 12.0], &[15.0]], 0.0);
    let types = grad(&f, &[0, 1, 2, 3]).unwrap().output_types();
    assert_eq!(types, f.param_types());
    let pair = on_f64(&[&[]], |b, p| {
        let repeated = b.broadcast(p[0], [2], &[])?;
        Ok(vec![weighted(b, repeated, &[1.0, 1.0])?])
    });
    check_gradient(&pair, &[scalar(0.0)], &[&[2.0]], 0.0);
}

#[test]
fn a_least_squares_loss() {
    let types = [f32s(&[2, 3]), f32s(&[3, 1]), f32s(&[1, 3]), f32s(&[2, 1])];
    let f = program("f", &types, |b, p| {
        let product = b.dot(Dot::matmul(0), p[0], p[1])?;
        let shape = [2, 3];
        let product = b.reshape(product, [2])?;
        let product = b.broadcast(product, shape, &[0])?;
        let bias = b.reshape(p[2], [3])?;
        let bias = b.broadcast(bias, shape, &[1])?;
        let target = b.reshape(p[3], [2])?;
        let target = b.broadcast(target, shape, &[0])?;
        let sum_of = b.add(product, bias)?;
        let gap = b.sub(sum_of, target)?;
        let square = b.integer_pow(gap, 2)?;
        Ok(vec![sum(b, square)?])
    });
    let values: [&[f64]; 4] =
        [&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[1.0, 0.0, -1.0], &[1.0, 2.0, 3.0], &[1.0, 2.0]];
    let at: Vec<Array> = values.iter().zip(&types).map(|(v, ty)| from_floats(v, ty)).collect();
    let found = reverse(&f, &[1, 2], &at);
    assert_eq!(found, [vec![-54.0, -72.0, -90.0], vec![-10.0, -6.0, -2.0]]);
}

#[test]
fn nothing_sums_to_zero_and_multiplies_to_one() {
    for (reducer, value) in [(Reducer::Sum, 0.0), (Reducer::Prod, 1.0)] {
        let f = on_f64(&[&[0]], |b, p| Ok(vec![b.reduce(reducer, p[0], &[0])?]));
        let found = run(&value_and_grad(&f, &[0]).unwrap(), &[vector(&[])]);
        assert_eq!((floats(&found[0]), found[1].ty()), (vec![value], &f64s(&[0])));
    }
    let f = on_f64(&[&[2, 0], &[0, 3]], |b, p| {
        let product = b.dot(Dot::matmul(0), p[0], p[1])?;
        Ok(vec![sum(b, product)?])
    });
    let found = run(&value_and_grad(&f, &[0, 1]).unwrap(), &[array(&[], &[2, 0]), array(&[], &[0, 3])]);
    assert_eq!(floats(&found[0]), [0.0]);
    assert_eq!((found[1].ty(), found[2].ty()), (&f64s(&[2, 0]), &f64s(&[0, 3])));
    let f = on_f64(&[&[]], |b, p| Ok(vec![sum(b, p[0])?]));
    check_gradient(&f, &[scalar(2.0)], &[&[1.0]], 0.0);
}

#[test]
fn unused_inputs_have_zero_gradients() {
    let f = on_f64(&[&[], &[2]], |b, p| Ok(vec![b.unary(Unary::Sin, p[0])?]));
    check_gradient(&f, &[scalar(1.0), vector(&[1.0, 2.0])], &[&[1f64.cos()], &[0.0, 0.0]], 1e-15);
}

#[test]
fn outputs_that_are_inputs_or_constants() {
    let identity = on_f64(&[&[]], |_, p| Ok(vec![p[0]]));
    check_gradient(&identity, &[scalar(1.0)], &[&[1.0]], 0.0);
    let three = on_f64(&[&[]], |b, _| Ok(vec![b.scalar(3.0)?]));
    check_gradient(&three, &[scalar(1.0)], &[&[0.0]], 0.0);
    assert_eq!(grad(&three, &[0]).unwrap().output_types(), [f64s(&[])]);
}

#[test]
fn one_tensor_used_twice() {
    let product = on_f64(&[&[], &[]], |b, p| Ok(vec![b.mul(p[0], p[1])?]));
    check_gradient(&product, &[scalar(3.0), scalar(3.0)], &[&[3.0], &[3.0]], 0.0);
    let square = on_f64(&[&[]], |b, p| Ok(vec![b.mul(p[0], p[0])?]));
    check_gradient(&square, &[scalar(3.0)], &[&[6.0]], 0.0);
}

#[test]
fn contributions_are_added_from_the_last_use_to_the_first() {
    // Small ones add up to something 1 notices, but not one by one.
    let (tiny, smaller) = (0.5f64.powi(53), 0.5f64.powi(53) * 0.99);
    let f = |factors: [f64; 3]| {
        on_f64(&[&[]], |b, p| {
            let mut total = b.scalar(0.0)?;
            for factor in factors {
                let term = b.mul_number(p[0], factor)?;
                total = b.add(total, term)?;
            }
            Ok(vec![total])
        })
    };
    assert_eq!(reverse(&f([1.0, tiny, smaller]), &[0], &[scalar(1.0)])[0], [1.0 + f64::EPSILON]);
    assert_eq!(reverse(&f([tiny, smaller, 1.0]), &[0], &[scalar(1.0)])[0], [1.0]);
}

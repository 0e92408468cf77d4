//! What is chosen, against every other choice.

use super::*;
use crate::linearize;
use pullback_ir::ops::elementwise::unary::Unary;
use pullback_ir::{Builder, DType};

/// A program of so many elementwise ops on one parameter, with other programs by other seeds: the values, parameter first.
fn random_program(seed: u64, ops: usize, elements: usize) -> (Program, Vec<Value>) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % n
    };
    let mut builder = Builder::new("random");
    let mut values = vec![builder.param(TensorType::new(DType::F64, [elements]))];
    for _ in 0..ops {
        let (x, y) = (values[below(values.len())], values[below(values.len())]);
        let value = match below(4) {
            0 => builder.neg(x),
            1 => builder.one(Unary::Sin, &[x]),
            2 => builder.add(x, y),
            _ => builder.mul(x, y),
        };
        values.push(value.unwrap());
    }
    let outputs = [values[values.len() - 1]];
    (builder.finish(&outputs), values)
}

/// What it costs to have the wanted values if these are kept.
fn cost_of(
    program: &Program,
    wanted: &[Value],
    kept: &dyn Fn(Value) -> bool,
    cost: &dyn Fn(Value) -> u64,
) -> u64 {
    let mut needed: SecondaryMap<Value, ()> = wanted.iter().map(|&v| (v, ())).collect();
    let mut sum = 0;
    for node in program.nodes().rev() {
        let value = node.results[0];
        if !needed.contains_key(value) {
            continue;
        }
        if kept(value) {
            sum += cost(value);
        } else {
            sum += again(program, value, work(program, node));
            needed.extend(node.operands.iter().map(|&v| (v, ())));
        }
    }
    sum
}

#[test]
fn no_other_choice_is_cheaper() {
    let mut differ = 0;
    for seed in 0..200 {
        let (program, values) = random_program(seed, 9, 200);
        let results: Vec<Value> =
            values[1..].iter().copied().filter(|&v| program.producer(v).is_some()).collect();
        let wanted: Vec<Value> = results.iter().rev().take(3).copied().collect();
        let cost = |v| if v == values[0] { 0 } else { 5 * program.ty(v).bytes() as u64 };
        let chosen = least(&program, &wanted, &cost);
        differ += usize::from(chosen.is_some());
        let is_kept = |v| chosen.as_ref().map_or(wanted.contains(&v), |kept| kept.contains_key(v));
        let found = cost_of(&program, &wanted, &is_kept, &cost);
        for choice in 0u32..1 << results.len() {
            let is_kept = |v| results.iter().position(|&r| r == v).is_some_and(|i| choice >> i & 1 == 1);
            let other = cost_of(&program, &wanted, &is_kept, &cost);
            assert!(found <= other, "program {seed}: {found} bytes, but {other} by choice {choice:b}");
        }
    }
    assert!(differ > 20, "only {differ} programs in which something is computed again");
}

#[test]
fn what_is_computed_again_is_as_little_as_keeping_least_allows() {
    let mut builder = Builder::new("f");
    let x = builder.param(TensorType::new(DType::F64, [1000]));
    let y = builder.one(Unary::Sin, &[x]).unwrap();
    let z = builder.neg(y).unwrap();
    let program = builder.finish(&[z]);
    // To keep either is the same: nothing is gained by computing z from y.
    assert_eq!(least(&program, &[z], &|v| program.ty(v).bytes() as u64), None);
    // Both are wanted, and one follows from the other.
    let kept = least(&program, &[y, z], &|v| program.ty(v).bytes() as u64).unwrap();
    assert_eq!(kept.keys().collect::<Vec<_>>(), [y]);
}

#[test]
fn what_is_kept_for_nothing_stays_kept() {
    let mut builder = Builder::new("f");
    let x = builder.param(TensorType::new(DType::F64, [1000]));
    let sum = builder.reduce_sum(x, &[0]).unwrap();
    let sums = builder.broadcast(sum, [1000], &[]).unwrap();
    let sine = builder.one(Unary::Sin, &[sums]).unwrap();
    let negative = builder.neg(sine).unwrap();
    let program = builder.finish(&[negative]);
    // The sine is kept and its negative computed again; nothing follows from the sum, which costs no byte.
    let kept = least(&program, &[sum, sine, negative], &|v| bytes(&program, v, 1)).unwrap();
    assert_eq!(kept.keys().collect::<Vec<_>>(), [sum, sine]);
}

#[test]
fn a_polynomial_keeps_its_argument() {
    let polynomial = |elements: usize| {
        let mut builder = Builder::new("f");
        let x = builder.param(TensorType::new(DType::F64, [elements]));
        let square = builder.mul(x, x).unwrap();
        let cube = builder.mul(square, x).unwrap();
        let sum = builder.add(cube, square).unwrap();
        builder.finish(&[sum])
    };
    let residuals = |program: &Program| linearize(program, &[0]).unwrap().keep_least().unwrap().residuals();
    assert_eq!(residuals(&polynomial(1000)), 1);
    assert_eq!(residuals(&polynomial(3)), 2, "small values are kept");
}

#[test]
fn parts_too_large_for_a_cut_are_left_as_they_are() {
    let is_cut = |length: usize| {
        let mut builder = Builder::new("chain");
        let mut values = vec![builder.param(TensorType::new(DType::F64, [1000]))];
        for i in 0..length {
            values.push(builder.neg(values[i]).unwrap());
        }
        let program = builder.finish(&values[length..]);
        least(&program, &values[1..], &|v| program.ty(v).bytes() as u64).is_some()
    };
    assert!(is_cut(LARGEST - 1));
    assert!(!is_cut(LARGEST));
}

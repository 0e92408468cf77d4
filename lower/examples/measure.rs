//! Times of compiled programs: `cargo run --release -p pullback-lower --example measure`.

use pullback_ir::ops::elementwise::unary::Unary;
use pullback_ir::ops::reduce::reduce::Reducer;
use pullback_ir::{Builder, DType, Program, TensorType};
use pullback_lower::{Direct, Executable, Options, lower};
use pullback_runtime::{Array, threads};
use std::hint::black_box;
use std::time::Instant;

fn main() {
    threads::set_threads(1);
    overhead();
    for threads in [1, 2] {
        threads::set_threads(threads);
        println!("-- {threads} threads");
        chain(10_000_000);
        chain(4_000);
        softmax(4096, 1024);
        sums(4096, 2048);
    }
    threads::set_threads(1);
    small_gradient();
    for n in [1_000, 10_000, 100_000] {
        straight(n);
    }
}

/// Seconds of one call, the best of several runs.
fn best(mut f: impl FnMut(), calls: usize) -> f64 {
    (0..7)
        .map(|_| {
            let start = Instant::now();
            (0..calls).for_each(|_| f());
            start.elapsed().as_secs_f64() / calls as f64
        })
        .fold(f64::INFINITY, f64::min)
}

fn compile(program: &Program) -> Executable {
    let start = Instant::now();
    let lowered = lower(program, &Options::default()).expect("lowers");
    let fused = start.elapsed();
    let executable = lowered.compile().expect("compiles");
    let steps = lowered.cost().steps;
    println!(
        "{}: {} ops, {steps} steps, fused in {:.2} ms, compiled in {:.2} ms",
        program.name(),
        program.len(),
        fused.as_secs_f64() * 1e3,
        start.elapsed().as_secs_f64() * 1e3
    );
    executable
}

fn overhead() {
    let mut b = Builder::new("three_numbers");
    let x = b.param(TensorType::new(DType::F64, [3]));
    let y = b.mul(x, x).expect("well typed");
    let executable = compile(&b.finish(&[y]));
    let (input, mut output) = ([1.0, 2.0, 3.0], [0.0; 3]);
    let seconds =
        best(|| executable.call_into(&[&input[..]], &mut [&mut output[..]]).expect("runs"), 100_000);
    println!("  call_into: {:.1} ns", seconds * 1e9);
    let direct: Direct<f64, 3, 3> = executable.direct(&[]).expect("numbers");
    let seconds = best(|| drop(direct.call(black_box(input))), 100_000);
    println!("  direct: {:.1} ns", seconds * 1e9);
    let arguments = [Array::vector(&input)];
    let seconds = best(|| drop(executable.call(&arguments)), 100_000);
    println!("  call: {:.1} ns", seconds * 1e9);
}

fn chain(n: usize) {
    let mut b = Builder::new("chain");
    let x = b.param(TensorType::new(DType::F32, [n]));
    let scaled = b.mul_number(x, 0.5).expect("well typed");
    let y = b.unary(Unary::Exp, scaled).expect("well typed");
    let y = b.add_number(y, 1.0).expect("well typed");
    let y = b.mul(y, x).expect("well typed");
    let executable = compile(&b.finish(&[y]));
    let input: Vec<f32> = (0..n).map(|i| (i % 1000) as f32 * 0.001).collect();
    let mut output = vec![0.0f32; n];
    let calls = (10_000_000 / n).max(1);
    let seconds = best(|| executable.call_into(&[&input[..]], &mut [&mut output[..]]).expect("runs"), calls);
    println!("  x * (exp(x / 2) + 1), {n} f32: {:.3} ns per element", seconds * 1e9 / n as f64);
}

fn softmax(rows: usize, columns: usize) {
    let mut b = Builder::new("softmax");
    let ty = TensorType::new(DType::F32, [rows, columns]);
    let x = b.param(ty.clone());
    let max = b.reduce(Reducer::Max, x, &[1]).expect("well typed");
    let max = b.expand(max, &ty.shape, &[1]).expect("well typed");
    let shifted = b.sub(x, max).expect("well typed");
    let e = b.unary(Unary::Exp, shifted).expect("well typed");
    let sum = b.reduce_sum(e, &[1]).expect("well typed");
    let sum = b.expand(sum, &ty.shape, &[1]).expect("well typed");
    let y = b.div(e, sum).expect("well typed");
    let executable = compile(&b.finish(&[y]));
    let n = rows * columns;
    let input: Vec<f32> = (0..n).map(|i| (i % 1000) as f32 * 0.001).collect();
    let mut output = vec![0.0f32; n];
    let seconds = best(|| executable.call_into(&[&input[..]], &mut [&mut output[..]]).expect("runs"), 3);
    println!("  softmax [{rows}, {columns}] f32: {:.3} ns per element", seconds * 1e9 / n as f64);
}

fn sums(rows: usize, columns: usize) {
    for dims in [&[0][..], &[1], &[0, 1]] {
        let mut b = Builder::new("sum");
        let x = b.param(TensorType::new(DType::F32, [rows, columns]));
        let y = b.reduce_sum(x, dims).expect("well typed");
        let executable = compile(&b.finish(&[y]));
        let n = rows * columns;
        let input = vec![1.0f32; n];
        let mut output = vec![0.0f32; executable.output_types()[0].shape.elements()];
        let seconds = best(|| executable.call_into(&[&input[..]], &mut [&mut output[..]]).expect("runs"), 3);
        println!(
            "  sum over {dims:?} of [{rows}, {columns}] f32: {:.3} ns per element",
            seconds * 1e9 / n as f64
        );
    }
}

/// Value and slope of a function of three numbers, written out.
fn small_gradient() {
    let mut b = Builder::new("small_gradient");
    let x = b.param(TensorType::new(DType::F64, [3]));
    let sin = b.unary(Unary::Sin, x).expect("well typed");
    let cos = b.unary(Unary::Cos, x).expect("well typed");
    let exp = b.unary(Unary::Exp, sin).expect("well typed");
    let value = b.reduce_sum(exp, &[0]).expect("well typed");
    let slope = b.mul(exp, cos).expect("well typed");
    let executable = compile(&b.finish(&[value, slope]));
    let (input, mut value, mut slope) = ([1.0, 2.0, 3.0], [0.0], [0.0; 3]);
    let seconds = best(
        || executable.call_into(&[&input[..]], &mut [&mut value[..], &mut slope[..]]).expect("runs"),
        100_000,
    );
    println!("  call_into: {:.1} ns", seconds * 1e9);
}

/// A long chain of scalar operations.
fn straight(n: usize) {
    let mut b = Builder::new("straight");
    let x = b.param(TensorType::scalar(DType::F64));
    let mut y = x;
    for i in 0..n / 2 {
        y = if i % 10 == 0 { b.unary(Unary::Sin, y) } else { b.mul(y, x) }.expect("well typed");
        y = b.add(y, x).expect("well typed");
    }
    let executable = compile(&b.finish(&[y]));
    let mut output = [0.0];
    let seconds = best(|| executable.call_into(&[&[0.3f64][..]], &mut [&mut output[..]]).expect("runs"), 100);
    println!("  chain of {n}: {:.2} ns per op", seconds * 1e9 / n as f64);
}

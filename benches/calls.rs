//! What a call costs: small gradients, long elementwise chains, a training step; and what it costs to get there.
//!
//! `cargo bench --bench calls`

use divan::{Bencher, black_box};
use pullback::prelude::*;
use pullback::{Array, nn, random};
use pullback_autodiff as autodiff;
use pullback_ir::ops::elementwise::unary::Unary;
use pullback_ir::{Builder, Program, TensorType};
use pullback_lower::{Direct, Executable, Options, lower};

fn main() {
    divan::main();
}

/// `sum(sin(x) * x)` on f64[3].
fn three_numbers() -> Program {
    let mut b = Builder::new("three");
    let x = b.param(TensorType::new(DType::F64, [3]));
    let sin = b.unary(Unary::Sin, x).expect("well typed");
    let product = b.mul(sin, x).expect("well typed");
    let sum = b.reduce_sum(product, &[0]).expect("well typed");
    b.finish(&[sum])
}

fn compiled(program: &Program) -> Executable {
    lower(program, &Options::default()).expect("lowers").compile().expect("compiles")
}

#[divan::bench]
fn call_into_value_and_grad_of_three_numbers(bencher: Bencher) {
    let executable = compiled(&autodiff::value_and_grad(&three_numbers(), &[0]).expect("differentiable"));
    let (x, mut value, mut gradient) = ([0.5, -1.0, 2.0], [0.0], [0.0; 3]);
    bencher.bench_local(|| {
        executable.call_into::<f64>(&[black_box(&x)], &mut [&mut value, &mut gradient]).expect("runs");
    });
}

#[divan::bench]
fn direct_value_and_grad_of_three_numbers(bencher: Bencher) {
    let executable = compiled(&autodiff::value_and_grad(&three_numbers(), &[0]).expect("differentiable"));
    let step: Direct<f64, 3, 4> = executable.direct(&[]).expect("numbers");
    bencher.bench_local(|| step.call(black_box([0.5, -1.0, 2.0])).expect("runs"));
}

/// The same on arrays that are made anew.
#[divan::bench]
fn call_value_and_grad_of_three_numbers(bencher: Bencher) {
    let executable = compiled(&autodiff::value_and_grad(&three_numbers(), &[0]).expect("differentiable"));
    let x = Array::from_slice(&[0.5, -1.0, 2.0], [3]).expect("fits");
    bencher.bench_local(|| executable.call(std::slice::from_ref(black_box(&x))).expect("runs"));
}

/// The same on trees, by way of the cache of compiled signatures.
#[divan::bench]
fn jit_call_value_and_grad_of_three_numbers(bencher: Bencher) {
    let x = Tensor::from([0.5, -1.0, 2.0]);
    let step = jit(value_and_grad(|x: &Tensor| (x.sin() * x).sum()));
    step.call((&x,)).expect("runs");
    bencher.bench_local(|| step.call((black_box(&x),)).expect("runs"));
}

/// The same with two signatures that take turns.
#[divan::bench]
fn jit_calls_of_two_signatures(bencher: Bencher) {
    let (x, y) = (Tensor::from([0.5, -1.0, 2.0]), Tensor::from([0.5, -1.0]));
    let step = jit(value_and_grad(|x: &Tensor| (x.sin() * x).sum()));
    step.call((&x,)).expect("runs");
    step.call((&y,)).expect("runs");
    bencher.bench_local(|| {
        step.call((black_box(&x),)).expect("runs");
        step.call((black_box(&y),)).expect("runs");
    });
}

/// The same for a tree of a hundred numbers, whose structure takes some text.
#[divan::bench]
fn jit_call_of_a_hundred_tensors(bencher: Bencher) {
    let x: Vec<(Tensor, Tensor)> = (0..50).map(|i| (Tensor::from(i as f64), Tensor::from(0.5))).collect();
    let step = jit(value_and_grad(|x: &Vec<(Tensor, Tensor)>| {
        x.iter().fold(Tensor::from(0.0), |sum, (a, b)| sum + a * b)
    }));
    step.call((&x,)).expect("runs");
    bencher.bench_local(|| step.call((black_box(&x),)).expect("runs"));
}

#[divan::bench]
fn first_gradient_of_three_numbers(bencher: Bencher) {
    let x = Tensor::from([0.5, -1.0, 2.0]);
    bencher.bench(|| {
        let step = jit(value_and_grad(|x: &Tensor| (x.sin() * x).sum()));
        step.call((&x,)).expect("runs")
    });
}

/// `n` scalar ops in a row, then their gradient.
fn chain(n: usize) -> Program {
    let mut b = Builder::new("chain");
    let x = b.param(TensorType::scalar(DType::F64));
    let mut y = x;
    for i in 0..n / 2 {
        let scaled = b.mul_number(y, 1.0 + 1e-7 * i as f64).expect("well typed");
        y = b.mul(scaled, x).expect("well typed");
    }
    autodiff::value_and_grad(&b.finish(&[y]), &[0]).expect("differentiable")
}

#[divan::bench(args = [1_000, 10_000, 100_000], sample_count = 3)]
fn compile_chain_with_gradient(bencher: Bencher, n: usize) {
    let program = chain(n);
    bencher.bench(|| compiled(black_box(&program)));
}

/// `tanh(exp(sin(x)) * x) + x` on ten million f32.
fn elementwise() -> Program {
    let mut b = Builder::new("elementwise");
    let x = b.param(TensorType::new(DType::F32, [10_000_000]));
    let sin = b.unary(Unary::Sin, x).expect("well typed");
    let exp = b.unary(Unary::Exp, sin).expect("well typed");
    let product = b.mul(exp, x).expect("well typed");
    let tanh = b.unary(Unary::Tanh, product).expect("well typed");
    let y = b.add(tanh, x).expect("well typed");
    b.finish(&[y])
}

fn ramp(n: usize) -> Array {
    let values: Vec<f32> = (0..n).map(|i| -2.0 + 4.0 * i as f32 / n as f32).collect();
    Array::from_vec(values, [n]).expect("fits")
}

#[divan::bench(sample_count = 15, sample_size = 1)]
fn ten_million_elements(bencher: Bencher) {
    let executable = compiled(&elementwise());
    let x = ramp(10_000_000);
    bencher.bench_local(|| executable.call(std::slice::from_ref(&x)).expect("runs"));
}

#[divan::bench(sample_count = 15, sample_size = 1)]
fn gradient_over_ten_million_elements(bencher: Bencher) {
    let mut b = Builder::new("summed");
    let x = b.param(TensorType::new(DType::F32, [10_000_000]));
    let y = b.inline(&elementwise(), &[x]).expect("well typed")[0];
    let sum = b.reduce_sum(y, &[0]).expect("well typed");
    let executable = compiled(&autodiff::grad(&b.finish(&[sum]), &[0]).expect("differentiable"));
    let x = ramp(10_000_000);
    bencher.bench_local(|| executable.call(std::slice::from_ref(&x)).expect("runs"));
}

/// Weights and biases of a network.
type Layers = Vec<(Tensor, Tensor)>;

fn network(sizes: &[usize]) -> Layers {
    let key = random::key(0);
    let layer = |(i, pair): (usize, &[usize])| {
        let key = random::fold_in(&key, i as i64);
        (nn::he_normal(&key, DType::F32, [pair[0], pair[1]]), Tensor::zeros(DType::F32, [pair[1]]))
    };
    sizes.windows(2).enumerate().map(layer).collect()
}

fn loss(layers: &Layers, x: &Tensor, y: &Tensor) -> Tensor {
    let (last, hidden) = layers.split_last().expect("layers");
    let mut h = x.clone();
    for (w, b) in hidden {
        h = (h.matmul(w) + b).relu();
    }
    (h.matmul(&last.0) + &last.1).cross_entropy(y).mean()
}

const NETWORKS: [(&[usize], usize); 2] = [(&[64, 128, 128, 10], 64), (&[784, 512, 512, 10], 128)];

#[divan::bench(args = [0, 1], sample_count = 100)]
fn training_step_of_network(bencher: Bencher, which: usize) {
    let (sizes, batch) = NETWORKS[which];
    let layers = network(sizes);
    let x = random::normal(&random::key(1), DType::F32, [batch, sizes[0]]);
    let y = Tensor::arange(DType::I64, batch).floor_mod(sizes[sizes.len() - 1] as i64);
    let step = jit(value_and_grad(loss));
    step.call((&layers, &x, &y)).expect("runs");
    bencher.bench_local(|| step.call((&layers, &x, &y)).expect("runs"));
}

#[divan::bench(args = [0, 1], sample_count = 10)]
fn first_training_step_of_network(bencher: Bencher, which: usize) {
    let (sizes, batch) = NETWORKS[which];
    let layers = network(sizes);
    let x = random::normal(&random::key(1), DType::F32, [batch, sizes[0]]);
    let y = Tensor::arange(DType::I64, batch).floor_mod(sizes[sizes.len() - 1] as i64);
    bencher.bench_local(|| jit(value_and_grad(loss)).call((&layers, &x, &y)).expect("runs"));
}

#[divan::bench]
fn text_round_trip_of_a_gradient(bencher: Bencher) {
    let text = autodiff::value_and_grad(&three_numbers(), &[0]).expect("differentiable").to_string();
    bencher.bench(|| Program::parse(black_box(&text)).expect("parses").to_string());
}

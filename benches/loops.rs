//! Loops and their gradients: a simulation of many small steps.
//!
//! `cargo bench --bench loops`

use divan::{Bencher, black_box};
use pullback::control::fori_loop;
use pullback::prelude::*;

fn main() {
    divan::main();
}

/// Growth of prey, what predators take, death of predators, their growth.
const PARAMETERS: [f64; 4] = [1.5, 1.0, 3.0, 1.0];

/// Prey and predators after so many steps of the classical Runge-Kutta method, each of length 0.01: their sum.
fn lotka_volterra(steps: usize) -> impl Fn(&Tensor) -> Tensor {
    move |p: &Tensor| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| p.index_axis(0, i));
        let slope = |x: &Tensor, y: &Tensor| {
            let meetings = x * y;
            (&a * x - &b * &meetings, &d * &meetings - &c * y)
        };
        let h = 0.01;
        let state = (Tensor::from(10.0), Tensor::from(5.0));
        let (x, y) = fori_loop(0, steps, &state, |_, (x, y)| {
            let (x1, y1) = slope(x, y);
            let (x2, y2) = slope(&(x + h / 2.0 * &x1), &(y + h / 2.0 * &y1));
            let (x3, y3) = slope(&(x + h / 2.0 * &x2), &(y + h / 2.0 * &y2));
            let (x4, y4) = slope(&(x + h * &x3), &(y + h * &y3));
            (x + h / 6.0 * (x1 + 2.0 * (x2 + x3) + x4), y + h / 6.0 * (y1 + 2.0 * (y2 + y3) + y4))
        });
        x + y
    }
}

#[divan::bench(args = [1_000, 1_000_000], sample_count = 20)]
fn lotka_volterra_value_and_grad(bencher: Bencher, steps: usize) {
    let p = Tensor::from(PARAMETERS);
    let step = jit(value_and_grad(lotka_volterra(steps))).compile((&p,)).expect("compiles");
    let step = step.direct::<f64, 4, 5>().expect("numbers");
    bencher.bench_local(|| step.call(black_box(PARAMETERS)).expect("runs"));
}

/// Running sums, each element written into the array they are read from, and their gradient.
#[divan::bench(args = [1_000, 100_000], sample_count = 20)]
fn value_and_grad_of_sums_in_place(bencher: Bencher, n: usize) {
    let sums = move |x: &Tensor| {
        let sums = fori_loop(1, n, x, |i, x| x.set_at(i.clone(), x.at(i - 1) * 0.5 + x.at(i)));
        sums.sum()
    };
    let x = Tensor::ones(DType::F64, [n]);
    let step = jit(value_and_grad(sums)).compile((&x,)).expect("compiles");
    bencher.bench_local(|| step.call((black_box(&x),)).expect("runs"));
}

#[divan::bench(args = [1_000, 1_000_000], sample_count = 20)]
fn lotka_volterra_first_gradient(bencher: Bencher, steps: usize) {
    let p = Tensor::from(PARAMETERS);
    bencher.bench_local(|| jit(value_and_grad(lotka_volterra(steps))).compile((&p,)).expect("compiles"));
}

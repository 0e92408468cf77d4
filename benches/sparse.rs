//! What sparse derivatives cost beside dense ones, and what it costs to plan them.
//!
//! `cargo bench --bench sparse`

use divan::{Bencher, black_box};
use pullback::prelude::*;
use pullback::random;

fn main() {
    divan::main();
}

fn rosenbrock(x: &Tensor) -> Tensor {
    let (a, b) = (x.slice(..-1), x.slice(1..));
    ((b - a.square()).square() * 100.0 + (1.0 - a).square()).sum()
}

fn ramp(n: usize) -> Tensor {
    Tensor::linspace(DType::F64, -1.0, 2.0, n)
}

#[divan::bench(args = [10, 100, 1000])]
fn dense_hessian_of_rosenbrock(bencher: Bencher, n: usize) {
    let (hessian, x) = (jit(hessian(rosenbrock)), ramp(n));
    hessian.call((&x,)).expect("runs");
    bencher.bench_local(|| hessian.call((black_box(&x),)).expect("runs"));
}

#[divan::bench(args = [10, 100, 1000, 100_000])]
fn sparse_hessian_of_rosenbrock(bencher: Bencher, n: usize) {
    let x = ramp(n);
    let plan = sparse_hessian(rosenbrock).plan((&x,)).expect("a plan");
    plan.call((&x,)).expect("runs");
    bencher.bench_local(|| plan.call((black_box(&x),)).expect("runs"));
}

#[divan::bench(args = [100, 10_000], sample_count = 10)]
fn planning_and_first_hessian_of_rosenbrock(bencher: Bencher, n: usize) {
    let x = ramp(n);
    bencher.bench_local(|| {
        let plan = sparse_hessian(rosenbrock).plan((&x,)).expect("a plan");
        plan.call((&x,)).expect("runs")
    });
}

/// One step of a heat equation whose conductivity depends on temperature.
fn heat(u: &Tensor) -> Tensor {
    let flux = (u.slice(1..) - u.slice(..-1)) * (1.0 + (u.slice(1..) * u.slice(..-1)).square()) * 0.1;
    let inner = u.slice(1..).slice(..-1) + flux.slice(1..) - flux.slice(..-1);
    concat(&[u.slice(..1), inner, u.slice(-1..)], 0)
}

#[divan::bench(args = [100, 1000])]
fn dense_jacobian_of_heat(bencher: Bencher, n: usize) {
    let (jacobian, u) = (jit(jacobian(heat)), ramp(n));
    jacobian.call((&u,)).expect("runs");
    bencher.bench_local(|| jacobian.call((black_box(&u),)).expect("runs"));
}

#[divan::bench(args = [100, 1000])]
fn sparse_jacobian_of_heat(bencher: Bencher, n: usize) {
    let u = ramp(n);
    let plan = sparse_jacobian(heat).plan((&u,)).expect("a plan");
    plan.call((&u,)).expect("runs");
    bencher.bench_local(|| plan.call((black_box(&u),)).expect("runs"));
}

/// Cameras of nine numbers, points of three; each observation is of two points by one camera, and its residual the
/// difference of their images: a block of 2 by 15.
struct Bundle {
    parameters: (Tensor, Tensor),
    camera: Tensor,
    from: Tensor,
    to: Tensor,
}

impl Bundle {
    fn new(observations: usize) -> Bundle {
        let (cameras, points) = (observations / 100, observations / 4);
        let key = random::key(3);
        let numbers = |i, n, m| random::normal(&random::fold_in(&key, i), DType::F64, [n, m]);
        let every = Tensor::arange(DType::I64, observations);
        let from = (&every * 7).floor_mod(points as i64);
        Bundle {
            parameters: (numbers(0, cameras, 9), numbers(1, points, 3)),
            camera: every.floor_mod(cameras as i64),
            to: (&from + 1 + every.floor_mod(3)).floor_mod(points as i64),
            from,
        }
    }
}

fn residuals(parameters: &(Tensor, Tensor), camera: &Tensor, from: &Tensor, to: &Tensor) -> Tensor {
    let (cameras, points) = parameters;
    let camera = cameras.take(camera, 0);
    let (turn, shift, lens) = (camera.slice((.., 0..3)), camera.slice((.., 3..6)), camera.slice((.., 6..9)));
    let image = |point: Tensor| {
        let seen = turn.cos() * &point + turn.sin() * point.flip(1) + &shift;
        let flat = seen.slice((.., 0..2)) / (seen.slice((.., 2..3)).square() + 1.0);
        let distance = flat.square().sum_axes(1).expand_dims(1);
        let bent = 1.0 + (lens.slice((.., 1..2)) + lens.slice((.., 2..3)) * &distance) * &distance;
        flat * bent * lens.slice((.., 0..1))
    };
    image(points.take(from, 0)) - image(points.take(to, 0))
}

#[divan::bench(args = [2000])]
fn sparse_jacobian_of_bundle(bencher: Bencher, observations: usize) {
    let Bundle { parameters, camera, from, to } = Bundle::new(observations);
    let plan = sparse_jacobian(residuals).plan((&parameters, &camera, &from, &to)).expect("a plan");
    assert_eq!(plan.pattern().entries(), observations * 2 * 15);
    plan.call((&parameters, &camera, &from, &to)).expect("runs");
    bencher.bench_local(|| plan.call((black_box(&parameters), &camera, &from, &to)).expect("runs"));
}

#[divan::bench(args = [2000], sample_count = 10)]
fn planning_and_first_jacobian_of_bundle(bencher: Bencher, observations: usize) {
    let Bundle { parameters, camera, from, to } = Bundle::new(observations);
    bencher.bench_local(|| {
        let plan = sparse_jacobian(residuals).plan((&parameters, &camera, &from, &to)).expect("a plan");
        plan.call((&parameters, &camera, &from, &to)).expect("runs")
    });
}

#[divan::bench(args = [2000], sample_count = 3)]
fn dense_jacobian_of_bundle(bencher: Bencher, observations: usize) {
    let Bundle { parameters, camera, from, to } = Bundle::new(observations);
    let jacobian = jit(jacobian(residuals));
    jacobian.call((&parameters, &camera, &from, &to)).expect("runs");
    bencher.bench_local(|| jacobian.call((black_box(&parameters), &camera, &from, &to)).expect("runs"));
}

//! Solutions of equations, differentiated by the equation.

mod common;

use common::{assert_bits, assert_close, derivative, floats, item, slopes, vec};
use pullback::control::{fori_loop, scan, while_loop};
use pullback::custom::Map;
use pullback::prelude::*;
use pullback::transform::{Arg, saved_residuals};

fn newton(f: &Map<Tensor>, guess: &Tensor) -> Tensor {
    let slope =
        |x: &Tensor| jvp(|x: &Tensor| f.apply(x)).call((x,), (&x.ones_like(),)).map(|(_, slope)| slope);
    while_loop(guess, |x| f.apply(x).abs().gt(1e-13), |x| Ok::<_, Error>(x - f.apply(x) / slope(x)?))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn divide(slope: &Map<Tensor>, b: &Tensor) -> Tensor {
    b / slope.apply(&b.ones_like())
}

/// The cube root.
fn root(a: &Tensor) -> Tensor {
    custom_root(|x: &Tensor| x * x * x - a, &Tensor::from(1.0), newton, divide)
}

/// Conjugate gradients, until nothing is left.
fn conjugate_gradients(a: &Map<Tensor>, b: &Tensor) -> Tensor {
    let start = (&b.zeros_like(), b, b);
    let is_left = |(_, r, _): &(Tensor, Tensor, Tensor)| r.square().sum().gt(1e-28);
    let step = |(x, r, p): &(Tensor, Tensor, Tensor)| {
        let (applied, size) = (a.apply(p), r.square().sum());
        let alpha = &size / (p * &applied).sum();
        let next = r - &alpha * applied;
        let beta = next.square().sum() / size;
        (x + alpha * p, next.clone(), &next + beta * p)
    };
    while_loop(start, is_left, step).0
}

/// A symmetric positive definite matrix that depends on some numbers.
fn matrix(k: &Tensor) -> Tensor {
    let k = k.reshape([3, 1]);
    k.matmul(&k.t()) + Tensor::eye(DType::F64, 3) * 2.0
}

fn solution(k: &Tensor, b: &Tensor) -> Tensor {
    let a = matrix(k);
    custom_linear_solve(|x: &Tensor| a.matmul(x), b, conjugate_gradients)
}

/// The same by the formula of Sherman and Morrison.
fn explicit(k: &Tensor, b: &Tensor) -> Tensor {
    b / 2.0 - k * (k * b).sum() / (4.0 + 2.0 * k.square().sum())
}

#[test]
fn derivatives_of_a_root_are_those_of_the_function_it_is() {
    let a = 2.0f64;
    let expected = [
        a.cbrt(),
        a.powf(-2.0 / 3.0) / 3.0,
        a.powf(-5.0 / 3.0) * -2.0 / 9.0,
        a.powf(-8.0 / 3.0) * 10.0 / 27.0,
    ];
    let found: Vec<f64> = (0..4).map(|order| derivative(root, a, order)).collect();
    assert_close(&found, &expected, 1e-12);
}

#[test]
fn nothing_of_the_solver_is_kept() {
    let saved = saved_residuals(&root, (&Tensor::from(2.0),)).unwrap();
    assert!(saved.rows.iter().all(|row| row.bytes == Some(8)), "{saved}");
}

#[test]
fn roots_in_lanes_loops_and_live_histories() {
    let a = floats(&[1.0, 8.0, 27.0]);
    let slopes = vmap(grad(root)).call((&a,)).unwrap();
    assert_close(&vec(&slopes), &[1.0 / 3.0, 1.0 / 12.0, 1.0 / 27.0], 1e-12);
    // The cube root twice, in a loop.
    let ninth = |a: &Tensor| fori_loop(0, 2, a, |_, x| root(x));
    assert_close(&[derivative(ninth, 2.0, 1)], &[2f64.powf(-8.0 / 9.0) / 9.0], 1e-12);
    let a = Tensor::param(Tensor::from(8.0));
    root(&a).backward().unwrap();
    assert_close(&[item(&a.grad().unwrap().unwrap())], &[1.0 / 12.0], 1e-12);
}

#[test]
fn roots_of_trees_with_several_unknowns() {
    // x + y = a, x * y = b, by fixed iterations of Newton's method and Cramer's rule.
    type Pair = (Tensor, Tensor);
    let by_cramer = |slope: &Map<Pair>, (p, q): &Pair| {
        let (one, zero) = (Tensor::from(1.0), Tensor::from(0.0));
        let (a, c) = slope.apply(&(one.clone(), zero.clone()));
        let (b, d) = slope.apply(&(zero, one));
        let det = &a * &d - &b * &c;
        ((d * p - b * q) / &det, (a * q - c * p) / det)
    };
    let solve = |f: &Map<Pair>, guess: &Pair| {
        let step = |_: &Tensor, pair: &Pair| {
            let (x, y) = pair;
            let (r, s) = f.apply(pair);
            let det = x - y;
            (x - (x * r - &s) / &det, y - (s - y * (f.apply(pair).0)) / det)
        };
        fori_loop(0, 60, (&guess.0, &guess.1), step)
    };
    let roots = |a: &Tensor, b: &Tensor| {
        let f = |(x, y): &Pair| (x + y - a, x * y - b);
        custom_root(f, &(Tensor::from(5.0), Tensor::from(0.5)), solve, by_cramer)
    };
    let larger = |a: &Tensor, b: &Tensor| roots(a, b).0;
    let (a, b) = (Tensor::from(5.0), Tensor::from(6.0));
    assert_close(&[item(&larger(&a, &b))], &[3.0], 1e-12);
    // x = (a + sqrt(a^2 - 4 b)) / 2.
    let by_a = item(&jit(grad(larger)).call((&a, &b)).unwrap());
    let by_b = item(&jit(grad(larger).argnums(Arg::<1>)).call((&a, &b)).unwrap());
    assert_close(&[by_a, by_b], &[3.0, -1.0], 1e-12);
}

#[test]
fn derivatives_of_linear_solves() {
    let (k, b) = (floats(&[0.5, -1.0, 0.8]), floats(&[1.0, 2.0, -0.5]));
    let of_k = |k: &Tensor| (solution(k, &b) * floats(&[1.0, -2.0, 3.0])).sum();
    let of_b = |b: &Tensor| (solution(&k, b) * floats(&[1.0, -2.0, 3.0])).sum();
    let of_k_explicit = |k: &Tensor| (explicit(k, &b) * floats(&[1.0, -2.0, 3.0])).sum();
    let of_b_explicit = |b: &Tensor| (explicit(&k, b) * floats(&[1.0, -2.0, 3.0])).sum();
    assert_close(&vec(&solution(&k, &b)), &vec(&explicit(&k, &b)), 1e-12);
    assert_close(&slopes(of_k, &k), &slopes(of_k_explicit, &k), 1e-11);
    assert_close(&slopes(of_b, &b), &slopes(of_b_explicit, &b), 1e-11);
    let second = |f: &dyn Fn(&Tensor) -> Tensor| vec(&hessian(|k: &Tensor| f(k)).call((&k,)).unwrap());
    for (found, expected) in second(&of_k).into_iter().zip(second(&of_k_explicit)) {
        assert!((found - expected).abs() < 1e-10, "{found} instead of {expected}");
    }
    let both = |k: &Tensor, b: &Tensor| solution(k, b).square().sum();
    let mixed = jit(grad(move |k: &Tensor, b: &Tensor| {
        Ok::<_, Error>(grad(both).argnums(Arg::<1>).call((k, b))?.sum())
    }));
    let mixed_explicit = grad(|k: &Tensor, b: &Tensor| {
        let both = |k: &Tensor, b: &Tensor| explicit(k, b).square().sum();
        Ok::<_, Error>(grad(both).argnums(Arg::<1>).call((k, b))?.sum())
    });
    let (found, expected) = (mixed.call((&k, &b)).unwrap(), mixed_explicit.call((&k, &b)).unwrap());
    assert_close(&vec(&found), &vec(&expected), 1e-10);
}

#[test]
fn linear_solves_in_lanes() {
    let k = Tensor::from([[0.5, -1.0, 0.8], [1.0, 0.2, -0.3]]);
    let b = Tensor::from([[1.0, 2.0, -0.5], [0.3, 0.1, 2.0]]);
    let gradient =
        |k: &Tensor, b: &Tensor| grad(|k: &Tensor, b: &Tensor| solution(k, b).square().sum()).call((k, b));
    let row = |x: &Tensor, i: usize| x.index_axis(0, i as i64);
    for (k_axis, b_axis) in [(Some(0), Some(0)), (Some(0), None), (None, Some(0))] {
        let (k, b) = (
            if k_axis.is_some() { k.clone() } else { row(&k, 0) },
            if b_axis.is_some() { b.clone() } else { row(&b, 0) },
        );
        let lanes = vmap(gradient).in_axes((k_axis, b_axis)).call((&k, &b)).unwrap();
        for i in 0..2 {
            let k = if k_axis.is_some() { row(&k, i) } else { k.clone() };
            let b = if b_axis.is_some() { row(&b, i) } else { b.clone() };
            assert_close(&vec(&row(&lanes, i)), &vec(&gradient(&k, &b).unwrap()), 1e-11);
        }
    }
}

#[test]
fn a_solver_with_its_own_way_to_know_the_operator() {
    // By the inverse, worked out once outside, which is transposed when the operator is.
    let solve = |a: &Tensor| {
        let (p, q, r, s) = (a.at((0, 0)), a.at((0, 1)), a.at((1, 0)), a.at((1, 1)));
        let det = &p * &s - &q * &r;
        let inverse = concat(&[s.reshape([1]), -q.reshape([1]), -r.reshape([1]), p.reshape([1])], 0)
            .reshape([2, 2])
            / det;
        let by_inverse = |map: &Map<Tensor>, b: &Tensor| {
            if map.is_transpose() { inverse.t().matmul(b) } else { inverse.matmul(b) }
        };
        custom_linear_solve(|x: &Tensor| a.matmul(x), &floats(&[1.0, 2.0]), by_inverse).sum()
    };
    let a = Tensor::from([[2.0, 1.0], [0.5, 3.0]]);
    // x = A^-1 b, dx/dA = -(A^-T 1) x^T.
    let (x, y) = ([1.0 / 5.5, 3.5 / 5.5], [2.5 / 5.5, 1.0 / 5.5]);
    let expected = [-y[0] * x[0], -y[0] * x[1], -y[1] * x[0], -y[1] * x[1]];
    assert_close(&vec(&grad(solve).call((&a,)).unwrap()), &expected, 1e-14);
    assert_close(&vec(&jit(grad(solve)).call((&a,)).unwrap()), &expected, 1e-14);
}

#[test]
fn a_scan_of_implicit_steps() {
    // Backward Euler for y' = -k y: every step a root, y after ten steps (1 + h k)^-10.
    let end = |k: &Tensor| {
        let step = |y: &Tensor, (): &()| {
            let f = |next: &Tensor| next - y + k * next * 0.1;
            (custom_root(f, y, newton, divide), ())
        };
        scan(&Tensor::from(1.0), 10, step).0
    };
    let slope = |k: f64| -(1.0 + 0.1 * k).powi(-11);
    assert_close(&[derivative(end, 2.0, 1)], &[slope(2.0)], 1e-12);
    let compiled = jit(grad(end)).call((&Tensor::from(2.0),)).unwrap();
    assert_bits(&compiled, &grad(end).call((&Tensor::from(2.0),)).unwrap(), "compiled");
}

#[test]
fn what_no_solver_finds_is_nan_and_not_an_endless_loop() {
    let bounded = |f: &Map<Tensor>, guess: &Tensor| fori_loop(0, 5, guess, |_, x| x - f.apply(x) / (x * 2.0));
    let f = |a: &Tensor| custom_root(|x: &Tensor| x * x - a, &Tensor::from(0.0), bounded, divide);
    assert!(item(&f(&Tensor::from(1.0))).is_nan());
    assert!(item(&grad(f).call((&Tensor::from(1.0),)).unwrap()).is_nan());
}

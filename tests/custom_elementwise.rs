//! Elementwise functions given as plain functions of numbers, and identities with another derivative.

mod common;

use common::{assert_bits, assert_close, derivative, floats, item, slopes, vec};
use pullback::custom::{Elementwise, custom_elementwise};
use pullback::prelude::*;
use pullback::{GradcheckOptions, gradcheck};

const A: f64 = 3.0;

/// `a * x^2`, each under a name of its own, since tests run at once.
fn scaled_square(name: &str) -> Elementwise {
    custom_elementwise(name, |x| A * x * x, |x, _, upstream| 2.0 * A * x * upstream)
}

#[test]
fn e17_ops_of_the_user() {
    let x = floats(&[0.5, -1.0, 2.0]);
    let rule = |x: &Tensor| {
        let forward = |x: &Tensor| (x * x * A, x.clone());
        let backward = |x: &Tensor, upstream: &Tensor| (2.0 * A * x * upstream,);
        custom_vjp(|x: &Tensor| x * x * A, forward, backward).call((x,))
    };
    gradcheck(|x: &Tensor| Ok::<_, Error>(rule(x)?.sum()), (&x,), GradcheckOptions::default())
        .unwrap()
        .ok()
        .unwrap();
    let elementwise = scaled_square("e17");
    gradcheck(|x: &Tensor| elementwise.apply(x).sum(), (&x,), GradcheckOptions::default())
        .unwrap()
        .ok()
        .unwrap();
    assert_bits(&elementwise.apply(&x), &(&x * &x * A), "value");
    assert_close(&slopes(|x| elementwise.apply(x).sum(), &x), &[3.0, -6.0, 12.0], 0.0);
    let wrong = custom_elementwise("e17_wrong", |x| A * x * x, |x, _, upstream| A * x * upstream);
    let report = gradcheck(|x: &Tensor| wrong.apply(x).sum(), (&x,), GradcheckOptions::default()).unwrap();
    assert!(report.ok().is_err(), "the wrong slope is found");
}

#[test]
fn elementwise_functions_in_lanes_loops_and_live_histories() {
    let square = scaled_square("lanes");
    let x = Tensor::from([[0.5, -1.0], [2.0, 0.0]]);
    let rows = vmap(grad(|x: &Tensor| square.apply(x).sum())).call((&x,)).unwrap();
    assert_bits(&rows, &(&x * (2.0 * A)), "lanes");
    let twice = |x: &Tensor| fori_loop(0, 2, x, |_, x| square.apply(x));
    assert_close(&[derivative(twice, 0.5, 0), derivative(twice, 0.5, 1)], &[27.0 / 16.0, 13.5], 1e-15);
    let param = Tensor::param(floats(&[1.0, 2.0]));
    square.apply(&param).sum().backward().unwrap();
    assert_eq!(vec(&param.grad().unwrap().unwrap()), [6.0, 12.0]);
    let single = Tensor::from([0.1f32, 2.0]);
    assert_bits(
        &square.apply(&single),
        &Tensor::from([(A * 0.1f32 as f64 * 0.1f32 as f64) as f32, 12.0]),
        "f32",
    );
    for shape in [&[][..], &[0], &[2, 0, 3]] {
        let x = Tensor::ones(DType::F64, shape);
        assert_bits(&grad(|x: &Tensor| square.apply(x).sum()).call((&x,)).unwrap(), &(&x * 6.0), "shapes");
    }
}

#[test]
fn a_second_derivative_of_a_plain_function_is_an_error() {
    let square = scaled_square("second");
    let f = |x: &Tensor| square.apply(x);
    let error = grad(grad(f)).call((&Tensor::from(1.0),)).unwrap_err().to_string();
    assert!(error.contains("CustomCallRequiresJvpContract") && error.contains("second.backward"), "{error}");
    let error = square.apply(&Tensor::from(1i64)).array().unwrap_err().to_string();
    assert!(error.contains("it takes floats"), "{error}");
}

#[test]
fn gradients_that_are_scaled() {
    let f = |x: &Tensor| (x.with_gradient_scale(-2.0) * x).sum();
    let x = floats(&[0.5, f64::NAN, f64::INFINITY, -0.0]);
    assert_bits(&x.with_gradient_scale(0.5), &x, "value");
    assert_close(&slopes(f, &floats(&[0.5, 3.0])), &[-0.5, -3.0], 0.0);
    assert_eq!(derivative(|x| x.with_gradient_scale(0.5).powi(3), 1.0, 2), 6.0 * 0.25);
    let ints = Tensor::from(3i64);
    assert_bits(&ints.with_gradient_scale(0.5), &ints, "integers");
    let single = Tensor::from([1.0f32]);
    assert_bits(
        &grad(|x: &Tensor| x.with_gradient_scale(0.5).sum()).call((&single,)).unwrap(),
        &(&single * 0.5),
        "f32",
    );
}

#[test]
fn gradients_straight_through() {
    let f = |x: &Tensor| (x.straight_through(&x.round()) * 3.0).square().sum();
    let x = floats(&[0.4, 1.6]);
    assert_eq!(vec(&x.straight_through(&x.round())), [0.0, 2.0]);
    assert_close(&slopes(f, &x), &[0.0, 36.0], 0.0);
    // The value passes nothing on.
    let to_value = |y: &Tensor| Tensor::from(1.0).straight_through(&y.square());
    assert_eq!(item(&grad(to_value).call((&Tensor::from(3.0),)).unwrap()), 0.0);
    let lanes = vmap(grad(|x: &Tensor| x.straight_through(&x.sign()) * x)).call((&x,)).unwrap();
    assert_eq!(vec(&lanes), [1.4, 2.6]);
    let error = x.straight_through(&Tensor::from(1.0)).array().unwrap_err().to_string();
    assert!(error.contains("f64[2]") && error.contains("one type"), "{error}");
}

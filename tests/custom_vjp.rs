//! Functions with a rule of reverse mode.

mod common;

use common::{assert_bits, assert_close, derivative, floats, item, slopes, vec};
use pullback::prelude::*;
use pullback::transform::Arg;

#[track_caller]
fn unwrap<T>(result: Result<T, Error>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// The exponential, with the rule that keeps the output.
fn exp(x: &Tensor) -> Tensor {
    let forward = |x: &Tensor| {
        let y = x.exp();
        (y.clone(), y)
    };
    unwrap(custom_vjp(|x: &Tensor| x.exp(), forward, |y: &Tensor, ct: &Tensor| (y * ct,)).call((x,)))
}

/// A rule that is not the derivative, so that one sees that it is used: 3 x ct.
fn lie(x: &Tensor) -> Tensor {
    let forward = |x: &Tensor| (x.square(), x.clone());
    unwrap(custom_vjp(|x: &Tensor| x.square(), forward, |x: &Tensor, ct: &Tensor| (x * ct * 3.0,)).call((x,)))
}

/// The same value; gradients that pass here are clipped.
fn clip(x: &Tensor) -> Tensor {
    let forward = |x: &Tensor| (x.clone(), ());
    unwrap(
        custom_vjp(|x: &Tensor| x.clone(), forward, |_: &(), ct: &Tensor| (ct.clamp(-1.0, 1.0),)).call((x,)),
    )
}

#[test]
fn a28_2_no_gradient_by_an_argument() {
    let f = custom_vjp(
        |a: &Tensor, b: &Tensor| a * b,
        |a: &Tensor, b: &Tensor| (a * b, b.clone()),
        |b: &Tensor, ct: &Tensor| (ct * b, None::<Tensor>),
    );
    let (a, b) = (Tensor::from(3.0), Tensor::from(4.0));
    let (da, db) = grad(&f).argnums((Arg::<0>, Arg::<1>)).call((&a, &b)).unwrap();
    assert_eq!((item(&da), item(&db)), (4.0, 0.0));
}

#[test]
fn a28_3_clipped_gradients() {
    let f = |x: &Tensor| clip(x).powi(3);
    assert_eq!([1, 2].map(|order| derivative(f, 2.0, order)), [1.0, 0.0]);
    for slopes in
        [vmap(grad(f)).call((&floats(&[2.0, 0.1]),)), jit(vmap(grad(f))).call((&floats(&[2.0, 0.1]),))]
    {
        assert_close(&vec(&slopes.unwrap()), &[1.0, 0.03], 1e-15);
    }
    // Within the bounds the second derivative is that of the cube.
    assert_close(&[derivative(f, 0.1, 2)], &[0.6], 1e-14);
}

#[test]
fn the_rule_is_the_derivative_in_both_modes() {
    let x = floats(&[0.5, -1.0, 2.0]);
    assert_bits(&lie(&x), &x.square(), "value");
    // Forward mode too: the rule is linear.
    assert_close(&slopes(|x| lie(x).sum(), &x), &[1.5, -3.0, 6.0], 0.0);
    assert_close(&slopes(|x| exp(x).sum(), &x), &[0.5, -1.0, 2.0].map(f64::exp), 1e-15);
}

#[test]
fn rules_are_differentiated_in_turn() {
    for order in 0..=4 {
        assert_close(&[derivative(exp, 0.7, order)], &[0.7f64.exp()], 1e-15);
    }
    assert_eq!([2, 3].map(|order| derivative(lie, 0.7, order)), [3.0, 0.0]);
    let x = floats(&[0.5, -1.0]);
    let second = hessian(|x: &Tensor| exp(x).sum()).call((&x,)).unwrap();
    assert_close(&vec(&second), &[0.5f64.exp(), 0.0, 0.0, (-1f64).exp()], 1e-15);
    let forward_twice = jvp(|x: &Tensor| unwrap(jvp(lie).call((x,), (&Tensor::from(1.0),))).1);
    assert_eq!(item(&forward_twice.call((&Tensor::from(2.0),), (&Tensor::from(1.0),)).unwrap().1), 3.0);
    let reverse_of_forward = grad(|x: &Tensor| unwrap(jvp(lie).call((x,), (&Tensor::from(1.0),))).1);
    assert_eq!(item(&reverse_of_forward.call((&Tensor::from(2.0),)).unwrap()), 3.0);
}

#[test]
fn a_residual_that_is_the_output_follows_the_rule() {
    // Its value is sin, and it says of itself that its slope is its value.
    let forward = |x: &Tensor| {
        let y = x.sin();
        (y.clone(), y)
    };
    let rule = custom_vjp(|x: &Tensor| x.sin(), forward, |y: &Tensor, ct: &Tensor| (y * ct,));
    let f = |x: &Tensor| unwrap(rule.call((x,)));
    for order in 0..=3 {
        assert_close(&[derivative(f, 0.7, order)], &[0.7f64.sin()], 1e-15);
    }
}

#[test]
fn residuals_have_derivatives_of_their_own() {
    let f = |x: &Tensor| {
        let forward = |x: &Tensor| (x.sin(), x.cos());
        unwrap(custom_vjp(|x: &Tensor| x.sin(), forward, |cos: &Tensor, ct: &Tensor| (cos * ct,)).call((x,)))
    };
    let due = [0.7f64.sin(), 0.7f64.cos(), -0.7f64.sin(), -0.7f64.cos(), 0.7f64.sin()];
    for (order, due) in due.into_iter().enumerate() {
        assert_close(&[derivative(f, 0.7, order)], &[due], 1e-14);
    }
}

#[test]
fn on_lanes() {
    let scaled = custom_vjp(
        |w: &Tensor, x: &Tensor| w * x,
        |w: &Tensor, x: &Tensor| (w * x, (w.clone(), x.clone())),
        |(w, x): &(Tensor, Tensor), ct: &Tensor| (ct * x * 10.0, ct * w * 100.0),
    );
    let rows = |w: &Tensor, x: &Tensor| Ok::<_, Error>(vmap(&scaled).in_axes((None, 0)).call((w, x))?.sum());
    let (w, xs) = (floats(&[2.0, 3.0]), Tensor::from([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]));
    let gradients = grad(rows).argnums((Arg::<0>, Arg::<1>));
    let (dw, dx) = gradients.call((&w, &xs)).unwrap();
    assert_eq!(vec(&dw), [90.0, 120.0]);
    assert_eq!(vec(&dx), [200.0, 300.0, 200.0, 300.0, 200.0, 300.0]);
    assert_bits(&dw, &jit(gradients).call((&w, &xs)).unwrap().0, "compiled");
    let (_, along) = jvp(rows).call((&w, &xs), (&floats(&[1.0, 0.0]), &xs.zeros_like())).unwrap();
    assert_eq!(item(&along), 90.0);
    let outside = vmap(grad(|x: &Tensor| lie(x)));
    assert_close(&vec(&outside.call((&floats(&[2.0, -1.0]),)).unwrap()), &[6.0, -3.0], 0.0);
    let full = jacobian(|x: &Tensor| lie(x)).call((&floats(&[2.0, -1.0]),)).unwrap();
    assert_eq!(vec(&full), [6.0, 0.0, 0.0, -3.0]);
}

#[test]
fn inside_loops_and_branches() {
    let steps = |x: &Tensor| fori_loop(0, 3, x, |_, x| exp(&(x * 0.5)));
    let plain = |x: &Tensor| fori_loop(0, 3, x, |_, x| (x * 0.5).exp());
    for order in 0..=2 {
        let (found, due) = (derivative(steps, 0.4, order), derivative(plain, 0.4, order));
        assert_close(&[found], &[due], 1e-14);
    }
    let sums = |x: &Tensor| scan(&Tensor::from(0.0), x, |sum, x| (lie(&(sum + x)), sum.clone())).0;
    assert_close(&slopes(sums, &floats(&[1.0, 2.0])), &[27.0, 9.0], 0.0);
    let choice = |x: &Tensor| cond(&x.gt(0), x, lie, |x| x.clone());
    assert_eq!([1.0, -1.0].map(|x| derivative(choice, x, 1)), [3.0, 1.0]);
    assert_eq!(vec(&jit(vmap(grad(choice))).call((&floats(&[1.0, -1.0]),)).unwrap()), [3.0, 1.0]);
    let clipped = |x: &Tensor| while_loop(x, |x| x.lt(10.0), |x| clip(x) * 4.0);
    assert_eq!(derivative(clipped, 1.0, 1), 1.0);
}

#[derive(Tree)]
struct Layer {
    weight: Tensor,
    steps: Tensor,
}

#[test]
fn trees_with_integers() {
    let f = custom_vjp(
        |l: &Layer, x: &Tensor| (&l.weight * x, &l.steps + 1),
        |l: &Layer, x: &Tensor| {
            ((&l.weight * x, &l.steps + 1), (l.weight.clone(), x.clone(), l.steps.clone()))
        },
        |(w, x, steps): &(Tensor, Tensor, Tensor), (ct, _): &(Tensor, Tensor)| {
            (Layer { weight: ct * x, steps: steps.clone() }, ct * w)
        },
    );
    let layer = Layer { weight: Tensor::from(2.0), steps: Tensor::from(3i64) };
    let ((y, steps), pullback) = vjp(&f).call((&layer, &Tensor::from(5.0))).unwrap();
    assert_eq!((item(&y), steps.item::<i64>().unwrap()), (10.0, 4));
    let (dl, dx) = pullback.call(&(Tensor::from(1.0), Tensor::from(0i64))).unwrap();
    assert_eq!((item(&dl.weight), item(&dx)), (5.0, 2.0));
}

#[test]
fn the_function_runs_where_nothing_is_differentiated() {
    let f = custom_vjp(|x: &Tensor| x * 1.0, |x: &Tensor| (x * 2.0, ()), |_: &(), ct: &Tensor| (ct.clone(),));
    let x = Tensor::from(3.0);
    assert_eq!(item(&f.call((&x,)).unwrap()), 3.0);
    assert_eq!(item(&jit(&f).call((&x,)).unwrap()), 3.0);
    // Where it is, forward does.
    assert_eq!(item(&value_and_grad(&f).call((&x,)).unwrap().0), 6.0);
}

#[test]
fn programs_hold_their_rules() {
    let lowered = jit(grad(exp)).lower((&Tensor::from(0.5),)).unwrap().program().clone();
    let read = pullback::ir::Program::parse(&lowered.to_string()).unwrap();
    assert_eq!(read, lowered);
    let (primal, linear) = {
        let program = jit(exp).lower((&Tensor::from(0.5),)).unwrap().program().clone();
        let split = pullback::autodiff::linearize(&program, &[0]).unwrap();
        (split.primal.to_string(), split.linear)
    };
    assert_eq!(pullback::ir::Program::parse(&linear.to_string()).unwrap(), linear);
    insta::assert_snapshot!(format!("{primal}\n{linear}"));
}

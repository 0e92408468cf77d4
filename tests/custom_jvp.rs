//! Functions with a rule of forward mode.

mod common;

use common::{assert_bits, assert_close, derivative, floats, item, slopes, vec};
use pullback::prelude::*;
use pullback::transform::Arg;

/// The exponential, with the rule that uses the output.
fn exp(x: &Tensor) -> Tensor {
    let rule = |_: &(Tensor,), y: &Tensor, (dx,): &(Tensor,)| y * dx;
    unwrap(custom_jvp(|x: &Tensor| x.exp(), rule).call((x,)))
}

/// A rule that is not the derivative, so that one sees that it is used: 3 x dx.
fn lie(x: &Tensor) -> Tensor {
    let rule = |(x,): &(Tensor,), _: &Tensor, (dx,): &(Tensor,)| x * dx * 3.0;
    unwrap(custom_jvp(|x: &Tensor| x.square(), rule).call((x,)))
}

#[track_caller]
fn unwrap<T>(result: Result<T, Error>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_rule_is_the_derivative_in_both_modes() {
    let x = floats(&[0.5, -1.0, 2.0]);
    assert_bits(&lie(&x), &x.square(), "value");
    assert_close(&slopes(|x| lie(x).sum(), &x), &[1.5, -3.0, 6.0], 0.0);
    assert_bits(&jit(|x: &Tensor| lie(x)).call((&x,)).unwrap(), &x.square(), "compiled value");
}

#[test]
fn the_rule_is_differentiated_in_turn() {
    for order in 0..=4 {
        assert_close(&[derivative(exp, 0.7, order)], &[0.7f64.exp()], 1e-15);
    }
    // d/dx 3 x = 3, then 0.
    assert_eq!([2, 3].map(|order| derivative(lie, 0.7, order)), [3.0, 0.0]);
    let x = floats(&[0.5, -1.0]);
    let second = hessian(|x: &Tensor| lie(x).sum()).call((&x,)).unwrap();
    assert_eq!(vec(&second), [3.0, 0.0, 0.0, 3.0]);
    let product = hvp(|x: &Tensor| exp(x).sum()).call((&x,), &floats(&[1.0, 2.0])).unwrap();
    assert_close(&vec(&product), &[0.5f64.exp(), 2.0 * (-1f64).exp()], 1e-15);
}

#[test]
fn derivatives_agree_with_those_of_the_ops() {
    let plain = |x: &Tensor| (x.exp() * x.sin()).sum();
    let custom = |x: &Tensor| (exp(x) * x.sin()).sum();
    let x = floats(&[0.3, -0.8, 1.1]);
    assert_bits(&grad(plain).call((&x,)).unwrap(), &grad(custom).call((&x,)).unwrap(), "gradient");
    let second = |f: fn(&Tensor) -> Tensor| vec(&hessian(f).call((&x,)).unwrap());
    assert_close(&second(custom), &second(plain), 1e-15);
}

#[test]
fn on_lanes() {
    let x = floats(&[2.0, 0.1, -1.0]);
    let lanes = jit(vmap(grad(lie))).call((&x,)).unwrap();
    assert_close(&vec(&lanes), &[6.0, 0.3, -3.0], 1e-15);
    // Differentiated on lanes, with an argument that the lanes share.
    let scaled = custom_jvp(
        |w: &Tensor, x: &Tensor| w * x,
        |(w, x): &(Tensor, Tensor), _: &Tensor, (dw, dx): &(Tensor, Tensor)| dw * x * 10.0 + w * dx * 100.0,
    );
    let rows = |w: &Tensor, x: &Tensor| Ok::<_, Error>(vmap(&scaled).in_axes((None, 0)).call((w, x))?.sum());
    let (w, xs) = (floats(&[2.0, 3.0]), Tensor::from([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]));
    let gradients = grad(rows).argnums((Arg::<0>, Arg::<1>));
    let (dw, dx) = gradients.call((&w, &xs)).unwrap();
    assert_eq!(vec(&dw), [90.0, 120.0]);
    assert_eq!(vec(&dx), [200.0, 300.0, 200.0, 300.0, 200.0, 300.0]);
    let (compiled, _) = jit(gradients).call((&w, &xs)).unwrap();
    assert_bits(&dw, &compiled, "compiled");
}

#[test]
fn lanes_that_only_the_tangent_has() {
    // The output is the same in every lane, and the rule looks at what differs.
    let flat = custom_jvp(
        |_: &Tensor, y: &Tensor| y.clone(),
        |(x, _): &(Tensor, Tensor), _: &Tensor, (dx, dy): &(Tensor, Tensor)| x * dx + dy,
    );
    let xs = floats(&[1.0, 2.0]);
    let loss =
        |x: &Tensor| Ok::<_, Error>(vmap(&flat).in_axes((0, None)).call((x, &Tensor::from(5.0)))?.sum());
    assert_eq!(vec(&grad(loss).call((&xs,)).unwrap()), [1.0, 2.0]);
    let none = Tensor::zeros(DType::F64, [0]);
    assert_eq!(vec(&grad(loss).call((&none,)).unwrap()), []);
}

#[test]
fn inside_loops_and_branches() {
    let steps = |x: &Tensor| fori_loop(0, 3, x, |_, x| exp(&(x * 0.5)));
    let plain = |x: &Tensor| fori_loop(0, 3, x, |_, x| (x * 0.5).exp());
    for order in 0..=2 {
        let (found, due) = (derivative(steps, 0.4, order), derivative(plain, 0.4, order));
        assert_close(&[found], &[due], 1e-14);
    }
    let halves = |x: &Tensor| while_loop(x, |x| x.lt(4.0), lie);
    // 2, 4: once through the loop.
    assert_eq!(derivative(halves, 2.0, 1), 6.0);
    let choice = |x: &Tensor| cond(&x.gt(0), x, lie, |x| x.clone());
    assert_eq!([1.0, -1.0].map(|x| derivative(choice, x, 1)), [3.0, 1.0]);
    let lanes = jit(vmap(grad(choice))).call((&floats(&[1.0, -1.0]),)).unwrap();
    assert_eq!(vec(&lanes), [3.0, 1.0]);
    let sums = |x: &Tensor| scan(&Tensor::from(0.0), x, |sum, x| (lie(&(sum + x)), sum.clone())).0;
    let x = floats(&[1.0, 2.0]);
    // ((0 + 1)^2 + 2)^2: 3 * 3 for the last, 9 * 3 * 1 for the first.
    assert_close(&slopes(sums, &x), &[27.0, 9.0], 0.0);
}

#[test]
fn rules_with_loops_and_branches() {
    // x^3 by a loop that carries the tangent along.
    let cube = custom_jvp(
        |x: &Tensor| x * x * x,
        |(x,): &(Tensor,), _: &Tensor, (dx,): &(Tensor,)| {
            let start = (&x.ones_like(), &x.zeros_like());
            fori_loop(0, 3, start, |_, (p, dp): &(Tensor, Tensor)| (p * x, dp * x + p * dx)).1
        },
    );
    let f = |x: &Tensor| unwrap(cube.call((x,)));
    for (order, due) in [8.0, 12.0, 12.0, 6.0].into_iter().enumerate() {
        assert_eq!(derivative(f, 2.0, order), due);
    }
    let relu = custom_jvp(
        |x: &Tensor| x.maximum(0.0),
        |(x,): &(Tensor,), _: &Tensor, (dx,): &(Tensor,)| {
            cond(&x.gt(0), (x, dx), |(_, dx)| dx * 2.0, |(x, _)| x.zeros_like())
        },
    );
    let f = |x: &Tensor| unwrap(relu.call((x,)));
    assert_eq!([1.0, -1.0].map(|x| derivative(f, x, 1)), [2.0, 0.0]);
    assert_eq!(vec(&vmap(grad(f)).call((&floats(&[1.0, -1.0]),)).unwrap()), [2.0, 0.0]);
}

#[derive(Tree)]
struct Layer {
    weight: Tensor,
    steps: Tensor,
}

#[test]
fn trees_with_integers() {
    let f = custom_jvp(
        |l: &Layer, x: &Tensor| (&l.weight * x, &l.steps + 1),
        |(l, x): &(Layer, Tensor), (_, steps): &(Tensor, Tensor), (dl, dx): &(Layer, Tensor)| {
            (&dl.weight * x + &l.weight * dx, steps.clone())
        },
    );
    let layer = Layer { weight: Tensor::from(2.0), steps: Tensor::from(3i64) };
    let x = Tensor::from(5.0);
    let ((y, steps), pullback) = vjp(&f).call((&layer, &x)).unwrap();
    assert_eq!((item(&y), steps.item::<i64>().unwrap()), (10.0, 4));
    let (dl, dx) = pullback.call(&(Tensor::from(1.0), Tensor::from(0i64))).unwrap();
    assert_eq!((item(&dl.weight), item(&dx)), (5.0, 2.0));
    let (y, steps) = jit(&f).call((&layer, &x)).unwrap();
    assert_eq!((item(&y), steps.item::<i64>().unwrap()), (10.0, 4));
}

#[test]
fn what_is_not_differentiated() {
    let product = |x: &Tensor, y: &Tensor| x * y;
    let rule = |(_, y): &(Tensor, Tensor), _: &Tensor, (dx, dy): &(Tensor, Tensor)| y * dx + dy * 1000.0;
    let f = custom_jvp(product, rule).nondiff(&[1]);
    let (x, y) = (Tensor::from(2.0), Tensor::from(3.0));
    let (dx, dy) = grad(&f).argnums((Arg::<0>, Arg::<1>)).call((&x, &y)).unwrap();
    assert_eq!((item(&dx), item(&dy)), (3.0, 0.0));
}

#[test]
fn zero_tangents_stay_zero() {
    // The slope is infinite where the tangent is zero.
    let root = custom_jvp(|x: &Tensor| x.sqrt(), |_: &(Tensor,), y: &Tensor, (dx,): &(Tensor,)| dx * 0.5 / y);
    let f = |x: &Tensor| x.gt(0).select(unwrap(root.call((x,))), 0.0).sum();
    assert_close(&slopes(f, &floats(&[4.0, 0.0])), &[0.25, 0.0], 0.0);
}

#[test]
fn values_are_at_hand_in_the_function() {
    let f = custom_jvp(
        |x: &Tensor| Ok::<_, Error>(if x.item::<f64>()? > 0.0 { x.clone() } else { x * 0.1 }),
        |(x,): &(Tensor,), _: &Tensor, (dx,): &(Tensor,)| x.gt(0).select(dx, &(dx * 0.1)),
    );
    let at = |x: f64| item(&grad(&f).call((&Tensor::from(x),)).unwrap());
    assert_eq!([2.0, -2.0].map(at), [1.0, 0.1]);
}

#[test]
fn captured_tensors() {
    let w = Tensor::from(3.0);
    let f = |x: &Tensor, w: &Tensor| {
        custom_jvp(|x: &Tensor| x * w, |_: &(Tensor,), _: &Tensor, (dx,): &(Tensor,)| dx * w).call((x,))
    };
    let x = Tensor::from(2.0);
    assert_eq!(item(&grad(f).call((&x, &w)).unwrap()), 3.0);
    let stopped = |x: &Tensor, w: &Tensor| f(x, &w.stop_gradient());
    assert_eq!(item(&grad(stopped).argnum::<1>().call((&x, &w)).unwrap()), 0.0);
    let inside_a_loop = |x: &Tensor, w: &Tensor| fori_loop(0, 2, x, |_, x| f(x, w));
    assert_eq!(item(&grad(inside_a_loop).call((&x, &w)).unwrap()), 9.0);
}

#[test]
fn programs_hold_their_rules() {
    let lowered = |x: &Tensor| lie(x);
    let text = jit(lowered).lower((&Tensor::from(2.0),)).unwrap().program().to_string();
    let program = pullback::ir::Program::parse(&text).unwrap();
    assert_eq!(program.to_string(), text);
    let gradient = pullback::autodiff::grad(&program, &[0]).unwrap();
    let found = pullback::runtime::interpret(&gradient, &[Tensor::from(2.0).array().unwrap()]).unwrap();
    assert_eq!(found[0].to_vec::<f64>().unwrap(), [6.0]);
    insta::assert_snapshot!(text);
}

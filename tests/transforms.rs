//! Transforms as values: what they return, how they nest, how they select arguments.

use pullback::prelude::*;
use pullback::transform::{All, Arg};
use std::sync::atomic::{AtomicUsize, Ordering};

fn vec(t: &Tensor) -> Vec<f64> {
    t.to_vec::<f64>().unwrap()
}

fn item(t: &Tensor) -> f64 {
    t.item::<f64>().unwrap()
}

fn cube_sum(x: &Tensor) -> Tensor {
    x.powi(3).sum()
}

#[test]
fn gradients_have_the_type_of_the_argument() {
    let x = Tensor::from([1.0, 2.0]);
    let g = grad(cube_sum).call((&x,)).unwrap();
    assert_eq!(vec(&g), [3.0, 12.0]);
    let (value, g) = value_and_grad(|x: &Tensor, y: &Tensor| (x * y).sum()).call((&x, &x)).unwrap();
    assert_eq!((item(&value), vec(&g)), (5.0, vec![1.0, 2.0]));
    let f = |x: &Tensor| -> Result<Tensor, Error> { Ok(x.sum() * x.size()? as f64) };
    assert_eq!(vec(&grad(f).call((&x,)).unwrap()), [2.0, 2.0]);
}

#[test]
fn arguments_are_selected_by_number() {
    let f = |x: &Tensor, y: &Tensor, z: &Tensor| x * y + z.square();
    let (x, y, z) = (Tensor::from(2.0), Tensor::from(3.0), Tensor::from(4.0));
    assert_eq!(item(&grad(f).argnum::<1>().call((&x, &y, &z)).unwrap()), 2.0);
    let (gz, gx) = grad(f).argnums((Arg::<2>, Arg::<0>)).call((&x, &y, &z)).unwrap();
    assert_eq!((item(&gz), item(&gx)), (8.0, 3.0));
    let (_, (gx, gy, gz)) = value_and_grad(f).argnums(All).call((&x, &y, &z)).unwrap();
    assert_eq!((item(&gx), item(&gy), item(&gz)), (3.0, 2.0, 8.0));
    let twice = grad(f).argnums((Arg::<1>, Arg::<1>)).call((&x, &y, &z)).unwrap_err();
    assert!(twice.to_string().starts_with("argument 1 is selected twice"));
}

#[test]
fn derivatives_nest_to_any_order() {
    let f = |x: &Tensor| x.sin() * x;
    let x = Tensor::from(0.7);
    let third = grad(grad(grad(f))).call((&x,)).unwrap();
    let expected = -3.0 * 0.7f64.sin() - 0.7 * 0.7f64.cos();
    assert!((item(&third) - expected).abs() < 1e-14);
    let one = Tensor::from(1.0);
    let (value, slope) = jvp(grad(f)).call((&x,), (&one,)).unwrap();
    assert!((item(&value) - (0.7f64.sin() + 0.7 * 0.7f64.cos())).abs() < 1e-15);
    assert!((item(&slope) - (2.0 * 0.7f64.cos() - 0.7 * 0.7f64.sin())).abs() < 1e-15);
    let forward_twice = |x: &Tensor| -> Result<Tensor, Error> { Ok(jvp(f).call((x,), (&x.ones_like(),))?.1) };
    let reverse = grad(forward_twice).call((&x,)).unwrap();
    assert!((item(&reverse) - item(&slope)).abs() < 1e-15);
}

#[test]
fn functions_may_ask_for_values_unless_compiled() {
    let f = |x: &Tensor| -> Result<Tensor, Error> {
        if (x * 2.0).item::<f64>()? > 0.0 { Ok(x.square()) } else { Ok(-x) }
    };
    assert_eq!(item(&grad(f).call((&Tensor::from(3.0),)).unwrap()), 6.0);
    assert_eq!(item(&grad(f).call((&Tensor::from(-3.0),)).unwrap()), -1.0);
    assert_eq!(item(&grad(grad(f)).call((&Tensor::from(3.0),)).unwrap()), 2.0);
    let error = jit(f).call((&Tensor::from(3.0),)).unwrap_err();
    assert!(matches!(error.root(), Error::ValueUnknownWhileTracing { transform: "jit", .. }), "{error}");
    let inner = jit(grad(f)).call((&Tensor::from(3.0),)).unwrap_err();
    assert!(matches!(inner.root(), Error::ValueUnknownWhileTracing { transform: "jit", .. }), "{inner}");
}

#[test]
fn values_asked_for_in_a_loop_cost_one_pass() {
    let newton = |a: &Tensor| -> Result<Tensor, Error> {
        let mut x = a.clone();
        while ((&x * &x - a).abs().item::<f64>()?) > 1e-12 {
            x = (&x + a / &x) * 0.5;
        }
        Ok(x)
    };
    let slope = grad(newton).call((&Tensor::from(9.0),)).unwrap();
    assert!((item(&slope) - 1.0 / 6.0).abs() < 1e-12);
}

#[test]
fn vjp_keeps_a_pullback() {
    let f = |x: &Tensor, n: &Tensor| (x * 2.0, x.square(), n + 1);
    let (x, n) = (Tensor::from([1.0, 2.0]), Tensor::from(3i64));
    let ((double, square, next), pullback) = vjp(f).call((&x, &n)).unwrap();
    assert_eq!(
        (vec(&double), vec(&square), next.item::<i64>().unwrap()),
        (vec![2.0, 4.0], vec![1.0, 4.0], 4)
    );
    for weight in [1.0, 3.0] {
        let ct = (Tensor::full(weight, [2]), Tensor::full(1.0, [2]), Tensor::from(0i64));
        let (gx, gn) = pullback.call(&ct).unwrap();
        assert_eq!(vec(&gx), [2.0 * weight + 2.0, 2.0 * weight + 4.0]);
        assert_eq!(gn.item::<i64>().unwrap(), 0);
    }
    let wrong = (Tensor::full(1.0, [3]), Tensor::full(1.0, [2]), Tensor::from(0i64));
    assert!(matches!(pullback.call(&wrong).unwrap_err(), Error::TangentType { kind: "cotangent", .. }));
}

#[test]
fn linearize_keeps_a_derivative() {
    let f = |x: &Tensor| (x.square(), x.zeros_like());
    let x = Tensor::from([1.0, 2.0]);
    let ((square, _), linear) = linearize(f).call((&x,)).unwrap();
    assert_eq!(vec(&square), [1.0, 4.0]);
    let (d, zero) = linear.call((&Tensor::from([1.0, 10.0]),)).unwrap();
    assert_eq!((vec(&d), vec(&zero)), (vec![2.0, 40.0], vec![0.0, 0.0]));
}

#[test]
fn inner_transforms_see_values_of_the_outer_as_constants() {
    // The gradient of the penalty |d loss / dx|^2 with respect to a weight captured by the inner function.
    let penalty = |w: &Tensor, x: &Tensor| -> Result<Tensor, Error> {
        let inner = |x: &Tensor| (w * x.square()).sum();
        Ok(grad(inner).call((x,))?.square().sum())
    };
    let (w, x) = (Tensor::from(3.0), Tensor::from([1.0, 2.0]));
    // d/dw sum (2 w x)^2 = 8 w sum x^2
    assert_eq!(item(&grad(penalty).call((&w, &x)).unwrap()), 120.0);
    assert_eq!(item(&jit(grad(penalty)).call((&w, &x)).unwrap()), 120.0);
    let jitted_inside = |w: &Tensor, x: &Tensor| -> Result<Tensor, Error> {
        let inner = jit(grad(|x: &Tensor| (w * x.square()).sum()));
        Ok(inner.call((x,))?.square().sum())
    };
    assert_eq!(item(&grad(jitted_inside).call((&w, &x)).unwrap()), 120.0);
}

#[test]
fn jit_records_once_per_signature() {
    let runs = AtomicUsize::new(0);
    let f = jit(|x: &Tensor| {
        runs.fetch_add(1, Ordering::Relaxed);
        x.sin().sum()
    });
    let (two, three) = (Tensor::from([1.0, 2.0]), Tensor::from([1.0, 2.0, 3.0]));
    let eager = two.sin().sum();
    for _ in 0..3 {
        assert!(f.call((&two,)).unwrap().array().unwrap().bits_equal(&eager.array().unwrap()));
    }
    assert_eq!(f.why_recompiled(), None);
    f.call((&three,)).unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    let stats = f.cache_stats();
    assert_eq!((stats.hits, stats.misses, stats.entries), (2, 2, 2));
    assert_eq!(f.why_recompiled().unwrap(), "argument 0 is f64[3] instead of f64[2]");
}

#[test]
fn jit_gives_up_what_was_unused_for_longest() {
    let f = jit(|x: &Tensor| x.sum());
    let call = |n: usize| f.call((&Tensor::zeros(DType::F64, [n]),)).map(|_| f.cache_stats()).unwrap();
    let stats = (0..70).map(call).last().unwrap();
    assert_eq!((stats.entries, stats.evicted), (64, 6));
    assert_eq!((call(6).hits, call(6).hits), (1, 2), "the oldest, which is now the newest");
    assert_eq!(call(70).evicted, 7);
    assert_eq!(call(6).hits, 3);
    assert_eq!(call(7).misses, 72, "given up for 70");
    assert_eq!(f.why_recompiled().unwrap(), "argument 0 is f64[7] instead of f64[70]");
    let stats = call(9);
    assert_eq!((stats.hits, stats.entries, stats.evicted), (4, 64, 8));
}

#[test]
fn captured_tensors_are_parameters_once_each() {
    let data = Tensor::from([1.0, 2.0]);
    let f = |x: &Tensor| (x * &data + &data).sum() * 2.0;
    let lowered = jit(f).lower((&Tensor::from(1.0),)).unwrap();
    let types: Vec<String> = lowered.program().param_types().iter().map(|t| t.to_string()).collect();
    assert_eq!(types, ["f64[]", "f64[2]"]);
    let constants = lowered.program().op_counts()["constant"];
    assert_eq!(constants, 1, "only the literal");
    assert_eq!(item(&lowered.compile().unwrap().call((&Tensor::from(3.0),)).unwrap()), 24.0);
}

#[test]
fn compiled_functions_check_their_arguments() {
    let f = jit(|x: &Tensor| x * 2.0).compile((&Tensor::from(1.0),)).unwrap();
    assert_eq!(item(&f.call((&Tensor::from(4.0),)).unwrap()), 8.0);
    let error = f.call((&Tensor::from([4.0]),)).unwrap_err();
    assert!(matches!(error, Error::SignatureDiffers { .. }));
}

#[test]
fn compiled_functions_may_be_called_with_numbers() {
    let scale = Tensor::from([2.0, 3.0]);
    let f = jit(value_and_grad(|x: &Tensor| (x.square() * &scale).sum()));
    let f = f.compile((&Tensor::from([0.0, 0.0]),)).unwrap().direct::<f64, 2, 3>().unwrap();
    assert_eq!(f.call([1.0, 10.0]).unwrap(), [302.0, 4.0, 60.0]);
    let f = jit(|x: &Tensor| x.sin()).compile((&Tensor::from([0.0, 0.0]),)).unwrap();
    let error = f.direct::<f64, 2, 1>().err().unwrap();
    assert_eq!(error.to_string(), "@jit takes 2 numbers and gives 2, not 2 and 1");
}

#[test]
fn transforms_of_transforms_compose() {
    let x = Tensor::from(0.5);
    let f = |x: &Tensor| x.exp() * x;
    let step = jit(value_and_grad(f));
    let (value, slope) = step.call((&x,)).unwrap();
    let (eager_value, eager_slope) = value_and_grad(f).call((&x,)).unwrap();
    assert_eq!((item(&value), item(&slope)), (item(&eager_value), item(&eager_slope)));
    let through = grad(jit(f)).call((&x,)).unwrap();
    assert_eq!(item(&through), item(&slope));
    let second = jit(grad(grad(jit(f)))).call((&x,)).unwrap();
    assert!((item(&second) - 0.5f64.exp() * 2.5).abs() < 1e-14);
    let forward = jit(jvp(f)).call((&(x.clone(),), &(Tensor::from(1.0),))).unwrap();
    assert!((item(&forward.1) - item(&slope)).abs() < 1e-15);
}

#[test]
fn six_arguments_are_taken() {
    let f = |a: &Tensor, b: &Tensor, c: &Tensor, d: &Tensor, e: &Tensor, f: &Tensor| a * b * c * d * e * f;
    let t = |v: f64| Tensor::from(v);
    let g = grad(f).argnum::<5>().call((&t(1.0), &t(2.0), &t(3.0), &t(4.0), &t(5.0), &t(6.0))).unwrap();
    assert_eq!(item(&g), 120.0);
}

#[test]
fn what_a_loss_returns_besides_is_passed_on() {
    let f = |x: &Tensor, n: &Tensor| ((x * x).sum(), vec![x * 10.0, n + 1]);
    let step = value_and_grad(f).with_aux();
    let (x, n) = (Tensor::from([1.0, 2.0]), Tensor::from(7i64));
    let ((loss, aux), g) = step.call((&x, &n)).unwrap();
    assert_eq!((item(&loss), vec(&aux[0]), vec(&g)), (5.0, vec![10.0, 20.0], vec![2.0, 4.0]));
    assert_eq!(aux[1].item::<i64>().unwrap(), 8);
    let ((compiled, _), _) = jit(step).call((&x, &n)).unwrap();
    assert_eq!(item(&compiled), 5.0);
}

#[test]
fn the_interpreter_stands_in_for_machine_code() {
    let f = |x: &Tensor| x.exp().sum_axes(0) / x.softmax(0);
    let x = Tensor::from([[1.0, -2.0], [0.5, 3.0]]);
    let (compiled, interpreted) = (jit(f).call((&x,)).unwrap(), jit(f).interpreted().call((&x,)).unwrap());
    assert!(compiled.array().unwrap().bits_equal(&interpreted.array().unwrap()));
}

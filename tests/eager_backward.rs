//! Conformance of live tensors: histories, backward passes and the gradients they leave.

mod common;

use common::{assert_close, floats, vec};
use pullback::custom::register_kernel;
use pullback::eager::{
    EagerError, Node, Pass, Reset, Retain, Seeds, checked, enable_grad, is_grad_enabled, no_grad,
};
use pullback::prelude::*;
use pullback::transform::Keep;
use pullback::{eager, random};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

fn gradient(x: &Tensor) -> Vec<f64> {
    vec(&x.grad().unwrap().expect("there is a gradient"))
}

#[track_caller]
fn assert_bits(left: &Tensor, right: &Tensor) {
    common::assert_bits(left, right, "the two");
}

fn has_none(x: &Tensor) -> bool {
    x.grad().unwrap().is_none()
}

#[track_caller]
fn refused(result: Result<(), Error>) -> EagerError {
    match result.unwrap_err().root() {
        Error::Eager(error) => error.clone(),
        other => panic!("{other}"),
    }
}

#[test]
fn e1_parameters_get_gradients_and_constants_never_do() {
    let (x, c) = (Tensor::param([1.0, 2.0]), floats(&[3.0, 4.0]));
    assert!(x.requires_grad() && x.is_param() && !c.requires_grad() && !c.is_param());
    let y = &x * &c;
    assert!(y.requires_grad() && !y.is_param() && y.node().is_some());
    // Nothing is recorded where no operand asks for it.
    let z = (&c * 2.0).exp();
    assert!(!z.requires_grad() && z.node().is_none());
    assert!(!x.gt(1.0).requires_grad() && !x.argmax(0).requires_grad());
    assert!(matches!(refused(z.sum().backward()), EagerError::NoHistory { .. }));
    y.sum().backward().unwrap();
    assert!(gradient(&x) == [3.0, 4.0] && has_none(&c) && has_none(&y));
}

#[test]
fn e2_the_gradient_of_a_weighted_sum_is_the_weights() {
    let (x, c) = (Tensor::param([1.0, 2.0, 3.0]), floats(&[10.0, 20.0, 30.0]));
    (&x * &c).sum().backward().unwrap();
    assert_eq!(gradient(&x), [10.0, 20.0, 30.0]);
    assert!(has_none(&c));
    assert_eq!(x.grad_view().unwrap().unwrap().as_slice::<f64>().unwrap(), [10.0, 20.0, 30.0]);
}

#[test]
fn e3_a_seed_is_required_before_anything_changes() {
    let x = Tensor::param([3.0, 4.0]);
    let y = &x * 2.0;
    assert!(matches!(refused(y.backward()), EagerError::SeedRequired { op: "mul", .. }));
    assert!(has_none(&x));
    y.backward_with(&floats(&[1.0, 10.0])).unwrap();
    assert_eq!(gradient(&x), [2.0, 20.0]);
}

#[test]
fn e4_uses_add_up() {
    let x = Tensor::param([3.0, 5.0]);
    (&x * &x + &x * 4.0).sum().backward().unwrap();
    assert_eq!(gradient(&x), [10.0, 14.0]);
    let x = Tensor::param(2.0);
    let s = &x + 1.0;
    (&s * &s).backward().unwrap();
    assert_eq!(gradient(&x), [6.0]);
}

#[test]
fn e4_a_diamond_has_as_many_paths_as_it_likes() {
    let x = Tensor::param(1.0);
    let mut y = x.clone();
    for _ in 0..60 {
        y = &y + &y;
    }
    y.backward().unwrap();
    assert_eq!(gradient(&x), [2f64.powi(60)]);
}

#[test]
fn e5_fresh_graphs_accumulate_and_zero_grad_resets() {
    let w = Tensor::param([1.0, 2.0]);
    for expected in [3.0, 6.0] {
        (&w * 3.0).sum().backward().unwrap();
        assert_eq!(gradient(&w), [expected, expected]);
    }
    let before = w.grad().unwrap().unwrap();
    w.zero_grad(Reset::Zeros).unwrap();
    assert_eq!(gradient(&w), [0.0, 0.0]);
    w.zero_grad(Reset::None).unwrap();
    assert!(has_none(&w));
    // What was read stays what it was.
    assert_eq!(vec(&before), [6.0, 6.0]);
}

#[test]
fn e6_a_graph_is_released_unless_it_is_retained() {
    let x = Tensor::param([1.0, 2.0]);
    let h = x.square();
    h.retain_grad(true);
    let y = (&h * 3.0).sum();
    y.backward_with(Retain::Graph).unwrap();
    assert!(gradient(&x) == [6.0, 12.0] && gradient(&h) == [3.0, 3.0]);
    y.backward().unwrap();
    assert!(gradient(&x) == [12.0, 24.0] && gradient(&h) == [6.0, 6.0]);
    let error = refused(y.backward());
    assert!(matches!(error, EagerError::GraphReleased { .. }));
    assert!(error.to_string().contains("Retain::Graph"), "{error}");
    assert_eq!(gradient(&x), [12.0, 24.0]);
    // A part that two roots share goes with the first.
    let shared = x.exp();
    let (first, second) = (shared.sum(), (&shared * 2.0).sum());
    first.backward().unwrap();
    let before = gradient(&x);
    assert!(matches!(refused(second.backward()), EagerError::GraphReleased { op: "exp", .. }));
    assert_eq!(gradient(&x), before);
}

/// Everything that a failed pass must leave as it was.
#[track_caller]
fn untouched(fails: impl FnOnce(&Tensor, &Tensor, &Tensor) -> Result<(), Error>) -> Error {
    let (x, w) = (Tensor::param([1.0, 2.0]), Tensor::param(3.0));
    (&x * &w).sum().backward().unwrap();
    let before = (gradient(&x), gradient(&w));
    let h = &x * &w;
    h.retain_grad(true);
    let y = h.square();
    let error = fails(&x, &h, &y).unwrap_err();
    assert_eq!((gradient(&x), gradient(&w)), before);
    assert!(has_none(&h));
    // The graph still works.
    y.sum().backward_with(Retain::Graph).unwrap();
    assert_eq!(gradient(&h), [6.0, 12.0]);
    error
}

#[test]
fn e7_failures_change_nothing() {
    let error = untouched(|_, _, y| y.backward_with(&floats(&[1.0])));
    assert!(error.to_string().contains("SeedType"), "{error}");
    let error = untouched(|_, _, y| checked(|| y.backward_with(&floats(&[1.0, f64::INFINITY]))));
    assert!(error.to_string().contains("the seed of type f64[2] holds inf at [1]"), "{error}");
    let error = untouched(|x, h, _| {
        // A rule that fails in the middle of the pass, after contributions to x and h have been made.
        register_kernel("test.fails", 1, |_, _, _| Err("no derivative today".into()));
        let bad = custom_vjp(
            |x: &Tensor| x.clone(),
            |x: &Tensor| (x.clone(), ()),
            |_: &(), ct: &Tensor| {
                let ty = ct.ty().unwrap().clone();
                let failed = pullback::custom::custom_call("test.fails", 1, "", &[ct], &[ty]);
                (failed.unwrap().remove(0),)
            },
        );
        let bad = bad.call((h,))?;
        (bad + h.exp() + x).sum().backward()
    });
    assert!(error.to_string().contains("no derivative today"), "{error}");
    let error = untouched(|x, _, y| {
        x.zero_grad(Reset::None)?;
        let large = floats(&[1e308, 0.0]);
        (x * &large).sum().backward()?;
        let result = checked(|| (x * &large + y * 0.0).sum().backward());
        x.zero_grad(Reset::None)?;
        (x * 3.0).sum().backward()?;
        result
    });
    assert!(error.to_string().contains("an accumulated gradient"), "{error}");
}

#[test]
fn e8_results_keep_no_gradient_unless_asked_to() {
    let x = Tensor::param([1.0, 2.0]);
    let (a, b) = (&x * 2.0, &x * 3.0);
    a.retain_grad(true);
    let y = (&a * &b).sum();
    y.backward_with(Retain::Graph).unwrap();
    assert!(gradient(&a) == [3.0, 6.0] && has_none(&b) && gradient(&x) == [12.0, 24.0]);
    a.retain_grad(false);
    b.retain_grad(true);
    y.backward().unwrap();
    assert!(has_none(&a) && gradient(&b) == [2.0, 4.0] && gradient(&x) == [24.0, 48.0]);
    // The tangent of a sum with a constant is that of the operand; their cotangents differ all the same.
    let s = &x + 1.0;
    s.retain_grad(true);
    (&s * &s + &x * 10.0).sum().backward().unwrap();
    assert_eq!(gradient(&s), [4.0, 6.0]);
    // So do those of two equal results.
    let (s, t) = (&x + 1.0, &x + 1.0);
    s.retain_grad(true);
    t.retain_grad(true);
    (&s * 2.0 + &t * 3.0).sum().backward().unwrap();
    assert!(gradient(&s) == [2.0, 2.0] && gradient(&t) == [3.0, 3.0]);
    // A root that keeps its gradient keeps the seed.
    let y = x.exp().sum();
    y.retain_grad(true);
    y.backward().unwrap();
    assert_eq!(gradient(&y), [1.0]);
}

#[test]
fn e9_no_grad_scopes() {
    let x = Tensor::param([0.5, 1.5]);
    assert!(is_grad_enabled());
    let plain = no_grad(|| {
        assert!(!is_grad_enabled());
        no_grad(|| assert!(!is_grad_enabled()));
        assert!(!is_grad_enabled() && enable_grad(is_grad_enabled) && !is_grad_enabled());
        std::thread::spawn(|| assert!(is_grad_enabled())).join().unwrap();
        x.sin().exp()
    });
    assert!(!plain.requires_grad());
    assert_bits(&plain, &x.sin().exp());
    let unwound = catch_unwind(AssertUnwindSafe(|| no_grad(|| panic!("inside"))));
    assert!(unwound.is_err() && is_grad_enabled());
}

#[test]
fn e10_detach_cuts_history() {
    let p = Tensor::param([2.0, 3.0]);
    let y = (&p * &p + p.detach() * 10.0).sum();
    assert_eq!(y.item::<f64>().unwrap(), 63.0);
    y.backward().unwrap();
    assert_eq!(gradient(&p), [4.0, 6.0]);
    let h = p.exp();
    assert!(!h.detach().requires_grad());
    assert_bits(&h, &h.detach());
}

#[test]
fn e11_updates_make_operands_stale() {
    let p = Tensor::param([1.0, 2.0]);
    let y = p.square().sum();
    let alias = p.clone();
    alias.update(|p| p * 2.0).unwrap();
    let error = refused(y.backward());
    assert!(matches!(error, EagerError::StaleOperand { operand: 0, recorded: 0, current: 1, .. }), "{error}");
    assert!(error.to_string().contains("tests/eager_backward.rs"), "{error}");
    assert!(has_none(&p) && vec(&p) == [2.0, 4.0] && p.revision() == Some(1));
    // Forward, backward, update.
    p.square().sum().backward().unwrap();
    p.set_data(&floats(&[5.0, 6.0])).unwrap();
    assert!(gradient(&p) == [4.0, 8.0] && vec(&alias) == [5.0, 6.0]);
    // What is refused leaves the revision.
    assert!(p.set_data(&floats(&[1.0])).is_err() && p.update(|p| p.sum()).is_err());
    assert!(p.exp().set_data(&floats(&[1.0, 2.0])).is_err() && p.revision() == Some(2));
    p.square().sum().backward().unwrap();
    assert_eq!(gradient(&p), [14.0, 20.0]);
}

#[test]
fn e12_gradients_as_results() {
    let (x, w, unused) = (Tensor::param([3.0, 4.0]), Tensor::param([1.0, 2.0]), Tensor::param(1.0));
    let h = &x * &w;
    let y = h.square();
    let seed = floats(&[1.0, 10.0]);
    let found = eager::grad(&[&y], &[&x, &unused, &h, &w], Seeds::Each(&[&seed])).unwrap();
    let found: Vec<Option<Vec<f64>>> = found.iter().map(|g| g.as_ref().map(vec)).collect();
    assert_eq!(found, [Some(vec![6.0, 320.0]), None, Some(vec![6.0, 160.0]), Some(vec![18.0, 640.0])]);
    assert!(has_none(&x) && has_none(&w) && has_none(&h));
    let basis = Tensor::eye(DType::F64, 2);
    let jacobian = eager::grad(&[&y], &[&x, &unused], Seeds::Batch(&[&basis])).unwrap();
    assert_eq!(vec(jacobian[0].as_ref().unwrap()), [6.0, 0.0, 0.0, 32.0]);
    assert!(jacobian[1].is_none());
    let none = eager::grad(&[&y], &[&x], Seeds::Batch(&[&Tensor::zeros(DType::F64, [0, 2])])).unwrap();
    assert_eq!(none[0].as_ref().unwrap().shape().unwrap()[..], [0, 2]);
    // Several outputs, and an input that is an output.
    let (total, other) = (y.sum(), x.sum());
    let found = eager::grad(
        &[&total, &other, &x],
        &[&x],
        Seeds::Each(&[&Tensor::from(1.0), &Tensor::from(100.0), &floats(&[1000.0, 1000.0])]),
    );
    assert_eq!(vec(found.unwrap()[0].as_ref().unwrap()), [1106.0, 1132.0]);
    for (seeds, text) in [
        (Seeds::Ones, "SeedRequired"),
        (Seeds::Each(&[]), "0 seeds for 1 outputs"),
        (Seeds::Batch(&[&seed]), "f64[2] with a leading axis of K"),
    ] {
        let error = eager::grad(&[&y], &[&x], seeds).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    // The graph is as it was.
    total.backward().unwrap();
    assert_eq!(gradient(&x), [6.0, 32.0]);
}

#[test]
fn e13_passes_may_begin_at_an_op() {
    let x = Tensor::param([1.0, 2.0]);
    let y = x.square();
    y.retain_grad(true);
    let node: Node = y.node().unwrap();
    assert_eq!(node.op(), "mul");
    node.backward_with(Pass::seed(&floats(&[1.0, 10.0])).retain(Retain::Graph)).unwrap();
    assert!(gradient(&x) == [2.0, 40.0] && has_none(&y));
    assert!(matches!(refused(node.backward_with(Retain::Graph)), EagerError::SeedRequired { .. }));
    y.backward_with(&floats(&[1.0, 1.0])).unwrap();
    assert!(gradient(&x) == [4.0, 44.0] && gradient(&y) == [1.0, 1.0]);
}

#[test]
fn e14_broadcast_operands_receive_sums() {
    let (x, bias) = (Tensor::param([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), Tensor::param([1.0, -1.0, 0.0]));
    let column = Tensor::param([[1.0], [2.0]]);
    ((&x + &bias) * &column + bias.broadcast_to([2, 3])).sum().backward().unwrap();
    assert_eq!(gradient(&x), [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
    assert_eq!(gradient(&bias), [5.0, 5.0, 5.0]);
    assert_eq!(gradient(&column), [6.0, 15.0]);
}

#[test]
fn e16_checkpoints_are_one_op_and_give_the_same_bits() {
    let (x, frozen) = (Tensor::param([0.3, 0.7]), floats(&[1.5, 0.5]));
    let block = |x: &Tensor| (x.sin() * &frozen).tanh();
    let plain = (0..8).fold(x.clone(), |x, _| block(&x));
    plain.sum().backward().unwrap();
    let expected = x.grad().unwrap().unwrap();
    x.zero_grad(Reset::None).unwrap();
    for keep in [Keep::Nothing, Keep::Dots] {
        let lean = checkpoint(block).keep(keep);
        let y = (0..8).fold(x.clone(), |x, _| lean.call((&x,)).unwrap());
        assert_bits(&y, &plain);
        y.sum().backward().unwrap();
        assert_bits(&x.grad().unwrap().unwrap(), &expected);
        assert!(has_none(&frozen));
        x.zero_grad(Reset::None).unwrap();
    }
    let nested = checkpoint(|x: &Tensor| checkpoint(block).call((x,)));
    nested.call((&x,)).unwrap().sum().backward().unwrap();
    let once = x.grad().unwrap().unwrap();
    x.zero_grad(Reset::None).unwrap();
    block(&x).sum().backward().unwrap();
    assert_bits(&once, &x.grad().unwrap().unwrap());
    assert!(!no_grad(|| nested.call((&x,))).unwrap().requires_grad());
}

#[test]
fn e19_dropout_is_a_function_of_its_seed() {
    let x = Tensor::param([1.0; 64]);
    let drop = |x: &Tensor| x.dropout(&random::key(7), 0.5);
    let y = drop(&x);
    y.sum().backward().unwrap();
    // The mask is that of the forward pass: where the value was dropped, so is the gradient.
    assert_eq!(gradient(&x), vec(&y));
    let lean = checkpoint(drop).call((&x,)).unwrap();
    assert_bits(&lean, &y);
    assert_bits(&jit(drop).call((&x.detach(),)).unwrap(), &y);
}

#[test]
fn e22_errors_name_the_op_and_operand() {
    let x = Tensor::param([1.0, 2.0]);
    let h = x.exp();
    h.sum().backward().unwrap();
    let error = refused((&h * 2.0).sum().backward()).to_string();
    assert!(error.contains("exp at") && error.contains("operand 0 of mul at"), "{error}");
    let failed = &x + &floats(&[1.0, 2.0, 3.0]);
    let error = (failed * 2.0).sum().backward().unwrap_err().to_string();
    assert!(error.contains("f64[2]") && error.contains("f64[3]"), "{error}");
}

#[test]
fn e23_a_long_graph_needs_little_stack() {
    let run = || {
        let x = Tensor::param(0.0);
        let mut y = x.clone();
        for _ in 0..1_000_000 {
            y = &y + 1.0;
        }
        y.backward_with(Retain::Graph).unwrap();
        assert_eq!((gradient(&x), y.item::<f64>().unwrap()), (vec![1.0], 1e6));
        drop(y);
        let unused = (0..1_000_000).fold(x.clone(), |y, _| -y);
        drop(unused);
    };
    std::thread::Builder::new().stack_size(1 << 19).spawn(run).unwrap().join().unwrap();
}

#[test]
fn e24_integers_have_no_gradient() {
    let integers = Tensor::from([1i64, 2]);
    assert!(matches!(refused(integers.grad().map(|_| ())), EagerError::NotDifferentiable { .. }));
    assert!(Tensor::param(integers.clone()).error().unwrap().to_string().contains("only floats have"));
    let x = Tensor::param([1.0, 2.0]);
    let error = eager::grad(&[&x.sum()], &[&integers], Seeds::Ones).unwrap_err();
    assert!(error.to_string().contains("i64[2]"), "{error}");
    assert!(Tensor::from([true]).grad_view().is_err());
}

#[test]
fn functions_of_transforms_are_one_op_of_the_history() {
    let x = Tensor::param([0.5, 1.5]);
    let f = |x: &Tensor| (x.sin() * x).sum();
    f(&x).backward().unwrap();
    let expected = x.grad().unwrap().unwrap();
    for y in [jit(f).call((&x,)).unwrap(), jit(f).interpreted().call((&x,)).unwrap()] {
        x.zero_grad(Reset::None).unwrap();
        y.backward().unwrap();
        assert_bits(&x.grad().unwrap().unwrap(), &expected);
    }
    // A gradient on the way: the second derivative, of captured parameters as of arguments.
    x.zero_grad(Reset::None).unwrap();
    grad(f).call((&x,)).unwrap().sum().backward().unwrap();
    let second = grad(|x: &Tensor| Ok::<_, Error>(grad(f).call((x,))?.sum())).call((&x.detach(),)).unwrap();
    assert_bits(&x.grad().unwrap().unwrap(), &second);
    x.zero_grad(Reset::None).unwrap();
    jit(|c: &Tensor| (&x * c).sum()).call((&floats(&[2.0, 3.0]),)).unwrap().backward().unwrap();
    assert_eq!(gradient(&x), [2.0, 3.0]);
    x.zero_grad(Reset::None).unwrap();
    let looped = fori_loop(0, 3, &x, |_, y| y * &x);
    looped.sum().backward().unwrap();
    let expected: Vec<f64> = [0.5f64, 1.5].iter().map(|x| 4.0 * x * x * x).collect();
    assert_close(&gradient(&x), &expected, 1e-15);
}

#[test]
fn hooks_see_and_replace_what_flows_back() {
    let x = Tensor::param([1.0, 2.0]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    // Interpreted at first, then compiled.
    for pass in 1..=3 {
        let h = &x * 3.0;
        h.retain_grad(true);
        let log = seen.clone();
        h.add_hook(move |ct| {
            log.lock().unwrap().push(vec(ct));
            None
        })
        .unwrap();
        h.add_hook(|ct| Some(ct * 10.0)).unwrap();
        let removed = h.add_hook(|_| panic!("not here any more")).unwrap();
        h.remove_hook(&removed);
        // Both uses are summed before.
        (&h * &floats(&[1.0, 2.0]) + &h).sum().backward().unwrap();
        assert_eq!(gradient(&h), [20.0, 30.0]);
        assert_eq!(gradient(&x), [60.0 * pass as f64, 90.0 * pass as f64]);
    }
    assert_eq!(*seen.lock().unwrap(), [[2.0, 3.0]; 3]);
    // On a parameter; two equal results have hooks of their own; gradients as results go without.
    let p = Tensor::param([1.0]);
    p.add_hook(|ct| Some(ct + 0.5)).unwrap();
    let (a, b) = (&p * 2.0, &p * 2.0);
    a.add_hook(|ct| Some(ct * 100.0)).unwrap();
    let y = (&a + &b).sum();
    assert_eq!(vec(eager::grad(&[&y], &[&p], Seeds::Ones).unwrap()[0].as_ref().unwrap()), [4.0]);
    y.backward_with(Retain::Graph).unwrap();
    assert_eq!(gradient(&p), [202.5]);
    // What goes wrong in one changes nothing.
    let wrong = a.add_hook(|ct| Some(ct.sum())).unwrap();
    let error = y.backward_with(Retain::Graph).unwrap_err().to_string();
    assert!(error.contains("the hook returned f64[] for a gradient of type f64[1]"), "{error}");
    a.remove_hook(&wrong);
    a.add_hook(|_| panic!("on purpose")).unwrap();
    assert!(y.backward_with(Retain::Graph).unwrap_err().to_string().contains("on purpose"));
    assert_eq!(gradient(&p), [202.5]);
    assert!(Tensor::from(1.0).add_hook(|_| None).is_err());
}

#[test]
fn hooks_may_run_passes_of_their_own() {
    let (x, other) = (Tensor::param(2.0), Tensor::param(5.0));
    let inner = other.clone();
    x.add_hook(move |ct| {
        eager::enable_grad(|| (&inner * ct).backward()).unwrap();
        None
    })
    .unwrap();
    (&x * 3.0).backward().unwrap();
    assert_eq!((gradient(&x), gradient(&other)), (vec![3.0], vec![3.0]));
}

#[test]
fn checked_passes_name_the_forward_line() {
    let x = Tensor::param([1.0, 0.0]);
    let y = x.sqrt(); // the line
    let line = line!() - 1;
    let error = checked(|| y.sum().backward()).unwrap_err().to_string();
    assert!(error.contains("sqrt") && error.contains(&format!("eager_backward.rs:{line}:")), "{error}");
    assert!(has_none(&x));
    let forward = checked(|| (&x.detach() - 1.0).log());
    assert!(forward.error().unwrap().to_string().contains("log"), "{forward}");
    assert!(checked(|| jit(|x: &Tensor| x.log()).call((&x,))).is_err());
    y.sum().backward().unwrap();
    assert_eq!(gradient(&x)[1], f64::INFINITY);
}

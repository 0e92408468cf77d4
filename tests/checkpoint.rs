//! Checkpoints: the same bits, less kept.

mod common;

use common::*;
use pullback::autodiff;
use pullback::ir::{Op, Program, TensorType};
use pullback::prelude::*;
use pullback::transform::{All, Function, Keep};
use pullback::tree;

fn policies() -> Vec<Keep> {
    vec![Keep::Nothing, Keep::Dots, Keep::offered(["middle"]), Keep::Budget(40), Keep::Budget(0)]
}

#[track_caller]
fn assert_same<T: Tree>(left: &T, right: &T) {
    for (left, right) in tree::leaves(left).into_iter().zip(tree::leaves(right)) {
        assert_bits(left, right, "checkpointed");
    }
}

fn program(f: impl Function<(Tensor,), Output = Tensor> + 'static, x: &Tensor) -> Program {
    jit(f).lower((x,)).unwrap().program().clone()
}

/// What is kept of a function of one tensor, besides its argument.
fn kept(f: impl Function<(Tensor,), Output = Tensor> + 'static, x: &Tensor) -> Vec<TensorType> {
    let linearized = autodiff::linearize(&program(f, x), &[0]).unwrap();
    let results = linearized.residual_values().iter().filter(|&&v| linearized.primal.producer(v).is_some());
    results.map(|&v| linearized.primal.ty(v).clone()).collect()
}

fn block(x: &Tensor, w: &Tensor) -> Tensor {
    ((x.matmul(w).offer("middle").tanh() * x) + x.matmul(w)).sin()
}

fn plain(x: &Tensor, w: &Tensor) -> Tensor {
    (block(&block(x, w), w) * x * w.sum()).sum()
}

fn point() -> (Tensor, Tensor) {
    let w: Vec<f64> = (0..9).map(|i| 0.3 - 0.1 * i as f64).collect();
    (floats(&[0.3, -0.7, 1.1]).reshape([1, 3]), floats(&w).reshape([3, 3]))
}

/// The blocks use `w`, which is also used outside, so that sums over uses cross the borders of the checkpoints.
fn lean(keep: Keep) -> impl Fn(&Tensor, &Tensor) -> Result<Tensor, Error> + Clone + Send + Sync {
    move |x: &Tensor, w: &Tensor| {
        let block = checkpoint(block).keep(keep.clone());
        Ok((block.call((&block.call((x, w))?, w))? * x * w.sum()).sum())
    }
}

#[test]
fn derivatives_are_equal_to_the_bit_whatever_is_kept() {
    let (x, w) = point();
    let at = (&x, &w);
    let expected = grad(plain).argnums(All).call(at).unwrap();
    let forward = jvp(plain).call(at, at).unwrap();
    let product = hvp(plain).call(at, &x).unwrap();
    assert_bits(&plain(&x, &w), &lean(Keep::Nothing)(&x, &w).unwrap(), "eager");
    for keep in policies() {
        let lean = lean(keep);
        let g = grad(lean.clone()).argnums(All);
        assert_same(&expected, &g.call(at).unwrap());
        assert_same(&expected, &jit(g).call(at).unwrap());
        assert_same(&forward, &jvp(lean.clone()).call(at, at).unwrap());
        let (value, pullback) = vjp(lean.clone()).call(at).unwrap();
        assert_same(&expected, &pullback.call(&value.ones_like()).unwrap());
        assert_same(&product, &hvp(lean).call(at, &x).unwrap());
    }
}

#[test]
fn reverse_over_reverse_agrees_up_to_rounding() {
    let (x, w) = point();
    let twice =
        |x: &Tensor, w: &Tensor| -> Result<Tensor, Error> { Ok(grad(plain).call((x, w))?.sin().sum()) };
    let expected = vec(&grad(twice).call((&x, &w)).unwrap());
    for keep in policies() {
        let lean = lean(keep);
        let twice = move |x: &Tensor, w: &Tensor| -> Result<Tensor, Error> {
            grad(lean.clone()).call((x, w)).map(|slope| slope.sin().sum())
        };
        let g = grad(twice);
        assert_close(&vec(&g.call((&x, &w)).unwrap()), &expected, 1e-13);
        assert_close(&vec(&jit(g).call((&x, &w)).unwrap()), &expected, 1e-13);
    }
}

#[test]
fn the_same_tensor_twice_is_one_sum() {
    let f = |x: &Tensor, y: &Tensor| x.sin() * y.exp() + y / x;
    let x = floats(&[0.3, 0.7, -1.9]);
    let plain = grad(move |x: &Tensor| (f(x, x) * x.exp()).sum());
    let lean = grad(move |x: &Tensor| -> Result<Tensor, Error> {
        Ok((checkpoint(f).call((x, x))? * x.exp()).sum())
    });
    assert_same(&plain.call((&x,)).unwrap(), &lean.call((&x,)).unwrap());
}

#[test]
fn lanes_are_checkpointed_as_well() {
    let w = point().1;
    let xs = floats(&(0..12).map(|i| 0.2 * i as f64 - 1.0).collect::<Vec<_>>()).reshape([4, 1, 3]);
    let expected = vmap(grad(plain)).in_axes((0, None)).call((&xs, &w)).unwrap();
    let found = vmap(grad(lean(Keep::Nothing))).in_axes((0, None)).call((&xs, &w)).unwrap();
    assert_same(&expected, &found);
    let batched = jit(vmap(lean(Keep::Dots)).in_axes((0, None))).lower((&xs, &w)).unwrap().program().clone();
    let calls = batched.nodes().filter_map(|node| match &node.op {
        Op::Call(call) => Some(call.checkpoint.clone()),
        _ => None,
    });
    assert_eq!(calls.collect::<Vec<_>>(), [Some(Keep::Dots), Some(Keep::Dots)]);
}

#[test]
fn captured_tensors_and_trees() {
    let w = Tensor::from([2.0, 3.0]);
    let f = |w: &Tensor| -> Result<Tensor, Error> {
        let scaled = checkpoint(|x: &(Tensor, Tensor)| (x.0.sin() * w, (x.1.exp() * w).sum()));
        let (a, b) = scaled.call((&(w.square(), w.clone()),))?;
        Ok((a * b).sum())
    };
    let plain = |w: &Tensor| (w.square().sin() * w * (w.exp() * w).sum()).sum();
    assert_same(&grad(plain).call((&w,)).unwrap(), &grad(f).call((&w,)).unwrap());
    let asks = checkpoint(|x: &Tensor| -> Result<Tensor, Error> {
        Ok(if x.sum().item::<f64>()? > 0.0 { x.exp() } else { x.sin() })
    });
    let sum = |x: &Tensor| -> Result<Tensor, Error> { Ok(asks.call((x,))?.sum()) };
    assert_same(&w.exp(), &grad(sum).call((&w,)).unwrap());
    assert!(jit(sum).call((&w,)).unwrap_err().to_string().contains("ValueUnknownWhileTracing"));
}

#[test]
fn e16_eight_blocks_keep_eight_values() {
    let x = floats(&[0.1; 100]);
    let block = |x: &Tensor| (x.sin() * x).tanh();
    let plain = move |x: &Tensor| (0..8).fold(x.clone(), |x, _| block(&x)).sum();
    let lean = move |x: &Tensor| -> Result<Tensor, Error> {
        let block = checkpoint(block);
        let mut x = x.clone();
        for _ in 0..8 {
            x = block.call((&x,))?;
        }
        Ok(x.sum())
    };
    // The argument counts as the first of the eight; 8 blocks of 3 ops keep 24 values without it, one more each way.
    assert_eq!(kept(lean, &x).len(), 7);
    assert!(kept(plain, &x).len() >= 23);
    assert_same(&grad(plain).call((&x,)).unwrap(), &jit(grad(lean)).call((&x,)).unwrap());
    // A checkpoint around all of it keeps the argument alone, whatever is in it.
    assert_eq!(kept(checkpoint(lean), &x).len(), 0);
    let nested = move |x: &Tensor| checkpoint(lean).call((x,));
    assert_same(&grad(plain).call((&x,)).unwrap(), &grad(nested).call((&x,)).unwrap());
}

#[test]
fn policies_keep_what_they_say() {
    let w = point().1;
    let x = floats(&[0.1; 6]).reshape([2, 3]);
    let f = move |x: &Tensor| (x.exp().matmul(&w).offer("middle").sin() * x.cos().matmul(&w)).exp();
    let kept = |keep| kept(checkpoint(f.clone()).keep(keep), &x).len();
    assert_eq!(kept(Keep::Nothing), 0);
    assert_eq!(kept(Keep::Dots), 2);
    assert_eq!(kept(Keep::offered(["middle"])), 1);
    assert_eq!(kept(Keep::offered(["nowhere"])), 0);
    assert_eq!(kept(Keep::Budget(47)), 0);
    assert_eq!(kept(Keep::Budget(48)), 1);
    assert_eq!(kept(Keep::Budget(100)), 2);
}

#[test]
fn memory_of_compiled_gradients() {
    let x = Tensor::zeros(DType::F64, [100_000]);
    let block = |x: &Tensor| (x.sin() * x - x.mean()).tanh() * x;
    let plain = move |x: &Tensor| (0..8).fold(x.clone(), |x, _| block(&x)).sum();
    let lean = move |x: &Tensor| -> Result<Tensor, Error> {
        let block = checkpoint(block);
        let mut x = x.clone();
        for _ in 0..8 {
            x = block.call((&x,))?;
        }
        Ok(x.sum())
    };
    let peak = |bytes: usize| bytes / 800_000;
    let plain = peak(jit(grad(plain)).lower((&x,)).unwrap().memory().bytes);
    let lean = peak(jit(grad(lean)).lower((&x,)).unwrap().memory().bytes);
    assert!(lean <= 12 && plain >= 2 * lean, "{lean} against {plain}");
}

#[test]
fn a27_1_first_and_second_derivative() {
    let f = |x: &Tensor| x.sin().sin().sin();
    let lean = checkpoint(checkpoint(f));
    let x = Tensor::from(2.0);
    let first = grad(lean.clone()).call((&x,)).unwrap();
    assert_bits(&grad(f).call((&x,)).unwrap(), &first, "first");
    assert_close(&[item(&first)], &[-0.180098775947434], 1e-14);
    let second = grad(grad(lean)).call((&x,)).unwrap();
    assert_close(&[item(&second)], &[-0.536173419887110], 1e-14);
    assert_close(&[item(&grad(grad(f)).call((&x,)).unwrap())], &[item(&second)], 1e-15);
}

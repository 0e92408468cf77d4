//! Checkpoints: the same bits, less kept.

mod common;

use common::*;
use pullback::autodiff;
use pullback::control::Steps;
use pullback::ir::{Op, Program, TensorType};
use pullback::prelude::*;
use pullback::transform::{All, Function, Keep, Saved, saved_residuals};
use pullback::tree;

fn policies() -> Vec<Keep> {
    vec![
        Keep::Nothing,
        Keep::Dots,
        Keep::offered(["middle"]),
        Keep::Budget(40),
        Keep::Budget(0),
        Keep::Budget(usize::MAX),
    ]
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
    assert_eq!(saved_residuals(&lean, (&x,)).unwrap().rows.len(), 8);
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

/// Gradients with respect to the start, the slices and what is captured.
type Loop = fn(&Tensor, &Tensor, &Tensor, Option<usize>) -> Tensor;

/// The carry as it is for `None`, in chunks of so many, or of the root for 0.
macro_rules! in_chunks {
    ($chunks:expr, $carry:expr, |$carried:ident| $loop:expr) => {
        match $chunks {
            None => {
                let $carried = $carry;
                $loop
            }
            Some(0) => {
                let $carried = $carry.checkpoint_sqrt();
                $loop
            }
            Some(k) => {
                let $carried = $carry.checkpoint_every(k);
                $loop
            }
        }
    };
}

fn step(x: &Tensor, slice: &Tensor, w: &Tensor) -> Tensor {
    (x * w + slice.sin()).tanh() * w
}

#[test]
fn loops_in_chunks_have_the_bits_of_loops() {
    let scans: [Loop; 2] = [
        |x, xs, w, chunks| {
            let (last, ys) =
                in_chunks!(chunks, x, |carry| scan(carry, xs, |x, slice| (step(x, slice, w), x * w)));
            (last + ys.sum_axes(0)).sum() * w.sum()
        },
        |x, xs, w, chunks| {
            let steps = Steps::over(xs).reverse();
            let (last, ys) =
                in_chunks!(chunks, x, |carry| scan(carry, steps, |x, slice| (step(x, slice, w), x * w)));
            (last * ys.index_axis(0, 3)).sum()
        },
    ];
    let timed: [Loop; 3] = [
        |x, xs, w, chunks| {
            let body = |i: &Tensor, x: &Tensor| step(x, &(xs.index_axis(0, 0) * i.to_dtype(DType::F64)), w);
            in_chunks!(chunks, x, |carry| fori_loop(2, 13, carry, body)).sum()
        },
        |x, xs, w, chunks| {
            let n = (w.sum() * 100.0).to_dtype(DType::I64);
            let body = |i: &Tensor, x: &Tensor| step(x, &(xs.index_axis(0, 0) * i.to_dtype(DType::F64)), w);
            in_chunks!(chunks, x, |carry| fori_loop(0, n, carry, body)).sum()
        },
        |x, xs, w, chunks| {
            let goes_on = |x: &Tensor| x.sum().abs().gt(1e-3);
            let body = |x: &Tensor| (x * w + x * xs.index_axis(0, 1)).tanh() * 0.5;
            in_chunks!(chunks, x, |carry| while_loop(carry, goes_on, body)).sum()
        },
    ];
    let (x, w) = (floats(&[0.3, -0.0]), floats(&[0.7, -0.4]));
    for f in scans.into_iter().chain(timed) {
        for n in [4, 7, 9] {
            let xs = floats(&(0..2 * n).map(|i| (i as f64 - 6.0) / 7.0).collect::<Vec<_>>()).reshape([n, 2]);
            let at = (&x, &xs, &w);
            let plain = move |x: &Tensor, xs: &Tensor, w: &Tensor| f(x, xs, w, None);
            let expected = value_and_grad(plain).argnums(All).call(at).unwrap();
            let second = move |x: &Tensor, xs: &Tensor, w: &Tensor| {
                grad(plain).call((x, xs, w)).map(|g| g.sin().sum())
            };
            let curvature = grad(second).argnums(All).call(at).unwrap();
            for chunks in [0, 1, 2, 3, 7, 100] {
                let lean = move |x: &Tensor, xs: &Tensor, w: &Tensor| f(x, xs, w, Some(chunks));
                let g = value_and_grad(lean).argnums(All);
                assert_same(&expected, &g.call(at).unwrap());
                assert_same(&expected, &jit(g).call(at).unwrap());
                assert_same(&jvp(plain).call(at, at).unwrap(), &jvp(lean).call(at, at).unwrap());
                let second = move |x: &Tensor, xs: &Tensor, w: &Tensor| {
                    grad(lean).call((x, xs, w)).map(|g| g.sin().sum())
                };
                let found = grad(second).argnums(All).call(at).unwrap();
                for (found, expected) in tree::leaves(&found).into_iter().zip(tree::leaves(&curvature)) {
                    assert_close(&vec(found), &vec(expected), 1e-10);
                }
            }
        }
    }
}

#[test]
fn loops_in_chunks_on_lanes() {
    let starts = floats(&[0.1, 0.5, 2.0]);
    let f = |x: &Tensor, chunks: Option<usize>| {
        let body = |x: &Tensor| x * x * 0.4 + 0.1;
        in_chunks!(chunks, x, |carry| while_loop(carry, |x| x.lt(1.0) & x.gt(0.13), body))
    };
    let expected = vmap(grad(move |x: &Tensor| f(x, None))).call((&starts,)).unwrap();
    for chunks in [0, 2, 5] {
        let lean = vmap(grad(move |x: &Tensor| f(x, Some(chunks))));
        assert_same(&expected, &lean.call((&starts,)).unwrap());
        assert_same(&expected, &jit(lean).call((&starts,)).unwrap());
    }
}

#[test]
fn no_iterations_and_no_chunks() {
    let x = Tensor::from(2.0);
    let none = |x: &Tensor| scan(x.checkpoint_sqrt(), 0, |x, ()| (x * x, x.clone())).0;
    assert_eq!(item(&grad(none).call((&x,)).unwrap()), 1.0);
    let none = |x: &Tensor| fori_loop(0, Tensor::from(-3i64), x.checkpoint_sqrt(), |_, x| x * x);
    assert_eq!(item(&grad(none).call((&x,)).unwrap()), 1.0);
    let none = |x: &Tensor| fori_loop(0, Tensor::from(0i64), x.checkpoint_every(4), |_, x| x * x);
    assert_eq!(item(&grad(none).call((&x,)).unwrap()), 1.0);
    let none = |x: &Tensor| while_loop(x.checkpoint_sqrt(), |x| x.gt(5.0), |x| x * x);
    assert_eq!(item(&grad(none).call((&x,)).unwrap()), 1.0);
    let error = scan(x.checkpoint_every(0), 3, |x, ()| (x * x, ())).0.item::<f64>().unwrap_err();
    assert!(error.to_string().contains("at least 1"), "{error}");
}

#[test]
fn a27_2_what_is_kept() {
    let x = floats(&[1.0, 2.0, 3.0]);
    let f = |x: &Tensor| x.sin().sin();
    let plain = saved_residuals(&f, (&x,)).unwrap();
    assert_eq!((plain.rows.len(), plain.bytes()), (2, 48));
    assert!(plain.rows.iter().all(|row| row.why == Saved::Result("cos")));
    let lean = saved_residuals(&checkpoint(f), (&x,)).unwrap();
    assert_eq!(lean.rows.len(), 1);
    assert_eq!(lean.rows[0].why, Saved::Argument("argument 0".into()));
    assert_eq!(lean.to_string(), "f64[3]  24 bytes  argument 0\n24 bytes in all\n");
}

#[test]
fn the_table_names_lines_and_reasons() {
    let (x, w) = (floats(&[1.0, 2.0, 3.0]), point().1);
    let f = |x: &Tensor, n: &Tensor| -> Result<Tensor, Error> {
        let block =
            checkpoint(|x: &Tensor| x.matmul(&w).offer("middle").tanh()).keep(Keep::offered(["middle"]));
        Ok((while_loop(&block.call((x,))?, |x| x.sum().gt(n), |x| x * 0.5)).exp().sum())
    };
    let table = saved_residuals(&f, (&x, &Tensor::from(1.0))).unwrap().to_string();
    let line = |start: &str| table.lines().find(|line| line.contains(start)).unwrap_or_default().to_string();
    assert!(line("result of offer").contains("kept by checkpoint offered, tests/checkpoint.rs:"), "{table}");
    assert!(line("captured").starts_with("f64[3,3]  72 bytes"), "{table}");
    assert!(line("result of exp").contains("tests/checkpoint.rs:"), "{table}");
    assert!(table.contains("result of loop"), "{table}");
}

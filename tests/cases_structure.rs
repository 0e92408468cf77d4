//! Cases about structure: indices, empty tensors, broadcasting, unused and repeated arguments, nesting, depth.

mod common;

use common::*;
use pullback::ir::ops::index::scatter::ScatterKind;
use pullback::prelude::*;
use pullback::runtime::threads;
use pullback::transform::{All, Arg};
use pullback::{IndexMode, Shape};

#[test]
fn a10_1_repeated_indices_add_up() {
    let f = |u: &Tensor| {
        let z = Tensor::zeros(DType::F64, [3]).index_add(0, &ints(&[0, 0, 2]), u);
        z.vdot(&floats(&[5.0, 7.0, 11.0]))
    };
    assert_eq!(slopes(f, &floats(&[1.0, 2.0, 3.0])), [5.0, 5.0, 11.0]);
}

#[test]
fn a10_2_indices_out_of_range() {
    let indices = ints(&[0, 5, -1, -4]);
    let write =
        |u: &Tensor, mode| Tensor::zeros(DType::F64, [3]).index_write(ScatterKind::Add, 0, &indices, u, mode);
    let ones = floats(&[1.0; 4]);
    for result in [
        write(&ones, IndexMode::Checked).ok(),
        jit(|u: &Tensor| write(u, IndexMode::Checked)).call((&ones,)),
        grad(|u: &Tensor| write(u, IndexMode::Checked).sum()).call((&ones,)),
    ] {
        let text = result.unwrap_err().to_string();
        assert!(text.contains("IndexOutOfRange") && text.contains("index 5"), "{text}");
        assert!(text.contains("cases_structure.rs"), "{text}");
    }
    assert_eq!(vec(&write(&ones, IndexMode::Drop)), [1.0, 0.0, 0.0]);
    assert_eq!(slopes(|u| write(u, IndexMode::Drop).sum(), &ones), [1.0, 0.0, 0.0, 0.0]);
    assert_eq!(vec(&write(&ones, IndexMode::Clip)), [3.0, 0.0, 1.0]);
    assert_eq!(slopes(|u| write(u, IndexMode::Clip).sum(), &ones), [1.0; 4]);
}

#[test]
fn a10_3_scatter_with_fewer_indices_than_elements() {
    let weights = Tensor::from([[1.0, 2.0, 3.0, 4.0, 5.0]]);
    let f = |x: &Tensor, v: &Tensor| (x.scatter_add(1, &Tensor::from([[1i64, 3]]), v) * &weights).sum();
    let (x, v) = (Tensor::zeros(DType::F64, [1, 5]), Tensor::from([[1.0, 1.0]]));
    let g = grad(f).argnums(All);
    let (dx, dv) = compiled_too(g.call((&x, &v)).unwrap(), jit(g).call((&x, &v)).unwrap());
    assert_eq!((vec(&dx), vec(&dv)), (vec![1.0, 2.0, 3.0, 4.0, 5.0], vec![2.0, 4.0]));
}

#[test]
fn a11_gathers() {
    let x = floats(&[10.0, 20.0, 30.0, 40.0]);
    let clipped = |x: &Tensor| x.take_with(&ints(&[4, -5]), 0, IndexMode::Clip);
    assert_eq!(vec(&clipped(&x)), [40.0, 10.0]);
    assert_eq!(slopes(|x| clipped(x).sum(), &x), [1.0, 0.0, 0.0, 1.0]);
    let repeated = |x: &Tensor| x.take(&ints(&[2, 2, 0]), 0).vdot(&floats(&[1.0, 10.0, 100.0]));
    assert_eq!(slopes(repeated, &x), [100.0, 0.0, 11.0, 0.0]);
}

#[test]
fn a12_dynamic_slices_clamp_their_start() {
    let x = floats(&[10.0, 20.0, 30.0, 40.0]);
    let start = Tensor::from(3i64);
    let f = |x: &Tensor| x.dynamic_slice(0, &start, 2);
    assert_eq!(vec(&f(&x)), [30.0, 40.0]);
    assert_eq!(slopes(|x| f(x).vdot(&floats(&[1.0, 10.0])), &x), [0.0, 0.0, 1.0, 10.0]);
    let u = floats(&[1.0, 2.0]);
    let weights = floats(&[1.0, 10.0, 100.0, 1000.0]);
    assert_eq!(vec(&x.dynamic_update_slice(0, &start, &u)), [10.0, 20.0, 1.0, 2.0]);
    assert_eq!(slopes(|x| x.dynamic_update_slice(0, &start, &u).vdot(&weights), &x), [1.0, 10.0, 0.0, 0.0]);
    assert_eq!(slopes(|u| x.dynamic_update_slice(0, &start, u).vdot(&weights), &u), [100.0, 1000.0]);
}

#[test]
fn a13_1_reductions_of_nothing() {
    let x = floats(&[]);
    assert_eq!((item(&x.sum()), item(&x.prod())), (0.0, 1.0));
    assert!(item(&x.mean()).is_nan());
    for f in [|x: &Tensor| x.sum(), |x: &Tensor| x.prod(), |x: &Tensor| x.mean()] {
        assert_eq!(slopes(f, &x), [0.0; 0]);
    }
    let text = x.max().item::<f64>().unwrap_err().to_string();
    assert!(text.contains("max") && text.contains("extent of 0"), "{text}");
    assert_eq!(x.logsumexp().item::<f64>().unwrap(), f64::NEG_INFINITY);
}

#[test]
fn a13_2_products_of_nothing() {
    let f = |x: &Tensor, y: &Tensor| x.matmul(y).sum();
    let (x, y) = (Tensor::zeros(DType::F64, [2, 0]), Tensor::zeros(DType::F64, [0, 3]));
    assert_eq!(vec(&x.matmul(&y)), [0.0; 6]);
    let g = grad(f).argnums(All);
    let (dx, dy) = compiled_too(g.call((&x, &y)).unwrap(), jit(g).call((&x, &y)).unwrap());
    assert_eq!(dx.dims::<2>().unwrap(), [2, 0]);
    assert_eq!(dy.dims::<2>().unwrap(), [0, 3]);
}

#[test]
fn a13_3_scalars_stay_scalars() {
    let two = Tensor::from(2.0);
    let g = grad(|x: &Tensor| x.sum()).call((&two,)).unwrap();
    assert_eq!((item(&g), g.rank().unwrap()), (1.0, 0));
    let h = grad(grad(|x: &Tensor| x.powi(3))).call((&two,)).unwrap();
    assert_eq!((item(&h), h.rank().unwrap()), (12.0, 0));
}

#[test]
fn a14_1_each_operand_gets_its_own_shape() {
    let m = Tensor::arange(DType::F64, 6).reshape([2, 3]);
    let f = |a: &Tensor, b: &Tensor, c: &Tensor, d: &Tensor| (&m * a * b * c * d).sum();
    let one = |shape: &[usize]| Tensor::ones(DType::F64, shape);
    let g = grad(f).argnums(All);
    let arguments = (&one(&[3]), &one(&[1, 3]), &one(&[2, 1]), &one(&[]));
    let eager = g.call(arguments).unwrap();
    let (da, db, dc, dd) = compiled_too(eager, jit(g).call(arguments).unwrap());
    assert_eq!(vec(&da), [3.0, 5.0, 7.0]);
    assert_eq!(vec(&db), [3.0, 5.0, 7.0]);
    assert_eq!(vec(&dc), [3.0, 12.0]);
    assert_eq!(item(&dd), 15.0);
    assert_eq!(*db.shape().unwrap(), Shape::from([1, 3]));
    assert_eq!(*dc.shape().unwrap(), Shape::from([2, 1]));
}

#[test]
fn a14_2_a_scalar_times_a_vector() {
    assert_eq!(slopes(|v| (floats(&[1.0, 1.0]) * v).sum(), &Tensor::from(0.0)), [2.0]);
}

#[test]
fn a14_3_least_squares() {
    let x = Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let t = Tensor::from([[1.0f32], [2.0]]);
    let f = |w: &Tensor, b: &Tensor| (x.matmul(w) + b - &t).square().sum();
    let (w, b) = (Tensor::from([[1.0f32], [0.0], [-1.0]]), Tensor::from([[1.0f32, 2.0, 3.0]]));
    let g = grad(f).argnums(All);
    let (dw, db) = compiled_too(g.call((&w, &b)).unwrap(), jit(g).call((&w, &b)).unwrap());
    assert_eq!((vec(&dw), vec(&db)), (vec![-54.0, -72.0, -90.0], vec![-10.0, -6.0, -2.0]));
    assert_eq!(*db.shape().unwrap(), Shape::from([1, 3]));
}

#[test]
fn a15_2_slopes_through_steps() {
    assert_eq!(slopes(|x| x.gt(0).to_dtype(DType::F64) * x, &Tensor::from(2.0)), [1.0]);
    assert_eq!(slopes(|x| x.floor(), &Tensor::from(1.5)), [0.0]);
    assert_eq!(slopes(|x| x.round(), &Tensor::from(1.3)), [0.0]);
}

#[test]
fn a16_1_unused_arguments_have_zero_slopes() {
    let f = |a: &Tensor, _: &Tensor| a.sin();
    let (a, b) = (Tensor::from(1.0), floats(&[1.0, 2.0]));
    let g = grad(f).argnums((Arg::<0>, Arg::<1>));
    let (da, db) = compiled_too(g.call((&a, &b)).unwrap(), jit(g).call((&a, &b)).unwrap());
    assert_eq!((item(&da), vec(&db)), (1.0f64.cos(), vec![0.0, 0.0]));
}

#[test]
fn a17_1_outputs_that_are_inputs_or_constants() {
    let x = Tensor::from(1.0f32);
    assert_eq!(slopes(|x| x.clone(), &x), [1.0]);
    assert_eq!(slopes(|_| Tensor::from(3.0f32), &x), [0.0]);
    assert_eq!(slopes(|_| Tensor::full(3.0f32, []), &x), [0.0]);
    let both = jit(|x: &Tensor| (x.clone(), x.clone(), Tensor::full(3.0f32, [2])));
    let (a, b, c) = both.call((&x,)).unwrap();
    assert_eq!((item(&a), item(&b), vec(&c)), (1.0, 1.0, vec![3.0, 3.0]));
}

#[test]
fn a18_1_one_tensor_twice() {
    let three = Tensor::from(3.0);
    let (a, b) = grad(|a: &Tensor, b: &Tensor| a * b).argnums(All).call((&three, &three)).unwrap();
    assert_eq!((item(&a), item(&b)), (3.0, 3.0));
    assert_eq!(slopes(|x| x * x, &three), [6.0]);
}

#[test]
fn a19_2_captured_arrays_are_not_copied_into_programs() {
    let big = Tensor::from_array(Tensor::zeros(DType::F64, [200_000, 10, 10]).array().unwrap());
    let g = jit(|_: &()| big.sum_axes(-1));
    let lowered = g.lower((&(),)).unwrap();
    assert_eq!(lowered.program().op_counts().get("constant"), None);
    assert_eq!(lowered.program().params().len(), 1);
    assert_eq!(lowered.memory().bytes, 0);
    let result = g.call((&(),)).unwrap();
    assert_eq!(*result.shape().unwrap(), Shape::from([200_000, 10]));
    assert!(result.to_vec::<f64>().unwrap().iter().all(|x| x.to_bits() == 0));
}

#[test]
fn a20_nested_derivatives_do_not_mix() {
    let slope =
        |f: &dyn Fn(&Tensor) -> Tensor, y: f64| grad(|y: &Tensor| f(y)).call((&Tensor::from(y),)).unwrap();
    let f = |x: &Tensor| x * slope(&|y| x + y, 1.0);
    assert_eq!(slopes(f, &Tensor::from(1.0)), [1.0]);
    assert_eq!(slopes(f, &Tensor::from(5.0)), [1.0]);
    let reverse = |x: &Tensor| x * slope(&|y| x * y * y, 3.0);
    let forward = |x: &Tensor| {
        let three = Tensor::from(3.0);
        x * jvp(|y: &Tensor| x * y * y).call((&three,), (&three.ones_like(),)).unwrap().1
    };
    // Both outer modes are taken by `slopes`.
    assert_eq!(slopes(reverse, &Tensor::from(2.0)), [24.0]);
    assert_eq!(slopes(forward, &Tensor::from(2.0)), [24.0]);
}

#[test]
fn a21_1_derivatives_of_tanh() {
    let expected = [0.7864477329659, -0.7268619813836, -0.5652092882598, 3.9522195637246];
    let found = [1, 2, 3, 4].map(|order| derivative(|x| x.tanh(), 0.5, order));
    assert_close(&found, &expected, 1e-12);
}

#[test]
fn a21_2_second_derivative_of_relu() {
    assert_eq!([-1.0, 0.0, 1.0].map(|x| derivative(|x| x.relu(), x, 2)), [0.0; 3]);
}

#[test]
fn a21_3_rosenbrock() {
    let f = |p: &Tensor| {
        let n = p.size().unwrap();
        let (x, y) = (p.narrow(0, 0, n - 1), p.narrow(0, 1, n - 1));
        ((1.0 - &x).square() + (y - x.square()).square() * 100.0).sum()
    };
    let p = floats(&[3.0, 5.0]);
    assert_eq!(item(&f(&p)), 1604.0);
    assert_eq!(slopes(f, &p), [4804.0, -800.0]);
    let (p, v) = (floats(&[3.0, 5.0, 7.0]), floats(&[1.0, 0.0, -1.0]));
    let forward = jvp(grad(f)).call((&p,), (&v,)).unwrap().1;
    let reverse = grad(|p: &Tensor| Ok::<_, Error>(grad(f).call((p,))?.vdot(&v))).call((&p,)).unwrap();
    assert_eq!(vec(&forward), [8802.0, 800.0, -200.0]);
    assert_eq!(vec(&reverse), [8802.0, 800.0, -200.0]);
}

#[test]
fn a21_4_fourth_derivative() {
    let found = derivative(|x| x.sin() * x.powi(10) * 0.3, 1.1, 4);
    assert_close(&[found], &[2829.281102675045], 1e-12);
}

#[test]
fn a25_1_a_very_deep_chain() {
    let chain = |y: &Tensor| {
        let mut y = y.clone();
        for _ in 0..100_000 {
            y = &y + &y * 1e-6;
        }
        y
    };
    let run = move || item(&grad(chain).call((&Tensor::from(1.0),)).unwrap());
    let found = std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
    assert_close(&[found], &[1.10517086281714], 1e-10);
}

#[test]
fn a26_very_wide_sharing() {
    let doubled = |x: &Tensor| (0..60).fold(x.clone(), |x, _| &x + &x);
    assert_eq!(slopes(doubled, &Tensor::from(1.0)), [(1u64 << 60) as f64]);
    let squared = |x: &Tensor| (0..10).fold(x.clone(), |x, _| &x * &x);
    let x = Tensor::from(1.001);
    assert_close(&[item(&squared(&x))], &[2.78288550565446], 1e-13);
    assert_close(&slopes(squared, &x), &[2846.8279298603], 1e-13);
}

#[test]
fn a32_1_broadcast_then_reversed_axes() {
    let f = |a: &Tensor, b: &Tensor| (a.broadcast_to([1, 1, 2]).permute([2, 1, 0]) * b).sum();
    let (a, b) = (Tensor::from([1.0f32, 2.0]), Tensor::from([[[3.0f32]], [[4.0]]]));
    assert_eq!(item(&f(&a, &b)), 11.0);
    let g = grad(f).argnums(All);
    let (da, db) = compiled_too(g.call((&a, &b)).unwrap(), jit(g).call((&a, &b)).unwrap());
    assert_eq!((vec(&da), vec(&db)), (vec![3.0, 4.0], vec![1.0, 2.0]));
    assert_eq!(*db.shape().unwrap(), Shape::from([2, 1, 1]));
    assert_eq!(slopes(|a| f(a, &b), &a), [3.0, 4.0]);
    assert_eq!(slopes(|b| f(&a, b), &b), [1.0, 2.0]);
}

/// Elements come and go in logical order, whatever order a transpose or a slice read them in.
#[test]
fn a32_2_transposed_and_sliced_arrays_come_back_as_they_are() {
    let table = Tensor::from([[0i64, 1, 2], [3, 4, 5]]);
    let columns = [0i64, 3, 1, 4, 2, 5];
    let part = [1i64, 4];
    let same = jit(|x: &Tensor| x.clone());
    for (tensor, expected) in [(table.t(), &columns[..]), (table.t().narrow(0, 1, 1), &part[..])] {
        assert_eq!(tensor.to_vec::<i64>().unwrap(), expected);
        assert_eq!(same.call((&tensor,)).unwrap().to_vec::<i64>().unwrap(), expected);
        let array = tensor.array().unwrap();
        assert_eq!(array.as_slice::<i64>().unwrap(), expected);
        assert_bits(&Tensor::from_array(array), &tensor, "through the array");
    }
    let moved = jit(|x: &Tensor| x.t()).call((&table,)).unwrap();
    assert_eq!(moved.to_vec::<i64>().unwrap(), columns);
}

#[test]
fn a35_1_gradients_have_the_dtype_of_the_argument() {
    let k = floats(&[1.0, 2.0]);
    let f = |x: &Tensor| (x.to_dtype(DType::F64) * &k).sum();
    assert_eq!(slopes(f, &Tensor::from([1.0f32, 2.0])), [1.0, 2.0]);
    let mixed = grad(|x: &Tensor| (x * &k).sum()).call((&Tensor::from([1.0f32, 2.0]),)).unwrap_err();
    assert!(mixed.to_string().contains("dtypes f32 and f64 differ"), "{mixed}");
    let error = jvp(|x: &Tensor| x.sin()).call((&Tensor::from(1.0f32),), (&Tensor::from(1.0),)).unwrap_err();
    assert!(error.to_string().contains("type f64[] and must have f32[]"), "{error}");
}

/// Of one function compiled once, on the same buffers. 100k elements are enough for every op to use all threads.
#[test]
fn a41_1_same_bits_in_every_call_on_any_number_of_threads() {
    let x = Tensor::arange(DType::F32, 100_000).sin();
    let f = jit(|x: &Tensor| {
        let m = x.narrow(0, 0, 300 * 300).reshape([300, 300]);
        let product = m.matmul(&m);
        (product.softmax(1), x.sum(), product)
    });
    let first = f.call((&x,)).unwrap();
    let before = threads::threads();
    for call in 0..200 {
        threads::set_threads([1, 2, 8][call % 3]);
        let again = f.call((&x,)).unwrap();
        for (expected, found) in [(&first.0, &again.0), (&first.1, &again.1), (&first.2, &again.2)] {
            assert_bits(expected, found, "called again");
        }
    }
    threads::set_threads(before);
}

//! Batching as users see it: `vmap` against loops, alone and composed with every other transform.

mod common;

use common::*;
use pullback::prelude::*;
use pullback::random;
use pullback::runtime::RuntimeError;
use pullback::transform::{All, Function};
use pullback::tree;

/// Lane `i` along axis 0.
fn row(x: &Tensor, i: usize) -> Tensor {
    x.index_axis(0, i)
}

fn matrix() -> Tensor {
    Tensor::from([[0.5, -1.0, 2.0, 0.1], [1.5, 0.3, -0.7, 0.9], [-0.2, 0.8, 0.4, -1.1]])
}

/// What the function gives for the rows of `xs`, one at a time.
fn looped(f: impl Fn(&Tensor) -> Tensor, xs: &Tensor) -> Tensor {
    let lanes: Vec<Tensor> = (0..xs.dims::<2>().unwrap()[0]).map(|i| f(&row(xs, i))).collect();
    stack(&lanes, 0)
}

/// Something with reductions, comparisons, indices and a captured tensor.
fn busy(x: &Tensor) -> Tensor {
    let weights = Tensor::from([0.3, -0.2, 0.9, 0.4]);
    let scaled = (x - x.mean()) * &weights;
    let picked = x.take(&x.argmax(0), 0);
    where_(&scaled.gt(0), scaled.exp(), scaled.sin()) + picked
}

#[test]
fn lanes_are_what_a_loop_gives() {
    let xs = matrix();
    let due = looped(busy, &xs);
    assert_bits(&vmap(busy).call((&xs,)).unwrap(), &due, "eager");
    assert_bits(&jit(vmap(busy)).call((&xs,)).unwrap(), &due, "compiled");
    assert_bits(&jit(vmap(jit(busy))).call((&xs,)).unwrap(), &due, "compiled inside too");
}

#[test]
fn axes_are_chosen_by_argument_part_and_output() {
    let (xs, y) = (matrix(), floats(&[1.0, 2.0, 3.0, 4.0]));
    let f = |x: &Tensor, y: &Tensor| x * y.sum();
    let due = looped(|x| f(x, &y), &xs);
    assert_bits(&vmap(f).in_axes((0, None)).call((&xs, &y)).unwrap(), &due, "one argument");
    let across = vmap(f).in_axes((-1, None)).out_axes(1);
    assert_bits(&across.call((&xs.t(), &y)).unwrap(), &due.t(), "along the last axis");
    let parts = |pair: &(Tensor, Tensor), z: &Tensor| (&pair.0 + &pair.1, z.clone());
    let mapped = vmap(parts).in_axes(((0, None), None)).out_axes((1, None));
    let (sums, z) = mapped.call((&(xs.clone(), y.clone()), &y)).unwrap();
    assert_bits(&sums, &(&xs + &y).t(), "parts");
    assert_bits(&z, &y, "the same in every lane");
    // An output that every lane shares is repeated where it is given an axis.
    let (_, z) = vmap(parts).in_axes(((0, None), None)).call((&(xs.clone(), y.clone()), &y)).unwrap();
    assert_bits(&z, &y.broadcast_to([3, 4]), "repeated");
}

#[test]
fn what_lanes_share_is_computed_once() {
    let f = vmap(|x: &Tensor, y: &Tensor| x * y.exp()).in_axes((0, None));
    let text = jit(f).lower((&matrix(), &floats(&[1.0, 2.0, 3.0, 4.0]))).unwrap().program().to_string();
    assert!(text.contains("= exp %1 : f64[4]"), "{text}");
    let g = vmap(|x: &Tensor, w: &Tensor| w.matmul(x)).in_axes((0, None));
    let program = jit(g).lower((&matrix(), &Tensor::ones(DType::F64, [5, 4]))).unwrap();
    assert_eq!(program.program().op_counts()["dot"], 1);
    assert!(!program.program().op_counts().contains_key("broadcast"), "{}", program.program());
}

#[test]
fn vmap_nests() {
    let (xs, ys) = (matrix(), matrix() * 2.0);
    let kernel = |x: &Tensor, y: &Tensor| (-(x - y).square().sum()).exp();
    let rows = |x: &Tensor, ys: &Tensor| vmap(|y: &Tensor| kernel(x, y)).call((ys,));
    let gram = vmap(rows).in_axes((0, None));
    let due = looped(|x| looped(|y| kernel(x, y), &ys), &xs);
    assert_bits(&gram.call((&xs, &ys)).unwrap(), &due, "eager");
    assert_bits(&jit(gram.clone()).call((&xs, &ys)).unwrap(), &due, "compiled");
    let direct = vmap(vmap(kernel).in_axes((None, 0))).in_axes((0, None));
    assert_bits(&direct.call((&xs, &ys)).unwrap(), &due, "as values");
    // Second derivatives of a sum over both.
    let energy = |xs: &Tensor, ys: &Tensor| Ok::<_, Error>(gram.invoke(&(xs.clone(), ys.clone()))?.sum());
    let by_loops = |xs: &Tensor, ys: &Tensor| looped(|x| looped(|y| kernel(x, y), ys), xs).sum();
    let found = vec(&jit(grad(energy)).call((&xs, &ys)).unwrap());
    assert_close(&found, &vec(&grad(by_loops).call((&xs, &ys)).unwrap()), 1e-13);
}

#[test]
fn gradients_of_lanes_and_lanes_of_gradients() {
    let xs = matrix();
    let loss = |x: &Tensor| busy(x).square().sum();
    let due = looped(|x| grad(loss).call((x,)).unwrap(), &xs);
    assert_bits(&vmap(grad(loss)).call((&xs,)).unwrap(), &due, "lanes of gradients");
    assert_bits(&jit(vmap(grad(loss))).call((&xs,)).unwrap(), &due, "compiled");
    let total = |xs: &Tensor| Ok::<_, Error>(vmap(loss).call((xs,))?.sum());
    assert_bits(&grad(total).call((&xs,)).unwrap(), &due, "gradient of lanes");
    assert_bits(&jit(grad(total)).call((&xs,)).unwrap(), &due, "compiled");
    let (values, slopes) = jit(vmap(value_and_grad(loss))).call((&xs,)).unwrap();
    assert_bits(&values, &looped(loss, &xs), "values");
    assert_bits(&slopes, &due, "gradients");
    let directional = |x: &Tensor| Ok::<_, Error>(jvp(loss).call((x,), (&x.cos(),))?.1);
    let along = looped(|x| directional(x).unwrap(), &xs);
    assert_bits(&vmap(directional).call((&xs,)).unwrap(), &along, "lanes of tangents");
    let (_, tangent) = jvp(vmap(loss)).call((&xs,), (&xs.cos(),)).unwrap();
    assert_bits(&tangent, &along, "tangents of lanes");
    // Second order, both ways around.
    let second = looped(|x| hvp(loss).call((x,), &x.cos()).unwrap(), &xs);
    let curved = |x: &Tensor| hvp(loss).call((x,), &x.cos());
    assert_bits(&jit(vmap(curved)).call((&xs,)).unwrap(), &second, "lanes of second derivatives");
    assert_close(&vec(&hvp(total).call((&xs,), &xs.cos()).unwrap()), &vec(&second), 1e-13);
}

#[derive(Tree, Clone)]
struct Mlp {
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
}

#[test]
fn per_example_gradients_of_a_network() {
    let key = random::key(7);
    let [k1, k2, k3] = random::split(&key);
    let normal = |key: &Tensor, shape: [usize; 2]| random::normal(key, DType::F64, shape);
    let model = Mlp { w1: normal(&k1, [4, 9]), b1: Tensor::zeros(DType::F64, [9]), w2: normal(&k2, [9, 3]) };
    let xs = normal(&k3, [12, 4]);
    let labels = ints(&[0, 1, 2, 2, 1, 0, 0, 0, 1, 2, 1, 2]);
    let loss = |m: &Mlp, x: &Tensor, label: &Tensor| {
        let hidden = (x.matmul(&m.w1) + &m.b1).tanh();
        -hidden.matmul(&m.w2).log_softmax(-1).take(label, 0)
    };
    let per_example = jit(vmap(grad(loss)).in_axes((None, 0, 0)));
    let found = per_example.call((&model, &xs, &labels)).unwrap();
    for i in 0..12 {
        let due = grad(loss).call((&model, &row(&xs, i), &row(&labels, i))).unwrap();
        for (found, due) in tree::leaves(&found).into_iter().zip(tree::leaves(&due)) {
            assert_close(&vec(&row(found, i)), &vec(due), 1e-12);
        }
    }
    let mean = |m: &Mlp| Ok::<_, Error>(vmap(loss).in_axes((None, 0, 0)).call((m, &xs, &labels))?.mean());
    let due = grad(mean).call((&model,)).unwrap();
    assert_close(&vec(&found.w1.mean_axes(0)), &vec(&due.w1), 1e-10);
}

#[test]
fn no_lanes_and_no_elements() {
    let nothing = Tensor::zeros(DType::F64, [0, 4]);
    let found = jit(vmap(busy)).call((&nothing,)).unwrap();
    assert_eq!(found.dims::<2>().unwrap(), [0, 4]);
    let found = vmap(grad(|x: &Tensor| busy(x).sum())).call((&nothing,)).unwrap();
    assert_eq!(found.dims::<2>().unwrap(), [0, 4]);
    let empty = Tensor::zeros(DType::F32, [3, 0]);
    let found = jit(vmap(|x: &Tensor| x.exp().sum())).call((&empty,)).unwrap();
    assert_eq!(vec(&found), [0.0; 3]);
}

#[test]
fn c7_indices_out_of_range_keep_their_meaning() {
    use pullback::IndexMode::{Checked, Clip, Drop};
    let table = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let places = ints(&[1, 5]);
    for (mode, due) in [(Clip, [2.0, 6.0]), (Drop, [2.0, 0.0])] {
        let pick = |x: &Tensor, i: &Tensor| x.take_with(i, 0, mode);
        assert_eq!(vec(&jit(vmap(pick)).call((&table, &places)).unwrap()), due);
        let slope = vmap(grad(pick)).call((&table, &places)).unwrap();
        let last = if mode == Clip { 1.0 } else { 0.0 };
        assert_eq!(vec(&slope), [0.0, 1.0, 0.0, 0.0, 0.0, last]);
        let one_table = vmap(pick).in_axes((None, 0)).call((&row(&table, 0), &places)).unwrap();
        assert_eq!(vec(&one_table), [2.0, if mode == Clip { 3.0 } else { 0.0 }]);
    }
    let pick = |x: &Tensor, i: &Tensor| x.take_with(i, 0, Checked);
    let cut = |x: &Tensor, i: &Tensor| x.dynamic_slice_with(&[i], [2], Checked);
    for error in [
        vmap(pick).call((&table, &places)).unwrap_err(),
        jit(vmap(pick)).call((&table, &places)).unwrap_err(),
        vmap(grad(pick)).call((&table, &places)).unwrap_err(),
        vmap(cut).call((&table, &ints(&[0, 2]))).unwrap_err(),
        jit(vmap(cut)).call((&table, &ints(&[-1, 0]))).unwrap_err(),
    ] {
        assert!(matches!(error.root(), Error::Runtime(RuntimeError::IndexOutOfRange { .. })), "{error}");
    }
    let cut = vmap(cut).call((&table, &ints(&[0, 1]))).unwrap();
    assert_eq!(vec(&cut), [1.0, 2.0, 5.0, 6.0]);
}

#[test]
fn indices_batch_into_one_op() {
    let table = Tensor::ones(DType::F64, [5, 3]);
    let starts = ints(&[0, 1, 2, 3]);
    let zero = Tensor::zeros(DType::I64, []);
    let read = vmap(|i: &Tensor| table.dynamic_slice_with(&[i, &zero], [2, 3], pullback::IndexMode::Checked));
    let program = jit(read).lower((&starts,)).unwrap();
    assert_eq!(
        program.program().op_counts()["gather"],
        2,
        "one to check, one to read: {}",
        program.program()
    );
    assert!(!program.program().op_counts().contains_key("dynamic_slice"));
    let write = vmap(|i: &Tensor, v: &Tensor| table.index_add(0, &i.expand_dims(0), &v.expand_dims(0)));
    let program = jit(write).lower((&starts, &Tensor::ones(DType::F64, [4, 3]))).unwrap();
    assert_eq!(program.program().op_counts()["scatter"], 1, "{}", program.program());
}

#[test]
fn e12_a_batch_of_seeds_gives_stacked_gradients() {
    let f = |x: &Tensor, y: &Tensor| (x.square() * y, x.sum());
    let (x, y) = (floats(&[1.0, 2.0, 3.0]), floats(&[4.0, 5.0, 6.0]));
    let (_, pullback) = vjp(f).call((&x, &y)).unwrap();
    let seeds = (Tensor::from([[1.0, 0.0, 0.0], [0.5, -1.0, 2.0]]), floats(&[0.0, 3.0]));
    let gradients = vmap(|seed: &(Tensor, Tensor)| pullback.call(seed));
    let (by_x, by_y) = gradients.call((&seeds,)).unwrap();
    for i in 0..2 {
        let (due_x, due_y) = pullback.call(&(row(&seeds.0, i), row(&seeds.1, i))).unwrap();
        assert_bits(&row(&by_x, i), &due_x, "by x");
        assert_bits(&row(&by_y, i), &due_y, "by y");
    }
    // Basis seeds give the Jacobian.
    let g = |x: &Tensor| x.square() * 3.0 + x.sum();
    let (_, pullback) = vjp(g).call((&x,)).unwrap();
    let rows = vmap(|seed: &Tensor| pullback.call(seed)).call((&Tensor::eye(DType::F64, 3),)).unwrap().0;
    assert_bits(&rows, &jacrev(g).call((&x,)).unwrap(), "reverse");
    let (_, linear) = linearize(g).call((&x,)).unwrap();
    let columns = vmap(|t: &Tensor| linear.call((t,))).out_axes(1);
    let columns = columns.call((&Tensor::eye(DType::F64, 3),)).unwrap();
    assert_bits(&columns, &jacfwd(g).call((&x,)).unwrap(), "forward");
}

#[test]
fn a42_1_draws_per_key() {
    let keys = random::keys(&random::key(42), 4);
    let draw = |key: &Tensor| random::normal(key, DType::F64, [3]);
    assert_bits(&jit(vmap(draw)).call((&keys,)).unwrap(), &looped(draw, &keys), "draws");
    let dropped = |key: &Tensor| Tensor::ones(DType::F32, [8]).dropout(key, 0.5);
    assert_bits(&vmap(dropped).call((&keys,)).unwrap(), &looped(dropped, &keys), "dropout");
}

#[test]
fn a45_1_gradient_of_a_masked_branch() {
    let f = |x: &Tensor| where_(&x.gt(0), x.sqrt(), x * 2.0);
    let x = floats(&[4.0, -1.0, 0.0]);
    for slopes in [vmap(grad(f)).call((&x,)).unwrap(), jit(vmap(grad(f))).call((&x,)).unwrap()] {
        assert_eq!(vec(&slopes), [0.25, 2.0, 2.0]);
    }
}

#[test]
fn lanes_of_different_dtypes_and_structures() {
    let f = |x: &Tensor, n: &Tensor, on: &Tensor| {
        let kept = where_(on, x.clone(), x * 0.0);
        (kept.square().sum(), [n + 1, n * n], Some(on ^ on))
    };
    let (xs, ns) = (matrix().to_dtype(DType::F32), ints(&[1, 2, 7]));
    let on = Tensor::from([true, false, true]);
    let g = vmap(|x: &Tensor, n: &Tensor, on: &Tensor| f(x, n, &on.broadcast_to([4])));
    let (sums, [more, bits], off) = g.call((&xs, &ns, &on)).unwrap();
    let due = |i: usize| xs.index_axis(0, i).square().sum().item::<f32>().unwrap();
    assert_eq!(sums.to_vec::<f32>().unwrap(), [due(0), 0.0, due(2)]);
    assert_eq!(more.to_vec::<i64>().unwrap(), [2, 3, 8]);
    assert_eq!(bits.to_vec::<i64>().unwrap(), [1, 4, 49]);
    assert_eq!(off.unwrap().dims::<2>().unwrap(), [3, 4]);
    let gradients = vmap(grad(|x: &Tensor, y: &Tensor| (x * y).sum()).argnums(All));
    let (by_x, by_y) = gradients.call((&xs, &xs)).unwrap();
    assert_bits(&by_x, &xs, "x");
    assert_bits(&by_y, &xs, "y");
}

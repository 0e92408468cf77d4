//! Jacobians, Hessians and their products with directions.

mod common;

use common::*;
use pullback::prelude::*;
use pullback::transform::{All, Arg};
use std::collections::BTreeMap;

/// The function's Jacobian by one tensor, in every mode, eager and compiled: equal within a few roundings.
#[track_caller]
fn every_mode(f: impl Fn(&Tensor) -> Tensor + Copy, x: &Tensor) -> Tensor {
    let forward = jacfwd(f).call((x,)).unwrap();
    let reverse = jacrev(f).call((x,)).unwrap();
    assert_bits(&forward, &jit(jacfwd(f)).call((x,)).unwrap(), "compiled forward mode");
    assert_bits(&reverse, &jit(jacrev(f)).call((x,)).unwrap(), "compiled reverse mode");
    assert_eq!(forward.ty().unwrap(), reverse.ty().unwrap());
    assert_close(&vec(&forward), &vec(&reverse), 1e-13);
    let either = jacobian(f).call((x,)).unwrap();
    assert_close(&vec(&either), &vec(&reverse), 1e-13);
    forward
}

#[test]
fn blocks_have_the_shape_of_the_output_then_that_of_the_argument() {
    let x = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let weights = Tensor::from([[1.0, -1.0], [0.5, 2.0], [0.0, 3.0]]);
    let found = every_mode(|x| x.matmul(&weights).square(), &x);
    assert_eq!(found.dims::<4>().unwrap(), [2, 2, 2, 3]);
    let (product, found) = (x.matmul(&weights), vec(&found));
    for (place, found) in found.into_iter().enumerate() {
        let [i, j, k, l] = [place / 12, place / 6 % 2, place / 3 % 2, place % 3];
        let at = |t: &Tensor, row: usize, column: usize| item(&t.index_axis(0, row).index_axis(0, column));
        let due = if i == k { 2.0 * at(&product, i, j) * at(&weights, l, j) } else { 0.0 };
        assert_eq!(found, due, "{place}");
    }
    let found = every_mode(|x| x.sum(), &x);
    assert_eq!((found.dims::<2>().unwrap(), vec(&found)), ([2, 3], vec![1.0; 6]));
    let found = every_mode(|x| x.broadcast_to([2]), &Tensor::from(3.0));
    assert_eq!((found.dims::<1>().unwrap(), vec(&found)), ([2], vec![1.0; 2]));
    let found = every_mode(|x| x.slice((0..0,)).square(), &floats(&[1.0, 2.0]));
    assert_eq!(found.dims::<2>().unwrap(), [0, 2]);
    let found = every_mode(|_| floats(&[1.0, 2.0]), &floats(&[1.0, 2.0, 3.0]));
    assert_eq!((found.dims::<2>().unwrap(), vec(&found)), ([2, 3], vec![0.0; 6]));
}

#[test]
fn a05_1_jacobian_of_log_softmax() {
    let x = Tensor::from([1000.0f32, 0.0, -1000.0]);
    let due = [0.0, 0.0, 0.0, -1.0, 1.0, 0.0, -1.0, 0.0, 1.0];
    assert_eq!(vec(&jacfwd(|x: &Tensor| x.log_softmax(0)).call((&x,)).unwrap()), due);
    assert_eq!(vec(&jacrev(|x: &Tensor| x.log_softmax(0)).call((&x,)).unwrap()), due);
}

#[test]
fn the_mode_with_fewer_lanes_is_chosen() {
    let wide = floats(&[1.0, 2.0, 3.0]);
    let ops = |f: fn(&Tensor) -> Tensor, x: &Tensor| {
        let text = |program: &pullback::ir::Program| program.to_string();
        let [either, forward, reverse] = [jacobian(f), jacfwd(f), jacrev(f)]
            .map(|jacobian| text(jit(jacobian).lower((x,)).unwrap().program()));
        (either == forward, either == reverse)
    };
    assert_eq!(ops(|x| x.square().sum(), &wide), (false, true));
    assert_eq!(ops(|x| x.sin().broadcast_to([5, 3]), &wide), (true, false));
}

#[derive(Tree, Clone)]
struct Line {
    slope: Tensor,
    offset: Tensor,
}

fn line() -> Line {
    Line { slope: floats(&[2.0, 3.0]), offset: Tensor::from(1.0) }
}

#[test]
fn trees_of_arguments_and_outputs() {
    let x = floats(&[1.0, 4.0]);
    let predict = |line: &Line, x: &Tensor| &line.slope * x + &line.offset;
    for mode in [jacfwd(predict), jacrev(predict), jacobian(predict)] {
        let by_line: Line = mode.clone().call((&line(), &x)).unwrap();
        assert_eq!(vec(&by_line.slope), [1.0, 0.0, 0.0, 4.0]);
        assert_eq!(vec(&by_line.offset), [1.0, 1.0]);
        let by_x = mode.clone().argnum::<1>().call((&line(), &x)).unwrap();
        assert_eq!(vec(&by_x), [2.0, 0.0, 0.0, 3.0]);
        let (by_x, by_line) = mode.argnums((Arg::<1>, Arg::<0>)).call((&line(), &x)).unwrap();
        assert_eq!((vec(&by_x), vec(&by_line.offset)), (vec![2.0, 0.0, 0.0, 3.0], vec![1.0, 1.0]));
    }
    // An argument of one kind in each place of the output.
    let both = |x: &Tensor, y: &Tensor| (x * y, vec![x.sum(), y.sum() * 2.0]);
    let ((xy_x, xy_y), sums) = jacrev(both).argnums(All).call((&x, &x)).unwrap();
    assert_eq!((vec(&xy_x), vec(&xy_y)), (vec![1.0, 0.0, 0.0, 4.0], vec![1.0, 0.0, 0.0, 4.0]));
    assert_eq!((vec(&sums[0].0), vec(&sums[0].1)), (vec![1.0, 1.0], vec![0.0, 0.0]));
    assert_eq!((vec(&sums[1].0), vec(&sums[1].1)), (vec![0.0, 0.0], vec![2.0, 2.0]));
    // A struct as output: by path.
    let moved = |x: &Tensor| Line { slope: x * 2.0, offset: x.sum() };
    let rows: BTreeMap<String, Tensor> = jacfwd(moved).call((&x,)).unwrap();
    assert_eq!(vec(&rows["slope"]), [2.0, 0.0, 0.0, 2.0]);
    assert_eq!(vec(&rows["offset"]), [1.0, 1.0]);
    let keyed = |x: &Tensor| BTreeMap::from([("a".to_string(), x.sum()), ("b".to_string(), x * 3.0)]);
    assert_eq!(vec(&jacrev(keyed).call((&x,)).unwrap()["b"]), [3.0, 0.0, 0.0, 3.0]);
}

#[test]
fn blocks_of_unrelated_parts_are_zero_whatever_stands_there() {
    // In the column of x the product with y, which is infinite, is not met.
    let f = |x: &Tensor, y: &Tensor| (x * 2.0, y.matmul(y));
    let (x, y) = (floats(&[1.0, 2.0]), floats(&[f64::INFINITY, 1.0]));
    for mode in [jacfwd(f), jacrev(f)] {
        let (first, second) = mode.argnums(All).call((&x, &y)).unwrap();
        assert_eq!((vec(&first.0), vec(&first.1)), (vec![2.0, 0.0, 0.0, 2.0], vec![0.0; 4]));
        assert_eq!(vec(&second.0), [0.0, 0.0]);
    }
}

#[test]
fn dtypes_are_those_of_the_output() {
    let f = |x: &Tensor| x.to_dtype(DType::F64).square();
    let x = Tensor::from([1.0f32, 2.0]);
    for found in [jacfwd(f).call((&x,)).unwrap(), jacrev(f).call((&x,)).unwrap()] {
        assert_eq!((found.dtype().unwrap(), vec(&found)), (DType::F64, vec![2.0, 0.0, 0.0, 4.0]));
    }
}

/// `sum (1 - x_i)^2 + 100 (x_{i+1} - x_i^2)^2`
fn rosenbrock(x: &Tensor) -> Tensor {
    let (head, tail) = (x.slice((..-1,)), x.slice((1..,)));
    ((1.0 - &head).square() + (tail - head.square()).square() * 100.0).sum()
}

#[test]
fn a21_3_hessian_of_rosenbrock() {
    let at = [3.0, 5.0, 7.0];
    let x = floats(&at);
    // d2/dx_i dx_j by hand.
    let mut due = vec![0.0; 9];
    for i in 0..2 {
        due[i * 3 + i] += 2.0 - 400.0 * (at[i + 1] - at[i] * at[i]) + 800.0 * at[i] * at[i];
        due[(i + 1) * 3 + i + 1] += 200.0;
        due[i * 3 + i + 1] -= 400.0 * at[i];
        due[(i + 1) * 3 + i] -= 400.0 * at[i];
    }
    assert_eq!(vec(&hessian(rosenbrock).call((&x,)).unwrap()), due);
    assert_eq!(vec(&jit(hessian(rosenbrock)).call((&x,)).unwrap()), due);
    assert_eq!(vec(&jacrev(grad(rosenbrock)).call((&x,)).unwrap()), due);
    assert_eq!(vec(&jacfwd(jacfwd(rosenbrock)).call((&x,)).unwrap()), due);
    let v = floats(&[1.0, 0.0, -1.0]);
    assert_eq!(vec(&hvp(rosenbrock).call((&x,), &v).unwrap()), [8802.0, 800.0, -200.0]);
    assert_eq!(vec(&jit(hvp(rosenbrock)).call((&(x.clone(),), &v)).unwrap()), [8802.0, 800.0, -200.0]);
    let reverse_twice = grad(|x: &Tensor| Ok::<_, Error>((grad(rosenbrock).call((x,))? * &v).sum()));
    assert_eq!(vec(&reverse_twice.call((&x,)).unwrap()), [8802.0, 800.0, -200.0]);
}

#[test]
fn a13_3_scalars_have_scalar_derivatives() {
    let cube = |x: &Tensor| x.powi(3);
    let second = hessian(cube).call((&Tensor::from(2.0),)).unwrap();
    assert_eq!((second.rank().unwrap(), item(&second)), (0, 12.0));
    let first = jacobian(cube).call((&Tensor::from(2.0),)).unwrap();
    assert_eq!((first.rank().unwrap(), item(&first)), (0, 12.0));
}

#[test]
fn hessians_over_trees() {
    let loss = |line: &Line, x: &Tensor| ((&line.slope * x).sum() + &line.offset).square();
    let x = floats(&[1.0, 4.0]);
    let second: BTreeMap<String, Line> = jit(hessian(loss)).call((&line(), &x)).unwrap();
    assert_eq!(vec(&second["slope"].slope), [2.0, 8.0, 8.0, 32.0]);
    assert_eq!(vec(&second["slope"].offset), [2.0, 8.0]);
    assert_eq!(vec(&second["offset"].slope), [2.0, 8.0]);
    assert_eq!(vec(&second["offset"].offset), [2.0]);
    let direction = Line { slope: floats(&[1.0, 0.0]), offset: Tensor::from(-1.0) };
    let product = hvp(loss).call((&line(), &x), &direction).unwrap();
    assert_eq!((vec(&product.slope), vec(&product.offset)), (vec![0.0, 0.0], vec![0.0]));
    let ((a, b), (c, d)) = hessian(|x: &Tensor, y: &Tensor| (x * x * y).sum())
        .argnums(All)
        .call((&Tensor::from(3.0), &Tensor::from(5.0)))
        .unwrap();
    assert_eq!([item(&a), item(&b), item(&c), item(&d)], [10.0, 6.0, 6.0, 0.0]);
}

#[test]
fn jacobians_batch_and_differentiate() {
    let xs = Tensor::from([[1.0, 2.0], [0.5, -1.0], [3.0, 0.1]]);
    let f = |x: &Tensor| stack(&[x.prod(), x.sum().sin()], 0);
    let loop_of = |i: usize| jacrev(f).call((&xs.index_axis(0, i),)).unwrap();
    for found in [
        vmap(jacrev(f)).call((&xs,)).unwrap(),
        jit(vmap(jacrev(f))).call((&xs,)).unwrap(),
        jit(vmap(jacfwd(f))).call((&xs,)).unwrap(),
    ] {
        for i in 0..3 {
            assert_close(&vec(&found.index_axis(0, i)), &vec(&loop_of(i)), 1e-14);
        }
    }
    let size = |x: &Tensor| Ok::<_, Error>(jacfwd(f).call((x,))?.square().sum());
    let x = floats(&[1.0, 2.0]);
    let size_by_reverse = |x: &Tensor| Ok::<_, Error>(jacrev(f).call((x,))?.square().sum());
    let found = vec(&jit(grad(size)).call((&x,)).unwrap());
    assert_close(&found, &vec(&grad(size_by_reverse).call((&x,)).unwrap()), 1e-13);
    let second = vmap(hessian(|x: &Tensor| x.prod())).call((&xs,)).unwrap();
    assert_eq!(vec(&second), [0.0, 1.0, 1.0, 0.0].repeat(3));
}

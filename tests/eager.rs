//! Methods of concrete tensors, as a user of NumPy expects them.

use pullback::prelude::*;
use pullback::{IndexMode, Shape};

fn vec(t: &Tensor) -> Vec<f64> {
    t.to_vec::<f64>().unwrap()
}

fn shape(t: &Tensor) -> Vec<usize> {
    t.shape().unwrap().to_vec()
}

fn matrix() -> Tensor {
    Tensor::from([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
}

#[test]
fn operators_take_tensors_and_numbers_on_both_sides() {
    let x = Tensor::from([1.0, 2.0]);
    assert_eq!(vec(&(1.0 - &x * 2.0)), [-1.0, -3.0]);
    assert_eq!(vec(&((&x + 1) * &x)), [2.0, 6.0]);
    assert_eq!(vec(&(-&x % 2.0)), [-1.0, -0.0]);
    assert_eq!(vec(&(3 / &x)), [3.0, 1.5]);
    let i = Tensor::from([5i32, -5]);
    assert_eq!((&i >> 1).to_vec::<i32>().unwrap(), [2, -3]);
    assert_eq!((&i & 3).to_vec::<i32>().unwrap(), [1, 3]);
    assert_eq!((!Tensor::from([true, false])).to_vec::<bool>().unwrap(), [false, true]);
    assert_eq!((Tensor::from([1.0f32]) * 0.5).dtype().unwrap(), DType::F32);
    let mut y = x.clone();
    y += &x;
    y *= 2;
    y -= 0.5;
    y /= x.clone();
    assert_eq!((vec(&y), vec(&x)), (vec![3.5, 3.75], vec![1.0, 2.0]));
    // The type of the intermediate is known before that of the literal.
    assert_eq!((&x * 2.0).sum().item::<f64>().unwrap(), 6.0);
    assert_eq!((2.0 * &x).sum().item::<f64>().unwrap(), 6.0);
}

#[test]
fn shapes_broadcast() {
    let column = Tensor::from([[1.0], [2.0]]);
    let row = Tensor::from([[10.0, 20.0, 30.0]]);
    let sum = &column + &row;
    assert_eq!(shape(&sum), [2, 3]);
    assert_eq!(vec(&sum), [11.0, 21.0, 31.0, 12.0, 22.0, 32.0]);
    assert_eq!(shape(&Tensor::from(1.0).broadcast_to([2, 0])), [2, 0]);
    assert!(row.broadcast_to([3, 2]).error().is_some());
}

#[test]
fn triangles_of_any_diagonal() {
    let x = matrix() + 1.0;
    let (all, none) = (vec(&x), vec![0.0; 6]);
    for k in [i64::MAX, i64::MAX - 1, 3] {
        assert_eq!((vec(&x.tril(k)), vec(&x.triu(k))), (all.clone(), none.clone()), "{k}");
    }
    for k in [i64::MIN, i64::MIN + 1, -3] {
        assert_eq!((vec(&x.tril(k)), vec(&x.triu(k))), (none.clone(), all.clone()), "{k}");
    }
    assert_eq!(vec(&x.triu(2)), [0.0, 0.0, 3.0, 0.0, 0.0, 0.0]);
    assert_eq!(vec(&x.tril(-1)), [0.0, 0.0, 0.0, 4.0, 0.0, 0.0]);
    assert_eq!(vec(&x.tril(1)), [1.0, 2.0, 0.0, 4.0, 5.0, 6.0]);
    assert_eq!(vec(&x.triu(-1)), all);
    assert_eq!(shape(&Tensor::zeros(DType::F64, [0, 3]).triu(i64::MAX)), [0, 3]);
}

#[test]
fn reductions_come_in_three_forms() {
    let x = matrix();
    assert_eq!(x.sum().item::<f64>().unwrap(), 15.0);
    assert_eq!(vec(&x.sum_axes(0)), [3.0, 5.0, 7.0]);
    assert_eq!(shape(&x.mean_keepdims(-1)), [2, 1]);
    assert_eq!(vec(&x.mean_axes(-1)), [1.0, 4.0]);
    assert_eq!(vec(&x.max_axes([0, 1])), [5.0]);
    assert_eq!(x.prod().item::<f64>().unwrap(), 0.0);
    assert_eq!(x.argmax(1).to_vec::<i64>().unwrap(), [2, 2]);
    assert_eq!(vec(&x.var_axes(1)), [2.0 / 3.0; 2]);
    assert!(x.gt(3).any().item::<bool>().unwrap());
    assert_eq!(x.gt(3).all_axes(1).to_vec::<bool>().unwrap(), [false, false]);
    assert_eq!(Tensor::from([3.0, 4.0]).norm().item::<f64>().unwrap(), 5.0);
    assert_eq!(x.count_nonzero().item::<i64>().unwrap(), 5);
}

#[test]
fn shapes_change() {
    let x = matrix();
    assert_eq!(shape(&x.reshape([3, -1])), [3, 2]);
    assert_eq!(vec(&x.t()), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_eq!(shape(&x.expand_dims(-1)), [2, 3, 1]);
    assert_eq!(shape(&x.expand_dims(1).squeeze()), [2, 3]);
    assert_eq!(shape(&x.expand_dims(0).moveaxis(0, 2)), [2, 3, 1]);
    assert_eq!(shape(&x.ravel()), [6]);
    assert_eq!(shape(&x.expand_dims(0).flatten(0, 1)), [2, 3]);
    assert_eq!(vec(&x.flip(1)), [2.0, 1.0, 0.0, 5.0, 4.0, 3.0]);
    assert_eq!(vec(&x.roll(1, 1)), [2.0, 0.0, 1.0, 5.0, 3.0, 4.0]);
    assert_eq!(vec(&x.roll(1, -4)), [1.0, 2.0, 0.0, 4.0, 5.0, 3.0]);
    assert_eq!(vec(&x.roll(0, i64::MIN)), vec(&x));
    assert_eq!(vec(&x.shift(1, -1)), [1.0, 2.0, 0.0, 4.0, 5.0, 0.0]);
    assert_eq!(vec(&Tensor::from([1.0, 2.0]).tile(&[2])), [1.0, 2.0, 1.0, 2.0]);
    assert_eq!(vec(&Tensor::from([1.0, 2.0]).repeat(0, 2)), [1.0, 1.0, 2.0, 2.0]);
    assert_eq!(vec(&Tensor::from([1.0, 2.0]).pad(&[(1, 1)], 9)), [9.0, 1.0, 2.0, 9.0]);
    assert_eq!(vec(&Tensor::from([1.0, 4.0, 9.0]).diff(0)), [3.0, 5.0]);
}

#[test]
fn tensors_are_put_together_and_taken_apart() {
    let x = matrix();
    assert_eq!(vec(&x.slice((.., 1))), [1.0, 4.0]);
    assert_eq!(vec(&x.slice((-1, 1..))), [4.0, 5.0]);
    assert_eq!(shape(&x.slice((0..0,))), [0, 3]);
    assert_eq!(vec(&x.slice((0, -3..=-1))), [0.0, 1.0, 2.0]);
    assert!(x.slice((0..4,)).error().is_some());
    assert_eq!(vec(&x.stride(1, 2)), [0.0, 2.0, 3.0, 5.0]);
    let parts = x.split(1, &[1, 2]);
    assert_eq!(vec(&concat(&[parts[1].clone(), parts[0].clone()], 1)), [1.0, 2.0, 0.0, 4.0, 5.0, 3.0]);
    assert_eq!(shape(&stack(&x.unbind(0).unwrap(), -1)), [3, 2]);
    assert_eq!(x.chunk(1, 3).unwrap().len(), 3);
    assert!(x.chunk(1, 2).is_err());
}

#[test]
fn elements_are_read_and_written_by_index() {
    let x = matrix();
    let i = Tensor::from([2i64, 0]);
    assert_eq!(vec(&x.take(&i, 1)), [2.0, 0.0, 5.0, 3.0]);
    assert_eq!(vec(&x.take_along_axis(&Tensor::from([[1i64], [0]]), 1)), [1.0, 3.0]);
    assert_eq!(vec(&x.take_with(&Tensor::from([9i64, -9]), 1, IndexMode::Clip)), [2.0, 0.0, 5.0, 3.0]);
    let z = Tensor::zeros(DType::F64, [3]);
    assert_eq!(
        vec(&z.index_add(0, &Tensor::from([0i64, 0, 2]), &Tensor::from([1.0, 2.0, 3.0]))),
        [3.0, 0.0, 3.0]
    );
    assert_eq!(vec(&z.index_set(0, &Tensor::from([0i64, 0]), &Tensor::from([1.0, 2.0]))), [2.0, 0.0, 0.0]);
    let columns = x.index_add(1, &i, &Tensor::from([[10.0, 20.0], [30.0, 40.0]]));
    assert_eq!(vec(&columns), [20.0, 1.0, 12.0, 43.0, 4.0, 35.0]);
    assert_eq!(vec(&Tensor::from([1i64, 5]).one_hot(2, DType::F64)), [0.0, 1.0, 0.0, 0.0]);
    assert_eq!(vec(&x.gather_nd(&Tensor::from([[1i64, 2]]), IndexMode::Checked)), [5.0]);
    let (one, two) = (Tensor::from(1i64), Tensor::from(2i64));
    assert_eq!(vec(&x.dynamic_slice(1, &two, 2)), [1.0, 2.0, 4.0, 5.0]);
    assert_eq!(vec(&x.dynamic_slice(1, &Tensor::from(-1i32), 2)), [0.0, 1.0, 3.0, 4.0]);
    assert!(x.dynamic_slice(1, &two, 4).error().is_some());
    let corner = |mode| x.dynamic_slice_with(&[&one, &two], [2, 2], mode);
    assert_eq!(vec(&corner(IndexMode::Drop)), [5.0, 0.0, 0.0, 0.0]);
    assert!(corner(IndexMode::Checked).to_vec::<f64>().is_err());
    assert!(x.take(&Tensor::from([3i64]), 1).to_vec::<f64>().is_err());
}

#[test]
fn places_may_be_computed() {
    let x = Tensor::arange(DType::F64, 24).reshape([2, 3, 4]);
    let (i, j) = (Tensor::from(1i64), Tensor::from(2u32));
    let same = |found: Tensor, due: Tensor| {
        assert_eq!((found.shape().unwrap(), vec(&found)), (due.shape().unwrap(), vec(&due)));
    };
    same(x.at(&i), x.at(1));
    same(x.at((&i, &j, &i)), x.at((1, 2, 1)));
    same(x.at((.., &j)), x.slice((.., 2)));
    same(x.at((&i, 1.., -1)), x.at((1, 1..3, 3)));
    same(x.at((&i - 1, ..2, 1..=2)), x.at((0, 0..2, 1..3)));
    same(x.at(1..), x.narrow(0, 1, 1));
    same(x.at(()), x.clone());
    // Computed indices count from the front, and are checked unless another mode says otherwise.
    let last = Tensor::from(-1i64);
    assert!(x.at(&last).error().unwrap().to_string().contains("index -1 is out of range"));
    same(x.at_with(&last, IndexMode::Clip), x.at(0));
    same(x.at_with(&last, IndexMode::Drop), x.at(0).zeros_like());
    assert!(x.at(Tensor::from(1.0)).error().is_some());
    assert!(x.at(Tensor::from([1i64])).error().is_some());
    assert!(x.at((0, 0, 0, 0)).error().is_some());
}

#[test]
fn places_may_be_written() {
    let x = Tensor::arange(DType::F64, 6).reshape([2, 3]);
    let i = Tensor::from(1i64);
    assert_eq!(vec(&x.set_at((&i, 0), 9.0)), [0.0, 1.0, 2.0, 9.0, 4.0, 5.0]);
    assert_eq!(vec(&x.set_at(&i, Tensor::from([7.0, 8.0, 9.0]))), [0.0, 1.0, 2.0, 7.0, 8.0, 9.0]);
    assert_eq!(vec(&x.set_at((.., -1), 9)), [0.0, 1.0, 9.0, 3.0, 4.0, 9.0]);
    assert_eq!(vec(&x.set_at((.., 1..), Tensor::from([[7.0], [8.0]]))), [0.0, 7.0, 7.0, 3.0, 8.0, 8.0]);
    assert_eq!(vec(&x.set_at((), 1)), [1.0; 6]);
    assert_eq!(vec(&x.set_at(2..2, 1)), vec(&x));
    let far = Tensor::from(7i32);
    assert_eq!(vec(&x.set_at_with(&far, 0, IndexMode::Clip)), [0.0, 1.0, 2.0, 0.0, 0.0, 0.0]);
    assert_eq!(vec(&x.set_at_with(&far, 0, IndexMode::Drop)), vec(&x));
    assert!(x.set_at(&far, 0).error().unwrap().to_string().contains("dynamic_update_slice"));
    assert!(x.set_at(0, Tensor::from([1.0, 2.0])).error().is_some());
    assert!(x.set_at(0, Tensor::from(1.0f32)).error().is_some());
    assert!(x.set_at(5, 1).error().is_some());
    let f = |x: &Tensor, v: &Tensor| (x.set_at((&i, 1..), v) * &x.at(&i).at(0)).sum();
    let (dx, dv) = grad(f).argnums(pullback::transform::All).call((&x, &Tensor::from(2.0))).unwrap();
    assert_eq!((vec(&dx), vec(&dv)), (vec![3.0, 3.0, 3.0, 13.0, 0.0, 0.0], vec![6.0]));
}

#[test]
fn triangles_and_diagonals() {
    let x = Tensor::arange(DType::F64, 9).reshape([3, 3]);
    assert_eq!(vec(&x.tril(0)), [0.0, 0.0, 0.0, 3.0, 4.0, 0.0, 6.0, 7.0, 8.0]);
    assert_eq!(vec(&x.triu(1)), [0.0, 1.0, 2.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0]);
    assert_eq!(vec(&x.diag()), [0.0, 4.0, 8.0]);
    assert_eq!(vec(&Tensor::from([1.0, 2.0]).diag()), [1.0, 0.0, 0.0, 2.0]);
    assert_eq!(x.trace().item::<f64>().unwrap(), 12.0);
    assert_eq!(vec(&Tensor::eye(DType::F64, 2)), [1.0, 0.0, 0.0, 1.0]);
    assert_eq!(Tensor::zeros(DType::F64, [0, 3]).trace().item::<f64>().unwrap(), 0.0);
}

#[test]
fn products() {
    let x = matrix();
    assert_eq!(vec(&x.matmul(&x.t())), [5.0, 14.0, 14.0, 50.0]);
    assert_eq!(vec(&x.matmul(&Tensor::from([1.0, 1.0, 1.0]))), [3.0, 12.0]);
    assert_eq!(
        shape(&Tensor::zeros(DType::F64, [4, 1, 2, 3]).matmul(&Tensor::zeros(DType::F64, [5, 3, 2]))),
        [4, 5, 2, 2]
    );
    assert_eq!(shape(&Tensor::zeros(DType::F64, [3]).matmul(&Tensor::zeros(DType::F64, [5, 3, 2]))), [5, 2]);
    assert_eq!(shape(&Tensor::zeros(DType::F64, [4, 2, 3]).matmul(&Tensor::zeros(DType::F64, [3]))), [4, 2]);
    let v = Tensor::from([1.0, 2.0, 3.0]);
    assert_eq!(v.vdot(&v).item::<f64>().unwrap(), 14.0);
    assert_eq!(shape(&v.outer(&v)), [3, 3]);
    assert_eq!(vec(&einsum("ij,kj->ki", &[&x, &x])), [5.0, 14.0, 14.0, 50.0]);
    assert_eq!(vec(&einsum("ij->j", &[&x])), [3.0, 5.0, 7.0]);
    assert_eq!(vec(&einsum("ij,j,i->", &[&x, &v, &Tensor::from([1.0, -1.0])])), [8.0 - 26.0]);
    assert!(einsum("ii->i", &[&x]).error().is_some());
}

#[test]
fn softmax_family() {
    let x = Tensor::from([1000.0f32, 0.0, -1000.0]);
    assert_eq!(x.softmax(0).to_vec::<f32>().unwrap(), [1.0, 0.0, 0.0]);
    assert_eq!(x.log_softmax(0).to_vec::<f32>().unwrap(), [0.0, -1000.0, -2000.0]);
    let minus = Tensor::full(f64::NEG_INFINITY, [2]);
    assert_eq!(minus.logsumexp().item::<f64>().unwrap(), f64::NEG_INFINITY);
    assert_eq!(vec(&minus.softmax(0)), [0.5, 0.5]);
    assert_eq!(Tensor::full(1e308, [2]).logsumexp().item::<f64>().unwrap(), 1e308);
    assert_eq!(Tensor::from([f64::INFINITY, 0.0]).logsumexp().item::<f64>().unwrap(), f64::INFINITY);
    assert!(Tensor::from([f64::NAN, 0.0]).logsumexp().item::<f64>().unwrap().is_nan());
    assert_eq!(
        vec(&minus.logaddexp(Tensor::from([[1000.0], [-1000.0]]))),
        [1000.0, 1000.0, -1000.0, -1000.0]
    );
}

#[test]
fn creation() {
    assert_eq!(vec(&Tensor::linspace(DType::F64, 0.0, 1.0, 3)), [0.0, 0.5, 1.0]);
    assert_eq!(vec(&Tensor::linspace(DType::F64, 2.0, 1.0, 1)), [2.0]);
    assert_eq!(Tensor::full(7i32, [2]).to_vec::<i32>().unwrap(), [7, 7]);
    assert_eq!(Tensor::from_slice(&[1.0, 2.0], [2, 1]).dims::<2>().unwrap(), [2, 1]);
    assert!(Tensor::from_slice(&[1.0], [2]).error().is_some());
    assert_eq!(Tensor::from(1.5f32).item::<f64>().unwrap(), 1.5);
    assert_eq!(Tensor::from([[1.0, 2.0]]).to_string(), "[[1.0, 2.0]]");
    assert_eq!(*Tensor::from([[1u32; 3]; 2]).shape().unwrap(), Shape::from([2, 3]));
}

//! Texts of errors: what was wrong, with which types, at which line of the user's, and what to do.

use pullback::prelude::*;
use std::sync::Mutex;

/// The text of the error, with this file's path shortened to its name.
fn text<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => error.to_string().replace(file!(), "errors.rs"),
    }
}

fn zeros<const N: usize>(shape: [usize; N]) -> Tensor {
    Tensor::zeros(DType::F64, shape)
}

#[test]
fn a44_1_shapes() {
    insta::assert_snapshot!(text((zeros([2, 3]) + zeros([4, 3])).ok()));
    insta::assert_snapshot!(text(zeros([2, 3]).matmul(&zeros([4, 3])).ok()));
    insta::assert_snapshot!(text(zeros([6]).reshape([4, 2]).ok()));
    insta::assert_snapshot!(text(concat(&[zeros([2, 3]), zeros([2, 4])], 0).ok()));
    insta::assert_snapshot!(text(zeros([2, 3]).sum_axes(2).ok()));
    insta::assert_snapshot!(text(zeros([2, 3]).squeeze_axes(0).ok()));
    insta::assert_snapshot!(text(zeros([2, 3]).slice((.., 1..5)).ok()));
    insta::assert_snapshot!(text(stack(&[zeros([2]), zeros([3])], 0).ok()));
    insta::assert_snapshot!(text(einsum("ij,jk->ik", &[&zeros([2, 3]), &zeros([4, 5])]).ok()));
    insta::assert_snapshot!(text(zeros([2, 3]).dims::<1>()));
}

#[test]
fn a44_1_shapes_while_compiling() {
    let f = |x: &Tensor, y: &Tensor| x + y;
    insta::assert_snapshot!(text(jit(f).call((&zeros([2, 3]), &zeros([4, 3])))));
    let g = |x: &Tensor| Ok::<_, Error>(grad(|y: &Tensor| y.matmul(x).sum()).call((x,))?.sum());
    insta::assert_snapshot!(text(jit(g).call((&zeros([2, 3]),))));
}

#[test]
fn a44_2_gradient_of_a_vector() {
    insta::assert_snapshot!(text(grad(|x: &Tensor| x.sin()).call((&zeros([2]),))));
    insta::assert_snapshot!(text(grad(|x: &Tensor| x.gt(0)).call((&zeros([]),))));
}

#[test]
fn a13_1_maximum_of_nothing() {
    insta::assert_snapshot!(text(zeros([0]).max().ok()));
    insta::assert_snapshot!(text(zeros([0]).argmax(0).ok()));
}

#[derive(Tree)]
struct Counted {
    weight: Tensor,
    steps: Tensor,
}

#[test]
fn a15_1_gradient_of_an_integer() {
    insta::assert_snapshot!(text(grad(|x: &Tensor| x * x).call((&Tensor::from(3i32),))));
    let counted = Counted { weight: Tensor::from(1.0), steps: Tensor::from(0i64) };
    insta::assert_snapshot!(text(grad(|c: &Counted| &c.weight * c.steps.to_dtype(DType::F64)).call((&counted,))));
}

#[test]
fn a19_1_escaped_tensors() {
    let outside = Mutex::new(None);
    let f = |x: &Tensor| {
        *outside.lock().unwrap() = Some(x * 2.0);
        x.square()
    };
    grad(f).call((&Tensor::from(1.0),)).unwrap();
    let escaped = outside.lock().unwrap().clone().unwrap();
    insta::assert_snapshot!(text((&escaped + 1.0).ok()));
    insta::assert_snapshot!(text(escaped.item::<f64>()));
    insta::assert_snapshot!(text(grad(|x: &Tensor| x * &escaped).call((&Tensor::from(1.0),))));
    insta::assert_snapshot!(text(jit(|_: &()| escaped.clone()).call((&(),))));
}

#[test]
fn values_unknown_while_tracing() {
    let f = |x: &Tensor| Ok::<_, Error>(if x.sum().item::<f64>()? > 0.0 { x.clone() } else { -x });
    insta::assert_snapshot!(text(jit(f).call((&zeros([2]),))));
}

#[test]
fn dtypes() {
    insta::assert_snapshot!(text((Tensor::from(1.0f32) + Tensor::from(1.0)).ok()));
    insta::assert_snapshot!(text((Tensor::from(1i64) * 0.5).ok()));
    insta::assert_snapshot!(text(Tensor::from(1.0f32).to_vec::<i64>()));
    insta::assert_snapshot!(text(Tensor::from(1i64).mean().ok()));
    insta::assert_snapshot!(text(jvp(|x: &Tensor| x.sin()).call((&Tensor::from(1.0f32),), (&Tensor::from(1.0),))));
}

#[test]
fn indices_out_of_range() {
    let f = |x: &Tensor, i: &Tensor| x.take(i, 0);
    insta::assert_snapshot!(text(f(&zeros([3]), &Tensor::from([3i64])).ok()));
    insta::assert_snapshot!(text(jit(f).call((&zeros([3]), &Tensor::from([-1i64])))));
    insta::assert_snapshot!(text(zeros([3]).index_axis(0, -4).ok()));
}

#[test]
fn compiled_signatures() {
    let f = jit(|x: &Tensor| x.sin()).compile((&zeros([2]),)).unwrap();
    insta::assert_snapshot!(text(f.call((&zeros([3]),))));
}

#[test]
fn the_first_error_comes_through_later_ops() {
    let first = zeros([2]) + zeros([3]);
    let message = text(first.clone().ok());
    let later = (first.sin() * zeros([7])).sum().reshape([1]);
    assert_eq!(text(later.clone().ok()), message);
    assert_eq!(text(later.item::<f64>()), message);
    assert_eq!(text(jit(|x: &Tensor| &later + x).call((&zeros([1]),))), message);
    assert_eq!(text(grad(|x: &Tensor| x.sum()).call((&later,))), message);
}

//! What the tests of cases share: slopes by every path there is, compared with each other.
#![allow(dead_code)]

use pullback::prelude::*;
use pullback::tree;

pub(crate) fn vec(t: &Tensor) -> Vec<f64> {
    t.to_dtype(DType::F64).to_vec::<f64>().unwrap()
}

pub(crate) fn item(t: &Tensor) -> f64 {
    t.item::<f64>().unwrap()
}

pub(crate) fn ints(values: &[i64]) -> Tensor {
    Tensor::from_slice(values, [values.len()])
}

pub(crate) fn floats(values: &[f64]) -> Tensor {
    Tensor::from_slice(values, [values.len()])
}

/// Equal bits, where all NaN are the same.
#[track_caller]
pub(crate) fn assert_bits(left: &Tensor, right: &Tensor, what: &str) {
    let (left, right) = (left.array().unwrap(), right.array().unwrap());
    if let Some(difference) = left.first_difference(&right) {
        panic!("{what}: {difference}");
    }
}

/// Within a relative distance; NaN and infinities exactly.
#[track_caller]
pub(crate) fn assert_close(found: &[f64], expected: &[f64], relative: f64) {
    assert_eq!(found.len(), expected.len(), "{found:?} against {expected:?}");
    for (i, (&f, &e)) in found.iter().zip(expected).enumerate() {
        let equal = f == e || (f.is_nan() && e.is_nan()) || (f - e).abs() <= relative * e.abs();
        assert!(equal, "at {i}: {f:e} instead of {e:e}, all: {found:?}");
    }
}

/// The slopes of a scalar function of one tensor: reverse mode, the same compiled (same bits), and forward mode along
/// each axis (within a few roundings).
#[track_caller]
pub(crate) fn slopes<F: Fn(&Tensor) -> Tensor + Copy>(f: F, x: &Tensor) -> Vec<f64> {
    let reverse = grad(f).call((x,)).unwrap();
    assert_eq!(reverse.ty().unwrap(), x.ty().unwrap());
    let compiled = jit(grad(f)).call((x,)).unwrap();
    assert_bits(&reverse, &compiled, "compiled gradient");
    let value = f(x);
    assert_bits(&value, &jit(f).call((x,)).unwrap(), "compiled value");
    let found = vec(&reverse);
    let n = x.size().unwrap();
    for i in 0..n {
        let basis = Tensor::arange(DType::I64, n).eq(i as i64).to_dtype(x.dtype().unwrap());
        let basis = basis.reshape(x.shape().unwrap());
        let (primal, tangent) = jvp(f).call((x,), (&basis,)).unwrap();
        assert_bits(&value, &primal, "value in forward mode");
        let compiled = jit(jvp(f)).call((&(x.clone(),), &(basis.clone(),))).unwrap().1;
        assert_bits(&tangent, &compiled, "compiled forward mode");
        let relative = if x.dtype().unwrap() == DType::F32 { 2e-6 } else { 1e-13 };
        assert_close(&[item(&tangent)], &[found[i]], relative);
    }
    found
}

/// Slopes with respect to all tensors of a tuple of arguments, eager and compiled.
#[track_caller]
pub(crate) fn compiled_too<T: Tree>(eager: T, compiled: T) -> T {
    for (left, right) in tree::leaves(&eager).into_iter().zip(tree::leaves(&compiled)) {
        assert_bits(left, right, "compiled");
    }
    eager
}

/// The derivative of a scalar function of a scalar, reverse mode applied `order` times.
pub(crate) fn derivative(f: impl Fn(&Tensor) -> Tensor + Copy, x: f64, order: usize) -> f64 {
    let x = Tensor::from(x);
    let value = match order {
        0 => Ok(f(&x)),
        1 => jit(grad(f)).call((&x,)),
        2 => jit(grad(grad(f))).call((&x,)),
        3 => jit(grad(grad(grad(f)))).call((&x,)),
        4 => jit(grad(grad(grad(grad(f))))).call((&x,)),
        _ => panic!("not needed"),
    };
    item(&value.unwrap())
}

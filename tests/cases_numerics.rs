//! Inputs at which derivatives and special functions went wrong elsewhere: singular points, infinities, ties,
//! overflow, subnormals. Each test carries the tag of its cases. Every slope is taken in reverse and forward mode,
//! plain and compiled.

mod common;

use common::*;
use pullback::prelude::*;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

#[test]
fn a01_nan_in_the_branch_not_taken() {
    let f = |x: &Tensor| x.gt(0).select(x.sqrt(), 0).sum();
    assert_eq!(slopes(f, &floats(&[0.0, -1.0, 4.0])), [0.0, 0.0, 0.25]);
    let f = |b: &Tensor| where_(&Tensor::from(false), b * NAN, 1.0).sum();
    assert_eq!(slopes(f, &Tensor::from(2.3)), [0.0]);
    let f = |a: &Tensor| where_(&Tensor::from([false, true, false]), 0, a.atan2(a)).sum();
    assert_eq!(slopes(f, &floats(&[3.0, 0.0, -5.0])), [0.0, 0.0, 0.0]);
}

#[test]
fn a02_1_norm_squared_at_zero() {
    assert_eq!(slopes(|x| x.norm().square(), &floats(&[0.0, 0.0])), [0.0, 0.0]);
}

#[test]
fn a02_2_norm_at_zero() {
    assert_eq!(slopes(|x| x.norm(), &floats(&[0.0; 3])), [0.0; 3]);
    assert_close(&slopes(|x| x.norm(), &floats(&[3.0, 4.0])), &[0.6, 0.8], 1e-15);
}

/// Norms of numbers whose squares no float holds.
#[test]
fn norms_of_huge_and_tiny_vectors() {
    for scale in [1e300, 2e307, 1e200, 1.0, 1e-160, 1e-200, 1e-300] {
        let x = floats(&[3.0 * scale, -4.0 * scale]);
        assert_close(&[item(&x.norm())], &[5.0 * scale], 1e-15);
        assert_close(&slopes(|x| x.norm(), &x), &[0.6, -0.8], 1e-15);
        assert_close(&slopes(|x| x.norm() * 8.0, &x), &[4.8, -6.4], 1e-15);
        assert_close(
            &[item(&pullback::optim::global_norm(&(x.clone(), x.clone())))],
            &[50f64.sqrt() * scale],
            1e-15,
        );
        let spread = floats(&[scale, 3.0 * scale]);
        assert_close(&[item(&spread.std())], &[scale], 1e-15);
        assert_close(&slopes(|x| x.std(), &spread), &[-0.5, 0.5], 1e-15);
    }
    let single = |scale: f32| Tensor::from([3.0 * scale, -4.0 * scale]);
    for scale in [1e38f32 / 2.0, 1e30, 1.0, 1e-30, 1e-37] {
        assert_close(&[item(&single(scale).norm())], &[5.0 * f64::from(scale)], 1e-6);
        assert_close(&slopes(|x| x.norm(), &single(scale)), &[0.6, -0.8], 1e-6);
    }
    // The least number of all, and what lies beyond numbers.
    assert_eq!(item(&floats(&[5e-324, 0.0]).norm()), 5e-324);
    assert_eq!(item(&Tensor::from([f32::from_bits(1), 0.0]).norm()), f64::from(f32::from_bits(1)));
    assert_eq!(slopes(|x| x.norm(), &floats(&[5e-324, 0.0])), [1.0, 0.0]);
    assert_eq!(item(&floats(&[1.0, -INF]).norm()), INF);
    assert!(item(&floats(&[INF, NAN]).norm()).is_nan());
    assert!(item(&floats(&[1e308, NAN]).norm()).is_nan());
    assert_eq!(item(&floats(&[1.7e308, 1.7e308]).norm()), INF);
    assert_eq!(item(&floats(&[]).norm()), 0.0);
    let rows = Tensor::from([[3e300, 4e300], [0.0, 0.0], [3e-300, 4e-300]]);
    assert_close(&vec(&rows.norm_axes(1)), &[5e300, 0.0, 5e-300], 1e-15);
    assert_close(&slopes(|x| x.norm_axes(-1).sum(), &rows), &[0.6, 0.8, 0.0, 0.0, 0.6, 0.8], 1e-15);
    assert_eq!(vec(&Tensor::zeros(DType::F64, [2, 0]).norm_keepdims(1)), [0.0, 0.0]);
}

/// Scaling by powers of two rounds nothing: the bits are those of the root of the sum of squares.
#[test]
fn norms_of_ordinary_vectors_keep_their_bits() {
    let x = pullback::random::normal(&pullback::random::key(7), DType::F64, [100]);
    for x in [x.to_dtype(DType::F32) * 1e5, x * 1e-9] {
        assert_bits(&x.norm(), &x.square().sum().sqrt(), "norm");
        assert_bits(&x.std(), &x.var().sqrt(), "std");
        assert_bits(&pullback::optim::global_norm(&x), &x.square().sum().sqrt(), "global norm");
        let root = |x: &Tensor| x.square().sum().sqrt();
        let hessian_of = |f: fn(&Tensor) -> Tensor| hessian(f).call((&x,)).unwrap().to_dtype(DType::F64);
        let (plain, scaled) = (vec(&hessian_of(root)), vec(&hessian_of(|x| x.norm())));
        let largest = plain.iter().fold(0.0, |m: f64, h| m.max(h.abs()));
        let relative = if x.dtype().unwrap() == DType::F32 { 1e-5 } else { 1e-14 };
        assert!(plain.iter().zip(&scaled).all(|(p, s)| (p - s).abs() <= relative * largest));
    }
}

#[test]
fn a_global_norm_at_zero_is_flat() {
    assert_eq!(slopes(|x| pullback::optim::global_norm(x), &floats(&[0.0, 0.0])), [0.0, 0.0]);
}

#[test]
fn clamp_with_bounds_that_are_tensors_is_that_of_numpy() {
    let x = floats(&[-3.0, 0.5, 3.0, NAN]);
    let clamped = |low: f64, high: f64| vec(&x.clamp(Tensor::from(low), Tensor::from(high)));
    assert_close(&clamped(-1.0, 1.0), &[-1.0, 0.5, 1.0, NAN], 0.0);
    assert_close(&clamped(2.0, -1.0), &[-1.0, -1.0, -1.0, NAN], 0.0);
    assert_close(&clamped(NAN, 1.0), &[NAN; 4], 0.0);
    assert_close(&clamped(-1.0, NAN), &[NAN; 4], 0.0);
    assert_close(&clamped(NAN, NAN), &[NAN; 4], 0.0);
    assert_close(&vec(&x.clamp(-INF, Tensor::from([INF, 0.0, NAN, 1.0]))), &[-3.0, 0.0, NAN, NAN], 0.0);
    assert_eq!(ints(&[-3, 0, 3]).clamp(Tensor::from(-1i64), 1).to_vec::<i64>().unwrap(), [-1, 0, 1]);
    assert_eq!(
        slopes(|x| x.clamp(Tensor::from(2.0), Tensor::from(-1.0)).sum(), &floats(&[0.0, 3.0])),
        [0.0; 2]
    );
}

#[test]
fn a02_3_abs_at_zero() {
    assert_eq!(slopes(|x| x.abs().sum(), &floats(&[0.0, -0.0, -2.0])), [0.0, 0.0, -1.0]);
}

#[test]
fn a02_4_atan2() {
    let f = |p: &Tensor| p.index_axis(0, 0).atan2(p.index_axis(0, 1));
    assert_close(&slopes(f, &floats(&[1.0, 2.0])), &[0.4, -0.2], 1e-15);
}

#[test]
fn a02_6_acos_of_clip() {
    assert_eq!(slopes(|x| x.clip(-1, 1).acos(), &Tensor::from(10.0)), [0.0]);
}

#[test]
fn a02_7_log_and_sqrt_at_the_edge_of_their_domains() {
    let log = slopes(|x| x.log().sum(), &floats(&[0.0, -1.0]));
    assert_close(&log, &[INF, NAN], 0.0);
    let sqrt = slopes(|x| x.sqrt().sum(), &floats(&[0.0, -1.0]));
    assert_close(&sqrt, &[INF, NAN], 0.0);
}

#[test]
fn a03_1_integer_powers_of_zero() {
    let f = |x: &Tensor| x.pow(0) + x.pow(1.0) + x.pow(2);
    assert_eq!(item(&f(&Tensor::from(0.0))), 1.0);
    assert_eq!(slopes(f, &Tensor::from(0.0)), [1.0]);
    let tensor = |x: &Tensor| x.pow(floats(&[0.0, 1.0, 2.0])).sum();
    assert_eq!(slopes(tensor, &Tensor::from(0.0)), [1.0]);
}

#[test]
fn a03_2_derivatives_of_powers_at_zero() {
    let order = |k: usize| [0, 1, 2, 3].map(|n| derivative(move |x: &Tensor| x.powi(n), 0.0, k));
    assert_eq!(order(1), [0.0, 1.0, 0.0, 0.0]);
    assert_eq!(order(2), [0.0, 0.0, 2.0, 0.0]);
    assert_eq!(order(3), [0.0, 0.0, 0.0, 6.0]);
}

/// Slopes of powers with the extreme exponents, one below which there is none.
#[test]
fn powers_with_extreme_exponents() {
    let n = f64::from(i32::MIN);
    let least = |x: &Tensor| x.powi(i32::MIN);
    assert_eq!(slopes(least, &Tensor::from(1.0)), [n]);
    assert_eq!(slopes(least, &Tensor::from(-1.0)), [-n]);
    assert_eq!([2, 3].map(|k| derivative(least, 1.0, k)), [n * (n - 1.0), n * (n - 1.0) * (n - 2.0)]);
    assert_eq!([2, 3].map(|k| derivative(least, -1.0, k)), [n * (n - 1.0), -n * (n - 1.0) * (n - 2.0)]);
    let next = |x: &Tensor| x.powi(i32::MIN + 1);
    assert_eq!(slopes(next, &Tensor::from(-1.0)), [n + 1.0]);
    assert_eq!([2, 3].map(|k| derivative(next, 1.0, k)), [(n + 1.0) * n, (n + 1.0) * n * (n - 1.0)]);
    let greatest = |x: &Tensor| x.powi(i32::MAX);
    assert_eq!(slopes(greatest, &Tensor::from(-1.0)), [-(n + 1.0)]);
    assert_eq!(derivative(greatest, 1.0, 2), (n + 1.0) * (n + 2.0));
    assert_eq!(slopes(|x| x.powi(0) + x.powi(1), &Tensor::from(0.0)), [1.0]);
}

#[test]
fn a03_3_mixed_partials_of_a_power() {
    let f = |x: &Tensor, y: &Tensor| x.pow(y);
    let (x, y) = (Tensor::from(23.0), Tensor::from(0.0));
    let xy = grad(grad(f)).argnum::<1>().call((&x, &y)).unwrap();
    let yx = grad(grad(f).argnum::<1>()).call((&x, &y)).unwrap();
    assert_close(&[item(&xy), item(&yx)], &[1.0 / 23.0; 2], 1e-14);
}

#[test]
fn a03_4_power_of_zero_with_a_float_exponent() {
    let f = |p: &Tensor| p.index_axis(0, 0).pow(p.index_axis(0, 1));
    assert_eq!(slopes(f, &floats(&[0.0, 2.0])), [0.0, 0.0]);
    assert_eq!(slopes(f, &floats(&[0.0, 1.0])), [1.0, 0.0]);
    assert_eq!(slopes(f, &floats(&[0.0, 0.5])), [INF, 0.0]);
}

#[test]
fn a04_logsumexp() {
    let f = |x: &Tensor| x.logsumexp();
    let x = floats(&[-INF, 0.0]);
    assert_eq!(item(&f(&x)), 0.0);
    assert_eq!(slopes(f, &x), [0.0, 1.0]);
    let x = floats(&[-INF, -INF]);
    assert_eq!(item(&f(&x)), -INF);
    assert_eq!(slopes(f, &x), [0.5, 0.5]);
    for dtype in [DType::F32, DType::F64] {
        let masked = |x: &Tensor| where_(&Tensor::from([true, false]), x, x.full_like(-INF)).logsumexp();
        assert_eq!(slopes(masked, &floats(&[0.0, 100.0]).to_dtype(dtype)), [1.0, 0.0]);
    }
    let x = floats(&[1e308, 1e308]);
    assert_eq!(item(&f(&x)), 1e308);
    assert_eq!(slopes(f, &x), [0.5, 0.5]);
    assert_eq!(slopes(f, &floats(&[INF, 0.0, INF])), [0.5, 0.0, 0.5]);
    assert_eq!(slopes(f, &floats(&[7.5])), [1.0]);
    let pair = floats(&[-INF, -INF]);
    assert_eq!(item(&pair.index_axis(0, 0).logaddexp(pair.index_axis(0, 1))), -INF);
}

#[test]
fn a05_1_softmax_and_its_logarithm() {
    let x = Tensor::from([1000.0f32, 0.0, -1000.0]);
    assert_eq!(vec(&x.softmax(0)), [1.0, 0.0, 0.0]);
    assert_eq!(vec(&x.log_softmax(0)), [0.0, -1000.0, -2000.0]);
    let row = |i: usize| slopes(move |x: &Tensor| x.log_softmax(0).index_axis(0, i), &x);
    assert_eq!([row(0), row(1), row(2)].concat(), [0.0, 0.0, 0.0, -1.0, 1.0, 0.0, -1.0, 0.0, 1.0]);
}

#[test]
fn a05_2_softplus() {
    let f = |x: &Tensor| x.softplus().sum();
    assert_eq!(item(&f(&Tensor::from(100.0f32))), 100.0);
    assert_close(&slopes(f, &Tensor::from([100.0f32, 0.0, -200.0])), &[1.0, 0.5, 0.0], 1e-7);
    assert_eq!(derivative(|x| x.softplus(), 0.0, 2), 0.25);
}

#[test]
fn a06_1_ties_share_the_slope() {
    let f = |p: &Tensor| p.index_axis(0, 0).maximum(p.index_axis(0, 1));
    assert_eq!(slopes(f, &floats(&[3.0, 3.0])), [0.5, 0.5]);
    let third = 1.0 / 3.0;
    assert_eq!(slopes(|x| x.max(), &floats(&[1.0, 3.0, 3.0, 2.0, 3.0])), [0.0, third, third, 0.0, third]);
}

#[test]
fn a06_2_relu_at_zero() {
    let zero = Tensor::from(0.0);
    assert_eq!(slopes(|x| x.relu(), &zero), [0.0]);
    assert_eq!(slopes(|x| x.maximum(0), &zero), [0.5]);
    assert_eq!(slopes(|x| x.relu6().sum(), &floats(&[0.0, 6.0, 3.0])), [0.0, 0.0, 1.0]);
    assert_eq!(slopes(|x| x.clamp(0, 1).sum(), &floats(&[0.0, 1.0, 2.0, -1.0])), [1.0, 1.0, 0.0, 0.0]);
    assert!(item(&Tensor::from(NAN).relu()).is_nan());
}

#[test]
fn a07_1_products_with_zeros() {
    assert_eq!(slopes(|x| x.prod(), &floats(&[0.0, 2.0, 3.0])), [6.0, 0.0, 0.0]);
    assert_eq!(slopes(|x| x.prod(), &floats(&[0.0, 0.0, 3.0])), [0.0, 0.0, 0.0]);
    assert_eq!(slopes(|x| x.prod(), &floats(&[1.0, 2.0, 4.0])), [8.0, 4.0, 2.0]);
}

#[test]
fn a09_1_variance_and_deviation_of_constants() {
    let x = floats(&[1.0, 1.0]);
    assert_eq!(slopes(|x| x.std(), &x), [0.0, 0.0]);
    assert_eq!(slopes(|x| x.var(), &x), [0.0, 0.0]);
}

#[test]
fn a09_2_variance_far_from_zero() {
    let x = Tensor::from([1e8f32, 1e8 + 8.0, 1e8 + 16.0]);
    assert_close(&[item(&x.var())], &[42.666668], 1e-7);
}

#[test]
fn a36_subnormals_are_kept() {
    let tiny = Tensor::from(1e-40f32);
    assert_close(&[item(&tiny.log())], &[-92.1034], 1e-6);
    assert_close(&[item(&tiny.sqrt())], &[9.99997e-21], 1e-6);
    let smallest = Tensor::from(5e-324);
    let f = jit(|x: &Tensor| (x.eq(0), x + 0.0));
    let (zero, same) = f.call((&smallest,)).unwrap();
    assert_eq!((zero.item::<bool>().unwrap(), item(&same)), (false, 5e-324));
    assert_eq!(item(&(&smallest + 0.0)), 5e-324);
}

#[test]
fn a37_overflow_then_zero_times_infinity() {
    let f = |p: &Tensor| p.square().sum().sqrt().maximum(1e-10);
    assert_eq!(slopes(f, &floats(&[0.0, 0.0])), [0.0, 0.0]);
}

#[test]
fn a37_2_a_quotient_that_underflows() {
    let f = |x: &Tensor| 1.0 / (x.exp() + 1.0);
    // Reverse mode meets the zero slope first. Forward mode meets the infinite one, and gives NaN.
    let x = Tensor::from(1000.0);
    assert_eq!(item(&f(&x)), 0.0);
    assert_eq!(item(&grad(f).call((&x,)).unwrap()), 0.0);
    assert_eq!(item(&jit(grad(f)).call((&x,)).unwrap()), 0.0);
}

#[test]
fn a38_1_rounding_and_signed_zeros() {
    let x = floats(&[0.5, 1.5, 2.5, -0.5, -2.5, -0.4, -0.0]);
    for rounded in [x.round(), jit(|x: &Tensor| x.round()).call((&x,)).unwrap()] {
        assert_eq!(vec(&rounded), [0.0, 2.0, 2.0, 0.0, -2.0, 0.0, 0.0]);
        let signs: Vec<bool> = vec(&rounded).iter().map(|x| x.is_sign_negative()).collect();
        assert_eq!(signs, [false, false, false, true, true, true, true]);
    }
    assert!(item(&Tensor::from(-0.0).sign()).is_sign_negative());
}

#[test]
fn a38_2_remainders() {
    let t = |v: f64| Tensor::from(v);
    assert_eq!(item(&t(-1.0).floor_mod(3)), 2.0);
    assert_eq!(item(&t(-1.0).rem(3)), -1.0);
    assert_eq!(item(&t(1.0).floor_mod(-3)), -2.0);
    assert_eq!(item(&t(5.0).floor_mod(INF)), 5.0);
    assert_eq!(slopes(|y| Tensor::from(7.0).floor_mod(y), &t(3.0)), [-2.0]);
    assert_eq!((Tensor::from(-7i64).floor_div(2)).item::<i64>().unwrap(), -4);
}

#[test]
fn a39_1_nan_in_maxima() {
    for f in [|x: &Tensor| x.max(), |x: &Tensor| x.index_axis(0, 0).maximum(x.index_axis(0, 1))] {
        assert!(item(&f(&floats(&[5.0, NAN]))).is_nan());
        assert!(item(&jit(f).call((&floats(&[NAN, 5.0]),)).unwrap()).is_nan());
    }
    assert_eq!(floats(&[0.0, 1.0, NAN]).argmax(0).item::<i64>().unwrap(), 2);
    assert_eq!(floats(&[NAN, NAN]).argmax(0).item::<i64>().unwrap(), 0);
}

#[test]
fn a40_1_cancellation() {
    let x = Tensor::from(1e-20);
    assert_eq!(item(&x.log1p()), 1e-20);
    assert_eq!(item(&x.expm1()), 1e-20);
    assert_eq!(slopes(|x| x.log1p(), &x), [1.0]);
    assert_eq!(slopes(|x| x.expm1(), &x), [1.0]);
    let points = floats(&[-1000.0, 1000.0, 40.0]);
    assert_close(&vec(&points.log_sigmoid()), &[-1000.0, 0.0, -4.248354255291589e-18], 1e-15);
    assert_close(&slopes(|x| x.log_sigmoid().sum(), &points), &[1.0, 0.0, 4.248354255291589e-18], 1e-14);
}

#[test]
fn a40_2_large_and_small_arguments() {
    let big = Tensor::from(1000.0);
    assert_eq!(item(&big.elu(1.0)), 1000.0);
    assert_eq!(slopes(|x| x.elu(1.0), &big), [1.0]);
    assert_eq!(item(&Tensor::from(1e-20).tanh()), 1e-20);
    assert_close(&[item(&Tensor::from(-1e4f32).asinh())], &[-9.903488], 1e-7);
}

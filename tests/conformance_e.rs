//! Conformance of eager use: gradients of broadcast operands, and the gradient checker.

mod common;

use common::*;
use pullback::prelude::*;
use pullback::transform::{All, Function};
use pullback::{GradcheckOptions, gradcheck};

#[test]
fn e14_broadcast_operands_receive_sums_in_their_own_shape() {
    let x = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let weights = Tensor::from([[1.0, 10.0, 100.0], [1000.0, 1e4, 1e5]]);
    let implicit = |b: &Tensor| ((&x + b) * &weights).sum();
    let explicit = |b: &Tensor| ((&x + b.broadcast_to([2, 3])) * &weights).sum();
    for (shape, expected) in [
        (&[3][..], vec![1001.0, 10010.0, 100100.0]),
        (&[1, 3], vec![1001.0, 10010.0, 100100.0]),
        (&[2, 1], vec![111.0, 111000.0]),
        (&[1, 1], vec![111111.0]),
        (&[], vec![111111.0]),
        (&[2, 3], vec(&weights)),
    ] {
        let b = Tensor::zeros(DType::F64, shape);
        assert_eq!(slopes(implicit, &b), expected, "{shape:?}");
        assert_eq!(slopes(explicit, &b), expected, "{shape:?}");
    }
}

fn check(options: GradcheckOptions) -> Result<pullback::GradcheckReport, Error> {
    gradcheck(|x: &Tensor| x.sin().sum(), (&floats(&[1.0, 2.0]),), options)
}

#[test]
fn e18_gradcheck_reports() {
    let report = check(GradcheckOptions::default()).unwrap();
    assert!(
        report.passed() && report.count == 2 && report.worst_absolute < 1e-9 && report.worst_relative < 1e-8
    );
    // A wrong gradient: half of the function goes around differentiation.
    let wrong = |x: &Tensor, y: &Tensor| (x * 2.0).sum() + (y.square() + y.stop_gradient()).sum();
    let (x, y) = (floats(&[1.0]), floats(&[3.0, 4.0]));
    let report = gradcheck(wrong, (&x, &y), GradcheckOptions::default()).unwrap();
    let failure = report.failure.clone().unwrap();
    assert_eq!((failure.argument.as_str(), failure.element, failure.analytic), ("argument 1", 0, 6.0));
    assert_close(
        &[failure.numeric, report.worst_absolute, report.worst_relative],
        &[7.0, 1.0, 1.0 / 6.0],
        1e-6,
    );
    assert_eq!(report.count, 3);
    assert!(
        report.ok().unwrap_err().to_string().contains("element 0 of argument 1 is 6e0 and differences say")
    );
    assert_eq!((vec(&x), vec(&y)), (vec![1.0], vec![3.0, 4.0]));
}

#[test]
fn e18_gradcheck_criterion_is_elementwise() {
    // Off by 1 at a gradient of 1 and of 1000: allowed relatively only at the second.
    let off = |x: &Tensor| (x * &floats(&[1.0, 1000.0]) + x.stop_gradient()).sum();
    let options = GradcheckOptions { relative: Some(2e-3), absolute: Some(0.0), ..Default::default() };
    let failure = gradcheck(off, (&floats(&[1.0, 1.0]),), options).unwrap().failure.unwrap();
    assert_eq!(failure.element, 0);
    let options = GradcheckOptions { relative: Some(0.0), absolute: Some(1.001), ..Default::default() };
    assert!(gradcheck(off, (&floats(&[1.0, 1.0]),), options).unwrap().passed());
}

#[test]
fn e18_gradcheck_refuses_nonsense() {
    for epsilon in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(check(GradcheckOptions { epsilon: Some(epsilon), ..Default::default() }).is_err());
    }
    assert!(check(GradcheckOptions { absolute: Some(-1.0), ..Default::default() }).is_err());
    assert!(check(GradcheckOptions { relative: Some(f64::NAN), ..Default::default() }).is_err());
    let options = GradcheckOptions::default();
    assert!(
        gradcheck(|_: &()| Tensor::from(1.0), (&(),), options).unwrap_err().to_string().contains("no tensor")
    );
    let vector = gradcheck(|x: &Tensor| x.sin(), (&floats(&[1.0, 2.0]),), options).unwrap_err();
    assert!(matches!(vector, Error::GradientRequiresScalarOutput { .. }));
    let failing = |x: &Tensor| x.matmul(&floats(&[1.0]));
    assert!(gradcheck(failing, (&floats(&[1.0, 2.0]),), options).unwrap_err().to_string().contains("matmul"));
    let integer =
        gradcheck(|n: &Tensor| n.to_dtype(DType::F64), (&Tensor::from(1i64),), options).unwrap_err();
    assert!(matches!(integer, Error::NotDifferentiable { .. }));
}

#[test]
fn e18_gradcheck_takes_trees_and_f32() {
    let f = |p: &(Tensor, Option<Tensor>), x: &Tensor| (&p.0 * x.exp()).sum();
    let (p, x) = ((Tensor::from([0.5f32, 2.0]), None), Tensor::from([0.1f32, -1.0]));
    assert_eq!(gradcheck(f, (&p, &x), GradcheckOptions::default()).unwrap().ok().unwrap().count, 4);
    let _ = grad(f).argnums(All).invoke(&(p, x)).unwrap();
}

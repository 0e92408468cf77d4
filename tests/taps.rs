//! Values and cotangents from the midst of a function.

mod common;

use common::{assert_bits, floats, item, vec};
use pullback::prelude::*;
use pullback::transform::{collect_tap_cotangents, collect_taps, tap};

fn network(x: &Tensor, w: &Tensor) -> Tensor {
    let hidden = tap("hidden", &x.matmul(w).tanh());
    let counts = tap("positive", &hidden.gt(0).to_dtype(DType::I64));
    tap("loss", &(hidden.square().sum() + counts.sum().to_dtype(DType::F64)))
}

fn point() -> (Tensor, Tensor) {
    (floats(&[1.0, -0.5]), Tensor::from([[0.3, -0.2, 0.5], [0.1, 0.7, -0.4]]))
}

#[test]
fn taps_change_nothing_and_show_what_is_there() {
    let (x, w) = point();
    let (value, taps) = collect_taps(network).call((&x, &w)).unwrap();
    assert_bits(&value, &network(&x, &w), "value");
    let names: Vec<&str> = taps.values.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["hidden", "positive", "loss"]);
    assert_bits(taps.get("hidden").unwrap(), &x.matmul(&w).tanh(), "hidden");
    assert_bits(taps.get("loss").unwrap(), &value, "loss");
    assert!(taps.get("other").is_none());
}

#[test]
fn cotangents_are_derivatives_by_what_is_tapped() {
    let (x, w) = point();
    let (value, taps) = collect_tap_cotangents(network).call((&x, &w)).unwrap();
    assert_bits(&value, &network(&x, &w), "value");
    assert_bits(taps.get("hidden").unwrap(), &(x.matmul(&w).tanh() * 2.0), "hidden");
    assert_eq!(item(taps.get("loss").unwrap()), 1.0);
    assert!(taps.get("positive").is_none(), "integers have none");
}

#[test]
fn taps_of_taps() {
    let twice = |x: &Tensor| tap("same", &(tap("same", &x.sin()) * 2.0)).sum();
    let x = floats(&[0.5, 1.0]);
    let (_, taps) = collect_taps(twice).call((&x,)).unwrap();
    assert_eq!(taps.values.len(), 2);
    assert_bits(&taps.values[1].1, &(x.sin() * 2.0), "the second");
    let (_, cotangents) = collect_tap_cotangents(twice).call((&x,)).unwrap();
    assert_eq!(vec(&cotangents.values[0].1), [2.0, 2.0]);
    // Under other transforms: the slope of what is tapped, and lanes of cotangents.
    let tapped = |x: &Tensor| Ok::<_, Error>(collect_taps(twice).call((x,))?.1.values[0].1.sum());
    assert_bits(&jit(grad(tapped)).call((&x,)).unwrap(), &x.cos(), "slope of a tap");
    let cotangent = |x: &Tensor| {
        let squared = |x: &Tensor| tap("x", x).square().sum();
        Ok::<_, Error>(collect_tap_cotangents(squared).call((x,))?.1.values[0].1.clone())
    };
    assert_bits(&vmap(cotangent).call((&x,)).unwrap(), &(&x * 2.0), "lanes");
    // A derivative keeps its taps.
    let (_, taps) =
        collect_taps(grad(|x: &Tensor| tap("y", &x.sin()).square())).call((&Tensor::from(0.5),)).unwrap();
    assert_eq!(item(taps.get("y").unwrap()), 0.5f64.sin());
}

#[test]
fn what_is_tapped_elsewhere_is_an_error() {
    let in_loop = |x: &Tensor| fori_loop(0, 3, x, |_, x| tap("inner", &x.sin()));
    for text in [
        collect_taps(in_loop).call((&Tensor::from(0.5),)).unwrap_err().to_string(),
        collect_tap_cotangents(in_loop).call((&Tensor::from(0.5),)).unwrap_err().to_string(),
    ] {
        assert!(text.contains("`inner` is tapped") && text.contains("taps.rs"), "{text}");
    }
    let error = collect_tap_cotangents(|x: &Tensor| tap("x", x).sin()).call((&floats(&[1.0]),)).unwrap_err();
    assert!(error.to_string().contains("GradientRequiresScalarOutput"), "{error}");
}

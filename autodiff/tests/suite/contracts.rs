//! Custom calls and their contracts.

use crate::common::*;
use pullback_autodiff::{AdError, Autodiff};
use pullback_ir::ops::control::custom_call::{CustomCall, SAMPLE_TARGET};
use pullback_ir::rules::{Cotangents, RuleError};
use pullback_ir::{Builder, DType, Program, TensorType, Value};
use pullback_runtime::eval::control::custom_call::register;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A custom call with one result.
fn call(target: &str, version: u32, ty: TensorType) -> CustomCall {
    CustomCall { target: target.into(), version, attributes: String::new(), results: vec![ty] }
}

fn only(value: Value) -> Cotangents {
    Cotangents::from_elem(Some(value), 1)
}

/// The first value, or a constant zero.
fn or_zero(b: &mut Builder, value: Option<Value>, ty: &TensorType) -> Result<Value, RuleError> {
    Ok(match value {
        Some(value) => value,
        None => b.number(ty, 0.0)?,
    })
}

/// Contracts and kernel of a target that doubles a tensor; how often each contract ran.
fn doubling(target: &str, jvp: bool, vjp: bool) -> (Autodiff, Arc<[AtomicUsize; 2]>) {
    register(target, 1, |_, inputs, outputs| {
        let doubled: Vec<f64> =
            inputs[0].as_slice::<f64>().map_err(|e| e.to_string())?.iter().map(|x| 2.0 * x).collect();
        outputs[0].as_mut_slice::<f64>().map_err(|e| e.to_string())?.copy_from_slice(&doubled);
        Ok(())
    });
    let runs: Arc<[AtomicUsize; 2]> = Arc::default();
    let mut ad = Autodiff::default();
    ad.contracts.register_batch(target, 1, |call, batcher, args| {
        let (operands, axis) = batcher.aligned(args)?;
        let results = vec![batcher.builder.ty(operands[0]).clone()];
        batcher.one(CustomCall { results, ..call.clone() }, &operands, axis)
    });
    if jvp {
        let runs = runs.clone();
        ad.contracts.register_jvp(target, 1, move |call, lin, _, tangents| {
            runs[0].fetch_add(1, Ordering::Relaxed);
            let dx = or_zero(lin.linear, tangents[0], &call.results[0])?;
            Ok(only(lin.linear.one(call.clone(), &[dx])?))
        });
    }
    if vjp {
        let runs = runs.clone();
        ad.contracts.register_vjp(target, 1, move |call, b, args, cotangents| {
            runs[1].fetch_add(1, Ordering::Relaxed);
            let ct = or_zero(b, cotangents[0], &args[0].ty)?;
            Ok(only(b.one(call.clone(), &[ct])?))
        });
    }
    (ad, runs)
}

/// The transforms with contracts for the target that samples call.
pub(crate) fn sample_autodiff() -> Autodiff {
    doubling(SAMPLE_TARGET, true, true).0
}

/// `sum(double(x) * x)`
fn loss(target: &str) -> Program {
    on_f64(&[&[3]], |b, p| {
        let y = b.one(call(target, 1, f64s(&[3])), &[p[0]])?;
        let product = b.mul(y, p[0])?;
        Ok(vec![sum(b, product)?])
    })
}

#[test]
fn contracts_make_the_derivative_and_run_once() {
    let (ad, runs) = doubling("test.double", true, true);
    let gradient = ad.grad(&loss("test.double"), &[0]).unwrap();
    assert_eq!([runs[0].load(Ordering::Relaxed), runs[1].load(Ordering::Relaxed)], [1, 1]);
    assert_eq!(gradient.op_counts()["custom_call"], 2);
    let found = run(&gradient, &[vector(&[1.0, 2.0, 3.0])]);
    assert_eq!(floats(&found[0]), [4.0, 8.0, 12.0]);
}

#[test]
fn derivatives_of_contracts_are_closed() {
    let (ad, _) = doubling("test.double", true, true);
    let third = ad.jvp(&ad.vjp(&ad.vjp(&loss("test.double"), &[0]).unwrap(), &[0]).unwrap(), &[0]);
    third.unwrap();
    let hvp = ad.jvp(&ad.grad(&loss("test.double"), &[0]).unwrap(), &[0]).unwrap();
    let found = run(&hvp, &[vector(&[1.0, 2.0, 3.0]), vector(&[1.0, 0.0, 0.5])]);
    assert_eq!(floats(&found[1]), [4.0, 0.0, 2.0]);
}

#[test]
fn missing_contracts_are_named() {
    let (ad, _) = doubling("test.double", false, true);
    let error = ad.grad(&loss("test.double"), &[0]).unwrap_err();
    let AdError::Rule { source: RuleError::CustomCallRequiresJvpContract { target }, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(target, "test.double");
    let (ad, _) = doubling("test.double", true, false);
    ad.jvp(&loss("test.double"), &[0]).unwrap();
    let text = ad.grad(&loss("test.double"), &[0]).unwrap_err().to_string();
    assert!(text.contains("CustomCallRequiresVjpContract") && text.contains("test.double"), "{text}");
}

#[test]
fn contracts_belong_to_a_version() {
    let (ad, _) = doubling("test.double", true, true);
    let other = on_f64(&[&[]], |b, p| b.one(call("test.double", 2, f64s(&[])), p).map(|y| vec![y]));
    assert!(ad.grad(&other, &[0]).unwrap_err().to_string().contains("CustomCallRequiresJvpContract"));
}

#[test]
fn custom_calls_off_the_path_need_no_contract() {
    let f = on_f64(&[&[], &[]], |b, p| {
        let y = b.one(call("test.nobody", 1, f64s(&[])), &[p[1]])?;
        let _dead = b.one(call("test.nobody", 1, f64s(&[])), &[p[0]])?;
        Ok(vec![b.mul(p[0], y)?])
    });
    pullback_autodiff::grad(&f, &[0]).unwrap();
    assert!(pullback_autodiff::grad(&f, &[1]).is_err());
}

#[test]
fn contracts_are_held_to_number_and_type() {
    type Answer = fn(&mut Builder, Value) -> Result<Cotangents, RuleError>;
    let wrong: [(Answer, &str); 3] = [
        (|_, _| Ok(Cotangents::new()), "0 values, and 1 values is due"),
        (|b, _| Ok(only(b.scalar(1.0)?)), "f64[] at 0, and f64[3] at 0 is due"),
        (|b, t| Ok(only(b.convert(t, DType::F32)?)), "f32[3] at 0, and f64[3] at 0 is due"),
    ];
    for (answer, problem) in wrong {
        let (mut ad, _) = doubling("test.double", true, true);
        ad.contracts.register_vjp("test.double", 1, move |_, b, _, cts| {
            let ct = or_zero(b, cts[0], &f64s(&[3]))?;
            answer(b, ct)
        });
        let text = ad.grad(&loss("test.double"), &[0]).unwrap_err().to_string();
        assert!(text.contains(problem) && text.contains("vjp contract"), "{text}");
        ad.contracts.register_jvp("test.double", 1, move |_, lin, _, ts| {
            let t = or_zero(lin.linear, ts[0], &f64s(&[3]))?;
            answer(lin.linear, t)
        });
        let text = ad.grad(&loss("test.double"), &[0]).unwrap_err().to_string();
        assert!(text.contains(problem) && text.contains("jvp contract"), "{text}");
    }
}

#[test]
fn a_symbolic_zero_from_a_contract_is_zero() {
    let (mut ad, _) = doubling("test.double", true, true);
    ad.contracts.register_jvp("test.double", 1, |_, _, _, _| Ok(Cotangents::from_elem(None, 1)));
    let found = run(&ad.grad(&loss("test.double"), &[0]).unwrap(), &[vector(&[1.0, 2.0, 3.0])]);
    assert_eq!(floats(&found[0]), [2.0, 4.0, 6.0]);
}

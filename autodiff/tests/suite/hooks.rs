//! Hooks, and derivatives sent into a builder that exists already.

use crate::common::*;
use pullback_autodiff::{Autodiff, Hooks, grad};
use pullback_ir::ops::elementwise::unary::Unary;
use pullback_ir::program::Values;
use pullback_ir::{Builder, Emission, Hook, Program, Stage, TypeError, Value};
use std::sync::{Arc, Mutex};

/// Notes what it sees.
#[derive(Default)]
struct Log(Vec<(Stage, &'static str, String)>);

impl Hook for Log {
    fn emit(&mut self, _: &mut Builder, emission: &Emission<'_>) -> Result<Option<Values>, TypeError> {
        self.0.push((emission.stage, emission.op.name(), emission.origin.to_string()));
        Ok(None)
    }
}

/// Doubles what one stage emits under one name.
struct Double(Stage, &'static str);

impl Hook for Double {
    fn emit(&mut self, b: &mut Builder, emission: &Emission<'_>) -> Result<Option<Values>, TypeError> {
        if (emission.stage, emission.op.name()) != (self.0, self.1) {
            return Ok(None);
        }
        let result = b.one(emission.op.clone(), emission.operands)?;
        Ok(Some(Values::from_iter([b.mul_number(result, 2.0)?])))
    }
}

/// `sum(sin(x) * y)`
fn loss() -> Program {
    on_f64(&[&[2], &[2]], |b, p| {
        let sin = b.unary(Unary::Sin, p[0])?;
        let product = b.mul(sin, p[1])?;
        Ok(vec![sum(b, product)?])
    })
}

#[test]
fn hooks_see_every_generated_op_in_order() {
    let log = Arc::new(Mutex::new(Log::default()));
    let ad = Autodiff { hooks: Hooks::everywhere(log.clone()), ..Autodiff::default() };
    let gradient = ad.grad(&loss(), &[0]).unwrap();
    let seen: Vec<(Stage, &str)> = log.lock().unwrap().0.iter().map(|(stage, op, _)| (*stage, *op)).collect();
    assert_eq!(
        seen,
        [
            (Stage::Linearize, "cos"),
            (Stage::Linearize, "scale_by"),
            (Stage::Linearize, "scale_by"),
            (Stage::Linearize, "reduce"),
            (Stage::Seed, "constant"),
            (Stage::Transpose, "broadcast"),
            (Stage::Transpose, "scale_by"),
            (Stage::Transpose, "scale_by"),
        ]
    );
    // Watching changes nothing.
    assert_eq!(gradient, grad(&loss(), &[0]).unwrap());
}

#[test]
fn seeding_emits_one_constant() {
    let log = Arc::new(Mutex::new(Log::default()));
    let ad = Autodiff { hooks: Hooks { seed: Some(log.clone()), ..Hooks::default() }, ..Autodiff::default() };
    ad.grad(&loss(), &[0, 1]).unwrap();
    let log = log.lock().unwrap();
    assert_eq!(log.0.len(), 1);
    assert_eq!((log.0[0].0, log.0[0].1), (Stage::Seed, "constant"));
}

#[test]
fn hooks_stand_in_for_ops() {
    let at = [vector(&[0.0, 1.0]), vector(&[3.0, 4.0])];
    let plain = reverse(&loss(), &[0], &at);
    for hook in [
        Double(Stage::Seed, "constant"),
        Double(Stage::Linearize, "cos"),
        Double(Stage::Linearize, "reduce"),
        Double(Stage::Transpose, "broadcast"),
    ] {
        let ad = Autodiff { hooks: Hooks::everywhere(Arc::new(Mutex::new(hook))), ..Autodiff::default() };
        let found = floats(&run(&ad.grad(&loss(), &[0]).unwrap(), &at)[0]);
        compare("doubled", &found, &plain[0].iter().map(|x| 2.0 * x).collect::<Vec<_>>(), 0.0).unwrap();
    }
}

#[test]
fn hooks_see_nested_programs_and_their_errors_come_back() {
    struct Refuse;
    impl Hook for Refuse {
        fn emit(&mut self, b: &mut Builder, emission: &Emission<'_>) -> Result<Option<Values>, TypeError> {
            let problem = pullback_ir::Problem::Constraint("refused".into());
            Err(b.error(emission.op, emission.operands, problem))
        }
    }
    let inner = Arc::new(on_f64(&[&[]], |b, p| Ok(vec![b.unary(Unary::Sin, p[0])?])));
    let call = pullback_ir::ops::control::call::Call::new(inner);
    let f = on_f64(&[&[]], |b, p| Ok(vec![b.one(call.clone(), p)?]));
    let log = Arc::new(Mutex::new(Log::default()));
    let ad = Autodiff { hooks: Hooks::everywhere(log.clone()), ..Autodiff::default() };
    ad.grad(&f, &[0]).unwrap();
    assert!(log.lock().unwrap().0.iter().any(|entry| entry.1 == "cos"));
    for stage in [Stage::Linearize, Stage::Seed, Stage::Transpose] {
        let mut ad = Autodiff::default();
        let refuse = Some(Arc::new(Mutex::new(Refuse)) as Arc<Mutex<dyn Hook>>);
        match stage {
            Stage::Linearize => ad.hooks.linearize = refuse,
            Stage::Transpose => ad.hooks.transpose = refuse,
            Stage::Seed => ad.hooks.seed = refuse,
        }
        assert!(ad.grad(&f, &[0]).unwrap_err().to_string().contains("refused"), "{stage:?}");
    }
}

#[test]
fn a_gradient_can_be_sent_into_a_builder() {
    let mut b = Builder::new("step");
    let x: Vec<Value> = (0..2).map(|_| b.param(f64s(&[2]))).collect();
    let shifted = b.add_number(x[0], 1.0).unwrap();
    let (value, gradients) =
        Autodiff::default().value_and_grad_into(&mut b, &loss(), &[shifted, x[1]], &[0]).unwrap();
    let next = b.sub(x[0], gradients[0]).unwrap();
    let step = b.finish(&[value[0], next]);
    let found = run(&step, &[vector(&[-1.0, -1.0]), vector(&[3.0, 4.0])]);
    assert_eq!(floats(&found[0]), [0.0]);
    assert_eq!(floats(&found[1]), [-4.0, -5.0]);
}

#[test]
fn the_builder_keeps_its_own_hook() {
    let log = Arc::new(Mutex::new(Log::default()));
    let mut b = Builder::new("step");
    let x: Vec<Value> = (0..2).map(|_| b.param(f64s(&[2]))).collect();
    b.set_hook(Some((log.clone(), Stage::Transpose)));
    Autodiff::default().value_and_grad_into(&mut b, &loss(), &x, &[0]).unwrap();
    assert!(b.set_hook(None).is_some());
    let names: Vec<&str> = log.lock().unwrap().0.iter().map(|entry| entry.1).collect();
    for name in ["sin", "cos", "constant", "scale_by", "broadcast"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
}

#[test]
fn a_linearization_is_applied_both_ways() {
    let ad = Autodiff::default();
    let mut b = Builder::new("f");
    let p: Vec<Value> = (0..2).map(|_| b.param(f64s(&[2]))).collect();
    let at = ad.linearize_into(&mut b, &loss(), &p, &[0, 1]).unwrap();
    let one = b.scalar(1.0).unwrap();
    let pulled = ad.pull_back(&mut b, &at, &[Some(one)]).unwrap();
    let pushed = ad.push_forward(&mut b, &at, &[pulled[0], None]).unwrap();
    assert_eq!(ad.push_forward(&mut b, &at, &[None, None]).unwrap(), [None]);
    assert_eq!(ad.pull_back(&mut b, &at, &[None]).unwrap(), [None, None]);
    assert!(ad.pull_back(&mut b, &at, &[]).unwrap_err().to_string().contains("0 cotangents were given"));
    let text = ad.push_forward(&mut b, &at, &[Some(one), None]).unwrap_err().to_string();
    assert_eq!(text, "tangents 0 has type f64[], and f64[2] is due");
    let f = b.finish(&[pushed[0].unwrap()]);
    // The square of the gradient's length.
    assert_eq!(floats(&run(&f, &[vector(&[0.0, 0.0]), vector(&[3.0, 4.0])])[0]), [25.0]);
}

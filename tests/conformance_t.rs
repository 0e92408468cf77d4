//! Conformance of compiled gradients of traced programs: what other systems promise, line by line.

mod common;

use common::*;
use pullback::control::scan;
use pullback::ir::program::Values;
use pullback::ir::rules::Cotangents;
use pullback::ir::{Builder, TypeError, Value};
use pullback::prelude::*;
use pullback::transform::{All, Arg, Emission, Hook, Hooks, Stage, emit_into};
use pullback::{GradcheckOptions, Shape, TensorType, custom, gradcheck, nn};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn ops(program: &pullback::ir::Program, name: &str) -> usize {
    program.op_counts().get(name).copied().unwrap_or(0)
}

#[test]
fn t1_gradients_of_a_product() {
    let f = |x: &Tensor, y: &Tensor| (x * y).sum();
    let (x, y) = (Tensor::from([1.0f32, 2.0, 3.0, 4.0]), Tensor::from([0.5f32, -1.0, 2.0, 0.25]));
    let program = jit(grad(f).argnums(All)).lower((&x, &y)).unwrap();
    let types = |types: Vec<TensorType>| types.iter().map(|t| t.to_string()).collect::<Vec<_>>();
    assert_eq!(types(program.program().param_types()), ["f32[4]"; 2]);
    assert_eq!(types(program.program().output_types()), ["f32[4]"; 2]);
    let both = jit(value_and_grad(f).argnums(All));
    let program = both.lower((&x, &y)).unwrap();
    assert_eq!(types(program.program().output_types()), ["f32[]", "f32[4]", "f32[4]"]);
    let (loss, (dx, dy)) = both.call((&x, &y)).unwrap();
    assert_eq!((item(&loss), vec(&dx), vec(&dy)), (5.5, vec(&y), vec(&x)));
}

#[test]
fn t2_parameters_stay_though_unused() {
    let x = floats(&[1.0, 2.0]);
    let f = jit(grad(|x: &Tensor| x.sum()));
    assert_eq!(f.lower((&x,)).unwrap().program().params().len(), 1);
    assert_eq!(vec(&f.call((&x,)).unwrap()), [1.0, 1.0]);
}

#[test]
fn t3_gather_becomes_scatter_add() {
    let (table, indices) = (Tensor::zeros(DType::F32, [4, 2]), Tensor::from([2i32, 0, 2]));
    let f = jit(grad(|table: &Tensor, i: &Tensor| table.take(i, 0).sum()));
    let lowered = f.lower((&table, &indices)).unwrap();
    assert_eq!(lowered.program().params().len(), 2);
    assert_eq!(ops(lowered.program(), "scatter"), 1);
    let g = f.call((&table, &indices)).unwrap();
    assert_eq!(vec(&g), [1.0, 1.0, 0.0, 0.0, 2.0, 2.0, 0.0, 0.0]);
}

#[test]
fn t4_kinks_against_differences() {
    let x = floats(&[0.5, -1.5, 2.5, -0.25]);
    let options = GradcheckOptions::default();
    for f in [
        |x: &Tensor, _: &Tensor| x.maximum(0).sum(),
        |x: &Tensor, _: &Tensor| x.max().maximum(1.0),
        |x: &Tensor, start: &Tensor| x.max().maximum(start),
        |x: &Tensor, _: &Tensor| x.abs().sum(),
        |x: &Tensor, _: &Tensor| x.tan().sum(),
    ] {
        for start in [1.0, 3.0] {
            assert!(gradcheck(f, (&x, &Tensor::from(start)), options).unwrap().passed());
        }
    }
}

#[test]
fn t5_constant_exponents_need_no_logarithm() {
    let (x, y) = (Tensor::from(2.0), Tensor::from(3.0));
    let constant = jit(grad(|x: &Tensor| x.pow(3)));
    assert_eq!(ops(constant.lower((&x,)).unwrap().program(), "log"), 0);
    let fractional = jit(grad(|x: &Tensor| x.pow(2.5)));
    assert_eq!(ops(fractional.lower((&x,)).unwrap().program(), "log"), 0);
    let active = jit(grad(|x: &Tensor, y: &Tensor| x.pow(y)).argnums(All));
    assert!(ops(active.lower((&x, &y)).unwrap().program(), "log") > 0);
}

#[test]
fn t6_contractions_against_loops() {
    let x = (Tensor::arange(DType::F32, 12) * 0.37).sin().reshape([2, 2, 3]);
    let y = (Tensor::arange(DType::F32, 24) * 0.73).cos().reshape([2, 3, 4]);
    let w = (Tensor::arange(DType::F32, 16) * 0.11).sin().reshape([2, 2, 4]);
    let f = |x: &Tensor, y: &Tensor| (x.matmul(y) * &w).sum();
    let g = jit(grad(f).argnums(All));
    let (dx, dy) = g.call((&x, &y)).unwrap();
    let (xs, ys, ws) = (vec(&x), vec(&y), vec(&w));
    let (mut ex, mut ey) = (vec![0.0; 12], vec![0.0; 24]);
    for (b, m, n, k) in (0..2)
        .flat_map(|b| (0..2).flat_map(move |m| (0..4).flat_map(move |n| (0..3).map(move |k| (b, m, n, k)))))
    {
        ex[b * 6 + m * 3 + k] += ws[b * 8 + m * 4 + n] * ys[b * 12 + k * 4 + n];
        ey[b * 12 + k * 4 + n] += ws[b * 8 + m * 4 + n] * xs[b * 6 + m * 3 + k];
    }
    let near =
        |found: &Tensor, expected: &[f64]| vec(found).iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-6);
    assert!(near(&dx, &ex) && near(&dy, &ey));
    // Contraction of the leading axis of both.
    let (a, b) = (x.index_axis(0, 0), w.index_axis(0, 0));
    let f = |a: &Tensor, b: &Tensor| a.tensordot(b, &[0], &[0]).square().sum();
    assert!(gradcheck(f, (&a, &b), GradcheckOptions::default()).unwrap().passed());
}

#[test]
fn t7_causal_attention() {
    let draw = |k: f64| (Tensor::arange(DType::F64, 12) * k + 0.3).sin().reshape([4, 3]);
    let mask = Tensor::full(-30.0, [4, 4]).triu(1);
    let weights = draw(0.9);
    for dtype in [DType::F64, DType::F32] {
        let cast = |t: &Tensor| t.to_dtype(dtype);
        let (mask, weights) = (cast(&mask), cast(&weights));
        let f = |q: &Tensor, k: &Tensor, v: &Tensor| (nn::attention(q, k, v, Some(&mask)) * &weights).sum();
        let options = match dtype {
            DType::F64 => GradcheckOptions { absolute: Some(1e-7), ..Default::default() },
            _ => GradcheckOptions { epsilon: Some(0.01), absolute: Some(0.002), relative: Some(0.02) },
        };
        let report =
            gradcheck(f, (&cast(&draw(0.5)), &cast(&draw(0.7)), &cast(&draw(1.1))), options).unwrap();
        assert_eq!(report.clone().ok().unwrap().count, 36);
    }
}

#[test]
fn t8_vector_losses_are_refused() {
    let text = grad(|x: &Tensor| x.sin()).call((&floats(&[1.0, 2.0]),)).unwrap_err().to_string();
    assert!(text.contains("GradientRequiresScalarOutput") && text.contains("f64[2]"), "{text}");
}

#[test]
fn t9_integer_arguments_are_refused_by_name() {
    let f = |x: &Tensor, n: &Tensor| x * n.to_dtype(DType::F64);
    let error =
        grad(f).argnums((Arg::<0>, Arg::<1>)).call((&Tensor::from(1.0), &Tensor::from(2i64))).unwrap_err();
    assert!(error.to_string().contains("argument 1, which has type i64[]"), "{error}");
}

fn register_double(target: &'static str, jvp: bool, vjp: bool, runs: Arc<AtomicUsize>) {
    custom::register_kernel(target, 1, |_, inputs, outputs| {
        let doubled: Vec<f64> =
            inputs[0].as_slice::<f64>().map_err(|e| e.to_string())?.iter().map(|x| x * 2.0).collect();
        outputs[0].as_mut_slice::<f64>().map_err(|e| e.to_string())?.copy_from_slice(&doubled);
        Ok(())
    });
    custom::register_contracts(|contracts| {
        let counted = runs.clone();
        if jvp {
            contracts.register_jvp(target, 1, move |call, linearizer, _, tangents| {
                counted.fetch_add(1, Ordering::Relaxed);
                let tangent: Vec<Value> = tangents.iter().copied().flatten().collect();
                Ok(Cotangents::from_iter([Some(linearizer.linear.one(call.clone(), &tangent)?)]))
            });
        }
        if vjp {
            contracts.register_vjp(target, 1, move |call, builder, _, cotangents| {
                runs.fetch_add(100, Ordering::Relaxed);
                let cotangent: Vec<Value> = cotangents.iter().copied().flatten().collect();
                Ok(Cotangents::from_iter([Some(builder.one(call.clone(), &cotangent)?)]))
            });
        }
    });
}

#[test]
fn t10_custom_calls_go_by_their_contracts() {
    fn double(target: &str, x: &Tensor) -> Result<Tensor, Error> {
        Ok(custom::custom_call(target, 1, "", &[x], &[x.ty()?.clone()])?.remove(0).sum())
    }
    let runs = Arc::new(AtomicUsize::new(0));
    register_double("test.double", true, true, runs.clone());
    register_double("test.jvp_only", true, false, Arc::default());
    register_double("test.bare", false, false, Arc::default());
    let x = floats(&[1.0, 2.0]);
    assert_eq!(item(&double("test.double", &x).unwrap()), 6.0);
    let lowered = jit(grad(|x: &Tensor| double("test.double", x))).lower((&x,)).unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 101);
    assert!(ops(lowered.program(), "custom_call") > 0);
    assert_eq!(vec(&lowered.compile().unwrap().call((&x,)).unwrap()), [2.0, 2.0]);
    let text = grad(|x: &Tensor| double("test.bare", x)).call((&x,)).unwrap_err().to_string();
    assert!(text.contains("CustomCallRequiresJvpContract") && text.contains("test.bare"), "{text}");
    let text = grad(|x: &Tensor| double("test.jvp_only", x)).call((&x,)).unwrap_err().to_string();
    assert!(text.contains("CustomCallRequiresVjpContract") && text.contains("test.jvp_only"), "{text}");
    let unknown =
        custom::custom_call("test.unknown", 1, "", &[&x], &[TensorType::new(DType::F64, Shape::scalar())]);
    assert!(unknown.unwrap_err().to_string().contains("has no kernel"));
}

/// Notes what it sees.
#[derive(Default)]
struct Log(Vec<(Stage, &'static str)>);

impl Hook for Log {
    fn emit(&mut self, _: &mut Builder, emission: &Emission<'_>) -> Result<Option<Values>, TypeError> {
        self.0.push((emission.stage, emission.op.name()));
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

fn everywhere(hook: impl Hook + 'static) -> Hooks {
    Hooks::everywhere(Arc::new(Mutex::new(hook)))
}

#[test]
fn t11_hooks_see_what_a_derivative_is_made_of() {
    let log = Arc::new(Mutex::new(Log::default()));
    let f = |x: &Tensor| x.sin().sum();
    let hooked = grad(f).hooks(Hooks::everywhere(log.clone()));
    let x = floats(&[1.0, 2.0]);
    assert_bits(&hooked.call((&x,)).unwrap(), &grad(f).call((&x,)).unwrap(), "with hooks");
    assert_eq!(
        log.lock().unwrap().0,
        [
            (Stage::Linearize, "cos"),
            (Stage::Linearize, "scale_by"),
            (Stage::Linearize, "reduce"),
            (Stage::Seed, "constant"),
            (Stage::Transpose, "broadcast"),
            (Stage::Transpose, "scale_by"),
        ]
    );
}

#[test]
fn t11_hooks_see_every_mode_and_stand_in_for_what_they_see() {
    let f = |x: &Tensor| x.sin();
    let (x, one) = (Tensor::from(0.0), Tensor::from(1.0));
    let slope = || everywhere(Double(Stage::Linearize, "cos"));
    let (_, tangent) = jvp(f).hooks(slope()).call((&x,), (&one,)).unwrap();
    assert_eq!(item(&tangent), 2.0);
    let (_, linear) = linearize(f).hooks(slope()).call((&x,)).unwrap();
    assert_eq!(item(&linear.call((&one,)).unwrap()), 2.0);
    let (_, pullback) = vjp(f).hooks(slope()).call((&x,)).unwrap();
    assert_eq!(item(&pullback.call(&one).unwrap().0), 2.0);
    let (_, pullback) = vjp(f).hooks(everywhere(Double(Stage::Transpose, "scale_by"))).call((&x,)).unwrap();
    assert_eq!(item(&pullback.call(&one).unwrap().0), 2.0);
    let both = value_and_grad(f).hooks(everywhere(Double(Stage::Seed, "constant")));
    let (value, gradient) = jit(both).call((&x,)).unwrap();
    assert_eq!((item(&value), item(&gradient)), (0.0, 2.0));
    // The hooks of an outer derivative see the inner one's ops as any others.
    let log = Arc::new(Mutex::new(Log::default()));
    grad(grad(f)).hooks(Hooks::everywhere(log.clone())).call((&x,)).unwrap();
    assert!(log.lock().unwrap().0.contains(&(Stage::Linearize, "sin")));
}

#[test]
fn t12_gradients_are_sent_into_another_builder() {
    let loss = |x: &Tensor, y: &Tensor| (x.sin() * y).sum();
    let (x, y) = (floats(&[-1.0, -1.0]), floats(&[3.0, 4.0]));
    let mut b = Builder::new("step");
    let params: Vec<Value> = [&x, &y].map(|tensor| b.param(tensor.ty().unwrap().clone())).to_vec();
    let shifted = b.add_number(params[0], 1.0).unwrap();
    let found = emit_into(&mut b, &value_and_grad(loss), (&x, &y), &[shifted, params[1]]).unwrap();
    let next = b.sub(params[0], found[1]).unwrap();
    let step = b.finish(&[found[0], next]);
    step.verify().unwrap();
    let results = pullback::runtime::interpret(&step, &[x.array().unwrap(), y.array().unwrap()]).unwrap();
    assert_eq!(results[0].to_vec::<f64>().unwrap(), [0.0]);
    assert_eq!(results[1].to_vec::<f64>().unwrap(), [-4.0, -5.0]);
}

#[test]
fn t12_a_hook_stands_in_for_the_target() {
    // The target's own hook gets every op of the value and of the gradient, of the hooked one here.
    let log = Arc::new(Mutex::new(Log::default()));
    let mut b = Builder::new("watched");
    let (x, scale) = (Tensor::from(0.0), Tensor::from(3.0));
    let param = b.param(x.ty().unwrap().clone());
    b.set_hook(Some((log.clone(), Stage::Transpose)));
    let doubled = grad(|x: &Tensor| x.sin() * &scale).hooks(everywhere(Double(Stage::Seed, "constant")));
    let found = emit_into(&mut b, &doubled, (&x,), &[param]).unwrap();
    b.set_hook(None);
    let names: Vec<&str> = log.lock().unwrap().0.iter().map(|entry| entry.1).collect();
    for name in ["constant", "cos", "mul", "scale_by"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    // What it captured is a constant there.
    let program = b.finish(&found);
    assert_eq!(program.params().len(), 1);
    assert_eq!(pullback::runtime::interpret(&program, &[0.0.into()]).unwrap()[0].item::<f64>().unwrap(), 6.0);
}

#[test]
fn t12_what_cannot_be_sent_into_a_builder_is_refused() {
    let (one, two) = (Tensor::from(1.0), floats(&[1.0, 2.0]));
    let mut b = Builder::new("f");
    let param = b.param(one.ty().unwrap().clone());
    let foreign = Builder::new("g").param(one.ty().unwrap().clone());
    let sum = |x: &Tensor| x.sum();
    let mut refused = |arguments, values: &[Value]| {
        emit_into(&mut b, &grad(sum), (arguments,), values).unwrap_err().to_string()
    };
    assert!(refused(&two, &[param]).contains("argument 0 does not have the type of the parameter"));
    assert!(refused(&one, &[]).contains("argument 0 does not have the type of the parameter"));
    assert!(refused(&one, &[param, param]).contains("argument 1 does not have the type of the parameter"));
    let text = jit(|x: &Tensor| {
        let values = emit_into(&mut Builder::new("h"), &|y: &Tensor| x * y, (&one,), &[foreign]);
        values.map(|_| x.clone())
    })
    .call((&one,));
    assert!(text.unwrap_err().to_string().contains("pass it as an argument"));
    let mut empty = Builder::new("empty");
    let text = emit_into(&mut empty, &grad(sum), (&one,), &[foreign]).unwrap_err().to_string();
    assert!(text.contains("argument 0 is not a value of this program"), "{text}");
}

/// Steps of a recurrence with a parameter, inputs and outputs of its own.
fn step(w: &Tensor, h: &Tensor, x: &Tensor) -> (Tensor, Tensor) {
    let h = (h * w + x).tanh();
    (h.clone(), &h * x)
}

fn scanned(w: &Tensor, xs: &Tensor) -> Tensor {
    let (h, ys) = scan(&Tensor::zeros(DType::F64, [3]), xs, |h, x| step(w, h, x));
    (h * ys.sum_axes(0)).sum()
}

fn unrolled(w: &Tensor, xs: &Tensor) -> Tensor {
    let mut h = Tensor::zeros(DType::F64, [3]);
    let mut ys = Vec::new();
    for i in 0..xs.dims::<2>().expect("a matrix")[0] {
        let (next, y) = step(w, &h, &xs.at(i));
        h = next;
        ys.push(y);
    }
    (h * stack(&ys, 0).sum_axes(0)).sum()
}

#[test]
fn t13_the_gradient_of_a_scan_is_that_of_the_unrolled_program() {
    let inputs = |n: usize| {
        let values: Vec<f64> = (0..3 * n).map(|i| (i as f64 * 0.7).sin()).collect();
        Tensor::from_slice(&values, [n, 3])
    };
    let w = Tensor::from([0.9, -0.4, 1.3]);
    for n in [1, 7] {
        let xs = inputs(n);
        let both = |f: fn(&Tensor, &Tensor) -> Tensor| {
            let gradient = value_and_grad(f).argnums(All);
            jit(gradient).call((&w, &xs)).expect("runs")
        };
        let ((value, (dw, dxs)), (unrolled_value, (unrolled_dw, unrolled_dxs))) =
            (both(scanned), both(unrolled));
        for (found, expected) in [(value, unrolled_value), (dw, unrolled_dw), (dxs, unrolled_dxs)] {
            assert_eq!(vec(&found), vec(&expected));
        }
    }
    let text = |n| jit(grad(scanned)).lower((&w, &inputs(n))).expect("lowers").program().to_string();
    assert_eq!(text(10).lines().count(), text(10_000).lines().count());
}

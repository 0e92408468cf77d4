//! Conformance of compiled gradients of traced programs: what other systems promise, line by line.

mod common;

use common::*;
use pullback::ir::Value;
use pullback::ir::rules::Cotangents;
use pullback::prelude::*;
use pullback::transform::{All, Arg};
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

#[test]
fn t11_hooks_see_what_a_derivative_is_made_of() {
    use pullback::ir::builder::{Emission, Hook, Stage};
    use pullback::ir::{Builder, TypeError, program::Values};

    #[derive(Default)]
    struct Count(Vec<(Stage, &'static str)>);
    impl Hook for Count {
        fn emit(&mut self, _: &mut Builder, emission: &Emission<'_>) -> Result<Option<Values>, TypeError> {
            self.0.push((emission.stage, emission.op.name()));
            Ok(None)
        }
    }
    let count = Arc::new(Mutex::new(Count::default()));
    let f = |x: &Tensor| x.sin().sum();
    let hooked = grad(f).hooks(pullback::autodiff::Hooks::everywhere(count.clone()));
    let x = floats(&[1.0, 2.0]);
    assert_bits(&hooked.call((&x,)).unwrap(), &grad(f).call((&x,)).unwrap(), "with hooks");
    let seen = &count.lock().unwrap().0;
    let seeds: Vec<_> = seen.iter().filter(|(stage, _)| *stage == Stage::Seed).collect();
    assert_eq!(seeds, [&(Stage::Seed, "constant")]);
    assert!(seen.contains(&(Stage::Linearize, "cos")));
    assert!(seen.iter().any(|(stage, _)| *stage == Stage::Transpose));
}

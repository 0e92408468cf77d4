//! Tracing, differentiation and compiled code from several threads at once.

mod common;

use common::*;
use pullback::prelude::*;
use std::thread;

/// A function of each thread's own.
fn own(k: usize) -> impl Fn(&Tensor) -> Tensor + Copy {
    move |x: &Tensor| (x * (k + 1) as f64).sin().sum()
}

#[test]
fn a43_1_threads_trace_and_run_their_own_functions() {
    let x = floats(&[0.3, 0.7, 1.1]);
    let expected: Vec<Tensor> = (0..8).map(|k| grad(own(k)).call((&x,)).unwrap()).collect();
    thread::scope(|scope| {
        for (k, expected) in expected.iter().enumerate() {
            let x = &x;
            scope.spawn(move || {
                for _ in 0..1000 {
                    assert_bits(&jit(grad(own(k))).call((x,)).unwrap(), expected, "compiled");
                    assert_bits(&grad(own(k)).call((x,)).unwrap(), expected, "plain");
                }
            });
        }
    });
}

#[test]
fn a43_1_threads_share_one_compiled_function() {
    let shared = jit(grad(own(3)));
    let arguments: Vec<Tensor> = (1..5).map(|n| Tensor::arange(DType::F64, n)).collect();
    let expected: Vec<Tensor> = arguments.iter().map(|x| grad(own(3)).call((x,)).unwrap()).collect();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for i in 0..1000 {
                    let (x, expected) = (&arguments[i % 4], &expected[i % 4]);
                    assert_bits(&shared.call((x,)).unwrap(), expected, "shared function");
                }
            });
        }
    });
    assert_eq!(shared.cache_stats().entries, 4);
}

#[test]
fn a_traced_function_may_use_threads_itself() {
    let f = |x: &Tensor| {
        let parts: Vec<Tensor> = thread::scope(|scope| {
            let handles: Vec<_> = (1..4).map(|n| scope.spawn(move || x.powi(n))).collect();
            handles.into_iter().map(|handle| handle.join().unwrap()).collect()
        });
        &parts[0] + &parts[1] + &parts[2]
    };
    assert_eq!(item(&grad(f).call((&Tensor::from(2.0),)).unwrap()), 1.0 + 4.0 + 12.0);
}

//! Programs called as functions of plain numbers.

use pullback_ir::ops::elementwise::compare::Compare;
use pullback_ir::ops::index::IndexMode;
use pullback_ir::ops::index::gather::Gather;
use pullback_ir::{Builder, DType, Dims, Program, TensorType, TypeError, Value};
use pullback_lower::{Direct, Executable, Options, lower};
use pullback_runtime::{Array, RuntimeError};

fn compile(program: &Program) -> Executable {
    lower(program, &Options::default()).expect("lowers").compile().expect("compiles")
}

fn build(f: impl FnOnce(&mut Builder) -> Result<Vec<Value>, TypeError>) -> Executable {
    let mut b = Builder::new("f");
    let outputs = f(&mut b).expect("well typed");
    compile(&b.finish(&outputs))
}

/// `(a * s, s, a * c)` for `a: [2]`, `s` and `c: [2]`
fn scaled() -> Executable {
    build(|b| {
        let a = b.param(TensorType::new(DType::F64, [2]));
        let s = b.param(TensorType::scalar(DType::F64));
        let c = b.param(TensorType::new(DType::F64, [2]));
        let wide = b.broadcast(s, [2], &[])?;
        Ok(vec![b.mul(a, wide)?, s, b.mul(a, c)?])
    })
}

#[test]
fn numbers_are_the_elements_of_parameters_and_outputs_in_order() {
    let f: Direct<f64, 5, 5> = scaled().direct(&[]).expect("five numbers");
    assert_eq!(f.call([1.0, 2.0, 10.0, 3.0, 4.0]).expect("runs"), [10.0, 20.0, 10.0, 3.0, 8.0]);
    assert_eq!(f.call([0.5, 2.0, 4.0, 3.0, 4.0]).expect("runs"), [2.0, 8.0, 4.0, 1.5, 8.0]);
}

#[test]
fn bound_parameters_are_set_once() {
    let executable = scaled();
    let bound = [Array::vector(&[3.0, 4.0])];
    let f: Direct<f64, 3, 5> = executable.direct(&bound).expect("three numbers");
    drop((executable, bound));
    assert_eq!(f.call([1.0, 2.0, 10.0]).expect("runs"), [10.0, 20.0, 10.0, 3.0, 8.0]);
}

#[test]
fn what_does_not_fit_is_refused_when_it_is_made() {
    let executable = scaled();
    let counts = executable.direct::<f64, 4, 5>(&[]).err();
    assert!(matches!(counts, Some(RuntimeError::Numbers { expected: (5, 5), found: (4, 5), .. })));
    let counts = executable.direct::<f64, 5, 4>(&[]).err();
    assert_eq!(counts.expect("refused").to_string(), "@f takes 5 numbers and gives 5, not 5 and 4");
    let dtype = executable.direct::<f32, 5, 5>(&[]).err();
    assert!(matches!(dtype, Some(RuntimeError::ArgumentType { index: 0, .. })));
    let bound = executable.direct::<f64, 3, 5>(&[Array::vector(&[3.0])]).err();
    assert!(matches!(bound, Some(RuntimeError::ArgumentType { index: 2, .. })));
    let many = executable.direct::<f64, 0, 5>(&[const { 0.0f64 }; 4].map(Array::scalar)).err();
    assert!(matches!(many, Some(RuntimeError::ArgumentCount { expected: 3, found: 4, .. })));
    let mask = build(|b| {
        let x = b.param(TensorType::new(DType::F64, [2]));
        Ok(vec![x, b.compare(Compare::Lt, x, x)?])
    });
    let mask = mask.direct::<f64, 2, 4>(&[]).err();
    assert!(matches!(mask, Some(RuntimeError::OutputType { index: 1, .. })));
}

#[test]
fn nothing_goes_in_or_comes_out_of_a_function_without_numbers() {
    let f: Direct<f32, 0, 1> = build(|b| Ok(vec![b.scalar(2.5f32)?])).direct(&[]).expect("a constant");
    assert_eq!(f.call([]).expect("runs"), [2.5]);
    let f: Direct<f32, 2, 0> = build(|b| {
        b.param(TensorType::new(DType::F32, [2]));
        Ok(vec![])
    })
    .direct(&[])
    .expect("no outputs");
    assert_eq!(f.call([1.0, 2.0]).expect("runs"), [0.0; 0]);
}

#[test]
fn failures_while_it_runs_come_back() {
    let executable = build(|b| {
        let x = b.param(TensorType::new(DType::F64, [2]));
        let at = b.param(TensorType::new(DType::I64, [1, 1]));
        let gather = Gather { index_dims: Dims::from_slice(&[0]), batch_dims: 0, mode: IndexMode::Checked };
        Ok(vec![b.one(gather, &[x, at])?])
    });
    let at = |i: i64| [Array::from_slice(&[i], [1, 1]).expect("one element")];
    let good: Direct<f64, 2, 1> = executable.direct(&at(1)).expect("two numbers");
    let bad: Direct<f64, 2, 1> = executable.direct(&at(2)).expect("two numbers");
    for _ in 0..3 {
        assert_eq!(good.call([5.0, 6.0]).expect("runs"), [6.0]);
        assert!(matches!(bad.call([5.0, 6.0]), Err(RuntimeError::IndexOutOfRange { .. })));
    }
}

#[test]
fn threads_share_it() {
    fn shareable<T: Send + Sync + Clone>(_: &T) {}
    let f: Direct<f64, 5, 5> = scaled().direct(&[]).expect("five numbers");
    shareable(&f);
    std::thread::scope(|scope| {
        for i in 0..4 {
            let f = f.clone();
            scope.spawn(move || {
                for j in 0..1000 {
                    let (i, j) = (f64::from(i), f64::from(j));
                    assert_eq!(
                        f.call([i, j, 2.0, j, i]).expect("runs"),
                        [2.0 * i, 2.0 * j, 2.0, i * j, i * j]
                    );
                }
            });
        }
    });
}

//! What a compiled program promises to its callers.

mod common;

use common::arguments;
use pullback_ir::ops::elementwise::binary::Binary;
use pullback_ir::ops::elementwise::unary::Unary;
use pullback_ir::ops::index::IndexMode;
use pullback_ir::ops::index::gather::Gather;
use pullback_ir::ops::reduce::reduce::Reducer;
use pullback_ir::{Builder, DType, Dims, Loc, Program, Shape, TensorType, TypeError, Value};
use pullback_lower::{Cache, Executable, Options, lower};
use pullback_runtime::{Array, RuntimeError, interpret, threads};

fn build(f: impl FnOnce(&mut Builder) -> Result<Vec<Value>, TypeError>) -> Program {
    let mut b = Builder::new("main");
    let outputs = f(&mut b).expect("well typed");
    b.finish(&outputs)
}

fn compile(program: &Program) -> Executable {
    lower(program, &Options::default()).expect("lowers").compile().expect("compiles")
}

/// Softmax over rows, its logarithm's sum over columns, and the rows' norms: maps and reductions both ways.
fn statistics(rows: usize, columns: usize) -> Program {
    build(|b| {
        let shape = Shape::new(&[rows, columns]);
        let x = b.param(TensorType::new(DType::F32, shape.clone()));
        let max = b.reduce(Reducer::Max, x, &[1])?;
        let max = b.expand(max, &shape, &[1])?;
        let shifted = b.sub(x, max)?;
        let e = b.unary(Unary::Exp, shifted)?;
        let sum = b.reduce_sum(e, &[1])?;
        let sum = b.expand(sum, &shape, &[1])?;
        let y = b.div(e, sum)?;
        let log = b.unary(Unary::Log, y)?;
        let columns = b.reduce_sum(log, &[0])?;
        let square = b.mul(y, y)?;
        let norms = b.reduce_sum(square, &[1])?;
        let all = b.reduce_sum(square, &[0, 1])?;
        Ok(vec![y, columns, norms, all])
    })
}

#[test]
fn results_do_not_depend_on_threads_or_callers() {
    for (rows, columns) in [(300, 1000), (5000, 70), (3, 50_001), (70_001, 3)] {
        let program = statistics(rows, columns);
        let values = arguments(&program.param_types(), 1);
        let expected = interpret(&program, &values).expect("runs");
        let executable = compile(&program);
        for count in [1, 2, 3] {
            threads::set_threads(count);
            for (found, expected) in executable.call(&values).expect("runs").iter().zip(&expected) {
                assert_eq!(found.first_difference(expected), None, "{count} threads, [{rows}, {columns}]");
            }
        }
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..3 {
                        let found = executable.call(&values).expect("runs");
                        assert!(found.iter().zip(&expected).all(|(f, e)| f.bits_equal(e)));
                    }
                });
            }
        });
    }
}

#[test]
fn outputs_may_be_parameters_constants_and_each_other() {
    let program = build(|b| {
        let x = b.param(TensorType::new(DType::F64, [2, 3]));
        let y = b.unary(Unary::Sin, x)?;
        let turned = b.reshape(y, [3, 2])?;
        let constant =
            b.constant(pullback_ir::Literal::dense(&[1i32, 2, 3], [3]).expect("three elements"))?;
        let repeated = b.number(&TensorType::new(DType::F32, [100]), 0.5)?;
        Ok(vec![x, y, y, turned, constant, repeated, x])
    });
    let values = arguments(&program.param_types(), 2);
    let expected = interpret(&program, &values).expect("runs");
    let found = compile(&program).call(&values).expect("runs");
    assert!(found.iter().zip(&expected).all(|(f, e)| f.bits_equal(e)));
}

#[test]
fn wrong_arguments_are_errors() {
    let program = build(|b| {
        let x = b.param(TensorType::new(DType::F64, [2]));
        Ok(vec![b.add(x, x)?])
    });
    let executable = compile(&program);
    assert!(matches!(executable.call(&[]), Err(RuntimeError::ArgumentCount { expected: 1, found: 0, .. })));
    let wrong = Array::vector(&[1.0f32, 2.0]);
    assert!(matches!(executable.call(&[wrong]), Err(RuntimeError::ArgumentType { index: 0, .. })));
    let (input, mut output) = ([1.0, 2.0], [0.0; 2]);
    let short = executable.call_into(&[&input[..1]], &mut [&mut output[..]]);
    assert!(matches!(short, Err(RuntimeError::ArgumentType { .. })));
    let single = executable.call_into(&[&[1.0f32, 2.0][..]], &mut [&mut [0.0f32; 2][..]]);
    assert!(matches!(single, Err(RuntimeError::ArgumentType { .. })));
    let narrow = executable.call_into(&[&input[..]], &mut [&mut output[..1]]);
    assert!(matches!(narrow, Err(RuntimeError::OutputType { .. })));
    let none = executable.call_into(&[&input[..]], &mut []);
    assert!(matches!(none, Err(RuntimeError::OutputCount { expected: 1, found: 0, .. })));
    executable.call_into(&[&input[..]], &mut [&mut output[..]]).expect("runs");
    assert_eq!(output, [2.0, 4.0]);
}

#[test]
fn a_failed_check_names_op_and_place_and_leaves_the_executable_usable() {
    let here = Loc::caller();
    let program = build(|b| {
        let x = b.param(TensorType::new(DType::F64, [5]));
        let at = b.param(TensorType::new(DType::I64, [3, 1]));
        b.set_loc(here);
        let gather = Gather { index_dims: Dims::from_slice(&[0]), batch_dims: 0, mode: IndexMode::Checked };
        let y = b.one(gather, &[x, at])?;
        Ok(vec![b.mul(y, y)?])
    });
    let executable = compile(&program);
    let x = Array::vector(&[1.0, 2.0, 3.0, 4.0, 5.0]);
    let good = Array::from_slice(&[0i64, 4, 2], [3, 1]).expect("three elements");
    let bad = Array::from_slice(&[0i64, 5, 2], [3, 1]).expect("three elements");
    match executable.call(&[x.clone(), bad]) {
        Err(RuntimeError::IndexOutOfRange { op, index, bound, loc }) => {
            assert_eq!((op, index, bound, loc), ("gather", 5, 5, here));
        }
        other => panic!("{other:?}"),
    }
    let found = executable.call(&[x, good]).expect("runs");
    assert_eq!(found[0].to_vec::<f64>().expect("f64"), [1.0, 25.0, 9.0]);
}

#[test]
fn equal_programs_share_code() {
    let program = || {
        build(|b| {
            let x = b.param(TensorType::new(DType::F64, [2]));
            Ok(vec![b.one(Binary::Mul, &[x, x])?])
        })
    };
    let cache = Cache::new(2);
    cache.compile(&program(), &Options::default()).expect("compiles");
    cache.compile(&program().renamed("other"), &Options::default()).expect("compiles");
    assert_eq!(cache.len(), 1);
    for n in 3..6 {
        let other = build(|b| {
            let x = b.param(TensorType::new(DType::F64, [n]));
            Ok(vec![b.add(x, x)?])
        });
        cache.compile(&other, &Options::default()).expect("compiles");
    }
    assert_eq!(cache.len(), 2);
    cache.clear();
    assert!(cache.is_empty());
}

#[test]
fn long_programs_compile_in_pieces() {
    let program = build(|b| {
        let x = b.param(TensorType::scalar(DType::F64));
        let mut y = x;
        let mut early = Vec::new();
        for i in 0..6000 {
            y = if i % 10 == 0 { b.unary(Unary::Sin, y)? } else { b.mul(y, x)? };
            y = b.add(y, x)?;
            if i % 1000 == 0 {
                early.push(y);
            }
        }
        for value in early {
            y = b.add(y, value)?;
        }
        Ok(vec![y])
    });
    let value = [Array::scalar(0.3f64)];
    let expected = interpret(&program, &value).expect("runs");
    let executable = compile(&program);
    assert!(executable.memory().bytes > 0, "values cross from piece to piece");
    let found = executable.call(&value).expect("runs");
    assert_eq!(found[0].first_difference(&expected[0]), None);
}

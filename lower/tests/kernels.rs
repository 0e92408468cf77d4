//! Kernels as text.

use pullback_ir::ops::contract::dot::Dot;
use pullback_ir::ops::elementwise::unary::Unary;
use pullback_ir::ops::reduce::reduce::Reducer;
use pullback_ir::ops::shape::pad::Pad;
use pullback_ir::{Builder, DType, Program, Shape, TensorType, TypeError, Value};
use pullback_lower::{Options, lower};

fn kernels(f: impl FnOnce(&mut Builder) -> Result<Vec<Value>, TypeError>) -> String {
    let mut b = Builder::new("main");
    let outputs = f(&mut b).expect("well typed");
    let program: Program = b.finish(&outputs);
    lower(&program, &Options::default()).expect("lowers").kernels()
}

#[test]
fn elementwise_ops_and_movement_become_one_loop() {
    insta::assert_snapshot!(kernels(|b| {
        let x = b.param(TensorType::new(DType::F32, [40, 30]));
        let bias = b.param(TensorType::new(DType::F32, [40]));
        let turned = b.transpose(x, &[1, 0])?;
        let bias = b.broadcast(bias, [30, 40], &[1])?;
        let sum = b.add(turned, bias)?;
        Ok(vec![b.unary(Unary::Tanh, sum)?])
    }));
}

#[test]
fn value_and_slope_come_from_one_pass() {
    insta::assert_snapshot!(kernels(|b| {
        let x = b.param(TensorType::new(DType::F64, [10, 100]));
        let y = b.unary(Unary::Exp, x)?;
        let value = b.mul(y, x)?;
        let slope = b.add(value, y)?;
        Ok(vec![value, slope])
    }));
}

#[test]
fn softmax_stores_its_exponentials_while_it_sums_them() {
    insta::assert_snapshot!(kernels(|b| {
        let shape = Shape::new(&[20, 50]);
        let x = b.param(TensorType::new(DType::F32, shape.clone()));
        let max = b.reduce(Reducer::Max, x, &[1])?;
        let max = b.expand(max, &shape, &[1])?;
        let shifted = b.sub(x, max)?;
        let e = b.unary(Unary::Exp, shifted)?;
        let sum = b.reduce_sum(e, &[1])?;
        let sum = b.expand(sum, &shape, &[1])?;
        Ok(vec![b.div(e, sum)?])
    }));
}

#[test]
fn movements_of_gemm_operands_become_strides() {
    insta::assert_snapshot!(kernels(|b| {
        let x = b.param(TensorType::new(DType::F32, [30, 20]));
        let w = b.param(TensorType::new(DType::F32, [40, 30]));
        let (x, w) = (b.transpose(x, &[1, 0])?, b.transpose(w, &[1, 0])?);
        let y = b.dot(Dot::matmul(0), x, w)?;
        Ok(vec![b.unary(Unary::Tanh, y)?])
    }));
}

#[test]
fn small_tensors_live_in_registers() {
    insta::assert_snapshot!(kernels(|b| {
        let x = b.param(TensorType::new(DType::F64, [2]));
        let turned = b.reshape(x, [1, 2])?;
        let square = b.mul(turned, turned)?;
        Ok(vec![b.reduce_sum(square, &[0, 1])?])
    }));
}

#[test]
fn padding_is_a_guarded_load() {
    insta::assert_snapshot!(kernels(|b| {
        let x = b.param(TensorType::new(DType::F32, [100]));
        let zero = b.scalar(0.0f32)?;
        let pad = Pad {
            low: smallvec::smallvec![2],
            high: smallvec::smallvec![0],
            interior: smallvec::smallvec![1],
        };
        let padded = b.one(pad, &[x, zero])?;
        Ok(vec![b.unary(Unary::Neg, padded)?])
    }));
}

//! Short ways to say programs, run them and differentiate them in tests.

use pullback_autodiff::{grad, jvp};
use pullback_ir::sample::{Domain, Sample, SampleOperand};
use pullback_ir::{Builder, DType, Dims, Literal, Program, TensorType, TypeError, Value};
use pullback_runtime::{Array, interpret};

/// What the body of a program gives.
pub(crate) type Body = Result<Vec<Value>, TypeError>;

/// A program with parameters of these types.
pub(crate) fn program(
    name: &str,
    params: &[TensorType],
    body: impl FnOnce(&mut Builder, &[Value]) -> Body,
) -> Program {
    let mut builder = Builder::new(name);
    let params: Vec<Value> = params.iter().map(|ty| builder.param(ty.clone())).collect();
    let outputs = body(&mut builder, &params).unwrap();
    builder.finish(&outputs)
}

/// A program that takes f64 tensors of these shapes.
pub(crate) fn on_f64(shapes: &[&[usize]], body: impl FnOnce(&mut Builder, &[Value]) -> Body) -> Program {
    let types: Vec<TensorType> = shapes.iter().map(|shape| f64s(shape)).collect();
    program("f", &types, body)
}

pub(crate) fn f64s(shape: &[usize]) -> TensorType {
    TensorType::new(DType::F64, shape)
}

pub(crate) fn f32s(shape: &[usize]) -> TensorType {
    TensorType::new(DType::F32, shape)
}

/// An f64 array.
pub(crate) fn array(values: &[f64], shape: &[usize]) -> Array {
    Array::from_slice(values, shape).unwrap()
}

/// An f64 vector.
pub(crate) fn vector(values: &[f64]) -> Array {
    array(values, &[values.len()])
}

/// An f64 scalar.
pub(crate) fn scalar(value: f64) -> Array {
    array(&[value], &[])
}

/// The sum of all elements.
pub(crate) fn sum(b: &mut Builder, x: Value) -> Result<Value, TypeError> {
    let dims: Vec<usize> = (0..b.ty(x).shape.rank()).collect();
    b.reduce_sum(x, &dims)
}

/// The sum of the elements times these weights.
pub(crate) fn weighted(b: &mut Builder, x: Value, weights: &[f64]) -> Result<Value, TypeError> {
    let shape = b.ty(x).shape.clone();
    let weights = b.constant(Literal::dense(weights, shape).unwrap())?;
    let product = b.mul(x, weights)?;
    sum(b, product)
}

/// Elements as numbers; of integer arrays none.
pub(crate) fn floats(array: &Array) -> Vec<f64> {
    match array.dtype() {
        DType::F64 => array.to_vec::<f64>().unwrap(),
        DType::F32 => array.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect(),
        DType::Bool | DType::I32 | DType::I64 | DType::U32 | DType::U64 => Vec::new(),
    }
}

pub(crate) fn run(program: &Program, arguments: &[Array]) -> Vec<Array> {
    interpret(program, arguments).unwrap()
}

/// Reverse-mode gradients.
pub(crate) fn reverse(program: &Program, wrt: &[usize], arguments: &[Array]) -> Vec<Vec<f64>> {
    run(&grad(program, wrt).unwrap(), arguments).iter().map(floats).collect()
}

/// The same gradients by forward mode, one direction after the other.
pub(crate) fn forward(program: &Program, wrt: &[usize], arguments: &[Array]) -> Vec<Vec<f64>> {
    let directional = jvp(program, wrt).unwrap();
    let zeros: Vec<Array> = wrt.iter().map(|&i| Array::zeros(arguments[i].ty().clone()).unwrap()).collect();
    let slope = |i: usize, element: usize| {
        let mut tangents = zeros.clone();
        let basis = (0..zeros[i].elements()).map(|e| if e == element { 1.0 } else { 0.0 });
        tangents[i] = from_floats(&basis.collect::<Vec<f64>>(), zeros[i].ty());
        floats(&run(&directional, &[arguments.to_vec(), tangents].concat())[1])[0]
    };
    (0..wrt.len()).map(|i| (0..zeros[i].elements()).map(|e| slope(i, e)).collect()).collect()
}

/// An array of a float type with these elements, rounded.
pub(crate) fn from_floats(values: &[f64], ty: &TensorType) -> Array {
    let bits = values.iter().map(|&x| Literal::number(TensorType::scalar(ty.dtype), x).bits_at(0)).collect();
    Array::from_literal(&Literal::dense_bits(ty.clone(), bits).unwrap())
}

/// Checks numbers against what is due: `tolerance` relative to the largest of them; NaN equals NaN.
pub(crate) fn compare(what: &str, found: &[f64], due: &[f64], tolerance: f64) -> Result<(), String> {
    let scale = due.iter().filter(|x| x.is_finite()).fold(1.0, |m: f64, x| m.max(x.abs()));
    let close =
        |(a, b): (&f64, &f64)| (a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= tolerance * scale;
    if found.len() == due.len() && found.iter().zip(due).all(close) {
        return Ok(());
    }
    Err(format!("{what}: {found:?}, and {due:?} is due"))
}

/// Checks the gradient with respect to every parameter, in both modes.
#[track_caller]
pub(crate) fn check_gradient(program: &Program, arguments: &[Array], due: &[&[f64]], tolerance: f64) {
    let wrt: Vec<usize> = (0..due.len()).collect();
    for (mode, found) in
        [("reverse", reverse(program, &wrt, arguments)), ("forward", forward(program, &wrt, arguments))]
    {
        for i in wrt.iter().copied() {
            compare(&format!("{mode} mode, parameter {i}"), &found[i], due[i], tolerance).unwrap();
        }
    }
}

/// Arrays with elements in [-1, 1), which depend on the seed.
pub(crate) fn directions(types: &[TensorType], seed: u64) -> Vec<Array> {
    let operand = |ty: &TensorType| SampleOperand::new(ty.clone(), Domain::Uniform(-1.0, 1.0));
    let sample = Sample {
        op: pullback_ir::ops::control::barrier::Barrier.into(),
        operands: types.iter().map(operand).collect(),
        tolerance: 0.0,
    };
    sample.literals(seed).iter().map(Array::from_literal).collect()
}

/// The derivative at 0 of a curve, from central differences with Richardson extrapolation.
pub(crate) fn slope_of(curve: impl Fn(f64) -> Vec<f64>) -> Vec<f64> {
    let step = 1.0 / 512.0;
    let difference = |h: f64| -> Vec<f64> {
        curve(h).iter().zip(curve(-h)).map(|(ahead, behind)| (ahead - behind) / (2.0 * h)).collect()
    };
    let (coarse, fine) = (difference(step), difference(step / 2.0));
    coarse.iter().zip(fine).map(|(coarse, fine)| (4.0 * fine - coarse) / 3.0).collect()
}

/// `arguments` with the f64 ones in `wrt` moved by `t` times the directions.
pub(crate) fn moved(arguments: &[Array], wrt: &[usize], directions: &[Array], t: f64) -> Vec<Array> {
    let mut arguments = arguments.to_vec();
    for (&i, direction) in wrt.iter().zip(directions) {
        let elements = floats(&arguments[i]).into_iter().zip(floats(direction)).map(|(x, d)| x + t * d);
        arguments[i] = from_floats(&elements.collect::<Vec<f64>>(), arguments[i].ty());
    }
    arguments
}

/// Arrays of one type as lanes along an axis.
pub(crate) fn stack(ty: &TensorType, lanes: &[Array], axis: usize) -> Array {
    let mut shape = Dims::from_slice(&ty.shape);
    shape.insert(axis, lanes.len());
    let inner: usize = ty.shape[axis..].iter().product();
    let outer: usize = ty.shape[..axis].iter().product();
    let bits: Vec<Vec<u64>> = lanes.iter().map(|lane| lane.to_literal().bits().collect()).collect();
    let block = |o: usize| bits.iter().flat_map(move |lane| lane[o * inner..(o + 1) * inner].iter().copied());
    let all = (0..outer).flat_map(block).collect();
    Array::from_literal(&Literal::dense_bits(ty.with_shape(&shape[..]), all).unwrap())
}

/// The lane of this number along an axis.
pub(crate) fn lane(array: &Array, axis: usize, number: usize) -> Array {
    let shape = array.shape();
    let inner: usize = shape[axis + 1..].iter().product();
    let is_in = |place: &usize| place / inner % shape[axis] == number;
    let literal = array.to_literal();
    let bits = (0..shape.elements()).filter(is_in).map(|place| literal.bits_at(place)).collect();
    let ty = array.ty().with_shape(shape.without(&[axis]));
    Array::from_literal(&Literal::dense_bits(ty, bits).unwrap())
}

//! The meaning of programs.

use crate::array::{Array, unravel};
use crate::error::{NonFinite, OperandRange, RuntimeError};
use crate::eval;
use crate::eval::control::{Run, branch, forward, looping};
use crate::view::{View, ViewMut};
use pullback_ir::passes::Evaluate;
use pullback_ir::program::Node;
use pullback_ir::{DType, Literal, Loc, Op, Program, Value};
use slotmap::SecondaryMap;
use smallvec::{SmallVec, smallvec};

/// Results of one op.
type Results = SmallVec<[Array; 1]>;

/// Runs a program on arguments of its parameters' types.
pub fn interpret(program: &Program, arguments: &[Array]) -> Result<Vec<Array>, RuntimeError> {
    run(program, arguments.to_vec(), None)
}

/// As [`interpret`], but fails with [`RuntimeError::NonFinite`] at the first op that produces an infinity or NaN.
pub fn interpret_checked(program: &Program, arguments: &[Array]) -> Result<Vec<Array>, RuntimeError> {
    run(program, arguments.to_vec(), Some(&check_finite))
}

/// Evaluates constants for the passes over programs.
pub struct Interpreter;

impl Evaluate for Interpreter {
    fn evaluate(&self, op: &Op, operands: &[Literal]) -> Option<Vec<Literal>> {
        eval::evaluate_literals(op, operands).ok()
    }
}

/// Looks at an op just computed: its operands and results.
type Inspect<'a> = &'a dyn Fn(&Node, &[&Array], &[Array]) -> Result<(), RuntimeError>;

/// Walks the program in order. Nested programs recurse, as deep as programs are nested; nothing else does.
fn run(
    program: &Program,
    arguments: Vec<Array>,
    inspect: Option<Inspect<'_>>,
) -> Result<Vec<Array>, RuntimeError> {
    check_arguments(program, &arguments)?;
    let mut uses = program.use_counts();
    let mut values = SecondaryMap::with_capacity(program.value_count());
    for (&param, argument) in program.params().iter().zip(arguments) {
        if uses[param] > 0 {
            values.insert(param, argument);
        }
    }
    for node in program.nodes() {
        let owned = if inspect.is_none() { owned(node, &mut values, &uses) } else { None };
        let results: Results = match owned {
            Some(operand) => smallvec![in_place(node, operand, &values)?],
            None => {
                let operands: SmallVec<[&Array; 4]> = node.operands.iter().map(|&v| &values[v]).collect();
                let results = step(program, node, &operands, inspect)?;
                if let Some(inspect) = inspect {
                    inspect(node, &operands, &results)?;
                }
                results
            }
        };
        for &operand in &node.operands {
            release(&mut values, &mut uses, operand);
        }
        for (&value, result) in node.results.iter().zip(results) {
            if uses[value] > 0 {
                values.insert(value, result);
            }
        }
    }
    Ok(program.outputs().iter().map(|&v| values[v].clone()).collect())
}

fn check_arguments(program: &Program, arguments: &[Array]) -> Result<(), RuntimeError> {
    let (expected, found) = (program.params().len(), arguments.len());
    if expected != found {
        return Err(RuntimeError::ArgumentCount { program: program.name().into(), expected, found });
    }
    for (index, (&param, argument)) in program.params().iter().zip(arguments).enumerate() {
        let expected = program.ty(param);
        if expected != argument.ty() {
            return Err(RuntimeError::ArgumentType {
                program: program.name().into(),
                index,
                expected: expected.clone(),
                found: argument.ty().clone(),
            });
        }
    }
    Ok(())
}

/// Counts one use; the last one frees the value.
fn release(values: &mut SecondaryMap<Value, Array>, uses: &mut SecondaryMap<Value, u32>, value: Value) {
    uses[value] -= 1;
    if uses[value] == 0 {
        values.remove(value);
    }
}

/// Operand 0 of an op that writes some of its elements anew, if no other op needs it.
fn owned(
    node: &Node,
    values: &mut SecondaryMap<Value, Array>,
    uses: &SecondaryMap<Value, u32>,
) -> Option<Array> {
    let operand = match node.op {
        Op::Scatter(_) | Op::DynamicUpdateSlice(_) => node.operands[0],
        _ => return None,
    };
    if uses[operand] == 1 { values.remove(operand) } else { None }
}

/// The operand with some of its elements written anew, and copied before if the caller of the program has it too.
fn in_place(
    node: &Node,
    mut operand: Array,
    values: &SecondaryMap<Value, Array>,
) -> Result<Array, RuntimeError> {
    let inputs: SmallVec<[View<'_>; 4]> = node.operands[1..].iter().map(|&v| values[v].view()).collect();
    eval::update(&node.op, node.loc, &inputs, &mut [operand.view_mut()])?;
    Ok(operand)
}

/// Computes one op. Ops that only rename elements share them.
fn step(
    program: &Program,
    node: &Node,
    operands: &[&Array],
    inspect: Option<Inspect<'_>>,
) -> Result<Results, RuntimeError> {
    let again: Run<'_> = &|program, arguments| run(program, arguments, inspect);
    match &node.op {
        Op::Reshape(op) => Ok(Results::from_iter([operands[0].reshaped(op.shape.clone())?])),
        Op::Barrier(_) | Op::Offer(_) => Ok(operands.iter().map(|&a| a.clone()).collect()),
        Op::Call(op) => Ok(run(&op.program, shared(operands), inspect)?.into()),
        Op::CustomJvp(op) => Ok(run(&op.program, shared(operands), inspect)?.into()),
        Op::CustomVjp(op) => Ok(run(&op.program, shared(operands), inspect)?.into()),
        Op::CustomLinear(op) => Ok(run(forward(op, node.loc)?, shared(operands), inspect)?.into()),
        Op::Loop(op) => Ok(looping::iterate(op, node.loc, &shared(operands), again)?.into()),
        Op::Branch(op) => Ok(branch(op, &shared(operands), again)?.into()),
        op => {
            let inputs: SmallVec<[View<'_>; 4]> = operands.iter().map(|a| a.view()).collect();
            let results = node.results.iter();
            let mut results: Results = results.map(|&v| Array::unspecified(program.ty(v).clone())).collect();
            let mut outputs: SmallVec<[ViewMut<'_>; 1]> = results.iter_mut().map(Array::view_mut).collect();
            eval::evaluate(op, node.loc, &inputs, &mut outputs)?;
            drop(outputs);
            Ok(results)
        }
    }
}

/// The same arrays, their elements shared.
fn shared(operands: &[&Array]) -> Vec<Array> {
    operands.iter().map(|&array| array.clone()).collect()
}

fn check_finite(node: &Node, operands: &[&Array], results: &[Array]) -> Result<(), RuntimeError> {
    check(node.op.name(), node.loc, operands, results)
}

/// Fails with [`RuntimeError::NonFinite`] if one of the results of an op is an infinity or NaN.
pub fn check_results(
    op: &'static str,
    loc: Loc,
    operands: &[Array],
    results: &[Array],
) -> Result<(), RuntimeError> {
    check(op, loc, &operands.iter().collect::<Vec<_>>(), results)
}

fn check(op: &'static str, loc: Loc, operands: &[&Array], results: &[Array]) -> Result<(), RuntimeError> {
    for (result, array) in results.iter().enumerate() {
        let Some((index, value)) = first_non_finite(array) else { continue };
        let operands = operands.iter().map(|&operand| range(operand)).collect();
        return Err(RuntimeError::NonFinite(Box::new(NonFinite { op, loc, result, index, value, operands })));
    }
    Ok(())
}

/// The first element, in row-major order, that is an infinity or NaN: its index and value. Only floats have such.
pub fn first_non_finite(array: &Array) -> Option<(Vec<usize>, f64)> {
    let (position, value) = floats(array).enumerate().find(|(_, x)| !x.is_finite())?;
    Some((unravel(position, array.shape()), value))
}

fn range(array: &Array) -> OperandRange {
    let widen = |range: Option<(f64, f64)>, x: f64| match range {
        None => Some((x, x)),
        Some((least, greatest)) => Some((least.min(x), greatest.max(x))),
    };
    OperandRange {
        ty: array.ty().clone(),
        range: floats(array).filter(|x| x.is_finite()).fold(None, widen),
        non_finite: floats(array).filter(|x| !x.is_finite()).count(),
    }
}

/// The elements of an array of floats; none for other arrays.
fn floats(array: &Array) -> Box<dyn Iterator<Item = f64> + '_> {
    match array.dtype() {
        DType::F32 => Box::new(array.as_slice::<f32>().into_iter().flatten().map(|&x| x.into())),
        DType::F64 => Box::new(array.as_slice::<f64>().into_iter().flatten().copied()),
        DType::Bool | DType::I32 | DType::I64 | DType::U32 | DType::U64 => Box::new(std::iter::empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pullback_ir::ops::control::barrier::Barrier;
    use pullback_ir::ops::control::call::Call;
    use pullback_ir::ops::elementwise::binary::Binary;
    use pullback_ir::ops::elementwise::unary::Unary;
    use pullback_ir::ops::index::IndexMode;
    use pullback_ir::ops::index::dynamic_update_slice::DynamicUpdateSlice;
    use pullback_ir::ops::shape::reshape::Reshape;
    use pullback_ir::{Builder, Shape, TensorType};
    use std::sync::Arc;

    fn vector(n: usize) -> TensorType {
        TensorType::new(DType::F64, [n])
    }

    /// `log(x * y)` and `x`.
    fn program() -> Program {
        let mut b = Builder::new("f");
        let (x, y) = (b.param(vector(2)), b.param(vector(2)));
        b.set_loc(Loc { file: "model.rs", line: 31, column: 5, via: None });
        let product = b.mul(x, y).unwrap();
        let log = b.unary(Unary::Log, product).unwrap();
        b.finish(&[log, x, log])
    }

    #[test]
    fn runs_in_order() {
        let (x, y) = (Array::from([1.0, 2.0]), Array::from([1.0, 0.5]));
        let outputs = interpret(&program(), &[x.clone(), y]).unwrap();
        assert!(outputs[0].bits_equal(&Array::from([0.0, 0.0])));
        assert!(outputs[1].bits_equal(&x) && outputs[2].bits_equal(&outputs[0]));
    }

    #[test]
    fn arguments_are_checked() {
        let x = Array::from([1.0, 2.0]);
        let count = interpret(&program(), &[x.clone()]).unwrap_err();
        assert_eq!(count, RuntimeError::ArgumentCount { program: "f".into(), expected: 2, found: 1 });
        let ty = interpret(&program(), &[x, Array::from([1.0f32, 2.0])]).unwrap_err();
        assert_eq!(ty.to_string(), "argument 1 of @f has type f32[2] and must have f64[2]");
    }

    #[test]
    fn checked_runs_name_the_first_bad_op() {
        let arguments = [Array::from([1.0, 2.0]), Array::from([1.0, -3.0])];
        assert!(interpret(&program(), &arguments).is_ok());
        let Err(RuntimeError::NonFinite(found)) = interpret_checked(&program(), &arguments) else {
            panic!("log")
        };
        assert_eq!((found.op, found.loc.line, found.result, &found.index[..]), ("log", 31, 0, &[1][..]));
        assert!(found.value.is_nan());
        assert_eq!(found.operands[0].range, Some((-6.0, 1.0)));
        let text = found.to_string();
        assert!(text.contains("log at model.rs:31:5") && text.contains("f64[2] in [-6, 1]"), "{text}");
    }

    #[test]
    fn renaming_ops_share_elements_and_calls_nest() {
        let mut b = Builder::new("inner");
        let x = b.param(vector(4));
        let matrix = b.one(Reshape { shape: Shape::new(&[2, 2]) }, &[x]).unwrap();
        let kept = b.one(Barrier, &[matrix]).unwrap();
        let inner = Arc::new(b.finish(&[kept]));
        let mut b = Builder::new("outer");
        let x = b.param(vector(4));
        let y = b.one(Call::new(inner.clone()), &[x]).unwrap();
        let outer = b.finish(&[y]);
        let x = Array::from([1.0, 2.0, 3.0, 4.0]);
        let y = interpret(&outer, &[x.clone()]).unwrap().remove(0);
        assert_eq!(y.as_slice::<f64>().unwrap().as_ptr(), x.as_slice::<f64>().unwrap().as_ptr());
        let by_evaluation = eval::evaluate_arrays(&Call::new(inner).into(), Loc::UNKNOWN, &[x]).unwrap();
        assert!(by_evaluation[0].bits_equal(&y));
    }

    #[test]
    fn what_nobody_else_needs_is_written_in_place() {
        let mut b = Builder::new("f");
        let (x, at, one) = (b.param(vector(4)), b.scalar(2i64).unwrap(), b.param(vector(1)));
        let op = DynamicUpdateSlice { mode: IndexMode::Checked };
        let first = b.one(op.clone(), &[x, one, at]).unwrap();
        let second = b.one(op, &[first, one, at]).unwrap();
        let sum = b.add(first, second).unwrap();
        let program = b.finish(&[sum]);
        let updates: Vec<&Node> = program.nodes().filter(|node| node.operands.len() == 3).collect();
        let uses = program.use_counts();
        let value = || Array::zeros(vector(4)).unwrap();
        let mut values: SecondaryMap<Value, Array> = [(x, value()), (first, value())].into_iter().collect();
        values.extend([(one, Array::from([7.0])), (at, Array::from(2i64))]);
        // What the first update gives is needed once more after the second.
        assert!(owned(updates[1], &mut values, &uses).is_none());
        let caller = values[x].clone();
        let operand = owned(updates[0], &mut values, &uses).expect("no other op needs it");
        let result = in_place(updates[0], operand, &values).unwrap();
        assert!(caller.bits_equal(&value()) && !result.bits_equal(&caller));
        values.insert(x, value());
        let operand = owned(updates[0], &mut values, &uses).expect("nobody else needs it");
        let place = operand.as_slice::<f64>().unwrap().as_ptr();
        let result = in_place(updates[0], operand, &values).unwrap();
        assert_eq!(result.as_slice::<f64>().unwrap(), [0.0, 0.0, 7.0, 0.0]);
        assert_eq!(result.as_slice::<f64>().unwrap().as_ptr(), place);
    }

    #[test]
    fn values_are_freed_at_their_last_use() {
        let n = 1 << 16;
        let mut b = Builder::new("chain");
        let mut x = b.param(vector(n));
        for i in 0..2000 {
            x = b.one(if i % 2 == 0 { Binary::Add } else { Binary::Sub }, &[x, x]).unwrap();
        }
        // All values together would take a gigabyte; the pool would show it.
        let program = b.finish(&[x]);
        let argument = Array::zeros(vector(n)).unwrap();
        let before = crate::pool::statistics();
        interpret(&program, &[argument]).unwrap();
        let after = crate::pool::statistics();
        assert!(after.fresh - before.fresh < 500, "{before:?} {after:?}");
    }

    #[test]
    fn a_million_ops_need_little_stack() {
        let mut b = Builder::new("long");
        let mut x = b.param(TensorType::scalar(DType::F64));
        let one = b.scalar(1.0f64).unwrap();
        for _ in 0..1_000_000 {
            x = b.add(x, one).unwrap();
        }
        let program = b.finish(&[x]);
        let thread = std::thread::Builder::new().stack_size(1 << 18);
        let result = thread.spawn(move || interpret(&program, &[Array::from(0.0)])).unwrap().join().unwrap();
        assert_eq!(result.unwrap()[0].item::<f64>(), Ok(1e6));
    }
}

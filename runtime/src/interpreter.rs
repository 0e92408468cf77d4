//! The meaning of programs.

use crate::array::{Array, unravel};
use crate::error::{NonFinite, OperandRange, RuntimeError};
use crate::eval;
use crate::view::{View, ViewMut};
use pullback_ir::program::Node;
use pullback_ir::{DType, Op, Program, Value};
use slotmap::SecondaryMap;
use smallvec::SmallVec;

/// Results of one op.
type Results = SmallVec<[Array; 1]>;

/// Runs a program on arguments of its parameters' types.
pub fn interpret(program: &Program, arguments: &[Array]) -> Result<Vec<Array>, RuntimeError> {
    run(program, arguments, &|_, _, _| Ok(()))
}

/// As [`interpret`], but fails with [`RuntimeError::NonFinite`] at the first op that produces an infinity or NaN.
pub fn interpret_checked(program: &Program, arguments: &[Array]) -> Result<Vec<Array>, RuntimeError> {
    run(program, arguments, &check_finite)
}

/// Looks at an op just computed: its operands and results.
type Inspect<'a> = &'a dyn Fn(&Node, &[&Array], &[Array]) -> Result<(), RuntimeError>;

/// Walks the program in order. Calls recurse, as deep as programs are nested; nothing else does.
fn run(program: &Program, arguments: &[Array], inspect: Inspect<'_>) -> Result<Vec<Array>, RuntimeError> {
    check_arguments(program, arguments)?;
    let mut uses = program.use_counts();
    let mut values = SecondaryMap::with_capacity(program.value_count());
    for (&param, argument) in program.params().iter().zip(arguments) {
        if uses[param] > 0 {
            values.insert(param, argument.clone());
        }
    }
    for node in program.nodes() {
        let results = {
            let operands: SmallVec<[&Array; 4]> = node.operands.iter().map(|&v| &values[v]).collect();
            let results = step(program, node, &operands, inspect)?;
            inspect(node, &operands, &results)?;
            results
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

/// Computes one op. Ops that only rename elements share them.
fn step(
    program: &Program,
    node: &Node,
    operands: &[&Array],
    inspect: Inspect<'_>,
) -> Result<Results, RuntimeError> {
    match &node.op {
        Op::Reshape(op) => Ok(Results::from_iter([operands[0].reshaped(op.shape.clone())?])),
        Op::Barrier(_) => Ok(operands.iter().map(|&a| a.clone()).collect()),
        Op::Call(op) => {
            let arguments: Vec<Array> = operands.iter().map(|&a| a.clone()).collect();
            Ok(run(&op.program, &arguments, inspect)?.into())
        }
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

fn check_finite(node: &Node, operands: &[&Array], results: &[Array]) -> Result<(), RuntimeError> {
    for (i, result) in results.iter().enumerate() {
        let Some((position, value)) = floats(result).enumerate().find(|(_, x)| !x.is_finite()) else {
            continue;
        };
        return Err(RuntimeError::NonFinite(Box::new(NonFinite {
            op: node.op.name(),
            loc: node.loc,
            result: i,
            index: unravel(position, result.shape()),
            value,
            operands: operands.iter().map(|&operand| range(operand)).collect(),
        })));
    }
    Ok(())
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

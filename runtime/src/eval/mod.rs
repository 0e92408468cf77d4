//! The plain meaning of each op, at the op's own path: `ir/src/ops/index/gather.rs` is evaluated by
//! `eval/index/gather.rs`. Elementwise ops run their scalar definition; the others are one plain loop each and never
//! use the op's lowering recipe, so that a wrong recipe cannot pass on both sides.

use crate::array::Array;
use crate::error::RuntimeError;
use crate::view::{View, ViewMut};
use pullback_ir::{Literal, Loc, Op, Problem, TypeError};

pub mod control;

mod contract;
mod elementwise;
mod index;
mod leaf;
mod offsets;
mod reduce;
mod shape;

/// Computes one op. The operands have types that the op accepts, and the outputs those it infers; what the outputs
/// hold before does not matter. After an error they hold anything valid.
pub fn evaluate(
    op: &Op,
    loc: Loc,
    inputs: &[View<'_>],
    outputs: &mut [ViewMut<'_>],
) -> Result<(), RuntimeError> {
    match op {
        Op::Constant(op) => leaf::constant::evaluate(op, &mut outputs[0]),
        Op::Iota(op) => leaf::iota::evaluate(op, &mut outputs[0])?,
        Op::Unary(op) => elementwise::unary::evaluate(*op, &inputs[0], &mut outputs[0])?,
        Op::Binary(op) => elementwise::binary::evaluate(*op, inputs, &mut outputs[0])?,
        Op::Compare(op) => elementwise::compare::evaluate(*op, inputs, &mut outputs[0])?,
        Op::Select(_) => elementwise::select::evaluate(inputs, &mut outputs[0])?,
        Op::Convert(_) => elementwise::convert::evaluate(&inputs[0], &mut outputs[0])?,
        Op::Bitcast(_) => elementwise::bitcast::evaluate(&inputs[0], &mut outputs[0])?,
        Op::ScaleBy(_) => elementwise::scale_by::evaluate(inputs, &mut outputs[0])?,
        Op::IntegerPow(op) => elementwise::integer_pow::evaluate(*op, &inputs[0], &mut outputs[0])?,
        Op::Reshape(_) => outputs[0].copy_from(&inputs[0]),
        Op::Transpose(op) => shape::transpose::evaluate(op, &inputs[0], &mut outputs[0]),
        Op::Broadcast(op) => shape::broadcast::evaluate(op, &inputs[0], &mut outputs[0]),
        Op::Slice(op) => shape::slice::evaluate(op, &inputs[0], &mut outputs[0]),
        Op::Pad(op) => shape::pad::evaluate(op, inputs, &mut outputs[0]),
        Op::Concat(op) => shape::concat::evaluate(op, inputs, &mut outputs[0]),
        Op::Reverse(op) => shape::reverse::evaluate(op, &inputs[0], &mut outputs[0]),
        Op::Reduce(op) => reduce::reduce::evaluate(op, &inputs[0], &mut outputs[0])?,
        Op::ArgReduce(op) => reduce::arg_reduce::evaluate(op, &inputs[0], &mut outputs[0])?,
        Op::Dot(op) => contract::dot::evaluate(op, inputs, &mut outputs[0])?,
        Op::Gather(op) => index::gather::evaluate(op, loc, inputs, &mut outputs[0])?,
        Op::Scatter(op) => index::scatter::evaluate(op, loc, inputs, &mut outputs[0])?,
        Op::DynamicSlice(op) => index::dynamic_slice::evaluate(op, loc, inputs, &mut outputs[0])?,
        Op::DynamicUpdateSlice(op) => {
            index::dynamic_update_slice::evaluate(op, loc, inputs, &mut outputs[0])?
        }
        Op::Call(op) => {
            control::evaluate(inputs, outputs, |operands, run| run(&op.program, operands.to_vec()))?
        }
        Op::CustomJvp(op) => {
            control::evaluate(inputs, outputs, |operands, run| run(&op.program, operands.to_vec()))?
        }
        Op::CustomVjp(op) => {
            control::evaluate(inputs, outputs, |operands, run| run(&op.program, operands.to_vec()))?
        }
        Op::CustomLinear(op) => {
            let program = control::forward(op, loc)?;
            control::evaluate(inputs, outputs, |operands, run| run(program, operands.to_vec()))?
        }
        Op::Loop(op) => control::evaluate(inputs, outputs, |operands, run| {
            control::looping::iterate(op, loc, operands, run)
        })?,
        Op::Branch(op) => {
            control::evaluate(inputs, outputs, |operands, run| control::branch(op, operands, run))?
        }
        Op::CustomCall(op) => control::custom_call::evaluate(op, loc, inputs, outputs)?,
        Op::Barrier(_) | Op::Offer(_) => {
            outputs.iter_mut().zip(inputs).for_each(|(output, input)| output.copy_from(input))
        }
    }
    Ok(())
}

/// Computes an op whose result is operand 0 with some elements written anew, where the output holds operand 0 already.
/// `inputs` are the other operands. After an error the output holds anything valid.
pub fn update(
    op: &Op,
    loc: Loc,
    inputs: &[View<'_>],
    outputs: &mut [ViewMut<'_>],
) -> Result<(), RuntimeError> {
    match op {
        Op::Scatter(op) => index::scatter::update(op, loc, inputs, &mut outputs[0]),
        Op::DynamicUpdateSlice(op) => index::dynamic_update_slice::update(op, loc, inputs, &mut outputs[0]),
        op => unreachable!("{} computes all of its result", op.name()),
    }
}

/// Computes one op on constants: what constant folding calls.
pub fn evaluate_literals(op: &Op, operands: &[Literal]) -> Result<Vec<Literal>, RuntimeError> {
    let arrays: Vec<Array> = operands.iter().map(Array::from_literal).collect();
    Ok(evaluate_arrays(op, Loc::UNKNOWN, &arrays)?.iter().map(Array::to_literal).collect())
}

/// Computes one op on arrays, after checking their types.
pub fn evaluate_arrays(op: &Op, loc: Loc, operands: &[Array]) -> Result<Vec<Array>, RuntimeError> {
    let types: Vec<_> = operands.iter().map(Array::ty).collect();
    let results = op.infer(&types).map_err(|problem| type_error(op, loc, operands, problem))?;
    if let Some(large) = results.iter().find(|ty| ty.shape.checked_len().is_none()) {
        return Err(type_error(op, loc, operands, Problem::TooLarge { shape: large.shape.clone() }));
    }
    let mut outputs: Vec<Array> = results.into_iter().map(Array::unspecified).collect();
    let inputs: Vec<View<'_>> = operands.iter().map(Array::view).collect();
    let mut views: Vec<ViewMut<'_>> = outputs.iter_mut().map(Array::view_mut).collect();
    evaluate(op, loc, &inputs, &mut views)?;
    Ok(outputs)
}

fn type_error(op: &Op, loc: Loc, operands: &[Array], problem: Problem) -> RuntimeError {
    let operands = operands.iter().map(|a| a.ty().clone()).collect();
    RuntimeError::Type(TypeError { op: op.name().into(), operands, problem: Box::new(problem), loc })
}

#[cfg(test)]
mod testing {
    use super::*;

    /// The only result of an op.
    pub(super) fn one(op: impl Into<Op>, operands: &[Array]) -> Array {
        let op = op.into();
        evaluate_arrays(&op, Loc::UNKNOWN, operands).unwrap_or_else(|error| panic!("{error}")).remove(0)
    }

    /// Fails unless the arrays have the same bits.
    #[track_caller]
    pub(super) fn check(found: Array, expected: impl Into<Array>) {
        let expected = expected.into();
        if let Some(difference) = found.first_difference(&expected) {
            panic!("{difference}\nfound {found:?}\nexpected {expected:?}");
        }
    }

    /// A deterministic sequence of words.
    pub(super) fn words(n: usize) -> Vec<u64> {
        let mut state = 0x9E37_79B9_7F4A_7C15u64;
        let next = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        (0..n).map(next).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::set_threads;
    use pullback_ir::ops::control::custom_call::SAMPLE_TARGET;
    use pullback_ir::ops::leaf::iota::Iota;
    use pullback_ir::{DType, TensorType};

    /// Every sample of every op, on one thread and on two: results of the inferred types with the same bits.
    #[test]
    fn samples_give_the_same_bits_on_any_number_of_threads() {
        control::custom_call::register(SAMPLE_TARGET, 1, |_, inputs, outputs| {
            let x = inputs[0].as_slice::<f64>().map_err(|e| e.to_string())?;
            let y = outputs[0].as_mut_slice::<f64>().map_err(|e| e.to_string())?;
            y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
            Ok(())
        });
        for sample in Op::ALL.iter().flat_map(|family| (family.samples)()) {
            let operands: Vec<Array> = sample.literals(1).iter().map(Array::from_literal).collect();
            let types: Vec<&TensorType> = operands.iter().map(Array::ty).collect();
            let expected = sample.op.infer(&types).unwrap();
            let run = |threads| {
                set_threads(threads);
                evaluate_arrays(&sample.op, Loc::UNKNOWN, &operands)
                    .unwrap_or_else(|error| panic!("{:?}: {error}", sample.op))
            };
            let (one, two) = (run(1), run(2));
            assert_eq!(one.len(), expected.len());
            for ((one, two), ty) in one.iter().zip(&two).zip(&expected) {
                assert_eq!(one.ty(), ty, "{:?}", sample.op);
                assert!(one.bits_equal(two), "{:?}", sample.op);
            }
        }
    }

    #[test]
    fn operands_are_checked() {
        let wrong = evaluate_arrays(
            &Op::Iota(Iota { ty: TensorType::scalar(DType::I32), dim: 0 }),
            Loc::UNKNOWN,
            &[],
        );
        assert!(matches!(wrong, Err(RuntimeError::Type(_))));
        let huge = Iota { ty: TensorType::new(DType::I32, [1 << 40, 1 << 20]), dim: 0 };
        assert!(matches!(evaluate_arrays(&huge.into(), Loc::UNKNOWN, &[]), Err(RuntimeError::Type(_))));
    }

    #[test]
    fn literals_fold() {
        let op = Op::from(pullback_ir::ops::elementwise::binary::Binary::Add);
        let sum = evaluate_literals(&op, &[Literal::scalar(1.5f32), Literal::scalar(2.0f32)]).unwrap();
        assert_eq!(sum, [Literal::scalar(3.5f32)]);
    }
}

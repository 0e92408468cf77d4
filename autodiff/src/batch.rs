//! Batching: one walk over a program that does the work of every lane at once. What is the same in every lane is done
//! once.

use crate::control::nested::Nested;
use crate::control::{branch, call, custom_call, custom_rule, custom_vjp, lanes};
use crate::error::AdError;
use crate::linearize::{Failure, derived};
use crate::options::Autodiff;
use pullback_ir::batch::{BatchedValues, inserted};
use pullback_ir::ops::Op;
use pullback_ir::{Batched, Batcher, Builder, Node, Problem, Program, Shape, TensorType, TypeError, Value};
use slotmap::SecondaryMap;
use smallvec::SmallVec;

impl Autodiff {
    /// The program on `size` lanes. Parameter `i` has its lanes along axis `in_axes[i]`, or is the same in every lane
    /// (`None`); so for outputs and `out_axes`, where only an output that does not differ from lane to lane may be
    /// given none. Each lane is, op by op, what the program gives on the arguments of that lane.
    ///
    /// An op whose operands are the same in every lane is done once, whatever the number of lanes, also if there are
    /// none. An index out of range in any lane fails the call.
    pub fn batch(
        &self,
        program: &Program,
        in_axes: &[Option<usize>],
        out_axes: &[Option<usize>],
        size: usize,
    ) -> Result<Program, AdError> {
        check_axes(program, "parameter", program.params(), in_axes)?;
        check_axes(program, "output", program.outputs(), out_axes)?;
        let (mut builder, args) = lane_params(program, in_axes, size)?;
        let outputs = batch_values(self, &mut Nested::default(), &mut builder, program, &args, size)?;
        let mut batcher = Batcher { builder: &mut builder, size };
        let mut found = Vec::with_capacity(outputs.len());
        for (index, (output, axis)) in outputs.into_iter().zip(out_axes).enumerate() {
            found.push(match (*axis, output.axis) {
                (Some(axis), _) => batcher.at(output, axis)?,
                (None, None) => output.value,
                (None, Some(_)) => {
                    return Err(AdError::LanesWithoutAxis { index, program: program.name().to_string() });
                }
            });
        }
        Ok(builder.finish(&found))
    }

    /// Emits a program on `size` lanes of these arguments and returns its outputs, their lanes wherever they are.
    pub fn batch_into(
        &self,
        builder: &mut Builder,
        program: &Program,
        args: &[Batched],
        size: usize,
    ) -> Result<Vec<Batched>, AdError> {
        let due = program.params();
        if due.len() != args.len() {
            return Err(AdError::WrongCount { what: "arguments", expected: due.len(), found: args.len() });
        }
        for (index, (&param, arg)) in due.iter().zip(args).enumerate() {
            let (lane, found) = (program.ty(param), builder.ty(arg.value));
            if lane_type(found, arg.axis, size).as_ref() != Some(lane) {
                let (expected, found) = (lane.clone(), found.clone());
                return Err(AdError::WrongType { what: "lane of argument", index, expected, found });
            }
        }
        batch_values(self, &mut Nested::default(), builder, program, args, size)
    }
}

/// [`Autodiff::batch`] without contracts.
pub fn batch(
    program: &Program,
    in_axes: &[Option<usize>],
    out_axes: &[Option<usize>],
    size: usize,
) -> Result<Program, AdError> {
    Autodiff::default().batch(program, in_axes, out_axes, size)
}

/// The type of one lane of a value whose lanes lie along `axis`, if it has `size` of them there.
pub(crate) fn lane_type(ty: &TensorType, axis: Option<usize>, size: usize) -> Option<TensorType> {
    match axis {
        None => Some(ty.clone()),
        Some(axis) if ty.shape.get(axis) == Some(&size) => Some(ty.with_extents(ty.shape.without(&[axis]))),
        Some(_) => None,
    }
}

fn check_axes(
    program: &Program,
    what: &'static str,
    values: &[Value],
    axes: &[Option<usize>],
) -> Result<(), AdError> {
    if values.len() != axes.len() {
        let what = if what == "parameter" { "axes of parameters" } else { "axes of outputs" };
        return Err(AdError::WrongCount { what, expected: values.len(), found: axes.len() });
    }
    for (index, (&value, &axis)) in values.iter().zip(axes).enumerate() {
        let ty = program.ty(value);
        if let Some(axis) = axis.filter(|&axis| axis > ty.shape.rank()) {
            let (ty, program) = (ty.clone(), program.name().to_string());
            return Err(AdError::LaneAxis { what, index, ty, axis, program });
        }
    }
    Ok(())
}

/// A builder with the parameters of a program, on lanes along these axes.
fn lane_params(
    program: &Program,
    axes: &[Option<usize>],
    size: usize,
) -> Result<(Builder, Vec<Batched>), AdError> {
    let mut builder = Builder::new(&format!("{}_batch", program.name()));
    let mut params = Vec::with_capacity(axes.len());
    for (&param, &axis) in program.params().iter().zip(axes) {
        let lane = program.ty(param);
        let ty = match axis {
            Some(axis) => lane.with_extents(inserted(&lane.shape, axis, size).into_iter().collect::<Shape>()),
            None => lane.clone(),
        };
        if ty.shape.checked_len().is_none() {
            let problem = Box::new(Problem::TooLarge { shape: ty.shape });
            let (op, operands) = ("batch".to_string(), vec![lane.clone()]);
            return Err(AdError::Type(TypeError { op, operands, problem, loc: builder.loc() }));
        }
        params.push(Batched { value: builder.param(ty), axis });
    }
    Ok((builder, params))
}

/// A program on lanes as a program, and where the lanes of its outputs are.
pub(crate) fn batch_program(
    autodiff: &Autodiff,
    nested: &mut Nested,
    program: &Program,
    axes: &[Option<usize>],
    size: usize,
) -> Result<(Program, Vec<Option<usize>>), AdError> {
    let (mut builder, args) = lane_params(program, axes, size)?;
    let outputs = batch_values(autodiff, nested, &mut builder, program, &args, size)?;
    let values: Vec<Value> = outputs.iter().map(|output| output.value).collect();
    Ok((builder.finish(&values), outputs.into_iter().map(|output| output.axis).collect()))
}

fn batch_values(
    autodiff: &Autodiff,
    nested: &mut Nested,
    builder: &mut Builder,
    program: &Program,
    args: &[Batched],
    size: usize,
) -> Result<Vec<Batched>, AdError> {
    let outer = builder.loc();
    let mut values: SecondaryMap<Value, Batched> =
        program.params().iter().copied().zip(args.iter().copied()).collect();
    for node in program.nodes() {
        let operands: SmallVec<[Batched; 4]> = node.operands.iter().map(|&v| values[v]).collect();
        let mut batcher = Batcher { builder: &mut *builder, size };
        let results = batch_node(autodiff, nested, &mut batcher, node, &operands);
        let results = results.map_err(|failure| failure.at(node))?;
        for (&value, result) in node.results.iter().zip(results) {
            debug_assert_eq!(
                lane_type(builder.ty(result.value), result.axis, size).as_ref(),
                Some(program.ty(value)),
                "lane of {:?}",
                node.op
            );
            values.insert(value, result);
        }
    }
    builder.set_loc(outer);
    Ok(program.outputs().iter().map(|&v| values[v]).collect())
}

fn batch_node(
    autodiff: &Autodiff,
    nested: &mut Nested,
    batcher: &mut Batcher<'_>,
    node: &Node,
    args: &[Batched],
) -> Result<BatchedValues, Failure> {
    if args.iter().all(|arg| arg.axis.is_none()) {
        batcher.builder.set_loc(node.loc);
        return Ok(batcher.unbatched(node.op.clone(), args)?);
    }
    batcher.builder.set_loc(derived(node, "batch"));
    Ok(match &node.op {
        Op::Call(call) => {
            let axes: Vec<Option<usize>> = args.iter().map(|arg| arg.axis).collect();
            let lanes = nested.batched(autodiff, &call.program, &axes, batcher.size)?;
            call::batch(&lanes, call, batcher, args)?
        }
        Op::Loop(op) => lanes::batch(autodiff, nested, op, batcher, args)?,
        Op::Branch(op) => branch::batch(autodiff, nested, op, batcher, args)?,
        Op::CustomJvp(op) => custom_rule::batch_jvp(autodiff, nested, op, batcher, args)?,
        Op::CustomVjp(op) => custom_vjp::batch(autodiff, nested, op, batcher, args)?,
        Op::CustomLinear(op) => custom_vjp::batch_linear(autodiff, nested, op, batcher, args)?,
        Op::CustomCall(call) => custom_call::batch(&autodiff.contracts, call, batcher, args)?,
        op => op.batch(batcher, args)?,
    })
}

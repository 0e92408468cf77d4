//! Loops cut into chunks: two nested loops, of which the outer one keeps its carry for the derivative, and the inner one,
//! a chunk of iterations, is checkpointed.
//!
//! Iterations run in the same order as in one loop, and sums of cotangents go through them in the same order backwards,
//! so that values and gradients have the same bits. The last chunk of a counted loop may be shorter than the others; it
//! is an arm of a branch, since all chunks have slices of one size.

use crate::apply::{apply_all, apply_program};
use crate::error::Error;
use crate::tensor::Tensor;
use crate::transform::forward::leaf_types;
use pullback_ir::ops::control::branch::Branch;
use pullback_ir::ops::control::call::{Call, Keep};
use pullback_ir::ops::control::looping::{Loop, Trip};
use pullback_ir::ops::elementwise::binary::Binary;
use pullback_ir::ops::elementwise::compare::Compare;
use pullback_ir::ops::elementwise::unary::Unary;
use pullback_ir::ops::shape::pad::Pad;
use pullback_ir::{Builder, DType, Loc, Program, TensorType, TypeError, Value};
use std::sync::Arc;

/// The results of a loop, cut into chunks if it is to be.
pub(super) fn apply_loop(
    function: &'static str,
    op: Loop,
    operands: &[&Tensor],
    chunks: Option<Chunks>,
    at: Loc,
) -> Result<Vec<Tensor>, Error> {
    match chunks {
        None => apply_all(op.into(), operands, at),
        Some(Chunks::Every(0)) => {
            let text =
                "checkpoints every 0 iterations are none; give at least 1, or let checkpoint_sqrt choose";
            Err(Error::invalid(function, text, at))
        }
        Some(chunks) => apply_program(&chunked(&op, &leaf_types(operands)?, chunks)?, operands, at),
    }
}

/// How a loop is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chunks {
    /// So many iterations each.
    Every(usize),
    /// About as many chunks as there are iterations in each.
    Sqrt,
}

/// The loop in chunks, as a program from its operands to its results, of which a `while` loop loses the count. Loops
/// whose iterations are counted when they run have neither xs nor ys.
fn chunked(op: &Loop, operands: &[TensorType], chunks: Chunks) -> Result<Program, TypeError> {
    let mut builder = Builder::new("chunked");
    let operands: Vec<Value> = operands.iter().map(|ty| builder.param(ty.clone())).collect();
    let results = match &op.trip {
        Trip::Count(count) => counted(&mut builder, op, *count, &operands, chunks)?,
        Trip::Each => builder.emit(op.clone(), &operands)?.to_vec(),
        Trip::Times => timed(&mut builder, op, &operands, chunks)?,
        Trip::While(condition) => conditional(&mut builder, op, condition, &operands, chunks)?,
    };
    Ok(builder.finish(&results))
}

/// Types of the values.
fn types(builder: &Builder, values: &[Value]) -> Vec<TensorType> {
    values.iter().map(|&v| builder.ty(v).clone()).collect()
}

/// A program of parameters of these types.
fn program(
    name: &str,
    types: &[TensorType],
    emit: impl FnOnce(&mut Builder, &[Value]) -> Result<Vec<Value>, TypeError>,
) -> Result<Arc<Program>, TypeError> {
    let mut builder = Builder::new(name);
    let params: Vec<Value> = types.iter().map(|ty| builder.param(ty.clone())).collect();
    let outputs = emit(&mut builder, &params)?;
    Ok(Arc::new(builder.finish(&outputs)))
}

/// A checkpointed call.
fn checkpointed(
    builder: &mut Builder,
    program: Arc<Program>,
    operands: &[Value],
) -> Result<Vec<Value>, TypeError> {
    Ok(builder.emit(Call { program, checkpoint: Some(Keep::Nothing) }, operands)?.to_vec())
}

/// The root, rounded up.
fn root(count: usize) -> usize {
    count.isqrt() + usize::from(count.isqrt().pow(2) < count)
}

fn counted(
    builder: &mut Builder,
    op: &Loop,
    count: usize,
    operands: &[Value],
    chunks: Chunks,
) -> Result<Vec<Value>, TypeError> {
    let size = match chunks {
        Chunks::Every(size) => size,
        Chunks::Sqrt => root(count),
    };
    if size >= count {
        return Ok(builder.emit(op.clone(), operands)?.to_vec());
    }
    let (whole, rest) = (count.div_ceil(size), count % size);
    let invariant = op.consts + op.carries;
    // Slices of each chunk.
    let mut args = operands[..invariant].to_vec();
    for &x in &operands[invariant..] {
        let x = resized(builder, x, whole * size)?;
        let shape = builder.ty(x).shape[1..].to_vec();
        args.push(builder.reshape(x, &[&[whole, size][..], &shape].concat()[..])?);
    }
    let slices: Vec<TensorType> =
        args[invariant..].iter().map(|&x| builder.ty(x).with_shape(&builder.ty(x).shape[1..])).collect();
    let passed = [types(builder, &operands[..invariant]), slices].concat();
    let all = Loop { trip: Trip::Count(size), ..op.clone() };
    let full = program("chunk", &passed, |b, p| Ok(b.emit(all, p)?.to_vec()))?;
    let body = if rest == 0 {
        program("chunks", &passed, |b, p| checkpointed(b, full, p))?
    } else {
        // One more x says which chunk is the short one.
        let number = builder.iota(TensorType::new(DType::I64, [whole]), 0)?;
        let last = builder.number_like(number, (whole - 1) as f64)?;
        let is_last = builder.compare(Compare::Eq, number, last)?;
        args.push(builder.convert(is_last, DType::I32)?);
        let short = program("short_chunk", &passed, |b, p| short_chunk(b, op, p, rest, size))?;
        let index = TensorType::scalar(DType::I32);
        program("chunks", &[&passed[..], &[index]].concat(), |b, p| {
            let (index, args) = (p[p.len() - 1], &p[..p.len() - 1]);
            let index_first = [&[index], args].concat();
            let choice = Branch { arms: vec![full, short] };
            let types = types(b, &index_first);
            let either = program("either", &types, |b, p| Ok(b.emit(choice, p)?.to_vec()))?;
            checkpointed(b, either, &index_first)
        })?
    };
    let results = builder.emit(Loop { trip: Trip::Count(whole), body, ..op.clone() }, &args)?;
    let mut results = results.to_vec();
    for y in &mut results[op.carries..] {
        let shape = builder.ty(*y).shape[2..].to_vec();
        *y = builder.reshape(*y, &[&[whole * size][..], &shape].concat()[..])?;
        *y = resized(builder, *y, count)?;
    }
    Ok(results)
}

/// The first `rest` of the iterations that a chunk has room for.
fn short_chunk(
    builder: &mut Builder,
    op: &Loop,
    params: &[Value],
    rest: usize,
    size: usize,
) -> Result<Vec<Value>, TypeError> {
    let mut args = params.to_vec();
    for x in &mut args[op.consts + op.carries..] {
        *x = resized(builder, *x, rest)?;
    }
    let mut results = builder.emit(Loop { trip: Trip::Count(rest), ..op.clone() }, &args)?.to_vec();
    for y in &mut results[op.carries..] {
        *y = resized(builder, *y, size)?;
    }
    Ok(results)
}

/// Cut off, or filled with zeros, at the end of the first dimension.
fn resized(builder: &mut Builder, x: Value, extent: usize) -> Result<Value, TypeError> {
    let ty = builder.ty(x).clone();
    if ty.shape[0] == extent {
        return Ok(x);
    }
    let mut high = vec![0; ty.shape.rank()];
    high[0] = extent as i64 - ty.shape[0] as i64;
    let filling = builder.number(&TensorType::scalar(ty.dtype), 0.0)?;
    let pad =
        Pad { low: vec![0; high.len()].into(), interior: vec![0; high.len()].into(), high: high.into() };
    builder.one(pad, &[x, filling])
}

/// `times, consts.., carries.. -> carries..`
fn timed(
    builder: &mut Builder,
    op: &Loop,
    operands: &[Value],
    chunks: Chunks,
) -> Result<Vec<Value>, TypeError> {
    let times = operands[0];
    let one = builder.number_like(times, 1.0)?;
    let size = match chunks {
        Chunks::Every(size) => builder.scalar(i64::try_from(size).unwrap_or(i64::MAX))?,
        Chunks::Sqrt => {
            let times = builder.convert(times, DType::F64)?;
            let root = builder.unary(Unary::Sqrt, times)?;
            let root = builder.convert(root, DType::I64)?;
            builder.one(Binary::Max, &[root, one])?
        }
    };
    // Rounded up; negative for no iterations.
    let last = builder.sub(times, one)?;
    let whole = builder.div(last, size)?;
    let whole = builder.add(whole, one)?;
    let none = builder.number_like(times, 0.0)?;
    let is_none = builder.compare(Compare::Le, times, none)?;
    let whole = builder.select(is_none, none, whole)?;
    let mut args = vec![whole, size];
    args.extend(&operands[1..1 + op.consts]);
    args.push(times);
    args.extend(&operands[1 + op.consts..]);
    let chunk = program("chunk", &types(builder, operands), |b, p| Ok(b.emit(op.clone(), p)?.to_vec()))?;
    let body = program("chunks", &types(builder, &args[1..]), |b, p| {
        let (size, consts, left, carries) =
            (p[0], &p[1..1 + op.consts], p[1 + op.consts], &p[2 + op.consts..]);
        let now = b.one(Binary::Min, &[size, left])?;
        let operands = [&[now][..], consts, carries].concat();
        let carries = checkpointed(b, chunk, &operands)?;
        let left = b.sub(left, now)?;
        Ok([&[left][..], &carries].concat())
    })?;
    let outer =
        Loop { trip: Trip::Times, reverse: false, consts: op.consts + 1, carries: op.carries + 1, body };
    Ok(builder.emit(outer, &args)?[1..].to_vec())
}

/// `consts.., carries.. -> carries..`. Since nobody knows how many iterations there will be, chunks of about the root of
/// their number come about by each being one longer than the one before.
fn conditional(
    builder: &mut Builder,
    op: &Loop,
    condition: &Arc<Program>,
    operands: &[Value],
    chunks: Chunks,
) -> Result<Vec<Value>, TypeError> {
    let int = TensorType::scalar(DType::I64);
    let (size, growth) = match chunks {
        Chunks::Every(size) => (i64::try_from(size).unwrap_or(i64::MAX), 0.0),
        Chunks::Sqrt => (1, 1.0),
    };
    let (consts, carries) = operands.split_at(op.consts);
    let [consts_types, carries_types] = [consts, carries].map(|values| types(builder, values));
    // consts, size, count so far, carries
    let inner = [&consts_types[..], &[int.clone(), int.clone()], &carries_types].concat();
    let without = |p: &[Value], left_out: usize| [&p[..op.consts], &p[op.consts + left_out..]].concat();
    let goes_on = program("chunk_goes_on", &inner, |b, p| {
        let holds = b.inline(condition, &without(p, 2))?[0];
        let is_inside = b.compare(Compare::Lt, p[op.consts + 1], p[op.consts])?;
        Ok(vec![b.one(Binary::And, &[holds, is_inside])?])
    })?;
    let step = program("step", &inner, |b, p| {
        let next = b.inline(&op.body, &without(p, 2))?;
        let count = b.add_number(p[op.consts + 1], 1.0)?;
        Ok([&[count][..], &next].concat())
    })?;
    // consts, size, carries
    let outer = [&consts_types[..], &[int], &carries_types].concat();
    let chunk = program("chunk", &outer, |b, p| {
        let zero = b.number_like(p[op.consts], 0.0)?;
        let args = [&p[..=op.consts], &[zero], &p[op.consts + 1..]].concat();
        let (consts, carries) = (op.consts + 1, op.carries + 1);
        let steps = Loop { trip: Trip::While(goes_on), reverse: false, consts, carries, body: step };
        Ok(b.emit(steps, &args)?[1..carries].to_vec())
    })?;
    let holds = program("condition", &outer, |b, p| b.inline(condition, &without(p, 1)))?;
    let body = program("chunks", &outer, |b, p| {
        let carries = checkpointed(b, chunk, p)?;
        let size = b.add_number(p[op.consts], growth)?;
        Ok([&[size][..], &carries].concat())
    })?;
    let size = builder.scalar(size)?;
    let args = [consts, &[size], carries].concat();
    let (consts, carries) = (op.consts, op.carries + 1);
    let all = Loop { trip: Trip::While(holds), reverse: false, consts, carries, body };
    Ok(builder.emit(all, &args)?[1..carries].to_vec())
}

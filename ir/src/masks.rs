//! Masks: which lanes take part in what is done to all of them at once.

use crate::batch::{Batched, Batcher, move_axis};
use crate::dtype::DType;
use crate::error::TypeError;
use crate::ops::control::looping::{Trip, map_stacks};
use crate::ops::index::IndexMode;
use crate::ops::index::gather::Gather;
use crate::ops::reduce::arg_reduce::{ArgReduce, Extreme};
use crate::ops::reduce::reduce::Reducer;
use crate::ops::{Effect, Op};
use crate::program::{Node, Program, Value};
use crate::recipe::Recipe;
use crate::shape::TensorType;
use indexmap::IndexSet;
use smallvec::smallvec;

/// Whether a program may run on the data of lanes that are not to run it, as long as nobody looks at what it gives.
/// Not so if it can fail or go on forever; nor if a NaN or an infinity that it meets there would get out through its
/// transpose: a zero cotangent remains one through every op but a contraction.
pub fn minds_no_data(program: &Program) -> bool {
    let mut programs: IndexSet<*const Program> = IndexSet::new();
    let mut waiting = vec![program];
    while let Some(program) = waiting.pop() {
        if !programs.insert(program) {
            continue;
        }
        if program.effect() != Effect::None || program.nodes().any(|node| minds(program, node)) {
            return false;
        }
        waiting.extend(program.nodes().flat_map(|node| node.op.programs()).map(|nested| &**nested));
    }
    true
}

/// Whether one op minds its data, apart from its effect and from what the programs nested in it do.
fn minds(program: &Program, node: &Node) -> bool {
    let types: Vec<&TensorType> = node.operands.iter().map(|&v| program.ty(v)).collect();
    match &node.op {
        Op::Loop(op) => !matches!(op.trip, Trip::Count(_)) || types.iter().any(|ty| ty.is_stack()),
        // What a user's rule makes of a cotangent that is zero is not known.
        Op::CustomVjp(_) | Op::CustomLinear(_) => true,
        op => matches!(op.recipe(&types), Recipe::Contract(_)),
    }
}

/// Masks are `bool[size]` tensors.
impl Batcher<'_> {
    /// Whether any lane takes part, as a `bool[]`.
    pub fn any(&mut self, mask: Value) -> Result<Value, TypeError> {
        self.builder.reduce(Reducer::Or, mask, &[0])
    }

    /// In each lane that takes part `x`, in the others `y`, its lanes where those of `x` are if it has any.
    pub fn choose(&mut self, mask: Value, x: Batched, y: Batched) -> Result<Batched, TypeError> {
        let (values, axis) = self.aligned(&[x, y])?;
        let shape = self.builder.ty(values[0]).shape.clone();
        let mask = self.builder.broadcast(mask, shape, &[axis])?;
        Ok(Batched::along(self.builder.select(mask, values[0], values[1])?, axis))
    }

    /// Zeros in the lanes that do not take part. The value may be a stack; one that all lanes share stays as it is.
    pub fn keep(&mut self, mask: Value, x: Batched) -> Result<Batched, TypeError> {
        let Some(axis) = x.axis else { return Ok(x) };
        let value = map_stacks(self.builder, "keep", &[mask], &[x.value], &mut |b, v| {
            let shape = b.ty(v[1]).shape.clone();
            let (mask, zeros) = (b.broadcast(v[0], shape, &[axis])?, b.number_like(v[1], 0.0)?);
            b.select(mask, v[1], zeros)
        })?;
        Ok(Batched::along(value, axis))
    }

    /// For each lane the number of one that takes part, its own if it does, as `i64[size, 1]`. There must be a lane;
    /// if none takes part it is the first.
    pub fn stand_ins(&mut self, mask: Value) -> Result<Value, TypeError> {
        let b = &mut *self.builder;
        let flags = b.convert(mask, DType::I32)?;
        let first = b.one(ArgReduce { extreme: Extreme::Max, dim: 0 }, &[flags])?;
        let first = b.broadcast(first, [self.size], &[])?;
        let own = b.iota(TensorType::new(DType::I64, [self.size]), 0)?;
        let index = b.select(mask, own, first)?;
        b.reshape(index, [self.size, 1])
    }

    /// The value, which may be a stack, with these lanes of it in place of its own.
    pub fn stand_in(&mut self, x: Batched, lanes: Value) -> Result<Batched, TypeError> {
        let Some(axis) = x.axis else { return Ok(x) };
        let gather = Gather { index_dims: smallvec![axis], batch_dims: 0, mode: IndexMode::Clip };
        let value = map_stacks(self.builder, "stand_in", &[lanes], &[x.value], &mut |b, v| {
            let picked = b.one(gather.clone(), &[v[1], v[0]])?;
            move_axis(b, picked, 0, axis)
        })?;
        Ok(Batched::along(value, axis))
    }
}

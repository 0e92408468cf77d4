//! How dependence flows through the ops that hold no programs.
//!
//! An op that moves elements moves names of sets as well, so its own evaluation does that. The others unite sets:
//! at equal indices, along dimensions, over products.

use super::Walk;
use super::flow::{Flow, elements, named};
use super::sets::{EMPTY, Id};
use crate::array::Array;
use crate::eval::evaluate_arrays;
use pullback_ir::ops::contract::dot::Dot;
use pullback_ir::ops::elementwise::binary::Binary;
use pullback_ir::ops::elementwise::compare::Compare;
use pullback_ir::ops::index::gather::Gather;
use pullback_ir::ops::index::scatter::{Scatter, ScatterKind};
use pullback_ir::ops::shape::broadcast::Broadcast;
use pullback_ir::ops::shape::transpose::Transpose;
use pullback_ir::{Loc, Op, TensorType};

/// Operands of an op, with their types.
#[derive(Clone, Copy)]
pub(super) struct Operands<'a> {
    pub(super) flows: &'a [&'a Flow],
    pub(super) types: &'a [&'a TensorType],
}

impl Operands<'_> {
    fn ids(&self, i: usize) -> Array {
        self.flows[i].ids(self.types[i])
    }

    fn known(&self, i: usize) -> Option<&Array> {
        match self.flows[i] {
            Flow::Known(array) => Some(array),
            Flow::Varying | Flow::Sets(_) | Flow::Stack(_) | Flow::Each(_) => None,
        }
    }
}

/// The only result of an op on arrays, if it has one.
fn evaluated(op: impl Into<Op>, arrays: &[Array]) -> Option<Array> {
    evaluate_arrays(&op.into(), Loc::UNKNOWN, arrays).ok()?.pop()
}

/// Which elements are not zero.
fn non_zeros(array: &Array) -> Option<Vec<bool>> {
    let zeros = Array::zeros(array.ty().clone()).ok()?;
    evaluated(Compare::Ne, &[array.clone(), zeros])?.to_vec().ok()
}

impl Walk {
    /// The results of an op at least one of whose operands is tracked.
    pub(super) fn tracked(&mut self, op: &Op, operands: Operands<'_>, results: &[TensorType]) -> Vec<Flow> {
        let found = match op {
            Op::Unary(_)
            | Op::Binary(_)
            | Op::Compare(_)
            | Op::Convert(_)
            | Op::Bitcast(_)
            | Op::ScaleBy(_)
            | Op::IntegerPow(_) => self.elementwise(op, operands, &results[0]),
            Op::Select(_) => moved(op, operands).or_else(|| self.elementwise(op, operands, &results[0])),
            Op::Reshape(_)
            | Op::Transpose(_)
            | Op::Broadcast(_)
            | Op::Slice(_)
            | Op::Pad(_)
            | Op::Concat(_)
            | Op::Reverse(_)
            | Op::Gather(_)
            | Op::DynamicSlice(_)
            | Op::DynamicUpdateSlice(_) => moved(op, operands),
            Op::Scatter(op) => match op.kind {
                ScatterKind::Set => moved(&op.clone().into(), operands),
                ScatterKind::Add => self.scattered(op, operands),
            },
            Op::Reduce(op) => self.reduced(&op.dims, operands, &results[0]),
            Op::ArgReduce(op) => self.reduced(&[op.dim], operands, &results[0]),
            Op::Dot(op) => self.contracted(op, operands, &results[0]),
            // Ops without operands have none that is tracked; of a user's kernel nothing is known.
            Op::Constant(_) | Op::Iota(_) | Op::CustomCall(_) => None,
            Op::Call(_) | Op::CustomJvp(_) | Op::CustomVjp(_) | Op::CustomLinear(_) => None,
            Op::Loop(_) | Op::Branch(_) | Op::Barrier(_) | Op::Offer(_) => None,
        };
        match found {
            Some(ids) => vec![Flow::Sets(ids)],
            None => self.dense(operands.flows.iter().copied(), results),
        }
    }

    fn elementwise(&mut self, op: &Op, operands: Operands<'_>, result: &TensorType) -> Option<Array> {
        let mut ids = vec![EMPTY; result.shape.elements()];
        for i in 0..operands.flows.len() {
            let operand = operands.ids(i);
            for (id, &more) in ids.iter_mut().zip(elements(&operand)) {
                *id = self.sets.union(*id, more);
            }
        }
        if matches!(op, Op::Binary(Binary::Mul) | Op::ScaleBy(_)) {
            // A product with what is always zero depends on nothing.
            for factor in (0..2).filter_map(|i| operands.known(i)) {
                let non_zeros = non_zeros(factor)?;
                ids.iter_mut().zip(non_zeros).filter(|(_, keep)| !keep).for_each(|(id, _)| *id = EMPTY);
            }
        }
        Some(named(result, ids))
    }

    /// Unions along dimensions.
    fn reduced(&mut self, dims: &[usize], operands: Operands<'_>, result: &TensorType) -> Option<Array> {
        let shape = &operands.types[0].shape;
        let kept = (0..shape.rank()).filter(|d| !dims.contains(d)).collect();
        let places = evaluated(Broadcast { shape: shape.clone(), dims: kept }, &[numbers(result)?])?;
        let ids = operands.ids(0);
        Some(self.gathered(result, elements(&places).iter().copied().zip(elements(&ids).iter().copied())))
    }

    /// A scatter that adds: where the updates go to is where a gather of the elements' numbers reads.
    fn scattered(&mut self, op: &Scatter, operands: Operands<'_>) -> Option<Array> {
        let ty = operands.types[0];
        let Scatter { index_dims, batch_dims, mode, .. } = op.clone();
        // One more than the place; a read that finds none gives 0.
        let places = numbers(ty)?;
        let places = named(ty, elements(&places).iter().map(|place| place + 1).collect());
        let indices = operands.known(1)?.clone();
        let places = evaluated(Gather { index_dims, batch_dims, mode }, &[places, indices])?;
        let (ids, updates) = (operands.ids(0), operands.ids(2));
        let own = (0..).zip(elements(&ids).iter().copied());
        let added = elements(&places).iter().zip(elements(&updates)).filter(|(place, _)| **place > 0);
        let added: Vec<(u32, Id)> = added.map(|(place, &id)| (place - 1, id)).collect();
        Some(self.gathered(ty, own.chain(added)))
    }

    /// For each element of a type the union of the sets that come with its place.
    pub(super) fn gathered(&mut self, ty: &TensorType, pairs: impl Iterator<Item = (u32, Id)>) -> Array {
        let mut pairs: Vec<(u32, Id)> = pairs.filter(|&(_, id)| id != EMPTY).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let mut ids = vec![EMPTY; ty.shape.elements()];
        for group in pairs.chunk_by(|a, b| a.0 == b.0) {
            let mut group_ids = group.iter().map(|&(_, id)| id).collect();
            ids[group[0].0 as usize] = self.sets.union_all(&mut group_ids);
        }
        named(ty, ids)
    }

    fn contracted(&mut self, dot: &Dot, operands: Operands<'_>, result: &TensorType) -> Option<Array> {
        let (lhs, rhs) = (operands.types[0], operands.types[1]);
        let (batch, rows, columns, depth) = dot.sizes(&lhs.shape, &rhs.shape);
        let free = [dot.lhs_free(lhs.shape.rank()), dot.rhs_free(rhs.shape.rank())];
        let orders = [
            [&dot.lhs_batch[..], &free[0], &dot.lhs_contract].concat(),
            [&dot.rhs_batch[..], &free[1], &dot.rhs_contract].concat(),
        ];
        let mut ids = vec![EMPTY; batch * rows * columns];
        for (i, others) in [(0, 1), (1, 0)] {
            if !operands.flows[i].is_tracked() {
                continue;
            }
            let arranged = |array, order: &Vec<usize>| {
                evaluated(Transpose { permutation: order.iter().copied().collect() }, &[array])
            };
            let sets = arranged(operands.ids(i), &orders[i])?;
            let factors = match operands.known(others) {
                Some(array) => Some(non_zeros(&arranged(array.clone(), &orders[others])?)?),
                None => None,
            };
            let (mine, theirs) = if i == 0 { (rows, columns) } else { (columns, rows) };
            let found = self.products(elements(&sets), factors.as_deref(), [batch, mine, theirs, depth]);
            for (at, id) in found.into_iter().enumerate() {
                let (b, m, t) = (at / (mine * theirs), at / theirs % mine, at % theirs);
                let (row, column) = if i == 0 { (m, t) } else { (t, m) };
                let place = (b * rows + row) * columns + column;
                ids[place] = self.sets.union(ids[place], id);
            }
        }
        Some(named(result, ids))
    }

    /// Unions along the last dimension of sets `[batch, mine, depth]`, over the factors `[batch, theirs, depth]` that
    /// are not zero: `[batch, mine, theirs]`.
    fn products(
        &mut self,
        sets: &[Id],
        factors: Option<&[bool]>,
        [batch, mine, theirs, depth]: [usize; 4],
    ) -> Vec<Id> {
        let mut found = Vec::with_capacity(batch * mine * theirs);
        for m in 0..batch * mine {
            let row = &sets[m * depth..][..depth];
            let whole = self.sets.union_all(&mut row.to_vec());
            for t in 0..theirs {
                let factors = factors.map(|factors| &factors[(m / mine * theirs + t) * depth..][..depth]);
                found.push(match factors {
                    Some(factors) if whole != EMPTY && factors.contains(&false) => {
                        let met = row.iter().zip(factors).filter(|(_, met)| **met);
                        self.sets.union_all(&mut met.map(|(&id, _)| id).collect())
                    }
                    Some(_) | None => whole,
                });
            }
        }
        found
    }
}

/// The result of an op that moves floats about, on names of sets. What says where to must be known.
fn moved(op: &Op, operands: Operands<'_>) -> Option<Array> {
    let is_float = |i: usize| operands.types[i].dtype.is_float();
    let array = |i| if is_float(i) { Some(operands.ids(i)) } else { operands.known(i).cloned() };
    evaluated(op.clone(), &(0..operands.flows.len()).map(array).collect::<Option<Vec<_>>>()?)
}

/// The number of each element, in row-major order; `None` if there are too many to number.
fn numbers(ty: &TensorType) -> Option<Array> {
    let n = u32::try_from(ty.shape.elements()).ok()?;
    Some(named(ty, (0..n).collect()))
}

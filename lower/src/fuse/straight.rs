//! Straight-line code: small tensors as lists of scalars. Movement costs nothing, and reductions are written out in
//! their documented order.

use super::body::{Body, combine};
use super::graph::Graph;
use super::stored::Stored;
use crate::kernel::{Affine, BufferId, Kernel, Reg, Store};
use pullback_ir::ops::contract::dot::Dot;
use pullback_ir::ops::elementwise::binary::Binary;
use pullback_ir::ops::reduce::reduce::{LANES, Reducer};
use pullback_ir::program::FxHasher;
use pullback_ir::recipe::{IndexMap as Movement, Recipe, ScalarOp};
use pullback_ir::{DType, Dims, Shape, Value};
use slotmap::SecondaryMap;
use std::hash::BuildHasherDefault;

/// Instructions of one piece of straight-line code: the compiler's time per instruction grows beyond that.
const PIECE: usize = 4000;

/// Expanded weight of one piece.
const PIECE_WEIGHT: u64 = 40_000;

pub(super) struct Straight {
    body: Body,
    elements: SecondaryMap<Value, Vec<Reg>>,
    /// Members in order, for the stores.
    members: Vec<Value>,
    loads: indexmap::IndexMap<(BufferId, usize), Reg, BuildHasherDefault<FxHasher>>,
    constants: indexmap::IndexMap<(DType, u64), Reg, BuildHasherDefault<FxHasher>>,
}

impl Straight {
    pub(super) fn new() -> Straight {
        Straight {
            body: Body::default(),
            elements: SecondaryMap::new(),
            members: Vec::new(),
            loads: indexmap::IndexMap::default(),
            constants: indexmap::IndexMap::default(),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.body.insts.len() >= PIECE || self.body.weight >= PIECE_WEIGHT
    }

    /// Computes the results of a node.
    pub(super) fn add(&mut self, graph: &Graph<'_>, stored: &mut Stored, node: usize) {
        let n = graph.nodes[node];
        let result = n.result();
        let dtype = graph.ty(result).dtype;
        let mut reader = Reader { straight: self, graph, stored };
        let elements = match &graph.recipes[node] {
            Recipe::Scalar(op) => reader.scalar(*op, dtype, &n.operands, graph.elements(result)),
            Recipe::Reduce { reducer, dims } => reader.reduce(*reducer, dims, n.operands[0]),
            Recipe::Contract(dot) => reader.contract(dot, n.operands[0], n.operands[1]),
            Recipe::Concat { dim } => reader.concat(*dim, &n.operands, graph.shape(result)),
            Recipe::Move(_)
            | Recipe::Reshape
            | Recipe::Constant(_)
            | Recipe::Iota { .. }
            | Recipe::Barrier
            | Recipe::Call(_)
            | Recipe::Loop(_)
            | Recipe::Branch(_)
            | Recipe::Kernel
            | Recipe::Update => (0..graph.elements(result)).map(|i| reader.renamed(result, i)).collect(),
        };
        self.elements.insert(result, elements);
        self.members.push(result);
    }

    /// The kernel, with stores of the members that have a buffer.
    pub(super) fn finish(self, stored: &Stored) -> Kernel {
        let mut stores = Vec::new();
        for &member in &self.members {
            let Some(buffer) = stored.existing(member) else { continue };
            for (i, &value) in self.elements[member].iter().enumerate() {
                stores.push(Store { buffer, index: Affine::constant(i as i64, 0), value });
            }
        }
        Kernel { body: self.body.insts, stores, ..Kernel::default() }
    }
}

struct Reader<'a, 'p> {
    straight: &'a mut Straight,
    graph: &'a Graph<'p>,
    stored: &'a mut Stored,
}

impl Reader<'_, '_> {
    /// One element of a value.
    fn element(&mut self, value: Value, index: usize) -> Reg {
        match self.straight.elements.get(value) {
            Some(elements) => elements[index],
            None if self.stored.group(value).is_some() => {
                let buffer = self.stored.buffer(self.graph, value);
                self.load(value, buffer, index)
            }
            None => self.renamed(value, index),
        }
    }

    /// One element of a value that is a movement of others, or needs none.
    fn renamed(&mut self, value: Value, index: usize) -> Reg {
        let (mut value, mut index) = (value, index);
        let dtype = self.graph.ty(value).dtype;
        let mut first = true;
        loop {
            if !first && (self.straight.elements.contains_key(value) || self.stored.group(value).is_some()) {
                return self.element(value, index);
            }
            first = false;
            let Some((recipe, node)) = self.graph.source(value) else { return self.constant(dtype, 0) };
            match recipe {
                Recipe::Move(map) => {
                    let (from, to) = (self.graph.shape(node.operands[0]), self.graph.shape(value));
                    match moved(map, index, from, to) {
                        Some(source) => (value, index) = (node.operands[0], source),
                        None => (value, index) = (node.operands[1], 0),
                    }
                }
                Recipe::Reshape | Recipe::Barrier => value = self.graph.alias(value).unwrap_or(value),
                Recipe::Constant(literal) => return self.constant(dtype, literal.bits_at(index)),
                Recipe::Iota { dim } => {
                    let shape = self.graph.shape(value);
                    let at = index / shape.strides()[*dim] % shape[*dim];
                    return self.number(dtype, at);
                }
                Recipe::Scalar(_)
                | Recipe::Concat { .. }
                | Recipe::Reduce { .. }
                | Recipe::Contract(_)
                | Recipe::Call(_)
                | Recipe::Loop(_)
                | Recipe::Branch(_)
                | Recipe::Kernel
                | Recipe::Update => unreachable!("computed values are stored before they are read"),
            }
        }
    }

    fn load(&mut self, value: Value, buffer: BufferId, index: usize) -> Reg {
        if let Some(&reg) = self.straight.loads.get(&(buffer, index)) {
            return reg;
        }
        let reg = self.straight.body.load_at(self.graph.ty(value).dtype, buffer, index);
        self.straight.loads.insert((buffer, index), reg);
        reg
    }

    fn constant(&mut self, dtype: DType, bits: u64) -> Reg {
        if let Some(&reg) = self.straight.constants.get(&(dtype, bits)) {
            return reg;
        }
        let reg = self.straight.body.constant(dtype, bits);
        self.straight.constants.insert((dtype, bits), reg);
        reg
    }

    fn number(&mut self, dtype: DType, value: usize) -> Reg {
        let literal = pullback_ir::Literal::number(pullback_ir::TensorType::scalar(dtype), value as f64);
        self.constant(dtype, literal.bits_at(0))
    }

    fn scalar(&mut self, op: ScalarOp, dtype: DType, operands: &[Value], n: usize) -> Vec<Reg> {
        (0..n)
            .map(|i| {
                let args: smallvec::SmallVec<[Reg; 3]> =
                    operands.iter().map(|&v| self.element(v, i)).collect();
                self.straight.body.scalar(dtype, op, &args)
            })
            .collect()
    }

    /// Combines up to a block of elements in the documented order.
    fn combine(&mut self, reducer: Reducer, dtype: DType, elements: &[Reg]) -> Reg {
        if elements.is_empty() {
            let bits = reducer.identity(dtype).map_or(0, |literal| literal.bits_at(0));
            return self.constant(dtype, bits);
        }
        let op = combine(reducer);
        let body = &mut self.straight.body;
        let mut lanes: Vec<Reg> = elements[..elements.len().min(LANES)].to_vec();
        for (i, &element) in elements.iter().enumerate().skip(LANES) {
            lanes[i % LANES] = body.scalar(dtype, op, &[lanes[i % LANES], element]);
        }
        let mut half = LANES / 2;
        while half > 0 {
            for l in 0..half {
                if l + half < lanes.len() {
                    lanes[l] = body.scalar(dtype, op, &[lanes[l], lanes[l + half]]);
                }
            }
            half /= 2;
        }
        lanes[0]
    }

    fn reduce(&mut self, reducer: Reducer, dims: &Dims, operand: Value) -> Vec<Reg> {
        let ty = self.graph.ty(operand);
        let kept: Dims = (0..ty.shape.rank()).filter(|d| !dims.contains(d)).collect();
        let mut reduced = dims.clone();
        reduced.sort_unstable();
        let (outer, inner) = (offsets(&ty.shape, &kept), offsets(&ty.shape, &reduced));
        outer
            .iter()
            .map(|start| {
                let elements: Vec<Reg> = inner.iter().map(|i| self.element(operand, start + i)).collect();
                self.combine(reducer, ty.dtype, &elements)
            })
            .collect()
    }

    fn contract(&mut self, dot: &Dot, lhs: Value, rhs: Value) -> Vec<Reg> {
        let (left, right) = (self.graph.shape(lhs), self.graph.shape(rhs));
        let dtype = self.graph.ty(lhs).dtype;
        let (left_free, right_free) = (dot.lhs_free(left.rank()), dot.rhs_free(right.rank()));
        let batch = offsets(left, &dot.lhs_batch).into_iter().zip(offsets(right, &dot.rhs_batch));
        let sum: Vec<(usize, usize)> =
            offsets(left, &dot.lhs_contract).into_iter().zip(offsets(right, &dot.rhs_contract)).collect();
        let mut results = Vec::new();
        for (left_batch, right_batch) in batch {
            for row in offsets(left, &left_free) {
                for column in offsets(right, &right_free) {
                    let products: Vec<Reg> = sum
                        .iter()
                        .map(|(l, r)| {
                            let x = self.element(lhs, left_batch + row + l);
                            let y = self.element(rhs, right_batch + column + r);
                            self.straight.body.scalar(dtype, ScalarOp::Binary(Binary::Mul), &[x, y])
                        })
                        .collect();
                    results.push(self.combine(Reducer::Sum, dtype, &products));
                }
            }
        }
        results
    }

    fn concat(&mut self, dim: usize, operands: &[Value], shape: &Shape) -> Vec<Reg> {
        let outer: usize = shape[..dim].iter().product();
        let mut results = Vec::with_capacity(shape.elements());
        for i in 0..outer {
            for &operand in operands {
                let inner = self.graph.elements(operand) / outer;
                results.extend((0..inner).map(|j| self.element(operand, i * inner + j)));
            }
        }
        results
    }
}

/// Positions of the elements along some dimensions, the first listed outermost, where all others are 0.
fn offsets(shape: &Shape, dims: &[usize]) -> Vec<usize> {
    let strides = shape.strides();
    let mut offsets = vec![0];
    for &d in dims {
        offsets = offsets
            .iter()
            .flat_map(|&o| (0..shape[d]).map(move |i| (o, i)))
            .map(|(o, i)| o + i * strides[d])
            .collect();
    }
    offsets
}

/// Where the element at `index` of a movement's result comes from; `None` where it is missing.
fn moved(map: &Movement, index: usize, from: &Shape, to: &Shape) -> Option<usize> {
    let (from_strides, to_strides) = (from.strides(), to.strides());
    let mut source = 0;
    for (axis, (&extent, &stride)) in map.dims.iter().zip(from.iter().zip(&from_strides)) {
        let at = axis.dim.map_or(0, |d| (index / to_strides[d] % to[d]) as i64);
        let scaled = axis.scale * at + axis.offset;
        if scaled % axis.dilation != 0 || scaled < 0 || scaled / axis.dilation >= extent as i64 {
            return None;
        }
        source += (scaled / axis.dilation) as usize * stride;
    }
    Some(source)
}

//! Loop nests under construction: consumers pull their operands in through index maps.

use super::body::{Body, without_dead};
use super::graph::{Graph, split_dims};
use super::stored::Stored;
use crate::kernel::{Access, Affine, Coordinate, Guard, InstKind, Kernel, Reduction, Reg, Store};
use crate::schedule::{Combine, Place, Step};
use pullback_ir::ops::contract::dot::Dot;
use pullback_ir::ops::elementwise::binary::Binary;
use pullback_ir::ops::reduce::reduce::Reducer;
use pullback_ir::program::{FxHasher, Node};
use pullback_ir::recipe::{IndexMap as Movement, Recipe, ScalarOp};
use pullback_ir::{DType, TensorType, Value};
use std::hash::BuildHasherDefault;

/// The index at which a value is read, one coordinate per dimension, in terms of the nest's loops.
type Map = Vec<Coordinate>;

type Memo = indexmap::IndexMap<(Value, Map), Reg, BuildHasherDefault<FxHasher>>;

/// A value to be stored, with the space of the loops that compute it.
#[derive(Clone)]
pub(super) struct Root {
    pub(super) value: Value,
    /// Extents of the loops, in the order of the dimensions they stand for.
    pub(super) extents: Vec<usize>,
    pub(super) end: End,
}

/// What happens to the elements that the loops compute.
#[derive(Clone)]
pub(super) enum End {
    /// Each element of the value itself.
    Map,
    /// These bits everywhere.
    Fill(u64),
    /// An operand of a concatenation, stored from this position on with the result's strides.
    Part { operand: Value, offset: usize },
    /// Combined along these loops.
    Reduce { reducer: Reducer, operand: Value, loops: Vec<bool> },
    /// Products, summed along the last loops.
    Contract { dot: Dot, loops: Vec<bool> },
}

/// The value is computed in the nest itself, at another index: the nest must end first.
pub(super) struct Conflict;

pub(super) struct Nest {
    /// Number of the group.
    group: u32,
    extents: Vec<usize>,
    /// Which loops are reduced, if there is a reduction.
    reduced: Option<Vec<bool>>,
    body: Body,
    memo: Memo,
    /// Number of entries of the memo before the root that is being added.
    known: usize,
    /// Whether that root may stay: it found something that was known.
    shares: bool,
    stores: Vec<(Value, Affine, Reg)>,
    reductions: Vec<(Value, Reducer, Affine, Reg)>,
}

impl Nest {
    pub(super) fn new(group: u32, extents: &[usize]) -> Nest {
        Nest {
            group,
            extents: extents.to_vec(),
            reduced: None,
            body: Body::default(),
            memo: Memo::default(),
            known: 0,
            shares: true,
            stores: Vec::new(),
            reductions: Vec::new(),
        }
    }

    /// Whether a root has the same loops, reduced alike.
    pub(super) fn accepts(&self, root: &Root) -> bool {
        self.extents == root.extents
            && match (&self.reduced, root.loops()) {
                (Some(mine), Some(theirs)) => mine == theirs,
                _ => true,
            }
    }

    pub(super) fn weight(&self) -> u64 {
        self.body.weight
    }

    /// Adds a root, or leaves everything as it was. Unless it may stand `alone`, it must share something with what
    /// is here.
    pub(super) fn add(
        &mut self,
        graph: &Graph<'_>,
        stored: &mut Stored,
        root: &Root,
        alone: bool,
    ) -> Result<(), Conflict> {
        let (insts, stores, reductions) = (self.body.insts.len(), self.stores.len(), self.reductions.len());
        let reduced = self.reduced.clone();
        self.known = self.memo.len();
        self.shares = alone;
        let done = Puller { nest: self, graph, stored }.root(root);
        if done.is_ok() && self.shares {
            return Ok(());
        }
        self.body.truncate(insts);
        self.memo.truncate(self.known);
        self.stores.truncate(stores);
        self.reductions.truncate(reductions);
        self.reduced = reduced;
        Err(Conflict)
    }

    /// The steps that run the nest, storing what somebody reads.
    pub(super) fn finish(self, stored: &mut Stored) -> Vec<Step> {
        let mut reductions = self.reductions;
        reductions.retain(|(value, ..)| stored.existing(*value).is_some());
        let plain = vec![false; self.extents.len()];
        let loops = self.reduced.filter(|_| !reductions.is_empty()).unwrap_or(plain);
        let order: Vec<usize> =
            (0..loops.len()).filter(|&d| !loops[d]).chain((0..loops.len()).filter(|&d| loops[d])).collect();
        let permuted = |affine: &Affine| Affine {
            offset: affine.offset,
            strides: order.iter().map(|&d| affine.strides[d]).collect(),
        };
        let pick = |reduced: bool| {
            let dims = order.iter().filter(|&&d| loops[d] == reduced);
            dims.map(|&d| self.extents[d]).collect::<Vec<usize>>()
        };
        let mut kernel =
            Kernel { parallel: pick(false), reduced: pick(true), body: self.body.insts, ..Kernel::default() };
        kernel.for_each_affine(|affine| *affine = permuted(affine));
        for (value, index, reg) in self.stores {
            if let Some(buffer) = stored.existing(value) {
                kernel.stores.push(Store { buffer, index: permuted(&index), value: reg });
            }
        }
        let (outputs, blocks) = (kernel.outputs(), kernel.blocks());
        let mut combines = Vec::new();
        for (value, reducer, index, reg) in reductions {
            let Some(to) = stored.existing(value) else { continue };
            let dtype = kernel.inst(reg).dtype;
            let mut buffer = to;
            if blocks > 1 {
                buffer = stored.new_buffer(TensorType::new(dtype, [outputs, blocks]), Place::Scratch);
                combines.push(Step::Combine(Combine { reducer, dtype, from: buffer, blocks, to }));
            }
            kernel.reductions.push(Reduction { reducer, value: reg, buffer, index: permuted(&index) });
        }
        let writes = !kernel.stores.is_empty() || !kernel.reductions.is_empty();
        if !writes || kernel.extents().contains(&0) {
            return Vec::new();
        }
        std::iter::once(Step::Kernel(without_dead(kernel).collapsed())).chain(combines).collect()
    }
}

impl Root {
    fn loops(&self) -> Option<&Vec<bool>> {
        match &self.end {
            End::Map | End::Fill(_) | End::Part { .. } => None,
            End::Reduce { loops, .. } | End::Contract { loops, .. } => Some(loops),
        }
    }
}

struct Puller<'a, 'p> {
    nest: &'a mut Nest,
    graph: &'a Graph<'p>,
    stored: &'a mut Stored,
}

impl Puller<'_, '_> {
    fn rank(&self) -> usize {
        self.nest.extents.len()
    }

    fn identity(&self) -> Map {
        (0..self.rank()).map(|d| Coordinate::plain(Affine::index(d, self.rank()))).collect()
    }

    fn root(&mut self, root: &Root) -> Result<(), Conflict> {
        match &root.end {
            End::Map => {
                let map = self.identity();
                let reg = self.compute(root.value, &map)?;
                let index = self.position(root.value, &map);
                self.nest.memo.insert((root.value, map), reg);
                self.nest.stores.push((root.value, index, reg));
            }
            End::Fill(bits) => {
                let map = self.identity();
                let reg = self.nest.body.constant(self.graph.ty(root.value).dtype, *bits);
                self.nest.stores.push((root.value, self.position(root.value, &map), reg));
            }
            End::Part { operand, offset } => {
                let map = self.identity();
                let reg = self.read(*operand, &map)?;
                let mut index = self.position(root.value, &map);
                index.offset += *offset as i64;
                self.nest.stores.push((root.value, index, reg));
            }
            End::Reduce { reducer, operand, loops } => {
                let map = self.identity();
                let reg = self.read(*operand, &map)?;
                self.reduction(root.value, *reducer, loops, reg);
            }
            End::Contract { dot, loops } => {
                let reg = self.product(root.value, dot)?;
                self.reduction(root.value, Reducer::Sum, loops, reg);
            }
        }
        Ok(())
    }

    fn reduction(&mut self, value: Value, reducer: Reducer, loops: &[bool], reg: Reg) {
        let kept: Vec<usize> = (0..loops.len()).filter(|&d| !loops[d]).collect();
        let mut index = Affine::constant(0, self.rank());
        for (&d, &stride) in kept.iter().zip(&self.graph.shape(value).strides()) {
            index.strides[d] = stride as i64;
        }
        self.nest.reductions.push((value, reducer, index, reg));
        self.nest.reduced = Some(loops.to_vec());
    }

    /// The product of the operands of a contraction: loops are batch, left free, right free, contracted.
    fn product(&mut self, value: Value, dot: &Dot) -> Result<Reg, Conflict> {
        let Some((_, node)) = self.graph.source(value) else { return Err(Conflict) };
        let [lhs, rhs] = [0, 1].map(|i| node.operands[i]);
        let (left, right) = (self.graph.shape(lhs).rank(), self.graph.shape(rhs).rank());
        let (batch, free) = (dot.lhs_batch.len(), dot.lhs_free(left).len());
        let loops = |at: usize| (at..).map(|d| Coordinate::plain(Affine::index(d, self.rank())));
        let contracted = self.rank() - dot.lhs_contract.len();
        let mut maps: [Map; 2] = [left, right].map(|rank| vec![Coordinate::constant(0, self.rank()); rank]);
        for (map, dims, at) in [
            (0, &dot.lhs_batch, 0),
            (0, &dot.lhs_free(left), batch),
            (0, &dot.lhs_contract, contracted),
            (1, &dot.rhs_batch, 0),
            (1, &dot.rhs_free(right), batch + free),
            (1, &dot.rhs_contract, contracted),
        ] {
            dims.iter().zip(loops(at)).for_each(|(&d, coordinate)| maps[map][d] = coordinate);
        }
        let x = self.read(lhs, &maps[0])?;
        let y = self.read(rhs, &maps[1])?;
        let dtype = self.graph.ty(value).dtype;
        Ok(self.nest.body.scalar(dtype, ScalarOp::Binary(Binary::Mul), &[x, y]))
    }

    /// Position of the element of a dense value.
    fn position(&self, value: Value, map: &Map) -> Affine {
        let mut index = Affine::constant(0, self.rank());
        for (coordinate, &stride) in map.iter().zip(&self.graph.shape(value).strides()) {
            index.add_scaled(&coordinate.affine, stride as i64);
        }
        index
    }

    /// The element of a value at an index. Recursion is as deep as the body is long, which is bounded.
    fn read(&mut self, value: Value, map: &Map) -> Result<Reg, Conflict> {
        if let Some((at, _, &reg)) = self.nest.memo.get_full(&(value, map.clone())) {
            self.nest.shares |= at < self.nest.known;
            return Ok(reg);
        }
        let base = self.graph.base(value);
        let ty = self.graph.ty(value);
        let reg = match self.stored.group(base) {
            _ if let Some((Recipe::Constant(literal), _)) = self.graph.source(base) => {
                match literal.splat_value() {
                    Some(bits) => self.nest.body.constant(ty.dtype, bits),
                    None => self.load(value, base, map),
                }
            }
            Some(group) if group >= self.nest.group => {
                // Under another shape it may still be what has just been computed.
                if base == value { return Err(Conflict) } else { self.compute(value, map)? }
            }
            Some(_) => self.load(value, base, map),
            None => self.compute(value, map)?,
        };
        self.nest.memo.insert((value, map.clone()), reg);
        Ok(reg)
    }

    fn compute(&mut self, value: Value, map: &Map) -> Result<Reg, Conflict> {
        let ty = self.graph.ty(value);
        let Some((recipe, node)) = self.graph.source(value) else { return Err(Conflict) };
        match recipe {
            Recipe::Scalar(op) => {
                let mut args = smallvec::SmallVec::<[Reg; 3]>::new();
                for &operand in &node.operands {
                    args.push(self.read(operand, map)?);
                }
                Ok(self.nest.body.scalar(ty.dtype, *op, &args))
            }
            Recipe::Move(movement) => self.moved(node, movement, ty.dtype, map),
            Recipe::Reshape => {
                let operand = node.operands[0];
                let from = self.graph.shape(operand);
                let Some(dims) = split_dims(from, &ty.shape) else { return Err(Conflict) };
                let strides = ty.shape.strides();
                let source = dims.into_iter().map(|range| {
                    let inner = range.end.checked_sub(1).map_or(1, |last| strides[last]);
                    let mut merged: Option<Coordinate> = None;
                    for d in range.filter(|&d| ty.shape[d] != 1) {
                        let scale = (strides[d] / inner) as i64;
                        match &mut merged {
                            None => merged = Some(map[d].mapped(scale, 0, 1)),
                            Some(sum) => sum.affine.add_scaled(&map[d].affine, scale),
                        }
                    }
                    merged.unwrap_or_else(|| Coordinate::constant(0, self.rank()))
                });
                let source: Map = source.collect();
                self.read(operand, &source)
            }
            Recipe::Barrier => self.read(self.graph.alias(value).unwrap_or(value), map),
            Recipe::Iota { dim } => {
                let index = map[*dim].affine.clone();
                Ok(self.nest.body.push(ty.dtype, InstKind::Index(index)))
            }
            Recipe::Constant(_)
            | Recipe::Concat { .. }
            | Recipe::Reduce { .. }
            | Recipe::Contract(_)
            | Recipe::Call(_)
            | Recipe::Loop(_)
            | Recipe::Branch(_)
            | Recipe::Kernel
            | Recipe::Update => Err(Conflict),
        }
    }

    fn moved(&mut self, node: &Node, movement: &Movement, dtype: DType, map: &Map) -> Result<Reg, Conflict> {
        let operand = node.operands[0];
        let shape = self.graph.shape(operand);
        let source: Map = movement
            .dims
            .iter()
            .map(|axis| match axis.dim {
                Some(d) => map[d].mapped(axis.scale, axis.offset, axis.dilation),
                None => Coordinate::constant(axis.offset, self.rank()),
            })
            .collect();
        let Some(&filling) = node.operands.get(1) else { return self.read(operand, &source) };
        if shape.elements() == 0 {
            return self.read(filling, &Map::new());
        }
        let guards = self.guards(&source, shape);
        if guards.is_empty() {
            return self.read(operand, &source);
        }
        let element = self.read(operand, &source)?;
        let filling = self.read(filling, &Map::new())?;
        let inside = self.nest.body.push(DType::Bool, InstKind::Inside(guards));
        Ok(self.nest.body.scalar(dtype, ScalarOp::Select, &[inside, element, filling]))
    }

    fn guards(&self, map: &Map, shape: &[usize]) -> Vec<Guard> {
        map.iter().zip(shape).filter_map(|(c, &extent)| c.guard(extent, &self.nest.extents)).collect()
    }

    /// Loads an element of a value that lies in the buffer of `base`.
    fn load(&mut self, value: Value, base: Value, map: &Map) -> Reg {
        let ty = self.graph.ty(value);
        if ty.shape.elements() == 0 {
            return self.nest.body.constant(ty.dtype, 0);
        }
        let guards = self.guards(map, &ty.shape);
        let mut index = Affine::constant(0, self.rank());
        let mut divided = Vec::new();
        for (coordinate, &stride) in map.iter().zip(&ty.shape.strides()) {
            match coordinate.dilation {
                1 => index.add_scaled(&coordinate.affine, stride as i64),
                _ => divided.push((coordinate.clone(), stride as i64)),
            }
        }
        let buffer = self.stored.buffer(self.graph, base);
        self.nest.body.push(ty.dtype, InstKind::Load(Access { buffer, index, divided, guards }))
    }
}

//! Which values to keep for the other half of a derivative, so that they are few bytes: a minimum cut.
//!
//! A value that the other half needs is kept, or computed again there from others. To keep one costs its bytes; to
//! compute one again costs some bytes for each instruction it takes, and only elementwise work and movement of
//! elements may be done twice. Both costs are capacities in a network in which each value is an edge: a cut between
//! what the first half computes and what the second half needs is a choice of values to keep, and the least cut is the
//! best choice. Where cuts cost the same, the one that computes least again is taken.

use crate::control::nested::Split;
use crate::linearize::Linearized;
use crate::work::work;
use petgraph::Direction;
use petgraph::algo::dinics;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::unionfind::UnionFind;
use petgraph::visit::EdgeRef;
use pullback_ir::recipe::Recipe;
use pullback_ir::{Def, Node, Program, TensorType, TypeError, Value};
use slotmap::SecondaryMap;

/// Bytes that one instruction, done again on one element, weighs: of a large value, which goes through memory twice.
const AGAIN_LARGE: u64 = 1;

/// The same of a small value, which is stored and loaded in two instructions.
const AGAIN_SMALL: u64 = 4;

/// Smaller values, in bytes, are kept without asking: they are in a cache or a register anyway.
const SMALL: u64 = 1024;

/// Values that hang together are left as they are where they are more: the time for a cut grows faster than their number.
const LARGEST: usize = 1000;

/// More than any cut costs, and few enough that sums do not overflow.
const NEVER: u64 = 1 << 40;

impl Linearized {
    /// The same with those values for residuals that are least to keep, from which the linear program computes again
    /// what its ops need. For reverse mode: where the linear program follows at once, work would be done twice for
    /// nothing. Derivatives are the same to the bit.
    pub fn keep_least(self) -> Result<Linearized, TypeError> {
        self.keep_cheapest(&|program, value| bytes(program, value, 1))
    }

    /// The same by another notion of what it costs to keep a value of the primal program. Parameters and outputs of the
    /// function cost nothing, since they are there anyway; to compute an element again costs 1 to 4 per instruction.
    pub fn keep_cheapest(self, cost: &dyn Fn(&Program, Value) -> u64) -> Result<Linearized, TypeError> {
        let outputs = &self.primal.outputs()[..self.outputs];
        let outputs: SecondaryMap<Value, ()> = outputs.iter().map(|&v| (v, ())).collect();
        let is_had = |v| outputs.contains_key(v) || matches!(self.primal.def(v), Def::Param(_));
        let cost = |v| if is_had(v) { 0 } else { cost(&self.primal, v) };
        let Some(kept) = least(&self.primal, self.residual_values(), &cost) else { return Ok(self) };
        let split = Split::new(self);
        Ok(split.keeping(&split.primal, &kept)?.linearized())
    }
}

/// What it costs to keep so many of a value. The size of a stack is known only later, so that it is kept as it is.
pub(crate) fn bytes(program: &Program, value: Value, times: u64) -> u64 {
    let ty = program.ty(value);
    let size = if ty.is_stack() { 0 } else { ty.bytes() as u64 };
    if size.saturating_mul(times) < SMALL { 0 } else { size }
}

/// The values to keep so that `wanted` can be computed again, given what it costs to keep one: `None` if `wanted`
/// themselves are best. Parameters that are needed as well are not listed.
pub(crate) fn least(
    program: &Program,
    wanted: &[Value],
    cost: &dyn Fn(Value) -> u64,
) -> Option<SecondaryMap<Value, ()>> {
    let region = Region::new(program, wanted, cost);
    let mut kept: SecondaryMap<Value, ()> = wanted.iter().map(|&v| (v, ())).collect();
    let mut is_same = true;
    for chosen in region.cuts(cost) {
        for &(i, is_chosen) in &chosen {
            let candidate = &region.values[i];
            is_same &= is_chosen == candidate.is_wanted;
            if is_chosen {
                kept.insert(candidate.value, ());
            } else if candidate.is_wanted {
                kept.remove(candidate.value);
            }
        }
    }
    (!is_same).then_some(kept)
}

/// A value in question.
struct Candidate {
    value: Value,
    /// Whether it is, and to keep it costs something: what costs nothing stays kept.
    is_wanted: bool,
    /// What it costs to compute it again; [`NEVER`] if it cannot be.
    again: u64,
    /// What it is computed from, as places in the region, if it can be.
    operands: Vec<usize>,
}

/// The values that wanted ones can be computed from.
struct Region {
    /// Operands after what is computed from them.
    values: Vec<Candidate>,
}

impl Region {
    fn new(program: &Program, wanted: &[Value], cost: &dyn Fn(Value) -> u64) -> Region {
        let mut place: SecondaryMap<Value, usize> = SecondaryMap::new();
        let mut values: Vec<Candidate> = Vec::new();
        let mut add = |values: &mut Vec<Candidate>, value: Value| {
            if let Some(&known) = place.get(value) {
                return known;
            }
            values.push(Candidate { value, is_wanted: false, again: NEVER, operands: Vec::new() });
            place.insert(value, values.len() - 1);
            values.len() - 1
        };
        for &value in wanted.iter().filter(|&&v| cost(v) > 0) {
            let i = add(&mut values, value);
            values[i].is_wanted = true;
        }
        let mut next = 0;
        while next < values.len() {
            let value = values[next].value;
            // What costs nothing is kept, whatever it would take to have it again.
            let producer = program.producer(value).filter(|node| cost(value) > 0 && is_cheap(program, node));
            if let Some(node) = producer {
                let operands = node.operands.iter().map(|&v| add(&mut values, v)).collect();
                values[next].operands = operands;
                values[next].again = again(program, value, work(program, node));
            }
            next += 1;
        }
        Region { values }
    }

    /// The region in parts that have nothing to do with one another, without those that are too large.
    fn parts(&self) -> Vec<Vec<usize>> {
        let mut joined = UnionFind::<usize>::new(self.values.len());
        for (i, candidate) in self.values.iter().enumerate() {
            candidate.operands.iter().for_each(|&operand| {
                joined.union(i, operand);
            });
        }
        let mut parts: Vec<Vec<usize>> = vec![Vec::new(); self.values.len()];
        for i in 0..self.values.len() {
            parts[joined.find(i)].push(i);
        }
        parts.retain(|part| (2..=LARGEST).contains(&part.len()));
        parts
    }

    /// For each part its values, by their places, and whether to keep them.
    fn cuts(&self, cost: &dyn Fn(Value) -> u64) -> Vec<Vec<(usize, bool)>> {
        // One list for all parts, each of which fills in its own.
        let mut ends = vec![(NodeIndex::end(), NodeIndex::end()); self.values.len()];
        self.parts().iter().map(|part| self.cut(part, &mut ends, cost)).collect()
    }

    fn cut(
        &self,
        part: &[usize],
        ends: &mut [(NodeIndex, NodeIndex)],
        cost: &dyn Fn(Value) -> u64,
    ) -> Vec<(usize, bool)> {
        let mut network = DiGraph::<(), u64>::new();
        let (source, sink) = (network.add_node(()), network.add_node(()));
        // Each value is an edge from where it is computed to where it is at hand.
        for &i in part {
            ends[i] = (network.add_node(()), network.add_node(()));
        }
        for &i in part {
            let (candidate, (made, had)) = (&self.values[i], ends[i]);
            network.add_edge(source, made, candidate.again);
            network.add_edge(made, had, cost(candidate.value).min(NEVER));
            for &operand in &candidate.operands {
                network.add_edge(ends[operand].1, made, NEVER);
            }
            if candidate.is_wanted {
                network.add_edge(had, sink, NEVER);
            }
        }
        let (_, flows) = dinics(&network, source, sink);
        let behind = behind_the_cut(&network, &flows, sink);
        let is_kept = |i: usize| behind[ends[i].1.index()] && !behind[ends[i].0.index()];
        part.iter().map(|&i| (i, is_kept(i))).collect()
    }
}

/// The nodes from which there is still a way to the sink, through capacity that is left.
fn behind_the_cut(network: &DiGraph<(), u64>, flows: &[u64], sink: NodeIndex) -> Vec<bool> {
    let mut behind = vec![false; network.node_count()];
    behind[sink.index()] = true;
    let mut next = vec![sink];
    while let Some(node) = next.pop() {
        let forwards = network
            .edges_directed(node, Direction::Incoming)
            .filter(|edge| flows[edge.id().index()] < *edge.weight())
            .map(|edge| edge.source());
        let backwards = network
            .edges_directed(node, Direction::Outgoing)
            .filter(|edge| flows[edge.id().index()] > 0)
            .map(|edge| edge.target());
        for other in forwards.chain(backwards) {
            if !std::mem::replace(&mut behind[other.index()], true) {
                next.push(other);
            }
        }
    }
    behind
}

/// What it costs to do so much work again for a value, in bytes.
fn again(program: &Program, value: Value, work: u64) -> u64 {
    let is_small = (program.ty(value).bytes() as u64) < SMALL;
    work.saturating_mul(if is_small { AGAIN_SMALL } else { AGAIN_LARGE }).min(NEVER)
}

/// Whether an op may be done twice: elementwise work, and movement of elements.
fn is_cheap(program: &Program, node: &Node) -> bool {
    let types: Vec<&TensorType> = node.operands.iter().map(|&v| program.ty(v)).collect();
    match node.op.recipe(&types) {
        Recipe::Scalar(_)
        | Recipe::Move(_)
        | Recipe::Reshape
        | Recipe::Concat { .. }
        | Recipe::Constant(_)
        | Recipe::Iota { .. } => true,
        Recipe::Reduce { .. }
        | Recipe::Contract(_)
        | Recipe::Barrier
        | Recipe::Call(_)
        | Recipe::Loop(_)
        | Recipe::Branch(_)
        | Recipe::Kernel
        | Recipe::Update => false,
    }
}

#[cfg(test)]
mod tests;

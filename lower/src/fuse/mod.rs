//! From a program to a schedule: which ops are computed together, and how.
//!
//! Ops are taken in program order into groups: loop nests, straight-line code, and single calls of the runtime. A
//! group is open to later ops whose operands are computed no later than the group itself.

pub(crate) mod body;
mod contract;
mod graph;
mod in_place;
mod nest;
mod stored;
mod straight;
mod treat;

use crate::control::{Branch, Loop};
use crate::kernel::BufferId;
use crate::lowered::Lowered;
use crate::schedule::{Evaluate, Gemm, Place, Schedule, Step};
use contract::gemm_operands;
use graph::Graph;
use nest::{End, Nest, Root};
use pullback_ir::ops::control::looping::Trip;
use pullback_ir::ops::control::{branch, looping};
use pullback_ir::program::Node;
use pullback_ir::recipe::Recipe;
use pullback_ir::{Program, Value};
use pullback_runtime::kernels::gemm::Extents;
use slotmap::SecondaryMap;
use stored::Stored;
use straight::Straight;
use treat::{BODY, Treatment, treatments};

/// How many of the last groups a nest may join.
const OPEN: usize = 8;

/// Nests of less work than this (weight times indices) are joined even if they share nothing.
const LITTLE: u64 = 20_000;

enum Group {
    Straight(Straight),
    Nest(Nest),
    Step(Step),
    /// What is there before anything is computed.
    Start,
}

/// The schedule of a program without calls. Tensors of at most `small` elements live in registers.
pub(crate) fn fuse(program: &Program, small: usize) -> Schedule {
    let graph = Graph::new(program, small);
    let treatments = treatments(&graph);
    let mut fuser = Fuser {
        stored: Stored::new(&graph),
        graph: &graph,
        groups: vec![Group::Start],
        ready: SecondaryMap::with_capacity(program.value_count()),
        straight: 0,
        nested: Vec::new(),
    };
    for (i, &treatment) in treatments.iter().enumerate() {
        fuser.node(i, treatment);
    }
    fuser.finish()
}

struct Fuser<'a, 'p> {
    graph: &'a Graph<'p>,
    stored: Stored,
    /// Group 0 is what is there from the start.
    groups: Vec<Group>,
    /// The first group after which each value can be computed.
    ready: SecondaryMap<Value, u32>,
    /// The last straight-line group, or 0.
    straight: u32,
    /// Programs that steps run.
    nested: Vec<Lowered>,
}

impl Fuser<'_, '_> {
    fn node(&mut self, i: usize, treatment: Treatment) {
        let node = self.graph.nodes[i];
        let ready = |v: &Value| self.ready.get(*v).copied().unwrap_or(0);
        let ready = node.operands.iter().map(ready).max().unwrap_or(0);
        let group = match treatment {
            Treatment::Inline => ready,
            Treatment::Straight => self.straight(i, ready),
            Treatment::Root => self.roots(i, ready),
            Treatment::Gemm => self.gemm(i),
            Treatment::Evaluate => self.step(i),
        };
        for &result in &node.results {
            self.ready.insert(result, group);
            if treatment != Treatment::Inline {
                self.stored.set_group(result, group);
            }
        }
    }

    fn push(&mut self, group: Group) -> u32 {
        self.groups.push(group);
        self.groups.len() as u32 - 1
    }

    fn straight(&mut self, i: usize, ready: u32) -> u32 {
        let open = match &self.groups[self.straight as usize] {
            Group::Straight(straight) => self.straight >= ready && !straight.is_full(),
            Group::Nest(_) | Group::Step(_) | Group::Start => false,
        };
        if !open {
            self.straight = self.push(Group::Straight(Straight::new()));
        }
        if let Group::Straight(straight) = &mut self.groups[self.straight as usize] {
            straight.add(self.graph, &mut self.stored, i);
        }
        self.straight
    }

    /// Adds the nests of a node; the last group that computes a part of it.
    fn roots(&mut self, i: usize, ready: u32) -> u32 {
        let roots = self.roots_of(i);
        roots.iter().map(|root| self.root(root, ready)).max().unwrap_or(ready)
    }

    fn root(&mut self, root: &Root, ready: u32) -> u32 {
        let first = (ready as usize).max(self.groups.len().saturating_sub(OPEN)).max(1);
        let indices = root.extents.iter().product::<usize>() as u64;
        for g in (first..self.groups.len()).rev() {
            let Group::Nest(nest) = &mut self.groups[g] else { continue };
            if !nest.accepts(root) || nest.weight() > BODY.into() {
                continue;
            }
            let alone = nest.weight() * indices < LITTLE;
            if nest.add(self.graph, &mut self.stored, root, alone).is_ok() {
                return g as u32;
            }
        }
        let group = self.groups.len() as u32;
        let mut nest = Nest::new(group, &root.extents);
        let added = nest.add(self.graph, &mut self.stored, root, true);
        debug_assert!(added.is_ok(), "a new nest has no conflicts");
        self.push(Group::Nest(nest))
    }

    fn roots_of(&self, i: usize) -> Vec<Root> {
        let node = self.graph.nodes[i];
        let value = node.result();
        let shape = self.graph.shape(value);
        let fill = |bits: u64| vec![Root { value, extents: shape.to_vec(), end: End::Fill(bits) }];
        match &self.graph.recipes[i] {
            Recipe::Reduce { reducer, dims } => {
                let operand = node.operands[0];
                let extents = self.graph.shape(operand).to_vec();
                if dims.iter().any(|&d| extents[d] == 0) {
                    let identity = reducer.identity(self.graph.ty(value).dtype);
                    return fill(identity.map_or(0, |literal| literal.bits_at(0)));
                }
                let loops = (0..extents.len()).map(|d| dims.contains(&d)).collect();
                vec![Root { value, extents, end: End::Reduce { reducer: *reducer, operand, loops } }]
            }
            Recipe::Contract(dot) => {
                let lhs = self.graph.shape(node.operands[0]);
                let contracted = dot.lhs_contract.iter().map(|&d| lhs[d]);
                if contracted.clone().any(|extent| extent == 0) {
                    return fill(0);
                }
                let extents: Vec<usize> = shape.iter().copied().chain(contracted).collect();
                let loops = (0..extents.len()).map(|d| d >= shape.rank()).collect();
                vec![Root { value, extents, end: End::Contract { dot: dot.clone(), loops } }]
            }
            Recipe::Concat { dim } => {
                let stride = shape.strides()[*dim];
                let mut start = 0;
                let mut parts = Vec::new();
                for &operand in &node.operands {
                    let extents = self.graph.shape(operand).to_vec();
                    let end = End::Part { operand, offset: start * stride };
                    start += extents[*dim];
                    parts.push(Root { value, extents, end });
                }
                parts
            }
            Recipe::Scalar(_)
            | Recipe::Move(_)
            | Recipe::Reshape
            | Recipe::Constant(_)
            | Recipe::Iota { .. }
            | Recipe::Barrier
            | Recipe::Call(_)
            | Recipe::Loop(_)
            | Recipe::Branch(_)
            | Recipe::Kernel
            | Recipe::Update => vec![Root { value, extents: shape.to_vec(), end: End::Map }],
        }
    }

    fn gemm(&mut self, i: usize) -> u32 {
        let node = self.graph.nodes[i];
        let Recipe::Contract(dot) = &self.graph.recipes[i] else { return self.evaluate(i) };
        let Some([lhs, rhs]) = gemm_operands(self.graph, i) else { return self.evaluate(i) };
        let shapes = [0, 1].map(|i| self.graph.shape(node.operands[i]));
        let (batch, m, n, k) = dot.sizes(shapes[0], shapes[1]);
        let [lhs, rhs] = [lhs, rhs].map(|o| (self.stored.buffer(self.graph, o.base), o.offset, o.layout));
        let to = self.stored.buffer(self.graph, node.result());
        let dtype = self.graph.ty(node.result()).dtype;
        self.push(Group::Step(Step::Gemm(Gemm { dtype, extents: Extents { batch, m, n, k }, lhs, rhs, to })))
    }

    /// A step that is no kernel: an op that holds programs, or one that the runtime evaluates.
    fn step(&mut self, i: usize) -> u32 {
        match &self.graph.recipes[i] {
            Recipe::Loop(op) => self.repeat(i, op.clone()),
            Recipe::Branch(op) => self.branch(i, op.clone()),
            Recipe::Update => self.update(i),
            Recipe::Scalar(_)
            | Recipe::Move(_)
            | Recipe::Reshape
            | Recipe::Concat { .. }
            | Recipe::Constant(_)
            | Recipe::Iota { .. }
            | Recipe::Reduce { .. }
            | Recipe::Contract(_)
            | Recipe::Barrier
            | Recipe::Call(_)
            | Recipe::Kernel => self.evaluate(i),
        }
    }

    /// Lowers a nested program and gives its number.
    fn lower(&mut self, program: &Program) -> usize {
        self.nested.push(Lowered::new(program.clone(), self.graph.small));
        self.nested.len() - 1
    }

    fn repeat(&mut self, i: usize, op: looping::Loop) -> u32 {
        let node = self.graph.nodes[i];
        let condition = match &op.trip {
            Trip::While(condition) => Some(self.lower(condition)),
            Trip::Count(_) | Trip::Times | Trip::Each => None,
        };
        let body = self.lower(&op.body);
        let (mut operands, results) = (self.operands(node), self.results(node));
        let first = operands.len() - op.body.params().len() + op.consts;
        let mut spares = Vec::with_capacity(op.carries);
        for (k, &result) in results[..op.carries].iter().enumerate() {
            if in_place::stays(self.nested[body].schedule(), op.consts + k, k) {
                let from = std::mem::replace(&mut operands[first + k], result);
                self.push(Group::Step(Step::Copy { from, to: result }));
                spares.push(result);
            } else {
                spares.push(self.stored.new_buffer(self.graph.ty(node.results[k]).clone(), Place::Scratch));
            }
        }
        self.push(Group::Step(Step::Loop(Loop {
            op,
            loc: node.loc,
            operands,
            results,
            spares,
            body,
            condition,
        })))
    }

    fn branch(&mut self, i: usize, op: branch::Branch) -> u32 {
        let node = self.graph.nodes[i];
        let arms = op.arms.iter().map(|arm| self.lower(arm)).collect();
        let (operands, results) = (self.operands(node), self.results(node));
        self.push(Group::Step(Step::Branch(Branch { operands, results, arms })))
    }

    fn operands(&mut self, node: &Node) -> Vec<BufferId> {
        let operands = node.operands.iter();
        operands.map(|&v| self.stored.buffer(self.graph, self.graph.base(v))).collect()
    }

    fn results(&mut self, node: &Node) -> Vec<BufferId> {
        node.results.iter().map(|&v| self.stored.buffer(self.graph, v)).collect()
    }

    fn evaluate(&mut self, i: usize) -> u32 {
        let evaluate = self.evaluation(i);
        self.push(Group::Step(Step::Evaluate(evaluate)))
    }

    /// A copy of operand 0, and what is written there anew.
    fn update(&mut self, i: usize) -> u32 {
        let mut evaluate = self.evaluation(i);
        let (from, _) = evaluate.operands.remove(0);
        self.push(Group::Step(Step::Copy { from, to: evaluate.results[0] }));
        self.push(Group::Step(Step::Update(evaluate)))
    }

    fn evaluation(&mut self, i: usize) -> Evaluate {
        let node = self.graph.nodes[i];
        let operand = |&v: &Value| {
            let base = self.graph.base(v);
            (self.stored.buffer(self.graph, base), self.graph.ty(v).clone())
        };
        let operands = node.operands.iter().map(operand).collect();
        Evaluate { op: node.op.clone(), loc: node.loc, operands, results: self.results(node) }
    }

    fn finish(mut self) -> Schedule {
        let copies = self.outputs();
        let mut steps = Vec::new();
        for group in std::mem::take(&mut self.groups) {
            match group {
                Group::Straight(straight) => {
                    let kernel = body::without_dead(straight.finish(&self.stored));
                    steps.extend((!kernel.stores.is_empty()).then_some(Step::Kernel(kernel)));
                }
                Group::Nest(nest) => steps.extend(nest.finish(&mut self.stored)),
                Group::Step(step) => steps.push(step),
                Group::Start => {}
            }
        }
        steps.extend(copies);
        in_place::without_copies(Schedule { buffers: self.stored.buffers, steps, nested: self.nested })
    }

    /// Gives every output its buffer; the copies of those that lie elsewhere.
    fn outputs(&mut self) -> Vec<Step> {
        let mut copies = Vec::new();
        for (i, &output) in self.graph.program.outputs().iter().enumerate() {
            let base = self.graph.base(output);
            let from = self.stored.buffer(self.graph, base);
            let buffer = &mut self.stored.buffers[from.0 as usize];
            if buffer.place == Place::Scratch {
                buffer.place = Place::Output(i);
            } else {
                let to = self.stored.new_buffer(self.graph.ty(output).clone(), Place::Output(i));
                copies.push(Step::Copy { from, to });
            }
        }
        copies
    }
}

//! How each op is computed, decided from the outputs back: what consumers need stored becomes the root of a loop
//! nest, and what only one nest needs (or is cheap to compute twice) is computed inside it.

use super::contract::gemm_operands;
use super::graph::{Graph, split_dims};
use pullback_ir::Value;
use pullback_ir::recipe::{IndexMap, Recipe};
use slotmap::SecondaryMap;

/// Weight that is computed again rather than stored for several consumers.
const CHEAP: u32 = 4;

/// Weight beyond which a loop body is cut in two.
pub(super) const BODY: u32 = 1200;

/// What each op adds to the weight of a body beyond its own, so that bodies are not too deep to be walked recursively.
const DEPTH: u32 = 4;

/// How a node is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Treatment {
    /// Where it is used.
    Inline,
    /// Element by element in registers.
    Straight,
    /// By a loop nest, into a buffer.
    Root,
    /// By the gemm kernel.
    Gemm,
    /// By the runtime's evaluation of the op.
    Evaluate,
}

/// Who uses a value that could be computed inline.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// One nest through one path of movements.
    One { nest: u32, via: u32 },
    /// Several.
    Many,
    /// Straight-line code, which reads single elements of small tensors.
    Elements,
    /// Somebody who needs it in memory.
    Memory,
}

pub(super) fn treatments(graph: &Graph<'_>) -> Vec<Treatment> {
    let mut treat = Treat {
        graph,
        costs: costs(graph),
        remote: remote(graph),
        uses: SecondaryMap::with_capacity(graph.program.value_count()),
        weights: Vec::new(),
        treatments: vec![Treatment::Inline; graph.nodes.len()],
    };
    for &output in graph.program.outputs() {
        treat.need_memory(output);
    }
    for node in (0..graph.nodes.len()).rev() {
        treat.node(node);
    }
    treat.treatments
}

/// What it costs to compute one element of each value from what is surely stored.
fn costs(graph: &Graph<'_>) -> SecondaryMap<Value, u32> {
    let mut costs: SecondaryMap<Value, u32> = SecondaryMap::with_capacity(graph.program.value_count());
    for (i, node) in graph.nodes.iter().enumerate() {
        let operands = node.operands.iter().map(|&v| costs.get(v).copied().unwrap_or(0));
        let sum = operands.fold(0u32, u32::saturating_add);
        let cost = match &graph.recipes[i] {
            _ if graph.is_small_work(i) => 0,
            Recipe::Scalar(op) => sum.saturating_add(op.weight()),
            Recipe::Move(_) | Recipe::Reshape | Recipe::Barrier => sum.saturating_add(1),
            Recipe::Concat { .. }
            | Recipe::Constant(_)
            | Recipe::Iota { .. }
            | Recipe::Reduce { .. }
            | Recipe::Contract(_)
            | Recipe::Call(_)
            | Recipe::Loop(_)
            | Recipe::Branch(_)
            | Recipe::Kernel
            | Recipe::Update => 0,
        };
        node.results.iter().for_each(|&v| {
            costs.insert(v, cost);
        });
    }
    costs
}

/// Whether each value is a movement of something that is computed inside loops, so that none of its elements lie
/// in memory or registers.
fn remote(graph: &Graph<'_>) -> SecondaryMap<Value, bool> {
    let mut remote: SecondaryMap<Value, bool> = SecondaryMap::with_capacity(graph.program.value_count());
    for (i, node) in graph.nodes.iter().enumerate() {
        for (k, &result) in node.results.iter().enumerate() {
            let operand = |k: usize| remote.get(node.operands[k]).copied().unwrap_or(false);
            let is_remote = match &graph.recipes[i] {
                Recipe::Scalar(_) => !graph.is_small(result),
                Recipe::Move(_) | Recipe::Reshape => operand(0),
                Recipe::Barrier => operand(k),
                Recipe::Concat { .. }
                | Recipe::Constant(_)
                | Recipe::Iota { .. }
                | Recipe::Reduce { .. }
                | Recipe::Contract(_)
                | Recipe::Call(_)
                | Recipe::Loop(_)
                | Recipe::Branch(_)
                | Recipe::Kernel
                | Recipe::Update => false,
            };
            remote.insert(result, is_remote);
        }
    }
    remote
}

struct Treat<'a, 'p> {
    graph: &'a Graph<'p>,
    costs: SecondaryMap<Value, u32>,
    remote: SecondaryMap<Value, bool>,
    uses: SecondaryMap<Value, Use>,
    /// Weight of what each nest computes.
    weights: Vec<u32>,
    treatments: Vec<Treatment>,
}

impl Treat<'_, '_> {
    fn new_nest(&mut self) -> u32 {
        self.weights.push(0);
        self.weights.len() as u32 - 1
    }

    fn add_use(&mut self, value: Value, new: Use) {
        let merged = match self.uses.get(value) {
            None => new,
            Some(&old) if old == new => new,
            Some(Use::Memory) => Use::Memory,
            Some(_) if new == Use::Memory => Use::Memory,
            Some(_) => Use::Many,
        };
        self.uses.insert(value, merged);
    }

    /// A consumer needs the elements in memory, in row-major order.
    fn need_memory(&mut self, value: Value) {
        let base = self.graph.base(value);
        self.add_use(base, Use::Memory);
    }

    /// A consumer reads single elements of a small value.
    fn need_elements(&mut self, value: Value) {
        let remote = self.remote.get(value).copied().unwrap_or(false);
        self.add_use(value, if remote { Use::Memory } else { Use::Elements });
    }

    /// Whether a nest that uses a value may compute so much more.
    fn affords(&mut self, used: Use, value: Value, weight: u32) -> bool {
        match used {
            Use::Memory => false,
            Use::Elements => true,
            Use::Many => self.costs[value] <= CHEAP,
            Use::One { nest, .. } => {
                let total = &mut self.weights[nest as usize];
                *total = total.saturating_add(weight + DEPTH);
                *total <= BODY
            }
        }
    }

    fn node(&mut self, i: usize) {
        let node = self.graph.nodes[i];
        if node.results.iter().all(|&v| !self.uses.contains_key(v)) {
            if matches!(
                self.graph.recipes[i],
                Recipe::Loop(_) | Recipe::Branch(_) | Recipe::Kernel | Recipe::Update
            ) {
                self.evaluate(i);
            }
            return;
        }
        if self.graph.is_small_work(i) {
            self.treatments[i] = Treatment::Straight;
            return node.operands.iter().for_each(|&v| self.need_elements(v));
        }
        let result = node.results[0];
        let used = self.uses.get(result).copied().unwrap_or(Use::Many);
        match &self.graph.recipes[i] {
            Recipe::Scalar(op) => self.scalar(i, used, op.weight()),
            Recipe::Move(map) => self.movement(i, used, map),
            Recipe::Reshape => {
                let (from, to) = (self.graph.shape(node.operands[0]), self.graph.shape(result));
                let operand = node.operands[0];
                if used == Use::Elements {
                    self.need_elements(operand);
                } else if split_dims(from, to).is_some() && self.affords(used, result, 0) {
                    self.add_use(operand, used);
                } else {
                    self.need_memory(operand);
                }
            }
            Recipe::Barrier => {
                for (&operand, &result) in node.operands.iter().zip(&node.results) {
                    match self.uses.get(result).copied() {
                        None => {}
                        Some(Use::Elements) => self.need_elements(operand),
                        Some(used) if self.affords(used, result, 0) => self.add_use(operand, used),
                        Some(_) => self.need_memory(operand),
                    }
                }
            }
            Recipe::Iota { .. } => {
                if used == Use::Memory {
                    self.treatments[i] = self.small_or_root(result);
                }
            }
            Recipe::Constant(_) => {}
            Recipe::Reduce { .. } | Recipe::Concat { .. } => self.root(i),
            Recipe::Contract(_) => self.contract(i),
            Recipe::Call(_) | Recipe::Loop(_) | Recipe::Branch(_) | Recipe::Kernel | Recipe::Update => {
                self.evaluate(i)
            }
        }
    }

    fn small_or_root(&self, value: Value) -> Treatment {
        if self.graph.is_small(value) { Treatment::Straight } else { Treatment::Root }
    }

    fn scalar(&mut self, i: usize, used: Use, weight: u32) {
        let node = self.graph.nodes[i];
        if self.affords(used, node.result(), weight) {
            return node.operands.iter().for_each(|&v| self.add_use(v, used));
        }
        self.root(i);
    }

    /// A nest of its own.
    fn root(&mut self, i: usize) {
        self.treatments[i] = Treatment::Root;
        let separate = matches!(self.graph.recipes[i], Recipe::Concat { .. });
        let mut nest = self.new_nest();
        for &operand in &self.graph.nodes[i].operands {
            if separate {
                nest = self.new_nest();
            }
            self.add_use(operand, Use::One { nest, via: u32::MAX });
        }
    }

    fn movement(&mut self, i: usize, used: Use, map: &IndexMap) {
        let node = self.graph.nodes[i];
        let (result, operand) = (node.result(), node.operands[0]);
        let in_elements = self.graph.is_small(result) && !self.remote[result];
        if used == Use::Elements || (used == Use::Memory && in_elements) {
            if used == Use::Memory {
                self.treatments[i] = Treatment::Straight;
            }
            return node.operands.iter().for_each(|&v| self.need_elements(v));
        }
        let passed = if self.affords(used, result, 0) {
            match used {
                Use::One { nest, .. } => Use::One { nest, via: i as u32 },
                Use::Many | Use::Elements | Use::Memory => used,
            }
        } else {
            self.treatments[i] = Treatment::Root;
            Use::One { nest: self.new_nest(), via: i as u32 }
        };
        let dilated = map.dims.iter().any(|axis| axis.dilation != 1);
        let repeated = self.graph.elements(result) > self.graph.elements(operand)
            && self.costs.get(operand).is_some_and(|&cost| cost > CHEAP);
        if dilated || repeated {
            self.need_memory(operand);
        } else {
            self.add_use(operand, passed);
        }
        if let Some(&filling) = node.operands.get(1) {
            self.add_use(filling, passed);
        }
    }

    fn contract(&mut self, i: usize) {
        if !self.graph.is_gemm(i) {
            return self.root(i);
        }
        match gemm_operands(self.graph, i) {
            Some(operands) => {
                self.treatments[i] = Treatment::Gemm;
                operands.iter().for_each(|operand| self.need_memory(operand.base));
            }
            None => self.evaluate(i),
        }
    }

    fn evaluate(&mut self, i: usize) {
        self.treatments[i] = Treatment::Evaluate;
        self.graph.nodes[i].operands.iter().for_each(|&v| self.need_memory(v));
    }
}

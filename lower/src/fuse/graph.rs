//! A program with what fusion asks of it: who computes each value, by which recipe, and through which renamings.

use pullback_ir::program::Node;
use pullback_ir::recipe::Recipe;
use pullback_ir::{Program, Shape, TensorType, Value};
use pullback_runtime::kernels::gemm::is_gemm;
use slotmap::SecondaryMap;

/// Small ops do at most this many scalar operations.
const SMALL_WORK: usize = 2048;

pub(super) struct Graph<'p> {
    pub(super) program: &'p Program,
    pub(super) nodes: Vec<&'p Node>,
    pub(super) recipes: Vec<Recipe>,
    /// Tensors of at most this many elements are small: they live in registers.
    pub(super) small: usize,
    producers: SecondaryMap<Value, u32>,
}

impl<'p> Graph<'p> {
    pub(super) fn new(program: &'p Program, small: usize) -> Graph<'p> {
        let nodes: Vec<&Node> = program.nodes().collect();
        let mut producers = SecondaryMap::with_capacity(program.value_count());
        let mut recipes = Vec::with_capacity(nodes.len());
        for (i, node) in nodes.iter().enumerate() {
            let types: Vec<&TensorType> = node.operands.iter().map(|&v| program.ty(v)).collect();
            recipes.push(node.op.recipe(&types));
            node.results.iter().for_each(|&v| {
                producers.insert(v, i as u32);
            });
        }
        Graph { program, nodes, recipes, small, producers }
    }

    /// Number of the node that computes a value; `None` for parameters.
    pub(super) fn producer(&self, value: Value) -> Option<usize> {
        self.producers.get(value).map(|&i| i as usize)
    }

    /// How a value is computed, and from what; `None` for parameters.
    pub(super) fn source(&self, value: Value) -> Option<(&Recipe, &'p Node)> {
        self.producer(value).map(|i| (&self.recipes[i], self.nodes[i]))
    }

    pub(super) fn ty(&self, value: Value) -> &'p TensorType {
        self.program.ty(value)
    }

    pub(super) fn shape(&self, value: Value) -> &'p Shape {
        &self.program.ty(value).shape
    }

    pub(super) fn elements(&self, value: Value) -> usize {
        self.shape(value).elements()
    }

    pub(super) fn is_small(&self, value: Value) -> bool {
        self.elements(value) <= self.small && !self.ty(value).is_stack()
    }

    /// The value whose elements, in row-major order, are those of `value`: reshapes and barriers undone.
    pub(super) fn base(&self, mut value: Value) -> Value {
        while let Some(operand) = self.alias(value) {
            value = operand;
        }
        value
    }

    /// The operand that a value renames, if it is a reshape or a barrier.
    pub(super) fn alias(&self, value: Value) -> Option<Value> {
        let (recipe, node) = self.source(value)?;
        match recipe {
            Recipe::Reshape => Some(node.operands[0]),
            Recipe::Barrier => {
                let at = node.results.iter().position(|&r| r == value)?;
                Some(node.operands[at])
            }
            _ => None,
        }
    }

    /// Whether a node computes numbers, all of its tensors are small, and it is little work.
    pub(super) fn is_small_work(&self, node: usize) -> bool {
        let all = self.nodes[node];
        let small = all.operands.iter().chain(&all.results).all(|&v| self.is_small(v));
        small
            && match &self.recipes[node] {
                Recipe::Scalar(_) | Recipe::Reduce { .. } | Recipe::Concat { .. } => true,
                Recipe::Contract(dot) => {
                    let (lhs, rhs) = (self.shape(all.operands[0]), self.shape(all.operands[1]));
                    let (batch, m, n, k) = dot.sizes(lhs, rhs);
                    !self.is_gemm(node) && batch * m * n * k <= SMALL_WORK
                }
                Recipe::Move(_)
                | Recipe::Reshape
                | Recipe::Constant(_)
                | Recipe::Iota { .. }
                | Recipe::Barrier
                | Recipe::Call(_)
                | Recipe::Loop(_)
                | Recipe::Branch(_)
                | Recipe::Kernel
                | Recipe::Update => false,
            }
    }

    /// Whether a node is a contraction that means the gemm kernel.
    pub(super) fn is_gemm(&self, node: usize) -> bool {
        let Recipe::Contract(dot) = &self.recipes[node] else { return false };
        let [lhs, rhs] = [0, 1].map(|i| self.ty(self.nodes[node].operands[i]));
        let (batch, m, n, k) = dot.sizes(&lhs.shape, &rhs.shape);
        is_gemm(lhs.dtype, batch, m, n, k)
    }
}

/// For a reshape read by index: the dimensions of the result that each dimension of the operand is split into; `None`
/// if dimensions of the operand (other than those of extent 1) are merged, or if there are no elements.
pub(super) fn split_dims(from: &[usize], to: &[usize]) -> Option<Vec<std::ops::Range<usize>>> {
    if from.contains(&0) {
        return None;
    }
    let mut at = 0;
    let mut ranges = Vec::with_capacity(from.len());
    for &extent in from {
        let start = at;
        let mut product = 1;
        while product < extent {
            product *= to.get(at)?;
            at += 1;
        }
        if product != extent {
            return None;
        }
        ranges.push(start..at);
    }
    Some(ranges)
}

#[cfg(test)]
mod tests {
    use super::split_dims;

    #[test]
    fn reshapes_that_split_are_told_from_those_that_merge() {
        assert_eq!(split_dims(&[6, 4], &[2, 3, 4]), Some(vec![0..2, 2..3]));
        assert_eq!(split_dims(&[3, 4], &[3, 1, 4, 1]), Some(vec![0..1, 1..3]));
        assert_eq!(split_dims(&[1, 3], &[3]), Some(vec![0..0, 0..1]));
        assert_eq!(split_dims(&[2, 3], &[6]), None);
        assert_eq!(split_dims(&[2, 3], &[3, 2]), None);
        assert_eq!(split_dims(&[], &[1, 1]), Some(vec![]));
        assert_eq!(split_dims(&[0, 3], &[5, 0]), None);
    }
}

//! Operands of gemm calls: movements become strides.

use super::graph::Graph;
use crate::kernel::{Affine, Coordinate};
use pullback_ir::recipe::Recipe;
use pullback_ir::{Dims, Value};
use pullback_runtime::kernels::gemm::Layout;

/// Where the matrices of one operand lie.
pub(super) struct GemmOperand {
    /// The value whose buffer holds the elements.
    pub(super) base: Value,
    /// Position of the first.
    pub(super) offset: usize,
    /// How the matrices lie.
    pub(super) layout: Layout,
}

/// Both operands of a contraction as matrices in memory; `None` if strides cannot say it.
pub(super) fn gemm_operands(graph: &Graph<'_>, node: usize) -> Option<[GemmOperand; 2]> {
    let Recipe::Contract(dot) = &graph.recipes[node] else { return None };
    let [lhs, rhs] = [0, 1].map(|i| graph.nodes[node].operands[i]);
    let (lhs_free, rhs_free) = (dot.lhs_free(graph.shape(lhs).rank()), dot.rhs_free(graph.shape(rhs).rank()));
    Some([
        operand(graph, lhs, [&dot.lhs_batch, &lhs_free, &dot.lhs_contract])?,
        operand(graph, rhs, [&dot.rhs_batch, &dot.rhs_contract, &rhs_free])?,
    ])
}

/// The operand seen through its movements or, if those cannot be strides, as it is itself.
fn operand(graph: &Graph<'_>, value: Value, groups: [&Dims; 3]) -> Option<GemmOperand> {
    let shape = graph.shape(value);
    let (base, index) = strided(graph, value);
    let layout = |index: &Affine| -> Option<Layout> {
        let stride = |dims: &Dims| single_stride(dims.iter().map(|&d| (shape[d], index.strides[d])));
        Some(Layout { batch: stride(groups[0])?, row: stride(groups[1])?, column: stride(groups[2])? })
    };
    if let Some(found) = layout(&index) {
        return Some(GemmOperand { base, offset: usize::try_from(index.offset).ok()?, layout: found });
    }
    let layout = layout(&row_major(shape))?;
    Some(GemmOperand { base: graph.base(value), offset: 0, layout })
}

/// The position of an element of a dense tensor.
fn row_major(shape: &[usize]) -> Affine {
    let strides = pullback_ir::Shape::new(shape).strides();
    Affine { offset: 0, strides: strides.iter().map(|&s| s as i64).collect() }
}

/// The one step that walks through all of these dimensions, outermost first.
fn single_stride(dims: impl DoubleEndedIterator<Item = (usize, i64)>) -> Option<isize> {
    let mut found: Option<(i64, i64)> = None;
    for (extent, stride) in dims.rev().filter(|&(extent, _)| extent != 1) {
        found = match found {
            None => Some((stride, stride * extent as i64)),
            Some((inner, next)) if next == stride => Some((inner, stride * extent as i64)),
            Some(_) => return None,
        };
    }
    Some(found.map_or(0, |(inner, _)| inner as isize))
}

/// The value a chain of movements starts from, and the position in it of each element of `value`.
fn strided(graph: &Graph<'_>, value: Value) -> (Value, Affine) {
    let shape = graph.shape(value);
    let rank = shape.rank();
    let mut at = value;
    let mut map: Vec<Coordinate> = (0..rank).map(|d| Coordinate::plain(Affine::index(d, rank))).collect();
    let mut best = (graph.base(value), row_major(shape));
    loop {
        let Some((Recipe::Move(index_map), node)) = graph.source(at) else { return best };
        let operand = node.operands[0];
        let extents = graph.shape(operand);
        let mapped: Vec<Coordinate> = index_map
            .dims
            .iter()
            .map(|axis| match axis.dim {
                Some(d) => map[d].mapped(axis.scale, axis.offset, axis.dilation),
                None => Coordinate::constant(axis.offset, rank),
            })
            .collect();
        if mapped.iter().zip(extents.iter()).any(|(c, &extent)| c.guard(extent, shape).is_some()) {
            return best;
        }
        map = mapped;
        at = operand;
        let mut index = Affine::constant(0, rank);
        for (coordinate, &stride) in map.iter().zip(&extents.strides()) {
            index.add_scaled(&coordinate.affine, stride as i64);
        }
        best = (graph.base(at), index);
    }
}

//! Broadcasting as NumPy does it, made explicit: extents of 1 are reshaped away, then repeated.

use crate::apply::apply;
use crate::error::Error;
use crate::ops::axes::Extents;
use crate::ops::number::Operand;
use crate::tensor::{State, Tensor, attempt};
use pullback_ir::ops::shape::broadcast::Broadcast;
use pullback_ir::{Dims, Literal, Loc, Op, Problem, Shape};

/// The shape two operands are repeated to.
pub(crate) fn common_shape(left: &Shape, right: &Shape) -> Result<Shape, Problem> {
    let rank = left.rank().max(right.rank());
    let extent = |shape: &Shape, axis: usize| {
        let missing = rank - shape.rank();
        if axis < missing { 1 } else { shape[axis - missing] }
    };
    (0..rank)
        .map(|axis| match (extent(left, axis), extent(right, axis)) {
            (l, r) if l == r => Ok(l),
            (1, r) => Ok(r),
            (l, 1) => Ok(l),
            (l, r) => Err(Problem::Constraint(format!(
                "shapes {left} and {right} do not broadcast: at axis {axis} of the result the extents are {l} and \
                 {r}; they must be equal, or one of them 1"
            ))),
        })
        .collect()
}

/// Both operands, repeated to one shape.
pub(crate) fn broadcast_pair(
    name: &str,
    left: &Tensor,
    right: &Tensor,
    at: Loc,
) -> Result<(Tensor, Tensor), Error> {
    let (l, r) = (left.ty()?, right.ty()?);
    let shape = common_shape(&l.shape, &r.shape).map_err(|p| Error::op(name, &[l, r], p, at))?;
    Ok((expand(left, &shape, at).ok()?, expand(right, &shape, at).ok()?))
}

/// The tensor repeated to a shape it is known to broadcast to.
pub(crate) fn expand(tensor: &Tensor, shape: &Shape, at: Loc) -> Tensor {
    let ty = attempt!(tensor.ty());
    if ty.shape == *shape {
        return tensor.clone();
    }
    if let State::Leaf(leaf) = &tensor.0
        && let Op::Constant(constant) = &leaf.op
        && let Some(bits) = constant.value.splat_value()
    {
        return Tensor::literal(Literal::splat_bits(ty.with_shape(shape.clone()), bits));
    }
    let missing = shape.rank() - ty.shape.rank();
    let kept: Dims = (0..ty.shape.rank()).filter(|&d| ty.shape[d] == shape[d + missing]).collect();
    let dims: Dims = kept.iter().map(|&d| d + missing).collect();
    let squeezed = tensor.reshape_to(kept.iter().map(|&d| ty.shape[d]).collect(), at);
    let mut results =
        attempt!(crate::apply::apply_all(Broadcast { shape: shape.clone(), dims }.into(), &[&squeezed], at));
    results.remove(0)
}

/// An elementwise op of two operands of one dtype, repeated to one shape.
#[track_caller]
pub(crate) fn elementwise(name: &str, op: impl Into<Op>, left: &Tensor, right: &Tensor) -> Tensor {
    let (l, r) = (attempt!(left.ty()), attempt!(right.ty()));
    if l.dtype != r.dtype {
        let problem = Problem::DTypesDiffer { left: l.dtype, right: r.dtype };
        return Tensor::failed(Error::op(name, &[l, r], problem, Loc::caller()));
    }
    let (left, right) = attempt!(broadcast_pair(name, left, right, Loc::caller()));
    apply(op, &[&left, &right])
}

impl Tensor {
    /// Both tensors, where a number becomes a constant of this tensor's dtype.
    #[track_caller]
    pub(crate) fn with_operand(&self, name: &str, op: impl Into<Op>, other: impl Into<Operand>) -> Tensor {
        let dtype = attempt!(self.dtype());
        let other = attempt!(other.into().beside(dtype, Loc::caller()));
        elementwise(name, op, self, &other)
    }

    /// The tensor repeated to a shape, as NumPy broadcasts.
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Extents) -> Tensor {
        let ty = attempt!(self.ty());
        let at = Loc::caller();
        let refuse =
            |text: String| Tensor::failed(Error::op("broadcast_to", &[ty], Problem::Constraint(text), at));
        let extents = shape.extents();
        if extents.iter().any(|&e| e < 0) {
            return refuse(format!(
                "shape {:?} has a negative extent; give extents of at least 0",
                &extents[..]
            ));
        }
        let shape: Shape = extents.iter().map(|&e| e as usize).collect();
        match common_shape(&ty.shape, &shape) {
            Ok(common) if common == shape => expand(self, &shape, at),
            Ok(_) => refuse(format!(
                "shape {} cannot be repeated to {shape}; its extents must be those of the end of {shape}, or 1",
                ty.shape
            )),
            Err(problem) => Tensor::failed(Error::op("broadcast_to", &[ty], problem, at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_broadcast_from_the_end() {
        let common = |l: &[usize], r: &[usize]| common_shape(&Shape::new(l), &Shape::new(r)).ok();
        assert_eq!(common(&[2, 3], &[3]), Some(Shape::new(&[2, 3])));
        assert_eq!(common(&[2, 1], &[1, 3]), Some(Shape::new(&[2, 3])));
        assert_eq!(common(&[0], &[1]), Some(Shape::new(&[0])));
        assert_eq!(common(&[0], &[2]), None);
        assert_eq!(common(&[], &[]), Some(Shape::new(&[])));
    }
}

//! Products of vectors and matrices.

use crate::apply::apply_all;
use crate::error::Error;
use crate::tensor::{Tensor, attempt};
use pullback_ir::ops::contract::dot::Dot;
use pullback_ir::{Dims, Loc, Op, Problem, Shape, TensorType};

/// A contraction, refused under the name the user called.
pub(crate) fn dot(name: &str, dot: Dot, left: &Tensor, right: &Tensor, at: Loc) -> Result<Tensor, Error> {
    let (l, r) = (left.ty()?, right.ty()?);
    Op::from(dot.clone()).infer(&[l, r]).map_err(|problem| Error::op(name, &[l, r], problem, at))?;
    Ok(apply_all(dot.into(), &[left, right], at)?.remove(0))
}

/// Checks what matmul asks of the extents, with text about rows and columns.
fn check_matmul(l: &TensorType, r: &TensorType, at: Loc) -> Result<(), Error> {
    let refuse = |problem: Problem| Err(Error::op("matmul", &[l, r], problem, at));
    if l.shape.rank() == 0 || r.shape.rank() == 0 {
        return refuse(Problem::Constraint("a scalar has no matrix product; use *".into()));
    }
    if l.dtype != r.dtype {
        return refuse(Problem::DTypesDiffer { left: l.dtype, right: r.dtype });
    }
    let left_axis = l.shape.rank() - 1;
    let right_axis = r.shape.rank().saturating_sub(2);
    let (left, right) = (l.shape[left_axis], r.shape[right_axis]);
    if left != right {
        return refuse(Problem::Constraint(format!(
            "axis {left_axis} of {} has extent {left} and axis {right_axis} of {} has {right}; they are summed over \
             together and must be equal, so transpose or reshape one of them",
            l.shape, r.shape
        )));
    }
    Ok(())
}

impl Tensor {
    /// The matrix product: vectors are rows at the left and columns at the right, leading axes broadcast.
    #[track_caller]
    pub fn matmul(&self, other: &Tensor) -> Tensor {
        let at = Loc::caller();
        attempt!(check_matmul(attempt!(self.ty()), attempt!(other.ty()), at));
        let (left_rank, right_rank) = (attempt!(self.rank()), attempt!(other.rank()));
        if left_rank <= 2 && right_rank <= 2 {
            let (left_at, right_at) = (left_rank - 1, right_rank.saturating_sub(2));
            return attempt!(dot("matmul", contraction(&[left_at], &[right_at]), self, other, at));
        }
        if right_rank <= 2 {
            return attempt!(dot(
                "matmul",
                contraction(&[left_rank - 1], &[right_rank.saturating_sub(2)]),
                self,
                other,
                at
            ));
        }
        if left_rank == 1 {
            return self.expand_dims(0).matmul(other).squeeze_axes(-2);
        }
        let (left, right) = attempt!(broadcast_batch(self, other, at));
        let batch = attempt!(left.rank()) - 2;
        attempt!(dot("matmul", Dot::matmul(batch), &left, &right, at))
    }

    /// The sum over the last axis of the left and the last but one of the right, as NumPy's `dot`.
    #[track_caller]
    pub fn dot(&self, other: &Tensor) -> Tensor {
        let (left_rank, right_rank) = (attempt!(self.rank()), attempt!(other.rank()));
        if left_rank == 0 || right_rank == 0 {
            return self * other;
        }
        let op = contraction(&[left_rank - 1], &[right_rank.saturating_sub(2)]);
        attempt!(dot("dot", op, self, other, Loc::caller()))
    }

    /// The sum of the products of all elements.
    #[track_caller]
    pub fn vdot(&self, other: &Tensor) -> Tensor {
        attempt!(dot("vdot", contraction(&[0], &[0]), &self.ravel(), &other.ravel(), Loc::caller()))
    }

    /// The sum over the last axes of both.
    #[track_caller]
    pub fn inner(&self, other: &Tensor) -> Tensor {
        let (left_rank, right_rank) = (attempt!(self.rank()), attempt!(other.rank()));
        if left_rank == 0 || right_rank == 0 {
            return self * other;
        }
        attempt!(dot("inner", contraction(&[left_rank - 1], &[right_rank - 1]), self, other, Loc::caller()))
    }

    /// All products of an element of the one with an element of the other, both taken as vectors.
    #[track_caller]
    pub fn outer(&self, other: &Tensor) -> Tensor {
        self.ravel().expand_dims(1) * other.ravel().expand_dims(0)
    }

    /// The sum over pairs of axes.
    #[track_caller]
    pub fn tensordot(&self, other: &Tensor, left: &[usize], right: &[usize]) -> Tensor {
        attempt!(dot("tensordot", contraction(left, right), self, other, Loc::caller()))
    }
}

fn contraction(left: &[usize], right: &[usize]) -> Dot {
    Dot {
        lhs_contract: Dims::from_slice(left),
        rhs_contract: Dims::from_slice(right),
        lhs_batch: Dims::new(),
        rhs_batch: Dims::new(),
    }
}

/// Both stacks of matrices with the same leading axes.
fn broadcast_batch(left: &Tensor, right: &Tensor, at: Loc) -> Result<(Tensor, Tensor), Error> {
    let (l, r) = (left.ty()?, right.ty()?);
    let (l_batch, r_batch) = (&l.shape[..l.shape.rank() - 2], &r.shape[..r.shape.rank() - 2]);
    let batch = crate::ops::broadcast::common_shape(&Shape::new(l_batch), &Shape::new(r_batch))
        .map_err(|problem| Error::op("matmul", &[l, r], problem, at))?;
    let whole = |ty: &TensorType| -> Shape {
        batch.iter().copied().chain(ty.shape[ty.shape.rank() - 2..].iter().copied()).collect()
    };
    let (l_shape, r_shape) = (whole(l), whole(r));
    Ok((
        crate::ops::broadcast::expand(left, &l_shape, at).ok()?,
        crate::ops::broadcast::expand(right, &r_shape, at).ok()?,
    ))
}

//! Comparison, choice and tests on whole tensors.

use crate::apply::apply;
use crate::ops::broadcast::broadcast_pair;
use crate::ops::number::Operand;
use crate::tensor::{Tensor, attempt};
use pullback_ir::ops::elementwise::compare::Compare;
use pullback_ir::ops::elementwise::select::Select;
use pullback_ir::{DType, Loc, Problem};

macro_rules! compare {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => {
        impl Tensor {
            $($(#[$doc])*
            #[track_caller]
            pub fn $name(&self, other: impl Into<Operand>) -> Tensor {
                self.with_operand(stringify!($name), Compare::$op, other)
            })*
        }
    };
}

compare! {
    /// Where the two are equal; NaN equals nothing.
    eq = Eq;
    /// Where the two differ; NaN differs from everything.
    ne = Ne;
    /// Where `self` is less.
    lt = Lt;
    /// Where `self` is less or equal.
    le = Le;
    /// Where `self` is greater.
    gt = Gt;
    /// Where `self` is greater or equal.
    ge = Ge;
}

impl Tensor {
    /// Elements of `on_true` where this bool tensor is true, else of `on_false`. The branch not taken has slope 0,
    /// whatever its value.
    #[track_caller]
    pub fn select(&self, on_true: impl Into<Operand>, on_false: impl Into<Operand>) -> Tensor {
        let at = Loc::caller();
        let (on_true, on_false) = (on_true.into(), on_false.into());
        let dtype = match (&on_true, &on_false) {
            (Operand::Tensor(tensor), _) | (_, Operand::Tensor(tensor)) => attempt!(tensor.dtype()),
            (Operand::Number(_), Operand::Number(_)) => DType::F64,
        };
        let on_true = attempt!(on_true.beside(dtype, at));
        let on_false = attempt!(on_false.beside(dtype, at));
        let (t, f) = (attempt!(on_true.ty()), attempt!(on_false.ty()));
        if t.dtype != f.dtype {
            let problem = Problem::DTypesDiffer { left: t.dtype, right: f.dtype };
            return Tensor::failed(crate::Error::op("select", &[attempt!(self.ty()), t, f], problem, at));
        }
        let (on_true, on_false) = attempt!(broadcast_pair("select", &on_true, &on_false, at));
        let (condition, on_true) = attempt!(broadcast_pair("select", self, &on_true, at));
        let (_, on_false) = attempt!(broadcast_pair("select", self, &on_false, at));
        apply(Select, &[&condition, &on_true, &on_false])
    }

    /// `value` where the mask is true, else this tensor.
    #[track_caller]
    pub fn masked_fill(&self, mask: &Tensor, value: impl Into<Operand>) -> Tensor {
        let value = attempt!(value.into().beside(attempt!(self.dtype()), Loc::caller()));
        mask.select(&value, self)
    }

    /// Where a float is infinite.
    #[track_caller]
    pub fn is_inf(&self) -> Tensor {
        self.abs().eq(f64::INFINITY)
    }

    /// Where the two are within `absolute + relative * |other|` of each other.
    #[track_caller]
    pub fn is_close(&self, other: &Tensor, relative: f64, absolute: f64) -> Tensor {
        let close = (self - other).abs().le(other.abs() * relative + absolute);
        // Infinities of one sign have no finite difference.
        self.eq(other) | (close & other.is_finite())
    }
}

/// [`Tensor::select`] by NumPy's name and order.
#[track_caller]
pub fn where_(condition: &Tensor, on_true: impl Into<Operand>, on_false: impl Into<Operand>) -> Tensor {
    condition.select(on_true, on_false)
}

//! What is known of a value while dependence flows through a program.

use super::Walk;
use super::sets::{EMPTY, Id};
use crate::array::Array;
use pullback_ir::{DType, TensorType};

/// What is known of a value.
#[derive(Clone)]
pub(super) enum Flow {
    /// These numbers, in every call.
    Known(Array),
    /// Other numbers from call to call, but whatever the tracked elements are.
    Varying,
    /// For each element the name of the set of tracked elements that it may depend on, as a tensor of u32.
    Sets(Array),
    /// A stack of these slices.
    Stack(Vec<Flow>),
    /// A stack of any number of slices, of each of which this is true.
    Each(Box<Flow>),
}

impl Flow {
    /// Slice number `at` of a stack, or of a tensor along its first dimension.
    pub(super) fn slice(&self, at: usize) -> Flow {
        match self {
            Flow::Known(array) => Flow::Known(match array.stack_slices() {
                Some(slices) => slices[at].clone(),
                None => array.row(at),
            }),
            Flow::Varying => Flow::Varying,
            Flow::Sets(ids) => Flow::Sets(ids.row(at)),
            Flow::Stack(slices) => slices[at].clone(),
            Flow::Each(slice) => (**slice).clone(),
        }
    }

    /// Number of slices of a stack, where it is the same in every call.
    pub(super) fn slices(&self) -> Option<usize> {
        match self {
            Flow::Known(array) => array.stack_slices().map(<[Array]>::len),
            Flow::Stack(slices) => Some(slices.len()),
            Flow::Varying | Flow::Sets(_) | Flow::Each(_) => None,
        }
    }

    /// Whether nothing else is known of the other.
    pub(super) fn is_same(&self, other: &Flow) -> bool {
        match (self, other) {
            (Flow::Known(a), Flow::Known(b)) | (Flow::Sets(a), Flow::Sets(b)) => a.bits_equal(b),
            (Flow::Varying, Flow::Varying) => true,
            (Flow::Stack(a), Flow::Stack(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_same(b))
            }
            (Flow::Each(a), Flow::Each(b)) => a.is_same(b),
            (Flow::Known(_) | Flow::Varying | Flow::Sets(_) | Flow::Stack(_) | Flow::Each(_), _) => false,
        }
    }

    /// Names of all sets in it.
    pub(super) fn collect(&self, ids: &mut Vec<Id>) {
        match self {
            Flow::Known(_) | Flow::Varying => {}
            Flow::Sets(array) => ids.extend(elements(array)),
            Flow::Stack(slices) => slices.iter().for_each(|slice| slice.collect(ids)),
            Flow::Each(slice) => slice.collect(ids),
        }
    }

    pub(super) fn is_tracked(&self) -> bool {
        match self {
            Flow::Known(_) | Flow::Varying => false,
            Flow::Sets(_) => true,
            Flow::Stack(slices) => slices.iter().any(Flow::is_tracked),
            Flow::Each(slice) => slice.is_tracked(),
        }
    }

    /// The names of a tensor's sets; empty ones where nothing is tracked.
    pub(super) fn ids(&self, ty: &TensorType) -> Array {
        match self {
            Flow::Sets(array) => array.clone(),
            Flow::Known(_) | Flow::Varying | Flow::Stack(_) | Flow::Each(_) => full(ty, EMPTY),
        }
    }
}

/// Names, as a slice.
pub(super) fn elements(ids: &Array) -> &[Id] {
    ids.as_slice().unwrap_or_default()
}

/// A tensor of names in the shape of a type.
pub(super) fn named(ty: &TensorType, ids: Vec<Id>) -> Array {
    let mut array = Array::unspecified(TensorType::new(DType::U32, ty.shape.clone()));
    if let Ok(slice) = array.make_mut_slice::<Id>() {
        slice.copy_from_slice(&ids);
    }
    array
}

/// One name for every element of a type.
pub(super) fn full(ty: &TensorType, id: Id) -> Array {
    named(ty, vec![id; ty.shape.elements()])
}

impl Walk {
    /// What is true of both.
    pub(super) fn join(&mut self, a: &Flow, b: &Flow, ty: &TensorType) -> Flow {
        if a.is_same(b) {
            return a.clone();
        }
        match ty.stack_slice() {
            Some(slice) => self.join_stacks(a, b, &slice),
            None if a.is_tracked() || b.is_tracked() => {
                let (a, b) = (a.ids(ty), b.ids(ty));
                let ids = elements(&a).iter().zip(elements(&b));
                Flow::Sets(named(ty, ids.map(|(&a, &b)| self.sets.union(a, b)).collect()))
            }
            None => Flow::Varying,
        }
    }

    fn join_stacks(&mut self, a: &Flow, b: &Flow, slice: &TensorType) -> Flow {
        match (a.slices(), b.slices()) {
            (Some(n), Some(m)) if n == m => {
                Flow::Stack((0..n).map(|i| self.join(&a.slice(i), &b.slice(i), slice)).collect())
            }
            _ => {
                let slices = [self.any_slice(a, slice), self.any_slice(b, slice)];
                let joined = slices.into_iter().flatten().reduce(|a, b| self.join(&a, &b, slice));
                Flow::Each(Box::new(joined.unwrap_or(Flow::Varying)))
            }
        }
    }

    /// What is true of each slice of a stack; `None` if it has none.
    pub(super) fn any_slice(&mut self, stack: &Flow, slice: &TensorType) -> Option<Flow> {
        match (stack, stack.slices()) {
            (_, Some(n)) => (0..n).map(|i| stack.slice(i)).reduce(|a, b| self.join(&a, &b, slice)),
            (Flow::Each(each), None) => Some((**each).clone()),
            (Flow::Known(_) | Flow::Varying | Flow::Sets(_) | Flow::Stack(_), None) => Some(Flow::Varying),
        }
    }

    /// A value all of whose elements depend on one set.
    pub(super) fn filled(&self, ty: &TensorType, id: Id) -> Flow {
        let tensor = TensorType::new(ty.dtype, ty.shape.clone());
        let flow = if id == EMPTY { Flow::Varying } else { Flow::Sets(full(&tensor, id)) };
        (0..ty.levels()).fold(flow, |slice, _| Flow::Each(Box::new(slice)))
    }

    /// Results that may depend on all that the operands depend on: right for any op.
    pub(super) fn dense<'a>(
        &mut self,
        operands: impl IntoIterator<Item = &'a Flow>,
        types: &[TensorType],
    ) -> Vec<Flow> {
        let mut ids = Vec::new();
        operands.into_iter().for_each(|operand| operand.collect(&mut ids));
        let all = self.sets.union_all(&mut ids);
        types.iter().map(|ty| self.filled(ty, all)).collect()
    }
}

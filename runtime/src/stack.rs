//! Stacks at run time: sequences of arrays of one type.

use crate::array::{Array, Difference};
use crate::pool::Buffer;
use pullback_ir::TensorType;
use std::sync::Arc;

/// The slices of an array whose type is that of a stack.
#[derive(Debug)]
pub(crate) struct Slices {
    /// The type that the stack itself is seen as: no elements.
    pub(crate) nothing: TensorType,
    pub(crate) slices: Vec<Array>,
}

impl Array {
    /// The stack of these arrays, all of the type `slice`.
    pub fn stack_of(slice: &TensorType, slices: Vec<Array>) -> Array {
        debug_assert!(slices.iter().all(|array| array.ty() == slice));
        let nothing = TensorType::new(slice.dtype, [0]);
        let ty = slice.stack().unwrap_or_else(|| nothing.clone());
        Array::from_slices(ty, Arc::new(Slices { nothing, slices }), Arc::new(Buffer::new(0)))
    }

    /// The slices of a stack; `None` for a tensor.
    pub fn stack_slices(&self) -> Option<&[Array]> {
        self.slices().map(|stack| &stack.slices[..])
    }
}

/// Where two stacks of one type differ first.
pub(crate) fn first_difference(left: &[Array], right: &[Array]) -> Option<Difference> {
    if left.len() != right.len() {
        return Some(Difference::Length { left: left.len(), right: right.len() });
    }
    left.iter().zip(right).enumerate().find_map(|(i, (left, right))| {
        Some(match left.first_difference(right)? {
            Difference::Element { mut index, left, right } => {
                index.insert(0, i);
                Difference::Element { index, left, right }
            }
            other @ (Difference::Type { .. } | Difference::Length { .. }) => other,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pullback_ir::DType;

    fn stack(values: &[[f32; 2]]) -> Array {
        let slices = values.iter().map(|&v| Array::from(v)).collect();
        Array::stack_of(&TensorType::new(DType::F32, [2]), slices)
    }

    #[test]
    fn stacks_compare_slice_by_slice() {
        let one = stack(&[[1.0, 2.0], [3.0, f32::NAN]]);
        assert_eq!(one.ty().to_string(), "f32[?,2]");
        assert!(one.bits_equal(&stack(&[[1.0, 2.0], [3.0, f32::NAN]])));
        let other = one.first_difference(&stack(&[[1.0, 2.0], [-3.0, f32::NAN]]));
        assert!(matches!(other, Some(Difference::Element { index, .. }) if index == [1, 0]));
        assert_eq!(one.first_difference(&stack(&[])), Some(Difference::Length { left: 2, right: 0 }));
    }

    #[test]
    fn a_stack_has_no_elements_of_its_own() {
        let mut stack = stack(&[[1.0, 2.0]]);
        assert_eq!((stack.elements(), stack.as_slice::<f32>()), (0, Ok(&[][..])));
        assert_eq!(stack.make_mut_slice::<f32>().unwrap().len(), 0);
        assert!(stack.reshaped([2]).is_err() && stack.item::<f32>().is_err());
        assert_eq!(stack.stack_slices().unwrap()[0].to_vec::<f32>().unwrap(), [1.0, 2.0]);
    }
}

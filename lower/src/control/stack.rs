//! Stacks in memory: sequences whose length is known only when the program runs.

use pullback_ir::TensorType;
use pullback_runtime::pool::Buffer;
use pullback_runtime::{Array, View};

/// A stack. It keeps its memory when it is filled again.
pub(crate) enum Stack {
    /// Tensors one after the other, so many; there may be room for more.
    Rows { count: usize, memory: Buffer },
    /// Stacks, of which the first so many count.
    Stacks { count: usize, stacks: Vec<Stack> },
}

impl Stack {
    /// A stack of this type without slices.
    pub(crate) fn new(ty: &TensorType) -> Stack {
        match ty.levels() {
            0 | 1 => Stack::Rows { count: 0, memory: Buffer::new(0) },
            _ => Stack::Stacks { count: 0, stacks: Vec::new() },
        }
    }

    /// Number of slices.
    pub(crate) fn len(&self) -> usize {
        match self {
            Stack::Rows { count, .. } | Stack::Stacks { count, .. } => *count,
        }
    }

    /// Makes it `count` slices long, those that are new unspecified. Room grows geometrically.
    pub(crate) fn resize(&mut self, ty: &TensorType, count: usize) {
        match self {
            Stack::Rows { count: old, memory } => {
                let (needed, kept) = (count * ty.bytes(), (*old).min(count) * ty.bytes());
                if needed > memory.bytes().len() {
                    let mut larger = Buffer::new(needed.max(2 * memory.bytes().len()));
                    larger.bytes_mut()[..kept].copy_from_slice(&memory.bytes()[..kept]);
                    *memory = larger;
                }
                *old = count;
            }
            Stack::Stacks { count: old, stacks } => {
                let slice = ty.stack_slice().unwrap_or_else(|| ty.clone());
                while stacks.len() < count {
                    stacks.push(Stack::new(&slice));
                }
                *old = count;
            }
        }
    }

    /// Address of a slice: of its elements, or of the stack that it is.
    pub(crate) fn slice(&mut self, ty: &TensorType, at: usize) -> *mut u8 {
        match self {
            Stack::Rows { memory, .. } => memory.bytes_mut().as_mut_ptr().wrapping_add(at * ty.bytes()),
            Stack::Stacks { stacks, .. } => (&raw mut stacks[at]).cast(),
        }
    }

    /// A copy of another stack of the same type.
    pub(crate) fn copy_from(&mut self, ty: &TensorType, other: &Stack) {
        self.resize(ty, other.len());
        match (self, other) {
            (Stack::Rows { count, memory }, Stack::Rows { memory: from, .. }) => {
                let bytes = *count * ty.bytes();
                memory.bytes_mut()[..bytes].copy_from_slice(&from.bytes()[..bytes]);
            }
            (Stack::Stacks { count, stacks }, Stack::Stacks { stacks: from, .. }) => {
                let slice = ty.stack_slice().unwrap_or_else(|| ty.clone());
                let pairs = stacks.iter_mut().zip(from).take(*count);
                pairs.for_each(|(stack, from)| stack.copy_from(&slice, from));
            }
            (Stack::Rows { .. }, Stack::Stacks { .. }) | (Stack::Stacks { .. }, Stack::Rows { .. }) => {}
        }
    }

    /// The stack that an array is.
    pub(crate) fn from_array(array: &Array) -> Stack {
        let mut stack = Stack::new(array.ty());
        let slices = array.stack_slices().unwrap_or_default();
        stack.resize(array.ty(), slices.len());
        match &mut stack {
            Stack::Rows { memory, .. } => {
                let rows = memory.bytes_mut().chunks_exact_mut(array.ty().bytes().max(1));
                rows.zip(slices).for_each(|(row, slice)| row.copy_from_slice(slice.view().bytes()));
            }
            Stack::Stacks { stacks, .. } => {
                stacks.iter_mut().zip(slices).for_each(|(stack, slice)| *stack = Stack::from_array(slice));
            }
        }
        stack
    }

    /// The stack as an array of this type.
    pub(crate) fn to_array(&self, ty: &TensorType) -> Array {
        let slice = ty.stack_slice().unwrap_or_else(|| ty.clone());
        let slices = match self {
            Stack::Rows { count, memory } => (0..*count)
                .map(|at| {
                    let row = &memory.bytes()[at * ty.bytes()..][..ty.bytes()];
                    // SAFETY: these are the bytes of a slice, written by whoever made the stack this long.
                    unsafe { View::from_raw(&slice, row.as_ptr()) }.to_array()
                })
                .collect(),
            Stack::Stacks { count, stacks } => {
                stacks[..*count].iter().map(|stack| stack.to_array(&slice)).collect()
            }
        };
        Array::stack_of(&slice, slices)
    }
}

//! Borrowed tensors: what evaluations read and write.
//!
//! A view is a type and the bytes of a dense row-major tensor, wherever they live, so that machine code can call
//! evaluations on its own buffers without allocating.

use crate::array::{Array, ArrayError, Element, check_element, with_element};
use pullback_ir::literal::Scalar;
use pullback_ir::{DType, Literal, Shape, TensorType};
use std::ptr::NonNull;

/// A tensor to read.
#[derive(Clone, Copy)]
pub struct View<'a> {
    ty: &'a TensorType,
    bytes: &'a [u8],
}

/// A tensor to write. What it holds before is unspecified.
pub struct ViewMut<'a> {
    ty: &'a TensorType,
    bytes: &'a mut [u8],
}

impl<'a> View<'a> {
    /// A view of these bytes.
    ///
    /// # Safety
    /// `bytes` are exactly the bytes of the type, aligned for its elements; bools are 0 or 1.
    pub unsafe fn new(ty: &'a TensorType, bytes: &'a [u8]) -> View<'a> {
        debug_assert_eq!(ty.bytes(), bytes.len());
        debug_assert!((bytes.as_ptr() as usize).is_multiple_of(ty.dtype.size()));
        View { ty, bytes }
    }

    /// A view of the tensor that starts at `start`.
    ///
    /// # Safety
    /// As [`View::new`] for the bytes of the type from `start` on, which stay valid and unwritten for `'a`. Where
    /// the type has no elements, `start` is not used and may be null.
    pub unsafe fn from_raw(ty: &'a TensorType, start: *const u8) -> View<'a> {
        let len = ty.bytes();
        let start = if len == 0 { NonNull::<u64>::dangling().as_ptr() as *const u8 } else { start };
        // SAFETY: the caller vouches for the bytes.
        unsafe { View::new(ty, std::slice::from_raw_parts(start, len)) }
    }

    /// Element type and shape.
    pub fn ty(&self) -> &'a TensorType {
        self.ty
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.ty.dtype
    }

    /// Extents.
    pub fn shape(&self) -> &'a Shape {
        &self.ty.shape
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.bytes.len() / self.ty.dtype.size()
    }

    /// The elements in row-major order.
    pub fn as_slice<T: Element>(&self) -> Result<&'a [T], ArrayError> {
        check_element::<T>(self.ty)?;
        // SAFETY: the dtype agrees, so the bytes are aligned whole elements that T accepts.
        Ok(unsafe {
            std::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.bytes.len() / size_of::<T>())
        })
    }

    /// The bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The elements as words of their size, whatever they mean.
    pub(crate) fn words<W: Word>(&self) -> &'a [W] {
        assert_eq!(size_of::<W>(), self.ty.dtype.size());
        // SAFETY: elements have the size of W and are aligned to it; any bits are a word.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.bytes.len() / size_of::<W>()) }
    }

    /// A copy of the elements.
    pub fn to_array(&self) -> Array {
        let mut array = Array::unspecified(self.ty.clone());
        array.view_mut().copy_from(self);
        array
    }

    /// The elements as a constant.
    pub fn to_literal(&self) -> Literal {
        let bits: Vec<u64> = match self.ty.dtype.size() {
            1 => self.words::<u8>().iter().map(|&w| w.into()).collect(),
            4 => self.words::<u32>().iter().map(|&w| w.into()).collect(),
            _ => self.words::<u64>().to_vec(),
        };
        Literal::dense_bits(self.ty.clone(), bits).expect("a view has one word per element")
    }
}

impl<'a> ViewMut<'a> {
    /// A view of these bytes.
    ///
    /// # Safety
    /// `bytes` are exactly the bytes of the type, initialised, and aligned for its elements.
    pub unsafe fn new(ty: &'a TensorType, bytes: &'a mut [u8]) -> ViewMut<'a> {
        debug_assert_eq!(ty.bytes(), bytes.len());
        debug_assert!((bytes.as_ptr() as usize).is_multiple_of(ty.dtype.size()));
        ViewMut { ty, bytes }
    }

    /// A view of the tensor that starts at `start`.
    ///
    /// # Safety
    /// As [`ViewMut::new`] for the bytes of the type from `start` on, which belong to this view for `'a`. Where the
    /// type has no elements, `start` is not used and may be null.
    pub unsafe fn from_raw(ty: &'a TensorType, start: *mut u8) -> ViewMut<'a> {
        let len = ty.bytes();
        let start = if len == 0 { NonNull::<u64>::dangling().as_ptr().cast() } else { start };
        // SAFETY: the caller vouches for the bytes.
        unsafe { ViewMut::new(ty, std::slice::from_raw_parts_mut(start, len)) }
    }

    /// Element type and shape.
    pub fn ty(&self) -> &'a TensorType {
        self.ty
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.ty.dtype
    }

    /// Extents.
    pub fn shape(&self) -> &'a Shape {
        &self.ty.shape
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.bytes.len() / self.ty.dtype.size()
    }

    /// The elements in row-major order, to write. What they are before is unspecified; bools are cleared.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T], ArrayError> {
        check_element::<T>(self.ty)?;
        if T::DTYPE == DType::Bool {
            self.bytes.fill(0);
        }
        let len = self.bytes.len() / size_of::<T>();
        // SAFETY: the dtype agrees, so the bytes are aligned whole elements; any bits are a number, and bools have just been made 0.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.bytes.as_mut_ptr().cast(), len) })
    }

    /// Address of the first byte. Whoever writes there keeps to the bytes of the type, and bools to 0 and 1.
    pub fn start(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    /// The elements as words of their size. Whoever writes to bools writes 0 or 1.
    pub(crate) fn words_mut<W: Word>(&mut self) -> &mut [W] {
        assert_eq!(size_of::<W>(), self.ty.dtype.size());
        let len = self.bytes.len() / size_of::<W>();
        // SAFETY: elements have the size of W and are aligned to it; any bits are a word.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_mut_ptr().cast(), len) }
    }

    /// The view to read what has been written.
    ///
    /// # Safety
    /// Bools have been written.
    pub unsafe fn written(&self) -> View<'_> {
        // SAFETY: the invariants of ViewMut, and the caller vouches for bools.
        unsafe { View::new(self.ty, self.bytes) }
    }

    /// Copies the elements of a view with as many bytes and the same element type.
    pub fn copy_from(&mut self, source: &View<'_>) {
        assert_eq!(self.ty.dtype, source.ty.dtype);
        self.bytes.copy_from_slice(source.bytes);
    }

    /// Writes the elements of a constant of the same type.
    pub fn write_literal(&mut self, literal: &Literal) {
        assert_eq!(self.ty, literal.ty());
        with_element!(self.ty.dtype, T => {
            let Ok(slice) = self.as_mut_slice::<T>() else { return };
            match literal.splat_value() {
                Some(bits) => slice.fill(T::from_bits64(bits)),
                None => slice.iter_mut().zip(literal.bits()).for_each(|(e, bits)| *e = T::from_bits64(bits)),
            }
        })
    }
}

/// An element stripped of its meaning: what movement moves.
///
/// # Safety
/// A plain unsigned integer, aligned to its size.
pub(crate) unsafe trait Word: Copy + Send + Sync + Default + 'static {}

// SAFETY: one byte.
unsafe impl Word for u8 {}
// SAFETY: four bytes.
unsafe impl Word for u32 {}
// SAFETY: eight bytes.
unsafe impl Word for u64 {}

/// Runs an expression with the word type of an element type in scope.
macro_rules! with_word {
    ($dtype:expr, $W:ident => $body:expr) => {
        match $dtype.size() {
            1 => {
                type $W = u8;
                $body
            }
            4 => {
                type $W = u32;
                $body
            }
            _ => {
                type $W = u64;
                $body
            }
        }
    };
}
pub(crate) use with_word;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_views_of_nothing_may_be_null() {
        let ty = TensorType::new(DType::F64, [3, 0]);
        // SAFETY: the type has no elements.
        let view = unsafe { View::from_raw(&ty, std::ptr::null()) };
        assert_eq!(view.as_slice::<f64>().unwrap(), []);
        // SAFETY: the type has no elements.
        let mut view = unsafe { ViewMut::from_raw(&ty, std::ptr::null_mut()) };
        assert!(view.as_mut_slice::<f64>().unwrap().is_empty());
    }

    #[test]
    fn raw_views_read_and_write_foreign_memory() {
        let ty = TensorType::new(DType::I32, [2]);
        let mut memory = [1i32, 2];
        // SAFETY: `memory` is two i32 and borrowed for the view's life.
        let mut view = unsafe { ViewMut::from_raw(&ty, memory.as_mut_ptr().cast()) };
        view.as_mut_slice::<i32>().unwrap()[1] = 7;
        // SAFETY: as above.
        let array = unsafe { View::from_raw(&ty, memory.as_ptr().cast()) }.to_array();
        assert_eq!(array.to_vec::<i32>().unwrap(), [1, 7]);
    }

    #[test]
    fn bools_are_cleared_before_they_are_lent_out() {
        let ty = TensorType::new(DType::Bool, [3]);
        let mut memory = [0xFFu8; 3];
        // SAFETY: three initialised bytes.
        let mut view = unsafe { ViewMut::from_raw(&ty, memory.as_mut_ptr()) };
        assert_eq!(view.as_mut_slice::<bool>().unwrap(), [false; 3]);
    }
}

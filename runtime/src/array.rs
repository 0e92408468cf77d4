//! Dense tensors of any element type.
//!
//! Invariants: the buffer has exactly the bytes of the type; every byte is initialised; a bool is 0 or 1.

use crate::pool::Buffer;
use crate::stack::{self, Slices};
use crate::view::{View, ViewMut};
use pullback_ir::literal::Scalar;
use pullback_ir::{DType, Dims, Literal, Shape, TensorType};
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// A Rust scalar that arrays hold.
///
/// # Safety
/// The type has the size of its `DTYPE` and no padding; all bit patterns are valid, except that a bool is 0 or 1.
pub unsafe trait Element:
    Scalar + PartialEq + PartialOrd + fmt::Debug + fmt::Display + Default
{
}

// SAFETY: one byte, 0 or 1.
unsafe impl Element for bool {}
// SAFETY: a plain number of four bytes.
unsafe impl Element for i32 {}
// SAFETY: a plain number of eight bytes.
unsafe impl Element for i64 {}
// SAFETY: a plain number of four bytes.
unsafe impl Element for u32 {}
// SAFETY: a plain number of eight bytes.
unsafe impl Element for u64 {}
// SAFETY: a plain number of four bytes.
unsafe impl Element for f32 {}
// SAFETY: a plain number of eight bytes.
unsafe impl Element for f64 {}

/// Runs an expression with the Rust type of an element type in scope.
macro_rules! with_element {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            pullback_ir::DType::Bool => {
                type $T = bool;
                $body
            }
            pullback_ir::DType::I32 => {
                type $T = i32;
                $body
            }
            pullback_ir::DType::I64 => {
                type $T = i64;
                $body
            }
            pullback_ir::DType::U32 => {
                type $T = u32;
                $body
            }
            pullback_ir::DType::U64 => {
                type $T = u64;
                $body
            }
            pullback_ir::DType::F32 => {
                type $T = f32;
                $body
            }
            pullback_ir::DType::F64 => {
                type $T = f64;
                $body
            }
        }
    };
}
pub(crate) use with_element;

/// An array was made from, or read as, something that does not fit.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum ArrayError {
    /// Read as another element type than it has.
    #[error("the array has type {found} and cannot be read as {expected}; convert it first")]
    DType {
        /// Element type asked for.
        expected: DType,
        /// Type of the array.
        found: TensorType,
    },
    /// The number of elements does not fit the shape.
    #[error("{found} elements do not fill shape {shape}; give one element per position")]
    ElementCount {
        /// The shape.
        shape: Shape,
        /// How many elements there are.
        found: usize,
    },
    /// A single element was asked of an array that does not have exactly one.
    #[error("the array has type {found}, not exactly one element; use to_vec")]
    NotOneElement {
        /// Type of the array.
        found: TensorType,
    },
    /// More elements than can be addressed.
    #[error("shape {shape} has too many elements; at most 2^48 can be addressed")]
    TooLarge {
        /// The shape.
        shape: Shape,
    },
}

/// A dense, row-major, 64-byte aligned tensor. Clones share the elements; writing copies them if they are shared.
///
/// An array whose type is that of a stack has no elements of its own but [slices](Array::stack_slices).
#[derive(Clone)]
pub struct Array {
    ty: TensorType,
    buffer: Arc<Buffer>,
    slices: Option<Arc<Slices>>,
}

impl Array {
    /// An array of the type whose elements are unspecified (bool: all false), to be written. The type's shape must
    /// be addressable, as every shape in a verified program is.
    pub fn unspecified(ty: TensorType) -> Array {
        let bytes = ty.bytes();
        let buffer = if ty.dtype == DType::Bool { Buffer::zeroed(bytes) } else { Buffer::new(bytes) };
        Array { ty, buffer: Arc::new(buffer), slices: None }
    }

    /// An array of zeros (bool: false).
    pub fn zeros(ty: TensorType) -> Result<Array, ArrayError> {
        check_addressable(&ty.shape)?;
        let buffer = Buffer::zeroed(ty.bytes());
        Ok(Array { ty, buffer: Arc::new(buffer), slices: None })
    }

    /// An array whose elements all equal `value`.
    pub fn full<T: Element>(value: T, shape: impl Into<Shape>) -> Result<Array, ArrayError> {
        let ty = TensorType::new(T::DTYPE, shape);
        check_addressable(&ty.shape)?;
        let mut array = Array::unspecified(ty);
        array.make_mut_slice::<T>()?.fill(value);
        Ok(array)
    }

    /// A scalar.
    pub fn scalar<T: Element>(value: T) -> Array {
        Array::filled(Shape::scalar(), &[value])
    }

    /// An array of rank 1.
    pub fn vector<T: Element>(values: &[T]) -> Array {
        Array::filled(Shape::new(&[values.len()]), values)
    }

    /// The elements in row-major order under a shape.
    pub fn from_slice<T: Element>(values: &[T], shape: impl Into<Shape>) -> Result<Array, ArrayError> {
        let shape = shape.into();
        if check_addressable(&shape)? != values.len() {
            return Err(ArrayError::ElementCount { shape, found: values.len() });
        }
        Ok(Array::filled(shape, values))
    }

    /// As [`Array::from_slice`], from a vector.
    pub fn from_vec<T: Element>(values: Vec<T>, shape: impl Into<Shape>) -> Result<Array, ArrayError> {
        Array::from_slice(&values, shape)
    }

    /// The values under a shape that they fill.
    fn filled<T: Element>(shape: Shape, values: &[T]) -> Array {
        let mut array = Array::unspecified(TensorType::new(T::DTYPE, shape));
        let mut view = array.view_mut();
        // The type has just been made from T, so this cannot fail.
        if let Ok(slice) = view.as_mut_slice::<T>() {
            slice.copy_from_slice(values);
        }
        array
    }

    /// The constant as an array.
    pub fn from_literal(literal: &Literal) -> Array {
        let mut array = Array::unspecified(literal.ty().clone());
        array.view_mut().write_literal(literal);
        array
    }

    /// The array as a constant.
    pub fn to_literal(&self) -> Literal {
        self.view().to_literal()
    }

    pub(crate) fn from_slices(ty: TensorType, slices: Arc<Slices>, buffer: Arc<Buffer>) -> Array {
        Array { ty, buffer, slices: Some(slices) }
    }

    pub(crate) fn slices(&self) -> Option<&Slices> {
        self.slices.as_deref()
    }

    /// Element type and shape.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// The type of the elements that the buffer holds.
    fn dense_ty(&self) -> &TensorType {
        self.slices().map_or(&self.ty, |stack| &stack.nothing)
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.ty.dtype
    }

    /// Extents.
    pub fn shape(&self) -> &Shape {
        &self.dense_ty().shape
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape().elements()
    }

    /// A borrowed view.
    pub fn view(&self) -> View<'_> {
        // SAFETY: the bytes are those of the type, aligned, and hold bools as 0 or 1: the invariants of Array.
        unsafe { View::new(self.dense_ty(), self.buffer.bytes()) }
    }

    /// A view to write through; copies the elements first if they are shared.
    pub fn view_mut(&mut self) -> ViewMut<'_> {
        let bytes = exclusive(&mut self.buffer).bytes_mut();
        // SAFETY: as in `view`, and the buffer is not shared.
        unsafe { ViewMut::new(self.slices.as_ref().map_or(&self.ty, |stack| &stack.nothing), bytes) }
    }

    /// The elements in row-major order.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], ArrayError> {
        self.view().as_slice()
    }

    /// The elements, to write; copies them first if they are shared.
    pub fn make_mut_slice<T: Element>(&mut self) -> Result<&mut [T], ArrayError> {
        check_element::<T>(&self.ty)?;
        let bytes = exclusive(&mut self.buffer).bytes_mut();
        // SAFETY: the buffer is aligned, holds whole elements of T (the dtype agrees), and T accepts what is in it.
        Ok(unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / size_of::<T>()) })
    }

    /// The elements as a vector.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, ArrayError> {
        Ok(self.as_slice::<T>()?.to_vec())
    }

    /// The only element.
    pub fn item<T: Element>(&self) -> Result<T, ArrayError> {
        match self.as_slice::<T>()? {
            [value] => Ok(*value),
            _ => Err(ArrayError::NotOneElement { found: self.ty.clone() }),
        }
    }

    /// The same elements under another shape; shares them.
    pub fn reshaped(&self, shape: impl Into<Shape>) -> Result<Array, ArrayError> {
        let shape = shape.into();
        if check_addressable(&shape)? != self.elements() {
            return Err(ArrayError::ElementCount { shape, found: self.elements() });
        }
        Ok(Array { ty: self.ty.with_shape(shape), buffer: self.buffer.clone(), slices: None })
    }

    /// Row number `at` along the first dimension, which must have one.
    pub(crate) fn row(&self, at: usize) -> Array {
        let mut row = Array::unspecified(self.ty.with_shape(&self.ty.shape[1..]));
        let bytes = row.ty.bytes();
        exclusive(&mut row.buffer).bytes_mut().copy_from_slice(&self.buffer.bytes()[at * bytes..][..bytes]);
        row
    }

    /// The tensor whose rows along a new first dimension are these arrays of type `row`.
    pub(crate) fn from_rows(row: &TensorType, rows: &[Array]) -> Array {
        let extents = std::iter::once(rows.len()).chain(row.shape.iter().copied());
        let mut array = Array::unspecified(row.with_shape(extents.collect::<Shape>()));
        if row.bytes() > 0 {
            let bytes = exclusive(&mut array.buffer).bytes_mut().chunks_exact_mut(row.bytes());
            bytes.zip(rows).for_each(|(to, row)| to.copy_from_slice(row.buffer.bytes()));
        }
        array
    }

    /// Whether the elements are held by this array alone.
    pub fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.buffer) == 1
    }

    /// Same type and same bits in every element, where all NaN count as the same.
    pub fn bits_equal(&self, other: &Array) -> bool {
        self.first_difference(other).is_none()
    }

    /// What [`Array::bits_equal`] objects to.
    pub fn first_difference(&self, other: &Array) -> Option<Difference> {
        if self.ty != other.ty {
            return Some(Difference::Type { left: self.ty.clone(), right: other.ty.clone() });
        }
        if let (Some(left), Some(right)) = (self.stack_slices(), other.stack_slices()) {
            return stack::first_difference(left, right);
        }
        with_element!(self.ty.dtype, T => {
            let (left, right) = (self.as_slice::<T>().ok()?, other.as_slice::<T>().ok()?);
            let at = (0..left.len()).find(|&i| canonical_bits(left[i]) != canonical_bits(right[i]))?;
            Some(Difference::Element {
                index: unravel(at, self.shape()),
                left: format!("{:?} (bits {:#x})", left[at], left[at].to_bits64()),
                right: format!("{:?} (bits {:#x})", right[at], right[at].to_bits64()),
            })
        })
    }
}

/// Where two arrays differ first.
#[derive(Clone, PartialEq, Debug)]
pub enum Difference {
    /// In type.
    Type {
        /// Type of the one.
        left: TensorType,
        /// Type of the other.
        right: TensorType,
    },
    /// In the number of a stack's slices.
    Length {
        /// Slices of the one.
        left: usize,
        /// Slices of the other.
        right: usize,
    },
    /// In an element.
    Element {
        /// Index of the element.
        index: Vec<usize>,
        /// The element of the one, with its bits.
        left: String,
        /// The element of the other.
        right: String,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Type { left, right } => write!(formatter, "types differ: {left} against {right}"),
            Difference::Length { left, right } => write!(formatter, "{left} slices against {right}"),
            Difference::Element { index, left, right } => {
                write!(formatter, "at {index:?}: {left} against {right}")
            }
        }
    }
}

/// Bits of an element, with one representative for all NaN.
#[allow(clippy::eq_op)] // Only NaN differs from itself.
fn canonical_bits<T: Element>(value: T) -> u64 {
    if value == value { value.to_bits64() } else { u64::MAX }
}

/// The index of the element at a row-major position.
pub(crate) fn unravel(position: usize, shape: &Shape) -> Vec<usize> {
    let mut rest = position;
    let mut index = vec![0; shape.rank()];
    for d in (0..shape.rank()).rev() {
        index[d] = rest % shape[d];
        rest /= shape[d];
    }
    index
}

fn check_addressable(shape: &Shape) -> Result<usize, ArrayError> {
    shape.checked_len().ok_or_else(|| ArrayError::TooLarge { shape: shape.clone() })
}

pub(crate) fn check_element<T: Element>(ty: &TensorType) -> Result<(), ArrayError> {
    if ty.dtype == T::DTYPE {
        Ok(())
    } else {
        Err(ArrayError::DType { expected: T::DTYPE, found: ty.clone() })
    }
}

/// The buffer, replaced by a copy if others hold it.
fn exclusive(buffer: &mut Arc<Buffer>) -> &mut Buffer {
    if Arc::get_mut(buffer).is_none() {
        let mut copy = Buffer::new(buffer.bytes().len());
        copy.bytes_mut().copy_from_slice(buffer.bytes());
        *buffer = Arc::new(copy);
    }
    Arc::get_mut(buffer).expect("a buffer just made has one owner")
}

/// Scalars, and Rust arrays of them nested to any depth: what [`Array`] can be made from with `into`.
pub trait Nested {
    /// The scalar at the bottom.
    type Scalar: Element;
    /// Appends the extents, outermost first.
    fn extents(extents: &mut Dims);
    /// Appends the elements in row-major order.
    fn flatten(&self, elements: &mut Vec<Self::Scalar>);
}

impl<T: Element> Nested for T {
    type Scalar = T;
    fn extents(_: &mut Dims) {}
    fn flatten(&self, elements: &mut Vec<T>) {
        elements.push(*self);
    }
}

impl<N: Nested, const K: usize> Nested for [N; K] {
    type Scalar = N::Scalar;
    fn extents(extents: &mut Dims) {
        extents.push(K);
        N::extents(extents);
    }
    fn flatten(&self, elements: &mut Vec<N::Scalar>) {
        self.iter().for_each(|inner| inner.flatten(elements));
    }
}

impl<N: Nested> From<N> for Array {
    fn from(nested: N) -> Array {
        let (mut extents, mut elements) = (Dims::new(), Vec::new());
        N::extents(&mut extents);
        nested.flatten(&mut elements);
        Array::filled(Shape::new(&extents), &elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_arrays_give_their_shape() {
        let a = Array::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
        assert_eq!(a.ty().to_string(), "f32[2,3]");
        assert_eq!(a.as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(Array::from(7i64).item::<i64>(), Ok(7));
        assert_eq!(Array::from([[0.5f64; 3]; 0]).ty().to_string(), "f64[0,3]");
        assert_eq!(Array::from([true, false]).to_vec::<bool>().unwrap(), [true, false]);
    }

    #[test]
    fn wrong_reads_and_shapes_are_errors() {
        let a = Array::vector(&[1i32, 2]);
        let expected = ArrayError::DType { expected: DType::F32, found: a.ty().clone() };
        assert_eq!(a.as_slice::<f32>(), Err(expected));
        assert!(matches!(a.item::<i32>(), Err(ArrayError::NotOneElement { .. })));
        assert!(matches!(a.reshaped([3]), Err(ArrayError::ElementCount { found: 2, .. })));
        assert!(matches!(Array::from_slice(&[1.0f64], [2]), Err(ArrayError::ElementCount { .. })));
        let huge = Array::full(0u32, [usize::MAX, usize::MAX]);
        assert!(matches!(huge, Err(ArrayError::TooLarge { .. })));
        // An extent of 0 does not excuse the others.
        let empty = |extent| Array::zeros(TensorType::new(DType::F64, [extent, 0]));
        assert!(matches!(empty(usize::MAX), Err(ArrayError::TooLarge { .. })));
        assert!(empty(1 << 40).is_ok());
    }

    #[test]
    fn writing_copies_shared_elements() {
        let a = Array::vector(&[1u64, 2, 3]);
        let mut b = a.reshaped([3, 1]).unwrap();
        assert!(!a.is_unshared());
        b.make_mut_slice::<u64>().unwrap()[0] = 9;
        assert!(a.is_unshared() && b.is_unshared());
        assert_eq!(a.to_vec::<u64>().unwrap(), [1, 2, 3]);
        assert_eq!(b.to_vec::<u64>().unwrap(), [9, 2, 3]);
    }

    #[test]
    fn literals_round_trip_to_the_bit() {
        let nan = f32::from_bits(0xFFC0_1234);
        let a = Array::vector(&[-0.0f32, nan, 1.5]);
        let back = Array::from_literal(&a.to_literal());
        let bits = |a: &Array| a.as_slice::<f32>().unwrap().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&a), bits(&back));
        for dtype in DType::ALL {
            let literal = Literal::number(TensorType::new(dtype, [2, 2]), 1.0);
            assert_eq!(Array::from_literal(&literal).to_literal(), literal);
            let zeros = Array::zeros(TensorType::new(dtype, [5])).unwrap();
            assert_eq!(zeros.to_literal(), Literal::number(zeros.ty().clone(), 0.0));
        }
    }

    #[test]
    fn differences_see_signs_of_zero_but_not_of_nan() {
        let a = Array::from([[1.0f64, f64::NAN], [0.0, 2.0]]);
        let b = Array::from([[1.0f64, -f64::NAN], [-0.0, 2.0]]);
        let Some(Difference::Element { index, .. }) = a.first_difference(&b) else { panic!("zeros differ") };
        assert_eq!(index, [1, 0]);
        assert!(a.bits_equal(&a.clone()));
        assert!(matches!(a.first_difference(&Array::from(1.0f32)), Some(Difference::Type { .. })));
    }

    #[test]
    fn memory_is_aligned() {
        for n in [0usize, 1, 3, 1000, 5000] {
            let a = Array::vector(&vec![1.0f64; n]);
            assert_eq!(a.as_slice::<f64>().unwrap().as_ptr() as usize % 64, 0);
        }
    }
}

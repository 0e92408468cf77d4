//! Shapes and tensor types. Extents are static; rank 0 is a scalar; a zero extent is legal everywhere.

use crate::dtype::DType;
use smallvec::SmallVec;
use std::fmt;
use std::ops::Deref;

/// A short list of dimension numbers or extents.
pub type Dims = SmallVec<[usize; 4]>;

/// The extents of a tensor, outermost first. Dereferences to `[usize]`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Shape(Dims);

impl Shape {
    /// The shape of a scalar.
    pub fn scalar() -> Shape {
        Shape::default()
    }

    /// A shape with these extents.
    pub fn new(extents: &[usize]) -> Shape {
        Shape(Dims::from_slice(extents))
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Number of elements, or `None` when it does not fit (see [`MAX_ELEMENTS`]). An extent of 0 does not excuse the
    /// others, whose product strides are made of.
    pub fn checked_len(&self) -> Option<usize> {
        let product = self.0.iter().try_fold(1usize, |n, &d| n.checked_mul(d.max(1)));
        product.filter(|&n| n <= MAX_ELEMENTS).map(|_| self.elements())
    }

    /// Number of elements. Types are checked against [`MAX_ELEMENTS`] when they are made, so the product fits.
    pub fn elements(&self) -> usize {
        self.0.iter().product()
    }

    /// Distance in elements between neighbours along each dimension, row-major.
    pub fn strides(&self) -> Dims {
        let mut strides = Dims::from_elem(1, self.rank());
        for d in (0..self.rank().saturating_sub(1)).rev() {
            strides[d] = strides[d + 1] * self.0[d + 1];
        }
        strides
    }

    /// The shape without the dimensions listed.
    pub fn without(&self, dims: &[usize]) -> Shape {
        self.0.iter().enumerate().filter(|(d, _)| !dims.contains(d)).map(|(_, &n)| n).collect()
    }
}

/// The largest number of elements a tensor may have: index arithmetic on 8-byte elements stays within `isize`.
pub const MAX_ELEMENTS: usize = 1 << 48;

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(iter: I) -> Shape {
        Shape(iter.into_iter().collect())
    }
}

impl From<&[usize]> for Shape {
    fn from(extents: &[usize]) -> Shape {
        Shape::new(extents)
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(extents: [usize; N]) -> Shape {
        Shape::new(&extents)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[")?;
        for (i, n) in self.0.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(formatter, "{comma}{n}")?;
        }
        formatter.write_str("]")
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Element type and shape of a tensor, printed `f32[2,3]`; or of the slices of a stack, printed `f32[?,2,3]`.
///
/// A stack is a sequence of tensors of one type whose length is known only at run time. Loops make and eat stacks, and
/// ops that hold programs pass them on; no other op takes one. A sequence of stacks, whose lengths may differ, is a
/// stack of one more level: `f32[?,?,2,3]`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Type of each element.
    pub dtype: DType,
    /// Extents of the tensor, or of each slice of the stack.
    pub shape: Shape,
    levels: u8,
}

impl TensorType {
    /// The type with this element type and shape.
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> TensorType {
        TensorType { dtype, shape: shape.into(), levels: 0 }
    }

    /// A scalar of this element type.
    pub fn scalar(dtype: DType) -> TensorType {
        TensorType::new(dtype, Shape::scalar())
    }

    /// The same shape with another element type.
    pub fn with_dtype(&self, dtype: DType) -> TensorType {
        TensorType { dtype, shape: self.shape.clone(), levels: self.levels }
    }

    /// The tensor of the same element type with another shape.
    pub fn with_shape(&self, shape: impl Into<Shape>) -> TensorType {
        TensorType::new(self.dtype, shape)
    }

    /// The same with tensors of another shape: of a stack one of as many levels.
    pub fn with_extents(&self, shape: impl Into<Shape>) -> TensorType {
        TensorType { dtype: self.dtype, shape: shape.into(), levels: self.levels }
    }

    /// Whether it is the type of a stack.
    pub fn is_stack(&self) -> bool {
        self.levels > 0
    }

    /// Stacks in one another: 0 for a tensor.
    pub fn levels(&self) -> usize {
        self.levels.into()
    }

    /// The type of a sequence of these. `None` beyond 255 levels.
    pub fn stack(&self) -> Option<TensorType> {
        Some(TensorType { levels: self.levels.checked_add(1)?, ..self.clone() })
    }

    /// The type of the slices of a stack.
    pub fn stack_slice(&self) -> Option<TensorType> {
        Some(TensorType { levels: self.levels.checked_sub(1)?, ..self.clone() })
    }

    /// Bytes of the dense array, or of one slice at the lowest level of a stack.
    pub fn bytes(&self) -> usize {
        self.shape.elements() * self.dtype.size()
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.levels == 0 {
            return write!(formatter, "{}{}", self.dtype, self.shape);
        }
        let unknown = (0..self.levels).map(|_| "?".to_string());
        let extents: Vec<String> = unknown.chain(self.shape.iter().map(|n| n.to_string())).collect();
        write!(formatter, "{}[{}]", self.dtype, extents.join(","))
    }
}

impl fmt::Debug for TensorType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

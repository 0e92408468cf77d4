//! Short ways to append common ops, for rules and passes. Each is [`Builder::one`] with the op spelled out.

use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::TypeError;
use crate::literal::{Literal, Scalar};
use crate::ops::contract::dot::Dot;
use crate::ops::control::looping::{empty_stack, map_stacks};
use crate::ops::elementwise::binary::Binary;
use crate::ops::elementwise::compare::Compare;
use crate::ops::elementwise::convert::Convert;
use crate::ops::elementwise::integer_pow::IntegerPow;
use crate::ops::elementwise::scale_by::ScaleBy;
use crate::ops::elementwise::select::Select;
use crate::ops::elementwise::unary::Unary;
use crate::ops::leaf::constant::Constant;
use crate::ops::leaf::iota::Iota;
use crate::ops::reduce::reduce::{Reduce, Reducer};
use crate::ops::shape::broadcast::Broadcast;
use crate::ops::shape::reshape::Reshape;
use crate::ops::shape::transpose::Transpose;
use crate::program::Value;
use crate::shape::{Dims, Shape, TensorType};

type Emitted = Result<Value, TypeError>;

impl Builder {
    /// A constant.
    pub fn constant(&mut self, value: Literal) -> Emitted {
        self.one(Constant { value }, &[])
    }

    /// A scalar constant.
    pub fn scalar<T: Scalar>(&mut self, value: T) -> Emitted {
        self.constant(Literal::scalar(value))
    }

    /// A constant of type `ty` with every element equal to a number.
    pub fn number(&mut self, ty: &TensorType, value: f64) -> Emitted {
        self.constant(Literal::number(ty.clone(), value))
    }

    /// A constant of the type of `like` with every element equal to a number.
    pub fn number_like(&mut self, like: Value, value: f64) -> Emitted {
        let ty = self.ty(like).clone();
        self.number(&ty, value)
    }

    /// Zeros of the type of `like`, which may be a stack.
    pub fn zeros_like(&mut self, like: Value) -> Emitted {
        map_stacks(self, "zeros", &[], &[like], &mut |b, v| b.number_like(v[0], 0.0))
    }

    /// Zeros of a type; of a stack's, none.
    pub fn zeros(&mut self, ty: &TensorType) -> Emitted {
        if ty.is_stack() { empty_stack(self, ty) } else { self.number(ty, 0.0) }
    }

    /// Indices along dimension `dim` of a tensor of this type.
    pub fn iota(&mut self, ty: TensorType, dim: usize) -> Emitted {
        self.one(Iota { ty, dim }, &[])
    }

    /// An elementwise function.
    pub fn unary(&mut self, function: Unary, x: Value) -> Emitted {
        self.one(function, &[x])
    }

    /// `-x`
    pub fn neg(&mut self, x: Value) -> Emitted {
        self.unary(Unary::Neg, x)
    }

    /// `x + y`
    pub fn add(&mut self, x: Value, y: Value) -> Emitted {
        self.one(Binary::Add, &[x, y])
    }

    /// `x - y`
    pub fn sub(&mut self, x: Value, y: Value) -> Emitted {
        self.one(Binary::Sub, &[x, y])
    }

    /// `x * y`
    pub fn mul(&mut self, x: Value, y: Value) -> Emitted {
        self.one(Binary::Mul, &[x, y])
    }

    /// `x / y`
    pub fn div(&mut self, x: Value, y: Value) -> Emitted {
        self.one(Binary::Div, &[x, y])
    }

    /// `x * c`
    pub fn mul_number(&mut self, x: Value, c: f64) -> Emitted {
        let c = self.number_like(x, c)?;
        self.mul(x, c)
    }

    /// `c - x`
    pub fn number_sub(&mut self, c: f64, x: Value) -> Emitted {
        let c = self.number_like(x, c)?;
        self.sub(c, x)
    }

    /// `x + c`
    pub fn add_number(&mut self, x: Value, c: f64) -> Emitted {
        let c = self.number_like(x, c)?;
        self.add(x, c)
    }

    /// `x` to a constant integer power.
    pub fn integer_pow(&mut self, x: Value, exponent: i32) -> Emitted {
        self.one(IntegerPow { exponent }, &[x])
    }

    /// Elementwise comparison.
    pub fn compare(&mut self, how: Compare, x: Value, y: Value) -> Emitted {
        self.one(how, &[x, y])
    }

    /// Elementwise `x` where `condition`, else `y`.
    pub fn select(&mut self, condition: Value, x: Value, y: Value) -> Emitted {
        self.one(Select, &[condition, x, y])
    }

    /// Conversion by value; the value itself if it has the dtype already.
    pub fn convert(&mut self, x: Value, dtype: DType) -> Emitted {
        if self.ty(x).dtype == dtype { Ok(x) } else { self.one(Convert { dtype }, &[x]) }
    }

    /// Tangent times slope, where a zero tangent stays zero.
    pub fn scale_by(&mut self, tangent: Value, slope: Value) -> Emitted {
        self.one(ScaleBy, &[tangent, slope])
    }

    /// Sum over dimensions; the value itself if there are none.
    pub fn reduce_sum(&mut self, x: Value, dims: &[usize]) -> Emitted {
        self.reduce(Reducer::Sum, x, dims)
    }

    /// Reduction over dimensions; the value itself if there are none.
    pub fn reduce(&mut self, reducer: Reducer, x: Value, dims: &[usize]) -> Emitted {
        if dims.is_empty() {
            return Ok(x);
        }
        self.one(Reduce { reducer, dims: Dims::from_slice(dims) }, &[x])
    }

    /// The same elements under another shape; the value itself if it has that shape.
    pub fn reshape(&mut self, x: Value, shape: impl Into<Shape>) -> Emitted {
        let shape = shape.into();
        if self.ty(x).shape == shape { Ok(x) } else { self.one(Reshape { shape }, &[x]) }
    }

    /// Permuted dimensions: result dimension `i` is dimension `permutation[i]` of `x`; the value itself if all stay
    /// where they are.
    pub fn transpose(&mut self, x: Value, permutation: &[usize]) -> Emitted {
        if permutation.iter().copied().eq(0..self.ty(x).shape.rank()) {
            return Ok(x);
        }
        self.one(Transpose { permutation: Dims::from_slice(permutation) }, &[x])
    }

    /// Repetition into `shape`, dimension `i` of `x` becoming dimension `dims[i]`; the value itself if nothing
    /// is repeated or moved.
    pub fn broadcast(&mut self, x: Value, shape: impl Into<Shape>, dims: &[usize]) -> Emitted {
        let shape = shape.into();
        if self.ty(x).shape == shape && dims.iter().copied().eq(0..dims.len()) {
            return Ok(x);
        }
        self.one(Broadcast { shape, dims: Dims::from_slice(dims) }, &[x])
    }

    /// Repetition of `x` along `dims`, which were reduced away from `shape` to give `x`.
    pub fn expand(&mut self, x: Value, shape: &Shape, dims: &[usize]) -> Emitted {
        let kept: Dims = (0..shape.rank()).filter(|d| !dims.contains(d)).collect();
        self.broadcast(x, shape.clone(), &kept)
    }

    /// Sums of products.
    pub fn dot(&mut self, dot: Dot, x: Value, y: Value) -> Emitted {
        self.one(dot, &[x, y])
    }
}

//! The tensor users compute with: cheap to clone, `Send + Sync`.

use crate::eager::{Live, Param};
use crate::error::Error;
use crate::execute;
use crate::trace::Traced;
use pullback_ir::literal::Scalar;
use pullback_ir::ops::leaf::constant::Constant;
use pullback_ir::ops::leaf::iota::Iota;
use pullback_ir::{DType, Literal, Loc, Op, Shape, TensorType};
use pullback_runtime::{Array, Element, Nested};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A tensor: concrete numbers, or a value of a program being recorded.
///
/// Methods and operators neither panic nor return `Result`. A bad call makes a failed tensor that remembers the
/// first error with the line of the call and passes through later ops; the error comes out wherever a value leaves:
/// [`Tensor::item`], [`Tensor::to_vec`], [`Tensor::dims`], and the `call` of every transform.
#[derive(Clone)]
pub struct Tensor(pub(crate) State);

#[derive(Clone)]
pub(crate) enum State {
    /// Numbers.
    Concrete(Array),
    /// Numbers that an op without operands gives, such as zeros: recorded as that op.
    Leaf(Arc<Leaf>),
    /// A parameter of eager use.
    Param(Arc<Param>),
    /// Numbers with a history.
    Live(Live),
    /// A value of a program being recorded.
    Traced(Arc<Traced>),
    /// The first error.
    Failed(Arc<Error>),
}

/// The result of an op without operands, computed when first asked for.
pub(crate) struct Leaf {
    pub(crate) op: Op,
    pub(crate) ty: TensorType,
    loc: Loc,
    array: OnceLock<Result<Array, Error>>,
}

impl Leaf {
    pub(crate) fn array(&self) -> Result<Array, Error> {
        self.array
            .get_or_init(|| match &self.op {
                Op::Constant(constant) => Ok(Array::from_literal(&constant.value)),
                op => execute::run_op(op, &[], self.loc).map(|mut results| results.remove(0)),
            })
            .clone()
    }
}

/// Evaluates to the value, or leaves the function with a failed tensor.
macro_rules! attempt {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return $crate::tensor::Tensor::failed(error),
        }
    };
}
pub(crate) use attempt;

impl Tensor {
    /// A tensor with the elements of an array, which it shares.
    pub fn from_array(array: Array) -> Tensor {
        Tensor(State::Concrete(array))
    }

    /// The elements in row-major order under a shape.
    #[track_caller]
    pub fn from_slice<T: Element>(values: &[T], shape: impl Into<Shape>) -> Tensor {
        match Array::from_slice(values, shape) {
            Ok(array) => Tensor::from_array(array),
            Err(error) => Tensor::failed(error.into()),
        }
    }

    /// As [`Tensor::from_slice`], from a vector.
    #[track_caller]
    pub fn from_vec<T: Element>(values: Vec<T>, shape: impl Into<Shape>) -> Tensor {
        Tensor::from_slice(&values, shape)
    }

    /// A tensor of rank 0.
    pub fn scalar<T: Element>(value: T) -> Tensor {
        Tensor::from_array(Array::scalar(value))
    }

    /// A constant: recorded as a literal rather than passed to the program as data.
    #[track_caller]
    pub(crate) fn literal(literal: Literal) -> Tensor {
        Tensor::leaf(Constant { value: literal })
    }

    /// The result of an op without operands.
    #[track_caller]
    pub(crate) fn leaf(op: impl Into<Op>) -> Tensor {
        let (op, loc) = (op.into(), Loc::caller());
        match op.infer(&[]) {
            Ok(mut types) if types[0].shape.checked_len().is_some() => {
                let ty = types.remove(0);
                Tensor(State::Leaf(Arc::new(Leaf { op, ty, loc, array: OnceLock::new() })))
            }
            Ok(types) => {
                let problem = pullback_ir::Problem::TooLarge { shape: types[0].shape.clone() };
                Tensor::failed(Error::op(op.name(), &[], problem, loc))
            }
            Err(problem) => Tensor::failed(Error::op(op.name(), &[], problem, loc)),
        }
    }

    /// Every element equal to `value`.
    #[track_caller]
    pub fn full<T: Scalar>(value: T, shape: impl Into<Shape>) -> Tensor {
        Tensor::literal(Literal::splat(value, shape))
    }

    /// Zeros.
    #[track_caller]
    pub fn zeros(dtype: DType, shape: impl Into<Shape>) -> Tensor {
        Tensor::literal(Literal::number(TensorType::new(dtype, shape), 0.0))
    }

    /// Ones.
    #[track_caller]
    pub fn ones(dtype: DType, shape: impl Into<Shape>) -> Tensor {
        Tensor::literal(Literal::number(TensorType::new(dtype, shape), 1.0))
    }

    /// Zeros of the type of this tensor.
    #[track_caller]
    pub fn zeros_like(&self) -> Tensor {
        self.full_like(0.0)
    }

    /// Ones of the type of this tensor.
    #[track_caller]
    pub fn ones_like(&self) -> Tensor {
        self.full_like(1.0)
    }

    /// A number, in the dtype and shape of this tensor.
    #[track_caller]
    pub fn full_like(&self, value: f64) -> Tensor {
        let ty = attempt!(self.ty());
        Tensor::literal(Literal::number(ty.clone(), value))
    }

    /// 0, 1, 2, ... below `n`.
    #[track_caller]
    pub fn arange(dtype: DType, n: usize) -> Tensor {
        Tensor::iota(dtype, [n], 0)
    }

    /// Each element is its index along `axis`.
    #[track_caller]
    pub fn iota(dtype: DType, shape: impl Into<Shape>, axis: usize) -> Tensor {
        Tensor::leaf(Iota { ty: TensorType::new(dtype, shape), dim: axis })
    }

    /// The identity matrix with `n` rows.
    #[track_caller]
    pub fn eye(dtype: DType, n: usize) -> Tensor {
        let (rows, columns) = (Tensor::iota(DType::I64, [n, n], 0), Tensor::iota(DType::I64, [n, n], 1));
        rows.eq(&columns).to_dtype(dtype)
    }

    /// `count` numbers from `start` to `end`, both included, at equal distances.
    #[track_caller]
    pub fn linspace(dtype: DType, start: f64, end: f64, count: usize) -> Tensor {
        let step = (end - start) / (count.max(2) - 1) as f64;
        let place = |i: usize| if i + 1 == count && i > 0 { end } else { start + step * i as f64 };
        let places: Vec<f64> = (0..count).map(place).collect();
        Tensor::from_vec(places, [count]).to_dtype(dtype)
    }

    pub(crate) fn failed(error: Error) -> Tensor {
        Tensor(State::Failed(match error {
            Error::Shared(shared) => shared,
            error => Arc::new(error),
        }))
    }

    /// The error this tensor carries, if it failed.
    pub fn error(&self) -> Option<&Error> {
        match &self.0 {
            State::Failed(error) => Some(error),
            State::Concrete(_) | State::Leaf(_) | State::Param(_) | State::Live(_) | State::Traced(_) => None,
        }
    }

    /// The tensor, or the error it carries.
    pub fn ok(self) -> Result<Tensor, Error> {
        match self.0 {
            State::Failed(error) => Err(Error::Shared(error)),
            State::Concrete(_) | State::Leaf(_) | State::Param(_) | State::Live(_) | State::Traced(_) => {
                Ok(self)
            }
        }
    }

    /// Whether this is a value of a program being recorded.
    pub fn is_traced(&self) -> bool {
        matches!(self.0, State::Traced(_))
    }

    /// Element type and shape.
    pub fn ty(&self) -> Result<&TensorType, Error> {
        match &self.0 {
            State::Concrete(array) => Ok(array.ty()),
            State::Leaf(leaf) => Ok(&leaf.ty),
            State::Param(param) => Ok(&param.ty),
            State::Live(live) => Ok(live.array.ty()),
            State::Traced(traced) => Ok(&traced.ty),
            State::Failed(error) => Err(Error::Shared(error.clone())),
        }
    }

    /// Element type.
    pub fn dtype(&self) -> Result<DType, Error> {
        Ok(self.ty()?.dtype)
    }

    /// Extents.
    pub fn shape(&self) -> Result<&Shape, Error> {
        Ok(&self.ty()?.shape)
    }

    /// Number of dimensions.
    pub fn rank(&self) -> Result<usize, Error> {
        Ok(self.shape()?.rank())
    }

    /// Number of elements.
    pub fn size(&self) -> Result<usize, Error> {
        Ok(self.shape()?.elements())
    }

    /// Extents of a tensor that must have rank `N`.
    #[track_caller]
    pub fn dims<const N: usize>(&self) -> Result<[usize; N], Error> {
        let (ty, at) = (self.ty()?, Loc::caller());
        ty.shape[..].try_into().map_err(|_| {
            let message = format!("{ty} has rank {} and not {N}; reshape it first", ty.shape.rank());
            Error::invalid("dims", message, at)
        })
    }

    /// The numbers. While tracing they are known only under transforms that record with values at hand.
    #[track_caller]
    pub fn array(&self) -> Result<Array, Error> {
        match &self.0 {
            State::Concrete(array) => Ok(array.clone()),
            State::Leaf(leaf) => leaf.array(),
            State::Param(param) => Ok(param.value()),
            State::Live(live) => Ok(live.array.clone()),
            State::Traced(traced) => traced.array(Loc::caller()),
            State::Failed(error) => Err(Error::Shared(error.clone())),
        }
    }

    /// The elements in row-major order.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        Ok(self.array()?.to_vec()?)
    }

    /// The only element. A float may be read as `f64` whatever its width.
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T, Error> {
        let array = self.array()?;
        if T::DTYPE == DType::F64 && array.dtype() == DType::F32 {
            let wide = f64::from(array.item::<f32>()?);
            return Ok(T::from_bits64(wide.to_bits64()));
        }
        Ok(array.item()?)
    }
}

impl<N: Nested> From<N> for Tensor {
    fn from(nested: N) -> Tensor {
        Tensor::from_array(nested.into())
    }
}

impl fmt::Display for Tensor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            State::Concrete(array) => array.fmt(formatter),
            State::Leaf(leaf) => match leaf.array() {
                Ok(array) => array.fmt(formatter),
                Err(error) => write!(formatter, "failed: {error}"),
            },
            State::Param(param) => param.value().fmt(formatter),
            State::Live(live) => live.array.fmt(formatter),
            State::Traced(traced) => write!(formatter, "traced {}", traced.ty),
            State::Failed(error) => write!(formatter, "failed: {error}"),
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ty() {
            Ok(ty) if !self.is_traced() => write!(formatter, "{ty} {self}"),
            Ok(_) | Err(_) => write!(formatter, "{self}"),
        }
    }
}

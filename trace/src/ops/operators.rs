//! Rust's operators, on tensors by value or reference and on numbers at either side.

use crate::apply::apply;
use crate::ops::broadcast::elementwise;
use crate::ops::number::{Number, Numeric, Operand};
use crate::tensor::{Tensor, attempt};
use pullback_ir::ops::elementwise::binary::Binary;
use pullback_ir::ops::elementwise::unary::Unary;
use pullback_ir::{DType, Loc};
use std::ops;

/// `left op right` where one of them may be a number.
#[track_caller]
fn operate(name: &str, op: fn(DType) -> Binary, left: Operand, right: Operand) -> Tensor {
    let dtype = match (&left, &right) {
        (Operand::Tensor(tensor), _) | (_, Operand::Tensor(tensor)) => attempt!(tensor.dtype()),
        (Operand::Number(_), Operand::Number(_)) => DType::F64,
    };
    let left = attempt!(left.beside(dtype, Loc::caller()));
    let right = attempt!(right.beside(dtype, Loc::caller()));
    elementwise(name, op(dtype), &left, &right)
}

macro_rules! implement {
    ($trait:ident $method:ident $name:literal $op:expr; $([$($generics:tt)*] $left:ty, $right:ty;)*) => {
        $(impl<$($generics)*> ops::$trait<$right> for $left {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: $right) -> Tensor {
                operate($name, $op, self.into(), other.into())
            }
        })*
    };
}

// At the right any number will do, by one generic impl, and at the left one type of float and one of integers: then
// the type of `(x * 2.0)` is known before that of the literal.
macro_rules! operator {
    ($trait:ident $method:ident $name:literal $op:expr) => {
        implement! { $trait $method $name $op;
            [] &Tensor, &Tensor; [] Tensor, &Tensor; [] &Tensor, Tensor; [] Tensor, Tensor;
            [N: Numeric] &Tensor, N; [N: Numeric] Tensor, N;
            [] f64, &Tensor; [] f64, Tensor; [] i32, &Tensor; [] i32, Tensor;
        }
    };
}

operator! { Add add "add" |_| Binary::Add }
operator! { Sub sub "sub" |_| Binary::Sub }
operator! { Mul mul "mul" |_| Binary::Mul }
operator! { Div div "div" |_| Binary::Div }
operator! { Rem rem "rem" |_| Binary::Rem }
operator! { BitAnd bitand "and" |_| Binary::And }
operator! { BitOr bitor "or" |_| Binary::Or }
operator! { BitXor bitxor "xor" |_| Binary::Xor }
operator! { Shl shl "shl" |_| Binary::Shl }
// As in Rust: signed integers keep their sign.
operator! { Shr shr "shr" |dtype| if dtype.is_signed() { Binary::ShrArithmetic } else { Binary::ShrLogical } }

macro_rules! negation {
    ($($trait:ident $method:ident $op:ident;)*) => {
        $(impl ops::$trait for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self) -> Tensor {
                apply(Unary::$op, &[self])
            }
        }
        impl ops::$trait for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self) -> Tensor {
                apply(Unary::$op, &[&self])
            }
        })*
    };
}

negation! { Neg neg Neg; Not not Not; }

macro_rules! assignment {
    ($($trait:ident $method:ident $op:tt;)*) => {
        $(impl<R: Into<Operand>> ops::$trait<R> for Tensor {
            #[track_caller]
            fn $method(&mut self, other: R) {
                *self = match other.into() {
                    Operand::Tensor(other) => &*self $op other,
                    Operand::Number(Number::Int(other)) => &*self $op other,
                    Operand::Number(Number::Float(other)) => &*self $op other,
                };
            }
        })*
    };
}

assignment! { AddAssign add_assign +; SubAssign sub_assign -; MulAssign mul_assign *; DivAssign div_assign /; }

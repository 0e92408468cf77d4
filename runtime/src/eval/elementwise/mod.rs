//! Elementwise ops: their scalar definitions over slices.

pub(super) mod binary;
pub(super) mod bitcast;
pub(super) mod compare;
pub(super) mod convert;
pub(super) mod integer_pow;
pub(super) mod scale_by;
pub(super) mod select;
pub(super) mod unary;

/// Runs one expression for floats, another for integers and a third for bool, with the element type in scope.
macro_rules! by_kind {
    ($dtype:expr, float $F:ident => $float:expr, int $I:ident => $int:expr, bool => $bool:expr $(,)?) => {
        match $dtype {
            pullback_ir::DType::Bool => $bool,
            pullback_ir::DType::I32 => {
                type $I = i32;
                $int
            }
            pullback_ir::DType::I64 => {
                type $I = i64;
                $int
            }
            pullback_ir::DType::U32 => {
                type $I = u32;
                $int
            }
            pullback_ir::DType::U64 => {
                type $I = u64;
                $int
            }
            pullback_ir::DType::F32 => {
                type $F = f32;
                $float
            }
            pullback_ir::DType::F64 => {
                type $F = f64;
                $float
            }
        }
    };
}
pub(in crate::eval) use by_kind;

/// Runs an expression once for each of some rows of a table of functions, with `$F` a type whose `ROW` is the row,
/// so that the loop is compiled for that row alone; another one for the other rows.
macro_rules! by_row {
    ($op:expr, $Rows:ident: [$($row:ident)*], $F:ident => $body:expr, [$($other:ident)*] => $rest:expr) => {
        match $op {
            $($Rows::$row => {
                struct $F;
                impl Row for $F {
                    const ROW: $Rows = $Rows::$row;
                }
                $body
            })*
            $($Rows::$other => $rest,)*
        }
    };
}
use by_row;

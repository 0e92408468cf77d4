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

/// Makes a module `row` with a type per row of a table of functions, whose `ROW` is the row: loops are generic over
/// such a type, so that each is compiled for one row alone.
macro_rules! rows {
    ($Rows:ident: $($row:ident)*) => {
        trait Row: Sync {
            const ROW: $Rows;
        }
        mod row {
            $(pub(super) struct $row;
            impl super::Row for $row {
                const ROW: super::$Rows = super::$Rows::$row;
            })*
        }
    };
}
use rows;

/// Runs an expression for some rows, with `$F` the type of the row at hand; another one for the other rows.
macro_rules! by_row {
    ($op:expr, $Rows:ident: [$($row:ident)*], $F:ident => $body:expr, [$($other:ident)*] => $rest:expr) => {
        match $op {
            $($Rows::$row => {
                use row::$row as $F;
                $body
            })*
            $($Rows::$other => $rest,)*
        }
    };
}
use by_row;

//! From elementwise functions to instructions.
//!
//! Elements are held in registers one at a time or as many as fill 16 bytes:
//!
//! | element type  | memory  | 1 lane   | 4 lanes | 2 lanes |
//! |---------------|---------|----------|---------|---------|
//! | f32           | 4 bytes | F32      | F32X4   |         |
//! | i32, u32      | 4 bytes | I32      | I32X4   |         |
//! | f64           | 8 bytes | F64      |         | F64X2   |
//! | i64, u64      | 8 bytes | I64      |         | I64X2   |
//! | bool          | 1 byte  | I8: 0, 1 | I32X4   | I64X2   |
//!
//! A lane of a bool is all ones or all zeros, and as wide as the elements it goes with: the number of lanes says
//! which. A loop with elements of 4 and of 8 bytes therefore runs on one lane.
//!
//! Definitions of functions are generic over a machine ([`pullback_ir::maths`]); [`Machine`] is the one whose
//! operations append instructions. Operations without a vector instruction are done lane by lane.

mod convert;
mod emitter;
mod float;
mod int;
mod machine;
mod memory;
mod outline;
mod scalar_op;
#[cfg(test)]
mod tests;

pub use emitter::Emitter;
pub use machine::Machine;

use cranelift_codegen::ir::{Type, types};
use pullback_ir::DType;
use pullback_ir::recipe::ScalarOp;

/// Bytes of a vector register.
const VECTOR_BYTES: usize = 16;

/// Elements in a vector register; `None` for bool, which goes with elements of any width.
pub fn vector_lanes(dtype: DType) -> Option<usize> {
    match dtype {
        DType::Bool => None,
        DType::I32 | DType::U32 | DType::F32 | DType::I64 | DType::U64 | DType::F64 => {
            Some(VECTOR_BYTES / dtype.size())
        }
    }
}

/// How many lanes a loop over elements of these types can have: those of a vector register if all are of one width
/// (bools aside), else 1. Bools alone have 4.
pub fn common_lanes(dtypes: impl IntoIterator<Item = DType>) -> usize {
    let mut lanes = None;
    for own in dtypes.into_iter().filter_map(vector_lanes) {
        if *lanes.get_or_insert(own) != own {
            return 1;
        }
    }
    lanes.unwrap_or(4)
}

/// Element type of the result of an operation on these element types.
pub fn result_dtype(op: ScalarOp, dtypes: &[DType]) -> DType {
    match op {
        ScalarOp::Convert(to) | ScalarOp::Bitcast(to) => to,
        ScalarOp::Compare(_) => DType::Bool,
        ScalarOp::Unary(function) if function.is_test() => DType::Bool,
        ScalarOp::Unary(_)
        | ScalarOp::Binary(_)
        | ScalarOp::Select
        | ScalarOp::ScaleBy
        | ScalarOp::IntegerPow(_) => dtypes[dtypes.len() - 1],
    }
}

/// The type of a register of so many elements.
pub fn register_type(dtype: DType, lanes: usize) -> Type {
    match (dtype, lanes) {
        (DType::Bool, 1) => types::I8,
        (DType::Bool, 2) => types::I64X2,
        (DType::Bool, _) => types::I32X4,
        (DType::I32 | DType::U32, 1) => types::I32,
        (DType::I32 | DType::U32, _) => types::I32X4,
        (DType::I64 | DType::U64, 1) => types::I64,
        (DType::I64 | DType::U64, _) => types::I64X2,
        (DType::F32, 1) => types::F32,
        (DType::F32, _) => types::F32X4,
        (DType::F64, 1) => types::F64,
        (DType::F64, _) => types::F64X2,
    }
}

//! Conversions of conversions.

use super::{Rewrite, Simplifier};
use crate::dtype::DType;
use crate::ops::Op;
use crate::ops::elementwise::convert::Convert;
use crate::program::Value;

impl Simplifier<'_> {
    pub(super) fn conversion(&mut self, dtype: DType, x: Value) -> Rewrite {
        // T(x) = x for x of type T
        let middle = self.ty(x).dtype;
        if middle == dtype {
            return Ok(Some(x));
        }
        // T(M(x)) = T(x) where M keeps every value and T asks for nothing but the value
        let Some(node) = self.producer(x) else { return Ok(None) };
        let (Op::Convert(_), source) = (&node.op, node.operands.first().copied()) else { return Ok(None) };
        match source.filter(|&source| is_skippable(self.ty(source).dtype, middle, dtype)) {
            Some(source) => self.rewritten(Convert { dtype }, &[source]),
            None => Ok(None),
        }
    }
}

/// Whether converting by way of `middle` is converting directly.
fn is_skippable(source: DType, middle: DType, target: DType) -> bool {
    // To an integer, integers wrap and floats saturate: by way of a float that is the same only where neither happens.
    let is_same_overflow =
        !target.is_int() || middle.is_float() == source.is_float() || contains(target, source);
    contains(middle, source) && is_same_overflow
}

/// Whether every value of `small` is one of `large`.
fn contains(large: DType, small: DType) -> bool {
    use DType::*;
    match small {
        Bool => true,
        I32 => matches!(large, I32 | I64 | F64),
        U32 => matches!(large, U32 | U64 | I64 | F64),
        F32 => matches!(large, F32 | F64),
        I64 | U64 | F64 => large == small,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_ways_round_are_cut() {
        use DType::*;
        for (source, middle, target) in [
            (F32, F64, F32),
            (I32, I64, F32),
            (Bool, F32, I64),
            (I32, F64, I64),
            (U32, I64, I32),
            (F32, F64, I32),
        ] {
            assert!(is_skippable(source, middle, target), "{source} {middle} {target}");
        }
        for (source, middle, target) in [
            (F64, F32, F64),
            (I32, F64, U32),
            (I64, F64, I64),
            (I32, F32, I32),
            (I32, U64, F32),
            (U32, F64, I32),
        ] {
            assert!(!is_skippable(source, middle, target), "{source} {middle} {target}");
        }
    }
}

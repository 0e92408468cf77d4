//! Conversions between element types, by value and by bits. Vectors convert between types of one width only.

use super::{Emitter, register_type};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value};
use pullback_ir::DType;
use pullback_ir::literal::Scalar;

impl Emitter<'_> {
    /// By value, as Rust's `as` has it; a bool is whether the number is not zero, and 1 or 0 as a number.
    pub(super) fn convert(&mut self, from: DType, to: DType, lanes: usize, x: Value) -> Value {
        if from == to {
            x
        } else if to == DType::Bool {
            self.is_not_zero(from, lanes, x)
        } else if from == DType::Bool {
            let (one, zero) = (self.constant(to, one(to), lanes), self.constant(to, 0, lanes));
            self.machine(lanes).choose(x, one, zero)
        } else if lanes > 1 && !has_vector_instruction(from, to) {
            let mut result = self.constant(to, 0, lanes);
            for lane in 0..lanes {
                let element = self.extract(from, x, lane);
                let element = self.convert(from, to, 1, element);
                result = self.insert(to, result, element, lane);
            }
            result
        } else {
            self.convert_number(from, to, lanes, x)
        }
    }

    fn convert_number(&mut self, from: DType, to: DType, lanes: usize, x: Value) -> Value {
        let ty = register_type(to, lanes);
        let ins = self.builder.ins();
        match (from.is_float(), to.is_float()) {
            (true, true) if to.size() > from.size() => ins.fpromote(ty, x),
            (true, true) => ins.fdemote(ty, x),
            (true, false) if to.is_signed() => ins.fcvt_to_sint_sat(ty, x),
            (true, false) => ins.fcvt_to_uint_sat(ty, x),
            (false, true) if from.is_signed() => ins.fcvt_from_sint(ty, x),
            (false, true) => ins.fcvt_from_uint(ty, x),
            (false, false) if to.size() == from.size() => x,
            (false, false) if to.size() < from.size() => ins.ireduce(ty, x),
            (false, false) if from.is_signed() => ins.sextend(ty, x),
            (false, false) => ins.uextend(ty, x),
        }
    }

    fn is_not_zero(&mut self, from: DType, lanes: usize, x: Value) -> Value {
        let zero = self.constant(from, 0, lanes);
        if from.is_float() {
            self.builder.ins().fcmp(FloatCC::NotEqual, x, zero)
        } else {
            self.builder.ins().icmp(IntCC::NotEqual, x, zero)
        }
    }

    /// By bits; every NaN becomes the canonical one when cast to an integer.
    pub(super) fn bitcast(&mut self, from: DType, to: DType, lanes: usize, x: Value) -> Value {
        let ty = register_type(to, lanes);
        let bits = self.cast(ty, x);
        if !from.is_float() || to.is_float() {
            return bits;
        }
        let canonical = if from == DType::F32 { f32::NAN.to_bits64() } else { f64::NAN.to_bits64() };
        let canonical = self.constant(to, canonical, lanes);
        let is_number = self.builder.ins().fcmp(FloatCC::Equal, x, x);
        self.machine(lanes).choose(is_number, bits, canonical)
    }
}

/// Bits of the number 1.
fn one(dtype: DType) -> u64 {
    match dtype {
        DType::F32 => 1f32.to_bits64(),
        DType::F64 => 1f64.to_bits64(),
        DType::Bool | DType::I32 | DType::I64 | DType::U32 | DType::U64 => 1,
    }
}

/// Whether vectors of numbers, of one width, convert with one instruction.
fn has_vector_instruction(from: DType, to: DType) -> bool {
    // From 64-bit floats to integers and back there are none on x86.
    from.size() == 4 || !(from.is_float() || to.is_float())
}

//! Integers on the emitting machine.

use super::Machine;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use pullback_ir::maths::{Int, IntLanes};

impl<T: Int> IntLanes<T> for Machine<'_, '_> {
    type V = Value;
    type M = Value;

    fn int(&mut self, value: i64) -> Value {
        let ty = self.register(if T::WIDTH == 32 { types::I32 } else { types::I64 });
        self.emitter.constant_of(ty, value as u64)
    }
    fn add(&mut self, a: Value, b: Value) -> Value {
        self.emitter.builder.ins().iadd(a, b)
    }
    fn sub(&mut self, a: Value, b: Value) -> Value {
        self.emitter.builder.ins().isub(a, b)
    }
    fn mul(&mut self, a: Value, b: Value) -> Value {
        self.emitter.builder.ins().imul(a, b)
    }
    fn div(&mut self, a: Value, b: Value) -> Value {
        self.by_lane([a, b], |emitter, [a, b]| {
            let ins = emitter.builder.ins();
            if T::SIGNED { ins.sdiv(a, b) } else { ins.udiv(a, b) }
        })
    }
    fn rem(&mut self, a: Value, b: Value) -> Value {
        self.by_lane([a, b], |emitter, [a, b]| {
            let ins = emitter.builder.ins();
            if T::SIGNED { ins.srem(a, b) } else { ins.urem(a, b) }
        })
    }
    fn and(&mut self, a: Value, b: Value) -> Value {
        self.emitter.builder.ins().band(a, b)
    }
    fn or(&mut self, a: Value, b: Value) -> Value {
        self.emitter.builder.ins().bor(a, b)
    }
    fn xor(&mut self, a: Value, b: Value) -> Value {
        self.emitter.builder.ins().bxor(a, b)
    }
    fn shl(&mut self, a: Value, b: Value) -> Value {
        self.by_lane([a, b], |emitter, [a, b]| emitter.builder.ins().ishl(a, b))
    }
    fn shr_logical(&mut self, a: Value, b: Value) -> Value {
        self.by_lane([a, b], |emitter, [a, b]| emitter.builder.ins().ushr(a, b))
    }
    fn shr_arithmetic(&mut self, a: Value, b: Value) -> Value {
        self.by_lane([a, b], |emitter, [a, b]| emitter.builder.ins().sshr(a, b))
    }
    fn popcount(&mut self, a: Value) -> Value {
        self.by_lane([a], |emitter, [a]| emitter.builder.ins().popcnt(a))
    }
    fn eq(&mut self, a: Value, b: Value) -> Value {
        self.compare_int(IntCC::Equal, a, b)
    }
    fn lt(&mut self, a: Value, b: Value) -> Value {
        let condition = if T::SIGNED { IntCC::SignedLessThan } else { IntCC::UnsignedLessThan };
        self.compare_int(condition, a, b)
    }
    fn lt_unsigned(&mut self, a: Value, b: Value) -> Value {
        self.compare_int(IntCC::UnsignedLessThan, a, b)
    }
    fn select(&mut self, m: Value, a: Value, b: Value) -> Value {
        self.choose(m, a, b)
    }
    fn not(&mut self, m: Value) -> Value {
        self.mask_not(m)
    }
    fn both(&mut self, a: Value, b: Value) -> Value {
        self.mask_and(a, b)
    }
}

//! Elements between memory and registers, and between lanes.

use super::{Emitter, register_type};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use pullback_ir::DType;

impl Emitter<'_> {
    /// Loads `lanes` consecutive elements.
    pub fn load(
        &mut self,
        dtype: DType,
        lanes: usize,
        flags: MemFlagsData,
        address: Value,
        offset: i32,
    ) -> Value {
        let ty = register_type(dtype, lanes);
        if dtype != DType::Bool || lanes == 1 {
            return self.builder.ins().load(ty, flags, address, offset);
        }
        // Bytes 0 or 1 in the low end of a register, widened to the lanes, then negated into masks.
        let bytes = if lanes == 4 {
            self.builder.ins().load(types::I32, flags, address, offset)
        } else {
            self.builder.ins().uload16(types::I32, flags, address, offset)
        };
        let vector = self.builder.ins().scalar_to_vector(types::I32X4, bytes);
        let mut wide = self.cast(types::I8X16, vector);
        while self.type_of(wide) != ty {
            wide = self.builder.ins().uwiden_low(wide);
        }
        self.builder.ins().ineg(wide)
    }

    /// Stores `lanes` consecutive elements.
    pub fn store(
        &mut self,
        dtype: DType,
        lanes: usize,
        flags: MemFlagsData,
        value: Value,
        address: Value,
        offset: i32,
    ) {
        if dtype != DType::Bool || lanes == 1 {
            self.builder.ins().store(flags, value, address, offset);
        } else if lanes == 4 {
            let one = self.constant_of(types::I32X4, 1);
            let bits = self.builder.ins().band(value, one);
            let halves = self.builder.ins().snarrow(bits, bits);
            let bytes = self.builder.ins().snarrow(halves, halves);
            let words = self.cast(types::I32X4, bytes);
            let word = self.builder.ins().extractlane(words, 0);
            self.builder.ins().store(flags, word, address, offset);
        } else {
            for lane in 0..lanes {
                let bit = self.extract(DType::Bool, value, lane);
                self.builder.ins().store(flags, bit, address, offset + lane as i32);
            }
        }
    }

    /// An element in every lane.
    pub fn splat(&mut self, dtype: DType, lanes: usize, element: Value) -> Value {
        if lanes == 1 {
            return element;
        }
        let ty = register_type(dtype, lanes);
        let element =
            if dtype == DType::Bool { self.builder.ins().bmask(ty.lane_type(), element) } else { element };
        self.builder.ins().splat(ty, element)
    }

    /// An element of a vector.
    pub fn extract(&mut self, dtype: DType, vector: Value, lane: usize) -> Value {
        let element = self.builder.ins().extractlane(vector, lane as u8);
        if dtype != DType::Bool {
            return element;
        }
        let byte = self.builder.ins().ireduce(types::I8, element);
        let one = self.constant_of(types::I8, 1);
        self.builder.ins().band(byte, one)
    }

    /// A vector with another element in a lane.
    pub fn insert(&mut self, dtype: DType, vector: Value, element: Value, lane: usize) -> Value {
        let ty = self.type_of(vector).lane_type();
        let element = if dtype == DType::Bool { self.builder.ins().bmask(ty, element) } else { element };
        self.builder.ins().insertlane(vector, element, lane as u8)
    }

    /// A vector of these elements (as `Scalar::to_bits64` gives them).
    pub fn constants(&mut self, dtype: DType, bits: &[u64]) -> Value {
        let mut vector = self.constant(dtype, bits[0], bits.len());
        for (lane, &bits) in bits.iter().enumerate().skip(1) {
            let element = self.constant(dtype, bits, 1);
            vector = self.insert(dtype, vector, element, lane);
        }
        vector
    }
}

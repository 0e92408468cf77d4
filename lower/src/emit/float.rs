//! Floats on the emitting machine.

use super::{Emitter, Machine};
use crate::jit::FunctionId;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use pullback_ir::maths::{Lanes, Slow, Slow2};

/// The slow functions of a machine, whatever their number of arguments.
impl Machine<'_, '_> {
    fn compare_float(&mut self, condition: FloatCC, a: Value, b: Value) -> Value {
        self.emitter.builder.ins().fcmp(condition, a, b)
    }

    fn shift_by(&mut self, by: u32) -> Value {
        self.emitter.constant_of(types::I32, u64::from(by))
    }

    /// `fast`, but in lanes where `rare` holds what the function at `address` gives for the arguments' elements.
    fn slowly(
        &mut self,
        name: &str,
        address: *const u8,
        lane: Type,
        rare: Value,
        fast: Value,
        arguments: &[Value],
    ) -> Value {
        let signature = self.emitter.unit.signature(&vec![lane; arguments.len()], &[lane]);
        let function = self.emitter.unit.import(format!("slow_{name}_{lane}"), signature, address);
        let lanes = self.lanes;
        let any = self.any(rare);
        self.emitter.rarely(any, fast, |emitter| {
            if lanes == 1 {
                let call = emitter.call(function, arguments);
                return emitter.builder.inst_results(call)[0];
            }
            let whole = emitter.slow_lanes(name, function, lane, lanes, arguments.len());
            let arguments: Vec<Value> = [rare, fast].iter().chain(arguments).copied().collect();
            let call = emitter.call(whole, &arguments);
            emitter.builder.inst_results(call)[0]
        })
    }
}

impl Emitter<'_> {
    /// The function of whole registers that calls a function of elements in the lanes that are rare, and only there:
    /// it may not be defined elsewhere. One per unit, so that each use is no more than a call.
    fn slow_lanes(
        &mut self,
        name: &str,
        function: FunctionId,
        lane: Type,
        lanes: usize,
        arguments: usize,
    ) -> FunctionId {
        let register = lane.by(lanes as u32).unwrap_or(lane);
        let mask = register.as_truthy();
        let name = format!("slow_{name}_{register}");
        if let Some(known) = self.unit.get(&name) {
            return known;
        }
        let mut parameters = vec![register; arguments + 2];
        parameters[0] = mask;
        let signature = self.unit.signature(&parameters, &[register]);
        self.outlined(name, signature, |emitter| {
            let rare = emitter.parameter(0);
            let mut result = emitter.parameter(1);
            for i in 0..lanes as u8 {
                let flag = emitter.builder.ins().extractlane(rare, i);
                let zero = emitter.constant_of(mask.lane_type(), 0);
                let flag = emitter.builder.ins().icmp(IntCC::NotEqual, flag, zero);
                result = emitter.rarely(flag, result, |emitter| {
                    let elements: Vec<Value> = (0..arguments)
                        .map(|a| {
                            let vector = emitter.parameter(a + 2);
                            emitter.builder.ins().extractlane(vector, i)
                        })
                        .collect();
                    let call = emitter.call(function, &elements);
                    let element = emitter.builder.inst_results(call)[0];
                    emitter.builder.ins().insertlane(result, element, i)
                });
            }
            result
        })
    }
}

macro_rules! simple {
    ($($name:ident($($argument:ident),*) = $instruction:ident;)*) => {
        $(fn $name(&mut self, $($argument: Value),*) -> Value {
            self.emitter.builder.ins().$instruction($($argument),*)
        })*
    };
}

macro_rules! float_machine {
    ($t:ty, $float:expr, $int:expr) => {
        impl Lanes<$t> for Machine<'_, '_> {
            type V = Value;
            type I = Value;
            type M = Value;

            simple! {
                add(a, b) = fadd;
                sub(a, b) = fsub;
                mul(a, b) = fmul;
                div(a, b) = fdiv;
                fma(a, b, c) = fma;
                sqrt(a) = sqrt;
                neg(a) = fneg;
                abs(a) = fabs;
                floor(a) = floor;
                ceil(a) = ceil;
                trunc(a) = trunc;
                nearest(a) = nearest;
                max(a, b) = fmax;
                min(a, b) = fmin;
                iadd(a, b) = iadd;
                isub(a, b) = isub;
                iand(a, b) = band;
                ior(a, b) = bor;
                ixor(a, b) = bxor;
            }

            fn float(&mut self, value: $t) -> Value {
                let ty = self.register($float);
                self.emitter.constant_of(ty, u64::from(value.to_bits()))
            }
            fn int(&mut self, value: i64) -> Value {
                let ty = self.register($int);
                self.emitter.constant_of(ty, value as u64)
            }
            fn eq(&mut self, a: Value, b: Value) -> Value {
                self.compare_float(FloatCC::Equal, a, b)
            }
            fn lt(&mut self, a: Value, b: Value) -> Value {
                self.compare_float(FloatCC::LessThan, a, b)
            }
            fn le(&mut self, a: Value, b: Value) -> Value {
                self.compare_float(FloatCC::LessThanOrEqual, a, b)
            }
            fn and(&mut self, a: Value, b: Value) -> Value {
                self.mask_and(a, b)
            }
            fn or(&mut self, a: Value, b: Value) -> Value {
                self.mask_or(a, b)
            }
            fn not(&mut self, a: Value) -> Value {
                self.mask_not(a)
            }
            fn select(&mut self, m: Value, a: Value, b: Value) -> Value {
                self.choose(m, a, b)
            }
            fn to_bits(&mut self, a: Value) -> Value {
                let ty = self.register($int);
                self.emitter.cast(ty, a)
            }
            fn from_bits(&mut self, a: Value) -> Value {
                let ty = self.register($float);
                self.emitter.cast(ty, a)
            }
            fn to_int(&mut self, a: Value) -> Value {
                // As on the plain machine: adding 1.5 * 2^MANTISSA leaves the integer in the low bits.
                let magic = <Self as Lanes<$t>>::float(self, 1.5 / <$t>::EPSILON);
                let sum = <Self as Lanes<$t>>::add(self, a, magic);
                let bits = <Self as Lanes<$t>>::to_bits(self, sum);
                let magic = self.magic_bits($int, u64::from((1.5 / <$t>::EPSILON).to_bits()));
                <Self as Lanes<$t>>::isub(self, bits, magic)
            }
            fn from_int(&mut self, a: Value) -> Value {
                let magic = self.magic_bits($int, u64::from((1.5 / <$t>::EPSILON).to_bits()));
                let bits = <Self as Lanes<$t>>::iadd(self, a, magic);
                let sum = <Self as Lanes<$t>>::from_bits(self, bits);
                let magic = <Self as Lanes<$t>>::float(self, 1.5 / <$t>::EPSILON);
                <Self as Lanes<$t>>::sub(self, sum, magic)
            }
            fn ishl(&mut self, a: Value, by: u32) -> Value {
                let by = self.shift_by(by);
                self.emitter.builder.ins().ishl(a, by)
            }
            fn ushr(&mut self, a: Value, by: u32) -> Value {
                let by = self.shift_by(by);
                self.emitter.builder.ins().ushr(a, by)
            }
            fn sshr(&mut self, a: Value, by: u32) -> Value {
                let by = self.shift_by(by);
                self.emitter.builder.ins().sshr(a, by)
            }
            fn ieq(&mut self, a: Value, b: Value) -> Value {
                self.compare_int(IntCC::Equal, a, b)
            }
            fn ilt(&mut self, a: Value, b: Value) -> Value {
                self.compare_int(IntCC::SignedLessThan, a, b)
            }
            fn iselect(&mut self, m: Value, a: Value, b: Value) -> Value {
                self.choose(m, a, b)
            }
            fn slow(&mut self, rare: Value, fast: Value, x: Value, slow: Slow<$t>) -> Value {
                self.slowly(slow.name, slow.call as *const u8, $float, rare, fast, &[x])
            }
            fn slow2(&mut self, rare: Value, fast: Value, x: Value, y: Value, slow: Slow2<$t>) -> Value {
                self.slowly(slow.name, slow.call as *const u8, $float, rare, fast, &[x, y])
            }
        }
    };
}

impl Machine<'_, '_> {
    fn magic_bits(&mut self, lane: Type, bits: u64) -> Value {
        let ty = self.register(lane);
        self.emitter.constant_of(ty, bits)
    }
}

float_machine!(f32, types::F32, types::I32);
float_machine!(f64, types::F64, types::I64);

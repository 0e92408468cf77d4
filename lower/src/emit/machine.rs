//! The machine whose operations append instructions to a function.

use super::Emitter;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value};

/// A machine of one or several lanes. Its numbers and truth values are registers as the table in [`crate::emit`]
/// says.
pub struct Machine<'e, 'f> {
    pub(super) emitter: &'e mut Emitter<'f>,
    pub(super) lanes: usize,
}

impl<'f> Emitter<'f> {
    /// A machine of so many lanes.
    pub fn machine<'e>(&'e mut self, lanes: usize) -> Machine<'e, 'f> {
        Machine { emitter: self, lanes }
    }
}

/// Truth values.
impl Machine<'_, '_> {
    pub(super) fn mask_not(&mut self, mask: Value) -> Value {
        if self.lanes > 1 {
            return self.emitter.builder.ins().bnot(mask);
        }
        let ty = self.emitter.type_of(mask);
        let one = self.emitter.constant_of(ty, 1);
        self.emitter.builder.ins().bxor(mask, one)
    }

    pub(super) fn mask_and(&mut self, a: Value, b: Value) -> Value {
        self.emitter.builder.ins().band(a, b)
    }

    pub(super) fn mask_or(&mut self, a: Value, b: Value) -> Value {
        self.emitter.builder.ins().bor(a, b)
    }

    pub(super) fn mask_xor(&mut self, a: Value, b: Value) -> Value {
        self.emitter.builder.ins().bxor(a, b)
    }

    /// `a` where `mask` holds, else `b`.
    pub(super) fn choose(&mut self, mask: Value, a: Value, b: Value) -> Value {
        if self.lanes == 1 {
            return self.emitter.builder.ins().select(mask, a, b);
        }
        let ty = self.emitter.type_of(a);
        let mask = self.emitter.cast(ty, mask);
        self.emitter.builder.ins().bitselect(mask, a, b)
    }

    pub(super) fn compare_int(&mut self, condition: IntCC, a: Value, b: Value) -> Value {
        self.emitter.builder.ins().icmp(condition, a, b)
    }

    /// Whether any lane holds, as an I8.
    pub(super) fn any(&mut self, mask: Value) -> Value {
        if self.lanes == 1 { mask } else { self.emitter.builder.ins().vany_true(mask) }
    }
}

/// Registers.
impl Machine<'_, '_> {
    /// The type of a register of this machine with lanes of this type.
    pub(super) fn register(&self, lane: Type) -> Type {
        if self.lanes == 1 { lane } else { lane.by(self.lanes as u32).unwrap_or(lane) }
    }

    /// `f` of each lane of vectors of numbers.
    pub(super) fn by_lane<const N: usize>(
        &mut self,
        arguments: [Value; N],
        mut f: impl FnMut(&mut Emitter<'_>, [Value; N]) -> Value,
    ) -> Value {
        if self.lanes == 1 {
            return f(self.emitter, arguments);
        }
        let mut result = None;
        for lane in 0..self.lanes {
            let elements = arguments.map(|a| self.emitter.builder.ins().extractlane(a, lane as u8));
            let element = f(self.emitter, elements);
            result = Some(self.with_lane(result, element, lane));
        }
        result.unwrap_or(arguments[0])
    }

    /// A vector with a lane replaced; of `None`, one with just that lane.
    pub(super) fn with_lane(&mut self, vector: Option<Value>, element: Value, lane: usize) -> Value {
        match vector {
            Some(vector) => self.emitter.builder.ins().insertlane(vector, element, lane as u8),
            None => {
                let ty = self.register(self.emitter.type_of(element));
                self.emitter.builder.ins().scalar_to_vector(ty, element)
            }
        }
    }
}

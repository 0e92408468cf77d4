//! Elementwise operations on registers: each runs its definition on the emitting machine.

use super::{Emitter, Machine};
use cranelift_codegen::ir::Value;
use pullback_ir::DType;
use pullback_ir::maths::{Elementary, Int, IntLanes, Lanes};
use pullback_ir::ops::elementwise::binary::Binary;
use pullback_ir::ops::elementwise::compare::Compare;
use pullback_ir::ops::elementwise::integer_pow::IntegerPow;
use pullback_ir::ops::elementwise::scale_by::ScaleBy;
use pullback_ir::recipe::ScalarOp;

impl Emitter<'_> {
    /// Emits an operation where it is used.
    pub(super) fn in_place(
        &mut self,
        op: ScalarOp,
        dtypes: &[DType],
        lanes: usize,
        arguments: &[Value],
    ) -> Value {
        let dtype = dtypes[dtypes.len() - 1];
        match op {
            ScalarOp::Convert(to) => return self.convert(dtype, to, lanes, arguments[0]),
            ScalarOp::Bitcast(to) => return self.bitcast(dtype, to, lanes, arguments[0]),
            ScalarOp::Select => {
                return self.machine(lanes).choose(arguments[0], arguments[1], arguments[2]);
            }
            ScalarOp::Unary(_)
            | ScalarOp::Binary(_)
            | ScalarOp::Compare(_)
            | ScalarOp::ScaleBy
            | ScalarOp::IntegerPow(_) => {}
        }
        let mut machine = self.machine(lanes);
        match dtype {
            DType::Bool => machine.logic(op, arguments),
            DType::I32 => machine.on_ints::<i32>(op, arguments),
            DType::I64 => machine.on_ints::<i64>(op, arguments),
            DType::U32 => machine.on_ints::<u32>(op, arguments),
            DType::U64 => machine.on_ints::<u64>(op, arguments),
            DType::F32 => machine.on_floats::<f32>(op, arguments),
            DType::F64 => machine.on_floats::<f64>(op, arguments),
        }
    }
}

impl Machine<'_, '_> {
    fn on_floats<T: Elementary>(&mut self, op: ScalarOp, arguments: &[Value]) -> Value
    where
        Self: Lanes<T, V = Value, M = Value>,
    {
        let x = arguments[0];
        match op {
            ScalarOp::Unary(function) if function.is_test() => function.test::<T, _>(self, x),
            ScalarOp::Unary(function) => function.float::<T, _>(self, x),
            ScalarOp::Binary(function) => function.float::<T, _>(self, x, arguments[1]),
            ScalarOp::Compare(how) => how.float::<T, _>(self, x, arguments[1]),
            ScalarOp::ScaleBy => ScaleBy::float::<T, _>(self, x, arguments[1]),
            ScalarOp::IntegerPow(exponent) => IntegerPow { exponent }.float::<T, _>(self, x),
            ScalarOp::Select | ScalarOp::Convert(_) | ScalarOp::Bitcast(_) => x,
        }
    }

    fn on_ints<T: Int>(&mut self, op: ScalarOp, arguments: &[Value]) -> Value
    where
        Self: IntLanes<T, V = Value, M = Value>,
    {
        let x = arguments[0];
        match op {
            ScalarOp::Unary(function) => function.int::<T, _>(self, x),
            ScalarOp::Binary(function) => function.int::<T, _>(self, x, arguments[1]),
            ScalarOp::Compare(how) => how.int::<T, _>(self, x, arguments[1]),
            ScalarOp::IntegerPow(exponent) => IntegerPow { exponent }.int::<T, _>(self, x),
            ScalarOp::ScaleBy | ScalarOp::Select | ScalarOp::Convert(_) | ScalarOp::Bitcast(_) => x,
        }
    }

    /// Operations on truth values; false is less than true.
    fn logic(&mut self, op: ScalarOp, arguments: &[Value]) -> Value {
        let x = arguments[0];
        match op {
            // The only function of one bool.
            ScalarOp::Unary(_) => self.mask_not(x),
            ScalarOp::Binary(Binary::And) => self.mask_and(x, arguments[1]),
            ScalarOp::Binary(Binary::Or) => self.mask_or(x, arguments[1]),
            // Of functions of two bools only the exclusive or is left.
            ScalarOp::Binary(_) => self.mask_xor(x, arguments[1]),
            ScalarOp::Compare(how) => self.compare_logic(how, x, arguments[1]),
            ScalarOp::ScaleBy
            | ScalarOp::IntegerPow(_)
            | ScalarOp::Select
            | ScalarOp::Convert(_)
            | ScalarOp::Bitcast(_) => x,
        }
    }

    fn compare_logic(&mut self, how: Compare, x: Value, y: Value) -> Value {
        let (not_x, not_y) = (self.mask_not(x), self.mask_not(y));
        match how {
            Compare::Eq => self.mask_xor(x, not_y),
            Compare::Ne => self.mask_xor(x, y),
            Compare::Lt => self.mask_and(not_x, y),
            Compare::Le => self.mask_or(not_x, y),
            Compare::Gt => self.mask_and(x, not_y),
            Compare::Ge => self.mask_or(x, not_y),
        }
    }
}

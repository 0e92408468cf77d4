//! A function being emitted.

use super::outline::Uses;
use super::register_type;
use crate::jit::{FunctionId, Unit};
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{
    Block, ConstantData, Endianness, FuncRef, Function, Inst, InstBuilder, MemFlagsData, Type, Value, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use indexmap::IndexMap;
use pullback_ir::DType;
use smallvec::SmallVec;

/// A function of a unit while instructions are appended to it.
///
/// The entry block holds constants only, each once, and jumps to the body, which is the current block at first.
/// They cost nothing there: the code generator puts a constant where it is used, or before the loop it is used in.
pub struct Emitter<'f> {
    /// Appends instructions and blocks. The current block must stay one that can be appended to.
    pub builder: FunctionBuilder<'f>,
    /// The unit the function is part of.
    pub unit: &'f mut Unit,
    pub(super) uses: Uses,
    parameters: SmallVec<[Value; 8]>,
    jump_to_body: Inst,
    callees: IndexMap<FunctionId, FuncRef>,
    constants: IndexMap<(Type, u64), Value>,
}

impl<'f> Emitter<'f> {
    /// Begins a function made by [`Unit::function`].
    pub fn new(
        unit: &'f mut Unit,
        function: &'f mut Function,
        context: &'f mut FunctionBuilderContext,
    ) -> Emitter<'f> {
        let mut builder = FunctionBuilder::new(function, context);
        let entry = builder.create_block();
        builder.append_block_params_for_function_params(entry);
        builder.switch_to_block(entry);
        builder.seal_block(entry);
        let parameters = builder.block_params(entry).into();
        let body = builder.create_block();
        let jump_to_body = builder.ins().jump(body, &[]);
        builder.switch_to_block(body);
        builder.seal_block(body);
        Emitter {
            builder,
            unit,
            uses: Uses::default(),
            parameters,
            jump_to_body,
            callees: IndexMap::new(),
            constants: IndexMap::new(),
        }
    }

    /// Ends the function, whose last block must be filled and whose blocks must be sealed.
    pub fn finish(self) {
        let config = self.unit.isa().frontend_config();
        self.builder.finalize(config);
    }

    /// A parameter of the function.
    pub fn parameter(&self, index: usize) -> Value {
        self.parameters[index]
    }

    /// The element with these bits (as `Scalar::to_bits64` gives them) in every lane.
    pub fn constant(&mut self, dtype: DType, bits: u64, lanes: usize) -> Value {
        let ty = register_type(dtype, lanes);
        let bits = match dtype {
            DType::Bool if lanes > 1 && bits != 0 => u64::MAX,
            DType::Bool | DType::I32 | DType::I64 | DType::U32 | DType::U64 | DType::F32 | DType::F64 => bits,
        };
        self.constant_of(ty, bits)
    }

    /// An address or index.
    pub fn index(&mut self, value: i64) -> Value {
        self.constant_of(types::I64, value as u64)
    }

    /// These bits (truncated) in every lane of a register.
    pub(super) fn constant_of(&mut self, ty: Type, bits: u64) -> Value {
        let width = ty.lane_bits();
        let bits = if width < 64 { bits & ((1 << width) - 1) } else { bits };
        if let Some(&value) = self.constants.get(&(ty, bits)) {
            return value;
        }
        let mut cursor = FuncCursor::new(self.builder.func).at_inst(self.jump_to_body);
        let value = if ty.is_vector() {
            let lane = &bits.to_le_bytes()[..ty.lane_type().bytes() as usize];
            let data: ConstantData = lane.repeat(ty.lane_count() as usize).into();
            let handle = cursor.func.dfg.constants.insert(data);
            cursor.ins().vconst(ty, handle)
        } else if ty == types::F32 {
            cursor.ins().f32const(f32::from_bits(bits as u32))
        } else if ty == types::F64 {
            cursor.ins().f64const(f64::from_bits(bits))
        } else {
            cursor.ins().iconst(ty, bits as i64)
        };
        self.constants.insert((ty, bits), value);
        value
    }

    /// Calls a function of the unit.
    pub fn call(&mut self, callee: FunctionId, arguments: &[Value]) -> Inst {
        let (unit, function) = (&*self.unit, &mut *self.builder.func);
        let reference = *self.callees.entry(callee).or_insert_with(|| unit.reference(callee, function));
        self.builder.ins().call(reference, arguments)
    }

    /// The type of a value.
    pub(super) fn type_of(&self, value: Value) -> Type {
        self.builder.func.dfg.value_type(value)
    }

    /// The same bits as another type of the same size.
    pub(super) fn cast(&mut self, ty: Type, value: Value) -> Value {
        if self.type_of(value) == ty {
            return value;
        }
        let flags = MemFlagsData::new().with_endianness(Endianness::Little);
        self.builder.ins().bitcast(ty, flags, value)
    }

    /// Emits `rare` where `condition` (I8) holds, out of the way, and goes on with its value, elsewhere with `usual`.
    pub(super) fn rarely(
        &mut self,
        condition: Value,
        usual: Value,
        rare: impl FnOnce(&mut Self) -> Value,
    ) -> Value {
        let (block, join) = (self.builder.create_block(), self.builder.create_block());
        let ty = self.type_of(usual);
        let result = self.builder.append_block_param(join, ty);
        self.builder.set_cold_block(block);
        self.builder.ins().brif(condition, block, &[], join, &[usual.into()]);
        self.enter(block);
        let value = rare(self);
        self.builder.ins().jump(join, &[value.into()]);
        self.enter(join);
        result
    }

    /// Goes on in a block that nothing else will jump to.
    fn enter(&mut self, block: Block) {
        self.builder.switch_to_block(block);
        self.builder.seal_block(block);
    }
}

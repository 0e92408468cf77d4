//! Functions shared by their uses.
//!
//! A sine is some fifty instructions, and each costs microseconds to compile: in straight-line programs of many
//! operations the uses after the first few become calls of one function per unit. Which operations are large is
//! measured, not listed.

use super::{Emitter, register_type, result_dtype};
use crate::jit::FunctionId;
use cranelift_codegen::ir::{InstBuilder, Signature, Value};
use cranelift_frontend::FunctionBuilderContext;
use indexmap::IndexMap;
use pullback_ir::DType;
use pullback_ir::recipe::ScalarOp;

/// An operation of at least so many instructions is worth a call.
const LARGE: usize = 24;

/// Uses of a large operation emitted in place, unless the emitter is told otherwise.
const INLINE_LIMIT: usize = 4;

/// What a function has emitted so far.
pub(super) struct Uses {
    limit: usize,
    operations: IndexMap<(ScalarOp, DType, usize), Use>,
}

#[derive(Clone, Copy, Default)]
struct Use {
    count: usize,
    instructions: usize,
}

impl Default for Uses {
    fn default() -> Uses {
        Uses { limit: INLINE_LIMIT, operations: IndexMap::new() }
    }
}

impl Emitter<'_> {
    /// How many uses of one large operation are emitted in place in this function; those after it become calls.
    /// Four at first. Bodies of loops over many elements should raise it.
    pub fn set_inline_limit(&mut self, limit: usize) {
        self.uses.limit = limit;
    }

    /// Emits an elementwise operation on registers of `lanes` elements of the types `dtypes`, in place or as a call.
    /// The types must be ones the operation is defined on, and they and the result's fit the number of lanes (see
    /// [`common_lanes`](super::common_lanes)). Another block may be the current one after it.
    pub fn scalar(&mut self, op: ScalarOp, dtypes: &[DType], lanes: usize, arguments: &[Value]) -> Value {
        let key = (op, dtypes[dtypes.len() - 1], lanes);
        let known = self.uses.operations.get(&key).copied().unwrap_or_default();
        if known.instructions >= LARGE && known.count >= self.uses.limit {
            return self.call_shared(op, dtypes, lanes, arguments);
        }
        let before = self.builder.func.dfg.num_insts();
        let result = self.in_place(op, dtypes, lanes, arguments);
        let instructions = self.builder.func.dfg.num_insts() - before;
        // Constants are emitted with the first use only; the largest use tells the size.
        let instructions = instructions.max(known.instructions);
        self.uses.operations.insert(key, Use { count: known.count + 1, instructions });
        result
    }

    fn call_shared(&mut self, op: ScalarOp, dtypes: &[DType], lanes: usize, arguments: &[Value]) -> Value {
        let name = format!("{op:?} {}x{lanes}", dtypes[dtypes.len() - 1]);
        let function = match self.unit.get(&name) {
            Some(function) => function,
            None => {
                let parameters: Vec<_> = dtypes.iter().map(|&d| register_type(d, lanes)).collect();
                let result = register_type(result_dtype(op, dtypes), lanes);
                let signature = self.unit.signature(&parameters, &[result]);
                self.outlined(name, signature, |emitter| {
                    let parameters: Vec<Value> = (0..dtypes.len()).map(|i| emitter.parameter(i)).collect();
                    emitter.in_place(op, dtypes, lanes, &parameters)
                })
            }
        };
        let call = self.call(function, arguments);
        self.builder.inst_results(call)[0]
    }

    /// Defines another function of the unit that returns what `body` emits.
    pub(super) fn outlined(
        &mut self,
        name: String,
        signature: Signature,
        body: impl FnOnce(&mut Emitter<'_>) -> Value,
    ) -> FunctionId {
        let id = self.unit.declare(name, signature);
        let mut function = self.unit.function(id);
        let mut context = FunctionBuilderContext::new();
        let mut emitter = Emitter::new(self.unit, &mut function, &mut context);
        let result = body(&mut emitter);
        emitter.builder.ins().return_(&[result]);
        emitter.finish();
        self.unit.define(id, function);
        id
    }
}

//! Counted loops.

use super::KernelCode;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value, types};

impl KernelCode<'_, '_> {
    pub(super) fn constant(&mut self, value: usize) -> Value {
        self.emitter.index(value as i64)
    }

    /// `value + by`
    pub(super) fn plus(&mut self, value: Value, by: i64) -> Value {
        if by == 0 {
            return value;
        }
        let by = self.emitter.index(by);
        self.emitter.builder.ins().iadd(value, by)
    }

    /// `value * by`
    pub(super) fn times(&mut self, value: Value, by: i64) -> Value {
        if by == 1 {
            return value;
        }
        if by > 0 && by.count_ones() == 1 {
            let by = self.emitter.index(by.trailing_zeros().into());
            return self.emitter.builder.ins().ishl(value, by);
        }
        let by = self.emitter.index(by);
        self.emitter.builder.ins().imul(value, by)
    }

    /// Quotient and remainder of an index by a constant.
    pub(super) fn divide(&mut self, value: Value, by: usize) -> (Value, Value) {
        if by == 1 {
            return (value, self.constant(0));
        }
        let by = self.constant(by);
        let quotient = self.emitter.builder.ins().udiv(value, by);
        let product = self.emitter.builder.ins().imul(quotient, by);
        (quotient, self.emitter.builder.ins().isub(value, product))
    }

    /// The index along each dimension of a row-major position.
    pub(super) fn unflatten(&mut self, position: Value, extents: &[usize]) -> Vec<Value> {
        let mut indices = vec![position; extents.len()];
        let mut rest = position;
        for d in (1..extents.len()).rev() {
            (rest, indices[d]) = self.divide(rest, extents[d]);
        }
        if let Some(first) = indices.first_mut() {
            *first = rest;
        }
        indices
    }

    /// Runs `body` with `from`, `from + step`, ... as long as a whole step ends no later than `to`; gives where it stops.
    pub(super) fn steps(
        &mut self,
        from: Value,
        to: Value,
        step: usize,
        body: impl FnOnce(&mut Self, Value),
    ) -> Value {
        let carried = |code: &mut Self, index: Value, _: &[Value]| {
            body(code, index);
            Vec::new()
        };
        self.steps_with(from, to, step, &[], carried).0
    }

    /// As [`KernelCode::steps`], with values that `body` takes and replaces; gives the last ones too.
    pub(super) fn steps_with(
        &mut self,
        from: Value,
        to: Value,
        step: usize,
        initial: &[Value],
        body: impl FnOnce(&mut Self, Value, &[Value]) -> Vec<Value>,
    ) -> (Value, Vec<Value>) {
        let builder = &mut self.emitter.builder;
        let (header, inside, after) =
            (builder.create_block(), builder.create_block(), builder.create_block());
        let index = builder.append_block_param(header, types::I64);
        let mut carried = Vec::with_capacity(initial.len());
        for &value in initial {
            let ty = builder.func.dfg.value_type(value);
            carried.push(builder.append_block_param(header, ty));
        }
        let arguments = |index: Value, values: &[Value]| -> Vec<BlockArg> {
            [index].iter().chain(values).map(|&value| value.into()).collect()
        };
        builder.ins().jump(header, &arguments(from, initial));
        builder.switch_to_block(header);
        let next = self.plus(index, step as i64);
        let builder = &mut self.emitter.builder;
        let more = builder.ins().icmp(IntCC::SignedLessThanOrEqual, next, to);
        builder.ins().brif(more, inside, &[], after, &[]);
        builder.switch_to_block(inside);
        builder.seal_block(inside);
        let replaced = body(self, index, &carried);
        let builder = &mut self.emitter.builder;
        builder.ins().jump(header, &arguments(next, &replaced));
        builder.seal_block(header);
        builder.switch_to_block(after);
        builder.seal_block(after);
        (index, carried)
    }

    /// Runs one of two pieces of code.
    pub(super) fn choose(
        &mut self,
        condition: Value,
        yes: impl FnOnce(&mut Self),
        no: impl FnOnce(&mut Self),
    ) {
        let builder = &mut self.emitter.builder;
        let (first, second, join) = (builder.create_block(), builder.create_block(), builder.create_block());
        builder.ins().brif(condition, first, &[], second, &[]);
        for block in [first, second] {
            builder.seal_block(block);
        }
        builder.switch_to_block(first);
        yes(self);
        self.emitter.builder.ins().jump(join, &[]);
        self.emitter.builder.switch_to_block(second);
        no(self);
        self.emitter.builder.ins().jump(join, &[]);
        self.emitter.builder.switch_to_block(join);
        self.emitter.builder.seal_block(join);
    }
}

impl KernelCode<'_, '_> {
    /// Runs code under a condition.
    pub(super) fn when(&mut self, condition: Value, body: impl FnOnce(&mut Self)) {
        self.choose(condition, body, |_| {});
    }
}

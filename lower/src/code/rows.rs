//! Reductions that step along the last reduced dimension: one result, or block of one, at a time.

use super::body::Point;
use super::{KernelCode, Units};
use crate::fuse::body::combine;
use crate::kernel::Reg;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind, Value, types,
};
use pullback_ir::DType;
use pullback_ir::ops::reduce::reduce::{BLOCK, LANES, Reducer};

/// Blocks of at most this many elements are written out, if their bodies are not more than this in sum.
const WRITTEN_OUT: u64 = 160;

/// Bodies are repeated for every vector of partial results if they are not more than this in sum.
const REPEATED: u64 = 200;

impl KernelCode<'_, '_> {
    /// Units are blocks of results, those of one result one after the other.
    pub(super) fn rows(&mut self) -> Units {
        let (begin, end) = (self.begin, self.end);
        let parallel = self.kernel.parallel.clone();
        let (length, blocks) = (self.kernel.length(), self.kernel.blocks());
        let slots = self.slots(LANES);
        self.steps(begin, end, 1, |code, unit| {
            let (output, block) = code.divide(unit, blocks);
            let outer = code.unflatten(output, &parallel);
            let start = code.times(block, BLOCK as i64);
            code.each_block(block, length, |code, length| {
                let results = code.row(&outer, start, length, &slots);
                for (i, result) in results.into_iter().enumerate() {
                    code.publish(i, &outer, usize::MAX, block, 1, result);
                }
            });
        });
        Units { count: self.kernel.outputs() * blocks, multiple: 1 }
    }

    /// Emits code for full blocks and for a shorter last one, whichever there are.
    pub(super) fn each_block(&mut self, block: Value, length: usize, emit: impl Fn(&mut Self, usize)) {
        let (full, rest) = (length / BLOCK, length % BLOCK);
        match (full, rest) {
            (0, rest) => emit(self, rest),
            (_, 0) => emit(self, BLOCK),
            (full, rest) => {
                let full = self.constant(full);
                let is_full = self.emitter.builder.ins().icmp(IntCC::UnsignedLessThan, block, full);
                self.choose(is_full, |code| emit(code, BLOCK), |code| emit(code, rest));
            }
        }
    }

    /// Memory for so many partial results of each reduction.
    pub(super) fn slots(&mut self, elements: usize) -> Vec<StackSlot> {
        let sizes: Vec<usize> = self.values().map(|(_, dtype, _)| dtype.size() * elements).collect();
        let create = |size| {
            let data = StackSlotData::new(StackSlotKind::ExplicitSlot, size as u32, 4);
            self.emitter.builder.create_sized_stack_slot(data)
        };
        sizes.into_iter().map(create).collect()
    }

    /// What combines each reduction, its element type and its value in the body.
    pub(super) fn values(&self) -> impl Iterator<Item = (Reducer, DType, Reg)> + use<> {
        let all = self.kernel.reductions.iter();
        let values = all.map(|r| (r.reducer, self.kernel.inst(r.value).dtype, r.value)).collect::<Vec<_>>();
        values.into_iter()
    }

    /// The point of a reduced position.
    pub(super) fn reduced_point(&mut self, outer: &[Value], position: Value, along: usize) -> Point {
        let reduced = self.kernel.reduced.clone();
        let inner = self.unflatten(position, &reduced);
        Point { indices: outer.iter().copied().chain(inner).collect(), along, shift: 0 }
    }

    /// Reduces one block of a result.
    fn row(&mut self, outer: &[Value], start: Value, length: usize, slots: &[StackSlot]) -> Vec<Value> {
        let along = self.kernel.rank().saturating_sub(1);
        if self.kernel.weight() * length as u64 <= WRITTEN_OUT {
            return self.written_out(outer, start, length, along);
        }
        let lanes = self.row_lanes();
        if lanes > 1 && length >= LANES && self.fits_registers(lanes) {
            return self.row_in_registers(outer, start, length, lanes, slots);
        }
        let whole = if length < LANES { 0 } else { length - length % LANES };
        let ends = [LANES.min(length), whole, length].map(|n| self.plus(start, n as i64));
        if whole > 0 {
            self.steps(start, ends[0], lanes, |code, at| {
                code.join_lanes(outer, start, at, lanes, slots, false)
            });
            self.steps(ends[0], ends[1], lanes, |code, at| {
                code.join_lanes(outer, start, at, lanes, slots, true)
            });
        } else {
            self.steps(start, ends[2], 1, |code, at| code.join_lanes(outer, start, at, 1, slots, false));
        }
        if whole > 0 && whole < length {
            self.steps(ends[1], ends[2], 1, |code, at| code.join_lanes(outer, start, at, 1, slots, true));
        }
        self.combine_slots(if whole > 0 { lanes } else { 1 }, LANES.min(length), slots)
    }

    /// Combines the partial results in memory, of which there are `count`.
    fn combine_slots(&mut self, lanes: usize, count: usize, slots: &[StackSlot]) -> Vec<Value> {
        let all: Vec<_> = self.values().collect();
        all.iter()
            .zip(slots)
            .map(|(&(reducer, dtype, _), &slot)| {
                let address = self.emitter.builder.ins().stack_addr(types::I64, slot, 0);
                let flags = MemFlagsData::new().with_notrap();
                let step = lanes * dtype.size();
                let parts = (0..count / lanes)
                    .map(|i| self.emitter.load(dtype, lanes, flags, address, (i * step) as i32))
                    .collect();
                self.combine_lanes(reducer, dtype, lanes, parts)
            })
            .collect()
    }

    /// Whether the partial results fit vector registers, and the body may be repeated for each.
    fn fits_registers(&self, lanes: usize) -> bool {
        let vectors = LANES / lanes;
        vectors * self.kernel.reductions.len() <= 8 && self.kernel.weight() * vectors as u64 <= REPEATED
    }

    /// Reduces a block of at least [`LANES`] elements with all partial results in registers.
    fn row_in_registers(
        &mut self,
        outer: &[Value],
        start: Value,
        length: usize,
        lanes: usize,
        slots: &[StackSlot],
    ) -> Vec<Value> {
        let along = self.kernel.rank() - 1;
        let all: Vec<_> = self.values().collect();
        // The values of all reductions for one vector after the other.
        let evaluate = |code: &mut Self, at: Value| -> Vec<Value> {
            let mut point = code.reduced_point(outer, at, along);
            let mut results = Vec::new();
            for shift in (0..LANES).step_by(lanes) {
                point.shift = shift as i64;
                let values = code.once(&point, lanes);
                results.extend(all.iter().map(|(_, _, value)| values[value.0 as usize]));
            }
            results
        };
        let whole = length - length % LANES;
        let [second, end, last] = [LANES, whole, length].map(|n| self.plus(start, n as i64));
        let mut partial = evaluate(self, start);
        if whole > LANES {
            partial = self
                .steps_with(second, end, LANES, &partial, |code, at, partial| {
                    let values = evaluate(code, at);
                    let pairs = partial.iter().zip(values).enumerate();
                    let join = |(i, (&old, new)): (usize, (&Value, Value))| {
                        let (reducer, dtype, _) = all[i % all.len()];
                        code.join(reducer, dtype, lanes, old, new)
                    };
                    pairs.map(join).collect()
                })
                .1;
        }
        if whole == length {
            let parts = |i: usize| partial.iter().copied().skip(i).step_by(all.len()).collect();
            let each = all.iter().enumerate();
            return each
                .map(|(i, &(reducer, dtype, _))| self.combine_lanes(reducer, dtype, lanes, parts(i)))
                .collect();
        }
        for (i, &value) in partial.iter().enumerate() {
            let (slot, dtype) = (slots[i % all.len()], all[i % all.len()].1);
            let address = self.emitter.builder.ins().stack_addr(types::I64, slot, 0);
            let offset = i / all.len() * lanes * dtype.size();
            let flags = MemFlagsData::new().with_notrap();
            self.emitter.store(dtype, lanes, flags, value, address, offset as i32);
        }
        self.steps(end, last, 1, |code, at| code.join_lanes(outer, start, at, 1, slots, true));
        self.combine_slots(lanes, LANES, slots)
    }

    /// Vectors run along the last reduced dimension if all groups of lanes begin at its multiples.
    fn row_lanes(&self) -> usize {
        match self.kernel.reduced.last() {
            Some(inner) if self.kernel.reduced.len() == 1 || inner % LANES == 0 => self.lanes,
            _ => 1,
        }
    }

    /// A short block without loops.
    fn written_out(&mut self, outer: &[Value], start: Value, length: usize, along: usize) -> Vec<Value> {
        let all: Vec<_> = self.values().collect();
        let mut lanes: Vec<Vec<Value>> = vec![Vec::new(); all.len()];
        for i in 0..length {
            let position = self.plus(start, i as i64);
            let point = self.reduced_point(outer, position, along);
            let values = self.once(&point, 1);
            for (lanes, &(reducer, dtype, value)) in lanes.iter_mut().zip(&all) {
                let value = values[value.0 as usize];
                match lanes.get(i % LANES) {
                    None => lanes.push(value),
                    Some(&lane) => lanes[i % LANES] = self.join(reducer, dtype, 1, lane, value),
                }
            }
        }
        let pairs = all.into_iter().zip(lanes);
        pairs.map(|((reducer, dtype, _), lanes)| self.combine_lanes(reducer, dtype, 1, lanes)).collect()
    }

    pub(super) fn join(&mut self, reducer: Reducer, dtype: DType, lanes: usize, a: Value, b: Value) -> Value {
        self.emitter.scalar(combine(reducer), &[dtype, dtype], lanes, &[a, b])
    }

    /// Evaluates the body and joins its values to the lanes in memory that are due.
    fn join_lanes(
        &mut self,
        outer: &[Value],
        start: Value,
        at: Value,
        lanes: usize,
        slots: &[StackSlot],
        join: bool,
    ) {
        let along = self.kernel.rank().saturating_sub(1);
        let point = self.reduced_point(outer, at, along);
        let values = self.once(&point, lanes);
        let position = self.emitter.builder.ins().isub(at, start);
        let mask = self.constant(LANES - 1);
        let lane = self.emitter.builder.ins().band(position, mask);
        let all: Vec<_> = self.values().collect();
        for (&(reducer, dtype, value), &slot) in all.iter().zip(slots) {
            let base = self.emitter.builder.ins().stack_addr(types::I64, slot, 0);
            let offset = self.times(lane, dtype.size() as i64);
            let address = self.emitter.builder.ins().iadd(base, offset);
            self.join_memory(reducer, dtype, lanes, (address, 0), values[value.0 as usize], join);
        }
    }

    /// Writes a value, or joins it to what is there.
    pub(super) fn join_memory(
        &mut self,
        reducer: Reducer,
        dtype: DType,
        lanes: usize,
        (address, offset): (Value, i32),
        value: Value,
        join: bool,
    ) {
        let flags = MemFlagsData::new().with_notrap();
        let mut value = value;
        if join {
            let old = self.emitter.load(dtype, lanes, flags, address, offset);
            value = self.join(reducer, dtype, lanes, old, value);
        }
        self.emitter.store(dtype, lanes, flags, value, address, offset);
    }

    /// Combines partial results by halves: all [`LANES`] in vectors, or fewer one by one.
    pub(super) fn combine_lanes(
        &mut self,
        reducer: Reducer,
        dtype: DType,
        lanes: usize,
        mut parts: Vec<Value>,
    ) -> Value {
        let mut half = LANES / lanes / 2;
        while half > 0 {
            for l in 0..half {
                if let Some(&right) = parts.get(l + half) {
                    parts[l] = self.join(reducer, dtype, lanes, parts[l], right);
                }
            }
            half /= 2;
        }
        if lanes == 1 {
            return parts[0];
        }
        let mut elements: Vec<Value> =
            (0..lanes).map(|lane| self.emitter.extract(dtype, parts[0], lane)).collect();
        let mut half = lanes / 2;
        while half > 0 {
            for l in 0..half {
                elements[l] = self.join(reducer, dtype, 1, elements[l], elements[l + half]);
            }
            half /= 2;
        }
        elements[0]
    }

    /// Writes results of reduction `i`, or of a block of it. `along` says which parallel dimension lanes lie along.
    pub(super) fn publish(
        &mut self,
        i: usize,
        outer: &[Value],
        along: usize,
        block: Value,
        lanes: usize,
        result: Value,
    ) {
        let reduction = self.kernel.reductions[i].clone();
        let dtype = self.kernel.inst(reduction.value).dtype;
        let blocks = self.kernel.blocks();
        let mut index = reduction.index.scaled(blocks as i64);
        let mut indices = outer.to_vec();
        indices.resize(self.kernel.rank(), block);
        if blocks > 1 {
            // No result depends on a reduced dimension; the first of them stands in for the number of the block.
            index.strides[self.kernel.parallel.len()] = 1;
        }
        let point = Point { indices, along, shift: 0 };
        self.write(reduction.buffer, dtype, &index, &point, lanes, result);
    }
}

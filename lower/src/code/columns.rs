//! Reductions that step along the last parallel dimension: a tile of results at a time, with the partial results of
//! all of them in memory.

use super::body::Point;
use super::{KernelCode, Units};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, StackSlot, Value, types};
use pullback_ir::ops::reduce::reduce::{BLOCK, LANES};

/// Bytes of partial results on the stack.
const SCRATCH: usize = 16 << 10;

/// Bodies of at most this weight are unrolled.
const UNROLLED: u64 = 30;

/// Vectors per step of an unrolled loop.
const UNROLL: usize = 4;

/// A tile: the indices of the outer dimensions, where along the last one it begins and ends, and its memory.
struct Tile<'a> {
    outer: &'a [Value],
    from: Value,
    to: Value,
    /// Results from one partial result to the next.
    width: usize,
    /// Whether its width is a multiple of the number of lanes.
    even: bool,
    slots: &'a [StackSlot],
}

impl KernelCode<'_, '_> {
    /// Units are blocks of tiles, those of one tile one after the other.
    pub(super) fn columns(&mut self) -> Units {
        let (begin, end) = (self.begin, self.end);
        let parallel = self.kernel.parallel.clone();
        let Some((&extent, outer)) = parallel.split_last() else { return self.rows() };
        let widest = self.values().map(|(_, dtype, _)| dtype.size()).max().unwrap_or(8);
        let most = SCRATCH / (LANES * widest * self.kernel.reductions.len());
        let width = most.max(16).min(extent);
        let tiles = extent.div_ceil(width);
        let (length, blocks) = (self.kernel.length(), self.kernel.blocks());
        let slots = self.slots(LANES * width);
        self.steps(begin, end, 1, |code, unit| {
            let (rest, block) = code.divide(unit, blocks);
            let (position, tile) = code.divide(rest, tiles);
            let outer = code.unflatten(position, outer);
            let from = code.times(tile, width as i64);
            let (all, full) = (code.constant(extent), code.plus(from, width as i64));
            let to = code.emitter.builder.ins().smin(all, full);
            let even = extent % code.lanes == 0 && width % code.lanes == 0;
            let tile = Tile { outer: &outer, from, to, width, even, slots: &slots };
            let start = code.times(block, BLOCK as i64);
            code.each_block(block, length, |code, length| {
                let first = code.plus(start, LANES.min(length) as i64);
                let last = code.plus(start, length as i64);
                code.steps(start, first, 1, |code, at| code.join_tile(&tile, start, at, false));
                if length > LANES {
                    code.steps(first, last, 1, |code, at| code.join_tile(&tile, start, at, true));
                }
                code.publish_tile(&tile, block, length);
            });
        });
        Units { count: outer.iter().product::<usize>() * tiles * blocks, multiple: 1 }
    }

    /// Runs over the columns of a tile: several vectors at a time where `unroll` is more than one, then in vectors, then
    /// one by one. The body gets a column, a constant to add to it, and the number of lanes.
    fn over_tile(&mut self, tile: &Tile<'_>, unroll: usize, body: impl Fn(&mut Self, Value, usize, usize)) {
        let lanes = self.lanes;
        let mut rest = tile.from;
        if unroll > 1 {
            rest = self.steps(rest, tile.to, lanes * unroll, |code, column| {
                (0..unroll).for_each(|i| body(code, column, i * lanes, lanes));
            });
        }
        rest = self.steps(rest, tile.to, lanes, |code, column| body(code, column, 0, lanes));
        if !tile.even {
            self.steps(rest, tile.to, 1, |code, column| body(code, column, 0, 1));
        }
    }

    /// Address of the partial result of a column.
    fn partial(&mut self, tile: &Tile<'_>, slot: StackSlot, size: usize, column: Value) -> Value {
        let base = self.emitter.builder.ins().stack_addr(types::I64, slot, 0);
        let column = self.emitter.builder.ins().isub(column, tile.from);
        let offset = self.times(column, size as i64);
        self.emitter.builder.ins().iadd(base, offset)
    }

    /// Evaluates the body for one reduced position of every column.
    fn join_tile(&mut self, tile: &Tile<'_>, start: Value, at: Value, join: bool) {
        let reduced = self.kernel.reduced.clone();
        let inner = self.unflatten(at, &reduced);
        let position = self.emitter.builder.ins().isub(at, start);
        let mask = self.constant(LANES - 1);
        let lane = self.emitter.builder.ins().band(position, mask);
        let all: Vec<_> = self.values().collect();
        let unroll = if self.kernel.weight() <= UNROLLED { UNROLL } else { 1 };
        self.over_tile(tile, unroll, |code, column, shift, lanes| {
            let outer = tile.outer.iter().copied().chain([column]);
            let indices = outer.chain(inner.iter().copied()).collect();
            let values = code.once(&Point { indices, along: tile.outer.len(), shift: shift as i64 }, lanes);
            for (&(reducer, dtype, value), &slot) in all.iter().zip(tile.slots) {
                let address = code.partial(tile, slot, dtype.size(), column);
                let offset = code.times(lane, (tile.width * dtype.size()) as i64);
                let address = code.emitter.builder.ins().iadd(address, offset);
                let place = (address, (shift * dtype.size()) as i32);
                code.join_memory(reducer, dtype, lanes, place, values[value.0 as usize], join);
            }
        });
    }

    /// Combines the partial results of every column and writes the results.
    fn publish_tile(&mut self, tile: &Tile<'_>, block: Value, length: usize) {
        let all: Vec<_> = self.values().collect();
        self.over_tile(tile, 1, |code, column, _, lanes| {
            let outer: Vec<Value> = tile.outer.iter().copied().chain([column]).collect();
            for (i, (&(reducer, dtype, _), &slot)) in all.iter().zip(tile.slots).enumerate() {
                let address = code.partial(tile, slot, dtype.size(), column);
                let flags = MemFlagsData::new().with_notrap();
                let step = tile.width * dtype.size();
                let mut parts: Vec<Value> = (0..LANES.min(length))
                    .map(|l| code.emitter.load(dtype, lanes, flags, address, (l * step) as i32))
                    .collect();
                let mut half = LANES / 2;
                while half > 0 {
                    for l in 0..half {
                        if let Some(&right) = parts.get(l + half) {
                            parts[l] = code.join(reducer, dtype, lanes, parts[l], right);
                        }
                    }
                    half /= 2;
                }
                code.publish(i, &outer, tile.outer.len(), block, lanes, parts[0]);
            }
        });
    }
}

//! The body of a kernel at one index, or at as many as a vector holds.

use super::KernelCode;
use crate::emit::Emitter;
use crate::kernel::{Access, Affine, BufferId, Coordinate, Guard, InstKind, Kernel, Store};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{AliasRegion, AliasRegionData, InstBuilder, MemFlagsData, Value, types};
use indexmap::IndexMap;
use pullback_ir::DType;
use pullback_ir::recipe::ScalarOp;

/// Buffers with a region of their own. Flags are few bits; further buffers are in no region.
const REGIONS: u32 = 60;

/// What is known about memory.
pub(super) struct Flags {
    /// Region of each buffer, and whether the kernel only reads it.
    buffers: IndexMap<BufferId, (Option<AliasRegion>, bool)>,
}

impl Flags {
    pub(super) fn new(emitter: &mut Emitter<'_>, kernel: &Kernel) -> Flags {
        let mut buffers = IndexMap::new();
        let written =
            kernel.stores.iter().map(|s| s.buffer).chain(kernel.reductions.iter().map(|r| r.buffer));
        let all = written.map(|b| (b, false)).chain(kernel.loads().map(|a| (a.buffer, true)));
        for (buffer, readonly) in all {
            let number = buffers.len() as u32;
            buffers.entry(buffer).or_insert_with(|| {
                let data = AliasRegionData { user_id: number, description: buffer.to_string().into() };
                let regions = &mut emitter.builder.func.dfg.alias_regions;
                ((number < REGIONS).then(|| regions.insert(data)), readonly)
            });
        }
        Flags { buffers }
    }

    /// Loads the address of every buffer from the table.
    pub(super) fn load_pointers(
        &self,
        emitter: &mut Emitter<'_>,
        table: Value,
        kernel: &Kernel,
    ) -> IndexMap<BufferId, Value> {
        let flags = MemFlagsData::trusted().with_readonly().with_can_move();
        let mut pointers = IndexMap::new();
        if kernel.rank() == 0 {
            // Straight-line code may touch very many buffers: each address is loaded where it is needed.
            for &buffer in self.buffers.keys() {
                pointers.insert(buffer, table);
            }
            return pointers;
        }
        for &buffer in self.buffers.keys() {
            let pointer = emitter.builder.ins().load(types::I64, flags, table, 8 * buffer.0 as i32);
            pointers.insert(buffer, pointer);
        }
        pointers
    }

    pub(super) fn of(&self, buffer: BufferId) -> MemFlagsData {
        let flags = MemFlagsData::new().with_notrap();
        match self.buffers.get(&buffer) {
            Some(&(region, true)) => flags.with_readonly().with_can_move().with_alias_region(region),
            Some(&(region, false)) => flags.with_alias_region(region),
            None => flags,
        }
    }
}

/// Where in the loops a body is evaluated.
#[derive(Clone)]
pub(super) struct Point {
    /// Index along each loop.
    pub(super) indices: Vec<Value>,
    /// The loop whose index `shift` is added to, and along which lanes lie.
    pub(super) along: usize,
    /// Constant added to that index.
    pub(super) shift: i64,
}

impl Point {
    /// The point of a kernel without loops.
    pub(super) fn nowhere() -> Point {
        Point { indices: Vec::new(), along: usize::MAX, shift: 0 }
    }

    fn stride(&self, affine: &Affine) -> i64 {
        affine.strides.get(self.along).copied().unwrap_or(0)
    }
}

impl KernelCode<'_, '_> {
    /// Evaluates the body on so many lanes, and stores what it stores; the value of each instruction.
    pub(super) fn once(&mut self, at: &Point, lanes: usize) -> Vec<Value> {
        let mut values: Vec<Value> = Vec::with_capacity(self.kernel.body.len());
        for inst in &self.kernel.body {
            let value = match &inst.kind {
                InstKind::Constant(bits) => self.emitter.constant(inst.dtype, *bits, lanes),
                InstKind::Load(access) => self.load(inst.dtype, access, at, lanes),
                InstKind::Index(affine) => self.loop_index(inst.dtype, affine, at, lanes),
                InstKind::Inside(guards) => self.inside(guards, at, lanes),
                InstKind::Scalar { op, args } => {
                    let dtypes: Vec<DType> = args.iter().map(|&arg| self.kernel.inst(arg).dtype).collect();
                    let args: Vec<Value> = args.iter().map(|arg| values[arg.0 as usize]).collect();
                    self.emitter.scalar(*op, &dtypes, lanes, &args)
                }
            };
            values.push(value);
        }
        for store in &self.kernel.stores {
            let value = values[store.value.0 as usize];
            self.store(store, at, lanes, value);
        }
        values
    }

    /// The value of an affine index without its constant part, in units of `scale`; lane 0.
    fn variable(&mut self, affine: &Affine, at: &Point, scale: i64) -> Option<Value> {
        let mut sum = None;
        for (d, &stride) in affine.strides.iter().enumerate().filter(|(_, s)| **s != 0) {
            let term = self.times(at.indices[d], stride * scale);
            sum = Some(match sum {
                None => term,
                Some(sum) => self.emitter.builder.ins().iadd(sum, term),
            });
        }
        sum
    }

    /// The value of an affine index in a lane.
    fn value(&mut self, affine: &Affine, at: &Point, lane: i64) -> Value {
        let constant = affine.offset + at.stride(affine) * (at.shift + lane);
        match self.variable(affine, at, 1) {
            None => self.emitter.index(constant),
            Some(variable) => self.plus(variable, constant),
        }
    }

    fn pointer(&mut self, buffer: BufferId) -> Value {
        let pointer = self.pointers[&buffer];
        if self.kernel.rank() > 0 {
            return pointer;
        }
        let flags = MemFlagsData::trusted().with_readonly().with_can_move();
        self.emitter.builder.ins().load(types::I64, flags, pointer, 8 * buffer.0 as i32)
    }

    /// Address of an element, and a constant to add to it.
    pub(super) fn address(
        &mut self,
        buffer: BufferId,
        dtype: DType,
        index: &Affine,
        at: &Point,
    ) -> (Value, i32) {
        let size = dtype.size() as i64;
        let constant = (index.offset + at.stride(index) * at.shift) * size;
        let mut address = self.pointer(buffer);
        if let Some(variable) = self.variable(index, at, size) {
            address = self.emitter.builder.ins().iadd(address, variable);
        }
        match i32::try_from(constant) {
            Ok(constant) => (address, constant),
            Err(_) => (self.plus(address, constant), 0),
        }
    }

    fn load(&mut self, dtype: DType, access: &Access, at: &Point, lanes: usize) -> Value {
        let flags = self.flags.of(access.buffer);
        if !access.guards.is_empty() || !access.divided.is_empty() {
            return self.by_lanes(dtype, lanes, |code, lane| code.guarded_load(dtype, access, at, lane));
        }
        let (address, offset) = self.address(access.buffer, dtype, &access.index, at);
        match at.stride(&access.index) {
            _ if lanes == 1 => self.emitter.load(dtype, 1, flags, address, offset),
            1 => self.emitter.load(dtype, lanes, flags, address, offset),
            0 => {
                let element = self.emitter.load(dtype, 1, flags, address, offset);
                self.emitter.splat(dtype, lanes, element)
            }
            stride => self.by_lanes(dtype, lanes, |code, lane| {
                let shifted = code.plus(address, stride * dtype.size() as i64 * lane);
                code.emitter.load(dtype, 1, flags, shifted, offset)
            }),
        }
    }

    /// A vector of what `element` gives for each lane.
    fn by_lanes(
        &mut self,
        dtype: DType,
        lanes: usize,
        mut element: impl FnMut(&mut Self, i64) -> Value,
    ) -> Value {
        let first = element(self, 0);
        let mut vector = self.emitter.splat(dtype, lanes, first);
        for lane in 1..lanes {
            let element = element(self, lane as i64);
            vector = self.emitter.insert(dtype, vector, element, lane);
        }
        vector
    }

    fn guarded_load(&mut self, dtype: DType, access: &Access, at: &Point, lane: i64) -> Value {
        let inside = self.holds(&access.guards, at, lane);
        let mut index = self.value(&access.index, at, lane);
        for (coordinate, stride) in &access.divided {
            let term = self.coordinate(coordinate, at, lane);
            let term = self.times(term, *stride);
            index = self.emitter.builder.ins().iadd(index, term);
        }
        let zero = self.emitter.index(0);
        let index = self.emitter.builder.ins().select(inside, index, zero);
        let offset = self.times(index, dtype.size() as i64);
        let pointer = self.pointer(access.buffer);
        let address = self.emitter.builder.ins().iadd(pointer, offset);
        let flags = self.flags.of(access.buffer);
        self.emitter.load(dtype, 1, flags, address, 0)
    }

    /// A coordinate that exists; anything if it does not.
    fn coordinate(&mut self, coordinate: &Coordinate, at: &Point, lane: i64) -> Value {
        let value = self.value(&coordinate.affine, at, lane);
        self.divide(value, coordinate.dilation as usize).0
    }

    /// Whether all guards hold in a lane.
    fn holds(&mut self, guards: &[Guard], at: &Point, lane: i64) -> Value {
        let mut all = None;
        for Guard { coordinate, extent } in guards {
            let value = self.value(&coordinate.affine, at, lane);
            let limit = self.emitter.index(extent * coordinate.dilation);
            let mut holds = self.emitter.builder.ins().icmp(IntCC::UnsignedLessThan, value, limit);
            if coordinate.dilation != 1 {
                let (_, rest) = self.divide(value, coordinate.dilation as usize);
                let zero = self.emitter.index(0);
                let exact = self.emitter.builder.ins().icmp(IntCC::Equal, rest, zero);
                holds = self.emitter.builder.ins().band(holds, exact);
            }
            all = Some(match all {
                None => holds,
                Some(all) => self.emitter.builder.ins().band(all, holds),
            });
        }
        all.unwrap_or_else(|| self.emitter.constant(DType::Bool, 1, 1))
    }

    fn inside(&mut self, guards: &[Guard], at: &Point, lanes: usize) -> Value {
        if guards.iter().all(|guard| at.stride(&guard.coordinate.affine) == 0) {
            let holds = self.holds(guards, at, 0);
            return self.emitter.splat(DType::Bool, lanes, holds);
        }
        self.by_lanes(DType::Bool, lanes, |code, lane| code.holds(guards, at, lane))
    }

    fn loop_index(&mut self, dtype: DType, affine: &Affine, at: &Point, lanes: usize) -> Value {
        let element = |code: &mut Self, lane: i64| {
            let index = code.value(affine, at, lane);
            code.emitter.scalar(ScalarOp::Convert(dtype), &[DType::I64], 1, &[index])
        };
        if at.stride(affine) == 0 {
            let index = element(self, 0);
            return self.emitter.splat(dtype, lanes, index);
        }
        self.by_lanes(dtype, lanes, element)
    }

    fn store(&mut self, store: &Store, at: &Point, lanes: usize, value: Value) {
        let dtype = self.kernel.inst(store.value).dtype;
        self.write(store.buffer, dtype, &store.index, at, lanes, value);
    }

    /// Writes elements along the point's direction.
    pub(super) fn write(
        &mut self,
        buffer: BufferId,
        dtype: DType,
        index: &Affine,
        at: &Point,
        lanes: usize,
        value: Value,
    ) {
        let flags = self.flags.of(buffer);
        let (address, offset) = self.address(buffer, dtype, index, at);
        let stride = at.stride(index);
        if lanes == 1 || stride == 1 {
            return self.emitter.store(dtype, lanes, flags, value, address, offset);
        }
        for lane in 0..lanes {
            let element = self.emitter.extract(dtype, value, lane);
            let shifted = self.plus(address, stride * dtype.size() as i64 * lane as i64);
            self.emitter.store(dtype, 1, flags, element, shifted, offset);
        }
    }
}

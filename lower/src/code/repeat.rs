//! Native loops: a loop whose body is straight-line code becomes one function, its carries in registers.
//!
//! The function takes a table of addresses: of the body's parameters in order (a carry lies where it ends, an x where
//! its first slice does), then of the first slice of each y, then of a word for the position it stops at. It runs
//! iterations from position `begin` to position `end`, which it does not reach, or until the condition fails.

use crate::control::Loop;
use crate::emit::Emitter;
use crate::jit::Unit;
use crate::kernel::{Access, BufferId, Inst, InstKind, Kernel, Reg};
use crate::lowered::Lowered;
use crate::schedule::{Place, Schedule, Step};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, MemFlagsData, Value, types};
use cranelift_frontend::FunctionBuilderContext;
use indexmap::IndexMap;
use pullback_ir::{DType, TensorType};

/// Elements of all carries together, at most.
const MAX_CARRIED: usize = 256;

/// A program of straight-line code: what each element of its outputs is.
struct Straight<'a> {
    schedule: &'a Schedule,
    body: &'a [Inst],
    outputs: Vec<Vec<Element>>,
}

/// An element of an output.
#[derive(Clone, Copy)]
enum Element {
    /// The value of an instruction.
    Reg(Reg),
    /// An element of a buffer.
    Copied(BufferId, usize),
}

/// The program as straight-line code, if it is nothing else: one kernel without loops, and copies.
fn straight(lowered: &Lowered) -> Option<Straight<'_>> {
    let schedule = lowered.schedule();
    let types = lowered.program().output_types();
    let mut outputs: Vec<Vec<Option<Element>>> =
        types.iter().map(|ty| vec![None; ty.shape.elements()]).collect();
    let output = |buffer| match schedule.buffer(buffer).place {
        Place::Output(number) => Some(number),
        Place::Param(_) | Place::Scratch | Place::Constant(_) => None,
    };
    let mut kernel: Option<&Kernel> = None;
    for step in &schedule.steps {
        match step {
            Step::Kernel(only) if kernel.is_none() && only.rank() == 0 => {
                kernel = Some(only);
                for store in &only.stores {
                    let place = outputs[output(store.buffer)?].get_mut(store.index.offset as usize)?;
                    *place = Some(Element::Reg(store.value));
                }
            }
            Step::Copy { from, to } => {
                let elements = outputs[output(*to)?].iter_mut().enumerate();
                elements.for_each(|(i, element)| *element = Some(Element::Copied(*from, i)));
            }
            Step::Kernel(_)
            | Step::Combine(_)
            | Step::Gemm(_)
            | Step::Evaluate(_)
            | Step::Update(_)
            | Step::Loop(_)
            | Step::Branch(_) => return None,
        }
    }
    let outputs = outputs.into_iter().map(|elements| elements.into_iter().collect());
    let outputs: Vec<Vec<Element>> = outputs.collect::<Option<_>>()?;
    let straight = Straight { schedule, body: kernel.map_or(&[], |kernel| &kernel.body), outputs };
    straight.is_straight().then_some(straight)
}

impl Straight<'_> {
    /// Whether it reads nothing but parameters and constants, each element at a place known in advance.
    fn is_straight(&self) -> bool {
        let readable = |buffer: BufferId| match self.schedule.buffer(buffer).place {
            Place::Param(_) | Place::Constant(_) => true,
            Place::Output(_) | Place::Scratch => false,
        };
        let copied = self.outputs.iter().flatten().all(|element| match element {
            Element::Reg(_) => true,
            Element::Copied(buffer, _) => readable(*buffer),
        });
        copied
            && self.body.iter().all(|inst| match &inst.kind {
                InstKind::Load(Access { buffer, divided, guards, .. }) => {
                    readable(*buffer) && divided.is_empty() && guards.is_empty()
                }
                InstKind::Constant(_) | InstKind::Scalar { .. } => true,
                InstKind::Index(_) | InstKind::Inside(_) => false,
            })
    }
}

/// Defines the function of a loop, if its body and condition are straight-line code. Returns whether they are.
pub(crate) fn define_loop(
    unit: &mut Unit,
    name: &str,
    step: &Loop,
    body: &Lowered,
    condition: Option<&Lowered>,
) -> bool {
    let types = body.program().param_types();
    let carried: usize =
        types[step.op.consts..][..step.op.carries].iter().map(|ty| ty.shape.elements()).sum();
    if carried > MAX_CARRIED || types.iter().any(TensorType::is_stack) {
        return false;
    }
    let (Some(body), condition) = (straight(body), condition.map(straight)) else { return false };
    let condition = match condition {
        None => None,
        Some(Some(condition)) => Some(condition),
        Some(None) => return false,
    };
    let signature = unit.signature(&[types::I64; 3], &[]);
    let id = unit.declare(name, signature);
    let mut function = unit.function(id);
    let mut context = FunctionBuilderContext::new();
    let mut emitter = Emitter::new(unit, &mut function, &mut context);
    emitter.set_inline_limit(super::INLINE_IN_LOOPS);
    let [table, begin, end] = [0, 1, 2].map(|i| emitter.parameter(i));
    let code = LoopCode { emitter, step, types: &types, table, consts: IndexMap::new() };
    code.emit(&body, condition.as_ref(), begin, end);
    unit.define(id, function);
    true
}

/// A loop's function under construction.
struct LoopCode<'a, 'f> {
    emitter: Emitter<'f>,
    step: &'a Loop,
    /// Types of the body's parameters.
    types: &'a [TensorType],
    table: Value,
    /// Elements of consts, loaded once.
    consts: IndexMap<(usize, usize), Value>,
}

/// What an iteration sees: the elements of the carries, and its position.
struct Iteration<'v> {
    carries: &'v [Vec<Value>],
    position: Value,
}

impl LoopCode<'_, '_> {
    fn emit(mut self, body: &Straight<'_>, condition: Option<&Straight<'_>>, begin: Value, end: Value) {
        let carries = self.step.op.consts..self.step.op.consts + self.step.op.carries;
        for straight in std::iter::once(body).chain(condition) {
            self.load_consts(straight);
        }
        let first: Vec<Vec<Value>> = carries.clone().map(|number| self.load_carry(number)).collect();
        let builder = &mut self.emitter.builder;
        let (header, inside, after) =
            (builder.create_block(), builder.create_block(), builder.create_block());
        let position = builder.append_block_param(header, types::I64);
        let mut carried = Vec::new();
        for elements in &first {
            let ty = |&value: &Value| builder.func.dfg.value_type(value);
            let types: Vec<_> = elements.iter().map(ty).collect();
            carried.push(types.into_iter().map(|ty| builder.append_block_param(header, ty)).collect());
        }
        builder.ins().jump(header, &arguments(begin, &first));
        builder.switch_to_block(header);
        let at = Iteration { carries: &carried, position };
        let more = builder.ins().icmp(IntCC::NotEqual, position, end);
        builder.ins().brif(more, inside, &[], after, &[]);
        builder.switch_to_block(inside);
        builder.seal_block(inside);
        if let Some(condition) = condition {
            let holds = self.outputs(condition, &at)[0][0];
            let builder = &mut self.emitter.builder;
            let goes_on = builder.create_block();
            builder.ins().brif(holds, goes_on, &[], after, &[]);
            builder.switch_to_block(goes_on);
            builder.seal_block(goes_on);
        }
        let outputs_types = self.step.op.body.output_types();
        let outputs = self.outputs(body, &at);
        let (next, ys) = outputs.split_at(carries.len());
        for (k, y) in ys.iter().enumerate() {
            let dtype = outputs_types[carries.len() + k].dtype;
            let address = self.slice(self.types.len() + k, y.len() * dtype.size(), position);
            self.store(address, dtype, y);
        }
        let by = self.emitter.index(if self.step.op.reverse { -1 } else { 1 });
        let builder = &mut self.emitter.builder;
        let moved = builder.ins().iadd(position, by);
        builder.ins().jump(header, &arguments(moved, next));
        builder.seal_block(header);
        builder.switch_to_block(after);
        builder.seal_block(after);
        for (number, elements) in carries.zip(&carried) {
            let (address, dtype) = (self.address(number), self.types[number].dtype);
            self.store(address, dtype, elements);
        }
        let stop = self.address(self.types.len() + body.outputs.len() - self.step.op.carries);
        self.store(stop, DType::I64, &[position]);
        self.emitter.builder.ins().return_(&[]);
        self.emitter.finish();
    }

    /// An address of the table.
    fn address(&mut self, number: usize) -> Value {
        let flags = MemFlagsData::trusted().with_readonly().with_can_move();
        self.emitter.builder.ins().load(types::I64, flags, self.table, 8 * number as i32)
    }

    fn load(&mut self, dtype: DType, address: Value, element: usize) -> Value {
        let flags = MemFlagsData::new().with_notrap();
        self.emitter.load(dtype, 1, flags, address, (element * dtype.size()) as i32)
    }

    fn store(&mut self, address: Value, dtype: DType, elements: &[Value]) {
        let flags = MemFlagsData::new().with_notrap();
        for (i, &element) in elements.iter().enumerate() {
            self.emitter.store(dtype, 1, flags, element, address, (i * dtype.size()) as i32);
        }
    }

    /// Loads the elements of consts that a program reads.
    fn load_consts(&mut self, straight: &Straight<'_>) {
        let loaded = straight.body.iter().filter_map(|inst| match &inst.kind {
            InstKind::Load(access) => Some((access.buffer, access.index.offset as usize)),
            InstKind::Constant(_) | InstKind::Index(_) | InstKind::Inside(_) | InstKind::Scalar { .. } => {
                None
            }
        });
        let copied = straight.outputs.iter().flatten().filter_map(|element| match *element {
            Element::Copied(buffer, element) => Some((buffer, element)),
            Element::Reg(_) => None,
        });
        for (buffer, element) in loaded.chain(copied) {
            let Place::Param(number) = straight.schedule.buffer(buffer).place else { continue };
            if number < self.step.op.consts && !self.consts.contains_key(&(number, element)) {
                let address = self.address(number);
                let value = self.load(self.types[number].dtype, address, element);
                self.consts.insert((number, element), value);
            }
        }
    }

    fn load_carry(&mut self, number: usize) -> Vec<Value> {
        let ty = &self.types[number];
        let address = self.address(number);
        (0..ty.shape.elements()).map(|element| self.load(ty.dtype, address, element)).collect()
    }

    /// The address of the slice at a position of what begins at entry `number` of the table.
    fn slice(&mut self, number: usize, bytes: usize, position: Value) -> Value {
        let (start, bytes) = (self.address(number), self.emitter.index(bytes as i64));
        let offset = self.emitter.builder.ins().imul(position, bytes);
        self.emitter.builder.ins().iadd(start, offset)
    }

    /// An element that a program reads.
    fn read(
        &mut self,
        straight: &Straight<'_>,
        buffer: BufferId,
        element: usize,
        at: &Iteration<'_>,
    ) -> Value {
        let buffer = straight.schedule.buffer(buffer);
        let dtype = buffer.ty.dtype;
        match &buffer.place {
            Place::Constant(literal) => self.emitter.constant(dtype, literal.bits_at(element), 1),
            Place::Param(number) => match number.checked_sub(self.step.op.consts) {
                None => self.consts[&(*number, element)],
                Some(carry) if carry < self.step.op.carries => at.carries[carry][element],
                Some(_) => {
                    let address = self.slice(*number, self.types[*number].bytes(), at.position);
                    self.load(dtype, address, element)
                }
            },
            Place::Output(_) | Place::Scratch => unreachable!("straight-line code reads only what is given"),
        }
    }

    /// The elements of a program's outputs in an iteration.
    fn outputs(&mut self, straight: &Straight<'_>, at: &Iteration<'_>) -> Vec<Vec<Value>> {
        let mut values: Vec<Value> = Vec::with_capacity(straight.body.len());
        for inst in straight.body {
            let value = match &inst.kind {
                InstKind::Constant(bits) => self.emitter.constant(inst.dtype, *bits, 1),
                InstKind::Load(access) => {
                    self.read(straight, access.buffer, access.index.offset as usize, at)
                }
                InstKind::Scalar { op, args } => {
                    let dtypes: Vec<DType> =
                        args.iter().map(|arg| straight.body[arg.0 as usize].dtype).collect();
                    let args: Vec<Value> = args.iter().map(|arg| values[arg.0 as usize]).collect();
                    self.emitter.scalar(*op, &dtypes, 1, &args)
                }
                InstKind::Index(_) | InstKind::Inside(_) => {
                    unreachable!("there are no loops in straight-line code")
                }
            };
            values.push(value);
        }
        let element = |code: &mut Self, element: &Element| match *element {
            Element::Reg(reg) => values[reg.0 as usize],
            Element::Copied(buffer, element) => code.read(straight, buffer, element, at),
        };
        let elements = straight.outputs.iter();
        elements.map(|elements| elements.iter().map(|e| element(self, e)).collect()).collect()
    }
}

fn arguments(position: Value, carries: &[Vec<Value>]) -> Vec<BlockArg> {
    std::iter::once(&position).chain(carries.iter().flatten()).map(|&value| value.into()).collect()
}

//! Programs in SSA form. A program is a value: transforms take one and return one.
//!
//! Every value is a parameter or one result of one op and is defined before it is used. Iteration follows
//! program order; ids are slotmap keys and say nothing about order. Nested programs are `Arc<Program>`
//! attributes of the op that owns them, and closed.

use crate::literal::Literal;
use crate::loc::Loc;
use crate::ops::{Effect, Op};
use crate::shape::TensorType;
use slotmap::{SecondaryMap, SlotMap, new_key_type};
use smallvec::SmallVec;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

new_key_type! {
    /// A value of one program.
    pub struct Value;
    /// An op of one program.
    pub struct OpId;
}

/// Results of one op; nearly always one.
pub type Values = SmallVec<[Value; 2]>;

/// Where a value is defined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Def {
    /// The parameter of this number.
    Param(usize),
    /// The result of this number of this op.
    Result(OpId, usize),
}

#[derive(Clone, Debug)]
pub(crate) struct ValueData {
    pub(crate) ty: TensorType,
    pub(crate) def: Def,
}

/// One op in a program: an equation that defines its results.
#[derive(Clone, Debug)]
pub struct Node {
    /// What is computed.
    pub op: Op,
    /// From which values.
    pub operands: Values,
    /// Which values it defines.
    pub results: Values,
    /// The user's call that asked for it.
    pub loc: Loc,
}

impl Node {
    /// The only result of an op that has one.
    pub fn result(&self) -> Value {
        self.results[0]
    }
}

/// A closed, first-order, typed program: parameters, ops in order, outputs.
#[derive(Clone, Default)]
pub struct Program {
    pub(crate) name: Arc<str>,
    pub(crate) values: SlotMap<Value, ValueData>,
    pub(crate) nodes: SlotMap<OpId, Node>,
    pub(crate) order: Vec<OpId>,
    pub(crate) params: Vec<Value>,
    pub(crate) outputs: Vec<Value>,
    pub(crate) known: Known,
}

/// What was once found out about a program: programs nest and share, and each is to be walked once. A copy knows
/// nothing, since programs are changed only as copies.
#[derive(Default)]
pub(crate) struct Known {
    fingerprint: OnceLock<u128>,
    effect: OnceLock<Effect>,
}

impl Clone for Known {
    fn clone(&self) -> Known {
        Known::default()
    }
}

impl Program {
    /// Its name, without the `@` of the text form.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same program under another name. Names mean nothing to equality, hashing or execution.
    pub fn renamed(mut self, name: &str) -> Program {
        self.name = name.into();
        self
    }

    /// The same program with these of its values as outputs.
    pub fn with_outputs(mut self, outputs: &[Value]) -> Program {
        self.outputs = outputs.to_vec();
        self.known = Known::default();
        self
    }

    /// Parameters in order.
    pub fn params(&self) -> &[Value] {
        &self.params
    }

    /// Outputs in order. One value may stand in several places, and may be a parameter.
    pub fn outputs(&self) -> &[Value] {
        &self.outputs
    }

    /// Types of the parameters.
    pub fn param_types(&self) -> Vec<TensorType> {
        self.params.iter().map(|&v| self.ty(v).clone()).collect()
    }

    /// Types of the outputs.
    pub fn output_types(&self) -> Vec<TensorType> {
        self.outputs.iter().map(|&v| self.ty(v).clone()).collect()
    }

    /// Type of a value of this program.
    pub fn ty(&self, value: Value) -> &TensorType {
        &self.values[value].ty
    }

    /// Where a value of this program is defined.
    pub fn def(&self, value: Value) -> Def {
        self.values[value].def
    }

    /// Whether the id names a value of this program.
    pub fn contains(&self, value: Value) -> bool {
        self.values.contains_key(value)
    }

    /// The op that defines a value, or `None` for a parameter.
    pub fn producer(&self, value: Value) -> Option<&Node> {
        match self.values.get(value)?.def {
            Def::Param(_) => None,
            Def::Result(id, _) => self.nodes.get(id),
        }
    }

    /// Whether a value is a constant float tensor of zeros, or a stack of such, as rules write for a symbolic zero.
    pub fn is_zero(&self, value: Value) -> bool {
        let (mut program, mut value) = (self, value);
        while let Def::Result(id, number) = program.def(value) {
            match &program.nodes[id].op {
                Op::Constant(constant) => return constant.value.splat_float() == Some(0.0),
                Op::Loop(stack) if number >= stack.carries && number < stack.body.outputs.len() => {
                    (program, value) = (&stack.body, stack.body.outputs[number]);
                }
                _ => return false,
            }
        }
        false
    }

    /// Whether a value is a stack without slices, as [`Builder::zeros`](crate::Builder::zeros) makes it.
    pub fn is_empty_stack(&self, value: Value) -> bool {
        let Some(node) = self.producer(value) else { return false };
        let is_zero = || self.constant(node.operands[0]).and_then(Literal::splat_value) == Some(0);
        matches!(&node.op, Op::Loop(op) if op.has_times()) && is_zero()
    }

    /// The constant that a value of this program is, if it is one.
    pub fn constant(&self, value: Value) -> Option<&Literal> {
        match &self.producer(value)?.op {
            Op::Constant(constant) => Some(&constant.value),
            _ => None,
        }
    }

    /// Number of ops, nested programs not counted.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is no op.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Number of values, parameters included.
    pub fn value_count(&self) -> usize {
        self.values.len()
    }

    /// Ids of the ops, in program order.
    pub fn op_ids(&self) -> &[OpId] {
        &self.order
    }

    /// The op of this id.
    pub fn node(&self, id: OpId) -> &Node {
        &self.nodes[id]
    }

    /// Ops in program order.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = &Node> + ExactSizeIterator + '_ {
        self.order.iter().map(|&id| &self.nodes[id])
    }

    /// How many times each value is used, as an operand or as an output.
    pub fn use_counts(&self) -> SecondaryMap<Value, u32> {
        let mut counts: SecondaryMap<Value, u32> = self.values.keys().map(|v| (v, 0)).collect();
        for &v in self.nodes().flat_map(|n| n.operands.iter()).chain(&self.outputs) {
            counts[v] += 1;
        }
        counts
    }

    /// Values in definition order (parameters, then results), each with its number in the text form.
    pub fn numbering(&self) -> SecondaryMap<Value, u32> {
        let results = self.nodes().flat_map(|n| n.results.iter());
        self.params.iter().chain(results).enumerate().map(|(i, &v)| (v, i as u32)).collect()
    }

    /// A hash of the structure: equal for programs that are [equal](PartialEq), whatever their names,
    /// ids and locations.
    pub fn structural_hash(&self) -> u64 {
        self.fingerprint() as u64
    }

    /// A hash of the structure wide enough that equal hashes mean equal structure.
    fn fingerprint(&self) -> u128 {
        *self.known.fingerprint.get_or_init(|| {
            let mut halves = [0u64, 1].map(|half| {
                let mut hasher = DefaultHasher::new();
                half.hash(&mut hasher);
                hasher
            });
            let mut words = WordHasher(&mut halves);
            self.hash_structure(&mut words);
            let [low, high] = halves.map(|half| half.finish());
            (high as u128) << 64 | low as u128
        })
    }

    /// The most that any of its ops, nested ones included, does besides giving results.
    pub fn effect(&self) -> Effect {
        *self
            .known
            .effect
            .get_or_init(|| self.nodes().map(|node| node.op.effect()).fold(Effect::None, Effect::max))
    }

    fn hash_structure(&self, state: &mut impl Hasher) {
        let number = self.numbering();
        self.param_types().hash(state);
        for node in self.nodes() {
            node.op.hash(state);
            node.results.len().hash(state);
            for &v in &node.operands {
                number[v].hash(state);
            }
        }
        self.outputs.len().hash(state);
        for &v in &self.outputs {
            number[v].hash(state);
        }
    }
}

/// Feeds several hashers at once.
struct WordHasher<'a>(&'a mut [DefaultHasher; 2]);

impl Hasher for WordHasher<'_> {
    fn finish(&self) -> u64 {
        self.0[0].finish()
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0.iter_mut().for_each(|hasher| hasher.write(bytes));
    }
}

/// Equality of structure: same ops on the same operands in the same order. Names, ids and locations do not count.
/// Programs share what is nested in them, so comparing them op by op could take forever; their hashes of 128 bits are
/// compared instead.
impl PartialEq for Program {
    fn eq(&self, other: &Program) -> bool {
        std::ptr::eq(self, other) || self.fingerprint() == other.fingerprint()
    }
}

impl Eq for Program {}

impl Hash for Program {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(self.fingerprint());
    }
}

/// The text form, which says more than the tables behind it.
impl std::fmt::Debug for Program {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, formatter)
    }
}

/// Multiply-rotate hashing of words. Program ids are not chosen by an adversary, and hash-consing is on the path
/// of every op recorded, so speed counts and collision resistance does not.
#[derive(Default, Clone, Copy)]
pub struct FxHasher(u64);

impl FxHasher {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for FxHasher {
    fn finish(&self) -> u64 {
        // The low bits of a product depend on few input bits; tables index by them.
        self.0 ^ (self.0 >> 32)
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }
    fn write_u8(&mut self, x: u8) {
        self.add(x as u64);
    }
    fn write_u32(&mut self, x: u32) {
        self.add(x as u64);
    }
    fn write_u64(&mut self, x: u64) {
        self.add(x);
    }
    fn write_usize(&mut self, x: usize) {
        self.add(x as u64);
    }
}

/// The first place where two lists of types differ.
pub(crate) fn check_same_types<T: PartialEq>(expected: &[T], found: &[T]) -> Option<usize> {
    (0..expected.len().max(found.len())).find(|&i| expected.get(i) != found.get(i))
}

impl Program {
    /// Which ops of which names occur, with counts, in order of first occurrence; nested programs included, each once.
    pub fn op_counts(&self) -> indexmap::IndexMap<&'static str, usize> {
        let mut counts = indexmap::IndexMap::new();
        let mut programs: indexmap::IndexSet<*const Program> = indexmap::IndexSet::new();
        let mut stack: Vec<&Program> = vec![self];
        while let Some(program) = stack.pop() {
            if !programs.insert(program) {
                continue;
            }
            for node in program.nodes() {
                *counts.entry(node.op.name()).or_insert(0) += 1;
                stack.extend(node.op.programs().into_iter().map(|p| &**p));
            }
        }
        counts
    }
}

//! Programs in SSA form. A program is a value: transforms take one and return one.
//!
//! Every value is a parameter or one result of one op and is defined before it is used. Iteration follows
//! program order; ids are slotmap keys and say nothing about order. Nested programs are `Arc<Program>`
//! attributes of the op that owns them, and closed.

use crate::literal::Literal;
use crate::loc::Loc;
use crate::ops::Op;
use crate::shape::TensorType;
use slotmap::{SecondaryMap, SlotMap, new_key_type};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

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
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub(crate) name: Arc<str>,
    pub(crate) values: SlotMap<Value, ValueData>,
    pub(crate) nodes: SlotMap<OpId, Node>,
    pub(crate) order: Vec<OpId>,
    pub(crate) params: Vec<Value>,
    pub(crate) outputs: Vec<Value>,
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

    /// Whether a value is a constant float tensor of zeros, as rules write for a symbolic zero.
    pub fn is_zero(&self, value: Value) -> bool {
        self.producer(value).is_some_and(|node| match &node.op {
            Op::Constant(constant) => constant.value.splat_float() == Some(0.0),
            _ => false,
        })
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
        let mut hasher = FxHasher::default();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// Equality of structure: same ops on the same operands in the same order. Names, ids and locations do not count.
impl PartialEq for Program {
    fn eq(&self, other: &Program) -> bool {
        if self.len() != other.len()
            || self.param_types() != other.param_types()
            || self.outputs.len() != other.outputs.len()
        {
            return false;
        }
        let (left, right) = (self.numbering(), other.numbering());
        let same = |a: &[Value], b: &[Value]| {
            a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| left[a] == right[b])
        };
        self.nodes().zip(other.nodes()).all(|(a, b)| {
            a.op == b.op && a.results.len() == b.results.len() && same(&a.operands, &b.operands)
        }) && same(&self.outputs, &other.outputs)
    }
}

impl Eq for Program {}

impl Hash for Program {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let number = self.numbering();
        self.param_types().hash(state);
        for node in self.nodes() {
            node.op.hash(state);
            for &v in &node.operands {
                number[v].hash(state);
            }
        }
        for &v in &self.outputs {
            number[v].hash(state);
        }
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
    /// Which ops of which names occur, with counts, in order of first occurrence; nested programs included.
    pub fn op_counts(&self) -> indexmap::IndexMap<&'static str, usize> {
        let mut counts = indexmap::IndexMap::new();
        let mut stack: Vec<&Program> = vec![self];
        while let Some(program) = stack.pop() {
            for node in program.nodes() {
                *counts.entry(node.op.name()).or_insert(0) += 1;
                stack.extend(node.op.programs().into_iter().map(|p| &**p));
            }
        }
        counts
    }
}

//! Which values lie in memory: after which group each can be read, and its buffer if anybody reads it.

use super::graph::Graph;
use crate::kernel::BufferId;
use crate::schedule::{Buffer, Place};
use pullback_ir::recipe::Recipe;
use pullback_ir::{Def, TensorType, Value};
use slotmap::SecondaryMap;

#[derive(Default)]
pub(super) struct Stored {
    /// The group that computes each stored value; 0 for what is there from the start.
    groups: SecondaryMap<Value, u32>,
    ids: SecondaryMap<Value, BufferId>,
    pub(super) buffers: Vec<Buffer>,
}

impl Stored {
    pub(super) fn new(graph: &Graph<'_>) -> Stored {
        let mut stored = Stored::default();
        for &param in graph.program.params() {
            stored.groups.insert(param, 0);
        }
        stored
    }

    /// The group that computes a stored value.
    pub(super) fn group(&self, value: Value) -> Option<u32> {
        self.groups.get(value).copied()
    }

    pub(super) fn set_group(&mut self, value: Value, group: u32) {
        self.groups.insert(value, group);
    }

    /// The buffer of a value that somebody reads.
    pub(super) fn existing(&self, value: Value) -> Option<BufferId> {
        self.ids.get(value).copied()
    }

    /// The buffer of a stored value, a parameter or a constant, from now on needed.
    pub(super) fn buffer(&mut self, graph: &Graph<'_>, value: Value) -> BufferId {
        if let Some(&id) = self.ids.get(value) {
            return id;
        }
        let place = match (graph.program.def(value), graph.source(value)) {
            (Def::Param(number), _) => Place::Param(number),
            (Def::Result(..), Some((Recipe::Constant(literal), _))) => Place::Constant(literal.clone()),
            (Def::Result(..), _) => Place::Scratch,
        };
        let id = self.new_buffer(graph.ty(value).clone(), place);
        self.ids.insert(value, id);
        id
    }

    pub(super) fn new_buffer(&mut self, ty: TensorType, place: Place) -> BufferId {
        self.buffers.push(Buffer { ty, place });
        BufferId(self.buffers.len() as u32 - 1)
    }
}

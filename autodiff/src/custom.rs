//! Contracts: the rules of custom calls, given by the user.

use indexmap::IndexMap;
use pullback_ir::batch::{Batched, BatchedValues, Batcher};
use pullback_ir::ops::Equation;
use pullback_ir::ops::control::custom_call::CustomCall;
use pullback_ir::rules::{Arg, Cotangents, RuleError};
use pullback_ir::{Builder, Linearizer, Value};
use std::sync::Arc;

type Jvp = dyn Fn(&CustomCall, &mut Linearizer<'_>, Equation<'_>, &[Option<Value>]) -> Result<Cotangents, RuleError>
    + Send
    + Sync;

type Vjp = dyn Fn(&CustomCall, &mut Builder, &[Arg], &[Option<Value>]) -> Result<Cotangents, RuleError>
    + Send
    + Sync;

type Batch =
    dyn Fn(&CustomCall, &mut Batcher<'_>, &[Batched]) -> Result<BatchedValues, RuleError> + Send + Sync;

/// The contracts of custom calls, by target and version. They have the shapes of the rules every op has, so what a
/// contract emits (further custom calls included) can be differentiated again.
#[derive(Clone, Default)]
pub struct Contracts {
    jvp: IndexMap<String, IndexMap<u32, Arc<Jvp>>>,
    vjp: IndexMap<String, IndexMap<u32, Arc<Vjp>>>,
    batch: IndexMap<String, IndexMap<u32, Arc<Batch>>>,
}

impl Contracts {
    /// No contracts.
    pub fn new() -> Contracts {
        Contracts::default()
    }

    /// Sets the jvp contract of a target: see [`Primitive::linearize`](pullback_ir::Primitive::linearize). What it
    /// emits into the linear program must be linear in the tangents.
    pub fn register_jvp<F>(&mut self, target: &str, version: u32, contract: F)
    where
        F: Fn(
                &CustomCall,
                &mut Linearizer<'_>,
                Equation<'_>,
                &[Option<Value>],
            ) -> Result<Cotangents, RuleError>
            + Send
            + Sync
            + 'static,
    {
        self.jvp.entry(target.to_string()).or_default().insert(version, Arc::new(contract));
    }

    /// Sets the vjp contract of a linear target: see [`Primitive::transpose`](pullback_ir::Primitive::transpose).
    pub fn register_vjp<F>(&mut self, target: &str, version: u32, contract: F)
    where
        F: Fn(&CustomCall, &mut Builder, &[Arg], &[Option<Value>]) -> Result<Cotangents, RuleError>
            + Send
            + Sync
            + 'static,
    {
        self.vjp.entry(target.to_string()).or_default().insert(version, Arc::new(contract));
    }

    /// Sets the batch contract of a target: see [`Primitive::batch`](pullback_ir::Primitive::batch). A kernel that takes
    /// any shape and works on each element by itself needs no more than
    /// [`Batcher::aligned`](pullback_ir::Batcher::aligned) and a call with other result types.
    pub fn register_batch<F>(&mut self, target: &str, version: u32, contract: F)
    where
        F: Fn(&CustomCall, &mut Batcher<'_>, &[Batched]) -> Result<BatchedValues, RuleError>
            + Send
            + Sync
            + 'static,
    {
        self.batch.entry(target.to_string()).or_default().insert(version, Arc::new(contract));
    }

    pub(crate) fn jvp(&self, call: &CustomCall) -> Result<Arc<Jvp>, RuleError> {
        let found = self.jvp.get(&call.target).and_then(|versions| versions.get(&call.version));
        let missing = || RuleError::CustomCallRequiresJvpContract { target: call.target.clone() };
        found.cloned().ok_or_else(missing)
    }

    pub(crate) fn vjp(&self, call: &CustomCall) -> Result<Arc<Vjp>, RuleError> {
        let found = self.vjp.get(&call.target).and_then(|versions| versions.get(&call.version));
        let missing = || RuleError::CustomCallRequiresVjpContract { target: call.target.clone() };
        found.cloned().ok_or_else(missing)
    }

    pub(crate) fn batch(&self, call: &CustomCall) -> Result<Arc<Batch>, RuleError> {
        let found = self.batch.get(&call.target).and_then(|versions| versions.get(&call.version));
        let missing = || RuleError::CustomCallRequiresBatchContract { target: call.target.clone() };
        found.cloned().ok_or_else(missing)
    }
}

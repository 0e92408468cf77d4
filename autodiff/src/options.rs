//! What a user can add to the transforms.

use crate::custom::Contracts;
use pullback_ir::builder::SharedHook;
use pullback_ir::{Builder, Stage};

/// The transforms, with the contracts of custom calls and the hooks they go by. Its methods are the transforms;
/// the free functions of this crate are those of `Autodiff::default()`.
#[derive(Clone, Default)]
pub struct Autodiff {
    /// Rules of custom calls.
    pub contracts: Contracts,
    /// Who watches.
    pub hooks: Hooks,
}

impl Autodiff {
    /// The same transforms, watched by nobody.
    pub(crate) fn without_hooks(&self) -> Autodiff {
        Autodiff { contracts: self.contracts.clone(), hooks: Hooks::default() }
    }
}

/// Hooks, one per place where transforms emit ops. A hook sees the ops that a derivative consists of; ops copied
/// from the program that is differentiated are not shown to it.
#[derive(Clone, Default)]
pub struct Hooks {
    /// Sees slopes and ops on tangents.
    pub linearize: Option<SharedHook>,
    /// Sees ops on cotangents.
    pub transpose: Option<SharedHook>,
    /// Sees the cotangent of a loss.
    pub seed: Option<SharedHook>,
}

impl Hooks {
    /// One hook in every place.
    pub fn everywhere(hook: SharedHook) -> Hooks {
        Hooks { linearize: Some(hook.clone()), transpose: Some(hook.clone()), seed: Some(hook) }
    }

    /// Runs `emit` with the hook of a stage set; a builder keeps its own hook where there is none.
    pub(crate) fn during<R>(
        &self,
        stage: Stage,
        builder: &mut Builder,
        emit: impl FnOnce(&mut Builder) -> R,
    ) -> R {
        let Some(hook) = self.at(stage) else { return emit(builder) };
        let outer = builder.set_hook(Some(hook));
        let result = emit(builder);
        builder.set_hook(outer);
        result
    }

    /// The hook of a stage, as builders take it.
    pub(crate) fn at(&self, stage: Stage) -> Option<(SharedHook, Stage)> {
        let hook = match stage {
            Stage::Linearize => &self.linearize,
            Stage::Transpose => &self.transpose,
            Stage::Seed => &self.seed,
        };
        hook.clone().map(|hook| (hook, stage))
    }
}

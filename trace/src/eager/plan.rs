//! Backward passes as programs: made once per structure, compiled when the structure comes again.

use crate::custom::autodiff;
use crate::eager::gather::Gathered;
use crate::eager::hooks;
use crate::eager::scope::is_checked;
use crate::error::Error;
use crate::execute::from_runtime;
use crate::transform::Hooks;
use indexmap::IndexMap;
use pullback_autodiff::Backward;
use pullback_ir::Program;
use pullback_lower::{Executable, Options, lower};
use pullback_runtime::{Array, interpret, interpret_checked};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// How many structures are remembered, those used last.
const CAPACITY: usize = 64;

/// Longer programs are neither remembered nor compiled: their code would not pay for itself.
const LONGEST: usize = 50_000;

/// What tells backward passes apart.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    program: Arc<Program>,
    wrt: Vec<usize>,
    seeded: usize,
    /// Number of seeds for each root, if there is a batch of them.
    lanes: Option<usize>,
}

/// A backward pass that can be run.
pub(super) struct Plan {
    pub(super) backward: Backward,
    /// Set when the structure came a second time; `None` in it if it cannot be compiled.
    code: OnceLock<Option<Executable>>,
}

/// What backward passes of this process did so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EagerStats {
    /// Passes whose structure had come before.
    pub hits: u64,
    /// Passes that had to be differentiated.
    pub misses: u64,
    /// Structures that were compiled, when they came the second time.
    pub compiled: u64,
    /// Structures given up for newer ones, those unused for longest first.
    pub evicted: u64,
    /// Structures held now.
    pub entries: usize,
}

#[derive(Default)]
struct Plans {
    /// The one used last stands last.
    entries: IndexMap<Key, Arc<Plan>>,
    stats: EagerStats,
}

static PLANS: Mutex<Option<Plans>> = Mutex::new(None);

/// No code of a user's runs while the lock is held.
fn plans() -> MutexGuard<'static, Option<Plans>> {
    PLANS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// What backward passes did so far. A training loop whose graph has the same structure in every step is differentiated in
/// the first step, compiled in the second, and runs as machine code from then on.
pub fn stats() -> EagerStats {
    let plans = plans();
    plans
        .as_ref()
        .map_or_else(EagerStats::default, |plans| EagerStats { entries: plans.entries.len(), ..plans.stats })
}

/// Forgets all backward passes; their code is freed when the last one running ends. Counts go on.
pub fn clear_cache() {
    if let Some(plans) = plans().as_mut() {
        plans.entries.clear();
    }
}

/// The backward pass of what was gathered, from its first `seeded` outputs.
pub(super) fn plan(gathered: &Gathered, seeded: usize, lanes: Option<usize>) -> Result<Arc<Plan>, Error> {
    let is_long = gathered.program.len() > LONGEST;
    let key = Key { program: gathered.program.clone(), wrt: gathered.wrt.clone(), seeded, lanes };
    if !is_long && let Some(found) = find(&key) {
        let is_first = found.code.get().is_none();
        let code = found
            .code
            .get_or_init(|| lower(&found.backward.program, &Options::default()).ok()?.compile().ok());
        if is_first && code.is_some() {
            plans().get_or_insert_default().stats.compiled += 1;
        }
        return Ok(found);
    }
    let plan = Arc::new(Plan { backward: differentiate(gathered, seeded, lanes)?, code: OnceLock::new() });
    let mut plans = plans();
    let plans = plans.get_or_insert_default();
    plans.stats.misses += 1;
    if !is_long {
        plans.entries.insert(key, plan.clone());
        if plans.entries.len() > CAPACITY {
            plans.entries.shift_remove_index(0);
            plans.stats.evicted += 1;
        }
    }
    Ok(plan)
}

fn find(key: &Key) -> Option<Arc<Plan>> {
    let mut plans = plans();
    let plans = plans.get_or_insert_default();
    let at = plans.entries.get_index_of(key)?;
    let last = plans.entries.len() - 1;
    plans.entries.move_index(at, last);
    plans.stats.hits += 1;
    Some(plans.entries[last].clone())
}

fn differentiate(gathered: &Gathered, seeded: usize, lanes: Option<usize>) -> Result<Backward, Error> {
    let autodiff = autodiff(&Hooks::default());
    let seeds: Vec<usize> = (0..seeded).collect();
    let mut backward = autodiff.backward(&gathered.program, &gathered.wrt, &seeds)?;
    if let Some(lanes) = lanes {
        let mut axes = vec![None; backward.saved.len()];
        axes.resize(backward.program.params().len(), Some(0));
        let outputs = vec![Some(0); backward.program.outputs().len()];
        backward.program = autodiff.batch(&backward.program, &axes, &outputs, lanes)?;
    }
    Ok(backward)
}

impl Plan {
    /// The cotangents that were reached, for these seeds.
    pub(super) fn run(&self, gathered: &Gathered, seeds: Vec<Array>) -> Result<Vec<Array>, Error> {
        let saved = self.backward.saved.iter().map(|&which| gathered.at_hand(which));
        let arguments: Vec<Array> = saved.chain(seeds).collect();
        let program = &self.backward.program;
        let found = hooks::during(gathered.hooks.clone(), || match self.code.get() {
            _ if is_checked() => interpret_checked(program, &arguments),
            Some(Some(code)) => code.call(&arguments),
            Some(None) | None => interpret(program, &arguments),
        });
        found.map_err(from_runtime)
    }
}

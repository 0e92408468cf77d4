//! Compiled programs by their structure.

use crate::error::LowerError;
use crate::executable::Executable;
use crate::lowered::{Options, lower};
use indexmap::IndexMap;
use pullback_ir::Program;
use std::sync::{Arc, Mutex};

/// Compiled programs, the least recently used of which are dropped.
pub struct Cache {
    limit: usize,
    /// By hash, in order of last use. A program that collides with another replaces it.
    entries: Mutex<IndexMap<u64, Entry>>,
}

struct Entry {
    program: Arc<Program>,
    options: Options,
    executable: Executable,
}

impl Cache {
    /// A cache of so many programs.
    pub fn new(limit: usize) -> Cache {
        Cache { limit: limit.max(1), entries: Mutex::new(IndexMap::new()) }
    }

    /// The program compiled, now or before. Equal programs share code, whatever their names and places.
    pub fn compile(&self, program: &Program, options: &Options) -> Result<Executable, LowerError> {
        let hash = program.structural_hash();
        if let Some(found) = self.find(hash, program, options) {
            return Ok(found);
        }
        // Compiled without the lock: other programs are not held up.
        let executable = lower(program, options)?.compile()?;
        let entry = Entry {
            program: Arc::new(program.clone()),
            options: options.clone(),
            executable: executable.clone(),
        };
        let mut entries = self.lock();
        entries.shift_remove(&hash);
        entries.insert(hash, entry);
        while entries.len() > self.limit {
            entries.shift_remove_index(0);
        }
        Ok(executable)
    }

    /// How many programs it holds.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all programs. Their code is freed when nobody holds it any more.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn find(&self, hash: u64, program: &Program, options: &Options) -> Option<Executable> {
        let mut entries = self.lock();
        let (at, _, entry) = entries.get_full(&hash)?;
        if entry.options != *options || *entry.program != *program {
            return None;
        }
        let executable = entry.executable.clone();
        let last = entries.len() - 1;
        entries.move_index(at, last);
        Some(executable)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, IndexMap<u64, Entry>> {
        self.entries.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

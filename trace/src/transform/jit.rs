//! Compilation: a function recorded once per signature, then run as one program.

use crate::error::Error;
use crate::execute::{Backend, Executor};
use crate::tensor::Tensor;
use crate::transform::forward::leaf_types;
use crate::transform::record::{Recording, record};
use crate::transform::{Args, Arguments, Function};
use crate::tree::{self, Structure, Tree};
use pullback_ir::{Loc, Program, TensorType};
use pullback_lower::{Cost, Direct, MemoryPlan, Options, lower};
use pullback_runtime::Element;
use std::any::Any;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard};

/// How many signatures a handle keeps unless told otherwise.
const CAPACITY: usize = 64;

/// A compiled function: see [`jit`].
pub struct Jit<F> {
    function: F,
    at: Loc,
    backend: Backend,
    cache: Mutex<Cache>,
}

/// Compiles a function for each signature it is called with: structure, dtypes and shapes of its arguments.
///
/// The function runs only to be recorded, once per signature, so what it does besides computing tensors happens only
/// then, and tensors it captured are those of that time. Values are not known while it is recorded.
#[track_caller]
pub fn jit<F>(function: F) -> Jit<F> {
    Jit { function, at: Loc::caller(), backend: Backend::default(), cache: Mutex::default() }
}

/// What distinguishes calls that need code of their own.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Signature {
    structure: Structure,
    types: Vec<TensorType>,
}

impl Signature {
    /// Of arguments with these tensors.
    pub(super) fn of<A: Args>(arguments: &A, leaves: &[&Tensor]) -> Result<Signature, Error> {
        Ok(Signature { structure: tree::structure(arguments), types: leaf_types(leaves)? })
    }

    /// Whether it is that of arguments with these tensors, found without making theirs: most calls need no more.
    fn is_of<A: Args>(&self, arguments: &A, leaves: &[&Tensor]) -> bool {
        self.types.len() == leaves.len()
            && self.types.iter().zip(leaves).all(|(ty, leaf)| leaf.ty().is_ok_and(|found| found == ty))
            && self.structure.is_of(arguments)
    }

    /// In words, what changed from another signature.
    fn difference(&self, other: &Signature, paths: &[String]) -> String {
        if self.structure != other.structure {
            return format!("structure {} instead of {}", self.structure, other.structure);
        }
        let changed = self.types.iter().zip(&other.types).zip(paths).filter(|((new, old), _)| new != old);
        let texts: Vec<String> = changed
            .map(|((new, old), path)| format!("argument {} is {new} instead of {old}", &path[1..]))
            .collect();
        texts.join(", ")
    }
}

impl std::fmt::Display for Signature {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let types: Vec<String> = self.types.iter().map(|ty| ty.to_string()).collect();
        write!(formatter, "({}) in the structure {}", types.join(", "), self.structure)
    }
}

#[derive(Default)]
struct Cache {
    /// The one used last stands last.
    entries: Vec<Arc<Entry>>,
    /// The one compiled last.
    newest: Option<Arc<Entry>>,
    stats: CacheStats,
    why: Option<String>,
}

impl Cache {
    /// Code for arguments with these tensors.
    fn get<A: Args>(&mut self, arguments: &A, leaves: &[&Tensor]) -> Option<Arc<Entry>> {
        let found = self.entries.iter().rposition(|entry| entry.signature.is_of(arguments, leaves))?;
        self.entries[found..].rotate_left(1);
        self.entries.last().cloned()
    }

    fn insert(&mut self, entry: Arc<Entry>) {
        // Two threads may have compiled the same at the same time.
        let same = self.entries.iter().position(|other| other.signature == entry.signature);
        if let Some(same) = same {
            self.entries.remove(same);
        } else if self.entries.len() >= CAPACITY {
            self.entries.remove(0);
            self.stats.evicted += 1;
        }
        self.entries.push(entry.clone());
        self.newest = Some(entry);
    }
}

/// Code for one signature.
struct Entry {
    signature: Signature,
    executor: Executor,
    captures: Vec<Tensor>,
    /// The output of the recording: the structure of results.
    output: Box<dyn Any + Send + Sync>,
}

/// What a handle's cache did so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheStats {
    /// Calls that found their code.
    pub hits: u64,
    /// Calls that had to record and compile.
    pub misses: u64,
    /// Entries given up for newer ones, those unused for longest first.
    pub evicted: u64,
    /// Entries held now.
    pub entries: usize,
}

impl<F> Jit<F> {
    /// Calls the function on a tuple of references: `call((&x, &y))`.
    pub fn call<R: Arguments>(&self, arguments: R) -> Result<F::Output, Error>
    where
        F: Function<R::Owned>,
    {
        self.invoke(&arguments.into_owned())
    }

    /// The same function, its programs run by the reference interpreter instead of being compiled: for comparison.
    pub fn interpreted(self) -> Jit<F> {
        Jit { backend: Backend::Interpreted, cache: Mutex::default(), ..self }
    }

    /// The program for arguments of these types, on its way to machine code.
    pub fn lower<R: Arguments>(&self, arguments: R) -> Result<Lowered<R::Owned, F::Output>, Error>
    where
        F: Function<R::Owned>,
    {
        let arguments = arguments.into_owned();
        let signature = Signature::of(&arguments, &tree::leaves(&arguments))?;
        let recording = record("jit", self.at, &self.function, &arguments, false)?;
        let lowered = lower(&recording.program, &Options::default())?;
        Ok(Lowered { signature, recording, lowered, arguments: PhantomData })
    }

    /// Code for arguments of these types, ahead of time and outside the cache.
    pub fn compile<R: Arguments>(&self, arguments: R) -> Result<Compiled<R::Owned, F::Output>, Error>
    where
        F: Function<R::Owned>,
    {
        self.lower(arguments)?.compile()
    }

    /// What the cache did so far.
    pub fn cache_stats(&self) -> CacheStats {
        let cache = self.lock();
        CacheStats { entries: cache.entries.len(), ..cache.stats }
    }

    /// How the last call that had to compile differed from the one compiled before; `None` if at most one was.
    pub fn why_recompiled(&self) -> Option<String> {
        self.lock().why.clone()
    }

    /// A `Debug` of the user's may panic while the cache is held, but then nothing is half done.
    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The code for arguments with these tensors, compiled if there is none yet.
    fn entry<A: Args>(&self, arguments: &A, leaves: &[&Tensor]) -> Result<Arc<Entry>, Error>
    where
        F: Function<A>,
    {
        {
            let mut cache = self.lock();
            if let Some(entry) = cache.get(arguments, leaves) {
                cache.stats.hits += 1;
                return Ok(entry);
            }
        }
        // Recorded without the lock: the function may call this very handle with other types.
        let signature = Signature::of(arguments, leaves)?;
        let Recording { program, captures, output } =
            record("jit", self.at, &self.function, arguments, false)?;
        let executor = Executor::new(program, self.backend);
        let entry = Arc::new(Entry { signature, executor, captures, output: Box::new(output) });
        let mut cache = self.lock();
        cache.stats.misses += 1;
        let before = cache.newest.as_ref().filter(|newest| newest.signature != entry.signature);
        if let Some(before) = before {
            cache.why = Some(entry.signature.difference(&before.signature, &tree::paths(arguments)));
        }
        // A traced tensor captured now means nothing to a later call.
        if !entry.captures.iter().any(Tensor::is_traced) {
            cache.insert(entry.clone());
        }
        Ok(entry)
    }
}

impl<A: Args, F: Function<A>> Function<A> for Jit<F> {
    type Output = F::Output;

    fn invoke(&self, arguments: &A) -> Result<F::Output, Error> {
        let mut inputs = tree::leaves(arguments);
        let entry = self.entry(arguments, &inputs)?;
        inputs.extend(&entry.captures);
        let outputs = entry.executor.call(&inputs, self.at)?;
        let Some(like) = entry.output.downcast_ref::<F::Output>() else {
            return Err(Error::invalid("jit", "the function returned another type than before", self.at));
        };
        tree::unflatten(like, outputs)
    }
}

/// A function recorded for arguments of some types, to look at on every stage or to compile.
pub struct Lowered<A, O> {
    signature: Signature,
    recording: Recording<O>,
    lowered: pullback_lower::Lowered,
    arguments: PhantomData<fn(A)>,
}

impl<A: Args, O: Tree> Lowered<A, O> {
    /// The program: parameters are the tensors of the arguments, then captured tensors.
    pub fn program(&self) -> &Program {
        &self.recording.program
    }

    /// Kernels and other steps, and the buffers they work on, as text.
    pub fn kernels(&self) -> String {
        self.lowered.kernels()
    }

    /// Number of steps of a call: kernels, matrix products, evaluations.
    pub fn kernel_count(&self) -> usize {
        self.lowered.schedule().steps.len()
    }

    /// Every function as Cranelift gets it.
    pub fn clif(&self) -> Result<String, Error> {
        Ok(self.lowered.clif()?)
    }

    /// The machine instructions of every function.
    pub fn disassembly(&self) -> Result<String, Error> {
        Ok(self.lowered.disassembly()?)
    }

    /// Scratch memory of a call, and what lives in it when.
    pub fn memory(&self) -> &MemoryPlan {
        self.lowered.memory()
    }

    /// What a call costs, counted on the kernels.
    pub fn cost(&self) -> Cost {
        self.lowered.cost()
    }

    /// Code for it.
    pub fn compile(self) -> Result<Compiled<A, O>, Error> {
        let Lowered { signature, recording: Recording { program, captures, output }, lowered, arguments } =
            self;
        let executor = Executor::with_code(program, lowered.compile()?);
        Ok(Compiled { signature, executor, captures, output, arguments })
    }
}

/// A function compiled ahead of time, for arguments of the types it was compiled with.
pub struct Compiled<A, O> {
    signature: Signature,
    executor: Executor,
    captures: Vec<Tensor>,
    output: O,
    arguments: PhantomData<fn(A)>,
}

impl<A: Args, O: Tree> Compiled<A, O> {
    /// Calls it on a tuple of references to trees of the types it was compiled for.
    #[track_caller]
    pub fn call<R: Arguments<Owned = A>>(&self, arguments: R) -> Result<O, Error> {
        let (arguments, at) = (arguments.into_owned(), Loc::caller());
        let mut inputs = tree::leaves(&arguments);
        if !self.signature.is_of(&arguments, &inputs) {
            let found = Signature::of(&arguments, &inputs)?.to_string();
            return Err(Error::SignatureDiffers { expected: self.signature.to_string(), found });
        }
        inputs.extend(&self.captures);
        tree::unflatten(&self.output, self.executor.call(&inputs, at)?)
    }

    /// The same as a function of `IN` plain numbers that gives `OUT` of them, for where a call must cost nanoseconds: the
    /// elements of all tensors of the arguments, one after the other, and those of what it returns. Captured tensors
    /// keep their values.
    ///
    /// # Errors
    /// If the tensors hold another number of numbers, or numbers of another type than `T`.
    pub fn direct<T: Element, const IN: usize, const OUT: usize>(&self) -> Result<Direct<T, IN, OUT>, Error> {
        self.executor.direct(&self.captures)
    }
}

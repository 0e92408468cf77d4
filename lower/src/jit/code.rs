//! Memory that holds code, and functions in it.
//!
//! Invariant: the memory is written once, made executable, and stays mapped until the last owner goes. An
//! [`Entry`] owns the code it points into.

use super::JitError;
use cranelift_jit::{ArenaMemoryProvider, BranchProtection, JITMemoryKind, JITMemoryProvider};
use indexmap::IndexMap;
use std::sync::{Arc, Mutex};

/// Alignment of the block of code; functions are aligned within it.
const ALIGNMENT: u64 = 64;

/// An entry function: one pointer to its arguments.
pub type EntryFunction = unsafe extern "C" fn(*const *mut u8);

/// A function of a range of work: the arguments as for [`EntryFunction`], then begin and end.
pub type RangeFunction = unsafe extern "C" fn(*const *mut u8, i64, i64);

/// Machine code of one unit.
pub struct Code {
    /// Owns the mapping; only dropping touches it.
    memory: Mutex<ArenaMemoryProvider>,
    base: usize,
    bytes: usize,
    functions: IndexMap<String, Function>,
}

/// Where a function begins, and its texts if they were asked for.
pub(super) struct Function {
    pub(super) offset: usize,
    pub(super) clif: Option<String>,
    pub(super) disassembly: Option<String>,
}

/// Memory that is still being filled.
pub(super) struct Draft {
    memory: ArenaMemoryProvider,
    base: *mut u8,
    bytes: usize,
}

impl Draft {
    /// Memory for this many bytes.
    pub(super) fn new(bytes: usize) -> Result<Draft, JitError> {
        let bytes = bytes.max(1);
        let failed = |message: String| JitError::Memory { bytes, message };
        let mut memory =
            ArenaMemoryProvider::new_with_size(bytes).map_err(|error| failed(error.to_string()))?;
        let base = memory
            .allocate(bytes, ALIGNMENT, JITMemoryKind::Executable)
            .map_err(|error| failed(error.to_string()))?;
        Ok(Draft { memory, base, bytes })
    }

    /// Address of the first byte.
    pub(super) fn base(&self) -> usize {
        self.base.expose_provenance()
    }

    /// Fills the memory and makes it executable.
    pub(super) fn publish(
        mut self,
        code: &[u8],
        functions: IndexMap<String, Function>,
    ) -> Result<Code, JitError> {
        assert!(code.len() <= self.bytes, "linked code fits the memory it was measured for");
        // SAFETY: `base` is the start of an allocation of `bytes` writable bytes that nothing else refers to yet, and
        // `code`, which is not longer, lies elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), self.base, code.len()) };
        self.memory
            .finalize(BranchProtection::None)
            .map_err(|error| JitError::Memory { bytes: self.bytes, message: error.to_string() })?;
        Ok(Code { base: self.base(), bytes: code.len(), memory: Mutex::new(self.memory), functions })
    }
}

impl Code {
    /// A function by the name it was declared under; the handle keeps the code alive.
    pub fn entry(self: &Arc<Code>, name: &str) -> Option<Entry> {
        let offset = self.functions.get(name)?.offset;
        Some(Entry { address: self.base + offset, code: self.clone() })
    }

    /// Bytes of machine code and constants.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Names of the functions defined in the unit, in order of declaration.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(String::as_str)
    }

    /// A function as Cranelift got it, if the unit kept texts.
    pub fn clif(&self, name: &str) -> Option<&str> {
        self.functions.get(name)?.clif.as_deref()
    }

    /// The machine instructions of a function, if the unit kept texts.
    pub fn disassembly(&self, name: &str) -> Option<&str> {
        self.functions.get(name)?.disassembly.as_deref()
    }
}

impl std::fmt::Debug for Code {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Code").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        let memory = self.memory.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SAFETY: whoever runs this code does so through an `Entry`, which owns a share of `self`; as the last share
        // is gone, none of it runs or will.
        unsafe { memory.free_memory() };
    }
}

/// A function that can be called, with a share of the code it is in.
#[derive(Clone, Debug)]
pub struct Entry {
    address: usize,
    code: Arc<Code>,
}

impl Entry {
    /// The code the function is in.
    pub fn code(&self) -> &Arc<Code> {
        &self.code
    }

    /// Address of the function, good while `self` or another share of the code lives.
    pub fn address(&self) -> *const u8 {
        std::ptr::with_exposed_provenance(self.address)
    }

    /// Calls an [`EntryFunction`].
    ///
    /// # Safety
    /// The function was emitted with that signature, and `arguments` points to what it loads and stores through.
    #[inline]
    pub unsafe fn call(&self, arguments: *const *mut u8) {
        // SAFETY: the address is that of a function in live code, and the caller says that it has this type.
        let function = unsafe { std::mem::transmute::<*const u8, EntryFunction>(self.address()) };
        // SAFETY: the caller answers for the arguments.
        unsafe { function(arguments) }
    }

    /// Calls a [`RangeFunction`].
    ///
    /// # Safety
    /// As for [`Entry::call`]; the function's loads and stores for `begin..end` are in bounds.
    #[inline]
    pub unsafe fn call_range(&self, arguments: *const *mut u8, begin: i64, end: i64) {
        // SAFETY: the address is that of a function in live code, and the caller says that it has this type.
        let function = unsafe { std::mem::transmute::<*const u8, RangeFunction>(self.address()) };
        // SAFETY: the caller answers for the arguments.
        unsafe { function(arguments, begin, end) }
    }
}

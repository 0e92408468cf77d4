//! Laying functions out one after the other, and filling in the addresses they refer to.
//!
//! All functions of a unit lie in one block, so that near calls reach; functions elsewhere are called by their
//! whole address.

use super::JitError;
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::ir::{ExternalName, Function, LibCall};
use cranelift_codegen::{CompiledCode, FinalizedRelocTarget};
use indexmap::IndexMap;

/// A compiled function, not yet at its place.
pub(super) struct Compiled {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) alignment: usize,
    pub(super) bytes: Vec<u8>,
    pub(super) references: Vec<Reference>,
    pub(super) clif: Option<String>,
    pub(super) disassembly: Option<String>,
}

/// Bytes to be filled in with where something is.
pub(super) struct Reference {
    offset: usize,
    kind: Reloc,
    target: Target,
    addend: i64,
}

enum Target {
    Function(u32),
    Library(LibCall),
    Other(String),
}

impl Compiled {
    /// What compiled code refers to.
    pub(super) fn references(code: &CompiledCode, function: &Function) -> Vec<Reference> {
        let target = |target: &FinalizedRelocTarget| match target {
            FinalizedRelocTarget::ExternalName(ExternalName::User(name)) => {
                Target::Function(function.params.user_named_funcs()[*name].index)
            }
            FinalizedRelocTarget::ExternalName(ExternalName::LibCall(call)) => Target::Library(*call),
            other => Target::Other(other.display(Some(&function.params))),
        };
        let relocations = code.buffer.relocs().iter();
        relocations
            .map(|r| Reference {
                offset: r.offset as usize,
                kind: r.kind,
                target: target(&r.target),
                addend: r.addend,
            })
            .collect()
    }
}

/// Where each function begins.
pub(super) struct Layout {
    starts: IndexMap<u32, usize>,
    /// Bytes of all functions.
    pub(super) total: usize,
}

impl Layout {
    /// Offset of a function.
    pub(super) fn offset(&self, id: u32) -> Option<usize> {
        self.starts.get(&id).copied()
    }
}

/// Places the functions in order.
pub(super) fn layout(functions: &[Compiled]) -> Layout {
    let mut layout = Layout { starts: IndexMap::with_capacity(functions.len()), total: 0 };
    for function in functions {
        let start = layout.total.next_multiple_of(function.alignment.max(1));
        layout.starts.insert(function.id, start);
        layout.total = start + function.bytes.len();
    }
    layout
}

/// The bytes of all functions, for a block at `base`; `address` says where a function is.
pub(super) fn link(
    functions: &[Compiled],
    layout: &Layout,
    base: usize,
    address: impl Fn(u32) -> Result<usize, JitError>,
) -> Result<Vec<u8>, JitError> {
    let mut code = vec![0; layout.total];
    for function in functions {
        let Some(start) = layout.offset(function.id) else { continue };
        code[start..start + function.bytes.len()].copy_from_slice(&function.bytes);
        for reference in &function.references {
            let failed = |message: String| JitError::Link { function: function.name.clone(), message };
            let target = match &reference.target {
                Target::Function(id) => address(*id)?,
                Target::Library(call) => {
                    library(*call).ok_or_else(|| failed(format!("there is no library function {call}")))?
                }
                Target::Other(name) => return Err(failed(format!("unknown symbol {name}"))),
            };
            let at = start + reference.offset;
            let value = (target as i64).wrapping_add(reference.addend);
            fill(&mut code, at, value, (base + at) as i64, reference.kind).map_err(failed)?;
        }
    }
    Ok(code)
}

/// Writes a reference at byte `at`, which will have the address `place`.
fn fill(code: &mut [u8], at: usize, value: i64, place: i64, kind: Reloc) -> Result<(), String> {
    let distance = value.wrapping_sub(place);
    match kind {
        Reloc::Abs8 => code[at..at + 8].copy_from_slice(&value.to_le_bytes()),
        Reloc::X86PCRel4 | Reloc::X86CallPCRel4 => {
            let near = i32::try_from(distance).map_err(|_| format!("a call spans {distance} bytes"))?;
            code[at..at + 4].copy_from_slice(&near.to_le_bytes());
        }
        Reloc::Arm64Call => {
            let words = distance >> 2;
            if !(-(1 << 25)..1 << 25).contains(&words) {
                return Err(format!("a call spans {distance} bytes"));
            }
            let mut instruction = [0; 4];
            instruction.copy_from_slice(&code[at..at + 4]);
            let instruction = u32::from_le_bytes(instruction) | (words as u32 & 0x03ff_ffff);
            code[at..at + 4].copy_from_slice(&instruction.to_le_bytes());
        }
        other => return Err(format!("unknown kind of reference {other}")),
    }
    Ok(())
}

/// Functions that Cranelift calls for instructions that a processor lacks.
fn library(call: LibCall) -> Option<usize> {
    let one = |function: extern "C" fn(f32) -> f32| function as usize;
    let two = |function: extern "C" fn(f64) -> f64| function as usize;
    Some(match call {
        LibCall::CeilF32 => one(ceil_f32),
        LibCall::CeilF64 => two(ceil_f64),
        LibCall::FloorF32 => one(floor_f32),
        LibCall::FloorF64 => two(floor_f64),
        LibCall::TruncF32 => one(trunc_f32),
        LibCall::TruncF64 => two(trunc_f64),
        LibCall::NearestF32 => one(nearest_f32),
        LibCall::NearestF64 => two(nearest_f64),
        LibCall::FmaF32 => fma_f32 as extern "C" fn(f32, f32, f32) -> f32 as usize,
        LibCall::FmaF64 => fma_f64 as extern "C" fn(f64, f64, f64) -> f64 as usize,
        LibCall::Probestack
        | LibCall::Memcpy
        | LibCall::Memset
        | LibCall::Memmove
        | LibCall::Memcmp
        | LibCall::ElfTlsGetAddr
        | LibCall::ElfTlsGetOffset
        | LibCall::X86Pshufb => return None,
    })
}

macro_rules! library {
    ($($name:ident($x:ident $(, $more:ident)*: $t:ty) = $result:expr;)*) => {
        $(extern "C" fn $name($x: $t $(, $more: $t)*) -> $t { $result })*
    };
}

library! {
    ceil_f32(x: f32) = x.ceil();
    ceil_f64(x: f64) = x.ceil();
    floor_f32(x: f32) = x.floor();
    floor_f64(x: f64) = x.floor();
    trunc_f32(x: f32) = x.trunc();
    trunc_f64(x: f64) = x.trunc();
    nearest_f32(x: f32) = x.round_ties_even();
    nearest_f64(x: f64) = x.round_ties_even();
    fma_f32(x, y, z: f32) = x.mul_add(y, z);
    fma_f64(x, y, z: f64) = x.mul_add(y, z);
}

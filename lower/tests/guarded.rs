//! Machine code reads and writes nothing but its arguments, outputs and scratch buffers: each of them lies next to a page
//! that must not be touched.

mod common;

use common::arguments;
use pullback_ir::ops::control::custom_call::SAMPLE_TARGET;
use pullback_ir::{Builder, Op, Program, TensorType};
use pullback_lower::{Life, Options, lower};
use pullback_runtime::eval::control::custom_call::register;
use pullback_runtime::{Array, View, ViewMut};

const PAGE: usize = 4096;

/// Memory between two pages without access.
struct Guarded {
    base: *mut u8,
    mapped: usize,
    start: *mut u8,
}

impl Guarded {
    /// So many bytes that end (or begin) where access ends (or begins).
    fn new(bytes: usize, at_end: bool) -> Guarded {
        let inside = bytes.next_multiple_of(PAGE).max(PAGE);
        let mapped = inside + 2 * PAGE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, wherever the system likes.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), mapped, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED);
        let base: *mut u8 = base.cast();
        let open = base.wrapping_add(PAGE);
        // SAFETY: pages of the mapping above.
        let done = unsafe { libc::mprotect(open.cast(), inside, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(done, 0);
        let start = if at_end { open.wrapping_add(inside - bytes) } else { open };
        Guarded { base, mapped, start }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `new`, to which nothing refers any more.
        unsafe { libc::munmap(self.base.cast(), self.mapped) };
    }
}

/// Runs a program between guard pages and compares with a run on ordinary arrays.
fn check(program: &Program, values: &[Array], options: &Options) {
    let lowered = lower(program, options).expect("lowers");
    let executable = lowered.compile().expect("compiles");
    let Ok(expected) = executable.call(values) else { return };
    for at_end in [true, false] {
        let inputs: Vec<Guarded> = values.iter().map(|a| Guarded::new(a.ty().bytes(), at_end)).collect();
        for (memory, value) in inputs.iter().zip(values) {
            let bytes = value.view();
            let bytes = bytes.bytes();
            // SAFETY: the memory has as many bytes as the value.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.start, bytes.len()) };
        }
        let types: Vec<TensorType> = executable.output_types().to_vec();
        let results: Vec<Guarded> = types.iter().map(|ty| Guarded::new(ty.bytes(), at_end)).collect();
        let views: Vec<View<'_>> = inputs
            .iter()
            .zip(values)
            // SAFETY: initialised bytes of the type, aligned because their number is a multiple of the element's size.
            .map(|(memory, value)| unsafe { View::from_raw(value.ty(), memory.start) })
            .collect();
        let mut outputs: Vec<ViewMut<'_>> = results
            .iter()
            .zip(&types)
            // SAFETY: zeroed bytes of the type that nothing else refers to.
            .map(|(memory, ty)| unsafe { ViewMut::from_raw(ty, memory.start) })
            .collect();
        let mut scratch = Vec::new();
        let place = |life: &Life| {
            let memory = Guarded::new(lowered.schedule().buffer(life.buffer).ty.bytes(), at_end);
            let start = memory.start;
            scratch.push(memory);
            start
        };
        // SAFETY: a mapping for every buffer, with as many bytes as its type says.
        let done = unsafe { executable.call_views_in(&views, &mut outputs, place) };
        done.expect("runs as before");
        for (output, expected) in outputs.iter().zip(&expected) {
            // SAFETY: the program has written the output.
            let found = unsafe { output.written() }.to_array();
            assert!(found.bits_equal(expected), "{:?}", program.output_types());
        }
    }
}

#[test]
fn samples_stay_inside_their_arguments() {
    register(SAMPLE_TARGET, 1, |_, inputs, outputs| {
        let x = inputs[0].as_slice::<f64>().map_err(|e| e.to_string())?;
        outputs[0].as_mut_slice::<f64>().map_err(|e| e.to_string())?.copy_from_slice(x);
        Ok(())
    });
    for sample in Op::ALL.iter().flat_map(|family| (family.samples)()) {
        let mut builder = Builder::new("sample");
        let params: Vec<_> =
            sample.operands.iter().map(|operand| builder.param(operand.ty.clone())).collect();
        let results = builder.emit(sample.op.clone(), &params).expect("samples are well typed");
        let program = builder.finish(&results);
        let values: Vec<Array> = sample.literals(3).iter().map(Array::from_literal).collect();
        for options in [Options::default(), Options { small: 0 }] {
            check(&program, &values, &options);
        }
    }
}

#[test]
fn large_reductions_and_maps_stay_inside_their_arguments() {
    use pullback_ir::DType;
    use pullback_ir::ops::elementwise::unary::Unary;
    for shape in [[1, 1003], [37, 129], [130, 33], [5000, 3], [3, 9001]] {
        for dims in [&[0][..], &[1], &[0, 1]] {
            for dtype in [DType::F32, DType::F64, DType::I32] {
                let mut b = Builder::new("large");
                let x = b.param(TensorType::new(dtype, shape));
                let y = b.unary(Unary::Abs, x).expect("well typed");
                let sum = b.reduce_sum(y, dims).expect("well typed");
                let turned = b.transpose(y, &[1, 0]).expect("well typed");
                let program = b.finish(&[y, sum, turned]);
                check(&program, &arguments(&program.param_types(), 5), &Options::default());
            }
        }
    }
}

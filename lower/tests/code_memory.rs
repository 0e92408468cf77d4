//! Code that is dropped gives its memory back. Alone in its process, whose memory it watches.

use cranelift_codegen::ir::{InstBuilder, MemFlagsData, types};
use cranelift_frontend::FunctionBuilderContext;
use pullback_lower::emit::Emitter;
use pullback_lower::jit::{Entry, Unit};

/// A function that adds `step` to the i64 it is given.
fn adder(step: i64) -> Entry {
    let mut unit = Unit::new().unwrap();
    let id = unit.declare("add", unit.signature(&[types::I64], &[]));
    let (mut function, mut context) = (unit.function(id), FunctionBuilderContext::new());
    let mut emitter = Emitter::new(&mut unit, &mut function, &mut context);
    let (pointers, step, flags) = (emitter.parameter(0), emitter.index(step), MemFlagsData::trusted());
    let pointer = emitter.builder.ins().load(types::I64, flags, pointers, 0);
    let value = emitter.builder.ins().load(types::I64, flags, pointer, 0);
    let sum = emitter.builder.ins().iadd(value, step);
    emitter.builder.ins().store(flags, sum, pointer, 0);
    emitter.builder.ins().return_(&[]);
    emitter.finish();
    unit.define(id, function);
    unit.finish().unwrap().entry("add").unwrap()
}

fn call(entry: &Entry, mut value: i64) -> i64 {
    let pointers = [std::ptr::from_mut(&mut value).cast::<u8>()];
    // SAFETY: `adder` emits this signature; the function loads and stores one i64 through the first pointer.
    unsafe { entry.call(pointers.as_ptr()) };
    value
}

/// Pages of address space mapped, and of memory resident.
fn memory_pages() -> Option<[i64; 2]> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut numbers = text.split(' ').filter_map(|word| word.parse().ok());
    Some([numbers.next()?, numbers.next()?])
}

/// Compiles, calls and drops functions: memory stays where it was after the first few. One page that stayed behind
/// each time would be more than four times the slack.
fn compile_and_drop(cycles: i64) {
    let cycle = |i: i64| assert_eq!(call(&adder(i), 1), i + 1);
    (0..500).for_each(cycle);
    let Some(before) = memory_pages() else { return };
    (0..cycles).for_each(cycle);
    let Some(after) = memory_pages() else { return };
    let slack = (cycles / 4).min(4000);
    for (what, before, after) in [("mapped", before[0], after[0]), ("resident", before[1], after[1])] {
        assert!(after - before < slack, "{} pages more are {what}", after - before);
    }
}

#[test]
fn dropped_code_returns_its_memory() {
    compile_and_drop(4000);
}

#[test]
#[ignore = "half a minute long"]
fn two_hundred_thousand_compilations_leave_no_memory_behind() {
    compile_and_drop(200_000);
}

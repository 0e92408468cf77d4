//! Units end to end: calls between functions and into the process, texts, errors, and memory given back.

use super::{Code, Entry, JitError, Unit};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use std::sync::Arc;

extern "C" fn half(x: i64) -> i64 {
    x / 2
}

/// Declares and defines `name`, an [`EntryFunction`](super::EntryFunction) that adds `step` to the i64 it is given.
fn define_add(unit: &mut Unit, name: &str, step: i64) {
    let id = unit.declare(name, unit.signature(&[types::I64], &[]));
    let (mut function, mut context) = (unit.function(id), FunctionBuilderContext::new());
    let mut builder = FunctionBuilder::new(&mut function, &mut context);
    let block = builder.create_block();
    builder.append_block_params_for_function_params(block);
    builder.switch_to_block(block);
    builder.seal_block(block);
    let flags = MemFlagsData::trusted();
    let pointers = builder.block_params(block)[0];
    let pointer = builder.ins().load(types::I64, flags, pointers, 0);
    let value = builder.ins().load(types::I64, flags, pointer, 0);
    let step = builder.ins().iconst(types::I64, step);
    let sum = builder.ins().iadd(value, step);
    builder.ins().store(flags, sum, pointer, 0);
    builder.ins().return_(&[]);
    builder.finalize(unit.isa().frontend_config());
    unit.define(id, function);
}

/// Defines `name`, which calls each of `callees` on its own argument and then halves what the argument points to.
fn define_caller(unit: &mut Unit, name: &str, callees: &[&str]) {
    let id = unit.declare(name, unit.signature(&[types::I64], &[]));
    let signature = unit.signature(&[types::I64], &[types::I64]);
    let half = unit.import("half", signature, half as extern "C" fn(i64) -> i64 as *const u8);
    let (mut function, mut context) = (unit.function(id), FunctionBuilderContext::new());
    let references: Vec<_> = callees
        .iter()
        .map(|callee| {
            let callee = unit.declare(*callee, unit.signature(&[types::I64], &[]));
            unit.reference(callee, &mut function)
        })
        .collect();
    let half = unit.reference(half, &mut function);
    let mut builder = FunctionBuilder::new(&mut function, &mut context);
    let block = builder.create_block();
    builder.append_block_params_for_function_params(block);
    builder.switch_to_block(block);
    builder.seal_block(block);
    let flags = MemFlagsData::trusted();
    let pointers = builder.block_params(block)[0];
    for reference in references {
        builder.ins().call(reference, &[pointers]);
    }
    let pointer = builder.ins().load(types::I64, flags, pointers, 0);
    let value = builder.ins().load(types::I64, flags, pointer, 0);
    let call = builder.ins().call(half, &[value]);
    let value = builder.inst_results(call)[0];
    builder.ins().store(flags, value, pointer, 0);
    builder.ins().return_(&[]);
    builder.finalize(unit.isa().frontend_config());
    unit.define(id, function);
}

fn call(entry: &Entry, mut value: i64) -> i64 {
    let pointers = [std::ptr::from_mut(&mut value).cast::<u8>()];
    // SAFETY: the functions of these tests have this signature, and load and store one i64 through the first pointer.
    unsafe { entry.call(pointers.as_ptr()) };
    value
}

fn adder(step: i64) -> Arc<Code> {
    let mut unit = Unit::new().unwrap();
    define_add(&mut unit, "add", step);
    unit.finish().unwrap()
}

#[test]
fn functions_call_each_other_and_the_process() {
    let mut unit = Unit::new().unwrap();
    // Called before it is defined, and after.
    define_add(&mut unit, "five", 5);
    define_caller(&mut unit, "main", &["five", "seven", "five"]);
    define_add(&mut unit, "seven", 7);
    let code = unit.finish().unwrap();
    assert_eq!(code.functions().collect::<Vec<_>>(), ["five", "main", "seven"]);
    assert_eq!(call(&code.entry("main").unwrap(), 3), 10);
    assert_eq!(call(&code.entry("seven").unwrap(), 3), 10);
    assert!(code.entry("half").is_none());
    assert!(code.entry("eight").is_none());
}

#[test]
fn many_functions_compile_in_parallel_to_the_same_bytes() {
    let disassembly = || {
        let mut unit = Unit::new().unwrap();
        unit.keep_texts(true);
        let names: Vec<String> = (0..300).map(|i| format!("f{i}")).collect();
        names.iter().enumerate().for_each(|(i, name)| define_add(&mut unit, name, i as i64));
        define_caller(&mut unit, "main", &names.iter().map(String::as_str).collect::<Vec<_>>());
        let code = unit.finish().unwrap();
        assert_eq!(call(&code.entry("main").unwrap(), 0), 299 * 300 / 2 / 2);
        names.iter().map(|name| code.disassembly(name).unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(disassembly(), disassembly());
}

#[test]
fn an_entry_keeps_its_code_and_may_move_between_threads() {
    fn shareable<T: Send + Sync>(_: &T) {}
    let entry = adder(40).entry("add").unwrap();
    shareable(&entry);
    shareable(entry.code());
    let results: Vec<i64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|i| {
                scope.spawn({
                    let entry = entry.clone();
                    move || call(&entry, i)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(results, [40, 41, 42, 43]);
}

#[test]
fn texts_name_the_functions_called() {
    let mut unit = Unit::new().unwrap();
    unit.keep_texts(true);
    define_add(&mut unit, "five", 5);
    define_caller(&mut unit, "main", &["five"]);
    let code = unit.finish().unwrap();
    let clif = code.clif("main").unwrap();
    assert!(clif.starts_with("; u0:0 = five\n; u0:2 = half\n"), "{clif}");
    assert!(clif.contains("call fn0(v0)"), "{clif}");
    assert!(code.disassembly("five").unwrap().contains("addq"), "{:?}", code.disassembly("five"));
    assert_eq!(adder(1).clif("add"), None);
}

#[test]
fn what_cannot_be_linked_or_compiled_is_an_error() {
    let mut unit = Unit::new().unwrap();
    define_caller(&mut unit, "main", &["nowhere"]);
    assert_eq!(unit.finish().unwrap_err(), JitError::Undefined("nowhere".to_string()));

    let mut unit = Unit::new().unwrap();
    let id = unit.declare("empty", unit.signature(&[], &[]));
    let mut function = unit.function(id);
    let block = function.dfg.make_block();
    function.layout.append_block(block);
    unit.define(id, function);
    let error = unit.finish().unwrap_err();
    assert!(matches!(&error, JitError::Compile { function, .. } if function == "empty"), "{error}");

    // Nothing at all is fine.
    assert_eq!(Unit::new().unwrap().finish().unwrap().functions().count(), 0);
}

#[test]
fn the_last_of_many_live_units_costs_what_the_first_did() {
    let started = std::time::Instant::now();
    let mut live: Vec<Arc<Code>> = (0..200).map(adder).collect();
    let first = started.elapsed();
    live.extend((200..2000).map(adder));
    let started = std::time::Instant::now();
    live.extend((2000..2200).map(adder));
    let last = started.elapsed();
    assert!(last < first * 8, "first {first:?}, last {last:?}");
    for (i, code) in live.iter().enumerate() {
        assert_eq!(call(&code.entry("add").unwrap(), 0), i as i64);
    }
}

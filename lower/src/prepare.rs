//! What is done to a program before it is fused: calls are inlined, until there are none.

use pullback_ir::recipe::Recipe;
use pullback_ir::{Builder, Program, TensorType, TypeError, Value};
use slotmap::SecondaryMap;
use std::sync::Arc;

/// A program that is being copied: where in it we are, and what its values have become.
struct Frame {
    program: Arc<Program>,
    next: usize,
    values: SecondaryMap<Value, Value>,
    /// The results of the call that become its outputs.
    results: Vec<Value>,
}

/// The same program without calls.
fn inline_calls(program: &Program) -> Result<Program, TypeError> {
    let mut builder = Builder::new(program.name());
    let program = Arc::new(program.clone());
    let mut values = SecondaryMap::with_capacity(program.value_count());
    for &param in program.params() {
        values.insert(param, builder.param(program.ty(param).clone()));
    }
    let mut stack = vec![Frame { program, next: 0, values, results: Vec::new() }];
    while let Some(mut frame) = stack.pop() {
        let program = frame.program.clone();
        let Some(&id) = program.op_ids().get(frame.next) else {
            let outputs: Vec<Value> = program.outputs().iter().map(|&v| frame.values[v]).collect();
            match stack.last_mut() {
                None => return Ok(builder.finish(&outputs)),
                Some(caller) => {
                    caller.values.extend(frame.results.into_iter().zip(outputs));
                    continue;
                }
            }
        };
        frame.next += 1;
        let node = program.node(id);
        let operands: Vec<Value> = node.operands.iter().map(|&v| frame.values[v]).collect();
        let types: Vec<&TensorType> = node.operands.iter().map(|&v| program.ty(v)).collect();
        let callee = match node.op.programs().is_empty() {
            true => None,
            false => match node.op.recipe(&types) {
                Recipe::Call(callee) => Some(callee),
                _ => None,
            },
        };
        match callee {
            Some(callee) => {
                let values = callee.params().iter().copied().zip(operands).collect();
                let results = node.results.to_vec();
                stack.push(frame);
                stack.push(Frame { program: callee, next: 0, values, results });
            }
            None => {
                if node.loc.is_known() {
                    builder.set_loc(node.loc);
                }
                let results = builder.emit(node.op.clone(), &operands)?;
                frame.values.extend(node.results.iter().copied().zip(results));
                stack.push(frame);
            }
        }
    }
    Ok(builder.finish(&[]))
}

/// The program that is fused.
pub(crate) fn prepare(program: &Program) -> Result<Program, TypeError> {
    if program.nodes().all(|node| node.op.programs().is_empty()) {
        return Ok(program.clone());
    }
    inline_calls(program)
}

//! Calls replaced by what they call.

use crate::builder::Builder;
use crate::error::TypeError;
use crate::ops::Op;
use crate::program::{Node, Program, Value, Values};
use slotmap::SecondaryMap;

/// A program being copied in, up to the op that stands next.
struct Frame<'a> {
    program: &'a Program,
    next: usize,
    map: SecondaryMap<Value, Value>,
    /// The call that is waiting for the outputs, in the program of the frame below.
    call: Option<&'a Node>,
}

impl<'a> Frame<'a> {
    fn new(program: &'a Program, args: &[Value], call: Option<&'a Node>) -> Frame<'a> {
        Frame {
            program,
            next: 0,
            map: program.params().iter().copied().zip(args.iter().copied()).collect(),
            call,
        }
    }

    fn mapped(&self, values: &[Value]) -> Values {
        values.iter().map(|&v| self.map[v]).collect()
    }
}

impl Program {
    /// The same program with every call, at any depth, replaced by the ops of the program called.
    pub fn inline_calls(&self) -> Program {
        let mut builder = Builder::new(self.name());
        match inline(self, &mut builder) {
            Ok(outputs) => builder.finish(&outputs),
            Err(_) => self.clone(),
        }
    }
}

fn inline(program: &Program, builder: &mut Builder) -> Result<Values, TypeError> {
    let params: Vec<Value> = program.param_types().into_iter().map(|ty| builder.param(ty)).collect();
    let mut above: Vec<Frame<'_>> = Vec::new();
    let mut frame = Frame::new(program, &params, None);
    loop {
        let Some(&id) = frame.program.op_ids().get(frame.next) else {
            let outputs = frame.mapped(frame.program.outputs());
            let (Some(caller), Some(call)) = (above.pop(), frame.call) else { return Ok(outputs) };
            frame = caller;
            frame.map.extend(call.results.iter().copied().zip(outputs));
            continue;
        };
        frame.next += 1;
        let node = frame.program.node(id);
        let operands = frame.mapped(&node.operands);
        if let Op::Call(call) = &node.op {
            let callee = Frame::new(&call.program, &operands, Some(node));
            above.push(std::mem::replace(&mut frame, callee));
        } else {
            builder.set_loc(node.loc);
            let results = builder.emit(node.op.clone(), &operands)?;
            frame.map.extend(node.results.iter().copied().zip(results));
        }
    }
}

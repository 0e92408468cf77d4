//! Calls replaced by what they call. The derivative rules that a call carries are lost.

use super::rebuild::{Rebuild, bottom_up, rebuild};
use crate::builder::Builder;
use crate::error::TypeError;
use crate::ops::Op;
use crate::ops::control::custom_linear::CustomLinear;
use crate::program::{Program, Value, Values};

impl Program {
    /// The same program with every call, at any depth, replaced by the ops of the program called. For programs that are
    /// run and differentiated no more: rules of the user's are lost.
    pub fn inline_calls(&self) -> Program {
        bottom_up(self, &mut |program| {
            let mut inliner = Inliner(Builder::new(program.name()));
            match rebuild(program, &mut inliner) {
                Ok(outputs) => inliner.0.finish(&outputs),
                Err(_) => program.clone(),
            }
        })
    }
}

struct Inliner(Builder);

impl Rebuild for Inliner {
    fn builder(&mut self) -> &mut Builder {
        &mut self.0
    }

    /// What is called holds no calls any more.
    fn emit(&mut self, op: Op, operands: &[Value]) -> Result<Values, TypeError> {
        match &op {
            Op::Call(call) => Ok(self.0.inline(&call.program, operands)?.into()),
            Op::CustomJvp(call) => Ok(self.0.inline(&call.program, operands)?.into()),
            Op::CustomVjp(call) => Ok(self.0.inline(&call.program, operands)?.into()),
            Op::CustomLinear(CustomLinear { forward: Some(forward), .. }) => {
                Ok(self.0.inline(forward, operands)?.into())
            }
            _ => self.0.emit(op, operands),
        }
    }
}

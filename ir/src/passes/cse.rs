//! Common subexpressions: of equal ops on equal operands one remains.

use super::rebuild::{Rebuild, bottom_up, rebuild};
use crate::builder::Builder;
use crate::error::TypeError;
use crate::ops::Op;
use crate::program::{Program, Value, Values};

/// The program with equal pure ops on equal operands merged. Barriers and custom calls stay apart.
pub fn cse(program: &Program) -> Program {
    bottom_up(program, &mut |program| {
        let mut builder = Builder::new(program.name());
        match rebuild(program, &mut builder) {
            Ok(outputs) => builder.finish(&outputs),
            Err(_) => program.clone(),
        }
    })
}

/// A builder merges equal ops by itself.
impl Rebuild for Builder {
    fn builder(&mut self) -> &mut Builder {
        self
    }

    fn emit(&mut self, op: Op, operands: &[Value]) -> Result<Values, TypeError> {
        Builder::emit(self, op, operands)
    }
}

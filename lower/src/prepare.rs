//! What is done to a program before it is fused.

use pullback_ir::Program;
use pullback_ir::passes::simplify_with;
use pullback_runtime::interpreter::Interpreter;

/// The program that is fused: without calls, simplified to the bit.
pub(crate) fn prepare(program: &Program) -> Program {
    simplify_with(&program.inline_calls(), &Interpreter)
}

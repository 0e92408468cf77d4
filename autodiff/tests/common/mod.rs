//! Short ways to say programs in tests.

use pullback_ir::{Builder, Program, TensorType, TypeError, Value};

/// What the body of a program gives.
pub(crate) type Body = Result<Vec<Value>, TypeError>;

/// A program with parameters of these types.
pub(crate) fn program(
    name: &str,
    params: &[TensorType],
    body: impl FnOnce(&mut Builder, &[Value]) -> Body,
) -> Program {
    let mut builder = Builder::new(name);
    let params: Vec<Value> = params.iter().map(|ty| builder.param(ty.clone())).collect();
    let outputs = body(&mut builder, &params).unwrap();
    builder.finish(&outputs)
}

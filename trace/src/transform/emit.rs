//! Functions sent into a program under construction.

use crate::error::Error;
use crate::transform::record::record;
use crate::transform::{Arguments, Function};
use pullback_ir::{Builder, Loc, Value};

/// Emits what a function computes into a builder, instead of running it or returning a program, and returns its
/// outputs there. `values` stand for the tensors of the arguments, which only say of which structure and types these
/// are. Tensors that the function took from outside become constants. The builder's hook sees every op.
///
/// So a gradient can become a part of a larger program:
///
/// ```
/// use pullback_ir::Builder;
/// use pullback_runtime::interpret;
/// use pullback_trace::transform::emit_into;
/// use pullback_trace::{Error, Tensor, grad};
///
/// let x = Tensor::from([1.0, 2.0]);
/// let mut step = Builder::new("step");
/// let params = [step.param(x.ty()?.clone())];
/// let gradient = emit_into(&mut step, &grad(|x: &Tensor| x.square().sum()), (&x,), &params)?;
/// let next = step.sub(params[0], gradient[0])?;
/// let found = interpret(&step.finish(&[next]), &[x.array()?])?;
/// assert_eq!(found[0].to_vec::<f64>()?, [-1.0, -2.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn emit_into<R: Arguments, F: Function<R::Owned>>(
    builder: &mut Builder,
    function: &F,
    arguments: R,
    values: &[Value],
) -> Result<Vec<Value>, Error> {
    let at = Loc::caller();
    let recording = record("emit_into", at, function, &arguments.into_owned(), false)?;
    let mut operands = values.to_vec();
    for capture in &recording.captures {
        if capture.is_traced() {
            let text = "the function captures a value of a program being recorded; pass it as an argument";
            return Err(Error::invalid("emit_into", text, at));
        }
        operands.push(builder.constant(capture.array()?.to_literal())?);
    }
    Ok(builder.inline(&recording.program, &operands)?)
}

//! Recording a function as a closed program.

use crate::error::Error;
use crate::tensor::Tensor;
use crate::trace::Trace;
use crate::transform::arguments::{output_name, part_name};
use crate::transform::forward::leaf_types;
use crate::transform::{Args, Function};
use crate::tree;
use pullback_ir::{Loc, Program, TensorType};

/// A function as a program, at the types of some arguments.
pub(crate) struct Recording<O> {
    /// Parameters: the tensors of the arguments, then the captures. Outputs: the tensors of the output.
    pub(crate) program: Program,
    /// Tensors that the function took from outside.
    pub(crate) captures: Vec<Tensor>,
    /// The output, with tensors that only say where they belong.
    pub(crate) output: O,
}

/// Records the function. With `values`, it may ask for the numbers of what it computes.
pub(crate) fn record<A: Args, F: Function<A>>(
    transform: &'static str,
    at: Loc,
    function: &F,
    arguments: &A,
    values: bool,
) -> Result<Recording<F::Output>, Error> {
    let leaves = tree::leaves(arguments);
    let known = values.then(|| leaves.iter().map(|&leaf| leaf.clone()).collect());
    let (trace, params) = Trace::begin(transform, at, leaf_types(&leaves)?, known);
    let traced = tree::unflatten(arguments, params)?;
    let output = match function.invoke(&traced) {
        Ok(output) => output,
        Err(error) => {
            trace.abandon();
            return Err(error);
        }
    };
    let recorded = trace.finish(&tree::leaves(&output), at)?;
    Ok(Recording { program: recorded.program, captures: recorded.captures.into_values().collect(), output })
}

impl<O> Recording<O> {
    /// What to call the program with.
    pub(crate) fn inputs<'a, A: Args>(&'a self, arguments: &'a A) -> Vec<&'a Tensor> {
        tree::leaves(arguments).into_iter().chain(&self.captures).collect()
    }
}

/// Checks tangents or cotangents against what they belong to.
pub(crate) fn check_types<T: tree::Tree>(
    kind: &'static str,
    expected: &[TensorType],
    given: &T,
    at: Loc,
) -> Result<(), Error> {
    for ((expected, tensor), path) in expected.iter().zip(tree::leaves(given)).zip(tree::paths(given)) {
        let found = tensor.ty()?;
        if found != expected {
            let argument = match kind {
                "tangent" => part_name("argument", &path),
                "direction" if path.is_empty() => "the argument".to_string(),
                "direction" => format!("the argument at {path}"),
                _ => output_name(&path),
            };
            let (expected, found) = (expected.clone(), found.clone());
            return Err(Error::TangentType { kind, argument, expected, found, at });
        }
    }
    Ok(())
}

//! Gradients as results: nothing is stored, and the graph stays.

use crate::apply::apply;
use crate::eager::backward::seed_of;
use crate::eager::error::EagerError;
use crate::eager::gather::{Asked, Gathered, Site, Sites, gather};
use crate::eager::graph::{Live, Made};
use crate::eager::plan::plan;
use crate::eager::scope::enable_grad;
use crate::error::Error;
use crate::tensor::{State, Tensor};
use crate::tree::{self, Tree};
use pullback_ir::ops::control::barrier::Barrier;
use pullback_ir::{Loc, Shape, TensorType};
use pullback_runtime::Array;
use std::sync::Arc;

/// Cotangents of the outputs that [`grad`] begins at.
#[derive(Clone, Copy, Debug)]
pub enum Seeds<'a> {
    /// One for each output, which are single numbers.
    Ones,
    /// A cotangent for each output, of its type.
    Each(&'a [&'a Tensor]),
    /// Several cotangents for each output, along a leading axis of one extent for all: every gradient has that axis, too.
    Batch(&'a [&'a Tensor]),
}

/// The gradients of outputs by inputs, which are parameters or results on the way to the outputs; `None` by an input that
/// no output depends on. No stored gradient is looked at or changed, no hook runs, and the graph is retained.
///
/// ```
/// use pullback_trace::eager::{Seeds, grad};
/// use pullback_trace::Tensor;
///
/// let (x, unused) = (Tensor::param([3.0, 4.0]), Tensor::param(1.0));
/// let y = x.square();
/// let basis = Tensor::from([[1.0, 0.0], [0.0, 1.0]]);
/// let jacobian = grad(&[&y], &[&x, &unused], Seeds::Batch(&[&basis]))?;
/// assert_eq!(jacobian[0].as_ref().unwrap().to_vec::<f64>()?, [6.0, 0.0, 0.0, 8.0]);
/// assert!(jacobian[1].is_none() && x.grad()?.is_none());
/// # Ok::<(), pullback_trace::Error>(())
/// ```
///
/// Errors: as [`Tensor::backward`]; numbers of seeds or of lanes that differ; an input that is not a float.
#[track_caller]
pub fn grad(outputs: &[&Tensor], inputs: &[&Tensor], seeds: Seeds<'_>) -> Result<Vec<Option<Tensor>>, Error> {
    let asked = Asked { function: "eager::grad", at: Loc::caller() };
    check_floats(inputs, asked)?;
    let (seeds, lanes) = arrays(outputs, seeds, asked)?;
    let roots: Vec<Live> = outputs.iter().map(|output| root(output, asked)).collect::<Result<_, _>>()?;
    let roots: Vec<&Live> = roots.iter().collect();
    let mut gathered = {
        let results = |made: &Made| results_among(inputs, made);
        gather(&roots, asked, Sites { results: &results, hooks: false })?
    };
    let places: Vec<Option<usize>> = inputs.iter().map(|input| place(&gathered, input)).collect();
    let mut wanted: Vec<usize> = places.iter().flatten().copied().collect();
    wanted.sort_unstable();
    wanted.dedup();
    gathered.wrt = wanted.iter().map(|&place| gathered.wrt[place]).collect();
    let plan = plan(&gathered, roots.len(), lanes)?;
    let found = plan.run(&gathered, seeds)?;
    let gradient = |place: Option<usize>| {
        let at = wanted.binary_search(&place?).ok()?;
        let number = plan.backward.reached.binary_search(&at).ok()?;
        Some(Tensor::from_array(found[number].clone()))
    };
    Ok(places.into_iter().map(gradient).collect())
}

fn check_floats(inputs: &[&Tensor], asked: Asked) -> Result<(), Error> {
    for input in inputs {
        let ty = input.ty()?;
        if !ty.dtype.is_float() {
            let (function, at) = (asked.function, asked.at);
            return Err(EagerError::NotDifferentiable { function, ty: ty.clone(), at }.into());
        }
    }
    Ok(())
}

/// The results of an op that are among the inputs, each once.
fn results_among(inputs: &[&Tensor], made: &Made) -> Vec<usize> {
    let mut results: Vec<usize> = Vec::new();
    for input in inputs {
        if let State::Live(live) = &input.0
            && std::ptr::eq(Arc::as_ptr(&live.made), made)
            && !results.contains(&live.result)
        {
            results.push(live.result);
        }
    }
    results
}

/// Which of what can be differentiated by an input is, if the outputs depend on it.
fn place(gathered: &Gathered, input: &Tensor) -> Option<usize> {
    match &input.0 {
        State::Param(param) => gathered.params.iter().position(|other| Arc::ptr_eq(other, param)),
        State::Live(live) => {
            let is_input = |site: &Site| Arc::ptr_eq(&site.made, &live.made) && site.result == live.result;
            Some(gathered.params.len() + gathered.sites.iter().position(is_input)?)
        }
        State::Concrete(_) | State::Leaf(_) | State::Traced(_) | State::Failed(_) => None,
    }
}

/// The history of an output. A parameter is made the result of an op that gives it as it is.
fn root(output: &Tensor, asked: Asked) -> Result<Live, Error> {
    let output = if output.is_param() { &enable_grad(|| apply(Barrier, &[output])) } else { output };
    match &output.0 {
        State::Live(live) => Ok(live.clone()),
        _ => {
            let (function, at) = (asked.function, asked.at);
            Err(EagerError::NoHistory { function, ty: output.ty()?.clone(), at }.into())
        }
    }
}

/// The seeds of the outputs, and how many there are of each if they come in batches.
fn arrays(outputs: &[&Tensor], seeds: Seeds<'_>, asked: Asked) -> Result<(Vec<Array>, Option<usize>), Error> {
    let given = match seeds {
        Seeds::Ones => None,
        Seeds::Each(given) | Seeds::Batch(given) => Some(given),
    };
    if let Some(given) = given
        && given.len() != outputs.len()
    {
        let text = format!("{} seeds for {} outputs; give one for each", given.len(), outputs.len());
        return Err(Error::invalid(asked.function, text, asked.at));
    }
    if let Seeds::Batch(given) = seeds {
        return batch(outputs, given, asked);
    }
    let one = |(i, output): (usize, &&Tensor)| {
        let made = output.node().map_or(("param", asked.at), |node| (node.op(), node.loc()));
        seed_of(&output.array()?, made, given.map(|given| given[i]), asked)
    };
    Ok((outputs.iter().enumerate().map(one).collect::<Result<_, Error>>()?, None))
}

/// Batches of seeds, which all have as many lanes as the first.
fn batch(outputs: &[&Tensor], seeds: &[&Tensor], asked: Asked) -> Result<(Vec<Array>, Option<usize>), Error> {
    let mut lanes: Option<usize> = None;
    let mut arrays = Vec::with_capacity(seeds.len());
    for (output, seed) in outputs.iter().zip(seeds) {
        let (ty, seed) = (output.ty()?, seed.array()?);
        let count = lanes.or_else(|| seed.shape().first().copied());
        if count.is_none_or(|count| *seed.ty() != with_lanes(ty, count)) {
            let text = count.filter(|_| lanes.is_some()).map_or("K".to_string(), |count| count.to_string());
            let (function, at) = (asked.function, asked.at);
            let expected = format!("{ty} with a leading axis of {text}");
            return Err(EagerError::SeedType { function, expected, found: seed.ty().clone(), at }.into());
        }
        lanes = count;
        arrays.push(seed);
    }
    Ok((arrays, lanes))
}

fn with_lanes(ty: &TensorType, lanes: usize) -> TensorType {
    ty.with_shape(std::iter::once(lanes).chain(ty.shape.iter().copied()).collect::<Shape>())
}

/// The accumulated gradients of a tree of parameters, in its structure; zeros where there is none. What is no float is
/// handed on as it is.
///
/// ```
/// use pullback_trace::{Tensor, eager};
///
/// let line = (Tensor::param(2.0), Tensor::param(1.0));
/// (&line.0 * 3.0).backward()?;
/// let (slope, offset) = eager::gradients(&line)?;
/// assert_eq!((slope.item::<f64>()?, offset.item::<f64>()?), (3.0, 0.0));
/// # Ok::<(), pullback_trace::Error>(())
/// ```
pub fn gradients<T: Tree>(parameters: &T) -> Result<T, Error> {
    let gradient = |tensor: &&Tensor| {
        if !tensor.dtype()?.is_float() {
            return Ok((*tensor).clone());
        }
        Ok(tensor.grad()?.unwrap_or_else(|| tensor.zeros_like()))
    };
    let found = tree::leaves(parameters).iter().map(gradient).collect::<Result<_, Error>>()?;
    tree::unflatten(parameters, found)
}

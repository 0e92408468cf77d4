//! Closures recorded as programs of their own.

use crate::error::Error;
use crate::tensor::Tensor;
use crate::trace::{Recorded, Trace};
use crate::transform::forward::leaf_types;
use crate::tree::{self, Tree};
use indexmap::{IndexMap, IndexSet};
use pullback_ir::{Builder, Loc, Program, TensorType, Value};
use std::sync::Arc;

/// Records a closure. Where its parameters have failed the closure is called all the same, since what it returns has
/// the structure that is due.
pub(super) struct Recorder {
    trace: Result<Arc<Trace>, Error>,
    at: Loc,
}

impl Recorder {
    /// Begins with parameters of these types in the structure of `like`.
    pub(super) fn begin<T: Tree>(
        function: &'static str,
        at: Loc,
        like: &T,
        types: Result<Vec<TensorType>, Error>,
    ) -> (Recorder, T) {
        let begun = types.map(|types| Trace::begin(function, at, types, None));
        let begun = begun.and_then(|(trace, params)| Ok((trace, tree::unflatten(like, params)?)));
        match begun {
            Ok((trace, params)) => (Recorder { trace: Ok(trace), at }, params),
            Err(error) => {
                let failed = Tensor::failed(error.clone());
                (Recorder { trace: Err(error), at }, tree::map(like, |_| failed.clone()))
            }
        }
    }

    /// The program, with these outputs.
    pub(super) fn finish(self, outputs: &[&Tensor]) -> Result<Recorded, Error> {
        self.trace.as_ref().map_err(Error::clone)?.finish(outputs, self.at)
    }
}

impl Drop for Recorder {
    /// Also when the closure returned an error: tensors it left elsewhere have escaped.
    fn drop(&mut self) {
        if let Ok(trace) = &self.trace {
            trace.abandon();
        }
    }
}

/// Programs whose first parameters are the tensors that any of them captured.
pub(crate) struct Shared {
    /// The tensors.
    pub(crate) consts: Vec<Tensor>,
    /// The programs, in the order given.
    pub(crate) programs: Vec<Arc<Program>>,
}

/// Lets recorded programs share what they captured.
pub(crate) fn share(recorded: Vec<Recorded>) -> Result<Shared, Error> {
    let mut consts = IndexMap::new();
    let mut parts = Vec::with_capacity(recorded.len());
    for Recorded { program, captures } in recorded {
        let places: Vec<usize> = captures
            .into_iter()
            .map(|(origin, tensor)| {
                let entry = consts.entry(origin);
                let place = entry.index();
                entry.or_insert(tensor);
                place
            })
            .collect();
        parts.push((program, places));
    }
    let consts: Vec<Tensor> = consts.into_values().collect();
    let types = leaf_types(&consts.iter().collect::<Vec<_>>())?;
    let programs = parts.iter().map(|(program, places)| with_consts(program, places, &types));
    Ok(Shared { programs: programs.collect::<Result<_, Error>>()?, consts })
}

/// The program with all consts in front, of which its last parameters are those at `places`.
fn with_consts(program: &Program, places: &[usize], types: &[TensorType]) -> Result<Arc<Program>, Error> {
    let mut builder = Builder::new(program.name());
    let consts: Vec<Value> = types.iter().map(|ty| builder.param(ty.clone())).collect();
    let own = &program.params()[..program.params().len() - places.len()];
    let own = own.iter().map(|&param| builder.param(program.ty(param).clone()));
    let mut arguments: Vec<Value> = own.collect();
    arguments.extend(places.iter().map(|&place| consts[place]));
    let outputs = builder.inline(program, &arguments)?;
    Ok(Arc::new(builder.finish(&outputs)))
}

/// Where two trees differ in structure or types, part by part, with words for each of the two; `None` if nowhere.
pub(crate) fn difference<T: Tree>(
    what: &str,
    (left, first): (&T, &str),
    (right, second): (&T, &str),
) -> Result<Option<String>, Error> {
    let (l, r) = (tree::structure(left), tree::structure(right));
    let mut parts = Vec::new();
    if l != r {
        let [l_paths, r_paths] =
            [left, right].map(|tree| tree::paths(tree).into_iter().collect::<IndexSet<_>>());
        parts.extend(l_paths.difference(&r_paths).map(|path| format!("{what} has {path} {first} only")));
        parts.extend(r_paths.difference(&l_paths).map(|path| format!("{what} has {path} {second} only")));
        if parts.is_empty() {
            parts.push(format!("the structure of {what} is {l} {first} and {r} {second}"));
        }
        return Ok(Some(parts.join(", ")));
    }
    for ((left, right), path) in
        tree::leaves(left).into_iter().zip(tree::leaves(right)).zip(tree::paths(left))
    {
        let (l, r) = (left.ty()?, right.ty()?);
        if l != r {
            let place = if path.is_empty() { String::new() } else { format!(" at {path}") };
            parts.push(format!("{what}{place} is {l} {first} and {r} {second}"));
        }
    }
    Ok((!parts.is_empty()).then(|| parts.join(", ")))
}

/// Checks that the body hands its carry on as it came in.
pub(super) fn check_carry<T: Tree>(
    function: &'static str,
    at: Loc,
    (initial, next): (&T, &T),
) -> Result<(), Error> {
    match difference("the carry", (initial, "coming in"), (next, "going out"))? {
        None => Ok(()),
        Some(differences) => Err(Error::CarryDiffers { function, differences, at }),
    }
}

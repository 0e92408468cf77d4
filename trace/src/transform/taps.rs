//! Values, and cotangents, from the midst of a function.

use crate::apply::apply_program;
use crate::custom::autodiff;
use crate::error::Error;
use crate::tensor::Tensor;
use crate::transform::record::{Recording, record};
use crate::transform::{Arguments, Function, Hooks, hookable};
use crate::tree::{self, Tree};
use indexmap::{IndexMap, IndexSet};
use pullback_ir::{Builder, Literal, Loc, Node, Program, Value};

/// The same tensor, tapped under a name: [`collect_taps`] returns its value, [`collect_tap_cotangents`] its cotangent.
/// Everywhere else the name means nothing, except that a checkpoint may [keep](Tensor::offer) what has one.
#[track_caller]
pub fn tap(name: &str, x: &Tensor) -> Tensor {
    x.offer(name)
}

/// What was tapped, in the order of the program. A name may be there more than once.
#[derive(Clone, Debug)]
pub struct Taps {
    /// Names, each with the value or cotangent.
    pub values: Vec<(String, Tensor)>,
}

impl Taps {
    /// The first under this name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.values.iter().find(|(tapped, _)| tapped == name).map(|(_, value)| value)
    }
}

/// A function whose taps are returned: see [`collect_taps`].
#[derive(Clone)]
pub struct CollectTaps<F> {
    function: F,
    at: Loc,
}

/// The function, with the values tapped in it.
///
/// ```
/// use pullback_trace::transform::{collect_taps, tap};
/// use pullback_trace::{Error, Tensor};
///
/// let f = |x: &Tensor| tap("sine", &x.sin()).square().sum();
/// let (_, taps) = collect_taps(f).call((&Tensor::from([0.0, 1.0]),))?;
/// assert_eq!(taps.values[0].0, "sine");
/// assert_eq!(taps.values[0].1.to_vec::<f64>()?, [0.0, 1f64.sin()]);
/// # Ok::<(), Error>(())
/// ```
///
/// Errors: a tap within a loop, a branch or another function that is called as a whole (under `jit`, `checkpoint` or with a
/// rule of its own), whose values are not those of the function; return them from there and tap the result.
#[track_caller]
pub fn collect_taps<F>(function: F) -> CollectTaps<F> {
    CollectTaps { function, at: Loc::caller() }
}

impl<F> CollectTaps<F> {
    /// The output at the arguments, and what was tapped on the way.
    pub fn call<R: Arguments>(&self, arguments: R) -> Result<(F::Output, Taps), Error>
    where
        F: Function<R::Owned>,
    {
        let arguments = arguments.into_owned();
        let recording = record("collect_taps", self.at, &self.function, &arguments, true)?;
        let tapped = tapped(&recording.program, "collect_taps", self.at)?;
        let values = tapped.iter().map(|(_, value)| *value);
        let outputs: Vec<Value> = recording.program.outputs().iter().copied().chain(values).collect();
        let program = recording.program.clone().with_outputs(&outputs);
        let found = apply_program(&program, &recording.inputs(&arguments), self.at)?;
        with_taps(&recording, tapped, found)
    }
}

/// A scalar function whose derivatives by what is tapped are returned: see [`collect_tap_cotangents`].
#[derive(Clone)]
pub struct CollectTapCotangents<F> {
    function: F,
    hooks: Hooks,
    at: Loc,
}

hookable! { CollectTapCotangents<F> }

/// The function's output, a float scalar, with its derivatives by the floats tapped in it.
///
/// ```
/// use pullback_trace::transform::{collect_tap_cotangents, tap};
/// use pullback_trace::{Error, Tensor};
///
/// let f = |x: &Tensor| tap("sine", &x.sin()).square().sum();
/// let (_, taps) = collect_tap_cotangents(f).call((&Tensor::from([0.0, 1.0]),))?;
/// assert_eq!(taps.values[0].1.to_vec::<f64>()?, [0.0, 2.0 * 1f64.sin()]);
/// # Ok::<(), Error>(())
/// ```
///
/// Errors: an output that is no float scalar, and those of [`collect_taps`].
#[track_caller]
pub fn collect_tap_cotangents<F>(function: F) -> CollectTapCotangents<F> {
    CollectTapCotangents { function, hooks: Hooks::default(), at: Loc::caller() }
}

impl<F> CollectTapCotangents<F> {
    /// The output at the arguments, and the cotangents of what was tapped on the way.
    pub fn call<R: Arguments>(&self, arguments: R) -> Result<(F::Output, Taps), Error>
    where
        F: Function<R::Owned>,
    {
        let arguments = arguments.into_owned();
        let recording = record("collect_tap_cotangents", self.at, &self.function, &arguments, true)?;
        let mut tapped = tapped(&recording.program, "collect_tap_cotangents", self.at)?;
        tapped.retain(|(_, value)| recording.program.ty(*value).dtype.is_float());
        let moved = moved(&recording.program, &tapped)?;
        let first = recording.program.params().len();
        let wrt: Vec<usize> = (first..first + tapped.len()).collect();
        let program = autodiff(&self.hooks).value_and_grad(&moved, &wrt)?;
        let zeros = moved.param_types().split_off(first);
        let zeros: Vec<Tensor> =
            zeros.iter().map(|ty| Tensor::literal(Literal::number(ty.clone(), -0.0))).collect();
        let mut inputs = recording.inputs(&arguments);
        inputs.extend(&zeros);
        let found = apply_program(&program, &inputs, self.at)?;
        with_taps(&recording, tapped, found)
    }
}

/// The output, and under the names of what was tapped the tensors found after it.
fn with_taps<O: Tree>(
    recording: &Recording<O>,
    tapped: Vec<(String, Value)>,
    mut found: Vec<Tensor>,
) -> Result<(O, Taps), Error> {
    let values = found.split_off(recording.program.outputs().len());
    let names = tapped.into_iter().map(|(name, _)| name);
    Ok((tree::unflatten(&recording.output, found)?, Taps { values: names.zip(values).collect() }))
}

/// What is tapped in a program.
fn tapped(program: &Program, function: &'static str, at: Loc) -> Result<Vec<(String, Value)>, Error> {
    let mut inner: Vec<&Program> =
        program.nodes().flat_map(|node| node.op.programs()).map(|p| &**p).collect();
    let mut seen = IndexSet::new();
    while let Some(program) = inner.pop() {
        if !seen.insert(std::ptr::from_ref(program)) {
            continue;
        }
        for node in program.nodes() {
            if let Some(name) = node.op.offered() {
                let text = format!(
                    "`{name}` is tapped (at {}) within a loop, a branch or a function that is called as a whole; return it \
                     from there and tap the result",
                    node.loc
                );
                return Err(Error::invalid(function, text, at));
            }
            inner.extend(node.op.programs().into_iter().map(|program| &**program));
        }
    }
    let tapped = |node: &Node| Some((node.op.offered()?.to_string(), node.results[0]));
    Ok(program.nodes().filter_map(tapped).collect())
}

/// The program with one more parameter for each value tapped, which is added to it.
fn moved(program: &Program, tapped: &[(String, Value)]) -> Result<Program, Error> {
    let mut builder = Builder::new(program.name());
    let mut map: IndexMap<Value, Value> =
        program.params().iter().map(|&param| (param, builder.param(program.ty(param).clone()))).collect();
    let moves: IndexMap<Value, Value> =
        tapped.iter().map(|&(_, value)| (value, builder.param(program.ty(value).clone()))).collect();
    for node in program.nodes() {
        builder.set_loc(node.loc);
        let operands: Vec<Value> = node.operands.iter().map(|&operand| map[&operand]).collect();
        let results = builder.emit(node.op.clone(), &operands)?;
        for (&value, result) in node.results.iter().zip(results) {
            let moved = moves.get(&value).map(|&by| builder.add(result, by));
            map.insert(value, moved.unwrap_or(Ok(result))?);
        }
    }
    let outputs: Vec<Value> = program.outputs().iter().map(|&output| map[&output]).collect();
    Ok(builder.finish(&outputs))
}

//! Sparse derivatives as transforms: the pattern, and plans that evaluate a few products and read all entries off.

use crate::custom::autodiff;
use crate::error::Error;
use crate::execute::{Backend, Executor};
use crate::sparse::compression::{Compression, Side};
use crate::sparse::{Csr, Pattern};
use crate::tensor::Tensor;
use crate::transform::arguments::{argument_name, differentiated};
use crate::transform::gradient::check_loss;
use crate::transform::jacobian::check_outputs;
use crate::transform::jit::Signature;
use crate::transform::record::{Recording, record};
use crate::transform::{Args, Arguments, First, Function, Hooks, Select, hookable, selection};
use crate::tree;
use pullback_autodiff::Autodiff;
use pullback_ir::ops::index::IndexMode;
use pullback_ir::ops::index::gather::Gather;
use pullback_ir::ops::shape::concat::Concat;
use pullback_ir::passes::prune;
use pullback_ir::{Builder, DType, Loc, Program, Shape, TensorType, Value};
use pullback_runtime::Array;
use pullback_runtime::dependence::{Source, dependence};
use smallvec::smallvec;
use std::marker::PhantomData;
use std::sync::Arc;

/// The pattern of a function's Jacobian: see [`sparsity`].
#[derive(Clone)]
pub struct Sparsity<F, S = First> {
    function: F,
    select: S,
    hooks: Hooks,
    at: Loc,
}

/// A sparse Jacobian to be planned: see [`sparse_jacobian`].
#[derive(Clone)]
pub struct SparseJacobian<F, S = First> {
    function: F,
    select: S,
    hooks: Hooks,
    at: Loc,
}

/// A sparse Hessian to be planned: see [`sparse_hessian`].
#[derive(Clone)]
pub struct SparseHessian<F, S = First> {
    function: F,
    select: S,
    hooks: Hooks,
    at: Loc,
}

/// Which entries of a function's Jacobian by its first argument, or by those selected, can differ from zero. A row
/// stands for an element of the output, a column for one of the argument; the tensors of a tree follow each other.
///
/// The pattern holds whatever the floats among the arguments are, and for the integers and bools that are given: where
/// an index says which element is read, the pattern follows it. Indices that are computed from floats may be any. It
/// may name entries that are always zero, and misses none, except that a product with a constant zero counts as zero.
///
/// ```
/// use pullback_trace::{Error, Tensor, sparsity};
///
/// let differences = |x: &Tensor| x.slice(1..) - x.slice(..-1);
/// let pattern = sparsity(differences).call((&Tensor::from([1.0, 2.0, 4.0, 8.0]),))?;
/// assert_eq!(pattern.to_string(), "3 x 4, 6 entries\n##..\n.##.\n..##");
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn sparsity<F>(function: F) -> Sparsity<F> {
    Sparsity { function, select: First, hooks: Hooks::default(), at: Loc::caller() }
}

/// The Jacobian of a function by its first argument, or by those selected, where most of it is zero: planned once,
/// evaluated many times.
///
/// Columns that meet in no row are computed as one, by forward mode; or rows that meet in no column, by reverse
/// mode; whichever takes fewer products. Rows and columns are those of [`sparsity`], and so is what a plan holds for: all
/// floats, and the integers and bools it was planned with. A call with others is refused.
///
/// An entry is NaN or infinite only where the [`jacobian`](crate::jacobian) has one in the same row (or column, by reverse
/// mode), and nearly always only where it has it in the same place: products of zero and infinity in a contraction are
/// the exception.
///
/// ```
/// use pullback_trace::{Error, Tensor, sparse_jacobian};
///
/// let f = |x: &Tensor| x.slice(1..) * x.slice(..-1);
/// let plan = sparse_jacobian(f).plan((&Tensor::from([0.0; 4]),))?;
/// assert_eq!(plan.products(), 2); // not 4
///
/// let jacobian = plan.call((&Tensor::from([1.0, 2.0, 3.0, 4.0]),))?;
/// assert_eq!(jacobian.indptr(), [0, 2, 4, 6]);
/// assert_eq!(jacobian.indices(), [0, 1, 1, 2, 2, 3]);
/// assert_eq!(jacobian.values().to_vec::<f64>()?, [2.0, 1.0, 3.0, 2.0, 4.0, 3.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn sparse_jacobian<F>(function: F) -> SparseJacobian<F> {
    SparseJacobian { function, select: First, hooks: Hooks::default(), at: Loc::caller() }
}

/// The second derivatives of a function whose output is one float scalar, by its first argument or those selected,
/// where most of them are zero: planned once, evaluated many times. Rows and columns are the elements of the argument.
///
/// It is the [`sparse_jacobian`] of the [`grad`](crate::grad), and symmetric, so that an entry may be computed where its
/// mirror image is. At a kink, where the two differ, each stands for both.
///
/// ```
/// use pullback_trace::{Error, Tensor, sparse_hessian};
///
/// // One variable in every term: an arrow, which takes two products however long it is.
/// let f = |x: &Tensor| (x * x.narrow(0, 0, 1).sum()).square().sum();
/// let plan = sparse_hessian(f).plan((&Tensor::from([1.0; 5]),))?;
/// assert_eq!(plan.pattern().to_string(), "5 x 5, 13 entries\n#####\n##...\n#.#..\n#..#.\n#...#");
/// assert_eq!(plan.products(), 2);
/// let hessian = plan.call((&Tensor::from([1.0; 5]),))?;
/// assert_eq!(hessian.values().to_vec::<f64>()?[..5], [20.0, 4.0, 4.0, 4.0, 4.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn sparse_hessian<F>(function: F) -> SparseHessian<F> {
    SparseHessian { function, select: First, hooks: Hooks::default(), at: Loc::caller() }
}

selection! { Sparsity { hooks } }
hookable! { Sparsity<F, S> }
selection! { SparseJacobian { hooks } }
hookable! { SparseJacobian<F, S> }
selection! { SparseHessian { hooks } }
hookable! { SparseHessian<F, S> }

impl<F, S> Sparsity<F, S> {
    /// The pattern for arguments of these types, and these integers and bools.
    pub fn call<R: Arguments>(&self, arguments: R) -> Result<Pattern, Error>
    where
        F: Function<R::Owned>,
        S: Select<R::Owned>,
    {
        let (transform, arguments) = ("sparsity", arguments.into_owned());
        let derivative =
            Derivative::of((transform, self.at), &self.function, &self.select, &self.hooks, &arguments)?;
        derivative.pattern(&arguments)
    }
}

impl<F, S> SparseJacobian<F, S> {
    /// The plan for arguments of these types, and these integers and bools. Values of floats are not looked at.
    pub fn plan<R: Arguments>(&self, arguments: R) -> Result<SparsePlan<R::Owned>, Error>
    where
        F: Function<R::Owned>,
        S: Select<R::Owned>,
    {
        let (transform, arguments) = ("sparse_jacobian", arguments.into_owned());
        let derivative =
            Derivative::of((transform, self.at), &self.function, &self.select, &self.hooks, &arguments)?;
        let pattern = derivative.pattern(&arguments)?;
        let compression = Compression::new(&pattern);
        derivative.plan(&arguments, pattern, compression)
    }
}

impl<F, S> SparseHessian<F, S> {
    /// The plan for arguments of these types, and these integers and bools. Values of floats are not looked at.
    pub fn plan<R: Arguments>(&self, arguments: R) -> Result<SparsePlan<R::Owned>, Error>
    where
        F: Function<R::Owned, Output = Tensor>,
        S: Select<R::Owned>,
    {
        let (transform, at, arguments) = ("sparse_hessian", self.at, arguments.into_owned());
        let wrt = differentiated(transform, &arguments, &self.select.numbers(&arguments), at)?;
        let Recording { program, captures, .. } = record(transform, at, &self.function, &arguments, false)?;
        check_loss(transform, &program, at)?;
        let autodiff = autodiff(&self.hooks);
        let program = autodiff.grad(&program, &wrt)?;
        let derivative = Derivative { transform, at, autodiff, program, captures, wrt };
        let pattern = derivative.pattern(&arguments)?.symmetric();
        let compression = Compression::symmetric(&pattern);
        derivative.plan(&arguments, pattern, compression)
    }
}

/// A program of which the sparse derivative is to be taken.
struct Derivative {
    transform: &'static str,
    at: Loc,
    autodiff: Autodiff,
    /// Of the tensors of the arguments and the captures; its outputs are all floats.
    program: Program,
    captures: Vec<Tensor>,
    /// The parameters it is differentiated by.
    wrt: Vec<usize>,
}

impl Derivative {
    /// The derivative of a function.
    fn of<A: Args, F: Function<A>, S: Select<A>>(
        (transform, at): (&'static str, Loc),
        function: &F,
        select: &S,
        hooks: &Hooks,
        arguments: &A,
    ) -> Result<Derivative, Error> {
        let wrt = differentiated(transform, arguments, &select.numbers(arguments), at)?;
        let recording = record(transform, at, function, arguments, false)?;
        check_outputs(transform, &recording, at)?;
        let Recording { program, captures, .. } = recording;
        Ok(Derivative { transform, at, autodiff: autodiff(hooks), program, captures, wrt })
    }

    /// The tangents of the outputs: of the parameters of the program, then those of wrt.
    fn pushed(&self) -> Result<Program, Error> {
        let jvp = self.autodiff.jvp(&self.program, &self.wrt)?;
        let tangents = jvp.outputs()[self.program.outputs().len()..].to_vec();
        Ok(prune(&jvp.with_outputs(&tangents)))
    }

    /// The cotangents of wrt: of the parameters of the program, then those of the outputs.
    fn pulled(&self) -> Result<Program, Error> {
        let vjp = self.autodiff.vjp(&self.program, &self.wrt)?;
        let cotangents = vjp.outputs()[self.program.outputs().len()..].to_vec();
        Ok(prune(&vjp.with_outputs(&cotangents)))
    }

    fn wrt_types(&self) -> Vec<TensorType> {
        let params = self.program.param_types();
        self.wrt.iter().map(|&i| params[i].clone()).collect()
    }

    fn pattern<A: Args>(&self, arguments: &A) -> Result<Pattern, Error> {
        let program = self.pushed()?;
        let mut sources = Vec::with_capacity(program.params().len());
        for leaf in tree::leaves(arguments) {
            sources.push(given(leaf)?.map_or(Source::Varying, Source::Known));
        }
        for capture in &self.captures {
            let known = !capture.is_traced();
            sources.push(if known { Source::Known(capture.array()?) } else { Source::Varying });
        }
        sources.resize(program.params().len(), Source::Tracked);
        let found = dependence(&program, &sources)?;
        let columns = elements(&self.wrt_types());
        let rows = (0..program.outputs().len()).flat_map(|output| found.of_output(output));
        Ok(Pattern::from_rows(columns, rows))
    }

    fn plan<A: Args>(
        self,
        arguments: &A,
        pattern: Pattern,
        compression: Compression,
    ) -> Result<SparsePlan<A>, Error> {
        let (transform, at) = (self.transform, self.at);
        let (outputs, params) = (self.program.output_types(), self.wrt_types());
        let dtype = self.one_dtype(&outputs)?;
        // Sums are over the elements of `summed`, and each sum has the elements of `shown`.
        let (products, summed, shown) = match compression.side {
            Side::Columns => (self.pushed()?, &params, &outputs),
            Side::Rows => (self.pulled()?, &outputs, &params),
        };
        let lanes = compression.colouring.count;
        let program = self.reading(&products, (lanes, dtype, compression.places.len()))?;
        let mut bound = self.captures;
        bound.extend(seeds(&compression, summed));
        bound.push(places(&compression, shown));
        let given = tree::leaves(arguments).into_iter().map(given).collect::<Result<_, _>>()?;
        Ok(SparsePlan {
            transform,
            at,
            signature: Signature::of(arguments, &tree::leaves(arguments))?,
            given,
            bound,
            executor: Executor::new(program, Backend::default()),
            pattern: Arc::new(pattern),
            products: lanes,
            arguments: PhantomData,
        })
    }

    /// The dtype of the values, which stand in one tensor.
    fn one_dtype(&self, outputs: &[TensorType]) -> Result<DType, Error> {
        let dtype = outputs.first().map_or(DType::F64, |ty| ty.dtype);
        match outputs.iter().find(|ty| ty.dtype != dtype) {
            None => Ok(dtype),
            Some(other) => {
                let text = format!(
                    "the values of one matrix have one dtype, and some are {dtype} and some {}; convert the outputs, or \
                     for a Hessian the arguments, to one of them",
                    other.dtype
                );
                Err(Error::invalid(self.transform, text, self.at))
            }
        }
    }

    /// The program of a plan: of the parameters of `products`, whose last ones have lanes, and the places of the
    /// entries, to their values.
    fn reading(
        &self,
        products: &Program,
        (lanes, dtype, entries): (usize, DType, usize),
    ) -> Result<Program, Error> {
        let shared = self.program.params().len();
        let axes: Vec<Option<usize>> =
            (0..products.params().len()).map(|param| (param >= shared).then_some(0)).collect();
        let on_lanes =
            self.autodiff.batch(products, &axes, &vec![Some(0); products.outputs().len()], lanes)?;
        let mut b = Builder::new(self.transform);
        b.set_loc(self.at);
        let params: Vec<Value> = on_lanes.param_types().into_iter().map(|ty| b.param(ty)).collect();
        let places = b.param(TensorType::new(DType::I64, [entries, 1]));
        let mut parts = Vec::new();
        for part in b.inline(&on_lanes, &params)? {
            let elements = b.ty(part).shape.elements();
            let flat = b.reshape(part, [elements])?;
            parts.push(b.convert(flat, dtype)?);
        }
        if parts.is_empty() {
            parts.push(b.number(&TensorType::new(dtype, [0]), 0.0)?);
        }
        let all = b.one(Concat { dim: 0 }, &parts)?;
        // All places are in range.
        let gather = Gather { index_dims: smallvec![0], batch_dims: 0, mode: IndexMode::Clip };
        let values = b.one(gather, &[all, places])?;
        Ok(b.finish(&[values]))
    }
}

/// What is given of an argument's tensor: integers and bools, unless they are traced.
fn given(leaf: &Tensor) -> Result<Option<Array>, Error> {
    if leaf.dtype()?.is_float() || leaf.is_traced() { Ok(None) } else { leaf.array().map(Some) }
}

fn elements(types: &[TensorType]) -> usize {
    types.iter().map(|ty| ty.shape.elements()).sum()
}

/// For each tensor, on each lane ones where an element has the lane's colour.
fn seeds(compression: &Compression, summed: &[TensorType]) -> Vec<Tensor> {
    let lanes = compression.colouring.count;
    let mut colours = &compression.colouring.colours[..];
    let mut seeds = Vec::with_capacity(summed.len());
    for ty in summed {
        let (mine, rest) = colours.split_at(ty.shape.elements());
        colours = rest;
        let mut ones = vec![0.0; lanes * mine.len()];
        for (element, &colour) in mine.iter().enumerate().filter(|(_, colour)| **colour < lanes) {
            ones[colour * mine.len() + element] = 1.0;
        }
        let shape: Shape = std::iter::once(lanes).chain(ty.shape.iter().copied()).collect();
        seeds.push(Tensor::from_vec(ones, shape).to_dtype(ty.dtype));
    }
    seeds
}

/// Where each entry stands when the tensors shown, each with lanes in front, are laid one after the other.
fn places(compression: &Compression, shown: &[TensorType]) -> Tensor {
    let lanes = compression.colouring.count;
    let mut starts = vec![0];
    for ty in shown {
        starts.push(starts[starts.len() - 1] + ty.shape.elements());
    }
    let place = |&(colour, element): &(usize, usize)| {
        // The last tensor that starts at the element or before it: those without elements start where the next does.
        let part = starts.partition_point(|&start| start <= element) - 1;
        let size = starts.get(part + 1).map_or(0, |end| end - starts[part]);
        (lanes * starts[part] + colour * size + (element - starts[part])) as i64
    };
    let places: Vec<i64> = compression.places.iter().map(place).collect();
    let entries = places.len();
    Tensor::from_vec(places, [entries, 1])
}

/// How to evaluate a sparse Jacobian or Hessian: its pattern, and one program that computes all entries, compiled at
/// the first call. `A` is the tuple of the function's arguments.
pub struct SparsePlan<A> {
    transform: &'static str,
    at: Loc,
    signature: Signature,
    /// Integers and bools it holds for, by tensor of the arguments.
    given: Vec<Option<Array>>,
    /// What the program is called with after the arguments: captures, seeds, places.
    bound: Vec<Tensor>,
    executor: Executor,
    pattern: Arc<Pattern>,
    products: usize,
    arguments: PhantomData<fn(A)>,
}

impl<A: Args> SparsePlan<A> {
    /// Which entries it computes.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// How many products with a direction it takes, where the dense derivative takes one for each column or row.
    pub fn products(&self) -> usize {
        self.products
    }

    /// The matrix at these arguments.
    ///
    /// # Errors
    /// If they are of other types, or hold other integers or bools, than those it was planned for.
    #[track_caller]
    pub fn call<R: Arguments<Owned = A>>(&self, arguments: R) -> Result<Csr, Error> {
        let arguments = arguments.into_owned();
        let signature = Signature::of(&arguments, &tree::leaves(&arguments))?;
        if signature != self.signature {
            return Err(self.differs(self.signature.to_string(), signature.to_string()));
        }
        let leaves = tree::leaves(&arguments);
        for (position, (leaf, given)) in leaves.iter().zip(&self.given).enumerate() {
            if let Some(given) = given
                && !leaf.array()?.bits_equal(given)
            {
                let argument = argument_name(&arguments, position);
                return Err(self.differs(format!("the {} of {argument}", kind(given)), "others".to_string()));
            }
        }
        let inputs: Vec<&Tensor> = leaves.into_iter().chain(&self.bound).collect();
        let values = self.executor.call(&inputs, self.at)?.remove(0);
        Ok(Csr::new(self.pattern.clone(), values))
    }

    fn differs(&self, expected: String, found: String) -> Error {
        Error::PlanDiffers { transform: self.transform, at: self.at, expected, found }
    }
}

fn kind(array: &Array) -> &'static str {
    if array.dtype() == DType::Bool { "bools" } else { "integers" }
}

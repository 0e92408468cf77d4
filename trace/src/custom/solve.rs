//! Solutions of equations, differentiated implicitly: by the equation, whatever the solver does.

use super::call::autodiff;
use super::rule::Site;
use crate::apply::apply_all;
use crate::control::body::{Shared, share};
use crate::error::Error;
use crate::tensor::Tensor;
use crate::trace::Recorded;
use crate::transform::forward::leaf_types;
use crate::transform::{Due, Hooks, IntoOutput};
use crate::tree::{self, Tree};
use pullback_ir::ops::control::call::Call;
use pullback_ir::ops::control::custom_jvp::CustomJvp;
use pullback_ir::ops::control::custom_linear::{CustomLinear, Operator};
use pullback_ir::ops::control::custom_rule::Scope;
use pullback_ir::passes::prune;
use pullback_ir::{Builder, Loc, Op, Program, TensorType, Value};
use std::sync::Arc;

/// A function from a tree to a tree of the same types, as solvers are given it.
pub struct Map<T> {
    /// `known.., x.. -> results..`
    program: Arc<Program>,
    known: Vec<Tensor>,
    like: T,
    is_transpose: bool,
    at: Loc,
}

impl<T: Tree> Map<T> {
    fn new(site: &Site, program: &Arc<Program>, known: &[Tensor], like: &T, is_transpose: bool) -> Map<T> {
        let known = known.to_vec();
        Map {
            program: program.clone(),
            known,
            like: tree::map(like, Tensor::clone),
            is_transpose,
            at: site.at,
        }
    }

    /// The function's value. Errors are those of the function, and arguments of other types than it was recorded for.
    pub fn apply(&self, x: &T) -> T {
        let operands: Vec<&Tensor> = self.known.iter().chain(tree::leaves(x)).collect();
        let tensors = apply_all(Call::new(self.program.clone()).into(), &operands, self.at);
        Due { like: tree::map(&self.like, Tensor::clone), tensors }.into_tree()
    }

    /// Whether it is the transpose of the operator that was given: for solvers that have their own way to know the
    /// operator, such as a factorization.
    pub fn is_transpose(&self) -> bool {
        self.is_transpose
    }
}

/// The solution `x` of `operator(x) = b`, by a solver that is given the operator and `b`.
///
/// Its derivatives are those of the equation and do not depend on what the solver does: each is the solution of one more
/// linear equation, by the same solver, in reverse mode with the transposed operator. So the solver may iterate as long
/// as it likes, and nothing of it is kept. Gradients flow to `b` and to what the operator captures; what the solver alone
/// captures (a preconditioner, a first guess) has none.
///
/// ```
/// use pullback_trace::control::while_loop;
/// use pullback_trace::custom::{Map, custom_linear_solve};
/// use pullback_trace::{Error, Tensor, grad};
///
/// // Richardson's iteration, for operators near the identity.
/// let richardson = |a: &Map<Tensor>, b: &Tensor| {
///     let residual = |x: &Tensor| b - a.apply(x);
///     while_loop(b, |x| residual(x).abs().max().gt(1e-14), |x| x + residual(x))
/// };
/// let b = Tensor::from([1.0, 2.0]);
/// let solve = |a: &Tensor| custom_linear_solve(|x: &Tensor| a.matmul(x), &b, richardson).sum();
/// let a = Tensor::from([[1.0, 0.5], [0.0, 1.0]]);
/// assert_eq!(solve(&a).item::<f64>()?, 2.0);
/// let by_a = grad(solve).call((&a,))?; // minus the outer product of the transposed solution and the solution
/// assert_eq!(by_a.to_vec::<f64>()?, [0.0, -2.0, 0.0, -1.0]);
/// # Ok::<(), Error>(())
/// ```
///
/// Errors: an operator or a solver that returns other types than those of `b`, an operator that is not linear, tensors
/// that are no floats, and what the closures refuse. That the solver solves is not checked.
#[track_caller]
pub fn custom_linear_solve<T, A, R, S>(operator: A, b: &T, solver: impl Fn(&Map<T>, &T) -> S) -> S::Form<T>
where
    T: Tree,
    A: FnOnce(&T) -> R,
    R: IntoOutput<Tree = T>,
    S: IntoOutput<Tree = T>,
{
    let site = Site::of::<A>("custom_linear_solve", Loc::caller());
    let tensors = record_map(&site, "the operator", b, operator).and_then(|operator| {
        let apply = share(vec![operator.clone()])?;
        let both = both_ways(&site, &apply.programs[0], apply.consts.len())?;
        let record = |program: &Arc<Program>, is_transpose| {
            let map = Map::new(&site, program, &apply.consts, b, is_transpose);
            record_solver(&site, b, &[], map, &solver)
        };
        let (forward, backward) = (record(&both.apply, false)?, record(&both.transpose, true)?);
        let Shared { consts, programs } = share(vec![operator, forward, backward])?;
        let [apply, forward, backward] = &programs[..] else { return Ok(Vec::new()) };
        let op = CustomLinear {
            name: site.name.clone(),
            known: consts.len(),
            forward: Some(forward.clone()),
            backward: backward.clone(),
            inverse_of: Some(both_ways(&site, apply, consts.len())?),
        };
        let operands: Vec<&Tensor> = consts.iter().chain(tree::leaves(b)).collect();
        apply_all(op.into(), &operands, site.at)
    });
    S::form(Due { like: tree::map(b, Tensor::clone), tensors })
}

/// The solution `x` of `f(x) = 0`, by a solver that is given `f` and a first guess.
///
/// Its derivatives are those of the equation and do not depend on what the solver does: where `f` depends on some `a`
/// besides, the slope of the solution is that of `-(df/dx)^-1 df/da`. To apply the inverse `linear_solver` is given the
/// operator `df/dx` at the solution, or its transpose, and a right-hand side, as in [`custom_linear_solve`]; for a single
/// number that is `|slope, b| b / slope.apply(&one)`. Gradients flow to what `f` captures, none to the guess and to what
/// the solvers alone capture.
///
/// ```
/// use pullback_trace::control::while_loop;
/// use pullback_trace::custom::{Map, custom_root};
/// use pullback_trace::{Error, Tensor, grad};
///
/// let one = Tensor::from(1.0);
/// let bisect = |f: &Map<Tensor>, guess: &Tensor| {
///     let ends = (guess, &(guess + 10.0));
///     let (low, high) = while_loop(
///         ends,
///         |(low, high)| (high - low).gt(1e-12),
///         |(low, high)| {
///             let middle = (low + high) * 0.5;
///             let is_below = f.apply(&middle).lt(0);
///             (is_below.select(&middle, low), is_below.select(high, &middle))
///         },
///     );
///     (low + high) * 0.5
/// };
/// let root = |a: &Tensor| custom_root(|x: &Tensor| x * x - a, &Tensor::from(0.0), bisect, |slope, b| b / slope.apply(&one));
/// let a = Tensor::from(2.0);
/// assert!((root(&a).item::<f64>()? - 2f64.sqrt()).abs() < 1e-12);
/// assert!((grad(root).call((&a,))?.item::<f64>()? - 0.5 / 2f64.sqrt()).abs() < 1e-12);
/// # Ok::<(), Error>(())
/// ```
///
/// Errors: an `f` or a solver that returns other types than those of the guess, tensors that are no floats, and what the
/// closures refuse. That the solver finds a root is not checked.
#[track_caller]
pub fn custom_root<T, F, R, S, L>(
    f: F,
    guess: &T,
    solver: impl FnOnce(&Map<T>, &T) -> S,
    linear_solver: impl Fn(&Map<T>, &T) -> L,
) -> S::Form<T>
where
    T: Tree,
    F: FnOnce(&T) -> R,
    R: IntoOutput<Tree = T>,
    S: IntoOutput<Tree = T>,
    L: IntoOutput<Tree = T>,
{
    let site = Site::of::<F>("custom_root", Loc::caller());
    let tensors = record_map(&site, "the function", guess, f).and_then(|f| {
        let types = leaf_types(&tree::leaves(guess))?;
        let own = share(vec![f.clone()])?;
        let map = Map::new(&site, &own.programs[0], &own.consts, guess, false);
        let solve = record_solver(&site, guess, &[], map, solver)?;
        let known = own.consts.len() + types.len();
        let both = both_ways(&site, &slope(&own.programs[0], own.consts.len()..known)?, known)?;
        let record = |program: &Arc<Program>, is_transpose| {
            let map = Map::new(&site, program, &own.consts, guess, is_transpose);
            record_solver(&site, guess, &types, map, &linear_solver)
        };
        let (forward, backward) = (record(&both.apply, false)?, record(&both.transpose, true)?);
        let Shared { consts, programs } = share(vec![f, solve, forward, backward])?;
        let [f, program, forward, backward] = &programs[..] else { return Ok(Vec::new()) };
        let known = consts.len() + types.len();
        let linear = CustomLinear {
            name: site.name.clone(),
            known,
            forward: Some(forward.clone()),
            backward: backward.clone(),
            inverse_of: Some(both_ways(&site, &slope(f, consts.len()..known)?, known)?),
        };
        let operands: Vec<&Tensor> = consts.iter().chain(tree::leaves(guess)).collect();
        apply_all(root(&site, f, program, linear, types.len())?, &operands, site.at)
    });
    S::form(Due { like: tree::map(guess, Tensor::clone), tensors })
}

/// The op that finds a root of `f` by `program`, both from the same consts, which come before the guess.
fn root(
    site: &Site,
    f: &Arc<Program>,
    program: &Arc<Program>,
    linear: CustomLinear,
    unknowns: usize,
) -> Result<Op, Error> {
    let types = f.param_types();
    let consts = types.len() - unknowns;
    let wrt: Vec<usize> = (0..consts).filter(|&i| types[i].dtype.is_float()).collect();
    if wrt.is_empty() {
        return Ok(Call::new(program.clone()).into());
    }
    let mut b = Builder::new(&format!("{}_rule", f.name()));
    let mut params =
        |types: &[TensorType]| -> Vec<Value> { types.iter().map(|ty| b.param(ty.clone())).collect() };
    let (known, _guess, root) =
        (params(&types[..consts]), params(&types[consts..]), params(&types[consts..]));
    let tangents: Vec<Value> = wrt.iter().map(|&i| b.param(types[i].clone())).collect();
    let moved = b.inline(&*slope(f, wrt.iter().copied())?, &[&known[..], &root, &tangents].concat())?;
    let mut operands = [known, root].concat();
    for value in moved {
        operands.push(b.neg(value)?);
    }
    let found = b.emit(linear, &operands)?;
    let rule = Arc::new(b.finish(&found));
    let scope = Scope { name: site.name.clone(), captured: 0, wrt };
    Ok(CustomJvp { scope, program: program.clone(), rule }.into())
}

/// The tangents of the outputs: from the parameters and the tangents of those in `wrt`.
fn slope(program: &Program, wrt: impl IntoIterator<Item = usize>) -> Result<Arc<Program>, Error> {
    let wrt: Vec<usize> = wrt.into_iter().collect();
    let jvp = autodiff(&Hooks::default()).jvp(program, &wrt)?;
    let tangents = jvp.outputs()[program.outputs().len()..].to_vec();
    Ok(Arc::new(prune(&jvp.with_outputs(&tangents))))
}

/// An operator that is linear in the parameters after the first `known`, and its transpose.
fn both_ways(site: &Site, apply: &Arc<Program>, known: usize) -> Result<Operator, Error> {
    let transpose = autodiff(&Hooks::default()).transpose_at(apply, known)?;
    let transpose = transpose.ok_or_else(|| {
        let text = format!("`{}` is not linear in its argument, so that it has no transpose", site.name);
        Error::invalid(site.kind, text, site.at)
    })?;
    Ok(Operator { apply: apply.clone(), transpose })
}

/// Records a function from trees like `like` to such trees.
fn record_map<T: Tree, R: IntoOutput<Tree = T>>(
    site: &Site,
    part: &'static str,
    like: &T,
    function: impl FnOnce(&T) -> R,
) -> Result<Recorded, Error> {
    let types = leaf_types(&tree::leaves(like))?;
    if let Some(ty) = types.iter().find(|ty| !ty.dtype.is_float()) {
        let text = format!("{ty} cannot be solved for; convert it to a float");
        return Err(Error::invalid(site.kind, text, site.at));
    }
    let ((), recorded) = site.record(types, None, |params| {
        let result = function(&tree::unflatten(like, params)?).into_output()?;
        site.check(part, "the result", (like, "in the argument"), &result)?;
        Ok(((), tree::leaves(&result).into_iter().cloned().collect()))
    })?;
    Ok(recorded)
}

/// Records a solver that is given a map, which knows tensors of the types `at` besides, and a tree like `like`.
fn record_solver<T: Tree, S: IntoOutput<Tree = T>>(
    site: &Site,
    like: &T,
    at: &[TensorType],
    mut map: Map<T>,
    solver: impl FnOnce(&Map<T>, &T) -> S,
) -> Result<Recorded, Error> {
    let types = [at, &leaf_types(&tree::leaves(like))?].concat();
    let ((), recorded) = site.record(types, None, |mut params| {
        let given = params.split_off(at.len());
        map.known.extend(params);
        let result = solver(&map, &tree::unflatten(like, given)?).into_output()?;
        site.check("the solver", "the result", (like, "in what it was given"), &result)?;
        Ok(((), tree::leaves(&result).into_iter().cloned().collect()))
    })?;
    Ok(recorded)
}

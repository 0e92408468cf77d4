//! Backward passes over the history of live tensors. A pass changes nothing until all of it has succeeded.

use crate::eager::error::EagerError;
use crate::eager::gather::{Asked, Gathered, Site, Sites, gather};
use crate::eager::graph::{Live, Made};
use crate::eager::param::{Param, ParamState};
use crate::eager::plan::plan;
use crate::eager::scope::is_checked;
use crate::error::Error;
use crate::execute::from_runtime;
use crate::tensor::{State, Tensor};
use pullback_ir::ops::elementwise::binary::Binary;
use pullback_ir::{Literal, Loc};
use pullback_runtime::eval::evaluate_arrays;
use pullback_runtime::{Array, first_non_finite};
use std::sync::{Arc, MutexGuard};

/// What becomes of the history that a backward pass went over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Retain {
    /// It is released, with the values it saved; another pass over it is an error.
    #[default]
    Nothing,
    /// It stays, and another pass adds the same gradients again.
    Graph,
}

/// How a backward pass is run: with a seed, and what it leaves of the graph. A reference to a tensor is the seed; a
/// [`Retain`] goes without.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    seed: Option<Tensor>,
    retain: Retain,
}

impl Pass {
    /// With this cotangent of the tensor that the pass begins at.
    pub fn seed(seed: &Tensor) -> Pass {
        Pass { seed: Some(seed.clone()), ..Pass::default() }
    }

    /// With the graph released or retained.
    pub fn retain(self, retain: Retain) -> Pass {
        Pass { retain, ..self }
    }
}

impl From<&Tensor> for Pass {
    fn from(seed: &Tensor) -> Pass {
        Pass::seed(seed)
    }
}

impl From<Retain> for Pass {
    fn from(retain: Retain) -> Pass {
        Pass::default().retain(retain)
    }
}

/// An op in the history of a tensor, as the place where a backward pass begins: see [`Tensor::node`].
#[derive(Clone)]
pub struct Node(Live);

impl Node {
    /// What the op is called.
    pub fn op(&self) -> &'static str {
        self.0.made.op
    }

    /// Where it was called.
    pub fn loc(&self) -> Loc {
        self.0.made.loc
    }

    /// As [`Tensor::backward_with`] of its result, which itself gets no gradient even if it keeps one.
    #[track_caller]
    pub fn backward_with(&self, pass: impl Into<Pass>) -> Result<(), Error> {
        let (pass, asked) = (pass.into(), Asked { function: "backward", at: Loc::caller() });
        let seed = seed(&self.0.array, &self.0, pass.seed.as_ref(), asked)?;
        let own = Arc::as_ptr(&self.0.made);
        let sites = |made: &Made| {
            let is_own = |result: &usize| std::ptr::eq(made, own) && *result == self.0.result;
            made.retaining().into_iter().filter(|result| !is_own(result)).collect()
        };
        run(&[(&self.0, seed)], pass.retain, asked, &sites)
    }
}

impl Tensor {
    /// Adds to the gradient of every parameter that this number depends on, and of every result between that keeps one,
    /// the derivative of the number by it. The history is released.
    ///
    /// ```
    /// use pullback_trace::Tensor;
    ///
    /// let x = Tensor::param([3.0, 5.0]);
    /// (&x * &x + &x * 4.0).sum().backward()?;
    /// assert_eq!(x.grad()?.unwrap().to_vec::<f64>()?, [10.0, 14.0]);
    /// # Ok::<(), pullback_trace::Error>(())
    /// ```
    ///
    /// Errors, after which nothing has changed: a tensor that is not one number
    /// ([`SeedRequired`](EagerError::SeedRequired)), that depends on no parameter, whose history was released, that was
    /// computed from parameters which have been updated since, and whatever a derivative refuses.
    #[track_caller]
    pub fn backward(&self) -> Result<(), Error> {
        self.backward_with(Pass::default())
    }

    /// As [`Tensor::backward`], with a cotangent of this tensor to begin with, or with the graph retained, or both:
    ///
    /// ```
    /// use pullback_trace::Tensor;
    /// use pullback_trace::eager::{Pass, Retain};
    ///
    /// let x = Tensor::param([3.0, 4.0]);
    /// let y = &x * 2.0;
    /// let seed = Tensor::from([1.0, 10.0]);
    /// y.backward_with(Pass::seed(&seed).retain(Retain::Graph))?;
    /// y.backward_with(&seed)?;
    /// assert_eq!(x.grad()?.unwrap().to_vec::<f64>()?, [4.0, 40.0]);
    /// # Ok::<(), pullback_trace::Error>(())
    /// ```
    #[track_caller]
    pub fn backward_with(&self, pass: impl Into<Pass>) -> Result<(), Error> {
        let (pass, asked) = (pass.into(), Asked { function: "backward", at: Loc::caller() });
        match &self.0 {
            State::Live(live) => {
                let seed = seed(&live.array, live, pass.seed.as_ref(), asked)?;
                run(&[(live, seed)], pass.retain, asked, &Made::retaining)
            }
            State::Param(param) => {
                let made = ("param", param.made);
                let seed = seed_of(&param.value(), made, pass.seed.as_ref(), asked)?;
                Commit { params: vec![(param.clone(), seed)], sites: Vec::new(), released: &[] }.run(asked)
            }
            State::Concrete(_) | State::Leaf(_) | State::Traced(_) | State::Failed(_) => {
                Err(EagerError::NoHistory { function: "backward", ty: self.ty()?.clone(), at: asked.at }
                    .into())
            }
        }
    }

    /// The op that made this tensor, if that was recorded.
    pub fn node(&self) -> Option<Node> {
        match &self.0 {
            State::Live(live) => Some(Node(live.clone())),
            _ => None,
        }
    }
}

fn seed(value: &Array, live: &Live, given: Option<&Tensor>, asked: Asked) -> Result<Array, Error> {
    seed_of(value, (live.made.op, live.made.loc), given, asked)
}

/// The cotangent given for a root, or one if that is a single number.
pub(super) fn seed_of(
    value: &Array,
    (op, made): (&'static str, Loc),
    given: Option<&Tensor>,
    asked: Asked,
) -> Result<Array, Error> {
    let (ty, at) = (value.ty(), asked.at);
    let Some(given) = given else {
        if value.elements() == 1 {
            return Ok(Array::from_literal(&Literal::number(ty.clone(), 1.0)));
        }
        return Err(EagerError::SeedRequired { ty: ty.clone(), op, made, at }.into());
    };
    let found = given.array()?;
    if found.ty() != ty {
        let (function, expected, found) = (asked.function, ty.to_string(), found.ty().clone());
        return Err(EagerError::SeedType { function, expected, found, at }.into());
    }
    check(&found, "the seed", asked)?;
    Ok(found)
}

/// In a checked scope, refuses what is not finite.
fn check(array: &Array, what: &'static str, asked: Asked) -> Result<(), Error> {
    match first_non_finite(array).filter(|_| is_checked()) {
        None => Ok(()),
        Some((index, value)) => {
            let ty = array.ty().clone();
            Err(EagerError::NonFiniteGradient { what, ty, value, index, at: asked.at }.into())
        }
    }
}

/// A pass from these roots into the gradients of parameters and sites.
fn run(
    roots: &[(&Live, Array)],
    retain: Retain,
    asked: Asked,
    sites: &dyn Fn(&Made) -> Vec<usize>,
) -> Result<(), Error> {
    let lives: Vec<&Live> = roots.iter().map(|(live, _)| *live).collect();
    let gathered = gather(&lives, asked, Sites { results: sites, hooks: true })?;
    let plan = plan(&gathered, roots.len(), None)?;
    let found = plan.run(&gathered, roots.iter().map(|(_, seed)| seed.clone()).collect())?;
    let Gathered { params, sites, made, .. } = gathered;
    let mut commit = Commit { params: Vec::new(), sites: Vec::new(), released: &made };
    for (&at, array) in plan.backward.reached.iter().zip(found) {
        match at.checked_sub(params.len()) {
            None => commit.params.push((params[at].clone(), array)),
            Some(at) => commit.sites.push((&sites[at], array)),
        }
    }
    if retain == Retain::Graph {
        commit.released = &[];
    }
    commit.run(asked)
}

/// What a pass found, on its way into the gradients.
struct Commit<'a> {
    params: Vec<(Arc<Param>, Array)>,
    sites: Vec<(&'a Site, Array)>,
    released: &'a [Arc<Made>],
}

impl Commit<'_> {
    /// Adds everything, or nothing. Passes that share an op share a parameter, whose lock lets one of them be first; locks
    /// are taken in the order of addresses.
    fn run(mut self, asked: Asked) -> Result<(), Error> {
        self.params.sort_by_key(|(param, _)| Arc::as_ptr(param) as usize);
        let mut histories = Vec::with_capacity(self.released.len());
        {
            let mut states: Vec<MutexGuard<'_, ParamState>> =
                self.params.iter().map(|(param, _)| param.lock()).collect();
            if let Some(made) = self.released.iter().find(|made| made.history().is_none()) {
                let (function, at, user) = (asked.function, asked.at, "an op on the way".into());
                return Err(
                    EagerError::GraphReleased { function, op: made.op, made: made.loc, user, at }.into()
                );
            }
            let gradients = states.iter().zip(&self.params);
            let gradients: Vec<Array> = gradients
                .map(|(state, (_, found))| accumulated(state.gradient.as_ref(), found, asked))
                .collect::<Result<_, _>>()?;
            let sites = self.sites.iter();
            let sites: Vec<Array> = sites
                .map(|(site, found)| accumulated(site.made.gradient(site.result).as_ref(), found, asked))
                .collect::<Result<_, _>>()?;
            for (state, gradient) in states.iter_mut().zip(gradients) {
                state.gradient = Some(gradient);
            }
            for ((site, _), gradient) in self.sites.iter().zip(sites) {
                site.made.set_gradient(site.result, Some(gradient));
            }
            histories.extend(self.released.iter().filter_map(|made| made.history().take()));
        }
        Ok(())
    }
}

/// The sum of a gradient so far and what a pass adds.
fn accumulated(before: Option<&Array>, found: &Array, asked: Asked) -> Result<Array, Error> {
    let sum = match before {
        None => found.clone(),
        Some(before) => {
            let sum = evaluate_arrays(&Binary::Add.into(), asked.at, &[before.clone(), found.clone()]);
            sum.map_err(from_runtime)?.remove(0)
        }
    };
    check(&sum, "an accumulated gradient", asked)?;
    Ok(sum)
}

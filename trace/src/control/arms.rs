//! Branches: one of several functions, chosen when the program runs.

use super::body::{Recorder, difference, share};
use super::operands::Operands;
use crate::apply::apply_all;
use crate::error::Error;
use crate::tensor::Tensor;
use crate::trace::Recorded;
use crate::transform::forward::leaf_types;
use crate::transform::{Due, IntoOutput};
use crate::tree::{self, Tree};
use pullback_ir::ops::control::branch::Branch;
use pullback_ir::{DType, Loc, TensorType};

/// One of two functions of the operands: the first where `predicate`, a bool of rank 0, is true.
///
/// Only the chosen one runs, on values and in derivatives. What it is to compute it must compute from the operands:
/// what follows from captured tensors alone is computed before the choice.
///
/// ```
/// use pullback_trace::control::cond;
/// use pullback_trace::{Error, Tensor, grad};
///
/// let f = |x: &Tensor, y: &Tensor| cond(&x.gt(y), (x, y), |(x, y)| (x - y).sqrt(), |(x, _)| x * 2.0);
/// assert_eq!(f(&Tensor::from(5.0), &Tensor::from(1.0)).item::<f64>()?, 2.0);
/// assert_eq!(grad(f).call((&Tensor::from(1.0), &Tensor::from(5.0)))?.item::<f64>()?, 2.0);
/// # Ok::<(), Error>(())
/// ```
///
/// Errors: results that differ in structure or types, a predicate of another type, and what the functions refuse.
#[track_caller]
pub fn cond<I, R>(
    predicate: &Tensor,
    operands: I,
    then: impl FnOnce(&I::Tree) -> R,
    otherwise: impl FnOnce(&I::Tree) -> R,
) -> R::Form<R::Tree>
where
    I: Operands,
    R: IntoOutput,
{
    let (at, function) = (Loc::caller(), "cond");
    let index = check_predicate(predicate, at).map(|()| predicate.to_dtype(DType::I32));
    let arm = |arm: usize| ["where the predicate is false", "where it is true"][arm.min(1)].to_string();
    let choice = Choice { function, at, index, operands: operands.into_tree(), arm };
    choice.run(otherwise, [then])
}

/// The function whose number `index` is, an integer of rank 0, of the operands; below and above the numbers there are
/// the first and the last. As [`cond`] otherwise. There must be at least one function, or the call does not compile.
///
/// ```
/// use pullback_trace::control::switch;
/// use pullback_trace::{Error, Tensor};
///
/// let f = |i: i64, x: &Tensor| switch(&Tensor::from(i), x, [&|x| x.clone(), &|x| x * x, &|x| x * x * x]);
/// let x = Tensor::from(2.0);
/// assert_eq!(f(1, &x).item::<f64>()?, 4.0);
/// assert_eq!(f(7, &x).item::<f64>()?, 8.0);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn switch<I, R, const N: usize>(
    index: &Tensor,
    operands: I,
    arms: [&dyn Fn(&I::Tree) -> R; N],
) -> R::Form<R::Tree>
where
    I: Operands,
    R: IntoOutput,
{
    const { assert!(N > 0, "switch needs at least one function to choose from") };
    let (at, function) = (Loc::caller(), "switch");
    // Clamped before it is converted, where it might wrap.
    let index = check_index(index, at).map(|()| index.clamp(0, N as i64 - 1).to_dtype(DType::I32));
    let arm = |arm| format!("in arm {arm}");
    let choice = Choice { function, at, index, operands: operands.into_tree(), arm };
    choice.run(arms[0], arms.into_iter().skip(1))
}

fn check_predicate(predicate: &Tensor, at: Loc) -> Result<(), Error> {
    let ty = predicate.ty()?;
    if *ty == TensorType::scalar(DType::Bool) {
        return Ok(());
    }
    let text = format!(
        "the predicate is {ty} and must be bool[]; compare, reduce it with all() or any(), or use where_ for a choice \
         of each element"
    );
    Err(Error::invalid("cond", text, at))
}

fn check_index(index: &Tensor, at: Loc) -> Result<(), Error> {
    let ty = index.ty()?;
    if ty.dtype.is_int() && ty.shape.rank() == 0 {
        return Ok(());
    }
    let text = format!("the index is {ty} and must be one integer; convert or reshape it");
    Err(Error::invalid("switch", text, at))
}

/// A branch about to be made.
struct Choice<A> {
    function: &'static str,
    at: Loc,
    index: Result<Tensor, Error>,
    operands: A,
    /// What to call an arm in errors.
    arm: fn(usize) -> String,
}

impl<A: Tree> Choice<A> {
    fn run<R: IntoOutput>(
        self,
        first: impl FnOnce(&A) -> R,
        others: impl IntoIterator<Item = impl FnOnce(&A) -> R>,
    ) -> R::Form<R::Tree> {
        let (recorder, params) = self.begin();
        first(&params).then(|like| {
            let tensors = recorder.finish(&tree::leaves(&like)).and_then(|first| {
                let mut recorded = vec![first];
                for arm in others {
                    let (recorder, params) = self.begin();
                    let output = arm(&params).into_output()?;
                    self.check(&like, &output, recorded.len())?;
                    recorded.push(recorder.finish(&tree::leaves(&output))?);
                }
                self.emit(recorded)
            });
            Due { like, tensors }
        })
    }

    fn begin(&self) -> (Recorder, A) {
        let types = self.index.as_ref().map_err(Error::clone).and_then(|index| {
            index.ty()?;
            leaf_types(&tree::leaves(&self.operands))
        });
        Recorder::begin(self.function, self.at, &self.operands, types)
    }

    /// Checks that an arm gives what the first one does.
    fn check<T: Tree>(&self, first: &T, other: &T, number: usize) -> Result<(), Error> {
        match difference("the result", (first, &(self.arm)(0)), (other, &(self.arm)(number)))? {
            None => Ok(()),
            Some(differences) => {
                let (function, at) = (self.function, self.at);
                Err(Error::ArmsDiffer { function, differences, at })
            }
        }
    }

    fn emit(&self, recorded: Vec<Recorded>) -> Result<Vec<Tensor>, Error> {
        let index = self.index.as_ref().map_err(Error::clone)?;
        let shared = share(recorded)?;
        let operands = [index].into_iter().chain(&shared.consts).chain(tree::leaves(&self.operands));
        apply_all(Branch { arms: shared.programs }.into(), &operands.collect::<Vec<_>>(), self.at)
    }
}

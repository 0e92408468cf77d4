//! Loops over tensors stacked along axis 0.

use super::body::{Recorder, check_carry, share};
use super::chunks::{Chunks, apply_loop};
use super::operands::Operands;
use crate::error::Error;
use crate::tensor::Tensor;
use crate::transform::forward::leaf_types;
use crate::transform::{Due, IntoOutput};
use crate::tree::{self, Tree};
use pullback_ir::ops::control::looping::{Loop, Trip};
use pullback_ir::{Loc, TensorType};

/// What a scan goes over: a tree whose tensors are stacked along axis 0, or nothing, so many times.
#[derive(Clone, Debug)]
pub struct Steps<X> {
    pub(super) xs: X,
    count: Option<usize>,
    pub(super) reverse: bool,
}

impl<X: Tree> Steps<X> {
    /// The slices of these tensors along axis 0, first to last.
    pub fn over(xs: impl Operands<Tree = X>) -> Steps<X> {
        Steps { xs: xs.into_tree(), count: None, reverse: false }
    }

    /// From last to first. What is stacked keeps the positions of the slices it belongs to.
    pub fn reverse(self) -> Steps<X> {
        Steps { reverse: !self.reverse, ..self }
    }

    /// Number of steps: the extent of axis 0, which all tensors must share.
    pub(super) fn len(&self, function: &'static str, at: Loc) -> Result<usize, Error> {
        let mut count = self.count;
        for (leaf, path) in tree::leaves(&self.xs).into_iter().zip(tree::paths(&self.xs)) {
            let ty = leaf.ty()?;
            let place = if path.is_empty() { String::new() } else { format!(" at {path}") };
            let Some(&extent) = ty.shape.first() else {
                let text = format!(
                    "xs{place} is {ty}, which has no axis to go along; give it an axis 0, or capture it"
                );
                return Err(Error::invalid(function, text, at));
            };
            if *count.get_or_insert(extent) != extent {
                let text = format!(
                    "xs{place} is {ty}, and what came before has extent {} along axis 0; all xs must have one",
                    count.unwrap_or(0)
                );
                return Err(Error::invalid(function, text, at));
            }
        }
        count.ok_or_else(|| {
            Error::invalid(
                function,
                "there is no tensor to go over; give the number of steps instead of xs",
                at,
            )
        })
    }

    /// Types of one slice of each tensor.
    fn slice_types(&self) -> Result<Vec<TensorType>, Error> {
        let mut types = leaf_types(&tree::leaves(&self.xs))?;
        for ty in &mut types {
            *ty = ty.with_shape(&ty.shape[1..]);
        }
        Ok(types)
    }
}

impl Steps<()> {
    /// So many steps over nothing.
    pub fn count(n: usize) -> Steps<()> {
        Steps { xs: (), count: Some(n), reverse: false }
    }
}

/// What can be scanned over: a reference to a tree of stacked tensors or a tuple of such references, a number of
/// steps, or [`Steps`], which say more.
pub trait Sequence {
    /// One slice of each tensor.
    type Slice: Tree;

    /// What to go over.
    fn into_steps(self) -> Steps<Self::Slice>;
}

impl<X: Tree> Sequence for Steps<X> {
    type Slice = X;
    fn into_steps(self) -> Steps<X> {
        self
    }
}

impl Sequence for usize {
    type Slice = ();
    fn into_steps(self) -> Steps<()> {
        Steps::count(self)
    }
}

impl<X: Tree> Sequence for &X {
    type Slice = X;
    fn into_steps(self) -> Steps<X> {
        Steps::over(self)
    }
}

macro_rules! sequences {
    ($($($t:ident)*;)*) => {
        $(impl<$($t: Tree),*> Sequence for ($(&$t,)*) {
            type Slice = ($($t,)*);
            fn into_steps(self) -> Steps<Self::Slice> {
                Steps::over(self)
            }
        })*
    };
}

sequences! { A; A B; A B C; A B C D; A B C D E; A B C D E F; }

/// Hands a carry from step to step, and stacks what each step returns besides.
///
/// The body maps the carry and one slice of `xs` to the next carry and a tree; the result is the last carry and those
/// trees, their tensors stacked along axis 0. `xs` is a tree of tensors stacked along axis 0, a number of steps, or
/// [`Steps`]:
///
/// ```
/// use pullback_trace::control::{Steps, scan};
/// use pullback_trace::{Error, Tensor};
///
/// let (x, y) = (Tensor::from([1.0, 2.0, 3.0]), Tensor::from([1.0, 0.0, 1.0]));
/// let (sum, products) = scan(&Tensor::from(0.0), (&x, &y), |sum, (x, y)| (sum + x * y, x * y));
/// assert_eq!((sum.item::<f64>()?, products.to_vec::<f64>()?), (4.0, vec![1.0, 0.0, 3.0]));
///
/// let (power, ()) = scan(&Tensor::from(1.0), 10, |power, ()| (power * 2.0, ()));
/// assert_eq!(power.item::<f64>()?, 1024.0);
///
/// let from_the_end = Steps::over(&x).reverse();
/// let (_, sums) = scan(&Tensor::from(0.0), from_the_end, |sum, x| (sum + x, sum + x));
/// assert_eq!(sums.to_vec::<f64>()?, [6.0, 5.0, 3.0]);
/// # Ok::<(), Error>(())
/// ```
///
/// Errors: a carry that changes its structure or type, extents along axis 0 that differ, and what the body refuses.
#[track_caller]
pub fn scan<I, S, R, Y>(init: I, xs: S, body: impl FnOnce(&I::Tree, &S::Slice) -> R) -> R::Form<(I::Tree, Y)>
where
    I: Operands,
    S: Sequence,
    R: IntoOutput<Tree = (I::Tree, Y)>,
    Y: Tree,
{
    let chunks = init.chunks();
    let (at, carry, steps) = (Loc::caller(), init.into_tree(), xs.into_steps());
    let pass = Pass { function: "scan", at, carry, steps, chunks };
    pass.run(body, |output| output, |carry, ys| (carry, ys))
}

/// The function of each slice of `xs` along axis 0, the results stacked along axis 0: `xs` as for [`scan`].
///
/// One slice is done after the other, with the memory of one; `vmap` does the same work on all at once.
#[track_caller]
pub fn map<S, R>(xs: S, function: impl FnOnce(&S::Slice) -> R) -> R::Form<R::Tree>
where
    S: Sequence,
    R: IntoOutput,
{
    let pass = Pass { function: "map", at: Loc::caller(), carry: (), steps: xs.into_steps(), chunks: None };
    pass.run(|(), x| function(x), |y| ((), y), |(), ys| ys)
}

/// A scan about to be made.
struct Pass<C, X> {
    function: &'static str,
    at: Loc,
    carry: C,
    steps: Steps<X>,
    chunks: Option<Chunks>,
}

impl<C: Tree, X: Tree> Pass<C, X> {
    /// `split` takes what the body returns apart, `join` makes the result.
    fn run<R: IntoOutput, Y: Tree, T: Tree>(
        self,
        body: impl FnOnce(&C, &X) -> R,
        split: impl FnOnce(R::Tree) -> (C, Y),
        join: impl FnOnce(C, Y) -> T,
    ) -> R::Form<T> {
        let Pass { function, at, carry, steps, chunks } = self;
        let count = steps.len(function, at);
        let types = count.clone().and_then(|_| {
            let carries = leaf_types(&tree::leaves(&carry))?;
            Ok([carries, steps.slice_types()?].concat())
        });
        let Steps { xs, reverse, .. } = steps;
        let inputs = (carry, xs);
        let (recorder, params) = Recorder::begin(function, at, &inputs, types);
        body(&params.0, &params.1).then(|output| {
            let (next, y) = split(output);
            let tensors = count.and_then(|count| {
                check_carry(function, at, (&params.0, &next))?;
                let outputs = [tree::leaves(&next), tree::leaves(&y)].concat();
                let mut shared = share(vec![recorder.finish(&outputs)?])?;
                let op = Loop {
                    trip: Trip::Count(count),
                    reverse,
                    consts: shared.consts.len(),
                    carries: tree::count(&next),
                    body: shared.programs.remove(0),
                };
                let operands: Vec<&Tensor> = shared.consts.iter().chain(tree::leaves(&inputs)).collect();
                apply_loop(function, op, &operands, chunks, at)
            });
            Due { like: join(next, y), tensors }
        })
    }
}

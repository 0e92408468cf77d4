//! Functions with a rule of reverse mode.

use super::rule::{Site, custom_rule, with_zeros};
use crate::apply::{apply_all, apply_program};
use crate::control::body::share;
use crate::eager::is_live;
use crate::error::Error;
use crate::tensor::Tensor;
use crate::trace::{Recorded, newest};
use crate::transform::forward::{floats, leaf_types};
use crate::transform::{Args, Function, callable};
use crate::tree::{self, Tree};
use pullback_ir::ops::control::custom_vjp::CustomVjp as Op;
use pullback_ir::{Def, Loc, Value};

/// A function with a transposed derivative of its own: see [`custom_vjp`].
#[derive(Clone)]
pub struct CustomVjp<F, W, B> {
    function: F,
    forward: W,
    backward: B,
    site: Site,
}

/// A function whose gradients are what `backward` says.
///
/// Where the function is differentiated `forward` stands for it: it takes the same arguments and returns the output, and
/// what the backward rule needs besides, its residuals. `backward` takes the residuals and the cotangent of the output,
/// and returns the tuple of the arguments' cotangents; `None` in place of one says that there is no gradient by that
/// argument. What it returns for integers and bools is not looked at.
///
/// Derivatives of the gradient are those of the ops of both rules. Where a residual is the output itself, as forward
/// returns it, they are those of this rule again, so rules need not and must not call their own function.
///
/// A rule that is linear in the cotangent serves forward mode as well, transposed. One that is not, since it clips
/// gradients for example, has no forward mode, and asking for one is an error.
///
/// Tensors that the function or the rules capture are constants to them: differentiating by one of them is refused. Pass
/// it as an argument instead. The rules are recorded along with the function: see [`custom_jvp`](super::custom_jvp).
///
/// ```
/// use pullback_trace::custom::custom_vjp;
/// use pullback_trace::{Error, Tensor, grad};
///
/// // The same value; gradients that pass here are clipped.
/// let clipped = custom_vjp(
///     |x: &Tensor| x.clone(),
///     |x: &Tensor| (x.clone(), ()),
///     |_: &(), ct: &Tensor| (ct.clamp(-1.0, 1.0),),
/// );
/// let f = |x: &Tensor| Ok::<_, Error>(clipped.call((x,))?.powi(3));
/// assert_eq!(grad(f).call((&Tensor::from(2.0),))?.item::<f64>()?, 1.0);
/// # Ok::<(), Error>(())
/// ```
///
/// Errors: an output of forward or cotangents of another structure or type than due, and what the functions refuse.
#[track_caller]
pub fn custom_vjp<F, W, B>(function: F, forward: W, backward: B) -> CustomVjp<F, W, B> {
    CustomVjp { site: Site::of::<F>("custom_vjp", Loc::caller()), function, forward, backward }
}

custom_rule! { CustomVjp<F, W, B> }
callable! { CustomVjp<F, W, B> }

/// The cotangent of an argument of type `T`, or `None` where there is none.
pub trait CotangentOf<T: Tree>: Tree {
    /// The cotangent.
    fn given(&self) -> Option<&T>;
}

impl<T: Tree> CotangentOf<T> for T {
    fn given(&self) -> Option<&T> {
        Some(self)
    }
}

impl<T: Tree> CotangentOf<T> for Option<T> {
    fn given(&self) -> Option<&T> {
        self.as_ref()
    }
}

/// Cotangents of the arguments `A`: a tuple with one entry for each.
pub trait CotangentsOf<A: Args>: Tree {
    /// The cotangents, the arguments themselves where there is none, and where there is one.
    fn complete(&self, arguments: &A) -> (A, Vec<bool>);
}

macro_rules! cotangents {
    ($($($t:ident $c:ident $i:tt)*;)*) => {
        $(impl<$($t: Tree, $c: CotangentOf<$t>),*> CotangentsOf<($($t,)*)> for ($($c,)*) {
            fn complete(&self, arguments: &($($t,)*)) -> (($($t,)*), Vec<bool>) {
                let complete =
                    ($(self.$i.given().unwrap_or(&arguments.$i).rebuild(&mut Tensor::clone),)*);
                (complete, vec![$(self.$i.given().is_some()),*])
            }
        })*
    };
}

cotangents! {
    A C 0;
    A C 0 B D 1;
    A C 0 B D 1 E F 2;
    A C 0 B D 1 E F 2 G H 3;
    A C 0 B D 1 E F 2 G H 3 I J 4;
    A C 0 B D 1 E F 2 G H 3 I J 4 K L 5;
}

/// What the forward rule keeps.
struct Kept<R> {
    residuals: R,
    /// For each tensor of the residuals the result that it is, if it is one.
    is_result: Vec<Option<usize>>,
}

impl<A, F, W, B, R> Function<A> for CustomVjp<F, W, B>
where
    A: Args,
    F: Function<A>,
    R: Tree,
    W: Function<A, Output = (F::Output, R)>,
    B: Function<(R, F::Output)>,
    B::Output: CotangentsOf<A>,
{
    type Output = F::Output;

    fn invoke(&self, arguments: &A) -> Result<F::Output, Error> {
        let (site, at) = (&self.site, self.site.at);
        let may = site.wrt(arguments)?;
        let leaves = tree::leaves(arguments);
        let (output, function) = site.record_function(&self.function, arguments)?;
        let inputs: Vec<&Tensor> = leaves.iter().copied().chain(function.captures.values()).collect();
        if newest(&inputs).is_none() && !is_live(&inputs) {
            return tree::unflatten(&output, apply_program(&function.program, &inputs, at)?);
        }
        let (kept, forward) = self.forward(arguments, &output)?;
        let (wrt, backward) = self.backward(arguments, &output, &kept, &may)?;
        let shared = share(vec![function, forward, backward])?;
        let [program, forward, backward] = &shared.programs[..] else { return Ok(output) };
        let op = Op {
            scope: site.scope(shared.consts.len(), &wrt),
            program: program.clone(),
            forward: Some(forward.clone()),
            backward: backward.clone(),
            results: program.outputs().len(),
        };
        let operands: Vec<&Tensor> = shared.consts.iter().chain(leaves).collect();
        tree::unflatten(&output, apply_all(op.into(), &operands, at)?)
    }
}

impl<F, W, B> CustomVjp<F, W, B> {
    /// Records the forward rule: results, then those residuals that are no results.
    fn forward<A, O, R>(&self, arguments: &A, output: &O) -> Result<(Kept<R>, Recorded), Error>
    where
        A: Args,
        O: Tree,
        R: Tree,
        W: Function<A, Output = (O, R)>,
    {
        let ((found, residuals), mut recorded) = self.site.record_function(&self.forward, arguments)?;
        self.site.check("the forward rule", "the output", (output, "in the function"), &found)?;
        let outputs = recorded.program.outputs();
        let (results, rest) = outputs.split_at(tree::leaves(&found).len());
        // An argument that is handed on as the output is a residual by itself, with a derivative of its own.
        let is_made = |value: &Value| matches!(recorded.program.def(*value), Def::Result(..));
        let position = |value: &Value| results.iter().position(|result| result == value && is_made(value));
        let is_result: Vec<Option<usize>> = rest.iter().map(position).collect();
        let own = rest.iter().zip(&is_result).filter(|(_, is)| is.is_none()).map(|(&value, _)| value);
        let outputs: Vec<Value> = results.iter().copied().chain(own).collect();
        recorded.program = recorded.program.with_outputs(&outputs);
        Ok((Kept { residuals, is_result }, recorded))
    }

    /// Records the backward rule: from results, residuals and cotangents to the cotangents of those arguments that have
    /// one, whose positions come first.
    fn backward<A, O, R>(
        &self,
        arguments: &A,
        output: &O,
        kept: &Kept<R>,
        may: &[usize],
    ) -> Result<(Vec<usize>, Recorded), Error>
    where
        A: Args,
        O: Tree,
        R: Tree,
        B: Function<(R, O)>,
        B::Output: CotangentsOf<A>,
    {
        let site = &self.site;
        let results = leaf_types(&tree::leaves(output))?;
        let residuals = leaf_types(&tree::leaves(&kept.residuals))?;
        let own =
            residuals.iter().zip(&kept.is_result).filter(|(_, is)| is.is_none()).map(|(ty, _)| ty.clone());
        let floats = floats(&results);
        let mut types: Vec<_> = results.iter().cloned().chain(own).collect();
        let known = types.len();
        types.extend(floats.iter().map(|&i| results[i].clone()));
        site.record_rule(types, |mut params| {
            let cotangent = with_zeros(output, &floats, &params.split_off(known))?;
            let mut own = params.split_off(results.len()).into_iter();
            let residuals =
                kept.is_result.iter().filter_map(|is| is.map(|i| params[i].clone()).or_else(|| own.next()));
            let given = (tree::unflatten(&kept.residuals, residuals.collect())?, cotangent);
            let (cotangents, is_given) = self.backward.invoke(&given)?.complete(arguments);
            site.check("the backward rule", "the cotangent", (arguments, "in the arguments"), &cotangents)?;
            let counts = arguments.counts();
            let given: Vec<bool> =
                counts.iter().zip(is_given).flat_map(|(&count, is)| std::iter::repeat_n(is, count)).collect();
            let wrt: Vec<usize> = may.iter().copied().filter(|&position| given[position]).collect();
            let cotangents = tree::leaves(&cotangents);
            let outputs = wrt.iter().map(|&position| cotangents[position].clone()).collect();
            Ok((wrt, outputs))
        })
    }
}

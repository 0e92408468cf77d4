//! Functions with a rule of forward mode.

use super::rule::{Site, custom_rule, with_zeros};
use crate::apply::{apply_all, apply_program};
use crate::control::body::share;
use crate::eager::is_live;
use crate::error::Error;
use crate::tensor::Tensor;
use crate::trace::newest;
use crate::transform::forward::{floats, leaf_types};
use crate::transform::{Args, Function, callable};
use crate::tree;
use pullback_ir::Loc;
use pullback_ir::ops::control::custom_jvp::CustomJvp as Op;

/// A function with a derivative of its own: see [`custom_jvp`].
#[derive(Clone)]
pub struct CustomJvp<F, G> {
    function: F,
    rule: G,
    site: Site,
}

/// A function whose derivative is what `rule` says, in forward mode, reverse mode and under every other transform.
///
/// The rule is a function of the tuple of arguments, the output, and the tuple of the arguments' tangents. It returns the
/// tangent of the output, in which it must be linear: a sum of tangents times values. What it returns for integers and
/// bools is not looked at. The rule's own derivatives are those of its ops, and where it uses the output those of the
/// rule again, so it need not and must not call its own function.
///
/// Tensors that the function or the rule captures are constants to it: differentiating by one of them is refused. Pass it
/// as an argument instead.
///
/// The rule is recorded along with the function, wherever that is recorded into a program, without values; the program
/// holds both.
///
/// ```
/// use pullback_trace::custom::custom_jvp;
/// use pullback_trace::{Error, Tensor, grad};
///
/// // log(1 + exp(x)), whose slope would overflow on the way.
/// let softplus = custom_jvp(
///     |x: &Tensor| (x.exp() + 1.0).ln(),
///     |(x,): &(Tensor,), _: &Tensor, (dx,): &(Tensor,)| dx * x.sigmoid(),
/// );
/// let slope = grad(softplus).call((&Tensor::from(1000.0),))?;
/// assert_eq!(slope.item::<f64>()?, 1.0);
/// # Ok::<(), Error>(())
/// ```
///
/// Errors: a tangent of another structure or type than the output, a rule that is not linear in the tangents, and what
/// the functions refuse.
#[track_caller]
pub fn custom_jvp<F, G>(function: F, rule: G) -> CustomJvp<F, G> {
    CustomJvp { site: Site::of::<F>("custom_jvp", Loc::caller()), function, rule }
}

custom_rule! { CustomJvp<F, G> }
callable! { CustomJvp<F, G> }

impl<A, F, G> Function<A> for CustomJvp<F, G>
where
    A: Args,
    F: Function<A>,
    G: Function<(A, F::Output, A), Output = F::Output>,
{
    type Output = F::Output;

    fn invoke(&self, arguments: &A) -> Result<F::Output, Error> {
        let (site, at) = (&self.site, self.site.at);
        let wrt = site.wrt(arguments)?;
        let leaves = tree::leaves(arguments);
        let types = leaf_types(&leaves)?;
        let (output, function) = site.record_function(&self.function, arguments)?;
        let inputs: Vec<&Tensor> = leaves.iter().copied().chain(function.captures.values()).collect();
        if newest(&inputs).is_none() && !is_live(&inputs) {
            return tree::unflatten(&output, apply_program(&function.program, &inputs, at)?);
        }
        let outputs = leaf_types(&tree::leaves(&output))?;
        let tangents = wrt.iter().map(|&position| types[position].clone());
        let params = types.iter().cloned().chain(outputs.iter().cloned()).chain(tangents).collect();
        let ((), rule) = site.record_rule(params, |mut params| {
            let tangents = with_zeros(arguments, &wrt, &params.split_off(types.len() + outputs.len()))?;
            let given = tree::unflatten(&output, params.split_off(types.len()))?;
            let given = (tree::unflatten(arguments, params)?, given, tangents);
            let tangent = self.rule.invoke(&given)?;
            site.check("the rule", "the tangent", (&given.1, "in the output"), &tangent)?;
            let tangents = tree::leaves(&tangent);
            Ok(((), floats(&outputs).into_iter().map(|i| tangents[i].clone()).collect()))
        })?;
        let shared = share(vec![function, rule])?;
        let [program, rule] = &shared.programs[..] else { return Ok(output) };
        let scope = site.scope(shared.consts.len(), &wrt);
        let op = Op { scope, program: program.clone(), rule: rule.clone() };
        let operands: Vec<&Tensor> = shared.consts.iter().chain(leaves).collect();
        tree::unflatten(&output, apply_all(op.into(), &operands, at)?)
    }
}

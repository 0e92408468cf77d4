//! Elementwise functions of the user's, as plain functions of numbers.

use super::call::{custom_call, register_contracts, register_kernel};
use super::vjp::custom_vjp;
use crate::error::Error;
use crate::tensor::Tensor;
use pullback_ir::ops::control::custom_call::CustomCall;
use pullback_ir::rules::{Cotangents, RuleError};
use pullback_ir::{DType, Value};
use pullback_runtime::{View, ViewMut};

/// An elementwise function: see [`custom_elementwise`].
#[derive(Clone, Debug)]
pub struct Elementwise {
    name: String,
}

/// An elementwise function given by plain functions of numbers: `function(x)`, and `backward(x, y, upstream)`, which is the
/// cotangent of `x` where `y` is the value and `upstream` its cotangent. `backward` must be linear in `upstream`.
///
/// It works on tensors of any shape, f64 or f32 (in f64, rounded at the end), eager, compiled, in lanes and in both modes.
/// Its second derivative is an error, since `backward` has none. The functions are registered as kernels of this process
/// under the name, in place of those there may be, and with `.backward` after it.
///
/// ```
/// use pullback_trace::custom::custom_elementwise;
/// use pullback_trace::{Error, Tensor, grad};
///
/// let scaled_square = custom_elementwise("scaled_square", |x| 3.0 * x * x, |x, _, upstream| 6.0 * x * upstream);
/// let f = |x: &Tensor| scaled_square.apply(x).sum();
/// assert_eq!(f(&Tensor::from([1.0, 2.0])).item::<f64>()?, 15.0);
/// assert_eq!(grad(f).call((&Tensor::from([1.0, 2.0]),))?.to_vec::<f64>()?, [6.0, 12.0]);
/// # Ok::<(), Error>(())
/// ```
pub fn custom_elementwise(
    name: &str,
    function: impl Fn(f64) -> f64 + Send + Sync + 'static,
    backward: impl Fn(f64, f64, f64) -> f64 + Send + Sync + 'static,
) -> Elementwise {
    let elementwise = Elementwise { name: name.to_string() };
    register_kernel(name, 1, move |_, inputs, outputs| map(inputs, outputs, |[x]| function(x)));
    let target = elementwise.backward();
    register_kernel(&target, 1, move |_, inputs, outputs| {
        map(inputs, outputs, |[x, y, ct]| backward(x, y, ct))
    });
    register_contracts(|contracts| {
        for target in [name, &target] {
            contracts.register_batch(target, 1, |call, batcher, args| {
                let (operands, axis) = batcher.aligned(args)?;
                let results = vec![batcher.builder.ty(operands[0]).clone()];
                batcher.one(CustomCall { results, ..call.clone() }, &operands, axis)
            });
        }
        // Linear in the upstream cotangent, element by element, so its own derivative and transpose.
        contracts.register_jvp(&target, 1, |call, lin, equation, tangents| match tangents {
            [None, None, Some(tangent)] => {
                let (x, y) = (lin.residual(equation.operands[0])?, lin.residual(equation.operands[1])?);
                Ok(Cotangents::from_iter([Some(lin.linear.one(call.clone(), &[x, y, *tangent])?)]))
            }
            _ => Err(RuleError::CustomCallRequiresJvpContract { target: call.target.clone() }),
        });
        contracts.register_vjp(&target, 1, |call, builder, args, cotangents| {
            let operands: Vec<Value> =
                args.iter().filter_map(|arg| arg.known).chain(cotangents.iter().copied().flatten()).collect();
            Ok(Cotangents::from_iter([None, None, Some(builder.one(call.clone(), &operands)?)]))
        });
    });
    elementwise
}

impl Elementwise {
    /// The function of each element of a float tensor.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> Tensor {
        let call = |target: &str, operands: &[&Tensor]| -> Result<Tensor, Error> {
            let mut results = custom_call(target, 1, "", operands, &[operands[0].ty()?.clone()])?;
            Ok(results.remove(0))
        };
        let forward = |x: &Tensor| {
            let y = call(&self.name, &[x])?;
            Ok::<_, Error>((y.clone(), (x.clone(), y)))
        };
        let backward = |(x, y): &(Tensor, Tensor), upstream: &Tensor| {
            Ok::<_, Error>((call(&self.backward(), &[x, y, upstream])?,))
        };
        let function = custom_vjp(|x: &Tensor| call(&self.name, &[x]), forward, backward).named(&self.name);
        function.call((x,)).unwrap_or_else(Tensor::failed)
    }

    /// The target of the backward kernel.
    fn backward(&self) -> String {
        format!("{}.backward", self.name)
    }
}

/// Writes a function of the inputs' elements.
fn map<const N: usize>(
    inputs: &[View<'_>],
    outputs: &mut [ViewMut<'_>],
    function: impl Fn([f64; N]) -> f64,
) -> Result<(), String> {
    let [output] = outputs else { return Err("one result is due".into()) };
    let at = |i: usize, value: &dyn Fn(usize, usize) -> f64| function(std::array::from_fn(|n| value(n, i)));
    if inputs.len() != N {
        return Err(format!("{N} operands are due"));
    }
    match output.dtype() {
        DType::F64 => {
            let inputs = slices::<f64>(inputs)?;
            let output = output.as_mut_slice::<f64>().map_err(|error| error.to_string())?;
            for (i, y) in output.iter_mut().enumerate() {
                *y = at(i, &|n, i| inputs[n][i]);
            }
        }
        DType::F32 => {
            let inputs = slices::<f32>(inputs)?;
            let output = output.as_mut_slice::<f32>().map_err(|error| error.to_string())?;
            for (i, y) in output.iter_mut().enumerate() {
                *y = at(i, &|n, i| f64::from(inputs[n][i])) as f32;
            }
        }
        DType::Bool | DType::I32 | DType::I64 | DType::U32 | DType::U64 => {
            return Err(format!("it takes floats, and this is {}; convert it with to_dtype", output.dtype()));
        }
    }
    Ok(())
}

fn slices<'a, T: pullback_runtime::Element>(inputs: &[View<'a>]) -> Result<Vec<&'a [T]>, String> {
    inputs.iter().map(|input| input.as_slice::<T>().map_err(|error| error.to_string())).collect()
}

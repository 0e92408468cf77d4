//! Derivatives as compositions of linearize and transpose.
//!
//! Each comes in two forms: from a program to a program, and emitted into a builder, where the derivative is part
//! of something larger.

use crate::control::custom_vjp::transposed;
use crate::control::nested::Nested;
use crate::error::AdError;
use crate::linearize::{Failure, Linearized, check_wrt, linearize_program};
use crate::options::Autodiff;
use crate::transpose::{Ends, transpose_into};
use crate::verify_linear::verify_linear;
use pullback_ir::passes::prune;
use pullback_ir::{Builder, Loc, Program, Stage, TensorType, TypeError, Value};
use std::sync::Arc;

/// A program linearized at the arguments it was given in some builder: its outputs there, and its derivative,
/// which can be applied forwards and backwards any number of times.
#[derive(Clone, Debug)]
pub struct Linearization {
    /// The program's outputs.
    pub outputs: Vec<Value>,
    /// The derivative, for [`Autodiff::push_forward`] and [`Autodiff::pull_back`].
    pub linearized: Linearized,
    pub(crate) residuals: Vec<Value>,
}

impl Linearization {
    fn at(builder: &mut Builder, linearized: Linearized, args: &[Value]) -> Result<Linearization, TypeError> {
        let mut outputs = builder.inline(&linearized.primal, args)?;
        let residuals = outputs.split_off(linearized.outputs);
        Ok(Linearization { outputs, linearized, residuals })
    }
}

impl Autodiff {
    /// Splits a program into its value and its derivative with respect to the parameters of these numbers.
    pub fn linearize(&self, program: &Program, wrt: &[usize]) -> Result<Linearized, AdError> {
        check_wrt(program, wrt)?;
        let linearized = linearize_program(self, &mut Nested::default(), program, wrt)?;
        if cfg!(debug_assertions) {
            verify_linear(&linearized.linear, linearized.residuals())?;
        }
        Ok(linearized)
    }

    /// The transpose of a linear program whose first `residuals` parameters are known: from
    /// `residuals.., tangents.. -> tangents` to `residuals.., cotangents.. -> cotangents of the tangents`.
    pub fn transpose(&self, linear: &Program, residuals: usize) -> Result<Program, AdError> {
        if residuals > linear.params().len() {
            let (expected, found) = (residuals, linear.params().len());
            return Err(AdError::WrongCount { what: "parameters", expected, found });
        }
        verify_linear(linear, residuals)?;
        let mut builder = Builder::new(&format!("{}_transpose", linear.name()));
        let mut args: Vec<Option<Value>> =
            linear.params()[..residuals].iter().map(|&v| Some(builder.param(linear.ty(v).clone()))).collect();
        args.resize(linear.params().len(), None);
        let cotangents: Vec<Option<Value>> =
            linear.outputs().iter().map(|&v| Some(builder.param(linear.ty(v).clone()))).collect();
        let ends = Ends { starts: &vec![None; args.len()], cotangents: &cotangents };
        let found = transpose_into(self, &mut Nested::default(), &mut builder, linear, &args, ends)?;
        let types = &linear.param_types()[residuals..];
        let outputs = instantiate(&mut builder, &found[residuals..], types)?;
        Ok(end(builder, &outputs))
    }

    /// The transpose of a program by the parameters after the first `known`: from `known.., cotangents of the outputs..`
    /// to cotangents of those parameters. `None` if it is not linear in them, and an error that names the place if it adds
    /// something known, or hands that through a loop together with what depends on them.
    pub fn transpose_at(
        &self,
        program: &Arc<Program>,
        known: usize,
    ) -> Result<Option<Arc<Program>>, AdError> {
        // What else this refuses may be linear all the same: it looks at ops one by one.
        if let Err(error @ AdError::Affine { .. }) = verify_linear(program, known) {
            return Err(error);
        }
        transposed(self, &mut Nested::default(), program, known).map_err(|failure| match failure {
            Failure::Rule(source) => AdError::Rule { origin: Box::new(Loc::UNKNOWN), source },
            Failure::Nested(error) => *error,
        })
    }

    /// Emits a program at these arguments and keeps its derivative at hand.
    pub fn linearize_into(
        &self,
        builder: &mut Builder,
        program: &Program,
        args: &[Value],
        wrt: &[usize],
    ) -> Result<Linearization, AdError> {
        Ok(Linearization::at(builder, self.linearize(program, wrt)?, args)?)
    }

    /// The tangents of the outputs, given those of the parameters in `wrt` (`None`: zero).
    pub fn push_forward(
        &self,
        builder: &mut Builder,
        at: &Linearization,
        tangents: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, AdError> {
        at.linearized.check_forward()?;
        let linear = &at.linearized.linear;
        let types = &linear.param_types()[at.residuals.len()..];
        check_given(builder, "tangents", types, tangents)?;
        let mut all = vec![None; at.outputs.len()];
        if tangents.iter().all(Option::is_none) {
            return Ok(all);
        }
        let mut args = at.residuals.clone();
        args.extend(instantiate(builder, tangents, types)?);
        let found = builder.inline(linear, &args)?;
        for (&i, tangent) in at.linearized.active.iter().zip(found) {
            all[i] = Some(tangent);
        }
        Ok(all)
    }

    /// The cotangents of the parameters in `wrt`, given those of the outputs (`None`: zero).
    pub fn pull_back(
        &self,
        builder: &mut Builder,
        at: &Linearization,
        cotangents: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, AdError> {
        let types: Vec<TensorType> = at.outputs.iter().map(|&v| builder.ty(v).clone()).collect();
        check_given(builder, "cotangents", &types, cotangents)?;
        let linear = &at.linearized.linear;
        let mut args: Vec<Option<Value>> = at.residuals.iter().map(|&v| Some(v)).collect();
        args.resize(linear.params().len(), None);
        let seeds: Vec<Option<Value>> = at.linearized.active.iter().map(|&i| cotangents[i]).collect();
        let ends = Ends { starts: &vec![None; args.len()], cotangents: &seeds };
        let mut found = transpose_into(self, &mut Nested::default(), builder, linear, &args, ends)?;
        Ok(found.split_off(at.residuals.len()))
    }

    /// Emits the value of a program and the gradients of its output with respect to the parameters in `wrt`.
    /// The first output is the loss; others go along.
    pub fn value_and_grad_into(
        &self,
        builder: &mut Builder,
        program: &Program,
        args: &[Value],
        wrt: &[usize],
    ) -> Result<(Vec<Value>, Vec<Value>), AdError> {
        check_wrt(program, wrt)?;
        check_loss(program, program.output_types().get(..1).unwrap_or_default())?;
        let at = Linearization::at(builder, self.linearize(program, wrt)?.keep_least()?, args)?;
        let mut cotangents = vec![None; at.outputs.len()];
        cotangents[0] = Some(self.seed(builder, program, &at)?);
        let found = self.pull_back(builder, &at, &cotangents)?;
        let types = wrt_types(program, wrt);
        let gradients = instantiate(builder, &found, &types)?;
        Ok((at.outputs, gradients))
    }

    /// The cotangent of the loss: one.
    fn seed(&self, builder: &mut Builder, program: &Program, at: &Linearization) -> Result<Value, AdError> {
        let outer = builder.loc();
        let origin = program.producer(program.outputs()[0]);
        builder.set_loc(origin.map_or(outer, |node| node.loc.via(Stage::Seed.name(), node.op.name())));
        let one = self.hooks.during(Stage::Seed, builder, |b| b.number_like(at.outputs[0], 1.0));
        builder.set_loc(outer);
        Ok(one?)
    }

    /// Forward mode: `params.., tangents of wrt.. -> outputs.., tangents of the float outputs..`.
    pub fn jvp(&self, program: &Program, wrt: &[usize]) -> Result<Program, AdError> {
        check_wrt(program, wrt)?;
        let (mut builder, args) = begin(program, "jvp");
        let tangents: Vec<Option<Value>> =
            wrt_types(program, wrt).into_iter().map(|ty| Some(builder.param(ty))).collect();
        let at = self.linearize_into(&mut builder, program, &args, wrt)?;
        let found = self.push_forward(&mut builder, &at, &tangents)?;
        let (found, types): (Vec<_>, Vec<_>) =
            found.into_iter().zip(program.output_types()).filter(|(_, ty)| ty.dtype.is_float()).unzip();
        let tangents = instantiate(&mut builder, &found, &types)?;
        Ok(end(builder, &[at.outputs, tangents].concat()))
    }

    /// Reverse mode: `params.., cotangents of the float outputs.. -> outputs.., cotangents of wrt..`.
    pub fn vjp(&self, program: &Program, wrt: &[usize]) -> Result<Program, AdError> {
        check_wrt(program, wrt)?;
        let (mut builder, args) = begin(program, "vjp");
        let cotangents: Vec<Option<Value>> = program
            .output_types()
            .into_iter()
            .map(|ty| ty.dtype.is_float().then(|| builder.param(ty)))
            .collect();
        let at = Linearization::at(&mut builder, self.linearize(program, wrt)?.keep_least()?, &args)?;
        let found = self.pull_back(&mut builder, &at, &cotangents)?;
        let found = instantiate(&mut builder, &found, &wrt_types(program, wrt))?;
        Ok(end(builder, &[at.outputs, found].concat()))
    }

    /// The gradients of the only output, a float scalar: `params.. -> gradients of wrt..`.
    pub fn grad(&self, program: &Program, wrt: &[usize]) -> Result<Program, AdError> {
        check_loss(program, &program.output_types())?;
        let (mut builder, args) = begin(program, "grad");
        let (_, gradients) = self.value_and_grad_into(&mut builder, program, &args, wrt)?;
        Ok(end(builder, &gradients))
    }

    /// The only output, a float scalar, and its gradients: `params.. -> output, gradients of wrt..`.
    pub fn value_and_grad(&self, program: &Program, wrt: &[usize]) -> Result<Program, AdError> {
        check_loss(program, &program.output_types())?;
        let (mut builder, args) = begin(program, "value_and_grad");
        let (outputs, gradients) = self.value_and_grad_into(&mut builder, program, &args, wrt)?;
        Ok(end(builder, &[outputs, gradients].concat()))
    }

    /// The Hessian of the only output, a float scalar, times a direction, forward over reverse:
    /// `params.., direction in wrt.. -> products`, without the Hessian itself.
    pub fn hvp(&self, program: &Program, wrt: &[usize]) -> Result<Program, AdError> {
        let along = self.jvp(&self.grad(program, wrt)?, wrt)?;
        let products = along.outputs()[wrt.len()..].to_vec();
        Ok(prune(&along.with_outputs(&products)))
    }
}

/// [`Autodiff::linearize`] without contracts and hooks.
pub fn linearize(program: &Program, wrt: &[usize]) -> Result<Linearized, AdError> {
    Autodiff::default().linearize(program, wrt)
}

/// [`Autodiff::transpose`] without contracts and hooks.
pub fn transpose(linear: &Program, residuals: usize) -> Result<Program, AdError> {
    Autodiff::default().transpose(linear, residuals)
}

/// [`Autodiff::jvp`] without contracts and hooks.
pub fn jvp(program: &Program, wrt: &[usize]) -> Result<Program, AdError> {
    Autodiff::default().jvp(program, wrt)
}

/// [`Autodiff::vjp`] without contracts and hooks.
pub fn vjp(program: &Program, wrt: &[usize]) -> Result<Program, AdError> {
    Autodiff::default().vjp(program, wrt)
}

/// [`Autodiff::grad`] without contracts and hooks.
pub fn grad(program: &Program, wrt: &[usize]) -> Result<Program, AdError> {
    Autodiff::default().grad(program, wrt)
}

/// [`Autodiff::value_and_grad`] without contracts and hooks.
pub fn value_and_grad(program: &Program, wrt: &[usize]) -> Result<Program, AdError> {
    Autodiff::default().value_and_grad(program, wrt)
}

/// [`Autodiff::hvp`] without contracts and hooks.
pub fn hvp(program: &Program, wrt: &[usize]) -> Result<Program, AdError> {
    Autodiff::default().hvp(program, wrt)
}

/// A builder with the parameters of a program. All of them are kept, used or not.
pub(crate) fn begin(program: &Program, suffix: &str) -> (Builder, Vec<Value>) {
    let mut builder = Builder::new(&format!("{}_{suffix}", program.name()));
    let args = program.param_types().into_iter().map(|ty| builder.param(ty)).collect();
    (builder, args)
}

/// The program without what the composition turned out not to need: it owes its outputs, and of the checks those that
/// they depend on.
pub(crate) fn end(builder: Builder, outputs: &[Value]) -> Program {
    prune(&builder.finish(outputs))
}

pub(crate) fn wrt_types(program: &Program, wrt: &[usize]) -> Vec<TensorType> {
    wrt.iter().map(|&i| program.ty(program.params()[i]).clone()).collect()
}

/// Constants in place of symbolic zeros.
fn instantiate(
    builder: &mut Builder,
    values: &[Option<Value>],
    types: &[TensorType],
) -> Result<Vec<Value>, AdError> {
    let instance = |(value, ty): (&Option<Value>, &TensorType)| match *value {
        Some(value) => Ok(value),
        None => Ok(builder.number(ty, 0.0)?),
    };
    values.iter().zip(types).map(instance).collect()
}

/// Checks that these are the outputs a gradient can be taken of.
fn check_loss(program: &Program, outputs: &[TensorType]) -> Result<(), AdError> {
    if let [loss] = outputs
        && loss.dtype.is_float()
        && loss.shape.rank() == 0
    {
        return Ok(());
    }
    let list: Vec<String> = outputs.iter().map(|ty| ty.to_string()).collect();
    let found = if list.is_empty() { "nothing".to_string() } else { list.join(", ") };
    Err(AdError::GradientRequiresScalarOutput { program: program.name().to_string(), found })
}

/// Checks tangents or cotangents that were handed in.
fn check_given(
    builder: &Builder,
    what: &'static str,
    due: &[TensorType],
    given: &[Option<Value>],
) -> Result<(), AdError> {
    if due.len() != given.len() {
        return Err(AdError::WrongCount { what, expected: due.len(), found: given.len() });
    }
    for (index, (expected, &value)) in due.iter().zip(given).enumerate() {
        if let Some(value) = value
            && builder.ty(value) != expected
        {
            let (expected, found) = (expected.clone(), builder.ty(value).clone());
            return Err(AdError::WrongType { what, index, expected, found });
        }
    }
    Ok(())
}

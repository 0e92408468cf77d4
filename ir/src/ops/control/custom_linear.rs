//! A linear function known by its transpose: the derivative of a `custom_vjp`. Reverse mode runs the transpose; forward
//! mode needs a program of its own, and may have none.

use super::check_signature;
use crate::batch::{Batched, BatchedValues, Batcher};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Problem, TypeError};
use crate::ops::control::call::Call;
use crate::ops::{Attr, AttrError, AttrReader, Equation, Primitive, Types, arity};
use crate::program::{Program, Value, Values};
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, Linearizer, RuleError};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::TensorType;
use std::sync::Arc;

/// `known.., tangents.. -> results..`, linear in the tangents.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CustomLinear {
    /// Name of the user's function, for errors.
    pub name: String,
    /// Number of operands before the tangents.
    pub known: usize,
    /// `known.., tangents.. -> results..`. Without it the op has a transpose and no value.
    pub forward: Option<Arc<Program>>,
    /// `known.., cotangents of the results.. -> cotangents of the tangents..`
    pub backward: Arc<Program>,
    /// What the forward program inverts, if it solves equations. Their derivative by the known operands is then that of
    /// the solution, however it was found; without it the derivative is that of the forward program.
    pub inverse_of: Option<Operator>,
}

/// A linear operator, both ways round.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Operator {
    /// `known.., results.. -> tangents..`
    pub apply: Arc<Program>,
    /// `known.., cotangents of the tangents.. -> cotangents of the results..`
    pub transpose: Arc<Program>,
}

/// `f(x, t)` elementwise.
fn sample_program(
    name: &str,
    f: impl FnOnce(&mut Builder, Value, Value) -> Result<Value, TypeError>,
) -> Result<Arc<Program>, TypeError> {
    let mut b = Builder::new(name);
    let ty = TensorType::new(DType::F64, [3]);
    let (x, t) = (b.param(ty.clone()), b.param(ty));
    let result = f(&mut b, x, t)?;
    Ok(Arc::new(b.finish(&[result])))
}

/// The solution `y` of `x * y = t`.
fn sample_solver() -> Result<CustomLinear, TypeError> {
    let divide = |name| sample_program(name, |b, x, t| b.div(t, x));
    let multiply = |name| sample_program(name, Builder::mul);
    let operator = Operator { apply: multiply("apply")?, transpose: multiply("apply_transpose")? };
    Ok(CustomLinear {
        name: "divide".into(),
        known: 1,
        forward: Some(divide("solve")?),
        backward: divide("solve_transpose")?,
        inverse_of: Some(operator),
    })
}

/// `(x, dx) -> x * dx`
fn sample() -> Result<CustomLinear, TypeError> {
    let scale = |name| sample_program(name, Builder::mul);
    let (forward, backward) = (Some(scale("scale")?), scale("scale_backward")?);
    Ok(CustomLinear { name: "scale".into(), known: 1, forward, backward, inverse_of: None })
}

impl CustomLinear {
    fn result_types(&self) -> Vec<TensorType> {
        self.backward.param_types().split_off(self.known.min(self.backward.params().len()))
    }

    /// The op that solves the transposed equations.
    fn transposed(&self) -> Option<CustomLinear> {
        let (Some(forward), Some(operator)) = (&self.forward, &self.inverse_of) else { return None };
        Some(CustomLinear {
            name: self.name.clone(),
            known: self.known,
            forward: Some(self.backward.clone()),
            backward: forward.clone(),
            inverse_of: Some(Operator {
                apply: operator.transpose.clone(),
                transpose: operator.apply.clone(),
            }),
        })
    }
}

impl Primitive for CustomLinear {
    fn names() -> Vec<&'static str> {
        vec!["custom_linear"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<CustomLinear, AttrError> {
        Ok(CustomLinear {
            name: attrs.text_or_empty("name")?,
            known: attrs.size_or("known", 0)?,
            forward: attrs.program_if_any("forward")?,
            backward: attrs.program("backward")?,
            inverse_of: match attrs.program_if_any("operator")? {
                None => None,
                Some(apply) => Some(Operator { apply, transpose: attrs.program("operator_transpose")? }),
            },
        })
    }

    fn samples() -> Vec<Sample> {
        let samples = |(op, domain): (CustomLinear, Domain)| {
            let operand = |ty| SampleOperand::new(ty, domain);
            let operands = op.backward.param_types().into_iter().map(operand).collect();
            Sample::new(op, operands)
        };
        let scale = sample().map(|op| (op, Domain::Uniform(-2.0, 2.0)));
        let divide = sample_solver().map(|op| (op, Domain::Uniform(0.5, 2.0)));
        [scale, divide].into_iter().flatten().map(samples).collect()
    }

    fn name(&self) -> &'static str {
        "custom_linear"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        let mut attrs = Vec::new();
        if !self.name.is_empty() {
            attrs.push(("name", Attr::Text(self.name.clone())));
        }
        if self.known > 0 {
            attrs.push(("known", Attr::Int(self.known as i64)));
        }
        attrs.extend(self.forward.iter().map(|forward| ("forward", Attr::Program(forward.clone()))));
        attrs.push(("backward", Attr::Program(self.backward.clone())));
        if let Some(Operator { apply, transpose }) = &self.inverse_of {
            attrs.push(("operator", Attr::Program(apply.clone())));
            attrs.push(("operator_transpose", Attr::Program(transpose.clone())));
        }
        attrs
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, self.known.saturating_add(self.backward.outputs().len()))?;
        let types: Vec<TensorType> = operands.iter().map(|&ty| ty.clone()).collect();
        let (known, tangents) = types.split_at(self.known);
        let results = self.result_types();
        let no_float = |ty: &&TensorType| !ty.dtype.is_float();
        if let Some(ty) = tangents.iter().chain(&results).find(no_float) {
            return Err(Problem::Constraint(format!("{ty} has no tangent; only floats have")));
        }
        check_signature("the backward program", &self.backward, &[known, &results].concat(), tangents)?;
        if let Some(forward) = &self.forward {
            check_signature("the forward program", forward, &types, &results)?;
        }
        if let Some(Operator { apply, transpose }) = &self.inverse_of {
            check_signature("the operator", apply, &[known, &results].concat(), tangents)?;
            check_signature("the operator's transpose", transpose, &types, &results)?;
            if self.forward.is_none() {
                return Err(Problem::Constraint(
                    "there is an operator to invert and no forward program".into(),
                ));
            }
        }
        Ok(results.into())
    }

    fn linearize(
        &self,
        _: &mut Linearizer<'_>,
        _: Equation<'_>,
        _: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        Err(RuleError::RuleElsewhere { op: self.name() })
    }

    fn transpose(
        &self,
        b: &mut Builder,
        args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let (known, tangents) = args.split_at(self.known);
        let mut operands = Values::new();
        for (operand, arg) in known.iter().enumerate() {
            operands.push(arg.known.ok_or(RuleError::NotLinear { op: self.name(), operand })?);
        }
        for (cotangent, ty) in cotangents.iter().zip(self.result_types()) {
            operands.push(cotangent.map_or_else(|| b.zeros(&ty), Ok)?);
        }
        let found = match self.transposed() {
            Some(transposed) => b.emit(transposed, &operands)?,
            None => b.emit(Call::new(self.backward.clone()), &operands)?,
        };
        let found = found.into_iter().zip(tangents).map(|(ct, arg)| arg.is_linear().then_some(ct));
        Ok(known.iter().map(|_| None).chain(found).collect())
    }

    fn batch(&self, _: &mut Batcher<'_>, _: &[Batched]) -> Result<BatchedValues, RuleError> {
        Err(RuleError::RuleElsewhere { op: self.name() })
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        self.forward.clone().map_or(Recipe::Kernel, Recipe::Call)
    }

    fn programs(&self) -> Vec<&Arc<Program>> {
        let operator = self.inverse_of.iter().flat_map(|operator| [&operator.apply, &operator.transpose]);
        self.forward.iter().chain([&self.backward]).chain(operator).collect()
    }

    fn map_programs(&self, map: &mut dyn FnMut(&Arc<Program>) -> Arc<Program>) -> CustomLinear {
        CustomLinear {
            name: self.name.clone(),
            known: self.known,
            forward: self.forward.as_ref().map(&mut *map),
            backward: map(&self.backward),
            inverse_of: self.inverse_of.as_ref().map(|Operator { apply, transpose }| Operator {
                apply: map(apply),
                transpose: map(transpose),
            }),
        }
    }
}

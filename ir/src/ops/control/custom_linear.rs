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
}

/// `(x, dx) -> x * dx`
fn sample() -> Result<CustomLinear, TypeError> {
    let scale = |name| {
        let mut b = Builder::new(name);
        let ty = TensorType::new(DType::F64, [3]);
        let (x, t) = (b.param(ty.clone()), b.param(ty));
        let product = b.mul(x, t)?;
        Ok::<_, TypeError>(Arc::new(b.finish(&[product])))
    };
    let (forward, backward) = (Some(scale("scale")?), scale("scale_backward")?);
    Ok(CustomLinear { name: "scale".into(), known: 1, forward, backward })
}

impl CustomLinear {
    fn result_types(&self) -> Vec<TensorType> {
        self.backward.param_types().split_off(self.known.min(self.backward.params().len()))
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
        })
    }

    fn samples() -> Vec<Sample> {
        let Ok(op) = sample() else { return Vec::new() };
        let operand = |ty| SampleOperand::new(ty, Domain::Uniform(-2.0, 2.0));
        let operands = op.backward.param_types().into_iter().map(operand).collect();
        vec![Sample::new(op, operands)]
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
        let found = b.emit(Call::new(self.backward.clone()), &operands)?;
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
        self.forward.iter().chain([&self.backward]).collect()
    }

    fn map_programs(&self, map: &mut dyn FnMut(&Arc<Program>) -> Arc<Program>) -> CustomLinear {
        CustomLinear {
            name: self.name.clone(),
            known: self.known,
            forward: self.forward.as_ref().map(&mut *map),
            backward: map(&self.backward),
        }
    }
}

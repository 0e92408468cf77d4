//! A nested program whose transposed derivative is another program, given by the user as a rule of reverse mode. Its
//! own rules live with the transforms.

use super::custom_jvp::sample_program;
use super::custom_rule::{Scope, float_types};
use super::{check_params, check_signature};
use crate::batch::{Batched, BatchedValues, Batcher};
use crate::builder::Builder;
use crate::error::{Problem, TypeError};
use crate::ops::elementwise::unary::Unary;
use crate::ops::{Attr, AttrError, AttrReader, Equation, Primitive, Types};
use crate::program::{Program, Value};
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, Linearizer, RuleError, not_linear};
use crate::sample::Sample;
use crate::shape::TensorType;
use std::sync::Arc;

/// The outputs of `program`, with the derivative that `backward` gives, transposed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CustomVjp {
    /// Whose derivative it is, and by which operands.
    pub scope: Scope,
    /// `operands.. -> results..`, and residuals after them if there is no `forward`.
    pub program: Arc<Program>,
    /// `operands.. -> results.., residuals..`: what stands for `program` where the op is differentiated.
    pub forward: Option<Arc<Program>>,
    /// `captured operands.., results.., residuals.., cotangents of the float results.. -> cotangents of scope.wrt`. It
    /// need not be linear in the cotangents.
    pub backward: Arc<Program>,
    /// Number of results before the residuals.
    pub results: usize,
}

impl CustomVjp {
    /// The op that gives its residuals as well.
    pub fn with_residuals(&self) -> CustomVjp {
        let program = self.forward.as_ref().unwrap_or(&self.program).clone();
        CustomVjp { program, forward: None, ..self.clone() }
    }
}

/// `(x, y, n) -> (sin(x) * y, n)`, whose rule keeps the cosine and `y`, and uses the result.
fn sample() -> Result<CustomVjp, TypeError> {
    let program = Arc::new(sample_program()?);
    let types = program.param_types();
    let mut b = Builder::new("product_forward");
    let params: Vec<Value> = types.iter().map(|ty| b.param(ty.clone())).collect();
    let results = b.inline(&program, &params)?;
    let cos = b.unary(Unary::Cos, params[0])?;
    let forward = Arc::new(b.finish(&[results[0], results[1], cos, params[1]]));
    let mut b = Builder::new("product_backward");
    let product = b.param(types[0].clone());
    b.param(types[2].clone());
    let (cos, y, ct) = (b.param(types[0].clone()), b.param(types[1].clone()), b.param(types[0].clone()));
    let slope = b.mul(cos, y)?;
    let by_x = b.mul(ct, slope)?;
    let sin = b.div(product, y)?;
    let by_y = b.mul(sin, ct)?;
    let backward = Arc::new(b.finish(&[by_x, by_y]));
    let scope = Scope { name: "product".into(), captured: 0, wrt: vec![0, 1] };
    Ok(CustomVjp { scope, program, forward: Some(forward), backward, results: 2 })
}

impl Primitive for CustomVjp {
    fn names() -> Vec<&'static str> {
        vec!["custom_vjp"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<CustomVjp, AttrError> {
        let scope = Scope::parse(attrs)?;
        let program = attrs.program("program")?;
        let forward = attrs.program_if_any("forward")?;
        let results = attrs.size_or("results", program.outputs().len())?;
        Ok(CustomVjp { scope, program, forward, backward: attrs.program("backward")?, results })
    }

    fn samples() -> Vec<Sample> {
        let Ok(op) = sample() else { return Vec::new() };
        let types = op.program.param_types();
        let saved = op.with_residuals();
        [op, saved].map(|op| Sample::new(op, super::custom_jvp::sample_operands(&types))).into()
    }

    fn name(&self) -> &'static str {
        "custom_vjp"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        let mut attrs = self.scope.attrs();
        attrs.push(("program", Attr::Program(self.program.clone())));
        attrs.extend(self.forward.iter().map(|forward| ("forward", Attr::Program(forward.clone()))));
        if self.results != self.program.outputs().len() {
            attrs.push(("results", Attr::Int(self.results as i64)));
        }
        attrs.push(("backward", Attr::Program(self.backward.clone())));
        attrs
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        let types = self.scope.check(&self.program, operands)?;
        let saved = self.forward.as_ref().unwrap_or(&self.program);
        check_params("the forward rule", saved, &types)?;
        let (given, kept) = (self.program.output_types(), saved.output_types());
        if self.results > kept.len() || self.forward.is_some() && kept[..self.results] != given[..] {
            let text = format!(
                "the forward rule gives {kept:?} and the program {given:?}; return the {} results first, then residuals",
                self.results
            );
            return Err(Problem::Constraint(text));
        }
        let mut params = types[..self.scope.captured].to_vec();
        params.extend(kept.iter().cloned());
        params.extend(float_types(&kept[..self.results]));
        check_signature("the backward rule", &self.backward, &params, &self.scope.wrt_types(operands))?;
        Ok(given.into())
    }

    fn linearize(
        &self,
        _: &mut Linearizer<'_>,
        _: Equation<'_>,
        _: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        Err(RuleError::RuleElsewhere { op: self.name() })
    }

    fn transpose(&self, _: &mut Builder, args: &[Arg], _: &[Option<Value>]) -> Result<Cotangents, RuleError> {
        Err(not_linear(self.name(), args))
    }

    fn batch(&self, _: &mut Batcher<'_>, _: &[Batched]) -> Result<BatchedValues, RuleError> {
        Err(RuleError::RuleElsewhere { op: self.name() })
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Call(self.program.clone())
    }

    fn programs(&self) -> Vec<&Arc<Program>> {
        [&self.program].into_iter().chain(&self.forward).chain([&self.backward]).collect()
    }

    fn map_programs(&self, map: &mut dyn FnMut(&Arc<Program>) -> Arc<Program>) -> CustomVjp {
        CustomVjp {
            scope: self.scope.clone(),
            program: map(&self.program),
            forward: self.forward.as_ref().map(&mut *map),
            backward: map(&self.backward),
            results: self.results,
        }
    }
}

//! A nested program whose derivative is another program, given by the user as a rule of forward mode. Its own rules
//! live with the transforms.

use super::custom_rule::{Scope, float_types};
use crate::batch::{Batched, BatchedValues, Batcher};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Problem, TypeError};
use crate::ops::elementwise::unary::Unary;
use crate::ops::{Attr, AttrError, AttrReader, Equation, Primitive, Types};
use crate::program::{Program, Value};
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, Linearizer, RuleError, not_linear};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::TensorType;
use std::sync::Arc;

/// The outputs of `program`, with the derivative that `rule` gives.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CustomJvp {
    /// Whose derivative it is, and by which operands.
    pub scope: Scope,
    /// `operands.. -> results..`
    pub program: Arc<Program>,
    /// `operands.., results.., tangents of scope.wrt.. -> tangents of the float results..`, linear in the tangents.
    pub rule: Arc<Program>,
}

/// `(x, y, n) -> (sin(x) * y, n)`
pub(super) fn sample_program() -> Result<Program, TypeError> {
    let (ty, int) = (TensorType::new(DType::F64, [3]), TensorType::scalar(DType::I64));
    let mut b = Builder::new("product");
    let (x, y, n) = (b.param(ty.clone()), b.param(ty), b.param(int));
    let sin = b.unary(Unary::Sin, x)?;
    let product = b.mul(sin, y)?;
    Ok(b.finish(&[product, n]))
}

/// Operands on which the sample program is smooth.
pub(super) fn sample_operands(types: &[TensorType]) -> Vec<SampleOperand> {
    let operand = |ty: &TensorType| {
        let domain = if ty.dtype.is_float() { Domain::Uniform(0.5, 2.0) } else { Domain::Any };
        SampleOperand::new(ty.clone(), domain)
    };
    types.iter().map(operand).collect()
}

/// The sample program with a rule that uses the result: `dx * cos(x) * y + dy * result / y`.
fn sample() -> Result<CustomJvp, TypeError> {
    let program = Arc::new(sample_program()?);
    let (ty, int) = (TensorType::new(DType::F64, [3]), TensorType::scalar(DType::I64));
    let mut b = Builder::new("product_jvp");
    let (x, y) = (b.param(ty.clone()), b.param(ty.clone()));
    b.param(int.clone());
    let product = b.param(ty.clone());
    b.param(int);
    let (dx, dy) = (b.param(ty.clone()), b.param(ty));
    let cos = b.unary(Unary::Cos, x)?;
    let slope = b.mul(cos, y)?;
    let by_x = b.mul(dx, slope)?;
    let sin = b.div(product, y)?;
    let by_y = b.mul(sin, dy)?;
    let tangent = b.add(by_x, by_y)?;
    let rule = Arc::new(b.finish(&[tangent]));
    Ok(CustomJvp { scope: Scope { name: "product".into(), captured: 0, wrt: vec![0, 1] }, program, rule })
}

impl Primitive for CustomJvp {
    fn names() -> Vec<&'static str> {
        vec!["custom_jvp"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<CustomJvp, AttrError> {
        let scope = Scope::parse(attrs)?;
        Ok(CustomJvp { scope, program: attrs.program("program")?, rule: attrs.program("rule")? })
    }

    fn samples() -> Vec<Sample> {
        let Ok(op) = sample() else { return Vec::new() };
        let operands = sample_operands(&op.program.param_types());
        vec![Sample::new(op, operands)]
    }

    fn name(&self) -> &'static str {
        "custom_jvp"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        let programs =
            [("program", Attr::Program(self.program.clone())), ("rule", Attr::Program(self.rule.clone()))];
        self.scope.attrs().into_iter().chain(programs).collect()
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        let results = self.program.output_types();
        let mut params = self.scope.check(&self.program, operands)?;
        params.extend(results.iter().cloned());
        params.extend(self.scope.wrt_types(operands));
        super::check_signature("the rule", &self.rule, &params, &float_types(&results))?;
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
        vec![&self.program, &self.rule]
    }

    fn map_programs(&self, map: &mut dyn FnMut(&Arc<Program>) -> Arc<Program>) -> CustomJvp {
        CustomJvp { scope: self.scope.clone(), program: map(&self.program), rule: map(&self.rule) }
    }
}

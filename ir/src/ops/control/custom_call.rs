//! A kernel the user registered under a target name. Its derivatives are contracts registered with the transforms.

use crate::batch::{Batched, BatchedValues, Batcher};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Problem;
use crate::ops::{Attr, AttrError, AttrReader, Effect, Equation, Primitive, Types};
use crate::program::Value;
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, Linearizer, RuleError};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::TensorType;

/// A call of the kernel `target`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CustomCall {
    /// Name of the kernel.
    pub target: String,
    /// Version of the kernel's meaning.
    pub version: u32,
    /// Whatever else the kernel wants to know, as text.
    pub attributes: String,
    /// Types of the results, which only the kernel could infer.
    pub results: Vec<TensorType>,
}

/// The target that samples call: the generic suites register a kernel and contracts for it that double a tensor.
pub const SAMPLE_TARGET: &str = "pullback.double";

impl Primitive for CustomCall {
    fn names() -> Vec<&'static str> {
        vec!["custom_call"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<CustomCall, AttrError> {
        let target = attrs.text("target")?;
        let version = u32::try_from(attrs.size_or("version", 1)?)
            .map_err(|_| AttrError::new("attribute `version` must fit in 32 bits"))?;
        Ok(CustomCall {
            target,
            version,
            attributes: attrs.text_or_empty("attributes")?,
            results: attrs.types("results")?,
        })
    }

    fn samples() -> Vec<Sample> {
        let ty = TensorType::new(DType::F64, [2, 3]);
        let call = CustomCall {
            target: SAMPLE_TARGET.into(),
            version: 1,
            attributes: String::new(),
            results: vec![ty.clone()],
        };
        vec![Sample::new(call, vec![SampleOperand::new(ty, Domain::Uniform(-2.0, 2.0))])]
    }

    fn name(&self) -> &'static str {
        "custom_call"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        let mut attrs = vec![("target", Attr::Text(self.target.clone()))];
        if self.version != 1 {
            attrs.push(("version", Attr::Int(self.version as i64)));
        }
        if !self.attributes.is_empty() {
            attrs.push(("attributes", Attr::Text(self.attributes.clone())));
        }
        attrs.push(("results", Attr::Types(self.results.clone())));
        attrs
    }

    fn infer(&self, _operands: &[&TensorType]) -> Result<Types, Problem> {
        Ok(self.results.clone().into())
    }

    fn linearize(
        &self,
        _: &mut Linearizer<'_>,
        _: Equation<'_>,
        _: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        Err(RuleError::RuleElsewhere { op: self.name() })
    }

    fn transpose(&self, _: &mut Builder, _: &[Arg], _: &[Option<Value>]) -> Result<Cotangents, RuleError> {
        Err(RuleError::RuleElsewhere { op: self.name() })
    }

    fn batch(&self, _: &mut Batcher<'_>, _: &[Batched]) -> Result<BatchedValues, RuleError> {
        Err(RuleError::RuleElsewhere { op: self.name() })
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Kernel
    }

    fn effect(&self) -> Effect {
        Effect::Any
    }
}

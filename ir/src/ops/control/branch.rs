//! One of several nested programs, chosen when the program runs. Only the chosen one runs. Its derivative rules live
//! with the transforms, which transform the arms.

use super::check_params;
use crate::batch::{Batched, BatchedValues, Batcher};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Problem, TypeError};
use crate::ops::elementwise::unary::Unary;
use crate::ops::{Attr, AttrError, AttrReader, Equation, Primitive, Types, arity};
use crate::program::{Program, Value};
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, Linearizer, RuleError};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::TensorType;
use std::sync::Arc;

/// `branch index, operands.. -> outputs of arm number index..`, with an `i32[]` index that is clamped into range.
/// Arms have the same parameters and outputs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Branch {
    /// The programs to choose from; at least one.
    pub arms: Vec<Arc<Program>>,
}

impl Branch {
    /// The arm that an index chooses.
    pub fn arm(&self, index: i32) -> &Arc<Program> {
        &self.arms[(index.max(0) as usize).min(self.arms.len() - 1)]
    }
}

/// Arms `(x, y, n) -> (sin(x) * y, n)` and `(x, y, n) -> (x, n)`.
fn sample_arms() -> Result<Vec<Arc<Program>>, TypeError> {
    let (ty, int) = (TensorType::new(DType::F64, [3]), TensorType::scalar(DType::I32));
    let mut arms = Vec::new();
    for multiplies in [true, false] {
        let mut b = Builder::new(if multiplies { "product" } else { "same" });
        let (x, y, n) = (b.param(ty.clone()), b.param(ty.clone()), b.param(int.clone()));
        let result = if multiplies {
            let sin = b.unary(Unary::Sin, x)?;
            b.mul(sin, y)?
        } else {
            x
        };
        arms.push(Arc::new(b.finish(&[result, n])));
    }
    Ok(arms)
}

impl Primitive for Branch {
    fn names() -> Vec<&'static str> {
        vec!["branch"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Branch, AttrError> {
        Ok(Branch { arms: attrs.programs("arms")? })
    }

    fn samples() -> Vec<Sample> {
        let Ok(arms) = sample_arms() else { return Vec::new() };
        let float = || SampleOperand::new(TensorType::new(DType::F64, [3]), Domain::Uniform(-2.0, 2.0));
        let int = |domain| SampleOperand::new(TensorType::scalar(DType::I32), domain);
        let sample = |arms: &[Arc<Program>], bound| {
            let operands = vec![int(Domain::Below(bound)), float(), float(), int(Domain::Any)];
            Sample::new(Branch { arms: arms.to_vec() }, operands)
        };
        // An index of 0 and one that may lie beyond the arms.
        vec![sample(&arms, 1), sample(&arms, 4), sample(&arms[..1], 1)]
    }

    fn name(&self) -> &'static str {
        "branch"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        vec![("arms", Attr::Programs(self.arms.clone()))]
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        let Some(first) = self.arms.first() else {
            return Err(Problem::Constraint("there are no arms; give at least one".into()));
        };
        arity(operands, 1 + first.params().len())?;
        let (index, operands) = (operands[0], &operands[1..]);
        if *index != TensorType::scalar(DType::I32) {
            let text = format!("the index is {index} and must be i32[]; convert it first");
            return Err(Problem::Constraint(text));
        }
        let operands: Vec<TensorType> = operands.iter().map(|&ty| ty.clone()).collect();
        let results = first.output_types();
        for (i, arm) in self.arms.iter().enumerate() {
            check_params(&format!("arm {i}"), arm, &operands)?;
            if arm.output_types() != results {
                let text = format!(
                    "arm {i} gives {:?} and arm 0 gives {results:?}; all arms must give the same types",
                    arm.output_types()
                );
                return Err(Problem::Constraint(text));
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

    fn transpose(&self, _: &mut Builder, _: &[Arg], _: &[Option<Value>]) -> Result<Cotangents, RuleError> {
        Err(RuleError::RuleElsewhere { op: self.name() })
    }

    fn batch(&self, _: &mut Batcher<'_>, _: &[Batched]) -> Result<BatchedValues, RuleError> {
        Err(RuleError::RuleElsewhere { op: self.name() })
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Branch(self.clone())
    }

    fn programs(&self) -> Vec<&Arc<Program>> {
        self.arms.iter().collect()
    }

    fn map_programs(&self, map: &mut dyn FnMut(&Arc<Program>) -> Arc<Program>) -> Branch {
        Branch { arms: self.arms.iter().map(map).collect() }
    }

    fn takes_stacks(&self) -> bool {
        true
    }
}

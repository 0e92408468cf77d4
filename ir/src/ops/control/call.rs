//! A nested program on operands. Its derivative rules live with the transforms, which transform the program.

use super::check_params;
use crate::batch::{Batched, BatchedValues, Batcher};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Problem;
use crate::ops::elementwise::unary::Unary;
use crate::ops::{Attr, AttrError, AttrReader, Equation, Primitive, Types};
use crate::program::{Program, Value};
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, Linearizer, RuleError};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::TensorType;
use std::sync::Arc;

/// The outputs of a program with the operands for its parameters.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Call {
    /// The program called.
    pub program: Arc<Program>,
}

/// `(x, y, n) -> (sin(x) * y, n, x)`: an output of each kind.
fn sample_program() -> Option<Program> {
    let ty = TensorType::new(DType::F64, [2, 3]);
    let mut b = Builder::new("inner");
    let (x, y) = (b.param(ty.clone()), b.param(ty));
    let n = b.param(TensorType::scalar(DType::I64));
    let sin = b.unary(Unary::Sin, x).ok()?;
    let product = b.mul(sin, y).ok()?;
    Some(b.finish(&[product, n, x]))
}

impl Primitive for Call {
    fn names() -> Vec<&'static str> {
        vec!["call"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Call, AttrError> {
        Ok(Call { program: attrs.program("program")? })
    }

    fn samples() -> Vec<Sample> {
        let Some(program) = sample_program().map(Arc::new) else { return Vec::new() };
        let operand = |ty: TensorType| {
            let domain = if ty.dtype.is_float() { Domain::Uniform(-2.0, 2.0) } else { Domain::Any };
            SampleOperand::new(ty, domain)
        };
        let operands = program.param_types().into_iter().map(operand).collect();
        vec![Sample::new(Call { program }, operands)]
    }

    fn name(&self) -> &'static str {
        "call"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        vec![("program", Attr::Program(self.program.clone()))]
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        let operands: Vec<TensorType> = operands.iter().map(|&ty| ty.clone()).collect();
        check_params("the program", &self.program, &operands)?;
        Ok(self.program.output_types().into())
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
        Recipe::Call(self.program.clone())
    }

    fn programs(&self) -> Vec<&Arc<Program>> {
        vec![&self.program]
    }

    fn map_programs(&self, map: &mut dyn FnMut(&Arc<Program>) -> Arc<Program>) -> Call {
        Call { program: map(&self.program) }
    }

    fn takes_stacks(&self) -> bool {
        true
    }
}

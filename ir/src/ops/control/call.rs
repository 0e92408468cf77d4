//! A nested program on operands. Its derivative rules live with the transforms, which transform the program.

use super::check_params;
use super::offer::Offer;
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
    /// For a checkpointed call, what derivatives keep besides the operands; they compute the rest again.
    pub checkpoint: Option<Keep>,
}

/// What a checkpoint keeps between the two halves of a derivative, besides what goes in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Keep {
    /// Nothing.
    Nothing,
    /// Results of contractions, which are much work for their size.
    Dots,
    /// Values offered under one of these names.
    Offered(Vec<String>),
    /// At most so many bytes: first what is most work for its size.
    Budget(usize),
}

impl Keep {
    /// Values offered under one of these names.
    pub fn offered<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Keep {
        Keep::Offered(names.into_iter().map(Into::into).collect())
    }

    /// Its name in the text form.
    pub fn name(&self) -> &'static str {
        match self {
            Keep::Nothing => "nothing",
            Keep::Dots => "dots",
            Keep::Offered(_) => "offered",
            Keep::Budget(_) => "budget",
        }
    }

    fn parse(attrs: &mut AttrReader) -> Result<Option<Keep>, AttrError> {
        let Some(word) = attrs.take("checkpoint") else { return Ok(None) };
        let bad = || AttrError::new("attribute `checkpoint` must be one of nothing, dots, offered, budget");
        let Attr::Word(word) = word else { return Err(bad()) };
        match word.as_str() {
            "nothing" => Ok(Some(Keep::Nothing)),
            "dots" => Ok(Some(Keep::Dots)),
            "offered" => Ok(Some(Keep::Offered(attrs.texts("names")?))),
            "budget" => Ok(Some(Keep::Budget(attrs.size("bytes")?))),
            _ => Err(bad()),
        }
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        let mut attrs = vec![("checkpoint", Attr::Word(self.name().into()))];
        match self {
            Keep::Nothing | Keep::Dots => {}
            Keep::Offered(names) => attrs.push(("names", Attr::Texts(names.clone()))),
            Keep::Budget(bytes) => attrs.push(("bytes", Attr::Int(*bytes as i64))),
        }
        attrs
    }
}

impl Call {
    /// A call that is not checkpointed.
    pub fn new(program: Arc<Program>) -> Call {
        Call { program, checkpoint: None }
    }

    /// The same call of another program.
    pub fn with_program(&self, program: &Arc<Program>) -> Call {
        Call { program: program.clone(), checkpoint: self.checkpoint.clone() }
    }
}

/// `(x, y, n) -> (sin(x) * y, n, x)`: an output of each kind.
fn sample_program() -> Option<Program> {
    let ty = TensorType::new(DType::F64, [2, 3]);
    let mut b = Builder::new("inner");
    let (x, y) = (b.param(ty.clone()), b.param(ty));
    let n = b.param(TensorType::scalar(DType::I64));
    let sin = b.unary(Unary::Sin, x).ok()?;
    let product = b.mul(sin, y).ok()?;
    let product = b.one(Offer { name: "product".into() }, &[product]).ok()?;
    Some(b.finish(&[product, n, x]))
}

impl Primitive for Call {
    fn names() -> Vec<&'static str> {
        vec!["call"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Call, AttrError> {
        Ok(Call { checkpoint: Keep::parse(attrs)?, program: attrs.program("program")? })
    }

    fn samples() -> Vec<Sample> {
        let Some(program) = sample_program().map(Arc::new) else { return Vec::new() };
        let operand = |ty: TensorType| {
            let domain = if ty.dtype.is_float() { Domain::Uniform(-2.0, 2.0) } else { Domain::Any };
            SampleOperand::new(ty, domain)
        };
        let operands: Vec<SampleOperand> = program.param_types().into_iter().map(operand).collect();
        let checkpoints = [
            None,
            Some(Keep::Nothing),
            Some(Keep::Dots),
            Some(Keep::offered(["product"])),
            Some(Keep::Budget(48)),
        ];
        let sample =
            |checkpoint| Sample::new(Call { program: program.clone(), checkpoint }, operands.clone());
        checkpoints.into_iter().map(sample).collect()
    }

    fn name(&self) -> &'static str {
        "call"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        let mut attrs = self.checkpoint.as_ref().map_or_else(Vec::new, Keep::attrs);
        attrs.push(("program", Attr::Program(self.program.clone())));
        attrs
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        let operands: Vec<TensorType> = operands.iter().map(|&ty| ty.clone()).collect();
        check_params("the program", &self.program, &operands)?;
        if let Some(Keep::Budget(bytes)) = &self.checkpoint
            && i64::try_from(*bytes).is_err()
        {
            let text =
                format!("a budget of {bytes} bytes has no text; {} are enough for everything", i64::MAX);
            return Err(Problem::Constraint(text));
        }
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
        self.with_program(&map(&self.program))
    }

    fn takes_stacks(&self) -> bool {
        true
    }
}

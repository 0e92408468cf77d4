//! Indices along a dimension: a constant whose text does not grow with its size.

use crate::batch::{Batched, BatchedValues, Batcher};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Problem;
use crate::ops::{Attr, AttrError, AttrReader, Equation, Primitive, Types, arity, one};
use crate::program::Value;
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, Linearizer, RuleError};
use crate::sample::Sample;
use crate::shape::TensorType;

/// Each element is its index along `dim`, as a number of the type's dtype (not bool).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Iota {
    /// Type of the result.
    pub ty: TensorType,
    /// The dimension counted along.
    pub dim: usize,
}

impl Primitive for Iota {
    fn names() -> Vec<&'static str> {
        vec!["iota"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Iota, AttrError> {
        Ok(Iota { ty: attrs.ty("type")?, dim: attrs.size("dim")? })
    }

    fn samples() -> Vec<Sample> {
        let types = [
            (DType::I64, [3, 2], 0),
            (DType::F64, [2, 5], 1),
            (DType::U32, [0, 4], 1),
            (DType::F32, [7, 1], 0),
        ];
        types
            .into_iter()
            .map(|(dtype, shape, dim)| Sample::new(Iota { ty: TensorType::new(dtype, shape), dim }, vec![]))
            .collect()
    }

    fn name(&self) -> &'static str {
        "iota"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        vec![("type", Attr::Type(self.ty.clone())), ("dim", Attr::Int(self.dim as i64))]
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        arity(operands, 0)?;
        if self.ty.dtype == DType::Bool {
            let text = "indices cannot be bool; compare an integer iota instead".to_string();
            return Err(Problem::Constraint(text));
        }
        if self.dim >= self.ty.shape.rank() {
            return Err(Problem::AxisOutOfRange { axis: self.dim as i64, rank: self.ty.shape.rank() });
        }
        one(self.ty.clone())
    }

    fn linearize(
        &self,
        _linearizer: &mut Linearizer<'_>,
        _equation: Equation<'_>,
        _tangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        Ok(Cotangents::from_elem(None, 1))
    }

    fn transpose(&self, _: &mut Builder, _: &[Arg], _: &[Option<Value>]) -> Result<Cotangents, RuleError> {
        Ok(Cotangents::new())
    }

    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError> {
        batcher.unbatched(self.clone(), args)
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Iota { dim: self.dim }
    }
}

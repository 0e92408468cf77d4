//! What ops whose derivatives the user gives have in common.

use super::check_params;
use crate::error::Problem;
use crate::ops::{Attr, AttrError, AttrReader};
use crate::program::Program;
use crate::shape::TensorType;

/// Whose derivative a rule is, and by which operands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scope {
    /// Name of the user's function, for errors.
    pub name: String,
    /// How many operands, the first ones, the function captured. By those it has no derivative, and asking for one is
    /// an error.
    pub captured: usize,
    /// The operands with derivatives, ascending. By any other that is not captured the derivative is zero.
    pub wrt: Vec<usize>,
}

impl Scope {
    pub(super) fn parse(attrs: &mut AttrReader) -> Result<Scope, AttrError> {
        Ok(Scope {
            name: attrs.text_or_empty("name")?,
            captured: attrs.size_or("captured", 0)?,
            wrt: attrs.dims_or_empty("wrt")?.to_vec(),
        })
    }

    pub(super) fn attrs(&self) -> Vec<(&'static str, Attr)> {
        let mut attrs = Vec::new();
        if !self.name.is_empty() {
            attrs.push(("name", Attr::Text(self.name.clone())));
        }
        if self.captured > 0 {
            attrs.push(("captured", Attr::Int(self.captured as i64)));
        }
        if !self.wrt.is_empty() {
            attrs.push(("wrt", Attr::dims(&self.wrt)));
        }
        attrs
    }

    /// Checks the operands and returns their types.
    pub(super) fn check(
        &self,
        program: &Program,
        operands: &[&TensorType],
    ) -> Result<Vec<TensorType>, Problem> {
        let types: Vec<TensorType> = operands.iter().map(|&ty| ty.clone()).collect();
        check_params("the program", program, &types)?;
        let refused = |text: String| Err(Problem::Constraint(text));
        if self.captured > types.len() {
            return refused(format!(
                "{} operands are said to be captured, and there are {}",
                self.captured,
                types.len()
            ));
        }
        let mut next = self.captured;
        for &i in &self.wrt {
            if i < next || i >= types.len() {
                let text = format!(
                    "wrt is {:?}; list operands from {} up to {}, each once, in their order",
                    self.wrt,
                    self.captured,
                    types.len()
                );
                return refused(text);
            }
            if !types[i].dtype.is_float() {
                return refused(format!(
                    "operand {i} is {} and has no derivative; leave it out of wrt",
                    types[i]
                ));
            }
            next = i + 1;
        }
        Ok(types)
    }

    /// Types of the operands with derivatives.
    pub(super) fn wrt_types(&self, operands: &[&TensorType]) -> Vec<TensorType> {
        self.wrt.iter().map(|&i| operands[i].clone()).collect()
    }
}

/// Those of the types that have tangents.
pub(super) fn float_types(types: &[TensorType]) -> Vec<TensorType> {
    types.iter().filter(|ty| ty.dtype.is_float()).cloned().collect()
}

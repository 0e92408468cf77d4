//! What a tree is beside its tensors, as a value that can be compared and shown.

use super::{Step, Tree, Visitor};
use crate::tensor::Tensor;
use std::fmt::{self, Debug, Write};

/// The structure of a tree. Equal for trees of one Rust type that differ in their tensors alone.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Structure {
    text: String,
}

impl Structure {
    pub(super) fn of<T: Tree>(tree: &T) -> Structure {
        let mut structure = Structure::default();
        tree.visit(&mut structure);
        structure
    }
}

impl<'a> Visitor<'a> for Structure {
    fn leaf(&mut self, _: &'a Tensor) {
        self.text.push('*');
    }
    fn enter(&mut self, step: Step<'a>) {
        match step {
            Step::Field(name) => {
                self.text.push_str(name);
                self.text.push('(');
            }
            Step::Index(_) => self.text.push('('),
            Step::Key(key) => {
                // Writing to a String cannot fail.
                let _ = write!(self.text, "{key:?}(");
            }
        }
    }
    fn leave(&mut self) {
        self.text.push(')');
    }
    fn fact(&mut self, fact: &dyn Debug) {
        let _ = write!(self.text, "{fact:?};");
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

//! What a tree is beside its tensors, as a value that can be compared and shown.

use super::{Step, Tree, Visitor};
use crate::tensor::Tensor;
use std::fmt::{self, Debug, Write};

/// The structure of a tree. Equal for trees of one Rust type that differ in their tensors alone.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Structure {
    text: String,
}

impl Structure {
    pub(super) fn of<T: Tree>(tree: &T) -> Structure {
        let mut teller = Teller { out: String::new(), told: Ok(()) };
        tree.visit(&mut teller);
        Structure { text: teller.out }
    }

    /// Whether it is the structure of this tree, found without making that.
    pub(crate) fn is_of<T: Tree>(&self, tree: &T) -> bool {
        let mut teller = Teller { out: Rest(&self.text), told: Ok(()) };
        tree.visit(&mut teller);
        teller.told.is_ok() && teller.out.0.is_empty()
    }
}

/// Tells the structure of a tree to a writer, until it takes no more.
struct Teller<W> {
    out: W,
    told: fmt::Result,
}

impl<W: Write> Teller<W> {
    fn tell(&mut self, write: impl FnOnce(&mut W) -> fmt::Result) {
        if self.told.is_ok() {
            self.told = write(&mut self.out);
        }
    }
}

impl<'a, W: Write> Visitor<'a> for Teller<W> {
    fn leaf(&mut self, _: &'a Tensor) {
        self.tell(|out| out.write_char('*'));
    }
    fn enter(&mut self, step: Step<'a>) {
        self.tell(|out| match step {
            Step::Field(name) => out.write_str(name).and_then(|()| out.write_char('(')),
            Step::Index(_) => out.write_char('('),
            Step::Key(key) => write!(out, "{key:?}("),
        });
    }
    fn leave(&mut self) {
        self.tell(|out| out.write_char(')'));
    }
    fn fact(&mut self, fact: &dyn Debug) {
        self.tell(|out| write!(out, "{fact:?};"));
    }
}

/// What is left of a text that is written once more; nothing else is taken.
struct Rest<'t>(&'t str);

impl Write for Rest<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(text).ok_or(fmt::Error)?;
        Ok(())
    }
    /// Most of a structure is single marks.
    fn write_char(&mut self, c: char) -> fmt::Result {
        let mut rest = self.0.chars();
        if rest.next() != Some(c) {
            return Err(fmt::Error);
        }
        self.0 = rest.as_str();
        Ok(())
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A structure is of the trees it is equal to that of.
    fn check<T: Tree>(trees: &[T]) {
        for (i, tree) in trees.iter().enumerate() {
            let structure = Structure::of(tree);
            let of: Vec<bool> = trees.iter().map(|other| structure.is_of(other)).collect();
            let equal: Vec<bool> = trees.iter().map(|other| structure == Structure::of(other)).collect();
            assert_eq!(of, equal, "{structure}");
            assert!(of[i] && of.iter().filter(|&&of| of).count() == 1, "{structure}");
        }
    }

    #[test]
    fn a_structure_knows_its_trees() {
        let one = || Tensor::from(1.0);
        check(&[vec![], vec![None], vec![Some(one())], vec![None, None], vec![None, Some(one())]]);
        check(&[0, 1, 2, 10, 11, 12].map(|n| vec![one(); n]));
        let map = |keys: &[&str]| -> BTreeMap<String, Vec<Tensor>> {
            keys.iter().map(|key| (key.to_string(), vec![one()])).collect()
        };
        check(&[&["a"][..], &["a", "b"], &["ab"], &["a\"(1;(*))\"b"], &[""], &[]].map(map));
        assert!(Structure::of(&vec![one()]).is_of(&vec![Tensor::from([1, 2])]), "types do not count");
    }
}

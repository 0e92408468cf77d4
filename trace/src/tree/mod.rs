//! Structures of tensors: what transforms take, differentiate and return.
//!
//! A tree says two things of itself: how to walk over its tensors, and how to be rebuilt with others in their places.
//! Everything else (flattening, paths, maps, signatures) follows from these.

mod collections;
mod structure;

use crate::error::Error;
use crate::tensor::Tensor;
use pullback_ir::Loc;
use std::fmt::Debug;

pub use structure::Structure;

/// A structure of tensors. Derive it for your own types with `#[derive(Tree)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tree of tensors",
    label = "not a tree of tensors",
    note = "trees are `Tensor`, tuples, arrays, `Vec`, `Option`, `Box`, maps with `String` keys, and types with `#[derive(Tree)]`",
    note = "a field that holds configuration rather than tensors is marked `#[tree(skip)]`"
)]
pub trait Tree: Sized + Send + Sync + 'static {
    /// Shows the visitor every tensor, in a fixed order, and everything else that makes up the structure.
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>);

    /// The same structure with each tensor replaced, in the order of [`Tree::visit`].
    fn rebuild(&self, replace: &mut dyn FnMut(&Tensor) -> Tensor) -> Self;
}

/// Sees the tensors of a tree.
pub trait Visitor<'a> {
    /// A tensor.
    fn leaf(&mut self, tensor: &'a Tensor);
    /// What follows, up to [`Visitor::leave`], is inside this part.
    fn enter(&mut self, _step: Step<'a>) {}
    /// The part ends.
    fn leave(&mut self) {}
    /// Something that tells structures of one Rust type apart: a length, a variant, a key, a skipped field.
    fn fact(&mut self, _fact: &dyn Debug) {}
}

/// One step of a path into a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step<'a> {
    /// A named field.
    Field(&'static str),
    /// A position.
    Index(usize),
    /// A key of a map.
    Key(&'a str),
}

/// Visits a part of a tree.
pub fn visit_part<'a, T: Tree>(visitor: &mut dyn Visitor<'a>, step: Step<'a>, part: &'a T) {
    visitor.enter(step);
    part.visit(visitor);
    visitor.leave();
}

impl Tree for Tensor {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.leaf(self);
    }
    fn rebuild(&self, replace: &mut dyn FnMut(&Tensor) -> Tensor) -> Tensor {
        replace(self)
    }
}

#[derive(Default)]
struct Leaves<'a>(Vec<&'a Tensor>);

impl<'a> Visitor<'a> for Leaves<'a> {
    fn leaf(&mut self, tensor: &'a Tensor) {
        self.0.push(tensor);
    }
}

/// The tensors of a tree, in order.
pub fn leaves<T: Tree>(tree: &T) -> Vec<&Tensor> {
    let mut leaves = Leaves::default();
    tree.visit(&mut leaves);
    leaves.0
}

struct Count(usize);

impl<'a> Visitor<'a> for Count {
    fn leaf(&mut self, _: &'a Tensor) {
        self.0 += 1;
    }
}

/// How many tensors a tree has.
pub(crate) fn count<T: Tree>(tree: &T) -> usize {
    let mut count = Count(0);
    tree.visit(&mut count);
    count.0
}

#[derive(Default)]
struct Paths {
    now: Vec<String>,
    found: Vec<String>,
}

impl<'a> Visitor<'a> for Paths {
    fn leaf(&mut self, _: &'a Tensor) {
        self.found.push(self.now.concat());
    }
    fn enter(&mut self, step: Step<'a>) {
        self.now.push(match step {
            Step::Field(name) => format!(".{name}"),
            Step::Index(i) => format!(".{i}"),
            Step::Key(key) => format!("[{key:?}]"),
        });
    }
    fn leave(&mut self) {
        self.now.pop();
    }
}

/// Where each tensor stands: `.layers.0.weight`, in the order of [`leaves`].
pub fn paths<T: Tree>(tree: &T) -> Vec<String> {
    let mut paths = Paths::default();
    tree.visit(&mut paths);
    paths.found
}

/// The structure of a tree, without its tensors.
pub fn structure<T: Tree>(tree: &T) -> Structure {
    Structure::of(tree)
}

/// The tensors of a tree, and its structure.
pub fn flatten<T: Tree>(tree: &T) -> (Vec<Tensor>, Structure) {
    (leaves(tree).into_iter().cloned().collect(), structure(tree))
}

/// The structure of `like` with other tensors in its places, as many as it has.
#[track_caller]
pub fn unflatten<T: Tree>(like: &T, leaves: Vec<Tensor>) -> Result<T, Error> {
    let due = count(like);
    if due != leaves.len() {
        let (left, right) = (format!("{due} tensors"), format!("{} tensors", leaves.len()));
        return Err(Error::TreesDiffer { what: "unflatten", left, right, at: Loc::caller() });
    }
    let mut leaves = leaves.into_iter();
    Ok(like.rebuild(&mut |old| leaves.next().unwrap_or_else(|| old.clone())))
}

/// A tree of the results of a function of each tensor.
pub fn map<T: Tree>(tree: &T, mut f: impl FnMut(&Tensor) -> Tensor) -> T {
    tree.rebuild(&mut f)
}

/// A tree of the results of a function of the tensors at each place of two trees of one structure.
#[track_caller]
pub fn zip_map<T: Tree>(
    left: &T,
    right: &T,
    mut f: impl FnMut(&Tensor, &Tensor) -> Tensor,
) -> Result<T, Error> {
    check_same("zip_map", left, right, Loc::caller())?;
    let mut others = leaves(right).into_iter();
    Ok(left.rebuild(&mut |tensor| others.next().map_or_else(|| tensor.clone(), |other| f(tensor, other))))
}

/// Checks that two trees have one structure, whatever the types of their tensors.
pub(crate) fn check_same<T: Tree>(what: &'static str, left: &T, right: &T, at: Loc) -> Result<(), Error> {
    let (left, right) = (structure(left), structure(right));
    if left == right {
        return Ok(());
    }
    Err(Error::TreesDiffer { what, left: left.to_string(), right: right.to_string(), at })
}

/// Checks that two trees have one structure and their tensors the same types.
pub(crate) fn check_same_types<T: Tree>(
    what: &'static str,
    left: &T,
    right: &T,
    at: Loc,
) -> Result<(), Error> {
    check_same(what, left, right, at)?;
    for (i, (l, r)) in leaves(left).into_iter().zip(leaves(right)).enumerate() {
        let (left_ty, right_ty) = (l.ty()?, r.ty()?);
        if left_ty != right_ty {
            let path = paths(left).swap_remove(i);
            let (left, right) = (left_ty.clone(), right_ty.clone());
            return Err(Error::LeavesDiffer { what, path, left, right, at });
        }
    }
    Ok(())
}

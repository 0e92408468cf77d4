//! Where the lanes of a batch lie: axes, written for a whole tree or part by part.

use crate::ops::axes::{Index, axis};
use crate::tensor::Tensor;
use crate::tree::{Step, Tree, Visitor};
use std::fmt;

/// Axes for a tree: one for all of its tensors, `None` where nothing has lanes, or one entry per part of the tree in a
/// tuple, array or vector, which may be such a list again. `0`, `-1`, `(0, None)`, `((0, None), 1)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lanes {
    /// The same for all tensors. Negative axes count from the end.
    All(Option<i64>),
    /// One entry per part.
    Parts(Vec<Lanes>),
}

impl<I: Index> From<I> for Lanes {
    fn from(axis: I) -> Lanes {
        Lanes::All(Some(axis.index()))
    }
}

impl From<Option<i64>> for Lanes {
    fn from(axis: Option<i64>) -> Lanes {
        Lanes::All(axis)
    }
}

impl<L: Into<Lanes>> From<Vec<L>> for Lanes {
    fn from(parts: Vec<L>) -> Lanes {
        Lanes::Parts(parts.into_iter().map(Into::into).collect())
    }
}

impl<L: Into<Lanes>, const N: usize> From<[L; N]> for Lanes {
    fn from(parts: [L; N]) -> Lanes {
        Lanes::Parts(parts.into_iter().map(Into::into).collect())
    }
}

macro_rules! tuples {
    ($($($t:ident $i:tt)*;)*) => {
        $(impl<$($t: Into<Lanes>),*> From<($($t,)*)> for Lanes {
            fn from(parts: ($($t,)*)) -> Lanes {
                Lanes::Parts(vec![$(parts.$i.into()),*])
            }
        })*
    };
}

tuples! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
}

impl fmt::Display for Lanes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lanes::All(Some(axis)) => write!(formatter, "{axis}"),
            Lanes::All(None) => formatter.write_str("None"),
            Lanes::Parts(parts) => {
                formatter.write_str("(")?;
                for (i, part) in parts.iter().enumerate() {
                    write!(formatter, "{}{part}", if i > 0 { ", " } else { "" })?;
                }
                formatter.write_str(if parts.len() == 1 { ",)" } else { ")" })
            }
        }
    }
}

const NOTHING: Lanes = Lanes::All(None);

impl Lanes {
    /// The axis as written for each tensor of a tree, or `None` if the lists do not follow its parts.
    pub(crate) fn of<T: Tree>(&self, tree: &T) -> Option<Vec<Option<i64>>> {
        let mut walk = Walk { stack: vec![(self, 0)], found: Vec::new(), follows: true };
        tree.visit(&mut walk);
        walk.leave();
        walk.follows.then_some(walk.found)
    }
}

/// The axis counted from the front, for a tensor of this rank with its lanes.
pub(crate) fn counted(written: i64, rank: usize) -> Option<usize> {
    axis(written, rank).ok()
}

struct Walk<'l> {
    /// The entries for the parts that the visitor is in, each with the number of its own parts seen.
    stack: Vec<(&'l Lanes, usize)>,
    found: Vec<Option<i64>>,
    follows: bool,
}

impl<'a> Visitor<'a> for Walk<'_> {
    fn leaf(&mut self, _: &'a Tensor) {
        match self.stack.last() {
            Some((Lanes::All(axis), _)) => self.found.push(*axis),
            Some((Lanes::Parts(_), _)) | None => self.follows = false,
        }
    }

    fn enter(&mut self, _: Step<'a>) {
        let part = match self.stack.last_mut() {
            Some((Lanes::Parts(parts), seen)) => {
                *seen += 1;
                parts.get(*seen - 1)
            }
            Some((whole, _)) => Some(*whole),
            None => None,
        };
        self.follows &= part.is_some();
        self.stack.push((part.unwrap_or(&NOTHING), 0));
    }

    fn leave(&mut self) {
        if let Some((Lanes::Parts(parts), seen)) = self.stack.pop() {
            self.follows &= parts.len() == seen;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<T: Tree>(lanes: impl Into<Lanes>, tree: &T) -> Option<Vec<Option<i64>>> {
        lanes.into().of(tree)
    }

    #[test]
    fn axes_follow_the_tree_as_far_as_they_are_written() {
        let x = || Tensor::from(0.0);
        let tree = ((x(), vec![x(), x()]), x());
        assert_eq!(of(-1, &tree), Some(vec![Some(-1); 4]));
        assert_eq!(of(None, &x()), Some(vec![None]));
        assert_eq!(of((0, None), &tree), Some(vec![Some(0), Some(0), Some(0), None]));
        assert_eq!(of(((None, 1usize), 2), &tree), Some(vec![None, Some(1), Some(1), Some(2)]));
        assert_eq!(of(((None, [Some(1), None]), 2), &tree), Some(vec![None, Some(1), None, Some(2)]));
    }

    #[test]
    fn lists_that_do_not_follow_the_tree_are_refused() {
        let x = || Tensor::from(0.0);
        assert_eq!(of((0, 0, 0), &(x(), x())), None);
        assert_eq!(of((0,), &(x(), x())), None);
        assert_eq!(of((0,), &x()), None);
        assert_eq!(of(((0, 0), 0), &(x(), x())), None);
    }

    #[test]
    fn axes_are_shown_as_they_are_written() {
        assert_eq!(Lanes::from(((0, None), vec![-1])).to_string(), "((0, None), (-1,))");
    }
}

//! What loops and branches are given.

use crate::tensor::Tensor;
use crate::tree::Tree;

/// A reference to a tree, or a tuple of such references, which stands for a tuple of trees: `&x`, `(&x, &y)`.
pub trait Operands {
    /// The tree.
    type Tree: Tree;

    /// The tree itself; its tensors are shared.
    fn into_tree(self) -> Self::Tree;
}

impl<T: Tree> Operands for &T {
    type Tree = T;
    fn into_tree(self) -> T {
        self.rebuild(&mut Tensor::clone)
    }
}

macro_rules! operands {
    ($($($t:ident $i:tt)*;)*) => {
        $(impl<$($t: Tree),*> Operands for ($(&$t,)*) {
            type Tree = ($($t,)*);
            fn into_tree(self) -> Self::Tree {
                ($(self.$i.into_tree(),)*)
            }
        })*
    };
}

operands! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
}

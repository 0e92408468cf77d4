//! What loops and branches are given.

use super::chunks::Chunks;
use crate::tensor::Tensor;
use crate::tree::Tree;

/// A reference to a tree, or a tuple of such references, which stands for a tuple of trees: `&x`, `(&x, &y)`.
pub trait Operands: Sized {
    /// The tree.
    type Tree: Tree;

    /// The tree itself; its tensors are shared.
    fn into_tree(self) -> Self::Tree;

    /// How a loop that has it as its carry is cut into chunks.
    #[doc(hidden)]
    fn chunks(&self) -> Option<Chunks> {
        None
    }

    /// As the carry of a loop: its derivative keeps the carry once in so many iterations, and not what it needs of each
    /// iteration, which it computes again, one chunk of iterations after the other. Gradients have the same bits.
    ///
    /// ```
    /// use pullback_trace::control::{Operands, scan};
    /// use pullback_trace::{Error, Tensor, grad};
    ///
    /// let logistic_map = |r: &Tensor| {
    ///     let x = Tensor::from(0.5);
    ///     scan(x.checkpoint_every(100), 1000, |x, ()| (r * x * (1.0 - x), ())).0
    /// };
    /// let slope = grad(logistic_map).call((&Tensor::from(2.5),))?; // with memory for 110 iterations
    /// assert!((slope.item::<f64>()? - 0.16).abs() < 1e-12);
    /// # Ok::<(), Error>(())
    /// ```
    fn checkpoint_every(self, iterations: usize) -> Checkpointed<Self> {
        Checkpointed { operands: self, chunks: Chunks::Every(iterations) }
    }

    /// As [`checkpoint_every`](Operands::checkpoint_every) about the square root of the number of iterations: the memory
    /// for a derivative grows with the root, and the work by less than one more run of the loop.
    fn checkpoint_sqrt(self) -> Checkpointed<Self> {
        Checkpointed { operands: self, chunks: Chunks::Sqrt }
    }
}

/// A carry that is kept once in a while: see [`Operands::checkpoint_every`].
#[derive(Clone, Copy, Debug)]
pub struct Checkpointed<I> {
    operands: I,
    chunks: Chunks,
}

impl<I: Operands> Operands for Checkpointed<I> {
    type Tree = I::Tree;
    fn into_tree(self) -> I::Tree {
        self.operands.into_tree()
    }
    fn chunks(&self) -> Option<Chunks> {
        Some(self.chunks)
    }
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

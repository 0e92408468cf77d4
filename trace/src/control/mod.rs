//! Loops and branches in one program, whatever the number of iterations: [`scan`], [`map`], [`fori_loop`],
//! [`while_loop`], [`cond`], [`switch`]; and [`associative_scan`], which is no loop.
//!
//! ```
//! use pullback_trace::control::{cond, fori_loop, scan, while_loop};
//! use pullback_trace::{Error, Tensor, grad};
//!
//! // The square root of a by Newton's iteration, as often as it takes.
//! let root = |a: &Tensor| while_loop(a, |x| (x * x - a).abs().gt(1e-12), |x| (a / x + x) * 0.5);
//! let a = Tensor::from(2.0);
//! assert!((root(&a).item::<f64>()? - 2f64.sqrt()).abs() < 1e-12);
//! assert!((grad(root).call((&a,))?.item::<f64>()? - 0.5 / 2f64.sqrt()).abs() < 1e-9);
//!
//! // Sums so far: the carry is handed on, the second result is stacked.
//! let xs = Tensor::from([1.0, 2.0, 3.0]);
//! let (total, sums) = scan(&Tensor::from(0.0), &xs, |sum, x| (sum + x, sum + x));
//! assert_eq!(total.item::<f64>()?, 6.0);
//! assert_eq!(sums.to_vec::<f64>()?, [1.0, 3.0, 6.0]);
//!
//! // Several carries are a tuple.
//! let fibonacci = |n: i64| fori_loop(0, n, (&Tensor::from(0i64), &Tensor::from(1i64)), |_, (a, b)| (b.clone(), a + b)).0;
//! assert_eq!(fibonacci(10).item::<i64>()?, 55);
//!
//! let f = |x: &Tensor| cond(&x.gt(0), x, |x| x.sqrt(), |x| x * 2.0);
//! assert_eq!(grad(f).call((&Tensor::from(4.0),))?.item::<f64>()?, 0.25);
//! # Ok::<(), Error>(())
//! ```
//!
//! The functions behave alike in eager code, under any transform and when compiled. A closure is called once, to be
//! recorded as a program of its own; so it sees no values, and asking for one is an error as it is under
//! [`jit`](crate::jit). Tensors that it captures are passed to that program, gradients flow into them, and what is
//! computed from them alone is computed once, before the loop or branch.
//!
//! A closure returns a tree, or a `Result` of one; what it is given to returns its own result in the same form. Trees
//! carry errors in their tensors: see [`Tensor`](crate::Tensor).

mod arms;
mod associative;
pub(crate) mod body;
mod chunks;
mod conditional;
mod counted;
mod operands;
mod steps;

pub use arms::{cond, switch};
pub use associative::associative_scan;
pub use conditional::while_loop;
pub use counted::{Bound, fori_loop};
pub use operands::{Checkpointed, Operands};
pub use steps::{Sequence, Steps, map, scan};

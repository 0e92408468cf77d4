//! What functions with rules of their own have in common: recording what the user gave, and holding it to what is due.

use crate::control::body::difference;
use crate::error::Error;
use crate::tensor::Tensor;
use crate::trace::{Recorded, Trace};
use crate::transform::forward::leaf_types;
use crate::transform::{Args, Function};
use crate::tree::{self, Tree};
use pullback_ir::ops::control::custom_rule::Scope;
use pullback_ir::{Loc, TensorType};
use std::cell::Cell;

/// How deep rules may call functions with rules while they are recorded.
const DEPTH: usize = 32;

thread_local! {
    static RECORDING: Cell<usize> = const { Cell::new(0) };
}

/// A function with a rule, as the user made it.
#[derive(Clone)]
pub(super) struct Site {
    /// `custom_jvp` or another of its kind.
    pub(super) kind: &'static str,
    pub(super) name: String,
    /// Numbers of the arguments that have no derivative.
    pub(super) nondiff: Vec<usize>,
    pub(super) at: Loc,
}

impl Site {
    /// A function of this Rust type.
    pub(super) fn of<F>(kind: &'static str, at: Loc) -> Site {
        Site { kind, name: function_name(std::any::type_name::<F>()), nondiff: Vec::new(), at }
    }

    /// Positions of the tensors that have derivatives among those of all arguments.
    pub(super) fn wrt<A: Args>(&self, arguments: &A) -> Result<Vec<usize>, Error> {
        let counts = arguments.counts();
        if let Some(number) = self.nondiff.iter().find(|&&number| number >= counts.len()) {
            let (name, takes) = (&self.name, counts.len());
            let text = format!(
                "nondiff names argument {number}, and `{name}` takes {takes}, which are counted from 0; name one of these"
            );
            return Err(Error::invalid(self.kind, text, self.at));
        }
        let numbers =
            counts.iter().enumerate().flat_map(|(number, &count)| std::iter::repeat_n(number, count));
        let mut wrt = Vec::new();
        for (position, (leaf, number)) in tree::leaves(arguments).into_iter().zip(numbers).enumerate() {
            if leaf.dtype()?.is_float() && !self.nondiff.contains(&number) {
                wrt.push(position);
            }
        }
        Ok(wrt)
    }

    /// What the op is told: operands begin with those captured.
    pub(super) fn scope(&self, captured: usize, wrt: &[usize]) -> Scope {
        Scope {
            name: self.name.clone(),
            captured,
            wrt: wrt.iter().map(|&position| captured + position).collect(),
        }
    }

    /// Records what `body` makes of tensors of these types, and which tensors those are that become the outputs. With
    /// the values of the tensors it may ask for numbers.
    pub(super) fn record<T>(
        &self,
        types: Vec<TensorType>,
        values: Option<Vec<Tensor>>,
        body: impl FnOnce(Vec<Tensor>) -> Result<(T, Vec<Tensor>), Error>,
    ) -> Result<(T, Recorded), Error> {
        let (trace, params) = Trace::begin(self.kind, self.at, types, values);
        let recorded = body(params).and_then(|(made, outputs)| {
            let recorded = trace.finish(&outputs.iter().collect::<Vec<_>>(), self.at)?;
            Ok((made, recorded))
        });
        if recorded.is_err() {
            trace.abandon();
        }
        recorded
    }

    /// Records a function at these arguments, whose values it may ask for.
    pub(super) fn record_function<A: Args, F: Function<A>>(
        &self,
        function: &F,
        arguments: &A,
    ) -> Result<(F::Output, Recorded), Error> {
        let leaves = tree::leaves(arguments);
        let values = leaves.iter().map(|&leaf| leaf.clone()).collect();
        self.record(leaf_types(&leaves)?, Some(values), |params| {
            let output = function.invoke(&tree::unflatten(arguments, params)?)?;
            let outputs = tree::leaves(&output).into_iter().cloned().collect();
            Ok((output, outputs))
        })
    }

    /// Records a rule, which is refused if it goes on calling its own function.
    pub(super) fn record_rule<T>(
        &self,
        types: Vec<TensorType>,
        body: impl FnOnce(Vec<Tensor>) -> Result<(T, Vec<Tensor>), Error>,
    ) -> Result<(T, Recorded), Error> {
        let depth = RECORDING.get();
        if depth == DEPTH {
            let text = format!(
                "the rule of `{}` calls a function with a rule, and so on, more than {DEPTH} times over; a rule must not \
                 call its own function: it is given the value",
                self.name
            );
            return Err(Error::invalid(self.kind, text, self.at));
        }
        RECORDING.set(depth + 1);
        let recorded = self.record(types, None, body);
        RECORDING.set(depth);
        recorded
    }

    /// Checks a tree that the user's `part` returned against one that has the structure and types due.
    pub(super) fn check<T: Tree>(
        &self,
        part: &'static str,
        what: &str,
        (due, first): (&T, &str),
        found: &T,
    ) -> Result<(), Error> {
        match difference(what, (due, first), (found, "in what is returned"))? {
            None => Ok(()),
            Some(differences) => {
                let Site { kind, name, at, .. } = self.clone();
                Err(Error::CustomRuleResult { part, kind, name, differences, at })
            }
        }
    }
}

/// A tree of tensors for the floats at these positions, and zeros elsewhere.
pub(super) fn with_zeros<T: Tree>(like: &T, floats: &[usize], tensors: &[Tensor]) -> Result<T, Error> {
    let mut all = Vec::new();
    for (position, leaf) in tree::leaves(like).into_iter().enumerate() {
        all.push(match floats.binary_search(&position) {
            Ok(i) => tensors[i].clone(),
            Err(_) => Tensor::zeros(leaf.dtype()?, leaf.shape()?.clone()),
        });
    }
    tree::unflatten(like, all)
}

/// The name of a function, from that of its type.
fn function_name(ty: &str) -> String {
    let mut depth = 0usize;
    let is_outside = |c: &char| {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    };
    let path: String = ty.chars().filter(is_outside).collect();
    let mut parts = path.rsplit("::");
    match parts.next().unwrap_or_default() {
        "{{closure}}" => {
            let around = parts.find(|part| *part != "{{closure}}").unwrap_or_default();
            format!("closure in {around}")
        }
        name => name.to_string(),
    }
}

/// Gives a function with rules its settings; listed are its type parameters.
macro_rules! custom_rule {
    ($name:ident<$($p:ident),*>) => {
        impl<$($p),*> $name<$($p),*> {
            /// With arguments, by their numbers counted from 0, that have no derivative, as if
            /// [`stop_gradient`](crate::Tensor::stop_gradient) had been taken of them.
            pub fn nondiff(mut self, arguments: &[usize]) -> Self {
                self.site.nondiff = arguments.to_vec();
                self
            }

            /// With this name in errors and programs, instead of that of the Rust function.
            pub fn named(mut self, name: &str) -> Self {
                self.site.name = name.to_string();
                self
            }
        }

        /// One function with rules is used in many places.
        impl<Arguments, $($p),*> $crate::transform::Function<Arguments> for &$name<$($p),*>
        where
            Arguments: $crate::transform::Args,
            $name<$($p),*>: $crate::transform::Function<Arguments>,
        {
            type Output = <$name<$($p),*> as $crate::transform::Function<Arguments>>::Output;

            fn invoke(&self, arguments: &Arguments) -> Result<Self::Output, $crate::Error> {
                (**self).invoke(arguments)
            }
        }
    };
}
pub(super) use custom_rule;

#[cfg(test)]
mod tests {
    use super::function_name;

    #[test]
    fn functions_are_named_after_their_type() {
        assert_eq!(function_name("nets::layers::relu6"), "relu6");
        assert_eq!(function_name("nets::main::{{closure}}::{{closure}}"), "closure in main");
        assert_eq!(function_name("nets::Scaled<nets::layers::relu6>"), "Scaled");
        assert_eq!(function_name("<nets::Tensor as core::clone::Clone>::clone"), "clone");
    }
}

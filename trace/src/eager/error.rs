//! What can go wrong with live tensors and their gradients.

use pullback_ir::{Loc, TensorType};
use thiserror::Error as ThisError;

/// Why a backward pass, or a request for a gradient, was refused. No gradient has changed.
#[derive(Clone, PartialEq, Debug, ThisError)]
pub enum EagerError {
    /// A root of a backward pass has more than one element, and no cotangent was given for it.
    #[error(
        "SeedRequired: backward (at {at}) begins at a tensor of type {ty}, made by {op} at {made}, which is not one \
         number; give its cotangent with backward_with(&seed), or reduce it by sum() or mean()"
    )]
    SeedRequired {
        /// Type of the root.
        ty: TensorType,
        /// The op that made it.
        op: &'static str,
        /// Where that was.
        made: Loc,
        /// The call.
        at: Loc,
    },
    /// The cotangent of a root has another type than it.
    #[error(
        "SeedType: the seed of {function} (at {at}) has type {found} and must have {expected}, the type of the tensor it \
         belongs to; convert or reshape it"
    )]
    SeedType {
        /// The function.
        function: &'static str,
        /// Type due.
        expected: String,
        /// Type given.
        found: TensorType,
        /// The call.
        at: Loc,
    },
    /// The history of a tensor was given up by an earlier pass.
    #[error(
        "GraphReleased: {function} (at {at}) needs the {op} at {made}, {user}, whose history an earlier \
         backward pass has released; pass Retain::Graph to the earlier pass, or compute the tensor again"
    )]
    GraphReleased {
        /// The function.
        function: &'static str,
        /// The op whose history is gone.
        op: &'static str,
        /// Where it was called.
        made: Loc,
        /// Which operand of which op it is.
        user: String,
        /// The call.
        at: Loc,
    },
    /// A parameter was updated after an op had read it.
    #[error(
        "StaleOperand: operand {operand} of {op} at {made} is a parameter {ty} that has been updated since (revision \
         {recorded} was read, now it is {current}); call backward before updating parameters, or compute the loss anew"
    )]
    StaleOperand {
        /// Number of the operand.
        operand: usize,
        /// The op that read it.
        op: &'static str,
        /// Where it was called.
        made: Loc,
        /// Type of the parameter.
        ty: TensorType,
        /// The revision that was read.
        recorded: u64,
        /// The revision it has now.
        current: u64,
    },
    /// A tensor that does not depend on any parameter has no gradients to give.
    #[error(
        "NoHistory: {function} (at {at}) begins at a tensor of type {ty} that depends on no parameter; make what is to \
         be differentiated a Tensor::param, and compute outside of no_grad"
    )]
    NoHistory {
        /// The function.
        function: &'static str,
        /// Type of the tensor.
        ty: TensorType,
        /// The call.
        at: Loc,
    },
    /// An integer or bool tensor has no gradient.
    #[error(
        "NotDifferentiable: {function} (at {at}): a tensor of type {ty} has no gradient, only floats have; convert it first"
    )]
    NotDifferentiable {
        /// The function.
        function: &'static str,
        /// Type of the tensor.
        ty: TensorType,
        /// The call.
        at: Loc,
    },
    /// Only parameters are updated.
    #[error(
        "NotAParameter: {function} (at {at}) updates parameters, and this tensor of type {ty} is none; make it with \
         Tensor::param, or compute a new tensor instead"
    )]
    NotAParameter {
        /// The function.
        function: &'static str,
        /// Type of the tensor.
        ty: TensorType,
        /// The call.
        at: Loc,
    },
    /// New numbers for a parameter have another type than it.
    #[error(
        "ParameterType: {function} (at {at}) gives a parameter of type {expected} values of type {found}; a parameter \
         keeps its type, convert or reshape them"
    )]
    ParameterType {
        /// The function.
        function: &'static str,
        /// Type of the parameter.
        expected: TensorType,
        /// Type of the values.
        found: TensorType,
        /// The call.
        at: Loc,
    },
    /// In a checked scope, a seed or an accumulated gradient is not finite.
    #[error(
        "NonFiniteGradient: {what} of type {ty} holds {value} at {index:?} (backward at {at}, checked); gradients are as \
         they were before"
    )]
    NonFiniteGradient {
        /// What is not finite.
        what: &'static str,
        /// Its type.
        ty: TensorType,
        /// The value.
        value: f64,
        /// Its index.
        index: Vec<usize>,
        /// The call.
        at: Loc,
    },
}

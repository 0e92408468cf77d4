//! Everything that can go wrong for a user, in one type. Each text says what was wrong, with which types, where, and
//! what to do about it.

use crate::eager::EagerError;
use pullback_autodiff::AdError;
use pullback_ir::{DType, Loc, Problem, TensorType, TypeError};
use pullback_lower::LowerError;
use pullback_runtime::{ArrayError, RuntimeError};
use std::fmt;
use std::sync::Arc;
use thiserror::Error as ThisError;

/// Why a call failed.
#[derive(Clone, Debug, ThisError)]
pub enum Error {
    /// An op refused its operands.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// A program failed while it ran.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A tensor was made from, or read as, something that does not fit.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// A derivative could not be made.
    #[error(transparent)]
    Autodiff(#[from] AdError),
    /// A program could not be compiled.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// A live tensor could not give or take a gradient.
    #[error(transparent)]
    Eager(#[from] EagerError),
    /// A number was asked of a tensor that has none yet.
    #[error(
        "ValueUnknownWhileTracing: the value of {ty} made at {made} is asked for at {asked}, but {transform} (at \
         {transform_at}) records the function without values; branch on it with cond or while_loop, choose \
         element by element with where_, or read it outside the recorded function"
    )]
    ValueUnknownWhileTracing {
        /// Type of the tensor.
        ty: TensorType,
        /// Where it was made.
        made: Loc,
        /// Where the value was asked for.
        asked: Loc,
        /// The transform that records.
        transform: &'static str,
        /// Where the transform was made.
        transform_at: Loc,
    },
    /// A traced tensor outlived the trace it belongs to.
    #[error(
        "EscapedTensor: a tensor of type {ty} made at {made} inside a function traced by {transform} (at \
         {transform_at}) is used at {used} after that trace has ended; return it from the function instead of \
         storing it outside"
    )]
    Escaped {
        /// Type of the tensor.
        ty: TensorType,
        /// Where it was made.
        made: Loc,
        /// Where it is used.
        used: Loc,
        /// The transform that recorded it.
        transform: &'static str,
        /// Where the transform was made.
        transform_at: Loc,
    },
    /// A function whose gradient was asked for does not return a float scalar.
    #[error(
        "GradientRequiresScalarOutput: {transform} (at {at}) differentiates functions with one float scalar as \
         output, and this one returned {found}; reduce it by sum() or mean() and convert it if it is no float, or use \
         jacobian for the derivative of all of it"
    )]
    GradientRequiresScalarOutput {
        /// The transform.
        transform: &'static str,
        /// What the function returned.
        found: TensorType,
        /// Where the transform was made.
        at: Loc,
    },
    /// An integer or bool tensor was to be differentiated.
    #[error(
        "NotDifferentiable: {transform} (at {at}) cannot differentiate with respect to {argument}, which has type \
         {found}: only f32 and f64 have derivatives; convert it to a float first, select other arguments with \
         argnum or argnums, or mark the field #[tree(skip)]"
    )]
    NotDifferentiable {
        /// The transform.
        transform: &'static str,
        /// Which argument, with the path inside it.
        argument: String,
        /// Its type.
        found: TensorType,
        /// Where the transform was made.
        at: Loc,
    },
    /// One argument was selected twice.
    #[error("argument {argument} is selected twice by {transform} (at {at}); name each argument once")]
    ArgumentRepeated {
        /// The transform.
        transform: &'static str,
        /// Number of the argument.
        argument: usize,
        /// Where the transform was made.
        at: Loc,
    },
    /// Lanes were said to lie along an axis that a tensor does not have.
    #[error(
        "{transform} (at {at}): {what} is {axis} for {place}, which is {ty}{}: choose an axis it has, or None for what \
         is the same in every lane",
        if *what == "out_axes" { " in each lane" } else { "" }
    )]
    LaneAxis {
        /// The transform.
        transform: &'static str,
        /// `in_axes` or `out_axes`.
        what: &'static str,
        /// Which tensor.
        place: String,
        /// Its type; of an output that in one lane.
        ty: TensorType,
        /// The axis as written.
        axis: i64,
        /// Where the transform was made.
        at: Loc,
    },
    /// Two tensors have different numbers of lanes.
    #[error(
        "{transform} (at {at}) maps over {first}, and over {other}: give both as many lanes, choose other axes with \
         in_axes, or in_axes None for what is the same in every lane"
    )]
    LaneCountsDiffer {
        /// The transform.
        transform: &'static str,
        /// Number of lanes, axis, argument and type of the one.
        first: String,
        /// The same of the other.
        other: String,
        /// Where the transform was made.
        at: Loc,
    },
    /// An output that is not a float was to be differentiated.
    #[error(
        "NotDifferentiable: {transform} (at {at}) cannot differentiate {output}, which has type {found}: only f32 and \
         f64 have derivatives; convert it to a float, or do not return it"
    )]
    OutputNotDifferentiable {
        /// The transform.
        transform: &'static str,
        /// Which output, with the path inside it.
        output: String,
        /// Its type.
        found: TensorType,
        /// Where the transform was made.
        at: Loc,
    },
    /// A tangent or cotangent has another type than what it belongs to.
    #[error(
        "{kind} of {argument} has type {found} and must have {expected}, the type of the value it belongs to; \
         convert or reshape it (at {at})"
    )]
    TangentType {
        /// `tangent` or `cotangent`.
        kind: &'static str,
        /// What it belongs to.
        argument: String,
        /// Type due.
        expected: TensorType,
        /// Type given.
        found: TensorType,
        /// Where.
        at: Loc,
    },
    /// The body of a loop hands on a carry of another type than it is given.
    #[error(
        "CarryDiffers: {function} (at {at}) needs a carry that keeps its type, and {differences}; convert, reshape or \
         broadcast the initial value, or what the body returns"
    )]
    CarryDiffers {
        /// The kind of loop.
        function: &'static str,
        /// What differs, part by part.
        differences: String,
        /// Where the loop was made.
        at: Loc,
    },
    /// The functions that a branch chooses from return different types.
    #[error(
        "ArmsDiffer: {function} (at {at}) needs functions that return the same types, and {differences}; convert, \
         reshape or broadcast one of them"
    )]
    ArmsDiffer {
        /// The kind of branch.
        function: &'static str,
        /// What differs, part by part.
        differences: String,
        /// Where the branch was made.
        at: Loc,
    },
    /// A rule of the user's returned something other than what is due.
    #[error(
        "CustomRuleResult: {part} of the {kind} function `{name}` (at {at}) does not return what is due: {differences}; \
         convert, reshape or sum what it returns"
    )]
    CustomRuleResult {
        /// Which of the functions that the user gave.
        part: &'static str,
        /// `custom_jvp` or another of its kind.
        kind: &'static str,
        /// Name of the function.
        name: String,
        /// What differs, part by part.
        differences: String,
        /// Where the function was given its rule.
        at: Loc,
    },
    /// Two trees that must have the same structure do not.
    #[error("{what}: the structures {left} and {right} differ; give trees of one structure (at {at})")]
    TreesDiffer {
        /// What the trees are.
        what: &'static str,
        /// Structure of the one.
        left: String,
        /// Structure of the other.
        right: String,
        /// Where.
        at: Loc,
    },
    /// Two trees whose tensors must have the same types differ in one.
    #[error(
        "{what}: the types {left} and {right}{} differ; give tensors of one type, reshaped, reduced or converted where \
         they are made (at {at})",
        if path.is_empty() { String::new() } else { format!(" at {path}") }
    )]
    LeavesDiffer {
        /// What the trees are.
        what: &'static str,
        /// The path of the tensor.
        path: String,
        /// Its type in the one.
        left: TensorType,
        /// Its type in the other.
        right: TensorType,
        /// Where.
        at: Loc,
    },
    /// A compiled function was called with other types than it was compiled for.
    #[error(
        "the function was compiled for {expected} and is called with {found}; compile it for these types as well, \
         or call it through jit, which does so by itself"
    )]
    SignatureDiffers {
        /// What it was compiled for.
        expected: String,
        /// What it was called with.
        found: String,
    },
    /// A plan was called with arguments that it does not hold for.
    #[error(
        "PlanDiffers: the plan of {transform} (at {at}) holds for {expected}, and is called with {found}; plan again \
         for these"
    )]
    PlanDiffers {
        /// The transform.
        transform: &'static str,
        /// Where the transform was made.
        at: Loc,
        /// What it holds for.
        expected: String,
        /// What it was called with.
        found: String,
    },
    /// A float literal meets a tensor of integers or bools.
    #[error(
        "literal {literal} meets a tensor of dtype {dtype}, which cannot hold it; convert the tensor first (at {at})"
    )]
    Literal {
        /// The literal.
        literal: String,
        /// Element type of the tensor.
        dtype: DType,
        /// Where.
        at: Loc,
    },
    /// Anything a function of the library refuses, in words that include the remedy.
    #[error("{function}: {message} (at {at})")]
    Invalid {
        /// The function.
        function: &'static str,
        /// What is wrong.
        message: String,
        /// Where.
        at: Loc,
    },
    /// An error of the user's own, as [`Error::user`] makes it.
    #[error("{message} (at {at})")]
    User {
        /// The user's words.
        message: String,
        /// Where it was made.
        at: Loc,
    },
    /// The first error of a tensor that failed, shared by everything computed from it.
    #[error(transparent)]
    Shared(Arc<Error>),
}

impl Error {
    /// A refusal of the library's own, in words that include the remedy.
    pub fn invalid(function: &'static str, message: impl Into<String>, at: Loc) -> Error {
        Error::Invalid { function, message: message.into(), at }
    }

    /// An error of the user's own: what a function that is recorded, differentiated or called in a loop returns to say
    /// why it cannot go on, in the user's words.
    #[track_caller]
    pub fn user(message: impl fmt::Display) -> Error {
        Error::User { message: message.to_string(), at: Loc::caller() }
    }

    /// An op's refusal of operands of these types.
    pub(crate) fn op(name: &str, operands: &[&TensorType], problem: Problem, loc: Loc) -> Error {
        let operands = operands.iter().map(|&ty| ty.clone()).collect();
        Error::Type(TypeError { op: name.to_string(), operands, problem: Box::new(problem), loc })
    }

    /// The error itself, without the sharing around it.
    pub fn root(&self) -> &Error {
        let mut error = self;
        while let Error::Shared(inner) = error {
            error = inner;
        }
        error
    }
}

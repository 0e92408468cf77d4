//! Why a transform was refused.

use pullback_ir::rules::RuleError;
use pullback_ir::{Loc, TensorType};
use thiserror::Error;

/// A program could not be transformed.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum AdError {
    /// The list of parameters to differentiate with respect to names one that is not there.
    #[error("wrt: there is no parameter {index}; @{program} has {params}, counted from 0")]
    WrtOutOfRange {
        /// The number given.
        index: usize,
        /// How many parameters there are.
        params: usize,
        /// Name of the program.
        program: String,
    },
    /// The list of parameters to differentiate with respect to names one twice.
    #[error("wrt: parameter {index} is named twice; name each parameter once")]
    WrtRepeated {
        /// The number given twice.
        index: usize,
    },
    /// A parameter to differentiate with respect to is not a float.
    #[error(
        "wrt: parameter {index} has type {ty}, and only floats have derivatives; \
         convert it to a float before the call, or leave it out of wrt"
    )]
    WrtNotFloat {
        /// Number of the parameter.
        index: usize,
        /// Its type.
        ty: TensorType,
    },
    /// A Jacobian was asked of a program with an output that is not a float.
    #[error(
        "output {index} has type {ty}, and only floats have derivatives; convert it to a float, or leave it out"
    )]
    OutputNotFloat {
        /// Number of the output.
        index: usize,
        /// Its type.
        ty: TensorType,
    },
    /// A gradient was asked of a program whose output is not one float scalar.
    #[error(
        "GradientRequiresScalarOutput: the output of @{program} is {found}, and a gradient needs one float scalar; \
         reduce it with sum or mean, or ask for a vjp or a Jacobian"
    )]
    GradientRequiresScalarOutput {
        /// Name of the program.
        program: String,
        /// What the program returns.
        found: String,
    },
    /// A transform was given the wrong number of tangents, cotangents or axes.
    #[error("{found} {what} were given, and {expected} are due")]
    WrongCount {
        /// Which values.
        what: &'static str,
        /// How many are due.
        expected: usize,
        /// How many came.
        found: usize,
    },
    /// A transform was given a tangent, a cotangent or lanes of the wrong type.
    #[error("{what} {index} has type {found}, and {expected} is due")]
    WrongType {
        /// Which values.
        what: &'static str,
        /// Which of them.
        index: usize,
        /// The type due.
        expected: TensorType,
        /// The type that came.
        found: TensorType,
    },
    /// A linear program holds an op that adds a known value to a tangent, so zero does not go to zero.
    #[error(
        "{op} is not linear: its operand {operand} carries no tangent and is not a constant zero{}; \
         leave that out, or linearize the program first",
        place(origin)
    )]
    Affine {
        /// Name of the op, or `return`.
        op: &'static str,
        /// Which operand.
        operand: usize,
        /// Where the op comes from.
        origin: Loc,
    },
    /// Lanes were to lie along an axis that a parameter or output with lanes does not have.
    #[error(
        "{what} {index} of @{program} is {ty}, so its lanes can lie along axes 0 to {}, and not {axis}",
        ty.shape.rank()
    )]
    LaneAxis {
        /// `parameter` or `output`.
        what: &'static str,
        /// Number of the parameter or output.
        index: usize,
        /// Its type in one lane.
        ty: TensorType,
        /// The axis asked for.
        axis: usize,
        /// Name of the program.
        program: String,
    },
    /// An output was said to be the same in every lane and is not.
    #[error(
        "output {index} of @{program} differs from lane to lane and was given no axis for its lanes; give it one"
    )]
    LanesWithoutAxis {
        /// Number of the output.
        index: usize,
        /// Name of the program.
        program: String,
    },
    /// The rule of an op failed.
    #[error("{source}{}", rule_place(source, origin))]
    Rule {
        /// Where the op comes from.
        origin: Box<Loc>,
        /// What its rule said.
        #[source]
        source: RuleError,
    },
    /// A transform emitted an op that its type rule refuses, or was given arguments of other types than the
    /// program's parameters.
    #[error(transparent)]
    Type(#[from] pullback_ir::TypeError),
}

fn place(origin: &Loc) -> String {
    if origin.is_known() { format!(" ({origin})") } else { String::new() }
}

/// Type errors name their place themselves.
fn rule_place(source: &RuleError, origin: &Loc) -> String {
    if matches!(source, RuleError::Type(_)) { String::new() } else { place(origin) }
}

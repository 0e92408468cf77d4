//! What can go wrong when a program runs.

use crate::array::ArrayError;
use pullback_ir::{Loc, TensorType, TypeError};
use thiserror::Error;

/// A call of a program failed. No output is published.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum RuntimeError {
    /// Wrong number of arguments.
    #[error("@{program} takes {expected} arguments, not {found}")]
    ArgumentCount {
        /// Name of the program.
        program: String,
        /// How many are due.
        expected: usize,
        /// How many came.
        found: usize,
    },
    /// An argument has another type than the parameter.
    #[error("argument {index} of @{program} has type {found} and must have {expected}")]
    ArgumentType {
        /// Name of the program.
        program: String,
        /// Which argument.
        index: usize,
        /// Type of the parameter.
        expected: TensorType,
        /// Type of the argument.
        found: TensorType,
    },
    /// Wrong number of places for outputs.
    #[error("@{program} has {expected} outputs, and {found} places were given for them")]
    OutputCount {
        /// Name of the program.
        program: String,
        /// How many are due.
        expected: usize,
        /// How many came.
        found: usize,
    },
    /// A place for an output has another type than the output.
    #[error("the place for output {index} of @{program} has type {found} and must have {expected}")]
    OutputType {
        /// Name of the program.
        program: String,
        /// Which output.
        index: usize,
        /// Type of the output.
        expected: TensorType,
        /// Type of the place.
        found: TensorType,
    },
    /// A program was to be a function of another number of numbers than it is.
    #[error(
        "@{program} takes {} numbers and gives {}, not {} and {}",
        expected.0, expected.1, found.0, found.1
    )]
    Numbers {
        /// Name of the program.
        program: String,
        /// Elements of all parameters, and of all outputs.
        expected: (usize, usize),
        /// What was asked for.
        found: (usize, usize),
    },
    /// A gather, scatter, dynamic_slice or dynamic_update_slice in mode `checked` met an index that is not below its bound.
    #[error(
        "IndexOutOfRange: {}: index {index} is out of range 0..{bound}; use mode clip or drop if that is meant",
        written(op, loc)
    )]
    IndexOutOfRange {
        /// Name of the op the user wrote.
        op: &'static str,
        /// The index.
        index: i128,
        /// What it should be below: the extent, or the number of starts at which the box fits.
        bound: usize,
        /// The user's call, and the transform of it that failed if one did.
        loc: Loc,
    },
    /// A loop goes through stacks of different lengths, or through one of another length than it has iterations.
    #[error("loop at {loc}: a stack has {found} slices, and {expected} are due; stack and read equally many")]
    StackLength {
        /// How many are due.
        expected: usize,
        /// How many there are.
        found: usize,
        /// The user's call.
        loc: Loc,
    },
    /// A linear function of which only the transpose is known was to be run.
    #[error(
        "NoForwardMode: the backward rule of the custom_vjp function `{name}` at {loc} has no transpose, so there is no \
         forward mode through it; use reverse mode alone, or give a custom_jvp rule"
    )]
    NoForwardMode {
        /// Name of the function.
        name: String,
        /// The user's call.
        loc: Loc,
    },
    /// A custom call names a kernel that nobody registered.
    #[error(
        "custom call \"{target}\" version {version} at {loc} has no kernel; register one before running it"
    )]
    UnknownCustomCall {
        /// Target of the call.
        target: String,
        /// Version of the call.
        version: u32,
        /// The user's call.
        loc: Loc,
    },
    /// The kernel of a custom call returned an error or panicked.
    #[error("custom call \"{target}\" at {loc} failed: {message}")]
    CustomCallFailed {
        /// Target of the call.
        target: String,
        /// What the kernel said.
        message: String,
        /// The user's call.
        loc: Loc,
    },
    /// Dependence on more elements was asked for than can be numbered.
    #[error("dependence on {found} elements was asked for, and 2^32 - 2 can be told apart; ask for fewer")]
    TooManyTracked {
        /// How many elements.
        found: u128,
    },
    /// A checked run met a value that is not finite.
    #[error("{0}")]
    NonFinite(Box<NonFinite>),
    /// An op has operands that its type rule refuses.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// An array was read as something it is not.
    #[error(transparent)]
    Array(#[from] ArrayError),
}

impl RuntimeError {
    /// An index out of range in an op of this name.
    pub(crate) fn index_out_of_range(
        name: &'static str,
        index: i128,
        bound: usize,
        loc: Loc,
    ) -> RuntimeError {
        RuntimeError::IndexOutOfRange { op: loc.origin(name), index, bound, loc }
    }
}

/// The op the user wrote, at its place; a place in a derivative names it already.
fn written(op: &str, loc: &Loc) -> String {
    if loc.via.is_some() { loc.to_string() } else { format!("{op} at {loc}") }
}

/// The first op of a checked run that produced a non-finite value.
#[derive(Clone, PartialEq, Debug, Error)]
#[error(
    "{op} at {loc} produced {value} at index {index:?} of result {result}; operands: {}",
    operands.iter().map(|o| o.to_string()).collect::<Vec<_>>().join(", ")
)]
pub struct NonFinite {
    /// Name of the op.
    pub op: &'static str,
    /// The user's call.
    pub loc: Loc,
    /// Which result.
    pub result: usize,
    /// Index of the first bad element.
    pub index: Vec<usize>,
    /// The bad element.
    pub value: f64,
    /// What the operands were.
    pub operands: Vec<OperandRange>,
}

/// Type of an operand and, for floats, the range of its finite values.
#[derive(Clone, PartialEq, Debug)]
pub struct OperandRange {
    /// Type of the operand.
    pub ty: TensorType,
    /// Least and greatest finite element; `None` if there is none.
    pub range: Option<(f64, f64)>,
    /// How many elements are infinite or NaN.
    pub non_finite: usize,
}

impl std::fmt::Display for OperandRange {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.ty)?;
        if let Some((least, greatest)) = self.range {
            write!(formatter, " in [{least}, {greatest}]")?;
        }
        if self.non_finite > 0 {
            write!(formatter, " with {} non-finite", self.non_finite)?;
        }
        Ok(())
    }
}

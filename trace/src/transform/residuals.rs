//! What a function keeps for its derivative, as a table.

use crate::custom::autodiff;
use crate::error::Error;
use crate::transform::arguments::argument_name;
use crate::transform::forward::{floats, leaf_types};
use crate::transform::record::record;
use crate::transform::{Arguments, Function, Hooks, Keep};
use crate::tree;
use pullback_ir::{Def, Loc, Op, Program, TensorType, Value};
use std::fmt;

/// One value that is kept between the two halves of a derivative.
#[derive(Clone, PartialEq, Debug)]
pub struct SavedResidual {
    /// Its type. What each iteration of a loop keeps is stacked.
    pub ty: TensorType,
    /// Its size, unless that depends on data.
    pub bytes: Option<usize>,
    /// The user's line that made it.
    pub at: Loc,
    /// Why it is kept.
    pub why: Saved,
}

/// Why a value is kept.
#[derive(Clone, PartialEq, Debug)]
pub enum Saved {
    /// It was passed in, under this name.
    Argument(String),
    /// The function took it from outside.
    Capture,
    /// The derivative of some op needs it, the result of this op.
    Result(&'static str),
    /// A checkpoint keeps it by this policy, the result of this op.
    Kept(&'static str, Keep),
}

/// What a function keeps for its derivative: see [`saved_residuals`].
#[derive(Clone, PartialEq, Debug)]
pub struct SavedResiduals {
    /// Each value once.
    pub rows: Vec<SavedResidual>,
}

impl SavedResiduals {
    /// Bytes of those whose size is known.
    pub fn bytes(&self) -> usize {
        self.rows.iter().filter_map(|row| row.bytes).sum()
    }
}

/// What the derivative of a function at arguments of these types keeps from the forward half for the backward half, to
/// be printed as a table: types, bytes, the line that made each value, and why it is there.
///
/// ```
/// use pullback_trace::transform::saved_residuals;
/// use pullback_trace::{Error, Tensor, checkpoint};
///
/// let f = |x: &Tensor| x.sin().sin();
/// let x = Tensor::from([1.0, 2.0, 3.0]);
/// assert_eq!(saved_residuals(&f, (&x,))?.rows.len(), 2); // the two cosines
/// let lean = saved_residuals(&checkpoint(f), (&x,))?;
/// assert_eq!(lean.rows.len(), 1);
/// assert_eq!(lean.to_string(), "f64[3]  24 bytes  argument 0\n24 bytes in all\n");
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn saved_residuals<R: Arguments, F: Function<R::Owned>>(
    function: &F,
    arguments: R,
) -> Result<SavedResiduals, Error> {
    let at = Loc::caller();
    let arguments = arguments.into_owned();
    let types = leaf_types(&tree::leaves(&arguments))?;
    let recording = record("saved_residuals", at, function, &arguments, true)?;
    let linearized =
        autodiff(&Hooks::default()).linearize(&recording.program, &floats(&types))?.keep_least()?;
    let (primal, uses) = (&linearized.primal, linearized.primal.use_counts());
    let row = |&value: &Value| {
        let ty = primal.ty(value).clone();
        let (op, made) = made(primal, value);
        let policy = match primal.producer(value).map(|node| &node.op) {
            // Nobody else looks at it.
            Some(Op::Call(call)) if uses[value] == 1 => call.checkpoint.clone(),
            _ => None,
        };
        let why = match (primal.def(value), op, policy) {
            (Def::Param(i), _, _) if i < types.len() => Saved::Argument(argument_name(&arguments, i)),
            (_, Some(op), Some(keep)) => Saved::Kept(op, keep),
            (_, Some(op), None) => Saved::Result(op),
            (_, None, _) => Saved::Capture,
        };
        SavedResidual { bytes: (!ty.is_stack()).then(|| ty.bytes()), ty, at: made, why }
    };
    Ok(SavedResiduals { rows: linearized.residual_values().iter().map(row).collect() })
}

/// The op that made a value, within the programs called, and the user's line.
fn made(program: &Program, value: Value) -> (Option<&'static str>, Loc) {
    let mut calls = Vec::new();
    let (mut program, mut value) = (program, value);
    loop {
        match (program.def(value), program.producer(value)) {
            (Def::Param(i), _) => match calls.pop() {
                None => return (None, Loc::UNKNOWN),
                Some((outer, operands)) => {
                    let operands: &[Value] = operands;
                    (program, value) = (outer, operands[i]);
                }
            },
            (Def::Result(_, number), Some(node)) => match &node.op {
                Op::Call(call) => {
                    calls.push((program, &node.operands[..]));
                    (program, value) = (&*call.program, call.program.outputs()[number]);
                }
                op => return (Some(op.name()), node.loc),
            },
            (Def::Result(..), None) => return (None, Loc::UNKNOWN),
        }
    }
}

impl fmt::Display for Saved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Saved::Argument(name) => write!(f, "{name}"),
            Saved::Capture => write!(f, "captured"),
            Saved::Result(op) => write!(f, "result of {op}"),
            Saved::Kept(op, keep) => write!(f, "result of {op}, kept by checkpoint {}", keep.name()),
        }
    }
}

impl fmt::Display for SavedResiduals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |row: &SavedResidual| {
            let bytes = row.bytes.map_or_else(|| "some".to_string(), |bytes| bytes.to_string());
            [row.ty.to_string(), format!("{bytes} bytes"), row.why.to_string()]
        };
        let rows: Vec<[String; 3]> = self.rows.iter().map(text).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let [types, bytes] = [width(0), width(1)];
        for ([ty, size, why], row) in rows.iter().zip(&self.rows) {
            write!(f, "{ty:types$}  {size:>bytes$}  {why}")?;
            if row.at.is_known() {
                write!(f, ", {}", row.at)?;
            }
            writeln!(f)?;
        }
        writeln!(f, "{} bytes in all", self.bytes())
    }
}

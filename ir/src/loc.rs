//! Where an op comes from: the user's call, and the transform that derived the op from it.

use std::fmt;
use std::panic::Location;

/// A place in the user's source, and what was done to the op that stood there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Loc {
    /// File of the call; empty when unknown.
    pub file: &'static str,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
    /// The transform that made the op, and the name of the op it made it from.
    pub via: Option<(&'static str, &'static str)>,
}

impl Loc {
    /// An unknown place.
    pub const UNKNOWN: Loc = Loc { file: "", line: 0, column: 0, via: None };

    /// The caller's place.
    #[track_caller]
    pub fn caller() -> Loc {
        let at = Location::caller();
        Loc { file: at.file(), line: at.line(), column: at.column(), via: None }
    }

    /// The same place, marked as the product of a transform of the op `op`, e.g. `("transpose", "dot")`.
    pub fn via(self, transform: &'static str, op: &'static str) -> Loc {
        Loc { via: Some((transform, op)), ..self }
    }

    /// The op the user wrote, where an op of this name stands here: itself, or the one a transform made it from.
    pub fn origin(&self, op: &'static str) -> &'static str {
        self.via.map_or(op, |(_, origin)| origin)
    }

    /// Whether a file is known.
    pub fn is_known(&self) -> bool {
        !self.file.is_empty()
    }
}

impl fmt::Display for Loc {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((transform, op)) = self.via {
            write!(formatter, "{transform} of {op} at ")?;
        }
        if self.is_known() {
            write!(formatter, "{}:{}:{}", self.file, self.line, self.column)
        } else {
            formatter.write_str("an unknown place")
        }
    }
}

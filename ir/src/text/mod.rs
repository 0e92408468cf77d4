//! The text form. Printing and parsing are inverse for every program, to the bit of each constant.
//!
//! ```text
//! program @loss(%x: f32[4], %y: f32[4]) -> (f32[]) {
//!   %0 = mul %x, %y : f32[4]
//!   %1 = reduce %0 {op = sum, dims = [0]} : f32[]
//!   return %1
//! }
//! ```
//!
//! - Values are numbered on print in definition order, parameters first; on input any identifier will do.
//! - Several results stand before the `=` and after the `:` in one order; an op without results ends in `: ()`.
//! - Attributes stand in declaration order, those at their default omitted. Nested programs are attribute values.
//! - Written result types are checked against the op's type rule.
//! - Floats are the shortest decimal that reads back to the same bits, `inf`, `-inf`, `nan`, or `nan(0x7fc00001)`
//!   with all bits. On input hex floats such as `0x1.8p-3` are accepted too.
//! - Comments run from `//` to the end of the line; [`format()`] keeps them.

mod comments;
mod error;
mod lex;
mod literal;
mod parse;
mod print;

pub use error::ParseError;
pub use literal::parse_literal;
pub use parse::{format, parse_type};
pub(crate) use print::op_line;

/// How deep programs may nest in one another.
pub const MAX_NESTING: usize = 64;

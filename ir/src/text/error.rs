//! Where a text stops making sense, and what was expected there.

use std::fmt;

/// Characters of a line shown around the offending token.
const WINDOW: usize = 100;

/// Characters of a message, which may quote what it found.
const MESSAGE: usize = 500;

/// A text that is no program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// Line of the offending token, from 1.
    pub line: usize,
    /// Column of the offending token in characters, from 1.
    pub column: usize,
    /// The offending token; empty at the end of the text.
    pub token: String,
    /// What is wrong with it or what was expected instead.
    pub message: String,
    /// The line it stands on (a part, if it is long), and the characters before the token in it.
    excerpt: (String, usize),
}

impl std::error::Error for ParseError {}

impl ParseError {
    /// An error about `text[at..at + len]`.
    pub(crate) fn new(text: &str, at: usize, len: usize, message: String) -> ParseError {
        let start = text[..at].rfind('\n').map_or(0, |i| i + 1);
        let line_text = text[start..].split(['\n', '\r']).next().unwrap_or("");
        let before = text[start..at].chars().count();
        let skipped = before.saturating_sub(WINDOW / 2);
        let excerpt = line_text.chars().skip(skipped).take(WINDOW).collect();
        ParseError {
            line: text[..start].matches('\n').count() + 1,
            column: before + 1,
            token: text[at..at + len].chars().take(WINDOW).collect(),
            message: message.chars().take(MESSAGE).collect(),
            excerpt: (excerpt, before - skipped),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, before) = &self.excerpt;
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        let pad: String =
            text.chars().map(|c| if c == '\t' { c } else { ' ' }).chain([' ']).take(*before).collect();
        let room = WINDOW.saturating_sub(*before).max(1);
        let carets = "^".repeat(self.token.chars().take_while(|&c| c != '\n').count().clamp(1, room));
        writeln!(formatter, "{}:{}: {}", self.line, self.column, self.message)?;
        writeln!(formatter, "{gutter} |")?;
        writeln!(formatter, "{number} | {}", text.trim_end())?;
        write!(formatter, "{gutter} | {pad}{carets}")
    }
}

//! Comments, remembered by the printed line they belong to.
//!
//! Parser and printer both count the lines of the canonical text in order (program headers, ops, returns, closing
//! braces, the end), so that a comment needs no more than the number of its line.

use indexmap::IndexMap;

/// The comments of a text.
#[derive(Default, Debug)]
pub(crate) struct Comments<'a> {
    /// Lines begun so far.
    lines: usize,
    /// Comments met since, on lines of their own.
    pending: Vec<&'a str>,
    leading: IndexMap<usize, Vec<&'a str>>,
    trailing: IndexMap<usize, Vec<&'a str>>,
}

impl<'a> Comments<'a> {
    /// A comment was met, behind other tokens or on a line of its own.
    pub(crate) fn add(&mut self, comment: &'a str, behind_token: bool) {
        match self.lines.checked_sub(1) {
            Some(line) if behind_token => self.trailing.entry(line).or_default().push(comment),
            _ => self.pending.push(comment),
        }
    }

    /// A line begins; comments pending belong to it.
    pub(crate) fn begin_line(&mut self) {
        self.attach_pending(self.lines);
        self.lines += 1;
    }

    /// A line goes on that is already begun: the header of a nested program in the line of its op.
    pub(crate) fn continue_line(&mut self) {
        self.attach_pending(self.lines - 1);
    }

    fn attach_pending(&mut self, line: usize) {
        if !self.pending.is_empty() {
            self.leading.entry(line).or_default().append(&mut self.pending);
        }
    }

    /// Comments before a line.
    pub(crate) fn leading(&self, line: usize) -> &[&'a str] {
        self.leading.get(&line).map_or(&[], |comments| comments)
    }

    /// Comments at the end of a line.
    pub(crate) fn trailing(&self, line: usize) -> &[&'a str] {
        self.trailing.get(&line).map_or(&[], |comments| comments)
    }
}

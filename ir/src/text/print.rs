//! Writing programs.

use super::comments::Comments;
use super::lex::{is_name, quote};
use crate::ops::Attr;
use crate::program::{Node, Program, Value};
use crate::shape::TensorType;
use slotmap::SecondaryMap;
use std::fmt::{self, Write};

impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&Printer::default().one(self))
    }
}

impl Program {
    /// The text form with each op's place as a comment behind it.
    pub fn print_with_locations(&self) -> String {
        Printer { locations: true, ..Printer::default() }.one(self)
    }
}

/// One op as a line of text, numbered as in the program's text; nested programs by name only.
pub(crate) fn op_line(program: &Program, node: &Node) -> String {
    let mut printer = Printer { nested_by_name: true, ..Printer::default() };
    // Writing to a string does not fail.
    let _ = printer.op(program, &program.numbering(), node);
    printer.out
}

#[derive(Default)]
pub(super) struct Printer<'a> {
    out: String,
    indent: usize,
    locations: bool,
    nested_by_name: bool,
    comments: Option<&'a Comments<'a>>,
    /// Lines begun so far, as [`Comments`] counts them.
    lines: usize,
}

type Numbering = SecondaryMap<Value, u32>;

impl<'a> Printer<'a> {
    pub(super) fn with_comments(comments: &'a Comments<'a>) -> Printer<'a> {
        Printer { comments: Some(comments), ..Printer::default() }
    }

    /// The text of a file of programs.
    pub(super) fn file(mut self, programs: &[Program]) -> String {
        for (i, program) in programs.iter().enumerate() {
            if i > 0 {
                self.out.push('\n');
            }
            self.begin_line();
            // Writing to a string does not fail.
            let _ = self.program(program);
            self.end_line("");
        }
        self.begin_line();
        self.out
    }

    fn one(mut self, program: &Program) -> String {
        self.begin_line();
        let _ = self.program(program);
        self.out
    }

    fn begin_line(&mut self) {
        self.comments_before();
        self.pad();
    }

    /// Counts a line and writes the comments that stand before it.
    fn comments_before(&mut self) {
        let comments = self.comments.map_or(&[][..], |comments| comments.leading(self.lines));
        for comment in comments {
            self.pad();
            self.out.push_str(comment);
            self.out.push('\n');
        }
        self.lines += 1;
    }

    fn pad(&mut self) {
        self.out.extend(std::iter::repeat_n("  ", self.indent));
    }

    /// Ends a line with the comments that belong there.
    fn end_line(&mut self, note: &str) {
        let comments = self.comments.map_or(&[][..], |comments| comments.trailing(self.lines - 1));
        for comment in comments {
            self.out.push(' ');
            self.out.push_str(comment);
        }
        self.out.push_str(note);
        self.out.push('\n');
    }

    /// From the keyword to the closing brace, the line of the latter not ended.
    fn program(&mut self, program: &Program) -> fmt::Result {
        let number = program.numbering();
        self.out.push_str("program ");
        self.symbol(program.name());
        self.out.push('(');
        for (i, &param) in program.params().iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(self.out, "{comma}%{i}: {}", program.ty(param))?;
        }
        self.out.push_str(") -> (");
        self.types(&program.output_types())?;
        self.out.push_str(") {");
        self.end_line("");
        self.indent += 1;
        for node in program.nodes() {
            self.begin_line();
            self.op(program, &number, node)?;
            let note = if self.locations { format!(" // {}", node.loc) } else { String::new() };
            self.end_line(&note);
        }
        self.begin_line();
        self.out.push_str("return");
        self.values(&number, program.outputs(), " ")?;
        self.end_line("");
        self.comments_before();
        self.indent -= 1;
        self.pad();
        self.out.push('}');
        Ok(())
    }

    fn op(&mut self, program: &Program, number: &Numbering, node: &Node) -> fmt::Result {
        self.values(number, &node.results, "")?;
        if !node.results.is_empty() {
            self.out.push_str(" = ");
        }
        self.out.push_str(node.op.name());
        self.values(number, &node.operands, " ")?;
        let attrs = node.op.attrs();
        for (i, (name, attr)) in attrs.iter().enumerate() {
            let open = if i > 0 { ", " } else { " {" };
            write!(self.out, "{open}{name} = ")?;
            self.attr(attr)?;
        }
        self.out.push_str(if attrs.is_empty() { " : " } else { "} : " });
        if node.results.is_empty() {
            self.out.push_str("()");
        }
        let types: Vec<TensorType> =
            node.results.iter().filter(|&&v| program.contains(v)).map(|&v| program.ty(v).clone()).collect();
        self.types(&types)
    }

    /// Value names separated by commas, with `before` in front if there are any. Values that are none of the
    /// program's (only the verifier's messages meet such) are written `%?`.
    fn values(&mut self, number: &Numbering, values: &[Value], before: &str) -> fmt::Result {
        for (i, &value) in values.iter().enumerate() {
            self.out.push_str(if i > 0 { ", " } else { before });
            match number.get(value) {
                Some(n) => write!(self.out, "%{n}")?,
                None => self.out.push_str("%?"),
            }
        }
        Ok(())
    }

    fn types(&mut self, types: &[TensorType]) -> fmt::Result {
        for (i, ty) in types.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(self.out, "{comma}{ty}")?;
        }
        Ok(())
    }

    fn symbol(&mut self, name: &str) {
        self.out.push('@');
        if is_name(name) {
            self.out.push_str(name);
        } else {
            self.out.push_str(&quote(name));
        }
    }

    fn attr(&mut self, attr: &Attr) -> fmt::Result {
        match attr {
            Attr::Word(word) => self.out.push_str(word),
            Attr::Int(int) => write!(self.out, "{int}")?,
            Attr::Ints(ints) => write!(self.out, "{ints:?}")?,
            Attr::Text(text) => self.out.push_str(&quote(text)),
            Attr::Texts(texts) => {
                let texts: Vec<String> = texts.iter().map(|text| quote(text)).collect();
                write!(self.out, "[{}]", texts.join(", "))?;
            }
            Attr::Type(ty) => write!(self.out, "{ty}")?,
            Attr::Types(types) => {
                self.out.push('[');
                self.types(types)?;
                self.out.push(']');
            }
            Attr::Literal(literal) => write!(self.out, "{literal}")?,
            Attr::Program(program) => self.nested(program)?,
            Attr::Programs(programs) => {
                self.out.push('[');
                for (i, program) in programs.iter().enumerate() {
                    self.out.push_str(if i > 0 { ", " } else { "" });
                    self.nested(program)?;
                }
                self.out.push(']');
            }
        }
        Ok(())
    }

    fn nested(&mut self, program: &Program) -> fmt::Result {
        if self.nested_by_name {
            self.symbol(program.name());
            return Ok(());
        }
        self.program(program)
    }
}

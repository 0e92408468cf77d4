//! Reading programs.

use super::MAX_NESTING;
use super::comments::Comments;
use super::error::ParseError;
use super::lex::{Kind, Lexer, Token, unquote};
use super::literal::{parse_element, parse_i128, parse_nan};
use super::print::Printer;
use crate::builder::Builder;
use crate::dtype::DType;
use crate::literal::Literal;
use crate::ops::{Attr, AttrReader, Op};
use crate::program::{Program, Value};
use crate::shape::{Shape, TensorType};
use indexmap::IndexMap;
use std::str::FromStr;
use std::sync::Arc;

/// The largest rank the text form accepts: far beyond use, and small enough for the rules that compare every
/// dimension with every other.
const MAX_RANK: usize = 255;

type Parsed<T> = Result<T, ParseError>;

impl Program {
    /// Reads a text that holds one program.
    pub fn parse(text: &str) -> Result<Program, ParseError> {
        let mut parser = Parser::new(text)?;
        let program = parser.program(0)?;
        parser.end()?;
        Ok(program)
    }

    /// Reads a text that holds any number of programs.
    pub fn parse_all(text: &str) -> Result<Vec<Program>, ParseError> {
        Ok(parse_file(text)?.0)
    }
}

impl FromStr for Program {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Program, ParseError> {
        Program::parse(text)
    }
}

/// A text of any number of programs in canonical form, its comments kept.
pub fn format(text: &str) -> Result<String, ParseError> {
    let (programs, comments) = parse_file(text)?;
    Ok(Printer::with_comments(&comments).file(&programs))
}

/// Reads a type such as `f32[2,3]`.
pub fn parse_type(text: &str) -> Result<TensorType, ParseError> {
    let mut parser = Parser::new(text)?;
    let ty = parser.ty()?;
    parser.end()?;
    Ok(ty)
}

fn parse_file(text: &str) -> Parsed<(Vec<Program>, Comments<'_>)> {
    let mut parser = Parser::new(text)?;
    let mut programs = Vec::new();
    while parser.token.kind != Kind::End {
        programs.push(parser.program(0)?);
    }
    parser.lexer.comments.begin_line();
    Ok((programs, parser.lexer.comments))
}

/// Recursive descent over programs in programs, up to [`MAX_NESTING`]; everything else is a loop.
pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The next token, not yet consumed.
    token: Token<'a>,
}

/// The program being read.
struct Scope<'a> {
    builder: Builder,
    names: IndexMap<&'a str, Value>,
}

impl<'a> Scope<'a> {
    fn define(&mut self, parser: &Parser<'a>, name: Token<'a>, value: Value) -> Parsed<()> {
        match self.names.insert(name.text, value) {
            None => Ok(()),
            Some(_) => Err(parser.lexer.error(name, format!("{} is defined twice", name.text))),
        }
    }

    fn values(&self, parser: &Parser<'a>, names: &[Token<'a>]) -> Parsed<Vec<Value>> {
        let value = |name: &Token<'a>| {
            let undefined = || parser.lexer.error(*name, format!("{} is not defined before this", name.text));
            self.names.get(name.text).copied().ok_or_else(undefined)
        };
        names.iter().map(value).collect()
    }
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Parsed<Parser<'a>> {
        let mut lexer = Lexer::new(text);
        let token = lexer.next()?;
        Ok(Parser { lexer, token })
    }

    fn advance(&mut self) -> Parsed<Token<'a>> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn expected(&self, what: &str) -> ParseError {
        let found = match self.token.kind {
            Kind::End => "the end of the text".to_string(),
            _ => format!("`{}`", self.token.text.chars().take(40).collect::<String>()),
        };
        self.lexer.error(self.token, format!("expected {what}, found {found}"))
    }

    fn is(&self, text: &str) -> bool {
        self.token.text == text && self.token.kind != Kind::End
    }

    /// Consumes the token if it is this mark or word.
    fn eat(&mut self, text: &str) -> Parsed<bool> {
        let found = self.is(text);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, text: &str) -> Parsed<()> {
        if self.eat(text)? { Ok(()) } else { Err(self.expected(&format!("`{text}`"))) }
    }

    fn expect_kind(&mut self, kind: Kind, what: &str) -> Parsed<Token<'a>> {
        if self.token.kind == kind { self.advance() } else { Err(self.expected(what)) }
    }

    /// Checks that nothing follows.
    pub(super) fn end(&self) -> Parsed<()> {
        if self.token.kind == Kind::End { Ok(()) } else { Err(self.expected("the end of the text")) }
    }

    /// Items separated by commas, up to a closing mark, which is consumed.
    fn list<T>(&mut self, close: &str, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        if self.eat(close)? {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.eat(close)? {
                return Ok(items);
            }
            if !self.eat(",")? {
                return Err(self.expected(&format!("`,` or `{close}`")));
            }
        }
    }

    fn program(&mut self, depth: usize) -> Parsed<Program> {
        if depth >= MAX_NESTING {
            return Err(self.lexer.error(self.token, format!("programs nest deeper than {MAX_NESTING}")));
        }
        match depth {
            0 => self.lexer.comments.begin_line(),
            _ => self.lexer.comments.continue_line(),
        }
        self.expect("program")?;
        let name = self.expect_kind(Kind::Symbol, "a name such as @f")?;
        let name = self.symbol(name)?;
        let mut scope = Scope { builder: Builder::new(&name), names: IndexMap::new() };
        self.expect("(")?;
        self.list(")", |parser| {
            let name = parser.expect_kind(Kind::Value, "a parameter such as %x")?;
            parser.expect(":")?;
            let ty = parser.ty()?;
            let value = scope.builder.param(ty);
            scope.define(parser, name, value)
        })?;
        self.expect("->")?;
        self.expect("(")?;
        let types = self.list(")", Self::ty)?;
        self.expect("{")?;
        while !self.is("return") {
            self.op(&mut scope, depth)?;
        }
        let outputs = self.outputs(&scope, &types)?;
        self.lexer.comments.begin_line();
        self.expect("}")?;
        Ok(scope.builder.finish(&outputs))
    }

    fn symbol(&self, token: Token<'a>) -> Parsed<String> {
        let name = &token.text[1..];
        if !name.starts_with('"') {
            return Ok(name.to_string());
        }
        unquote(name).ok_or_else(|| self.lexer.error(token, BAD_ESCAPE))
    }

    fn outputs(&mut self, scope: &Scope<'a>, types: &[TensorType]) -> Parsed<Vec<Value>> {
        self.lexer.comments.begin_line();
        let keyword = self.advance()?;
        let names = self.value_names()?;
        let outputs = scope.values(self, &names)?;
        if outputs.len() != types.len() {
            let text =
                format!("{} values are returned, and {} types are declared", outputs.len(), types.len());
            return Err(self.lexer.error(keyword, text));
        }
        for ((&value, declared), &name) in outputs.iter().zip(types).zip(&names) {
            let found = scope.builder.ty(value);
            if found != declared {
                let text = format!("{} is {found}, and the program declares {declared} here", name.text);
                return Err(self.lexer.error(name, text));
            }
        }
        Ok(outputs)
    }

    /// Value names separated by commas; possibly none.
    fn value_names(&mut self) -> Parsed<Vec<Token<'a>>> {
        let mut names = Vec::new();
        if self.token.kind != Kind::Value {
            return Ok(names);
        }
        loop {
            names.push(self.expect_kind(Kind::Value, "a value such as %x")?);
            if !self.eat(",")? {
                return Ok(names);
            }
        }
    }

    fn op(&mut self, scope: &mut Scope<'a>, depth: usize) -> Parsed<()> {
        self.lexer.comments.begin_line();
        let results = self.value_names()?;
        if !results.is_empty() {
            self.expect("=")?;
        }
        let name = self.expect_kind(Kind::Word, "an op or `return`")?;
        if !Op::ALL.iter().any(|family| (family.names)().contains(&name.text)) {
            return Err(self.lexer.error(name, format!("there is no op `{}`", name.text)));
        }
        let operand_names = self.value_names()?;
        let operands = scope.values(self, &operand_names)?;
        let attrs = if self.eat("{")? { self.attrs(depth)? } else { Vec::new() };
        let op = Op::parse(name.text, &mut AttrReader::new(attrs))
            .map_err(|error| self.lexer.error(name, format!("{}: {error}", name.text)))?;
        self.expect(":")?;
        let declared = self.types()?;
        let values = scope
            .builder
            .emit_unshared(op, &operands)
            .map_err(|error| self.lexer.error(name, error.to_string()))?;
        self.check_results(scope, name, &values, &declared)?;
        if values.len() != results.len() {
            let text = format!("{} has {} results, and {} are named", name.text, values.len(), results.len());
            return Err(self.lexer.error(name, text));
        }
        for (&name, &value) in results.iter().zip(&values) {
            scope.define(self, name, value)?;
        }
        Ok(())
    }

    /// `()`, or types separated by commas, each with its place.
    fn types(&mut self) -> Parsed<Vec<(Token<'a>, TensorType)>> {
        if self.eat("(")? {
            self.expect(")")?;
            return Ok(Vec::new());
        }
        let mut types = Vec::new();
        loop {
            types.push((self.token, self.ty()?));
            if !self.eat(",")? {
                return Ok(types);
            }
        }
    }

    fn check_results(
        &self,
        scope: &Scope<'a>,
        name: Token<'a>,
        values: &[Value],
        declared: &[(Token<'a>, TensorType)],
    ) -> Parsed<()> {
        for (&value, (token, declared)) in values.iter().zip(declared) {
            let found = scope.builder.ty(value);
            if found != declared {
                let text = format!("{} gives {found} here, not {declared}", name.text);
                return Err(self.lexer.error(*token, text));
            }
        }
        if values.len() == declared.len() {
            return Ok(());
        }
        let text =
            format!("{} has {} results, and {} types are given", name.text, values.len(), declared.len());
        Err(self.lexer.error(name, text))
    }

    /// Attributes up to the closing brace, which is consumed.
    fn attrs(&mut self, depth: usize) -> Parsed<Vec<(String, Attr)>> {
        let mut seen = IndexMap::new();
        self.list("}", |parser| {
            let name = parser.expect_kind(Kind::Word, "an attribute such as dims = [0]")?;
            parser.expect("=")?;
            let value = parser.attr(depth)?;
            match seen.insert(name.text, value) {
                None => Ok(()),
                Some(_) => Err(parser.lexer.error(name, format!("attribute `{}` is given twice", name.text))),
            }
        })?;
        Ok(seen.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
    }

    fn attr(&mut self, depth: usize) -> Parsed<Attr> {
        match self.token.kind {
            Kind::Number => self.integer().map(Attr::Int),
            Kind::Text => self.text().map(Attr::Text),
            Kind::Mark if self.is("[") => {
                self.advance()?;
                self.attr_list(depth)
            }
            Kind::Word if self.is("program") => Ok(Attr::Program(Arc::new(self.program(depth + 1)?))),
            Kind::Word => self.word_or_typed(),
            _ => Err(self.expected("the value of an attribute")),
        }
    }

    fn text(&mut self) -> Parsed<String> {
        let token = self.expect_kind(Kind::Text, "quoted text")?;
        unquote(token.text).ok_or_else(|| self.lexer.error(token, BAD_ESCAPE))
    }

    /// A list of integers, of texts, of types or of programs, behind its opening bracket.
    fn attr_list(&mut self, depth: usize) -> Parsed<Attr> {
        match self.token.kind {
            Kind::Word if self.is("program") => {
                self.list("]", |parser| parser.program(depth + 1).map(Arc::new)).map(Attr::Programs)
            }
            Kind::Word => self.list("]", Self::ty).map(Attr::Types),
            Kind::Text => self.list("]", Self::text).map(Attr::Texts),
            _ => self.list("]", Self::integer).map(Attr::Ints),
        }
    }

    /// A bare word, a type, or a constant, which begins with its type.
    fn word_or_typed(&mut self) -> Parsed<Attr> {
        let word = self.advance()?;
        if !self.is("[") {
            return Ok(Attr::Word(word.text.to_string()));
        }
        let ty = self.ty_after(word)?;
        if self.is(",") || self.is("}") {
            return Ok(Attr::Type(ty));
        }
        self.elements(ty).map(Attr::Literal)
    }

    fn integer(&mut self) -> Parsed<i64> {
        let token = self.expect_kind(Kind::Number, "an integer")?;
        let value = parse_i128(token.text).and_then(|value| i64::try_from(value).ok());
        value.ok_or_else(|| self.lexer.error(token, "expected an integer that fits in 64 bits"))
    }

    pub(super) fn ty(&mut self) -> Parsed<TensorType> {
        let word = self.expect_kind(Kind::Word, "a type such as f32[2,3]")?;
        self.ty_after(word)
    }

    /// The type whose dtype is already consumed.
    fn ty_after(&mut self, word: Token<'a>) -> Parsed<TensorType> {
        let dtype = DType::from_name(word.text).ok_or_else(|| {
            let names = DType::ALL.map(DType::name).join(", ");
            self.lexer.error(word, format!("expected a type such as f32[2,3]; element types are {names}"))
        })?;
        if !self.is("[") {
            return Err(self.expected("the extents of a type, such as [2,3] or []"));
        }
        let open = self.advance()?;
        let extents = self.list("]", Self::extent)?;
        let levels = extents.iter().take_while(|extent| extent.is_none()).count();
        let Some(shape) = extents[levels..].iter().copied().collect::<Option<Shape>>() else {
            return Err(self.lexer.error(open, "only the outermost extents can be `?`, those of stacks"));
        };
        if extents.len() > MAX_RANK {
            let text = format!("the rank is {}, and at most {MAX_RANK}", extents.len());
            return Err(self.lexer.error(open, text));
        }
        if shape.checked_len().is_none() {
            return Err(self.lexer.error(open, format!("a tensor of shape {shape} is too large")));
        }
        let tensor = TensorType::new(dtype, shape);
        let stacked = (0..levels).try_fold(tensor, |ty, _| ty.stack());
        stacked.ok_or_else(|| self.lexer.error(open, "too many levels of stacks"))
    }

    /// An extent; `None` for one known only at run time.
    fn extent(&mut self) -> Parsed<Option<usize>> {
        if self.eat("?")? {
            return Ok(None);
        }
        let token = self.token;
        let extent = usize::try_from(self.integer()?);
        extent.map(Some).map_err(|_| self.lexer.error(token, "an extent is at least 0"))
    }

    /// The elements of a constant of this type.
    pub(super) fn elements(&mut self, ty: TensorType) -> Parsed<Literal> {
        if ty.is_stack() {
            return Err(
                self.expected(&format!("the end of the attribute: {ty} is a stack, and constants are not"))
            );
        }
        if ty.shape.rank() == 0 || self.eat("splat")? {
            let bits = self.element(ty.dtype)?;
            return Ok(Literal::splat_bits(ty, bits));
        }
        let open = self.token;
        let bits = self.element_list(&ty)?;
        let found = bits.len();
        Literal::dense_bits(ty.clone(), bits).ok_or_else(|| {
            let text = format!("{found} elements are given, and {ty} has {}", ty.shape.elements());
            self.lexer.error(open, text)
        })
    }

    /// All elements in one list, or lists in lists as the shape has it.
    fn element_list(&mut self, ty: &TensorType) -> Parsed<Vec<u64>> {
        if !self.is("[") {
            return Err(self.expected("a list of elements, or `splat` and one element"));
        }
        let mut bits = Vec::new();
        // Items met so far in each list that is open.
        let mut open: Vec<usize> = Vec::new();
        let mut is_nested = false;
        loop {
            while self.is("[") {
                if open.len() == ty.shape.rank() {
                    return Err(self.expected(&format!("an element: {ty} has {} dimensions", open.len())));
                }
                self.advance()?;
                open.push(0);
                is_nested |= open.len() > 1;
            }
            if !self.is("]") {
                if is_nested && open.len() < ty.shape.rank() {
                    return Err(self.expected("`[`: lists are nested as deep as the shape or not at all"));
                }
                bits.push(self.element(ty.dtype)?);
                self.count_item(&mut open);
            }
            while self.is("]") {
                let close = self.advance()?;
                let (count, dim) = (open.pop().unwrap_or(0), open.len());
                if is_nested && count != ty.shape[dim] {
                    let text = format!(
                        "{count} items are listed along axis {dim}, whose extent is {}",
                        ty.shape[dim]
                    );
                    return Err(self.lexer.error(close, text));
                }
                if open.is_empty() {
                    return Ok(bits);
                }
                self.count_item(&mut open);
            }
            self.expect(",")?;
        }
    }

    fn count_item(&self, open: &mut [usize]) {
        if let Some(count) = open.last_mut() {
            *count += 1;
        }
    }

    fn element(&mut self, dtype: DType) -> Parsed<u64> {
        if !matches!(self.token.kind, Kind::Word | Kind::Number) {
            return Err(self.expected(&format!("an element of type {dtype}")));
        }
        let token = self.advance()?;
        if token.text == "nan" && self.eat("(")? {
            let bits = self.expect_kind(Kind::Number, "the bits of a NaN in hex")?;
            let bits = parse_nan(dtype, bits.text).map_err(|message| self.lexer.error(bits, message))?;
            self.expect(")")?;
            return Ok(bits);
        }
        parse_element(dtype, token.text).map_err(|message| self.lexer.error(token, message))
    }
}

const BAD_ESCAPE: &str = "unknown escape; there are \\\" \\\\ \\n \\t and \\u{hex}";

//! Attributes as the text form sees them.

use crate::dtype::DType;
use crate::literal::Literal;
use crate::program::Program;
use crate::shape::{Dims, Shape, TensorType};
use std::sync::Arc;
use thiserror::Error;

/// The value of an attribute.
#[derive(Clone, PartialEq, Debug)]
pub enum Attr {
    /// A bare word: `sum`, `checked`, `f32`.
    Word(String),
    /// An integer.
    Int(i64),
    /// A list of integers.
    Ints(Vec<i64>),
    /// Quoted text.
    Text(String),
    /// A list of quoted texts.
    Texts(Vec<String>),
    /// A tensor type.
    Type(TensorType),
    /// A list of tensor types.
    Types(Vec<TensorType>),
    /// A typed constant.
    Literal(Literal),
    /// A nested program.
    Program(Arc<Program>),
    /// A list of nested programs.
    Programs(Vec<Arc<Program>>),
}

impl Attr {
    /// A list of dimension numbers or extents.
    pub fn dims(dims: &[usize]) -> Attr {
        Attr::Ints(dims.iter().map(|&d| d as i64).collect())
    }
}

/// An attribute is missing, unknown or of the wrong kind.
#[derive(Clone, PartialEq, Debug, Error)]
#[error("{message}")]
pub struct AttrError {
    /// What is wrong, naming the attribute.
    pub message: String,
}

impl AttrError {
    /// An error with this text.
    pub fn new(message: impl Into<String>) -> AttrError {
        AttrError { message: message.into() }
    }

    fn kind(name: &str, kind: &str) -> AttrError {
        AttrError::new(format!("attribute `{name}` must be {kind}"))
    }
}

/// The attributes of one op, handed out by name.
#[derive(Default, Debug)]
pub struct AttrReader {
    attrs: Vec<(String, Attr)>,
}

impl AttrReader {
    /// From names and values in the order written.
    pub fn new(attrs: Vec<(String, Attr)>) -> AttrReader {
        AttrReader { attrs }
    }

    /// The attribute, if it is there.
    pub fn take(&mut self, name: &str) -> Option<Attr> {
        let at = self.attrs.iter().position(|(n, _)| n == name)?;
        Some(self.attrs.remove(at).1)
    }

    fn need(&mut self, name: &str) -> Result<Attr, AttrError> {
        self.take(name).ok_or_else(|| AttrError::new(format!("attribute `{name}` is missing")))
    }

    /// An integer.
    pub fn int(&mut self, name: &str) -> Result<i64, AttrError> {
        match self.need(name)? {
            Attr::Int(i) => Ok(i),
            _ => Err(AttrError::kind(name, "an integer")),
        }
    }

    /// An integer of at least 0.
    pub fn size(&mut self, name: &str) -> Result<usize, AttrError> {
        let i = self.int(name)?;
        usize::try_from(i).map_err(|_| AttrError::kind(name, "an integer of at least 0"))
    }

    /// An integer of at least 0, or the default when the attribute is absent.
    pub fn size_or(&mut self, name: &str, default: usize) -> Result<usize, AttrError> {
        if self.attrs.iter().any(|(n, _)| n == name) { self.size(name) } else { Ok(default) }
    }

    /// A list of integers.
    pub fn ints(&mut self, name: &str) -> Result<Vec<i64>, AttrError> {
        match self.need(name)? {
            Attr::Ints(list) => Ok(list),
            _ => Err(AttrError::kind(name, "a list of integers")),
        }
    }

    /// A list of integers of at least 0.
    pub fn dims(&mut self, name: &str) -> Result<Dims, AttrError> {
        let list = self.ints(name)?;
        list.into_iter()
            .map(|i| {
                usize::try_from(i).map_err(|_| AttrError::kind(name, "a list of integers of at least 0"))
            })
            .collect()
    }

    /// A list of integers of at least 0, empty when the attribute is absent.
    pub fn dims_or_empty(&mut self, name: &str) -> Result<Dims, AttrError> {
        if self.attrs.iter().any(|(n, _)| n == name) { self.dims(name) } else { Ok(Dims::new()) }
    }

    /// Extents.
    pub fn shape(&mut self, name: &str) -> Result<Shape, AttrError> {
        Ok(Shape::new(&self.dims(name)?))
    }

    /// One of these words.
    pub fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Result<T, AttrError> {
        let choices = || {
            let names: Vec<&str> = words.iter().map(|(w, _)| *w).collect();
            format!("one of {}", names.join(", "))
        };
        match self.need(name)? {
            Attr::Word(w) => words
                .iter()
                .find(|(word, _)| *word == w)
                .map(|(_, value)| *value)
                .ok_or_else(|| AttrError::kind(name, &choices())),
            _ => Err(AttrError::kind(name, &choices())),
        }
    }

    /// One of these words, or the default when the attribute is absent.
    pub fn word_or<T: Copy>(&mut self, name: &str, words: &[(&str, T)], default: T) -> Result<T, AttrError> {
        if self.attrs.iter().any(|(n, _)| n == name) { self.word(name, words) } else { Ok(default) }
    }

    /// An element type.
    pub fn dtype(&mut self, name: &str) -> Result<DType, AttrError> {
        let words: Vec<(&str, DType)> = DType::ALL.iter().map(|d| (d.name(), *d)).collect();
        self.word(name, &words)
    }

    /// Quoted text.
    pub fn text(&mut self, name: &str) -> Result<String, AttrError> {
        match self.need(name)? {
            Attr::Text(text) => Ok(text),
            _ => Err(AttrError::kind(name, "quoted text")),
        }
    }

    /// Quoted text, empty when the attribute is absent.
    pub fn text_or_empty(&mut self, name: &str) -> Result<String, AttrError> {
        if self.attrs.iter().any(|(n, _)| n == name) { self.text(name) } else { Ok(String::new()) }
    }

    /// A list of quoted texts.
    pub fn texts(&mut self, name: &str) -> Result<Vec<String>, AttrError> {
        match self.need(name)? {
            Attr::Texts(list) => Ok(list),
            Attr::Ints(list) if list.is_empty() => Ok(Vec::new()),
            _ => Err(AttrError::kind(name, "a list of quoted texts")),
        }
    }

    /// A tensor type.
    pub fn ty(&mut self, name: &str) -> Result<TensorType, AttrError> {
        match self.need(name)? {
            Attr::Type(ty) => Ok(ty),
            _ => Err(AttrError::kind(name, "a type such as f32[2,3]")),
        }
    }

    /// A list of tensor types.
    pub fn types(&mut self, name: &str) -> Result<Vec<TensorType>, AttrError> {
        match self.need(name)? {
            Attr::Types(types) => Ok(types),
            Attr::Ints(list) if list.is_empty() => Ok(Vec::new()),
            _ => Err(AttrError::kind(name, "a list of types")),
        }
    }

    /// A typed constant.
    pub fn literal(&mut self, name: &str) -> Result<Literal, AttrError> {
        match self.need(name)? {
            Attr::Literal(literal) => Ok(literal),
            _ => Err(AttrError::kind(name, "a typed constant such as f32[2] [1.0, 2.0]")),
        }
    }

    /// A nested program.
    pub fn program(&mut self, name: &str) -> Result<Arc<Program>, AttrError> {
        match self.need(name)? {
            Attr::Program(program) => Ok(program),
            _ => Err(AttrError::kind(name, "a program")),
        }
    }

    /// A nested program, or `None` when the attribute is absent.
    pub fn program_if_any(&mut self, name: &str) -> Result<Option<Arc<Program>>, AttrError> {
        if self.attrs.iter().any(|(n, _)| n == name) { self.program(name).map(Some) } else { Ok(None) }
    }

    /// A list of nested programs.
    pub fn programs(&mut self, name: &str) -> Result<Vec<Arc<Program>>, AttrError> {
        match self.need(name)? {
            Attr::Programs(programs) => Ok(programs),
            _ => Err(AttrError::kind(name, "a list of programs")),
        }
    }

    /// Fails if an attribute is left that nobody asked for.
    pub fn finish(&self) -> Result<(), AttrError> {
        match self.attrs.first() {
            None => Ok(()),
            Some((name, _)) => Err(AttrError::new(format!("there is no attribute `{name}` here"))),
        }
    }
}

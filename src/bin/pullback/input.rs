//! Reading files of programs, and what can go wrong with them.

use pullback::ir::Program;
use std::fmt;
use std::fs;
use std::io::Read;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A check failed.
    Check(String),
    /// The input is wrong.
    Input(String),
}

impl Failure {
    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Check(_) => 1,
            Failure::Input(_) => 2,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Check(text) => write!(formatter, "failed: {text}"),
            Failure::Input(text) => write!(formatter, "error: {text}"),
        }
    }
}

/// A file that was read.
pub(crate) struct Source {
    /// Its name as given, for messages.
    pub(crate) name: String,
    /// What it holds.
    pub(crate) text: String,
}

impl Source {
    /// Reads a file, or standard input for `-`.
    pub(crate) fn read(file: &str) -> Result<Source, Failure> {
        let mut text = String::new();
        let read = match file {
            "-" => std::io::stdin().read_to_string(&mut text).map(|_| ()),
            _ => fs::read_to_string(file).map(|found| text = found),
        };
        read.map_err(|error| Failure::Input(format!("cannot read {file}: {error}")))?;
        let name = if file == "-" { "standard input" } else { file };
        Ok(Source { name: name.to_string(), text })
    }

    /// Writes the file anew.
    pub(crate) fn write(&self, text: &str) -> Result<(), Failure> {
        fs::write(&self.name, text)
            .map_err(|error| Failure::Input(format!("cannot write {}: {error}", self.name)))
    }

    /// An error in the file.
    pub(crate) fn error(&self, error: &dyn fmt::Display) -> Failure {
        Failure::Input(format!("{}: {error}", self.name))
    }

    /// Every program in it.
    pub(crate) fn programs(&self) -> Result<Vec<Program>, Failure> {
        Program::parse_all(&self.text).map_err(|error| self.error(&error))
    }

    /// Reads a file and takes the program of that name, or the only one.
    pub(crate) fn program(file: &str, name: Option<&str>) -> Result<(Source, Program), Failure> {
        let source = Source::read(file)?;
        let mut programs = source.programs()?;
        let names: Vec<String> = programs.iter().map(|program| format!("@{}", program.name())).collect();
        let at = match name {
            None if programs.len() == 1 => Some(0),
            None if programs.is_empty() => return Err(source.error(&"there is no program")),
            None => {
                let text =
                    format!("there are several programs; choose one with --program: {}", names.join(", "));
                return Err(source.error(&text));
            }
            Some(name) => programs.iter().position(|program| program.name() == name.trim_start_matches('@')),
        };
        let Some(at) = at else {
            return Err(source.error(&format!("no program has that name; there are {}", names.join(", "))));
        };
        Ok((source, programs.swap_remove(at)))
    }
}

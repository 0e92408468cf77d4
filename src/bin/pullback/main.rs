//! The command-line tool: looks at programs, transforms them, runs them and checks them.

mod check;
mod input;
mod run;

use clap::{Args, Parser, Subcommand, ValueEnum};
use input::{Failure, Source};
use pullback::ir::passes::simplify_with;
use pullback::ir::{Program, text};
use pullback::runtime::Interpreter;
use pullback_autodiff as autodiff;
use pullback_lower::{Options, lower};
use std::io::Write;
use std::process::ExitCode;

/// Programs of the pullback compiler, from their text form.
///
/// Exit codes: 0 all is well, 1 a check failed, 2 wrong usage or input.
#[derive(Parser)]
#[command(name = "pullback", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// A file and the program meant in it.
#[derive(Args)]
struct Input {
    /// File of programs, or `-` for standard input
    file: String,
    /// Name of the program, if the file holds several
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
}

/// What to differentiate.
#[derive(Args)]
struct Derive {
    #[command(flatten)]
    input: Input,
    /// Numbers of the parameters to differentiate with respect to, counted from 0
    #[arg(long, value_delimiter = ',', default_value = "0", value_name = "NUMBERS")]
    wrt: Vec<usize>,
    /// Print the derivative as the rules make it
    #[arg(long)]
    raw: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Print programs in canonical form, comments kept
    Fmt {
        /// File of programs, or `-` for standard input
        file: String,
        /// Write the file instead of printing it
        #[arg(long, conflicts_with = "check")]
        write: bool,
        /// Print nothing; fail if the file is not in canonical form
        #[arg(long)]
        check: bool,
    },
    /// Check every promise that a program makes
    Verify {
        /// File of programs, or `-` for standard input
        file: String,
    },
    /// Print the gradient of a program with one scalar output
    Grad {
        #[command(flatten)]
        derive: Derive,
        /// Return the program's value as well
        #[arg(long)]
        value: bool,
    },
    /// Print the forward derivative: parameters and tangents to outputs and their tangents
    Jvp {
        #[command(flatten)]
        derive: Derive,
    },
    /// Print the reverse derivative: parameters and cotangents to outputs and gradients
    Vjp {
        #[command(flatten)]
        derive: Derive,
    },
    /// Print a program simplified
    Simplify {
        #[command(flatten)]
        input: Input,
    },
    /// Run a program and print its outputs
    #[command(after_help = "Example: pullback run loss.ir '[0.5, -1.0]' 2.0")]
    Run {
        #[command(flatten)]
        input: Input,
        /// Interpret the program instead of compiling it
        #[arg(long)]
        interpret: bool,
        /// One per parameter: a number, a list such as `[[1, 2], [3, 4]]`, or `splat 1.0`
        #[arg(allow_negative_numbers = true)]
        arguments: Vec<String>,
    },
    /// Check machine code against the interpreter, derivatives against difference quotients
    Check {
        #[command(flatten)]
        input: Input,
        /// How many random arguments to try
        #[arg(long, default_value_t = 10)]
        cases: u64,
    },
    /// Print what becomes of a program on its way to machine code
    Show {
        #[command(flatten)]
        input: Input,
        /// How far on its way
        #[arg(long, value_enum, default_value_t = Stage::Kernels)]
        stage: Stage,
    },
}

/// A stage of the compilation.
#[derive(Clone, Copy, ValueEnum)]
enum Stage {
    /// Inlined and simplified
    Program,
    /// Fused, scheduled and planned
    Kernels,
    /// As Cranelift gets it
    Clif,
    /// Machine instructions
    Asm,
}

fn main() -> ExitCode {
    let result = execute(Cli::parse().command);
    match result {
        Ok(output) => match std::io::stdout().write_all(output.as_bytes()) {
            // Who closes the pipe has read enough.
            Ok(()) | Err(_) => ExitCode::SUCCESS,
        },
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "{failure}");
            ExitCode::from(failure.code())
        }
    }
}

/// Runs a command and returns what it prints.
fn execute(command: Command) -> Result<String, Failure> {
    match command {
        Command::Fmt { file, write, check } => fmt(&file, write, check),
        Command::Verify { file } => verify(&file),
        Command::Grad { derive, value: false } => derivative(&derive, autodiff::grad),
        Command::Grad { derive, value: true } => derivative(&derive, autodiff::value_and_grad),
        Command::Jvp { derive } => derivative(&derive, autodiff::jvp),
        Command::Vjp { derive } => derivative(&derive, autodiff::vjp),
        Command::Simplify { input } => {
            let (_, program) = Source::program(&input.file, input.program.as_deref())?;
            Ok(format!("{}\n", simplify_with(&program, &Interpreter)))
        }
        Command::Run { input, interpret, arguments } => {
            let (_, program) = Source::program(&input.file, input.program.as_deref())?;
            run::run(&program, &arguments, interpret)
        }
        Command::Check { input, cases } => {
            let (source, program) = Source::program(&input.file, input.program.as_deref())?;
            check::check(&source, &program, cases)
        }
        Command::Show { input, stage } => show(&input, stage),
    }
}

fn show(input: &Input, stage: Stage) -> Result<String, Failure> {
    let (source, program) = Source::program(&input.file, input.program.as_deref())?;
    let lowered = lower(&program, &Options::default()).map_err(|error| source.error(&error))?;
    let text = match stage {
        Stage::Program => lowered.program().to_string(),
        Stage::Kernels => lowered.kernels(),
        Stage::Clif => lowered.clif().map_err(|error| source.error(&error))?,
        Stage::Asm => lowered.disassembly().map_err(|error| source.error(&error))?,
    };
    Ok(format!("{}\n", text.trim_end()))
}

fn fmt(file: &str, write: bool, check: bool) -> Result<String, Failure> {
    let source = Source::read(file)?;
    let formatted = text::format(&source.text).map_err(|error| source.error(&error))?;
    if check && formatted != source.text {
        return Err(Failure::Check(format!("{} is not in canonical form", source.name)));
    }
    if write && formatted != source.text {
        source.write(&formatted)?;
    }
    Ok(if check || write { String::new() } else { formatted })
}

fn verify(file: &str) -> Result<String, Failure> {
    let source = Source::read(file)?;
    let mut report = String::new();
    for program in source.programs()? {
        program.verify().map_err(|error| Failure::Check(format!("{}: {error}", source.name)))?;
        let ops: usize = program.op_counts().values().sum();
        report += &format!("@{} is valid: {ops} ops\n", program.name());
    }
    Ok(report)
}

fn derivative(
    derive: &Derive,
    transform: impl Fn(&Program, &[usize]) -> Result<Program, autodiff::AdError>,
) -> Result<String, Failure> {
    let (source, program) = Source::program(&derive.input.file, derive.input.program.as_deref())?;
    let derived = transform(&program, &derive.wrt).map_err(|error| source.error(&error))?;
    let derived = if derive.raw { derived } else { simplify_with(&derived, &Interpreter) };
    Ok(format!("{derived}\n"))
}

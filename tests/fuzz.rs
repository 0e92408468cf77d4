//! Hostile texts. Programs are printed, damaged and read again for as long as `PULLBACK_FUZZ_SECONDS` says: nothing
//! may panic, and what is still a program must keep its promises.
//!
//! `PULLBACK_FUZZ_SECONDS=600 cargo test --test fuzz -- --ignored --nocapture`

#[allow(dead_code)] // Each test takes what it needs.
#[path = "harness/generate.rs"]
mod generate;

use generate::{Style, generate};
use pullback::ir::passes::simplify;
use pullback::ir::text::{self, parse_literal};
use pullback::ir::{DType, Program, TensorType};
use std::panic::catch_unwind;
use std::time::{Duration, Instant};

/// A xorshift generator.
struct Stream(u64);

impl Stream {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Words that mean something somewhere.
const WORDS: &[&str] = &[
    "program",
    "@f",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "=",
    "->",
    "return",
    "%0",
    "%1",
    "%99",
    "f32[]",
    "f64[2,3]",
    "bool[0]",
    "i64[281474976710656]",
    "u32[0,281474976710656]",
    "nan",
    "inf",
    "-inf",
    "nan(0x7fc00001)",
    "splat",
    "true",
    "-1",
    "0",
    "1",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "1e400",
    "0x1p-1074",
    "1e-400",
    "\"",
    "\"a\\n\"",
    "//",
    "\n",
    "constant {value = f32[2] [1.0, 2.0]} : f32[2]",
    "reduce %0 {op = sum, dims = [0]} : f32[]",
    "pad",
    "slice",
    "concat",
    "dot",
    "gather",
    "scatter",
    "call {program = program @g() -> () {",
    "é",
    "\u{0}",
];

/// The text with one thing wrong.
fn damage(text: &str, other: &str, stream: &mut Stream) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let (at, len) = (stream.below(bytes.len() + 1), stream.below(40));
    let end = (at + len).min(bytes.len());
    match stream.below(8) {
        0 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = stream.next() as u8;
            }
        }
        1 => drop(bytes.drain(at..end)),
        2 => {
            let copy = bytes[at..end].to_vec();
            let to = stream.below(bytes.len() + 1);
            bytes.splice(to..to, copy);
        }
        3 => {
            let from = stream.below(other.len());
            let piece = &other.as_bytes()[from..(from + len * 4).min(other.len())];
            bytes.splice(at..end, piece.iter().copied());
        }
        4 => return changed_number(text, stream),
        5 => return changed_line(text, stream),
        _ => {
            let word = WORDS[stream.below(WORDS.len())];
            bytes.splice(at..at, format!(" {word} ").bytes());
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One number in the text replaced by an interesting one.
fn changed_number(text: &str, stream: &mut Stream) -> String {
    let starts: Vec<usize> = text.match_indices(|c: char| c.is_ascii_digit()).map(|(i, _)| i).collect();
    if starts.is_empty() {
        return text.to_string();
    }
    let at = starts[stream.below(starts.len())];
    let rest = text[at..].trim_start_matches(|c: char| c.is_ascii_digit());
    let numbers = ["0", "1", "2", "3", "7", "281474976710656", "9223372036854775807", "4294967296", "-1"];
    format!("{}{}{rest}", &text[..at], numbers[stream.below(numbers.len())])
}

/// One line left out, doubled or moved.
fn changed_line(text: &str, stream: &mut Stream) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return text.to_string();
    }
    let (at, to) = (stream.below(lines.len()), stream.below(lines.len()));
    match stream.below(3) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(to, lines[at]),
        _ => lines.swap(at, to),
    }
    lines.join("\n")
}

/// Everything that reads text, on this one. Returns whether it was a program.
fn read(text: &str) -> bool {
    let _ = text::format(text).map(|formatted| assert_eq!(text::format(&formatted), Ok(formatted.clone())));
    let ty = TensorType::new(DType::F32, [2, 2]);
    let _ = (text::parse_type(text), parse_literal(&ty, text));
    let program = match Program::parse(text) {
        Ok(program) => program,
        Err(error) => {
            assert!(error.line >= 1 && error.column >= 1 && !error.to_string().is_empty());
            return false;
        }
    };
    program.verify().unwrap();
    assert_eq!(Program::parse(&program.to_string()).as_ref(), Ok(&program));
    simplify(&program).verify().unwrap();
    true
}

#[test]
#[ignore = "runs for PULLBACK_FUZZ_SECONDS"]
fn damaged_texts_never_panic() {
    let seconds = std::env::var("PULLBACK_FUZZ_SECONDS").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut stream = Stream(0x1234_5678_9abc_def1);
    let (mut texts, mut programs) = (0u64, 0u64);
    while Instant::now() < end {
        let seed = stream.next();
        let [text, other] = [seed, seed.wrapping_add(1)]
            .map(|seed| generate(seed, 1 + seed as usize % 20, Style::Any).program.to_string());
        for _ in 0..50 {
            let mut damaged = text.clone();
            for _ in 0..1 + stream.below(4) {
                damaged = damage(&damaged, &other, &mut stream);
            }
            if stream.below(20) == 0 {
                damaged = (0..stream.below(60))
                    .map(|_| WORDS[stream.below(WORDS.len())])
                    .collect::<Vec<_>>()
                    .join(" ");
            }
            match catch_unwind(|| read(&damaged)) {
                Ok(is_program) => programs += is_program as u64,
                Err(_) => panic!("this text panics:\n{damaged}"),
            }
            texts += 1;
        }
    }
    println!("{texts} texts, {programs} of them programs, in {seconds} seconds");
}

/// A little of the same in every run of the tests.
#[test]
fn some_damaged_texts() {
    let mut stream = Stream(7);
    for seed in 0..40 {
        let text = generate(seed, 8, Style::Any).program.to_string();
        for _ in 0..20 {
            read(&damage(&text, &text, &mut stream));
        }
    }
}

//! Peak memory and time of the gradient of a long loop, by what is kept of it.
//!
//! `cargo bench --bench memory`
//!
//! Each way runs in a process of its own, since what is measured is the peak of a process (from `/proc/self/status`,
//! on Linux only).

use pullback::prelude::*;
use std::time::Instant;

const STEPS: usize = 1_000_000;

/// A million steps of 16 numbers, each of which acts on the next; what is kept as named.
fn coupled(way: &str) -> impl Fn(&Tensor) -> Tensor {
    move |x: &Tensor| {
        let step = |x: &Tensor, (): &()| (x * 0.999 + 0.001 * (x.roll(0, 1) * x).sin(), ());
        let end = match way {
            "plain" => scan(x, STEPS, step).0,
            "every 1000" => scan(x.checkpoint_every(1000), STEPS, step).0,
            _ => scan(x.checkpoint_sqrt(), STEPS, step).0,
        };
        end.sum()
    }
}

/// Megabytes this process has had at most.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).and_then(|n| n.parse().ok());
    kilobytes.unwrap_or(f64::NAN) / 1024.0
}

fn measure(way: &'static str) -> Result<(), Error> {
    let x = Tensor::linspace(DType::F64, -1.0, 1.0, 16);
    let gradient = jit(value_and_grad(coupled(way))).compile((&x,))?;
    let mut seconds = Vec::new();
    let mut bits = 0u64;
    for _ in 0..5 {
        let start = Instant::now();
        let (_, found) = gradient.call((&x,))?;
        seconds.push(start.elapsed().as_secs_f64());
        bits = found.to_vec::<f64>()?.iter().fold(0, |bits, x| bits.rotate_left(7) ^ x.to_bits());
    }
    seconds.sort_by(f64::total_cmp);
    println!("{way:<11} {:>8.1} MB {:>7.2} s   gradient {bits:016x}", peak(), seconds[2]);
    Ok(())
}

fn main() {
    const WAYS: [&str; 3] = ["plain", "every 1000", "sqrt"];
    let asked = std::env::args().nth(1);
    match WAYS.into_iter().find(|way| asked.as_deref() == Some(way)) {
        Some(way) => measure(way).expect("runs"),
        None => {
            println!(
                "{STEPS} steps, carry f64[16]: peak memory of the whole process, median time of 5, bits of the gradient"
            );
            for way in WAYS {
                let myself = std::env::current_exe().expect("a path");
                std::process::Command::new(myself).arg(way).status().expect("runs");
            }
        }
    }
}

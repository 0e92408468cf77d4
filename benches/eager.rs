//! What histories cost: recording an op, and graphs of a million ops.
//!
//! `cargo bench --bench eager`. Times and allocations of the first two benches are for chains of 200 additions of scalars
//! whose results stay alive; the difference of the two, divided by 200, is what recording an op costs.

use divan::{AllocProfiler, Bencher, black_box};
use pullback::Tensor;
use pullback::eager::{Retain, no_grad};
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const OPS: usize = 200;

fn chain(x: &Tensor, one: &Tensor) -> Vec<Tensor> {
    let mut results = Vec::with_capacity(OPS + 1);
    results.push(x.clone());
    for i in 0..OPS {
        results.push(&results[i] + one);
    }
    results
}

#[divan::bench(sample_count = 1000)]
fn recorded(bencher: Bencher) {
    let (x, one) = (Tensor::param(0.5), Tensor::from(1.0));
    bencher.bench_local(|| chain(black_box(&x), &one));
}

#[divan::bench(sample_count = 1000)]
fn not_recorded(bencher: Bencher) {
    let (x, one) = (Tensor::param(0.5), Tensor::from(1.0));
    bencher.bench_local(|| no_grad(|| chain(black_box(&x), &one)));
}

/// Sixty doublings, which have 2^60 paths, and the backward pass over them.
#[divan::bench(sample_count = 100)]
fn diamond_of_depth_60(bencher: Bencher) {
    let x = Tensor::param(0.5);
    bencher.bench_local(|| {
        let y = (0..60).fold(black_box(&x).clone(), |y, _| &y + &y);
        y.backward()
    });
}

/// Memory of the process, in bytes.
fn resident() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(f64::NAN) * 4096.0
}

/// A chain of a million additions: printed, since each part is done once.
fn million() -> Result<(), pullback::Error> {
    const N: usize = 1_000_000;
    let (x, one) = (Tensor::param(0.5), Tensor::from(1.0));
    let (before, start) = (resident(), Instant::now());
    let mut y = x.clone();
    for _ in 0..N {
        y = &y + &one;
    }
    let bytes = (resident() - before) / N as f64;
    println!("a million ops: recorded in {:.2} s, {bytes:.0} bytes each", start.elapsed().as_secs_f64());
    let start = Instant::now();
    y.backward_with(Retain::Graph)?;
    println!("               backward in {:.2} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    drop(y);
    println!("               dropped in  {:.2} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn main() -> Result<(), pullback::Error> {
    million()?;
    divan::main();
    Ok(())
}

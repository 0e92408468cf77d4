//! Trains the digits network in the style of `backward()`, and beside it with a compiled step: equal losses to the bit.
//!
//! `cargo run --release --example eager` runs a hundred steps of each. The eager loop runs op by op and keeps gradients in
//! the parameters; its backward passes are compiled when their structure comes the second time.

#[allow(dead_code)] // The example `digits` uses more of it.
#[path = "digits/data.rs"]
mod data;

use data::Digits;
use pullback::eager::{self, Reset, no_grad};
use pullback::optim::{Adam, AdamState};
use pullback::prelude::*;
use pullback::{nn, random, tree};
use std::time::{Duration, Instant};

const HIDDEN: usize = 128;
const BATCH: usize = 64;
const STEPS: usize = 100;

/// A network with two hidden layers, as in the example `digits`.
#[derive(Tree, Clone)]
struct Mlp {
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
    b2: Tensor,
    w3: Tensor,
    b3: Tensor,
}

impl Mlp {
    fn new(key: &Tensor) -> Mlp {
        let [first, second, third] = random::split(key);
        let zeros = |n: usize| Tensor::zeros(DType::F32, [n]);
        Mlp {
            w1: nn::he_normal(&first, DType::F32, [64, HIDDEN]),
            b1: zeros(HIDDEN),
            w2: nn::he_normal(&second, DType::F32, [HIDDEN, HIDDEN]),
            b2: zeros(HIDDEN),
            w3: nn::he_normal(&third, DType::F32, [HIDDEN, 10]),
            b3: zeros(10),
        }
    }

    fn loss(&self, images: &Tensor, labels: &Tensor) -> Tensor {
        let h = (images.matmul(&self.w1) + &self.b1).relu();
        let h = (h.matmul(&self.w2) + &self.b2).relu();
        (h.matmul(&self.w3) + &self.b3).cross_entropy(labels).mean()
    }
}

/// The same step as a function, for `jit`.
fn step(
    network: &Mlp,
    optimizer: &AdamState<Mlp>,
    images: &Tensor,
    labels: &Tensor,
) -> Result<(Tensor, Mlp, AdamState<Mlp>), Error> {
    let (loss, gradients) = value_and_grad(Mlp::loss).call((network, images, labels))?;
    let (network, optimizer) = Adam::new(2e-3).update(network, &gradients, optimizer)?;
    Ok((loss, network, optimizer))
}

/// The same step on live tensors: the parameters stay the same tensors, their values and gradients change.
fn eager_step(
    network: &Mlp,
    optimizer: &mut AdamState<Mlp>,
    images: &Tensor,
    labels: &Tensor,
) -> Result<Tensor, Error> {
    let loss = network.loss(images, labels);
    loss.backward()?;
    let gradients = eager::gradients(network)?;
    let (next, state) = no_grad(|| Adam::new(2e-3).update(network, &gradients, optimizer))?;
    for (parameter, values) in tree::leaves(network).into_iter().zip(tree::leaves(&next)) {
        parameter.set_data(values)?;
        parameter.zero_grad(Reset::None)?;
    }
    *optimizer = state;
    Ok(loss.detach())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (train, _) = Digits::load()?.split();
    let network = Mlp::new(&random::key(1));
    let mut compiled = (network.clone(), Adam::new(2e-3).init(&network));
    let live = tree::map(&network, |values| Tensor::param(values.clone()));
    let mut optimizer = Adam::new(2e-3).init(&network);
    let step = jit(step);

    let batches = (0..).flat_map(|epoch| {
        train.shuffled(epoch).chunks_exact(BATCH).map(<[usize]>::to_vec).collect::<Vec<_>>()
    });
    let (mut eager_times, mut compiled_times) = (Vec::new(), Vec::new());
    println!("step  eager loss  compiled loss");
    for (i, batch) in batches.take(STEPS).enumerate() {
        let (images, labels) = train.batch(&batch);
        let start = Instant::now();
        let eager_loss = eager_step(&live, &mut optimizer, &images, &labels)?.item::<f32>()?;
        eager_times.push(start.elapsed());
        let start = Instant::now();
        let (loss, next, state) = step.call((&compiled.0, &compiled.1, &images, &labels))?;
        compiled_times.push(start.elapsed());
        compiled = (next, state);
        let loss = loss.item::<f32>()?;
        if i % 10 == 0 || i + 1 == STEPS {
            println!("{i:4}  {eager_loss:10.7}  {loss:13.7}");
        }
        if eager_loss.to_bits() != loss.to_bits() {
            return Err(format!("step {i}: the losses {eager_loss} and {loss} differ").into());
        }
    }
    println!("all {STEPS} losses are equal to the bit");
    println!("eager     {:7.0} µs per step (median)", median(eager_times));
    println!("compiled  {:7.0} µs per step (median)", median(compiled_times));
    println!("backward passes: {:?}", eager::stats());
    Ok(())
}

/// Microseconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

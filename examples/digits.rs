//! Trains a small network on real handwritten digits and shows what happened.
//!
//! `cargo run --release --example digits` reads 1797 images of 8 x 8 pixels, trains on four fifths of them with a
//! compiled step (forward pass, gradients and Adam in one program), tests on the rest, and draws the loss curve
//! and the confusion matrix to `target/digits.svg`.

#[path = "digits/data.rs"]
mod data;
#[path = "digits/picture.rs"]
mod picture;

use data::Digits;
use indicatif::{ProgressBar, ProgressStyle};
use pullback::optim::{Adam, AdamState};
use pullback::prelude::*;
use pullback::{nn, random};
use std::time::Instant;

const HIDDEN: usize = 128;
const BATCH: usize = 64;
const EPOCHS: usize = 60;

/// A network with two hidden layers.
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
    /// Weights as they suit layers with relu, biases zero.
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

    /// A score per digit for each image: `[images, 64] -> [images, 10]`.
    fn logits(&self, images: &Tensor) -> Tensor {
        let h = (images.matmul(&self.w1) + &self.b1).relu();
        let h = (h.matmul(&self.w2) + &self.b2).relu();
        h.matmul(&self.w3) + &self.b3
    }
}

/// Mean cross entropy of the labels (i64) under the network's scores.
fn loss(network: &Mlp, images: &Tensor, labels: &Tensor) -> Tensor {
    network.logits(images).cross_entropy(labels).mean()
}

/// One step of training: loss and gradients on a batch, then Adam.
fn step(
    network: &Mlp,
    optimizer: &AdamState<Mlp>,
    images: &Tensor,
    labels: &Tensor,
) -> Result<(Tensor, Mlp, AdamState<Mlp>), pullback::Error> {
    let (loss, gradients) = value_and_grad(loss).call((network, images, labels))?;
    let (network, optimizer) = Adam::new(2e-3).update(network, &gradients, optimizer)?;
    Ok((loss, network, optimizer))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let digits = Digits::load()?;
    let (train, test) = digits.split();
    let mut network = Mlp::new(&random::key(1));
    let mut optimizer = Adam::new(2e-3).init(&network);
    let step = jit(step);

    let (images, labels) = train.batch(&(0..BATCH).collect::<Vec<_>>());
    let compiling = Instant::now();
    let lowered = step.lower((&network, &optimizer, &images, &labels))?;
    let kernels = lowered.kernel_count();
    let compiled_step = lowered.compile()?;
    let compiled = compiling.elapsed();

    let bar = ProgressBar::new(EPOCHS as u64)
        .with_style(ProgressStyle::with_template("training {bar:40} epoch {pos}/{len}  loss {msg}")?);
    let mut losses = Vec::new();
    let training = Instant::now();
    for epoch in 0..EPOCHS {
        for batch in train.shuffled(epoch as u64).chunks_exact(BATCH) {
            let (images, labels) = train.batch(batch);
            let (loss, next, state) = compiled_step.call((&network, &optimizer, &images, &labels))?;
            (network, optimizer) = (next, state);
            losses.push(loss.item::<f32>()?);
        }
        bar.set_message(format!("{:.4}", losses[losses.len() - 1]));
        bar.inc(1);
    }
    bar.finish();
    let trained = training.elapsed();

    let everything: Vec<usize> = (0..test.len()).collect();
    let (images, labels) = test.batch(&everything);
    let predicted = network.logits(&images).argmax(1).to_vec::<i64>()?;
    let labels = labels.to_vec::<i64>()?;
    let confusion = picture::Confusion::new(&labels, &predicted);

    let seconds_per_step = trained.as_secs_f64() / losses.len() as f64;
    println!("test accuracy        {:.2} % of {} images", 100.0 * confusion.accuracy(), test.len());
    println!("trace to machine code {:.1} ms, {kernels} kernels", compiled.as_secs_f64() * 1e3);
    println!("training             {} steps, {:.0} steps per second", losses.len(), 1.0 / seconds_per_step);
    println!("against interpreter  {:.1} times as fast", interpreted(&network, &train)? / seconds_per_step);

    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/target/digits.svg");
    picture::draw(path, &losses, train.len() / BATCH, &confusion, &test.images(), &predicted)?;
    println!("picture              {path}");
    Ok(())
}

/// Seconds per step when the same program is interpreted; the median of nine.
fn interpreted(network: &Mlp, train: &Digits) -> Result<f64, Box<dyn std::error::Error>> {
    let optimizer = Adam::new(2e-3).init(network);
    let (images, labels) = train.batch(&(0..BATCH).collect::<Vec<_>>());
    let step = jit(step).interpreted();
    let mut seconds = Vec::new();
    for _ in 0..9 {
        let start = Instant::now();
        step.call((network, &optimizer, &images, &labels))?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[seconds.len() / 2])
}

//! The digits: read, split and cut into batches.

use flate2::read::GzDecoder;
use pullback::prelude::*;
use std::fs::File;
use std::io::Read;

/// Images of 64 pixels from 0 to 1, and what they show.
pub(crate) struct Digits {
    pixels: Vec<f32>,
    labels: Vec<i64>,
}

impl Digits {
    /// Reads `data/digits.csv.gz`: 64 pixels from 0 to 16 and a label per line.
    pub(crate) fn load() -> Result<Digits, Box<dyn std::error::Error>> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/data/digits.csv.gz");
        let mut text = String::new();
        GzDecoder::new(File::open(path)?).read_to_string(&mut text)?;
        let mut digits = Digits { pixels: Vec::new(), labels: Vec::new() };
        for line in text.lines() {
            let numbers = line.split(',').map(str::parse::<f32>).collect::<Result<Vec<_>, _>>()?;
            let (label, pixels) = numbers.split_last().ok_or("an empty line")?;
            digits.pixels.extend(pixels.iter().map(|p| p / 16.0));
            digits.labels.push(*label as i64);
        }
        Ok(digits)
    }

    /// Number of images.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// Every fifth image for testing, the others for training.
    pub(crate) fn split(&self) -> (Digits, Digits) {
        let (test, train) = (0..self.len()).partition::<Vec<usize>, _>(|i| i % 5 == 4);
        (self.pick(&train), self.pick(&test))
    }

    fn pick(&self, which: &[usize]) -> Digits {
        Digits {
            pixels: which.iter().flat_map(|&i| &self.pixels[64 * i..64 * (i + 1)]).copied().collect(),
            labels: which.iter().map(|&i| self.labels[i]).collect(),
        }
    }

    /// The numbers of all images in an order that depends on `seed` (Fisher-Yates with a linear congruential
    /// generator).
    pub(crate) fn shuffled(&self, seed: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        let mut state = seed;
        for i in (1..order.len()).rev() {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            order.swap(i, (state >> 33) as usize % (i + 1));
        }
        order
    }

    /// Images `[n, 64]` and labels `[n]` as tensors.
    pub(crate) fn batch(&self, which: &[usize]) -> (Tensor, Tensor) {
        let batch = self.pick(which);
        (Tensor::from_vec(batch.pixels, [which.len(), 64]), Tensor::from_vec(batch.labels, [which.len()]))
    }

    /// The images, each with what it shows.
    pub(crate) fn images(&self) -> Vec<(&[f32], i64)> {
        self.pixels.chunks_exact(64).zip(self.labels.iter().copied()).collect()
    }
}

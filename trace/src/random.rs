//! Random numbers as pure functions of a key.
//!
//! A key is a `u32[2]` tensor. The generator is Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw: "Parallel
//! random numbers: as easy as 1, 2, 3", 2011), made of integer ops, so that keys may be traced and the numbers are the
//! same bits everywhere. Element `i` of a draw depends on the key and on `i` alone, so a shorter draw is the beginning
//! of a longer one. Use a key once; make new ones with [`split`] or [`fold_in`].

use crate::error::Error;
use crate::ops::number::Operand;
use crate::ops::{concat, stack};
use crate::tensor::{Tensor, attempt};
use pullback_ir::ops::leaf::iota::Iota;
use pullback_ir::{DType, Loc, Problem, Shape, TensorType};
use std::f64::consts::TAU;

/// What the first word of the counter says a block is for, so that draws and new keys never coincide.
#[derive(Clone, Copy)]
enum Purpose {
    Draw = 0,
    Split = 1,
    FoldIn = 2,
    SecondDraw = 3,
}

/// The key of a seed.
pub fn key(seed: u64) -> Tensor {
    Tensor::from([(seed >> 32) as u32, seed as u32])
}

/// The cipher: two words of counter to two words of noise, elementwise.
#[track_caller]
pub fn threefry(key: &Tensor, first: &Tensor, second: &Tensor) -> (Tensor, Tensor) {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let (k0, k1) = (key.index_axis(0, 0), key.index_axis(0, 1));
    let k2 = &k0 ^ &k1 ^ 0x1BD1_1BDAi64;
    let schedule = [k0, k1, k2];
    let (mut x, mut y) = (first + &schedule[0], second + &schedule[1]);
    for group in 0..5 {
        for rotation in ROTATIONS[group % 2] {
            x = &x + &y;
            y = ((&y << rotation) | y.shr_logical(32 - rotation)) ^ &x;
        }
        x += &schedule[(group + 1) % 3];
        y = y + &schedule[(group + 2) % 3] + (group as i64 + 1);
    }
    (x, y)
}

/// One block of noise per element of the shape.
#[track_caller]
fn blocks(name: &str, key: &Tensor, shape: &Shape, purpose: Purpose) -> Result<(Tensor, Tensor), Error> {
    let at = Loc::caller();
    check_key(name, key, at)?;
    let counted = shape.checked_len().filter(|&n| n <= u32::MAX as usize);
    let Some(count) = counted else {
        let problem =
            Problem::Constraint("more than 2^32 elements; draw several times with split keys".into());
        return Err(Error::op(name, &[key.ty()?], problem, at));
    };
    let counter = TensorType::new(DType::U32, [count]);
    let places = key.leaf_beside(Iota { ty: counter, dim: 0 }).reshape_to(shape.clone(), at);
    Ok(threefry(key, &places.full_like(purpose as u32 as f64), &places))
}

fn check_key(name: &str, key: &Tensor, at: Loc) -> Result<(), Error> {
    let ty = key.ty()?;
    if *ty == TensorType::new(DType::U32, [2]) {
        return Ok(());
    }
    let text = format!("a key has type u32[2] and not {ty}; make one with random::key or split");
    Err(Error::op(name, &[ty], Problem::Constraint(text), at))
}

/// New keys from one: `let [first, second] = split(&key)`.
#[track_caller]
pub fn split<const N: usize>(key: &Tensor) -> [Tensor; N] {
    let keys = keys(key, N);
    std::array::from_fn(|i| keys.index_axis(0, i))
}

/// New keys from one, as the rows of a `u32[count, 2]`. The first are those of [`split`].
#[track_caller]
pub fn keys(key: &Tensor, count: usize) -> Tensor {
    let (x, y) = attempt!(blocks("split", key, &Shape::new(&[count]), Purpose::Split));
    stack(&[x, y], 1)
}

/// A new key from a key and an integer: the number of a step, or of a layer.
#[track_caller]
pub fn fold_in(key: &Tensor, data: impl Into<Operand>) -> Tensor {
    attempt!(check_key("fold_in", key, Loc::caller()));
    let data = attempt!(data.into().beside(DType::U32, Loc::caller())).to_dtype(DType::U32);
    let (x, y) = threefry(key, &data.full_like(Purpose::FoldIn as u32 as f64), &data);
    concat(&[x.reshape([1]), y.reshape([1])], 0)
}

/// Random bits: u32 or u64.
#[track_caller]
pub fn bits(key: &Tensor, dtype: DType, shape: impl Into<Shape>) -> Tensor {
    let (x, y) = attempt!(blocks("bits", key, &shape.into(), Purpose::Draw));
    match dtype {
        DType::U32 => x,
        DType::U64 => wide(&x, &y),
        DType::Bool | DType::I32 | DType::I64 | DType::F32 | DType::F64 => {
            let text = format!("bits are u32 or u64, not {dtype}; convert them afterwards");
            Tensor::failed(Error::invalid("bits", text, Loc::caller()))
        }
    }
}

#[track_caller]
fn wide(high: &Tensor, low: &Tensor) -> Tensor {
    (high.to_dtype(DType::U64) << 32) | low.to_dtype(DType::U64)
}

/// Numbers in [0, 1) at equal distances: 2^-24 in f32, 2^-53 in f64. Never 1.
#[track_caller]
fn unit(dtype: DType, high: &Tensor, low: &Tensor) -> Tensor {
    if dtype == DType::F64 {
        return wide(high, low).shr_logical(11).to_dtype(DType::F64) * (-53f64).exp2();
    }
    high.shr_logical(8).to_dtype(DType::F32) * (-24f64).exp2()
}

fn require_float(name: &'static str, dtype: DType, at: Loc) -> Result<(), Error> {
    if dtype.is_float() {
        return Ok(());
    }
    Err(Error::invalid(name, format!("draws f32 or f64, not {dtype}; convert the numbers afterwards"), at))
}

/// Uniform numbers in [0, 1); never 1.
#[track_caller]
pub fn uniform<S: Into<Shape>>(key: &Tensor, dtype: DType, shape: S) -> Tensor {
    attempt!(require_float("uniform", dtype, Loc::caller()));
    let (x, y) = attempt!(blocks("uniform", key, &shape.into(), Purpose::Draw));
    unit(dtype, &x, &y)
}

/// Normal numbers of mean 0 and variance 1, by Box and Muller's transform.
#[track_caller]
pub fn normal<S: Into<Shape>>(key: &Tensor, dtype: DType, shape: S) -> Tensor {
    attempt!(require_float("normal", dtype, Loc::caller()));
    let shape = shape.into();
    let (x, y) = attempt!(blocks("normal", key, &shape, Purpose::Draw));
    // An f32 takes one word for each of its two uniform numbers, an f64 one block.
    let (radius, angle) = match dtype {
        DType::F64 => {
            let (z, w) = attempt!(blocks("normal", key, &shape, Purpose::SecondDraw));
            (unit(dtype, &x, &y), unit(dtype, &z, &w))
        }
        _ => (unit(dtype, &x, &y), unit(dtype, &y, &x)),
    };
    // 1 - u lies in (0, 1], so its logarithm is finite.
    ((1.0 - radius).ln() * -2.0).sqrt() * (angle * TAU).cos()
}

/// True with probability `p`, which must be in [0, 1].
#[track_caller]
pub fn bernoulli(key: &Tensor, p: f64, shape: impl Into<Shape>) -> Tensor {
    if !(0.0..=1.0).contains(&p) {
        let text = format!("the probability {p} is not in [0, 1]; give the part of elements to be true");
        return Tensor::failed(Error::invalid("bernoulli", text, Loc::caller()));
    }
    uniform(key, DType::F64, shape).lt(p)
}

/// Integers (i64) from `low` to below `high`, which must be greater.
#[track_caller]
pub fn randint(key: &Tensor, low: i64, high: i64, shape: impl Into<Shape>) -> Tensor {
    let span = high.checked_sub(low).filter(|&span| span > 0 && span <= u32::MAX as i64);
    let Some(span) = span else {
        let text = format!(
            "there are no integers from {low} to below {high}, or over 2^32; widen or narrow the range"
        );
        return Tensor::failed(Error::invalid("randint", text, Loc::caller()));
    };
    let scaled = bits(key, DType::U32, shape).to_dtype(DType::U64) * span;
    scaled.shr_logical(32).to_dtype(DType::I64) + low
}

/// Indices (i64) along the last axis, with the probabilities `softmax(logits)`.
#[track_caller]
pub fn categorical(key: &Tensor, logits: &Tensor) -> Tensor {
    let ty = attempt!(logits.ty());
    // The largest of logits disturbed by Gumbel noise falls where the probabilities say.
    let noise = -(-uniform(key, ty.dtype, ty.shape.clone()).ln()).ln();
    (logits + noise).argmax(-1)
}

impl Tensor {
    /// Zero with probability `p`, else divided by `1 - p`. The mask depends on the key and each element's place.
    #[track_caller]
    pub fn dropout(&self, key: &Tensor, p: f64) -> Tensor {
        if !(0.0..1.0).contains(&p) {
            let text =
                format!("the probability {p} is not in [0, 1); give the part of elements to be dropped");
            return Tensor::failed(Error::invalid("dropout", text, Loc::caller()));
        }
        let shape = attempt!(self.shape()).clone();
        bernoulli(key, p, shape).select(0, self / (1.0 - p))
    }
}

//! Random programs, in machine code and in the interpreter.

mod common;

use common::{arguments, differences};
use pullback_ir::ops::contract::dot::Dot;
use pullback_ir::ops::elementwise::binary::Binary;
use pullback_ir::ops::elementwise::compare::Compare;
use pullback_ir::ops::elementwise::unary::Unary;
use pullback_ir::ops::index::IndexMode;
use pullback_ir::ops::index::gather::Gather;
use pullback_ir::ops::reduce::reduce::{Reduce, Reducer};
use pullback_ir::ops::shape::concat::Concat;
use pullback_ir::ops::shape::pad::Pad;
use pullback_ir::ops::shape::reverse::Reverse;
use pullback_ir::ops::shape::slice::Slice;
use pullback_ir::{Builder, DType, Dims, Program, Shape, TensorType, Value};
use pullback_lower::Options;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n.max(1)
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    fn shape(&mut self, extents: &[usize]) -> Shape {
        let rank = self.below(4);
        (0..rank).map(|_| self.pick(extents)).collect()
    }

    fn dims(&mut self, rank: usize) -> Dims {
        (0..rank).filter(|_| self.below(2) == 0).collect()
    }

    fn permutation(&mut self, rank: usize) -> Dims {
        let mut dims: Dims = (0..rank).collect();
        for i in (1..rank).rev() {
            dims.swap(i, self.below(i + 1));
        }
        dims
    }
}

/// Appends a random op, if it fits.
fn step(random: &mut Random, b: &mut Builder, values: &[Value]) -> Option<Value> {
    // Recent values are preferred: programs become deep.
    let recent = values.len().saturating_sub(6);
    let x = if random.below(3) > 0 {
        values[recent + random.below(values.len() - recent)]
    } else {
        random.pick(values)
    };
    let ty = b.ty(x).clone();
    let rank = ty.shape.rank();
    let alike: Vec<Value> = values.iter().copied().filter(|&v| *b.ty(v) == ty).collect();
    let y = random.pick(&alike);
    let one = |b: &mut Builder, op: pullback_ir::Op, operands: &[Value]| b.one(op, operands).ok();
    match random.below(17) {
        0 | 1 => {
            let all: Vec<Unary> = Unary::all().collect();
            one(b, random.pick(&all).into(), &[x])
        }
        2..=4 => {
            let all: Vec<Binary> = Binary::all().collect();
            one(b, random.pick(&all).into(), &[x, y])
        }
        5 => {
            let how = random.pick(&[Compare::Lt, Compare::Eq, Compare::Ge]);
            let condition = one(b, how.into(), &[x, y])?;
            b.select(condition, y, x).ok()
        }
        6 => b.convert(x, random.pick(&DType::ALL)).ok(),
        7 => {
            let permutation = random.permutation(rank);
            b.transpose(x, &permutation).ok()
        }
        8 => {
            let mut extents = Dims::from_slice(&ty.shape);
            let at = random.below(rank + 1);
            extents.insert(at, random.pick(&[2, 5, 17]));
            let dims: Dims = (0..=rank).filter(|&d| d != at).collect();
            b.broadcast(x, &extents[..], &dims).ok()
        }
        9 => {
            let start: Dims = ty.shape.iter().map(|&n| random.below(n + 1)).collect();
            let limit: Dims =
                start.iter().zip(ty.shape.iter()).map(|(&s, &n)| s + random.below(n - s + 1)).collect();
            let stride: Dims = (0..rank).map(|_| 1 + random.below(2)).collect();
            one(b, Slice { start, limit, stride }.into(), &[x])
        }
        10 => {
            let filling = b.number(&TensorType::scalar(ty.dtype), 3.0).ok()?;
            let amounts = |random: &mut Random| (0..rank).map(|_| random.below(5) as i64 - 2).collect();
            let (low, high) = (amounts(random), amounts(random));
            let interior: Dims = (0..rank).map(|_| random.pick(&[0, 0, 1, 2])).collect();
            one(b, Pad { low, high, interior }.into(), &[x, filling])
        }
        11 if rank > 0 => one(b, Concat { dim: random.below(rank) }.into(), &[x, y, x]),
        12 => one(b, Reverse { dims: random.dims(rank) }.into(), &[x]),
        13 | 14 => {
            let reducer = random.pick(&Reducer::ALL);
            let dims = random.dims(rank);
            if dims.is_empty() {
                return None;
            }
            one(b, Reduce { reducer, dims }.into(), &[x])
        }
        15 => {
            let mut shapes = vec![Shape::new(&[ty.shape.elements()])];
            if rank > 1 {
                let mut merged = Dims::from_slice(&ty.shape);
                let at = random.below(rank - 1);
                let inner = merged.remove(at + 1);
                merged[at] *= inner;
                shapes.push(Shape::new(&merged));
                let reversed: Dims = ty.shape.iter().rev().copied().collect();
                shapes.push(Shape::new(&reversed));
            }
            let at = random.below(shapes.len());
            b.reshape(x, shapes[at].clone()).ok()
        }
        _ => dot_or_gather(random, b, x, values),
    }
}

fn dot_or_gather(random: &mut Random, b: &mut Builder, x: Value, values: &[Value]) -> Option<Value> {
    let y = random.pick(values);
    let (left, right) = (b.ty(x).clone(), b.ty(y).clone());
    if right.dtype == DType::I64 {
        let rank = right.shape.rank();
        let mut extents = Dims::from_slice(&right.shape);
        extents.push(1);
        let indices = b.reshape(y, &extents[..]).ok()?;
        let mode = random.pick(&[IndexMode::Clip, IndexMode::Drop]);
        let gather = Gather { index_dims: Dims::from_slice(&[0]), batch_dims: 0, mode };
        return if rank < 3 { b.one(gather, &[x, indices]).ok() } else { None };
    }
    if left.dtype != right.dtype {
        return None;
    }
    let mut dot = Dot {
        lhs_contract: Dims::new(),
        rhs_contract: Dims::new(),
        lhs_batch: Dims::new(),
        rhs_batch: Dims::new(),
    };
    let mut used = Dims::new();
    for d in random.permutation(left.shape.rank()) {
        let partner = (0..right.shape.rank()).find(|e| !used.contains(e) && right.shape[*e] == left.shape[d]);
        let (Some(e), choice) = (partner, random.below(3)) else { continue };
        match choice {
            0 => {
                dot.lhs_contract.push(d);
                dot.rhs_contract.push(e);
            }
            1 => {
                dot.lhs_batch.push(d);
                dot.rhs_batch.push(e);
            }
            _ => continue,
        }
        used.push(e);
    }
    b.dot(dot, x, y).ok()
}

fn program(seed: u64) -> Program {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234);
    let mut b = Builder::new("random");
    let extents: &[usize] =
        random.pick(&[&[1, 2, 3, 5][..], &[1, 3, 4, 17, 33], &[0, 1, 2, 16, 40], &[7, 64, 130]]);
    let mut values = Vec::new();
    for _ in 0..3 {
        let dtype = random.pick(&[
            DType::F32,
            DType::F32,
            DType::F64,
            DType::F64,
            DType::I32,
            DType::I64,
            DType::Bool,
        ]);
        let shape = random.shape(extents);
        values.push(b.param(TensorType::new(dtype, shape)));
    }
    for _ in 0..random.below(40) {
        if let Some(value) = step(&mut random, &mut b, &values)
            && b.ty(value).shape.elements() < 40_000
        {
            values.push(value);
        }
    }
    let count = 1 + random.below(4);
    let outputs: Vec<Value> = (0..count)
        .map(|i| match i {
            0 => values[values.len() - 1],
            _ => random.pick(&values),
        })
        .collect();
    // Results that are too large were left out, and must not be computed.
    pullback_ir::passes::dce(&b.finish(&outputs))
}

fn check(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let program = program(seed);
        let arguments = arguments(&program.param_types(), seed);
        for options in [Options::default(), Options { small: 0 }] {
            if let Some(difference) = differences(&program, &arguments, &options) {
                panic!("seed {seed}, {options:?}: {difference}");
            }
        }
    }
}

#[test]
fn random_programs() {
    check(0..150);
}

#[test]
#[ignore = "long"]
fn many_random_programs() {
    check(1000..6000);
}

//! Random well-typed programs: the same one for the same seed, on every machine.
//!
//! The generator is directed by the samples that travel with the ops: it picks a sample and finds operands of the
//! types the sample asks for among the values there are, bent into shape where necessary, or makes new parameters
//! and constants. So an op takes part as soon as it has samples. Each program uses only a few of the families, so
//! that the same ones meet often.

use pullback::ir::ops::control::barrier::Barrier;
use pullback::ir::ops::control::call::Call;
use pullback::ir::ops::elementwise::binary::Binary;
use pullback::ir::ops::elementwise::scale_by::ScaleBy;
use pullback::ir::ops::elementwise::unary::Unary;
use pullback::ir::ops::shape::slice::Slice;
use pullback::ir::sample::{Domain, Sample, SampleOperand};
use pullback::ir::shape::Dims;
use pullback::ir::{Builder, DType, Literal, Op, Program, TensorType, Value};
use pullback::runtime::Array;
use std::sync::{Arc, LazyLock};

/// Which programs are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// Anything that is well typed.
    Any,
    /// Floats are f64 and stay where the ops are smooth, so that difference quotients make sense.
    Smooth,
}

/// A program and what its parameters may be.
pub(crate) struct Generated {
    /// The program.
    pub(crate) program: Program,
    /// One per parameter.
    pub(crate) params: Vec<SampleOperand>,
    style: Style,
}

impl Generated {
    /// A program with more parameters than this one.
    pub(crate) fn derived(
        &self,
        program: Program,
        more: impl IntoIterator<Item = SampleOperand>,
    ) -> Generated {
        let params = self.params.iter().cloned().chain(more).collect();
        Generated { program, params, style: self.style }
    }

    /// Arguments for the parameters: the same ones for the same seed. Unless the program is to be smooth there are
    /// zeros of both signs, infinities and NaN among the floats, and now and then an index out of range.
    pub(crate) fn arguments(&self, seed: u64) -> Vec<Array> {
        let mut stream = Stream(seed);
        let mut literals = Sample::new(Barrier, self.params.clone()).literals(seed);
        if self.style == Style::Any {
            let out_of_range = stream.chance(25);
            for (literal, operand) in literals.iter_mut().zip(&self.params) {
                *literal = with_special_floats(literal, &mut stream);
                if out_of_range && let Domain::Below(bound) = operand.domain {
                    *literal = with_indices_beyond(literal, bound, &mut stream);
                }
            }
        }
        literals.iter().map(Array::from_literal).collect()
    }
}

fn with_indices_beyond(literal: &Literal, bound: u64, stream: &mut Stream) -> Literal {
    let ty = literal.ty();
    let beyond = |bits| match stream.chance(20) {
        true => Literal::number(ty.clone(), *stream.pick(&[-1.0, bound as f64 + 2.0])).splat_value().unwrap(),
        false => bits,
    };
    Literal::dense_bits(ty.clone(), literal.bits().map(beyond).collect()).unwrap()
}

fn with_special_floats(literal: &Literal, stream: &mut Stream) -> Literal {
    let ty = literal.ty();
    let special = |bits| match ty.dtype.is_float() && stream.chance(15) {
        true => {
            let number = *stream.pick(&[0.0, -0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NAN]);
            Literal::number(ty.clone(), number).splat_value().unwrap()
        }
        false => bits,
    };
    Literal::dense_bits(ty.clone(), literal.bits().map(special).collect()).unwrap()
}

/// A program of about `size` ops.
pub(crate) fn generate(seed: u64, size: usize, style: Style) -> Generated {
    Generator::new(Stream(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)), style, 0).run(size)
}

/// Samples of each family, all of them and the smooth ones.
static SAMPLES: LazyLock<[Vec<Vec<Sample>>; 2]> = LazyLock::new(|| {
    let all: Vec<Vec<Sample>> = Op::ALL.iter().map(|family| (family.samples)()).collect();
    let smooth = all.iter().map(|samples| samples.iter().filter(|s| is_smooth(s)).cloned().collect());
    let smooth: Vec<Vec<Sample>> = smooth.filter(|samples: &Vec<Sample>| !samples.is_empty()).collect();
    [all, smooth]
});

fn is_smooth(sample: &Sample) -> bool {
    let operands: Vec<&TensorType> = sample.operands.iter().map(|operand| &operand.ty).collect();
    let results = sample.op.infer(&operands).unwrap();
    let has_f32 = operands.iter().copied().chain(&results).any(|ty| ty.dtype == DType::F32);
    // Through these a float reaches an integer or bool, whose steps no difference quotient survives.
    let is_step =
        operands.iter().any(|ty| ty.dtype.is_float()) && !results.iter().all(|ty| ty.dtype.is_float());
    !has_f32 && (!is_step || matches!(sample.op, Op::Barrier(_) | Op::Call(_)))
}

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Stream(u64);

impl Stream {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

struct Generator {
    stream: Stream,
    style: Style,
    depth: usize,
    builder: Builder,
    params: Vec<SampleOperand>,
    values: Vec<Value>,
    families: Vec<&'static [Sample]>,
}

impl Generator {
    fn new(mut stream: Stream, style: Style, depth: usize) -> Generator {
        let all = &SAMPLES[(style == Style::Smooth) as usize];
        let families = (0..3 + stream.below(8)).map(|_| &stream.pick(all)[..]).collect();
        let (params, values) = (Vec::new(), Vec::new());
        Generator { stream, style, depth, builder: Builder::new("generated"), params, values, families }
    }

    fn run(mut self, size: usize) -> Generated {
        while self.builder.program().len() < size {
            if self.depth < 2 && self.stream.chance(3) {
                self.call(size / 3 + 1);
            } else if self.style == Style::Any && !self.values.is_empty() && self.stream.chance(25) {
                self.simple_arithmetic();
            } else {
                let family = *self.stream.pick(&self.families);
                let sample = self.stream.pick(family).clone();
                let operands: Vec<Value> = sample.operands.iter().map(|o| self.operand(o)).collect();
                self.emit(sample.op, &operands);
            }
        }
        // Barriers of nothing have no results.
        if self.values.is_empty() {
            self.values.push(self.builder.scalar(0i32).unwrap());
        }
        // What nothing uses is shown, so that everything can be seen in some output; now and then some of it is not.
        let uses = self.builder.program().use_counts();
        let mut outputs: Vec<Value> = self.values.iter().copied().filter(|&v| uses[v] == 0).collect();
        if self.stream.chance(20) {
            outputs.retain(|_| self.stream.chance(50));
        }
        outputs.push(*self.stream.pick(&self.values));
        Generated { program: self.builder.finish(&outputs), params: self.params, style: self.style }
    }

    fn emit(&mut self, op: impl Into<Op>, operands: &[Value]) {
        let results = self.builder.emit(op, operands).unwrap_or_else(|error| panic!("{error}"));
        self.values.extend(&results);
    }

    /// What simplification looks for: one number everywhere on one side, or the same value on both.
    fn simple_arithmetic(&mut self) {
        let floats: Vec<Value> =
            self.values.iter().copied().filter(|&v| self.builder.ty(v).dtype.is_float()).collect();
        let x = *self.stream.pick(if floats.is_empty() { &self.values } else { &floats });
        let ty = self.builder.ty(x).clone();
        if ty.dtype == DType::Bool {
            return self.emit(Unary::Not, &[x]);
        }
        let number = *self.stream.pick(&[0.0, -0.0, 1.0, -1.0, 2.0]);
        let constant = self.builder.number(&ty, number).unwrap();
        let y = if self.stream.chance(15) { x } else { constant };
        let operands = if self.stream.chance(50) { [x, y] } else { [y, x] };
        match self.stream.below(8) {
            0 | 1 => self.emit(Binary::Add, &operands),
            2 | 3 => self.emit(Binary::Sub, &operands),
            4 => self.emit(Binary::Mul, &operands),
            5 => self.emit(Binary::Div, &operands),
            6 if ty.dtype.is_float() => self.emit(ScaleBy, &operands),
            _ => self.emit(Unary::Neg, &[x]),
        }
    }

    /// A call of another random program.
    fn call(&mut self, size: usize) {
        let inner = Generator::new(Stream(self.stream.next()), self.style, self.depth + 1).run(size);
        let operands: Vec<Value> = inner.params.iter().map(|o| self.operand(o)).collect();
        self.emit(Call { program: Arc::new(inner.program) }, &operands);
    }

    /// A value of this type: one there is, or a new one. Indices are always new, so that they stay in range.
    fn operand(&mut self, wanted: &SampleOperand) -> Value {
        let must_be_new = match wanted.domain {
            Domain::Below(_) => true,
            Domain::Distinct => self.style == Style::Smooth,
            Domain::Uniform(..) | Domain::Any => false,
        };
        if must_be_new || self.values.is_empty() || self.stream.chance(20) {
            return self.fresh(wanted);
        }
        let alike: Vec<Value> =
            self.values.iter().copied().filter(|&v| *self.builder.ty(v) == wanted.ty).collect();
        let value = match self.stream.chance(80) {
            true if !alike.is_empty() => *self.stream.pick(&alike),
            _ => {
                let value = *self.stream.pick(&self.values);
                self.bent(value, wanted)
            }
        };
        self.tamed(value, wanted.domain)
    }

    fn fresh(&mut self, wanted: &SampleOperand) -> Value {
        let value = if self.params.len() < 8 && self.stream.chance(75) {
            self.params.push(wanted.clone());
            self.builder.param(wanted.ty.clone())
        } else if !matches!(wanted.domain, Domain::Below(_))
            && self.style == Style::Any
            && self.stream.chance(60)
        {
            let number = *self.stream.pick(&[0.0, 1.0, -1.0, -0.0, 2.0, 0.5, 3.0]);
            self.builder.number(&wanted.ty, number).unwrap()
        } else {
            let literals = Sample::new(Barrier, vec![wanted.clone()]).literals(self.stream.next());
            self.builder.constant(literals[0].clone()).unwrap()
        };
        self.values.push(value);
        value
    }

    /// The value converted, reshaped, cut and repeated to the type wanted.
    fn bent(&mut self, value: Value, wanted: &SampleOperand) -> Value {
        let (from, to) = (self.builder.ty(value).clone(), &wanted.ty);
        // A smooth program does not step from float to integer; nothing can be made of no elements.
        let is_step = self.style == Style::Smooth && from.dtype.is_float() && !to.dtype.is_float();
        let (have, want) = (from.shape.elements(), to.shape.elements());
        if is_step || (have == 0 && want > 0) {
            return self.fresh(wanted);
        }
        let b = &mut self.builder;
        let value = b.convert(value, to.dtype).unwrap();
        let is_suffix = to.shape.ends_with(&from.shape);
        let bent = if is_suffix {
            let dims: Dims = (to.shape.rank() - from.shape.rank()..to.shape.rank()).collect();
            b.broadcast(value, to.shape.clone(), &dims).unwrap()
        } else {
            let flat = b.reshape(value, [have]).unwrap();
            let take = if want > have { 1 } else { want };
            let [start, limit, stride] = [0, take, 1].map(|n| Dims::from_elem(n, 1));
            let part = b.one(Slice { start, limit, stride }, &[flat]).unwrap();
            match want > have {
                true => {
                    let scalar = b.reshape(part, []).unwrap();
                    b.broadcast(scalar, to.shape.clone(), &[]).unwrap()
                }
                false => b.reshape(part, to.shape.clone()).unwrap(),
            }
        };
        self.values.push(bent);
        bent
    }

    /// Floats moved smoothly into an interval: always in smooth programs, now and then in others.
    fn tamed(&mut self, value: Value, domain: Domain) -> Value {
        let Domain::Uniform(low, high) = domain else { return value };
        let is_float = self.builder.ty(value).dtype.is_float();
        if !is_float || !(self.style == Style::Smooth || self.stream.chance(20)) {
            return value;
        }
        let b = &mut self.builder;
        let unit = b.unary(Unary::Logistic, value).unwrap();
        let scaled = b.mul_number(unit, high - low).unwrap();
        b.add_number(scaled, low).unwrap()
    }
}

/// Registers the kernel that the samples of custom calls name: it doubles its operand.
pub(crate) fn register_sample_kernel() {
    use pullback::ir::ops::control::custom_call::SAMPLE_TARGET;
    pullback::runtime::eval::control::custom_call::register(SAMPLE_TARGET, 1, |_, inputs, outputs| {
        let literal = Literal::splat(2.0f64, inputs[0].shape().clone());
        let op = Binary::Mul;
        let two = Array::from_literal(&literal);
        pullback::runtime::eval::evaluate(&op.into(), Default::default(), &[inputs[0], two.view()], outputs)
            .map_err(|error| error.to_string())
    });
}

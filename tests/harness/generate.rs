//! Random well-typed programs, made from lists of choices: the same program from the same choices, on every machine.
//!
//! The generator is directed by the samples that travel with the ops: it picks a sample and finds operands of the
//! types the sample asks for among the values there are, bent into shape where necessary, or makes new parameters
//! and constants. So an op takes part as soon as it has samples. Each program uses only a few of the families, so
//! that the same ones meet often.
//!
//! Each op has a list of choices of its own. So proptest makes a failing program smaller by leaving ops out, and
//! simpler by lowering choices: the lowest choice is always the simplest.

use proptest::array::uniform32;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof};
use pullback::autodiff::Contracts;
use pullback::ir::ops::control::barrier::Barrier;
use pullback::ir::ops::control::call::Call;
use pullback::ir::ops::elementwise::binary::Binary;
use pullback::ir::ops::elementwise::scale_by::ScaleBy;
use pullback::ir::ops::elementwise::unary::Unary;
use pullback::ir::ops::shape::slice::Slice;
use pullback::ir::rules::Cotangents;
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
    /// Of the arguments.
    seed: u64,
}

impl std::fmt::Debug for Generated {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(formatter, "a program with arguments of seed {}:\n{}", self.seed, self.program)
    }
}

impl Generated {
    /// A program with more parameters than this one.
    pub(crate) fn derived(
        &self,
        program: Program,
        more: impl IntoIterator<Item = SampleOperand>,
    ) -> Generated {
        let params = self.params.iter().cloned().chain(more).collect();
        Generated { program, params, style: self.style, seed: self.seed }
    }

    /// Of the arguments.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Arguments for the parameters.
    pub(crate) fn arguments(&self) -> Vec<Array> {
        self.arguments_of(0)
    }

    /// Arguments of one of several lanes. Unless the program is to be smooth there are zeros of both signs, infinities
    /// and NaN among the floats, and now and then an index out of range.
    pub(crate) fn arguments_of(&self, lane: u64) -> Vec<Array> {
        let seed = self.seed + 100_000 * lane;
        let mut random = Random(seed);
        let mut literals = Sample::new(Barrier, self.params.clone()).literals(seed);
        if self.style == Style::Any {
            let out_of_range = random.chance(25);
            for (literal, operand) in literals.iter_mut().zip(&self.params) {
                *literal = with_special_floats(literal, &mut random);
                if out_of_range && let Domain::Below(bound) = operand.domain {
                    *literal = with_indices_beyond(literal, bound, &mut random);
                }
            }
        }
        literals.iter().map(Array::from_literal).collect()
    }
}

fn with_indices_beyond(literal: &Literal, bound: u64, random: &mut Random) -> Literal {
    let ty = literal.ty();
    let beyond = |bits| match random.chance(20) {
        true => Literal::number(ty.clone(), *random.pick(&[-1.0, bound as f64 + 2.0])).splat_value().unwrap(),
        false => bits,
    };
    Literal::dense_bits(ty.clone(), literal.bits().map(beyond).collect()).unwrap()
}

fn with_special_floats(literal: &Literal, random: &mut Random) -> Literal {
    let ty = literal.ty();
    let special = |bits| match ty.dtype.is_float() && random.chance(15) {
        true => {
            let number = *random.pick(&[0.0, -0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NAN]);
            Literal::number(ty.clone(), number).splat_value().unwrap()
        }
        false => bits,
    };
    Literal::dense_bits(ty.clone(), literal.bits().map(special).collect()).unwrap()
}

/// What one op is made from, or in the first place which ops there are.
type Group = [u16; 32];

/// Programs, most of them small.
pub(crate) fn programs(style: Style) -> impl Strategy<Value = Generated> {
    // Failing programs lose handfuls of ops first, and then what is left one by one.
    let handful = || vec(uniform32(any::<u16>()), 1..=8);
    let handfuls = prop_oneof![vec(handful(), 1..=1), vec(handful(), 1..=4), vec(handful(), 1..=24)];
    handfuls.prop_map(move |handfuls| made_from(&handfuls.concat(), style))
}

/// A program of about `size` ops.
pub(crate) fn generate(seed: u64, size: usize, style: Style) -> Generated {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let groups: Vec<Group> = (0..size + 1).map(|_| std::array::from_fn(|_| random.next() as u16)).collect();
    made_from(&groups, style)
}

fn made_from(groups: &[Group], style: Style) -> Generated {
    let (first, rest) = groups.split_first().unwrap();
    let mut choices = Choices(first);
    let seed = choices.next();
    Generator::new(choices, rest, style, 0).run(seed)
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

/// What to decide by. The lowest number means the simplest.
trait Source {
    fn next(&mut self) -> u64;

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 >= 100 - percent
    }

    fn pick<'t, T>(&mut self, items: &'t [T]) -> &'t T {
        &items[self.below(items.len())]
    }

    /// One of the last few or, as often, any: most choices mean the same when something earlier is left out.
    fn pick_late<'t, T>(&mut self, items: &'t [T]) -> &'t T {
        let (word, n) = (self.next(), items.len());
        let among = if word % 2 == 0 { n.min(4) } else { n };
        &items[n - 1 - (word / 2) as usize % among]
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Source for Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Choices, taken one by one; when there are none left, the lowest.
#[derive(Clone, Copy)]
struct Choices<'a>(&'a [u16]);

impl Source for Choices<'_> {
    fn next(&mut self) -> u64 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first.into()
    }
}

struct Generator<'a> {
    /// What the op being made is made from.
    choices: Choices<'a>,
    /// What further ops will be made from.
    groups: &'a [Group],
    style: Style,
    depth: usize,
    builder: Builder,
    params: Vec<SampleOperand>,
    values: Vec<Value>,
    families: Vec<&'static [Sample]>,
}

impl<'a> Generator<'a> {
    fn new(mut choices: Choices<'a>, groups: &'a [Group], style: Style, depth: usize) -> Generator<'a> {
        let all = &SAMPLES[(style == Style::Smooth) as usize];
        let families = (0..3 + choices.below(8)).map(|_| &choices.pick(all)[..]).collect();
        let builder = Builder::new("generated");
        let (params, values) = (Vec::new(), Vec::new());
        Generator { choices, groups, style, depth, builder, params, values, families }
    }

    fn run(mut self, seed: u64) -> Generated {
        let outer = self.choices;
        while let Some((group, rest)) = self.groups.split_first() {
            (self.choices, self.groups) = (Choices(group), rest);
            self.op();
        }
        self.choices = outer;
        // Barriers of nothing have no results.
        if self.values.is_empty() {
            self.values.push(self.builder.scalar(0i32).unwrap());
        }
        // What nothing uses is shown, so that everything can be seen in some output; now and then some of it is not.
        let uses = self.builder.program().use_counts();
        let mut outputs: Vec<Value> = self.values.iter().copied().filter(|&v| uses[v] == 0).collect();
        if self.choices.chance(20) {
            outputs.retain(|_| self.choices.chance(50));
        }
        outputs.push(*self.choices.pick_late(&self.values));
        Generated { program: self.builder.finish(&outputs), params: self.params, style: self.style, seed }
    }

    fn op(&mut self) {
        if self.depth < 2 && self.choices.chance(3) {
            self.call();
        } else if self.style == Style::Any && !self.values.is_empty() && self.choices.chance(25) {
            self.simple_arithmetic();
        } else {
            let family = *self.choices.pick(&self.families);
            let sample = self.choices.pick(family).clone();
            let operands: Vec<Value> = sample.operands.iter().map(|o| self.operand(o)).collect();
            self.emit(sample.op, &operands);
        }
    }

    fn emit(&mut self, op: impl Into<Op>, operands: &[Value]) {
        let results = self.builder.emit(op, operands).unwrap_or_else(|error| panic!("{error}"));
        self.values.extend(&results);
    }

    /// What simplification looks for: one number everywhere on one side, or the same value on both.
    fn simple_arithmetic(&mut self) {
        let floats: Vec<Value> =
            self.values.iter().copied().filter(|&v| self.builder.ty(v).dtype.is_float()).collect();
        let x = *self.choices.pick_late(if floats.is_empty() { &self.values } else { &floats });
        let ty = self.builder.ty(x).clone();
        if ty.dtype == DType::Bool {
            return self.emit(Unary::Not, &[x]);
        }
        let number = *self.choices.pick(&[0.0, -0.0, 1.0, -1.0, 2.0]);
        let constant = self.builder.number(&ty, number).unwrap();
        let y = if self.choices.chance(15) { x } else { constant };
        let operands = if self.choices.chance(50) { [x, y] } else { [y, x] };
        match self.choices.below(8) {
            0 | 1 => self.emit(Binary::Add, &operands),
            2 | 3 => self.emit(Binary::Sub, &operands),
            4 => self.emit(Binary::Mul, &operands),
            5 => self.emit(Binary::Div, &operands),
            6 if ty.dtype.is_float() => self.emit(ScaleBy, &operands),
            _ => self.emit(Unary::Neg, &[x]),
        }
    }

    /// A call of another random program, made from what comes next.
    fn call(&mut self) {
        let (groups, rest) = self.groups.split_at(self.choices.below(self.groups.len() / 2 + 1));
        self.groups = rest;
        let inner = Generator::new(self.choices, groups, self.style, self.depth + 1).run(0);
        let operands: Vec<Value> = inner.params.iter().map(|o| self.operand(o)).collect();
        self.emit(Call::new(Arc::new(inner.program)), &operands);
    }

    /// A value of this type: one there is, or a new one. Indices are always new, so that they stay in range.
    fn operand(&mut self, wanted: &SampleOperand) -> Value {
        let must_be_new = match wanted.domain {
            Domain::Below(_) => true,
            Domain::Distinct => self.style == Style::Smooth,
            Domain::Uniform(..) | Domain::Any => false,
        };
        if must_be_new || self.values.is_empty() || self.choices.chance(20) {
            return self.fresh(wanted);
        }
        let alike: Vec<Value> =
            self.values.iter().copied().filter(|&v| *self.builder.ty(v) == wanted.ty).collect();
        let value = match self.choices.chance(80) {
            true if !alike.is_empty() => *self.choices.pick_late(&alike),
            _ => {
                let value = *self.choices.pick_late(&self.values);
                self.bent(value, wanted)
            }
        };
        self.tamed(value, wanted.domain)
    }

    fn fresh(&mut self, wanted: &SampleOperand) -> Value {
        let value = if self.params.len() < 8 && self.choices.chance(75) {
            self.params.push(wanted.clone());
            self.builder.param(wanted.ty.clone())
        } else if !matches!(wanted.domain, Domain::Below(_))
            && self.style == Style::Any
            && self.choices.chance(60)
        {
            let number = *self.choices.pick(&[0.0, 1.0, -1.0, -0.0, 2.0, 0.5, 3.0]);
            self.builder.number(&wanted.ty, number).unwrap()
        } else {
            let literals = Sample::new(Barrier, vec![wanted.clone()]).literals(self.choices.next());
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
        if !is_float || !(self.style == Style::Smooth || self.choices.chance(20)) {
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

/// The contracts of that kernel, which works on each element by itself.
pub(crate) fn sample_contracts() -> Contracts {
    use pullback::ir::ops::control::custom_call::{CustomCall, SAMPLE_TARGET};
    let mut contracts = Contracts::new();
    let given = |values: &[Option<Value>]| values.iter().copied().flatten().collect::<Vec<_>>();
    contracts.register_jvp(SAMPLE_TARGET, 1, move |call, linearizer, _, tangents| {
        Ok(Cotangents::from_iter([Some(linearizer.linear.one(call.clone(), &given(tangents))?)]))
    });
    contracts.register_vjp(SAMPLE_TARGET, 1, move |call, builder, _, cotangents| {
        Ok(Cotangents::from_iter([Some(builder.one(call.clone(), &given(cotangents))?)]))
    });
    contracts.register_batch(SAMPLE_TARGET, 1, |call, batcher, args| {
        let (operands, axis) = batcher.aligned(args)?;
        let results = vec![batcher.builder.ty(operands[0]).clone()];
        batcher.one(CustomCall { results, ..call.clone() }, &operands, axis)
    });
    contracts
}

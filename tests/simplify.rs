//! Simplification keeps every bit: each of its rules, and what it learns of values, on the numbers that floats and
//! integers have to be feared for. That rules apply at all is shown where they are, by the snapshots of their cases.

#[allow(dead_code)] // Each test takes what it needs.
#[path = "harness/generate.rs"]
mod generate;
#[path = "harness/properties.rs"]
mod properties;

use generate::{Generated, Style, register_sample_kernel};
use properties::{Checked, for_programs, same_outcome};
use pullback::ir::ops::control::barrier::Barrier;
use pullback::ir::ops::elementwise::compare::Compare;
use pullback::ir::ops::elementwise::unary::Unary;
use pullback::ir::passes::{simplify, simplify_with};
use pullback::ir::sample::{Domain, Sample, SampleOperand};
use pullback::ir::{Builder, DType, Literal, Op, Program, TensorType, Value};
use pullback::runtime::{Array, Interpreter, interpret};

/// The next of an endless row of words, always the same ones (SplitMix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Of each type the numbers where rules of real arithmetic fail, as bits.
fn singular(dtype: DType) -> Vec<u64> {
    let f32s = |numbers: &[f32]| numbers.iter().map(|x| u64::from(x.to_bits())).collect();
    match dtype {
        DType::Bool => vec![0, 1],
        DType::I32 | DType::U32 => {
            [0, 1, -1, 2, -7, i32::MIN, i32::MAX].map(|n| u64::from(n as u32)).to_vec()
        }
        DType::I64 | DType::U64 => [0, 1, -1, 2, -7, i64::MIN, i64::MAX].map(|n| n as u64).to_vec(),
        DType::F32 => f32s(&[
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.1,
            -2.5,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            f32::MAX,
            f32::MIN,
            f32::from_bits(1),
            -f32::from_bits(1),
            f32::MIN_POSITIVE,
            1e30,
            -1e-30,
            f32::EPSILON,
        ]),
        DType::F64 => [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.1,
            -2.5,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            f64::MAX,
            f64::MIN,
            f64::from_bits(1),
            -f64::from_bits(1),
            f64::MIN_POSITIVE,
            1e200,
            -1e-200,
            1e39,
            f64::EPSILON,
        ]
        .map(f64::to_bits)
        .to_vec(),
    }
}

fn singular_literal(ty: &TensorType, state: &mut u64) -> Literal {
    let numbers = singular(ty.dtype);
    let bits = (0..ty.shape.elements()).map(|_| numbers[next(state) as usize % numbers.len()]).collect();
    Literal::dense_bits(ty.clone(), bits).unwrap()
}

/// Simplified with and without folding, a program gives the bits it gave, or fails as it did.
fn keeps_every_bit(program: &Program, arguments: &[Array]) -> Checked {
    let expected = interpret(program, arguments);
    for (how, after) in [("simplify", simplify(program)), ("folding", simplify_with(program, &Interpreter))] {
        same_outcome(&expected, &interpret(&after, arguments), &format!("{how}\n{program}=>\n{after}"))?;
    }
    Ok(())
}

#[test]
fn rules_keep_every_bit_where_they_apply_and_where_they_nearly_do() {
    let cases = [
        include_str!("../ir/tests/passes/arithmetic.txt"),
        include_str!("../ir/tests/passes/control.txt"),
        include_str!("../ir/tests/passes/conversion.txt"),
        include_str!("../ir/tests/passes/kept.txt"),
        include_str!("../ir/tests/passes/logic.txt"),
        include_str!("../ir/tests/passes/movement.txt"),
        include_str!("../ir/tests/passes/sinking.txt"),
    ];
    for case in cases.iter().flat_map(|cases| cases.trim().split("\n\n")) {
        let program = Program::parse(&format!("program @case{case}\n}}")).unwrap();
        // Loops may run as often as a parameter says.
        let argument = |ty: &TensorType, state: &mut u64| match ty.dtype {
            DType::I64 if ty.shape.rank() == 0 => Literal::number(ty.clone(), (next(state) % 4) as f64 - 1.0),
            _ => singular_literal(ty, state),
        };
        for seed in 0..60 {
            let state = &mut { seed };
            let arguments: Vec<Array> =
                program.param_types().iter().map(|ty| Array::from_literal(&argument(ty, state))).collect();
            keeps_every_bit(&program, &arguments).unwrap();
        }
    }
}

/// Results that turn on each thing that may be known of a float: whether it is finite, zero, or -0.0.
fn probes(b: &mut Builder, x: Value, unknown: Value) -> Vec<Value> {
    let number = |b: &mut Builder, n| b.number_like(x, n).unwrap();
    let (zero, minus, infinite) = (number(b, 0.0), number(b, -0.0), number(b, f64::INFINITY));
    vec![
        b.unary(Unary::IsFinite, x).unwrap(),
        b.unary(Unary::IsNan, x).unwrap(),
        b.compare(Compare::Eq, x, x).unwrap(),
        b.sub(x, x).unwrap(),
        b.add(x, zero).unwrap(),
        b.sub(x, minus).unwrap(),
        b.scale_by(x, infinite).unwrap(),
        b.scale_by(x, unknown).unwrap(),
        b.scale_by(unknown, x).unwrap(),
    ]
}

/// The program of all values of floats in a program, each with its probes; it has one more parameter for each.
fn probed(program: &Program) -> (Program, Vec<TensorType>) {
    let floats: Vec<Value> = program
        .nodes()
        .flat_map(|node| node.results.iter().copied())
        .filter(|&v| program.ty(v).dtype.is_float() && !program.ty(v).is_stack())
        .collect();
    let mut b = Builder::new("probed");
    let params: Vec<Value> = program.param_types().into_iter().map(|ty| b.param(ty)).collect();
    let values = b.inline(&program.clone().with_outputs(&floats), &params).unwrap();
    let unknown: Vec<TensorType> = values.iter().map(|&v| b.ty(v).clone()).collect();
    let mut outputs = Vec::new();
    for (&value, ty) in values.iter().zip(&unknown) {
        let unknown = b.param(ty.clone());
        outputs.extend(probes(&mut b, value, unknown));
    }
    (b.finish(&outputs), unknown)
}

/// An operand of which something may be known, and the program's further parameters for it.
fn operand(
    b: &mut Builder,
    wanted: &SampleOperand,
    params: &mut Vec<SampleOperand>,
    state: &mut u64,
) -> Value {
    let ty = &wanted.ty;
    let mut param = |b: &mut Builder, operand: SampleOperand| {
        params.push(operand.clone());
        b.param(operand.ty)
    };
    if !ty.dtype.is_float() || ty.is_stack() {
        return param(b, wanted.clone());
    }
    let any = |dtype| SampleOperand::new(ty.with_dtype(dtype), Domain::Any);
    let other = if ty.dtype == DType::F32 { DType::F64 } else { DType::F32 };
    let numbers = singular(ty.dtype);
    let splat = Literal::splat_bits(ty.clone(), numbers[next(state) as usize % numbers.len()]);
    match next(state) % 12 {
        0 => param(b, wanted.clone()),
        1 => {
            let flags = param(b, any(DType::Bool));
            b.convert(flags, ty.dtype).unwrap()
        }
        2 => {
            let flags = param(b, any(DType::Bool));
            let ones = b.convert(flags, ty.dtype).unwrap();
            b.neg(ones).unwrap()
        }
        3 => {
            let x = param(b, wanted.clone());
            b.unary(Unary::Abs, x).unwrap()
        }
        4 => {
            let x = param(b, wanted.clone());
            b.unary(Unary::Exp, x).unwrap()
        }
        5 => {
            let x = param(b, wanted.clone());
            b.mul(x, x).unwrap()
        }
        6 => {
            let flags = param(b, any(DType::Bool));
            let dense = b.constant(singular_literal(ty, state)).unwrap();
            let splat = b.constant(splat).unwrap();
            b.select(flags, dense, splat).unwrap()
        }
        7 => {
            let x = b.constant(singular_literal(&ty.with_dtype(other), state)).unwrap();
            b.convert(x, ty.dtype).unwrap()
        }
        8 | 9 => b.constant(singular_literal(ty, state)).unwrap(),
        _ => b.constant(splat).unwrap(),
    }
}

/// The op on such operands; what it makes of them once more with the operands, where the types allow; all probed.
fn sample_program(sample: &Sample, state: &mut u64) -> (Program, Vec<SampleOperand>) {
    let (mut b, mut params) = (Builder::new("sample"), Vec::new());
    let mut operands: Vec<Value> =
        sample.operands.iter().map(|wanted| operand(&mut b, wanted, &mut params, state)).collect();
    let results = b.emit(sample.op.clone(), &operands).unwrap();
    let repeated = results.first().and_then(|&result| {
        let place = operands.iter().position(|&v| b.ty(v) == b.ty(result))?;
        operands[place] = result;
        b.emit(sample.op.clone(), &operands).ok()
    });
    let outputs: Vec<Value> = results.into_iter().chain(repeated.into_iter().flatten()).collect();
    (b.finish(&outputs), params)
}

fn arguments(params: &[SampleOperand], more: &[TensorType], state: &mut u64) -> Vec<Array> {
    let literal = |operand: &SampleOperand, state: &mut u64| match operand.domain {
        Domain::Below(_) => Sample::new(Barrier, vec![operand.clone()]).literals(next(state)).remove(0),
        _ => singular_literal(&operand.ty, state),
    };
    let mut arguments: Vec<Literal> = params.iter().map(|operand| literal(operand, state)).collect();
    arguments.extend(more.iter().map(|ty| singular_literal(ty, state)));
    arguments.iter().map(Array::from_literal).collect()
}

#[test]
fn what_is_known_of_results_holds_of_every_sample() {
    register_sample_kernel();
    let mut applied = [0; 3];
    for sample in Op::ALL.iter().flat_map(|family| (family.samples)()) {
        // Of what nested programs give nothing is known, and loops may never end.
        if !sample.op.programs().is_empty() {
            continue;
        }
        for seed in 0..12 {
            let state = &mut { seed };
            let (program, params) = sample_program(&sample, state);
            let (program, unknown) = probed(&program);
            let after = simplify(&program);
            for (count, name) in applied.iter_mut().zip(["is_finite", "add", "scale_by"]) {
                let ops = |program: &Program| program.op_counts().get(name).copied().unwrap_or(0);
                *count += usize::from(ops(&after) < ops(&program));
            }
            for _ in 0..4 {
                keeps_every_bit(&program, &arguments(&params, &unknown, state)).unwrap();
            }
        }
    }
    assert!(applied.iter().all(|&count| count > 500), "{applied:?}");
}

#[test]
fn what_is_known_of_results_holds_in_programs() {
    for_programs(Style::Any, |generated: &Generated| {
        let (program, unknown) = probed(&generated.program);
        let state = &mut { generated.seed() };
        let mut arguments = generated.arguments();
        arguments.extend(unknown.iter().map(|ty| Array::from_literal(&singular_literal(ty, state))));
        keeps_every_bit(&program, &arguments)
    });
}

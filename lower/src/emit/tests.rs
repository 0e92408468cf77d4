//! Every elementwise operation, on every element type, on one lane and on vectors, against the plain machine: the
//! same bits, except that any NaN is as good as another.

use super::{Emitter, common_lanes, result_dtype};
use crate::jit::{Entry, Unit, plain_processor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, types};
use cranelift_frontend::FunctionBuilderContext;
use pullback_ir::literal::Scalar;
use pullback_ir::maths::{Elementary, Int, IntLanes, Lanes, Plain};
use pullback_ir::ops::elementwise::binary::Binary;
use pullback_ir::ops::elementwise::bitcast::Bitcast;
use pullback_ir::ops::elementwise::compare::Compare;
use pullback_ir::ops::elementwise::integer_pow::IntegerPow;
use pullback_ir::ops::elementwise::scale_by::ScaleBy;
use pullback_ir::ops::elementwise::unary::Unary;
use pullback_ir::recipe::ScalarOp;
use pullback_ir::{DType, Primitive, TensorType};

/// One operation on element types it is defined on.
#[derive(Clone, PartialEq, Debug)]
struct Case {
    op: ScalarOp,
    dtypes: Vec<DType>,
}

impl Case {
    fn result(&self) -> DType {
        result_dtype(self.op, &self.dtypes)
    }

    fn lanes(&self) -> Vec<usize> {
        let all = common_lanes(self.dtypes.iter().copied().chain([self.result()]));
        // Bools alone go with elements of any width.
        let only_bools = self.dtypes.iter().all(|&d| d == DType::Bool) && self.result() == DType::Bool;
        if only_bools {
            vec![1, 2, 4]
        } else if all == 1 {
            vec![1]
        } else {
            vec![1, all]
        }
    }

    fn name(&self, lanes: usize) -> String {
        format!("{:?} {:?} {lanes}", self.op, self.dtypes)
    }
}

fn is_defined(op: &impl Primitive, dtypes: &[DType]) -> bool {
    let operands: Vec<TensorType> = dtypes.iter().map(|&d| TensorType::scalar(d)).collect();
    op.infer(&operands.iter().collect::<Vec<_>>()).is_ok()
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |defined: bool, op: ScalarOp, dtypes: &[DType]| {
        if defined {
            cases.push(Case { op, dtypes: dtypes.to_vec() });
        }
    };
    for d in DType::ALL {
        for f in Unary::all() {
            add(is_defined(&f, &[d]), ScalarOp::Unary(f), &[d]);
        }
        for f in Binary::all() {
            add(is_defined(&f, &[d, d]), ScalarOp::Binary(f), &[d, d]);
        }
        for how in [Compare::Eq, Compare::Ne, Compare::Lt, Compare::Le, Compare::Gt, Compare::Ge] {
            add(true, ScalarOp::Compare(how), &[d, d]);
        }
        for to in DType::ALL {
            add(true, ScalarOp::Convert(to), &[d]);
            add(is_defined(&Bitcast { dtype: to }, &[d]), ScalarOp::Bitcast(to), &[d]);
        }
        for exponent in [0, 1, 2, 3, 7, 30, -1, -4, i32::MAX, i32::MIN] {
            add(is_defined(&IntegerPow { exponent }, &[d]), ScalarOp::IntegerPow(exponent), &[d]);
        }
        add(is_defined(&ScaleBy, &[d, d]), ScalarOp::ScaleBy, &[d, d]);
        add(true, ScalarOp::Select, &[DType::Bool, d, d]);
    }
    cases
}

/// The meaning of a case on elements given by their bits.
fn expected(case: &Case, x: &[u64]) -> u64 {
    match (case.op, case.dtypes[case.dtypes.len() - 1]) {
        (ScalarOp::Select, _) => x[if x[0] != 0 { 1 } else { 2 }],
        (ScalarOp::Convert(to), from) => converted(from, to, x[0]),
        (ScalarOp::Bitcast(to), DType::F32) if to != DType::F32 && f32::from_bits64(x[0]).is_nan() => {
            0x7fc0_0000
        }
        (ScalarOp::Bitcast(to), DType::F64) if to != DType::F64 && f64::from_bits64(x[0]).is_nan() => {
            0x7ff8 << 48
        }
        (ScalarOp::Bitcast(_), _) => x[0],
        (op, DType::Bool) => expected_bool(op, x),
        (op, DType::I32) => expected_int::<i32>(op, x),
        (op, DType::I64) => expected_int::<i64>(op, x),
        (op, DType::U32) => expected_int::<u32>(op, x),
        (op, DType::U64) => expected_int::<u64>(op, x),
        (op, DType::F32) => expected_float::<f32>(op, x),
        (op, DType::F64) => expected_float::<f64>(op, x),
    }
}

fn expected_bool(op: ScalarOp, x: &[u64]) -> u64 {
    let (a, b) = (x[0] != 0, x[x.len() - 1] != 0);
    let result = match op {
        ScalarOp::Unary(Unary::Not) => !a,
        ScalarOp::Binary(Binary::And) => a && b,
        ScalarOp::Binary(Binary::Or) => a || b,
        ScalarOp::Binary(Binary::Xor) => a != b,
        ScalarOp::Compare(Compare::Eq) => a == b,
        ScalarOp::Compare(Compare::Ne) => a != b,
        ScalarOp::Compare(Compare::Lt) => !a & b,
        ScalarOp::Compare(Compare::Le) => a <= b,
        ScalarOp::Compare(Compare::Gt) => a & !b,
        ScalarOp::Compare(Compare::Ge) => a >= b,
        other => panic!("{other:?} is not defined on bool"),
    };
    result.to_bits64()
}

fn expected_int<T: Int>(op: ScalarOp, x: &[u64]) -> u64
where
    Plain: IntLanes<T, V = T, M = bool>,
{
    let (a, b) = (T::from_bits64(x[0]), T::from_bits64(x[x.len() - 1]));
    let result = match op {
        ScalarOp::Unary(f) => f.int::<T, _>(&mut Plain, a),
        ScalarOp::Binary(f) => f.int::<T, _>(&mut Plain, a, b),
        ScalarOp::IntegerPow(exponent) => IntegerPow { exponent }.int::<T, _>(&mut Plain, a),
        ScalarOp::Compare(how) => return how.int::<T, _>(&mut Plain, a, b).to_bits64(),
        other => panic!("{other:?} is not defined on integers"),
    };
    result.to_bits64()
}

fn expected_float<T: Elementary>(op: ScalarOp, x: &[u64]) -> u64
where
    Plain: Lanes<T, V = T, M = bool>,
{
    let (a, b) = (T::from_bits64(x[0]), T::from_bits64(x[x.len() - 1]));
    let result = match op {
        ScalarOp::Unary(f) if f.is_test() => return f.test::<T, _>(&mut Plain, a).to_bits64(),
        ScalarOp::Unary(f) => f.float::<T, _>(&mut Plain, a),
        ScalarOp::Binary(f) => f.float::<T, _>(&mut Plain, a, b),
        ScalarOp::IntegerPow(exponent) => IntegerPow { exponent }.float::<T, _>(&mut Plain, a),
        ScalarOp::ScaleBy => ScaleBy::float::<T, _>(&mut Plain, a, b),
        ScalarOp::Compare(how) => return how.float::<T, _>(&mut Plain, a, b).to_bits64(),
        other => panic!("{other:?} is not defined on floats"),
    };
    result.to_bits64()
}

fn converted(from: DType, to: DType, bits: u64) -> u64 {
    macro_rules! numbers {
        ($x:expr) => {{
            let x = $x;
            match to {
                DType::Bool => unreachable!(),
                DType::I32 => (x as i32).to_bits64(),
                DType::I64 => (x as i64).to_bits64(),
                DType::U32 => (x as u32).to_bits64(),
                DType::U64 => (x as u64).to_bits64(),
                DType::F32 => (x as f32).to_bits64(),
                DType::F64 => (x as f64).to_bits64(),
            }
        }};
    }
    match (from, to) {
        (DType::F32, DType::Bool) => (f32::from_bits64(bits) != 0.0).to_bits64(),
        (DType::F64, DType::Bool) => (f64::from_bits64(bits) != 0.0).to_bits64(),
        (_, DType::Bool) => (bits != 0).to_bits64(),
        (DType::Bool, _) => numbers!(bits as u8),
        (DType::I32, _) => numbers!(i32::from_bits64(bits)),
        (DType::I64, _) => numbers!(i64::from_bits64(bits)),
        (DType::U32, _) => numbers!(u32::from_bits64(bits)),
        (DType::U64, _) => numbers!(bits),
        (DType::F32, _) => numbers!(f32::from_bits64(bits)),
        (DType::F64, _) => numbers!(f64::from_bits64(bits)),
    }
}

/// Random bits (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An element: any bits, or (every other time) a float of moderate size or a small integer.
    fn element(&mut self, dtype: DType) -> u64 {
        let (bits, moderate) = (self.next(), self.next().is_multiple_of(2));
        let size = (bits >> 11) as f64 / (1u64 << 53) as f64;
        let float = (size * 2.0 - 1.0) * 2f64.powi((bits % 12) as i32 - 4);
        match dtype {
            DType::Bool => bits & 1,
            DType::F32 if moderate => (float as f32).to_bits64(),
            DType::F64 if moderate => float.to_bits64(),
            DType::F64 => bits,
            DType::I64 | DType::U64 if moderate => ((bits as i64) >> 50) as u64,
            DType::I64 | DType::U64 => bits,
            DType::I32 | DType::U32 if moderate => u64::from(((bits as i32) >> 20) as u32),
            DType::I32 | DType::U32 | DType::F32 => bits & 0xffff_ffff,
        }
    }
}

fn edges(dtype: DType) -> Vec<u64> {
    let numbers = [
        0.0,
        0.25,
        0.5,
        0.75,
        1.0,
        1.5,
        2.0,
        2.5,
        3.5,
        10.0,
        88.7,
        104.0,
        709.8,
        745.2,
        1e5,
        1e9,
        2147483647.0,
        2147483648.0,
        4294967295.0,
        4294967296.0,
        9223372036854775807.0,
        18446744073709551615.0,
        4503599627370496.0,
        8388608.5,
        1e22,
        3e38,
        1e300,
        1e-5,
        1e-30,
        1e-40,
        1e-300,
        f64::INFINITY,
        f64::NAN,
        f64::MAX,
        f64::MIN_POSITIVE,
        5e-324,
        1e-45,
        std::f64::consts::FRAC_PI_2,
        std::f64::consts::PI,
        0.99999999,
    ];
    let signed = || numbers.iter().flat_map(|&x: &f64| [x, -x]);
    match dtype {
        DType::Bool => vec![0, 1],
        DType::F32 => signed()
            .map(|x| (x as f32).to_bits64())
            .chain([f32::MAX.to_bits64(), f32::MIN_POSITIVE.to_bits64(), 0xffc0_1234, 0x7f80_0001])
            .collect(),
        DType::F64 => {
            signed().map(f64::to_bits64).chain([0xfff8_0000_1234_0000, 0x7ff0_0000_0000_0001]).collect()
        }
        DType::I32 | DType::U32 => {
            [0, 1, 2, 3, 31, 32, 33, 64, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, u32::MAX, u32::MAX - 1]
                .map(u64::from)
                .to_vec()
        }
        DType::I64 | DType::U64 => {
            let half = 1u64 << 63;
            vec![
                0,
                1,
                2,
                3,
                63,
                64,
                65,
                half - 1,
                half,
                half + 1,
                u64::MAX,
                u64::MAX - 1,
                1 << 32,
                (1 << 53) + 1,
                (1 << 24) + 1,
                u64::MAX - 1024,
                (1 << 62) + 257,
            ]
        }
    }
}

/// Elements for each operand, their number a multiple of every number of lanes: pairs of edges, then random ones.
fn inputs(dtypes: &[DType], random: usize) -> Vec<Vec<u64>> {
    let mut source = Random(1);
    let mut columns = vec![Vec::new(); dtypes.len()];
    let (first, last) = (edges(dtypes[0]), edges(dtypes[dtypes.len() - 1]));
    for &x in &first {
        for &y in &last {
            for (i, &dtype) in dtypes.iter().enumerate() {
                let between = source.element(dtype);
                columns[i].push(if i == 0 {
                    x
                } else if i + 1 == dtypes.len() {
                    y
                } else {
                    between
                });
            }
            if dtypes.len() == 1 {
                break;
            }
        }
    }
    for i in 0..random {
        let row: Vec<u64> = dtypes.iter().map(|&d| source.element(d)).collect();
        for (j, &x) in row.iter().enumerate() {
            // Now and then two equal operands.
            let same = i % 16 == 0 && dtypes[j] == dtypes[0];
            columns[j].push(if same { row[0] } else { x });
        }
    }
    for (column, &dtype) in columns.iter_mut().zip(dtypes) {
        while column.len() % 4 != 0 {
            column.push(source.element(dtype));
        }
    }
    columns
}

/// Adds `for i in begin..end by lanes { out[i] = op(in0[i], ...) }`.
fn define(unit: &mut Unit, case: &Case, lanes: usize, inline: bool) {
    let signature = unit.signature(&[types::I64, types::I64, types::I64], &[]);
    let id = unit.declare(case.name(lanes), signature);
    let (mut function, mut context) = (unit.function(id), FunctionBuilderContext::new());
    let mut emitter = Emitter::new(unit, &mut function, &mut context);
    emitter.set_inline_limit(if inline { usize::MAX } else { 0 });
    let flags = MemFlagsData::trusted();
    let (pointers, begin, end) = (emitter.parameter(0), emitter.parameter(1), emitter.parameter(2));
    let bases: Vec<_> = (0..=case.dtypes.len() as i32)
        .map(|i| emitter.builder.ins().load(types::I64, flags, pointers, i * 8))
        .collect();
    let (body, done) = (emitter.builder.create_block(), emitter.builder.create_block());
    let i = emitter.builder.append_block_param(body, types::I64);
    emitter.builder.ins().jump(body, &[begin.into()]);
    emitter.builder.switch_to_block(body);
    let address = |emitter: &mut Emitter<'_>, base, dtype: DType| {
        let size = emitter.index(dtype.size() as i64);
        let offset = emitter.builder.ins().imul(i, size);
        emitter.builder.ins().iadd(base, offset)
    };
    let mut arguments = Vec::new();
    for (&dtype, &base) in case.dtypes.iter().zip(&bases[1..]) {
        let at = address(&mut emitter, base, dtype);
        arguments.push(emitter.load(dtype, lanes, flags, at, 0));
    }
    if !inline {
        // With no use in place allowed, the second one is a call.
        emitter.scalar(case.op, &case.dtypes, lanes, &arguments);
    }
    let result = emitter.scalar(case.op, &case.dtypes, lanes, &arguments);
    let at = address(&mut emitter, bases[0], case.result());
    emitter.store(case.result(), lanes, flags, result, at, 0);
    let step = emitter.index(lanes as i64);
    let next = emitter.builder.ins().iadd(i, step);
    let more = emitter.builder.ins().icmp(IntCC::SignedLessThan, next, end);
    emitter.builder.ins().brif(more, body, &[next.into()], done, &[]);
    emitter.builder.seal_block(body);
    emitter.builder.switch_to_block(done);
    emitter.builder.seal_block(done);
    emitter.builder.ins().return_(&[]);
    emitter.finish();
    unit.define(id, function);
}

fn to_bytes(dtype: DType, elements: &[u64]) -> Vec<u8> {
    elements.iter().flat_map(|bits| bits.to_le_bytes()[..dtype.size()].to_vec()).collect()
}

fn from_bytes(dtype: DType, bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| chunk.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    bytes.chunks(dtype.size()).map(word).collect()
}

/// The results of a loop made by [`define`].
fn run(entry: &Entry, case: &Case, inputs: &[Vec<u64>]) -> Vec<u64> {
    let n = inputs[0].len();
    let mut buffers = vec![vec![0xa5; n * case.result().size()]];
    buffers.extend(inputs.iter().zip(&case.dtypes).map(|(elements, &dtype)| to_bytes(dtype, elements)));
    let pointers: Vec<*mut u8> = buffers.iter_mut().map(|buffer| buffer.as_mut_ptr()).collect();
    // SAFETY: the function was emitted by `define` for operands of these element types; it loads and stores elements
    // 0 to n - 1 through the pointers, of which there are as many as it loads, and n is a multiple of its lanes.
    unsafe { entry.call_range(pointers.as_ptr(), 0, n as i64) };
    from_bytes(case.result(), &buffers[0])
}

fn agree(dtype: DType, a: u64, b: u64) -> bool {
    let nan = |bits| match dtype {
        DType::F32 => f32::from_bits64(bits).is_nan(),
        DType::F64 => f64::from_bits64(bits).is_nan(),
        DType::Bool | DType::I32 | DType::I64 | DType::U32 | DType::U64 => false,
    };
    a == b || nan(a) && nan(b)
}

/// Compiles all cases in one unit and compares each, on every number of lanes, with the plain machine.
fn check(mut unit: Unit, cases: &[Case], random: usize, inline: bool) {
    for case in cases {
        for lanes in case.lanes() {
            define(&mut unit, case, lanes, inline);
        }
    }
    let code = unit.finish().unwrap();
    let mut failures = Vec::new();
    for case in cases {
        let inputs = inputs(&case.dtypes, random);
        let row = |i: usize| inputs.iter().map(|column| column[i]).collect::<Vec<_>>();
        let expected: Vec<u64> = (0..inputs[0].len()).map(|i| expected(case, &row(i))).collect();
        for lanes in case.lanes() {
            let found = run(&code.entry(&case.name(lanes)).unwrap(), case, &inputs);
            let differs = |&i: &usize| !agree(case.result(), expected[i], found[i]);
            if let Some(i) = (0..found.len()).find(differs) {
                let operands: Vec<String> = row(i).iter().map(|bits| format!("{bits:#x}")).collect();
                failures.push(format!(
                    "{} of {}: {:#x}, expected {:#x}",
                    case.name(lanes),
                    operands.join(", "),
                    found[i],
                    expected[i]
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_operation_has_the_bits_of_the_plain_machine() {
    check(Unit::new().unwrap(), &cases(), 10_000, true);
}

fn large_cases() -> Vec<Case> {
    let functions = |case: &Case| matches!(case.op, ScalarOp::Unary(_) | ScalarOp::Binary(_));
    cases().into_iter().filter(|case| case.dtypes[0].is_float() && functions(case)).collect()
}

#[test]
fn operations_called_have_the_bits_of_those_in_place() {
    check(Unit::new().unwrap(), &large_cases(), 100, false);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_processor_without_optional_features_gives_the_same_bits() {
    check(Unit::with_isa(plain_processor("x86_64")), &cases(), 200, true);
}

#[test]
fn every_operation_compiles_for_the_other_architecture() {
    let architecture = if cfg!(target_arch = "x86_64") { "aarch64" } else { "x86_64" };
    let mut unit = Unit::with_isa(plain_processor(architecture));
    for case in cases() {
        case.lanes().into_iter().for_each(|lanes| define(&mut unit, &case, lanes, true));
    }
    // Linked too, but never run.
    assert!(unit.finish().unwrap().functions().count() > 400);
}

#[test]
fn large_operations_are_emitted_in_place_up_to_the_limit() {
    for (op, limit, calls) in [
        (ScalarOp::Unary(Unary::Sin), 2, 3),
        (ScalarOp::Unary(Unary::Sin), 5, 0),
        (ScalarOp::Unary(Unary::Neg), 0, 0),
    ] {
        let mut unit = Unit::new().unwrap();
        unit.keep_texts(true);
        let id = unit.declare("chain", unit.signature(&[types::F64], &[types::F64]));
        let (mut function, mut context) = (unit.function(id), FunctionBuilderContext::new());
        let mut emitter = Emitter::new(&mut unit, &mut function, &mut context);
        emitter.set_inline_limit(limit);
        let mut x = emitter.parameter(0);
        for _ in 0..5 {
            x = emitter.scalar(op, &[DType::F64], 1, &[x]);
        }
        emitter.builder.ins().return_(&[x]);
        emitter.finish();
        unit.define(id, function);
        let code = unit.finish().unwrap();
        let shared = format!("= {op:?} f64x1");
        let text = code.clif("chain").unwrap();
        let number =
            text.lines().find_map(|line| line.strip_suffix(&shared)?.strip_prefix("; ")).map(str::trim);
        let reference = number.and_then(|number| {
            text.lines()
                .find(|line| line.contains(&format!("= colocated {number} ")))?
                .trim()
                .split(' ')
                .next()
        });
        let found = reference.map_or(0, |name| text.matches(&format!("call {name}(")).count());
        assert_eq!(found, calls, "{op:?} within {limit}:\n{text}");
    }
}

#[test]
fn elements_move_between_lanes() {
    for dtype in DType::ALL {
        let all = if dtype.size() == 8 { 2 } else { 4 };
        let elements = &edges(dtype)[..2];
        let bits: Vec<u64> = (0..all).map(|i| elements[i % 2]).collect();
        let mut unit = Unit::new().unwrap();
        let signature = unit.signature(&[types::I64, types::I64, types::I64], &[]);
        let id = unit.declare("lanes", signature);
        let (mut function, mut context) = (unit.function(id), FunctionBuilderContext::new());
        let mut emitter = Emitter::new(&mut unit, &mut function, &mut context);
        let flags = MemFlagsData::trusted();
        let pointers = emitter.parameter(0);
        let out = emitter.builder.ins().load(types::I64, flags, pointers, 0);
        // The constants themselves, then their element 1 in all lanes, then those with element 0 in the last lane.
        let vector = emitter.constants(dtype, &bits);
        let element = emitter.extract(dtype, vector, 1);
        let splat = emitter.splat(dtype, all, element);
        let first = emitter.extract(dtype, vector, 0);
        let mixed = emitter.insert(dtype, splat, first, all - 1);
        for (i, value) in [vector, splat, mixed].into_iter().enumerate() {
            emitter.store(dtype, all, flags, value, out, (i * all * dtype.size()) as i32);
        }
        emitter.builder.ins().return_(&[]);
        emitter.finish();
        unit.define(id, function);
        let code = unit.finish().unwrap();
        let mut buffer = vec![0u8; 3 * all * dtype.size()];
        let pointers = [buffer.as_mut_ptr()];
        // SAFETY: the function stores three times `all` elements through the first pointer, as many as fit there.
        unsafe { code.entry("lanes").unwrap().call_range(pointers.as_ptr(), 0, 0) };
        let mut expected = bits.clone();
        expected.extend(vec![elements[1]; 2 * all]);
        expected[3 * all - 1] = elements[0];
        assert_eq!(from_bytes(dtype, &buffer), expected, "{dtype}");
    }
}

//! What is learned of values, op by op: neither less nor more.

use super::*;
use crate::builder::Builder;
use crate::ops::elementwise::convert::Convert;
use crate::ops::elementwise::integer_pow::IntegerPow;
use crate::ops::elementwise::select::Select;
use crate::ops::index::IndexMode;
use crate::ops::index::dynamic_slice::DynamicSlice;
use crate::ops::index::dynamic_update_slice::DynamicUpdateSlice;
use crate::ops::leaf::constant::Constant;
use crate::ops::leaf::iota::Iota;
use crate::ops::reduce::reduce::Reduce;
use crate::ops::shape::concat::Concat;
use crate::ops::shape::pad::Pad;
use crate::ops::shape::reshape::Reshape;
use crate::ops::shape::reverse::Reverse;
use crate::ops::shape::transpose::Transpose;
use crate::shape::TensorType;
use slotmap::SecondaryMap;

/// A program in which no rule is applied, so that facts are those of the ops as written.
struct Bench(Simplifier<'static>);

impl Bench {
    fn new() -> Bench {
        let builder = Builder::new("facts");
        Bench(Simplifier {
            builder,
            evaluator: None,
            facts: SecondaryMap::new(),
            depth: 0,
            is_unfinished: false,
        })
    }

    fn param(&mut self, dtype: DType) -> Value {
        self.0.builder.param(TensorType::new(dtype, [4]))
    }

    fn constant(&mut self, literal: Literal) -> Value {
        self.op(Constant { value: literal }, &[])
    }

    /// Four times a number, in f64.
    fn number(&mut self, number: f64) -> Value {
        self.constant(Literal::splat(number, [4]))
    }

    fn op(&mut self, op: impl Into<Op>, operands: &[Value]) -> Value {
        self.0.append(op.into(), operands).unwrap()[0]
    }

    fn facts(&self, value: Value) -> Facts {
        self.0.facts_of(value)
    }

    /// What holds of a function of numbers.
    fn of(&mut self, op: impl Into<Op>, numbers: &[f64]) -> Facts {
        let operands: Vec<Value> = numbers.iter().map(|&number| self.number(number)).collect();
        let value = self.op(op, &operands);
        self.facts(value)
    }
}

fn facts(bound: f64, no_negative_zero: bool, no_zero: bool) -> Facts {
    Facts { bound, no_negative_zero, no_zero }
}

const INF: f64 = f64::INFINITY;

#[test]
fn constants_are_known() {
    let mut b = Bench::new();
    for (number, due) in [
        (-2.5, facts(2.5, true, true)),
        (0.0, facts(0.0, true, false)),
        (-0.0, facts(0.0, false, false)),
        (-INF, facts(INF, true, true)),
        (f64::NAN, facts(INF, true, true)),
    ] {
        let value = b.number(number);
        assert_eq!(b.facts(value), due, "{number}");
    }
    for (elements, due) in [
        (&[1.0, -3.0, 2.0][..], facts(3.0, true, true)),
        (&[1.0, -0.0, 2.0], facts(2.0, false, false)),
        (&[1.0, 0.0, INF], facts(INF, true, false)),
    ] {
        let value = b.constant(Literal::dense(elements, [3]).unwrap());
        assert_eq!(b.facts(value), due, "{elements:?}");
    }
    let value = b.constant(Literal::splat(-1.5f32, [2]));
    assert_eq!(b.facts(value), facts(1.5, true, true));
    let value = b.op(Iota { ty: TensorType::new(DType::F64, [4]), dim: 0 }, &[]);
    assert_eq!(b.facts(value), facts((1u64 << 48) as f64, true, false));
}

#[test]
fn of_parameters_their_type_is_known() {
    let mut b = Bench::new();
    for (dtype, due) in [
        (DType::F64, NOTHING),
        (DType::F32, NOTHING),
        (DType::Bool, facts(1.0, true, false)),
        (DType::I32, facts(4294967295.0, true, false)),
        (DType::U32, facts(4294967295.0, true, false)),
        (DType::I64, facts(u64::MAX as f64, true, false)),
        (DType::U64, facts(u64::MAX as f64, true, false)),
    ] {
        let value = b.param(dtype);
        assert_eq!(b.facts(value), due, "{dtype}");
    }
    let (x, two) = (b.param(DType::F64), b.number(2.0));
    let (zero, minus) = (b.number(0.0), b.number(-0.0));
    let ask = |b: &Bench, v| (b.0.is_finite(v), b.0.never_negative_zero(v), b.0.never_zero(v));
    assert_eq!(ask(&b, x), (false, false, false));
    assert_eq!(ask(&b, two), (true, true, true));
    assert_eq!(ask(&b, zero), (true, true, false));
    assert_eq!(ask(&b, minus), (true, false, false));
}

#[test]
fn functions_of_one_number() {
    let mut b = Bench::new();
    for (function, number, due) in [
        (Unary::Neg, 2.0, facts(2.0, true, true)),
        (Unary::Neg, 0.0, facts(0.0, false, false)),
        (Unary::Neg, -0.0, facts(0.0, false, false)),
        (Unary::Abs, -0.0, facts(0.0, true, false)),
        (Unary::Abs, -3.0, facts(3.0, true, true)),
        (Unary::Sign, 5.0, facts(1.0, true, true)),
        (Unary::Sign, -0.0, facts(1.0, false, false)),
        (Unary::Sign, INF, facts(INF, true, true)),
        (Unary::Floor, 2.5, facts(3.5, false, false)),
        (Unary::Ceil, 2.5, facts(3.5, false, false)),
        (Unary::Round, 2.5, facts(3.5, false, false)),
        (Unary::Exp, 1.0, facts(INF, true, false)),
        (Unary::Exp2, 1.0, facts(INF, true, false)),
        (Unary::Logistic, 1.0, facts(INF, true, false)),
        (Unary::Sin, 1.0, NOTHING),
        (Unary::Sqrt, 4.0, NOTHING),
    ] {
        assert_eq!(b.of(function, &[number]), due, "{function:?} of {number}");
    }
    for (exponent, number, due) in [
        (2, 3.0, facts(18.0, true, false)),
        (3, 3.0, facts(54.0, false, false)),
        (2, 0.5, facts(2.0, true, false)),
        (0, 3.0, facts(2.0, true, false)),
        (-1, 3.0, NOTHING),
        (-2, 3.0, NOTHING),
    ] {
        assert_eq!(b.of(IntegerPow { exponent }, &[number]), due, "{number} to the {exponent}");
    }
}

#[test]
fn functions_of_two_numbers() {
    let mut b = Bench::new();
    for (function, x, y, due) in [
        (Binary::Add, 2.0, 3.0, facts(5.0 * SLACK, true, false)),
        (Binary::Add, -0.0, -0.0, facts(0.0, false, false)),
        (Binary::Add, -0.0, 0.0, facts(0.0, true, false)),
        (Binary::Add, 0.0, -0.0, facts(0.0, true, false)),
        (Binary::Sub, 2.0, -3.0, facts(5.0 * SLACK, true, false)),
        (Binary::Sub, 0.0, -0.0, facts(0.0, true, false)),
        (Binary::Sub, -0.0, 0.0, facts(0.0, false, false)),
        (Binary::Mul, 2.0, 3.0, facts(6.0 * SLACK, false, false)),
        (Binary::Mul, -3.0, -3.0, facts(9.0 * SLACK, true, false)),
        (Binary::Mul, 0.0, INF, facts(INF, false, false)),
        (Binary::Mul, 1e200, 1e120, facts(INF, false, false)),
        (Binary::Max, 2.0, -0.0, facts(2.0, false, false)),
        (Binary::Max, -0.0, 2.0, facts(2.0, false, false)),
        (Binary::Min, 2.0, 0.0, facts(2.0, true, false)),
        (Binary::Min, 2.0, 7.0, facts(7.0, true, true)),
        (Binary::Div, 2.0, 3.0, NOTHING),
        (Binary::Pow, 2.0, 3.0, NOTHING),
    ] {
        assert_eq!(b.of(function, &[x, y]), due, "{function:?} of {x} and {y}");
    }
    // Equal to the bit is not enough: a square is that of one value.
    let (x, y) = (b.param(DType::F64), b.param(DType::F64));
    let (square, product) = (b.op(Binary::Mul, &[x, x]), b.op(Binary::Mul, &[x, y]));
    assert_eq!((b.facts(square), b.facts(product)), (facts(INF, true, false), NOTHING));
    // Beyond the largest number of the narrower type.
    let large = b.constant(Literal::splat(1e30f32, [4]));
    let product = b.op(Binary::Mul, &[large, large]);
    assert_eq!(b.facts(product).bound, INF);
}

#[test]
fn choices_and_conversions() {
    let mut b = Bench::new();
    let (which, two, minus) = (b.param(DType::Bool), b.number(2.0), b.number(-0.0));
    let three = b.number(3.0);
    for (x, y, due) in [
        (two, minus, facts(2.0, false, false)),
        (minus, two, facts(2.0, false, false)),
        (two, three, facts(3.0, true, true)),
    ] {
        let value = b.op(Select, &[which, x, y]);
        assert_eq!(b.facts(value), due);
    }
    let narrow = b.op(Convert { dtype: DType::F32 }, &[two]);
    assert_eq!(b.facts(narrow), facts(2.0 * SLACK, false, false));
    let exact = b.constant(Literal::splat(2.0f32, [4]));
    let wide = b.op(Convert { dtype: DType::F64 }, &[exact]);
    assert_eq!(b.facts(wide), facts(2.0 * SLACK, true, true));
    let integers = b.param(DType::I32);
    let converted = b.op(Convert { dtype: DType::F64 }, &[integers]);
    assert_eq!(b.facts(converted), facts(4294967295.0 * SLACK, true, false));
}

#[test]
fn reductions_and_movement() {
    let mut b = Bench::new();
    let two = b.number(2.0);
    let reduce = |reducer| Reduce { reducer, dims: [0].into_iter().collect() };
    for (reducer, due) in [
        (Reducer::Sum, facts(16.0, true, false)),
        (Reducer::Max, facts(2.0, true, true)),
        (Reducer::Min, facts(2.0, true, true)),
        (Reducer::Prod, NOTHING),
    ] {
        let value = b.op(reduce(reducer), &[two]);
        assert_eq!(b.facts(value), due, "{reducer:?}");
    }
    let nothing = b.constant(Literal::splat(2.0, [0]));
    let sum = b.op(reduce(Reducer::Sum), &[nothing]);
    assert_eq!(b.facts(sum).bound, 4.0);
    let same = facts(2.0, true, true);
    let reshaped = b.op(Reshape { shape: [2, 2].into() }, &[two]);
    let transposed = b.op(Transpose { permutation: [1, 0].into_iter().collect() }, &[reshaped]);
    let reversed = b.op(Reverse { dims: [0].into_iter().collect() }, &[two]);
    for value in [reshaped, transposed, reversed] {
        assert_eq!(b.facts(value), same);
    }
    let filling = b.constant(Literal::splat(-0.0, []));
    let pad = Pad {
        low: [1].into_iter().collect(),
        high: [0].into_iter().collect(),
        interior: [0].into_iter().collect(),
    };
    let padded = b.op(pad, &[two, filling]);
    assert_eq!(b.facts(padded), facts(2.0, false, false));
    let (minus, seven) = (b.number(-0.0), b.number(7.0));
    let joined = b.op(Concat { dim: 0 }, &[two, seven]);
    assert_eq!(b.facts(joined), facts(7.0, true, true));
    let joined = b.op(Concat { dim: 0 }, &[two, minus, seven]);
    assert_eq!(b.facts(joined), facts(7.0, false, false));
    let start = b.constant(Literal::splat(0i64, []));
    let slice = DynamicSlice { sizes: [2].into_iter().collect(), mode: IndexMode::Drop };
    let part = b.op(slice, &[two, start]);
    assert_eq!(b.facts(part), facts(2.0, true, false));
    let updated = b.op(DynamicUpdateSlice { mode: IndexMode::Clip }, &[two, minus, start]);
    assert_eq!(b.facts(updated), facts(2.0, false, false));
}

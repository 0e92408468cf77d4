//! Kinks, singular points and masks, to the exact value, in both modes.

use crate::common::*;
use pullback_ir::ops::elementwise::binary::Binary;
use pullback_ir::ops::elementwise::compare::Compare;
use pullback_ir::ops::elementwise::unary::Unary;
use pullback_ir::ops::reduce::reduce::Reducer;
use pullback_ir::{Literal, Program};
use pullback_runtime::Array;
use std::f64::consts::PI;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// The sum of a function of each element.
fn unary(function: Unary) -> Program {
    on_f64(&[&[3]], |b, p| {
        let y = b.unary(function, p[0])?;
        Ok(vec![sum(b, y)?])
    })
}

/// The sum of a function of pairs of elements.
fn binary(function: Binary) -> Program {
    on_f64(&[&[3], &[3]], |b, p| {
        let z = b.one(function, p)?;
        Ok(vec![sum(b, z)?])
    })
}

#[test]
fn masked_branches_contribute_nothing() {
    // select(x > 0, sqrt(x), 0)
    let f = on_f64(&[&[3]], |b, p| {
        let zero = b.number_like(p[0], 0.0)?;
        let positive = b.compare(Compare::Gt, p[0], zero)?;
        let root = b.unary(Unary::Sqrt, p[0])?;
        let y = b.select(positive, root, zero)?;
        Ok(vec![sum(b, y)?])
    });
    let at = [vector(&[0.0, -1.0, 4.0])];
    check_gradient(&f, &at, &[&[0.0, 0.0, 0.25]], 0.0);
    let slopes = pullback_autodiff::grad(&f, &[0]).unwrap();
    let curvature = on_f64(&[&[3]], |b, p| {
        let slope = b.inline(&slopes, p)?[0];
        Ok(vec![sum(b, slope)?])
    });
    check_gradient(&curvature, &at, &[&[0.0, 0.0, -1.0 / 32.0]], 1e-15);
}

#[test]
fn a_branch_not_taken_hides_its_nan() {
    let f = on_f64(&[&[], &[]], |b, p| {
        let never = b.constant(Literal::scalar(false))?;
        let product = b.mul(p[0], p[1])?;
        let one = b.number_like(p[0], 1.0)?;
        Ok(vec![b.select(never, product, one)?])
    });
    check_gradient(&f, &[scalar(2.3), scalar(NAN)], &[&[0.0], &[0.0]], 0.0);
    // x * log(x) where x > 0
    let f = on_f64(&[&[2]], |b, p| {
        let zero = b.number_like(p[0], 0.0)?;
        let positive = b.compare(Compare::Gt, p[0], zero)?;
        let log = b.unary(Unary::Log, p[0])?;
        let product = b.mul(p[0], log)?;
        let y = b.select(positive, product, zero)?;
        Ok(vec![sum(b, y)?])
    });
    check_gradient(&f, &[vector(&[0.0, 1.0])], &[&[0.0, 1.0]], 0.0);
}

#[test]
fn atan2_is_masked_at_the_origin() {
    let f = on_f64(&[&[3]], |b, p| {
        let mask = b.constant(Literal::dense(&[false, true, false], [3]).unwrap())?;
        let angle = b.one(Binary::Atan2, &[p[0], p[0]])?;
        let zero = b.number_like(angle, 0.0)?;
        let y = b.select(mask, zero, angle)?;
        Ok(vec![sum(b, y)?])
    });
    check_gradient(&f, &[vector(&[3.0, 0.0, -5.0])], &[&[0.0, 0.0, 0.0]], 0.0);
}

#[test]
fn atan2_slopes() {
    let f = binary(Binary::Atan2);
    let at = [vector(&[1.0, 0.0, 3.0]), vector(&[2.0, -1.0, 0.0])];
    check_gradient(&f, &at, &[&[0.4, -1.0, 0.0], &[-0.2, -0.0, -1.0 / 3.0]], 1e-16);
}

/// `x / (x^2 + y^2)` and its like are numbers far beyond where their squares are.
#[test]
fn atan2_slopes_of_extreme_operands() {
    let f = on_f64(&[&[], &[]], |b, p| Ok(vec![b.one(Binary::Atan2, p)?]));
    let check = |y: f64, x: f64, by_y: f64, by_x: f64| {
        check_gradient(&f, &[scalar(y), scalar(x)], &[&[by_y], &[by_x]], 1e-15);
    };
    check(1e200, 1e200, 5e-201, -5e-201);
    check(1e-200, 1e-200, 5e199, -5e199);
    check(3e300, -4e300, -1.6e-301, -1.2e-301);
    check(3e-300, 4e-300, 1.6e299, -1.2e299);
    check(1.5e308, 0.0, 0.0, -1.0 / 1.5e308);
    check(0.0, 1e-307, 1e307, 0.0);
    check(1e-320, 1e-10, 1e10, -1e-300);
    check(1e-300, 1e-140, 1e140, -1e-20);
    check(1e250, 1e200, 1e-300, -1e-250);
    check(1e-310, 1e-308, 1.0 / 1e-308 / 1.0001, -(1e-310 / 1e-308) / 1e-308 / 1.0001);
    check(5e-324, 5e-324, INF, -INF);
    // Continuous where the scale changes.
    for k in [-601, -600, -501, -500, -499, 499, 500, 501, 600] {
        let m = 2f64.powi(k);
        check(m, m, 0.5 / m, -0.5 / m);
        check(m.next_down(), 0.0, 0.0, -1.0 / m.next_down());
        check(m.next_up(), 0.0, 0.0, -1.0 / m.next_up());
    }
}

#[test]
fn atan2_slopes_of_extreme_operands_in_single_precision() {
    let f = program("f", &[f32s(&[]), f32s(&[])], |b, p| Ok(vec![b.one(Binary::Atan2, p)?]));
    let gradient = pullback_autodiff::grad(&f, &[0, 1]).unwrap();
    let check = |y: f32, x: f32| {
        let found = run(&gradient, &[Array::from(y), Array::from(x)]);
        let (yy, xx) = (f64::from(y), f64::from(x));
        let square = xx * xx + yy * yy;
        for (found, due) in found.iter().zip([xx / square, -yy / square]) {
            let (found, due) = (floats(found)[0], f64::from(due as f32));
            // Four roundings, and what is below the normal numbers.
            let allowed = 4.0 * f64::from(f32::EPSILON) * due.abs() + f64::from(f32::from_bits(2));
            assert!(found == due || (found - due).abs() <= allowed, "({y:e}, {x:e}): {found:e}, not {due:e}");
        }
    };
    let magnitudes: Vec<f32> = (-149..128).step_by(3).map(|k| 1.3 * 2f64.powi(k) as f32).collect();
    for &y in &magnitudes {
        for &x in &magnitudes {
            check(y, x);
            check(-y, x);
        }
    }
}

#[test]
fn second_slopes_of_atan2_see_through_the_scale() {
    let f = on_f64(&[&[], &[]], |b, p| Ok(vec![b.one(Binary::Atan2, p)?]));
    let by_y = pullback_autodiff::grad(&f, &[0]).unwrap();
    // d/dy x / (x^2 + y^2) = -2 x y / (x^2 + y^2)^2, and d/dx the same = (y^2 - x^2) / (x^2 + y^2)^2.
    check_gradient(&by_y, &[scalar(1.0), scalar(2.0)], &[&[-4.0 / 25.0], &[-3.0 / 25.0]], 1e-15);
    check_gradient(&by_y, &[scalar(1e-151), scalar(2e-151)], &[&[-4e302 / 25.0], &[-3e302 / 25.0]], 1e-15);
    check_gradient(&by_y, &[scalar(1e153), scalar(2e153)], &[&[-4e-306 / 25.0], &[-3e-306 / 25.0]], 1e-15);
}

#[test]
fn logaddexp_has_the_slopes_of_a_softmax() {
    let f = binary(Binary::LogAddExp);
    let slopes = |x: [f64; 3], y: [f64; 3], by_x: [f64; 3], by_y: [f64; 3]| {
        check_gradient(&f, &[vector(&x), vector(&y)], &[&by_x, &by_y], 0.0);
        check_gradient(&f, &[vector(&y), vector(&x)], &[&by_y, &by_x], 0.0);
    };
    slopes([2.0, INF, -INF], [2.0, INF, -INF], [0.5; 3], [0.5; 3]);
    slopes([INF, INF, 3.0], [-INF, 3.0, -INF], [1.0; 3], [0.0; 3]);
    slopes([1e308, 1000.0, 0.0], [-1e308, -1000.0, -0.0], [1.0, 1.0, 0.5], [0.0, 0.0, 0.5]);
    slopes([NAN; 3], [1.0, INF, NAN], [NAN; 3], [NAN; 3]);
    let far = (-40.0f64).exp();
    slopes([40.0, 0.0, -1e5], [0.0, 0.0, -1e5], [1.0, 0.5, 0.5], [far, 0.5, 0.5]);
}

#[test]
fn logaddexp_is_curved_at_a_tie() {
    let f = on_f64(&[&[], &[]], |b, p| Ok(vec![b.one(Binary::LogAddExp, p)?]));
    let slope = pullback_autodiff::grad(&f, &[0]).unwrap();
    check_gradient(&slope, &[scalar(7.0), scalar(7.0)], &[&[0.25], &[-0.25]], 0.0);
    check_gradient(&slope, &[scalar(INF), scalar(INF)], &[&[0.0], &[0.0]], 0.0);
}

#[test]
fn the_square_of_a_norm_is_smooth() {
    let f = on_f64(&[&[2]], |b, p| {
        let squares = b.mul(p[0], p[0])?;
        let square = sum(b, squares)?;
        let norm = b.unary(Unary::Sqrt, square)?;
        Ok(vec![b.mul(norm, norm)?])
    });
    check_gradient(&f, &[vector(&[0.0, 0.0])], &[&[0.0, 0.0]], 0.0);
    check_gradient(&f, &[vector(&[3.0, 4.0])], &[&[6.0, 8.0]], 1e-15);
}

#[test]
fn a_floor_under_a_norm_hides_the_origin() {
    let f = on_f64(&[&[], &[]], |b, p| {
        let (xx, yy) = (b.mul(p[0], p[0])?, b.mul(p[1], p[1])?);
        let square = b.add(xx, yy)?;
        let norm = b.unary(Unary::Sqrt, square)?;
        let floor = b.number_like(norm, 1e-10)?;
        Ok(vec![b.one(Binary::Max, &[norm, floor])?])
    });
    check_gradient(&f, &[scalar(0.0), scalar(0.0)], &[&[0.0], &[0.0]], 0.0);
}

#[test]
fn an_overflown_exponential_has_no_slope() {
    let f = on_f64(&[&[]], |b, p| {
        let exp = b.unary(Unary::Exp, p[0])?;
        let below = b.add_number(exp, 1.0)?;
        let one = b.number_like(below, 1.0)?;
        Ok(vec![b.div(one, below)?])
    });
    assert_eq!(reverse(&f, &[0], &[scalar(1000.0)]), [[0.0]]);
}

#[test]
fn kinks_and_steps() {
    check_gradient(&unary(Unary::Abs), &[vector(&[0.0, -0.0, -2.0])], &[&[0.0, 0.0, -1.0]], 0.0);
    for step in [Unary::Sign, Unary::Floor, Unary::Ceil, Unary::Round] {
        check_gradient(&unary(step), &[vector(&[1.5, 1.3, 0.0])], &[&[0.0, 0.0, 0.0]], 0.0);
    }
    // (x > 0) * x
    let f = on_f64(&[&[]], |b, p| {
        let zero = b.number_like(p[0], 0.0)?;
        let positive = b.compare(Compare::Gt, p[0], zero)?;
        let gate = b.convert(positive, pullback_ir::DType::F64)?;
        Ok(vec![b.mul(gate, p[0])?])
    });
    check_gradient(&f, &[scalar(2.0)], &[&[1.0]], 0.0);
}

#[test]
fn slopes_at_the_edge_of_a_domain() {
    let at = |x: [f64; 3]| [vector(&x)];
    check_gradient(&unary(Unary::Sqrt), &at([0.0, 4.0, -1.0]), &[&[INF, 0.25, NAN]], 0.0);
    check_gradient(&unary(Unary::Log), &at([0.0, 2.0, -1.0]), &[&[INF, 0.5, NAN]], 0.0);
    check_gradient(&unary(Unary::Log1p), &at([-1.0, 0.0, -2.0]), &[&[INF, 1.0, NAN]], 0.0);
    check_gradient(&unary(Unary::Log2), &at([0.0, 1.0, -1.0]), &[&[INF, std::f64::consts::LOG2_E, NAN]], 0.0);
    check_gradient(&unary(Unary::Asin), &at([1.0, 0.0, 2.0]), &[&[INF, 1.0, NAN]], 0.0);
    check_gradient(&unary(Unary::Acos), &at([-1.0, 0.0, -2.0]), &[&[-INF, -1.0, NAN]], 0.0);
    check_gradient(&unary(Unary::Acosh), &at([1.0, 2.0, -2.0]), &[&[INF, 3f64.sqrt().recip(), NAN]], 1e-15);
    check_gradient(&unary(Unary::Atanh), &at([1.0, 0.0, 2.0]), &[&[INF, 1.0, NAN]], 0.0);
    check_gradient(&unary(Unary::Cbrt), &at([0.0, 8.0, -8.0]), &[&[INF, 1.0 / 12.0, 1.0 / 12.0]], 1e-15);
    check_gradient(&unary(Unary::Rsqrt), &at([0.0, 4.0, INF]), &[&[-INF, -1.0 / 16.0, -0.0]], 0.0);
    check_gradient(&unary(Unary::Exp), &at([-INF, 0.0, INF]), &[&[0.0, 1.0, INF]], 0.0);
    check_gradient(&unary(Unary::Tanh), &at([-INF, 0.0, INF]), &[&[0.0, 1.0, 0.0]], 0.0);
    check_gradient(&unary(Unary::Logistic), &at([-INF, 0.0, INF]), &[&[0.0, 0.25, 0.0]], 0.0);
    check_gradient(&unary(Unary::Erf), &at([-INF, 0.0, INF]), &[&[0.0, 2.0 / PI.sqrt(), 0.0]], 1e-15);
}

#[test]
fn clipping_hides_the_edge_of_a_domain() {
    let f = on_f64(&[&[]], |b, p| {
        let (low, high) = (b.number_like(p[0], -1.0)?, b.number_like(p[0], 1.0)?);
        let above = b.one(Binary::Max, &[p[0], low])?;
        let clipped = b.one(Binary::Min, &[above, high])?;
        Ok(vec![b.unary(Unary::Acos, clipped)?])
    });
    check_gradient(&f, &[scalar(10.0)], &[&[0.0]], 0.0);
}

#[test]
fn ties_share_the_slope() {
    for choice in [Binary::Max, Binary::Min] {
        let f = binary(choice);
        let at = [vector(&[3.0, INF, -0.0]), vector(&[3.0, INF, 0.0])];
        check_gradient(&f, &at, &[&[0.5; 3], &[0.5; 3]], 0.0);
    }
    let larger = [vector(&[1.0, INF, -INF]), vector(&[2.0, 5.0, -INF])];
    check_gradient(&binary(Binary::Max), &larger, &[&[0.0, 1.0, 0.5], &[1.0, 0.0, 0.5]], 0.0);
    check_gradient(&binary(Binary::Min), &larger, &[&[1.0, 0.0, 0.5], &[0.0, 1.0, 0.5]], 0.0);
    // max(x, 0), at the kink and beside it, and its second derivative
    let relu = on_f64(&[&[3]], |b, p| {
        let zero = b.number_like(p[0], 0.0)?;
        let y = b.one(Binary::Max, &[p[0], zero])?;
        Ok(vec![sum(b, y)?])
    });
    let at = [vector(&[-1.0, 0.0, 1.0])];
    check_gradient(&relu, &at, &[&[0.0, 0.5, 1.0]], 0.0);
    let slopes = pullback_autodiff::grad(&relu, &[0]).unwrap();
    let curvature = on_f64(&[&[3]], |b, p| {
        let slopes = b.inline(&slopes, p)?[0];
        Ok(vec![sum(b, slopes)?])
    });
    check_gradient(&curvature, &at, &[&[0.0, 0.0, 0.0]], 0.0);
    // select(x > 0, x, 0) is the relu whose slope at 0 is 0
    let relu = on_f64(&[&[3]], |b, p| {
        let zero = b.number_like(p[0], 0.0)?;
        let positive = b.compare(Compare::Gt, p[0], zero)?;
        let y = b.select(positive, p[0], zero)?;
        Ok(vec![sum(b, y)?])
    });
    check_gradient(&relu, &at, &[&[0.0, 0.0, 1.0]], 0.0);
}

#[test]
fn reductions_share_the_slope_among_ties() {
    let reduce =
        |reducer: Reducer, n: usize| on_f64(&[&[n]], |b, p| Ok(vec![b.reduce(reducer, p[0], &[0])?]));
    let third = 1.0 / 3.0;
    let at = [vector(&[1.0, 3.0, 3.0, 2.0, 3.0])];
    check_gradient(&reduce(Reducer::Max, 5), &at, &[&[0.0, third, third, 0.0, third]], 0.0);
    let at = [vector(&[1.0, 3.0, 1.0, 2.0, 3.0])];
    check_gradient(&reduce(Reducer::Min, 5), &at, &[&[0.5, 0.0, 0.5, 0.0, 0.0]], 0.0);
    let at = [vector(&[-INF, INF, 2.0, INF])];
    check_gradient(&reduce(Reducer::Max, 4), &at, &[&[0.0, 0.5, 0.0, 0.5]], 0.0);
    let at = [vector(&[-INF; 4])];
    check_gradient(&reduce(Reducer::Max, 4), &at, &[&[0.25; 4]], 0.0);
    let at = [vector(&[0.0, -0.0])];
    check_gradient(&reduce(Reducer::Max, 2), &at, &[&[0.5, 0.5]], 0.0);
    let at = [vector(&[1.0, NAN, 3.0])];
    check_gradient(&reduce(Reducer::Max, 3), &at, &[&[0.0, 1.0, 0.0]], 0.0);
}

#[test]
fn products_are_right_with_zeros() {
    let f = on_f64(&[&[3]], |b, p| Ok(vec![b.reduce(Reducer::Prod, p[0], &[0])?]));
    for (x, due) in
        [([0.0, 2.0, 3.0], [6.0, 0.0, 0.0]), ([0.0, 0.0, 3.0], [0.0; 3]), ([1.0, 2.0, 4.0], [8.0, 4.0, 2.0])]
    {
        check_gradient(&f, &[vector(&x)], &[&due], 0.0);
    }
    // d2/dx0 dx1 of x0 x1 x2 is x2, with zeros at both.
    let slopes = pullback_autodiff::grad(&f, &[0]).unwrap();
    let first = on_f64(&[&[3]], |b, p| {
        let slope = b.inline(&slopes, p)?[0];
        Ok(vec![weighted(b, slope, &[1.0, 0.0, 0.0])?])
    });
    check_gradient(&first, &[vector(&[0.0, 0.0, 3.0])], &[&[0.0, 3.0, 0.0]], 0.0);
}

#[test]
fn integer_powers_at_zero() {
    let due = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 6.0]];
    for (exponent, due) in due.iter().enumerate() {
        let mut f = on_f64(&[&[]], |b, p| Ok(vec![b.integer_pow(p[0], exponent as i32)?]));
        for due in due {
            check_gradient(&f, &[scalar(0.0)], &[&[*due]], 0.0);
            f = pullback_autodiff::grad(&f, &[0]).unwrap();
        }
    }
}

#[test]
fn real_powers_at_zero() {
    let f = binary(Binary::Pow);
    let at = [vector(&[0.0; 3]), vector(&[2.0, 1.0, 0.5])];
    check_gradient(&f, &at, &[&[0.0, 1.0, INF], &[0.0, 0.0, 0.0]], 0.0);
    let at = [vector(&[-2.0, 0.0, 2.0]), vector(&[3.0, 0.0, 3.0])];
    check_gradient(&f, &at, &[&[12.0, 0.0, 12.0], &[NAN, -INF, 8.0 * 2f64.ln()]], 1e-15);
}

#[test]
fn mixed_partials_of_a_power_are_symmetric() {
    let f = on_f64(&[&[], &[]], |b, p| Ok(vec![b.one(Binary::Pow, p)?]));
    let at = [scalar(23.0), scalar(0.0)];
    for order in [[0, 1], [1, 0]] {
        let first = pullback_autodiff::grad(&f, &[order[0]]).unwrap();
        compare("mixed", &reverse(&first, &[order[1]], &at)[0], &[1.0 / 23.0], 1e-15).unwrap();
        compare("mixed", &forward(&first, &[order[1]], &at)[0], &[1.0 / 23.0], 1e-15).unwrap();
    }
}

#[test]
fn remainders() {
    let f = binary(Binary::Rem);
    let at = [vector(&[7.5, -7.5, 1.0]), vector(&[2.0, 2.0, INF])];
    check_gradient(&f, &at, &[&[1.0; 3], &[-3.0, 3.0, 0.0]], 0.0);
}

#[test]
fn quotients_keep_their_infinities_apart() {
    let f = binary(Binary::Div);
    let at = [vector(&[0.0, 1.0, 6.0]), vector(&[0.0, 0.0, 2.0])];
    check_gradient(&f, &at, &[&[INF, INF, 0.5], &[NAN, -INF, -1.5]], 0.0);
}

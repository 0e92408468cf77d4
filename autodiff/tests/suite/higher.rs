//! Derivatives of derivatives, and derivatives inside programs that are differentiated.

use crate::common::*;
use pullback_autodiff::{grad, jvp};
use pullback_ir::ops::control::call::Call;
use pullback_ir::ops::elementwise::unary::Unary;
use pullback_ir::{Builder, Program, Value};
use std::sync::Arc;

/// A function of one number.
fn function(body: impl FnOnce(&mut Builder, Value) -> Result<Value, pullback_ir::TypeError>) -> Program {
    on_f64(&[&[]], |b, p| Ok(vec![body(b, p[0])?]))
}

/// The derivative by the parameter `wrt`, in reverse mode or as the tangent for a unit direction.
fn derivative(f: &Program, wrt: usize, is_reverse: bool) -> Program {
    if is_reverse {
        return grad(f, &[wrt]).unwrap();
    }
    let directional = jvp(f, &[wrt]).unwrap();
    program("slope", &f.param_types(), |b, p| {
        let one = b.scalar(1.0)?;
        let outputs = b.inline(&directional, &[p, &[one]].concat())?;
        Ok(vec![outputs[1]])
    })
}

/// Derivatives of order 1, 2, .. in every mix of modes.
fn check_orders(f: &Program, x: f64, due: &[f64]) {
    for modes in 0..1u32 << due.len() {
        let mut f = f.clone();
        for (order, &due) in due.iter().enumerate() {
            f = derivative(&f, 0, modes >> order & 1 == 1);
            let found = floats(&run(&f, &[scalar(x)])[0])[0];
            let close = (found - due).abs() <= 1e-12 * due.abs();
            assert!(close, "order {}, modes {modes:b}: {found}, and {due} is due", order + 1);
        }
    }
}

#[test]
fn tanh_four_times() {
    let f = function(|b, x| b.unary(Unary::Tanh, x));
    check_orders(&f, 0.5, &[0.7864477329659, -0.7268619813836, -0.5652092882598, 3.9522195637246]);
}

#[test]
fn a_product_four_times() {
    let f = function(|b, x| {
        let sin = b.unary(Unary::Sin, x)?;
        let power = b.integer_pow(x, 10)?;
        let product = b.mul(sin, power)?;
        b.mul_number(product, 0.3)
    });
    let mut fourth = f;
    for _ in 0..4 {
        fourth = grad(&fourth, &[0]).unwrap();
    }
    compare("fourth", &floats(&run(&fourth, &[scalar(1.1)])[0]), &[2829.281102675045], 1e-12).unwrap();
}

#[test]
fn cubes_have_a_hessian_of_rank_0() {
    let f = function(|b, x| b.integer_pow(x, 3));
    check_orders(&f, 2.0, &[12.0, 12.0, 6.0]);
    let hessian = grad(&grad(&f, &[0]).unwrap(), &[0]).unwrap();
    assert_eq!(hessian.output_types(), [f64s(&[])]);
}

/// `sum((1 - x_i)^2 + 100 (x_{i+1} - x_i^2)^2)`
fn rosenbrock(n: usize) -> Program {
    let shapes = vec![&[][..]; n];
    on_f64(&shapes, |b, p| {
        let mut total = b.scalar(0.0)?;
        for pair in p.windows(2) {
            let gap = b.number_sub(1.0, pair[0])?;
            let square = b.mul(pair[0], pair[0])?;
            let bend = b.sub(pair[1], square)?;
            let (gap, bend) = (b.mul(gap, gap)?, b.mul(bend, bend)?);
            let bend = b.mul_number(bend, 100.0)?;
            let term = b.add(gap, bend)?;
            total = b.add(total, term)?;
        }
        Ok(vec![total])
    })
}

#[test]
fn a_valley_and_its_curvature() {
    let at = [scalar(3.0), scalar(5.0)];
    assert_eq!(floats(&run(&rosenbrock(2), &at)[0]), [1604.0]);
    check_gradient(&rosenbrock(2), &at, &[&[4804.0], &[-800.0]], 1e-14);
    let f = rosenbrock(3);
    let gradient = grad(&f, &[0, 1, 2]).unwrap();
    let along = [1.0, 0.0, -1.0];
    let at = [3.0, 5.0, 7.0, 1.0, 0.0, -1.0].map(scalar);
    let forward_over_reverse = run(&jvp(&gradient, &[0, 1, 2]).unwrap(), &at);
    let directional = program("directional", &f.param_types(), |b, p| {
        let mut total = b.scalar(0.0)?;
        for (slope, along) in b.inline(&gradient, p)?.into_iter().zip(along) {
            let term = b.mul_number(slope, along)?;
            total = b.add(total, term)?;
        }
        Ok(vec![total])
    });
    let reverse_over_reverse = run(&grad(&directional, &[0, 1, 2]).unwrap(), &at[..3]);
    for (i, due) in [8802.0, 800.0, -200.0].into_iter().enumerate() {
        compare("forward over reverse", &floats(&forward_over_reverse[3 + i]), &[due], 1e-14).unwrap();
        compare("reverse over reverse", &floats(&reverse_over_reverse[i]), &[due], 1e-14).unwrap();
    }
}

/// `x * d/dy f(x, y)` at this y, the inner derivative inlined or called.
fn nested(f: &Program, y: f64, is_reverse: bool, is_called: bool) -> Program {
    let inner = Arc::new(derivative(f, 1, is_reverse));
    function(|b, x| {
        let y = b.scalar(y)?;
        let slope =
            if is_called { b.one(Call::new(inner.clone()), &[x, y])? } else { b.inline(&inner, &[x, y])?[0] };
        b.mul(x, slope)
    })
}

#[test]
fn perturbations_are_not_confused() {
    let plus = on_f64(&[&[], &[]], |b, p| Ok(vec![b.add(p[0], p[1])?]));
    let product = on_f64(&[&[], &[]], |b, p| {
        let square = b.mul(p[1], p[1])?;
        Ok(vec![b.mul(p[0], square)?])
    });
    for modes in 0..8 {
        let (outer, inner, is_called) = (modes & 1 == 1, modes & 2 == 2, modes & 4 == 4);
        let at = |f: &Program, y: f64, x: f64| {
            let f = derivative(&nested(f, y, inner, is_called), 0, outer);
            floats(&run(&f, &[scalar(x)])[0])[0]
        };
        assert_eq!(at(&plus, 1.0, 1.0), 1.0);
        assert_eq!(at(&plus, 1.0, 5.0), 1.0);
        assert_eq!(at(&product, 3.0, 2.0), 24.0);
    }
}

#[test]
fn inner_derivatives_at_the_outer_variable() {
    // d/dx [x * d/dy (y^3 at y = x)] = d/dx 3 x^3
    let cube = Arc::new(grad(&function(|b, y| b.integer_pow(y, 3)), &[0]).unwrap());
    let f = function(|b, x| {
        let slope = b.one(Call::new(cube.clone()), &[x])?;
        b.mul(x, slope)
    });
    check_orders(&f, 2.0, &[36.0, 36.0, 18.0]);
}

#[test]
fn calls_differentiate_like_their_bodies() {
    let body = Arc::new(on_f64(&[&[], &[]], |b, p| {
        let sin = b.unary(Unary::Sin, p[0])?;
        let product = b.mul(sin, p[1])?;
        Ok(vec![product, p[0], sin])
    }));
    let f = |is_called: bool| {
        function(|b, x| {
            let mut y = x;
            for _ in 0..3 {
                let args = [y, x];
                let outputs = match is_called {
                    true => b.emit(Call::new(body.clone()), &args)?.to_vec(),
                    false => b.inline(&body, &args)?,
                };
                let sum = b.add(outputs[0], outputs[1])?;
                y = b.mul(sum, outputs[2])?;
            }
            Ok(y)
        })
    };
    let (mut called, mut inlined) = (f(true), f(false));
    for _ in 0..3 {
        (called, inlined) = (grad(&called, &[0]).unwrap(), grad(&inlined, &[0]).unwrap());
        let at = [scalar(0.7)];
        compare("call", &floats(&run(&called, &at)[0]), &floats(&run(&inlined, &at)[0]), 1e-13).unwrap();
    }
}

#[test]
fn doubling_sixty_times_and_squaring_ten_times() {
    let doubled = function(|b, mut x| {
        for _ in 0..60 {
            x = b.add(x, x)?;
        }
        Ok(x)
    });
    check_gradient(&doubled, &[scalar(1.0)], &[&[(1u64 << 60) as f64]], 0.0);
    let squared = function(|b, mut x| {
        for _ in 0..10 {
            x = b.mul(x, x)?;
        }
        Ok(x)
    });
    compare("value", &floats(&run(&squared, &[scalar(1.001)])[0]), &[2.78288550565446], 1e-12).unwrap();
    check_gradient(&squared, &[scalar(1.001)], &[&[2846.8279298603]], 1e-12);
}

//! What the transforms promise about programs, without running any.

use crate::common::*;
use pullback_autodiff::{
    AdError, Autodiff, Linearized, grad, jvp, linearize, value_and_grad, verify_linear, vjp,
};
use pullback_ir::ops::control::call::Call;
use pullback_ir::ops::elementwise::unary::Unary;
use pullback_ir::{Builder, DType, Program, TensorType};
use std::sync::Arc;

/// `sum(x * y)`
fn dot_loss() -> Program {
    program("loss", &[f32s(&[4]), f32s(&[4])], |b, p| {
        let xy = b.mul(p[0], p[1])?;
        Ok(vec![b.reduce_sum(xy, &[0])?])
    })
}

#[test]
fn a_gradient_has_the_parameters_and_one_output_per_wrt() {
    let loss = dot_loss();
    let gradient = grad(&loss, &[0, 1]).unwrap();
    assert_eq!(gradient.param_types(), loss.param_types());
    assert_eq!(gradient.output_types(), vec![f32s(&[4]), f32s(&[4])]);
    let both = value_and_grad(&loss, &[0, 1]).unwrap();
    assert_eq!(both.output_types(), vec![f32s(&[]), f32s(&[4]), f32s(&[4])]);
}

#[test]
fn what_a_composition_does_not_need_is_gone() {
    let gradient = grad(&dot_loss(), &[0]).unwrap();
    let names: Vec<&str> = gradient.nodes().map(|node| node.op.name()).collect();
    assert_eq!(names, ["constant", "broadcast", "scale_by"]);
}

#[test]
fn unused_parameters_stay() {
    let sum = program("sum", &[f32s(&[3]), f32s(&[2])], |b, p| Ok(vec![b.reduce_sum(p[0], &[0])?]));
    let gradient = grad(&sum, &[0, 1]).unwrap();
    assert_eq!(gradient.param_types(), sum.param_types());
    assert_eq!(gradient.output_types(), vec![f32s(&[3]), f32s(&[2])]);
    assert!(gradient.is_zero(gradient.outputs()[1]));
}

#[test]
fn jvp_and_vjp_have_their_signatures() {
    let ints = TensorType::new(DType::I64, [2]);
    let f = program("f", &[f32s(&[2]), ints.clone()], |b, p| {
        let y = b.unary(Unary::Sin, p[0])?;
        Ok(vec![y, p[1], p[0]])
    });
    let forward = jvp(&f, &[0]).unwrap();
    assert_eq!(forward.param_types(), vec![f32s(&[2]), ints.clone(), f32s(&[2])]);
    assert_eq!(forward.output_types(), vec![f32s(&[2]), ints.clone(), f32s(&[2]), f32s(&[2]), f32s(&[2])]);
    let reverse = vjp(&f, &[0]).unwrap();
    assert_eq!(reverse.param_types(), vec![f32s(&[2]), ints.clone(), f32s(&[2]), f32s(&[2])]);
    assert_eq!(reverse.output_types(), vec![f32s(&[2]), ints, f32s(&[2]), f32s(&[2])]);
}

#[test]
fn wrt_is_checked_by_index_and_type() {
    let f = program("f", &[f32s(&[]), TensorType::scalar(DType::I32)], |_, p| Ok(vec![p[0]]));
    let refused = |wrt: &[usize]| grad(&f, wrt).unwrap_err();
    assert_eq!(refused(&[2]), AdError::WrtOutOfRange { index: 2, params: 2, program: "f".into() });
    assert_eq!(refused(&[0, 0]), AdError::WrtRepeated { index: 0 });
    assert_eq!(refused(&[1]), AdError::WrtNotFloat { index: 1, ty: TensorType::scalar(DType::I32) });
    assert!(refused(&[1]).to_string().contains("parameter 1 has type i32[]"));
    for transform in [jvp, vjp, value_and_grad] {
        assert_eq!(transform(&f, &[7]).unwrap_err().to_string(), refused(&[7]).to_string());
    }
    assert!(linearize(&f, &[1]).is_err());
}

#[test]
fn a_gradient_needs_one_float_scalar() {
    let of = |outputs: fn(&[pullback_ir::Value]) -> Vec<pullback_ir::Value>| {
        let f = program("f", &[f32s(&[4]), TensorType::scalar(DType::I32), f32s(&[])], |_, p| Ok(outputs(p)));
        grad(&f, &[0]).map(|_| ()).map_err(|error| error.to_string())
    };
    let text = of(|p| vec![p[0]]).unwrap_err();
    assert!(text.contains("GradientRequiresScalarOutput") && text.contains("f32[4]"), "{text}");
    assert!(text.contains("sum") && text.contains("Jacobian"), "{text}");
    assert!(of(|p| vec![p[1]]).unwrap_err().contains("i32[]"));
    assert!(of(|p| vec![p[2], p[2]]).unwrap_err().contains("f32[], f32[]"));
    assert!(of(|_| vec![]).unwrap_err().contains("nothing"));
    assert_eq!(of(|p| vec![p[2]]), Ok(()));
}

#[test]
fn residuals_are_what_rules_ask_for_and_each_comes_once() {
    let f = program("f", &[f32s(&[])], |b, p| {
        let s = b.unary(Unary::Exp, p[0])?;
        let t = b.mul(s, s)?;
        Ok(vec![b.mul(t, s)?])
    });
    let Linearized { primal, linear, outputs, active } = linearize(&f, &[0]).unwrap();
    assert_eq!((outputs, active), (1, vec![0]));
    // exp x and its square; x itself is not needed.
    assert_eq!(primal.outputs().len(), 3);
    assert_eq!(primal.len(), f.len());
    verify_linear(&linear, 2).unwrap();
}

#[test]
fn constants_are_repeated_and_not_passed() {
    let f = program("f", &[f32s(&[])], |b, p| Ok(vec![b.mul_number(p[0], 3.0)?]));
    let split = linearize(&f, &[0]).unwrap();
    assert_eq!(split.residuals(), 0);
    assert_eq!(split.linear.op_counts()["constant"], 1);
}

#[test]
fn outputs_without_tangent_are_symbolic_zeros() {
    let f = program("f", &[f32s(&[]), f32s(&[])], |b, p| {
        let c = b.scalar(1.0f32)?;
        Ok(vec![p[1], p[0], c])
    });
    let split = linearize(&f, &[0]).unwrap();
    assert_eq!(split.active, vec![1]);
    assert_eq!(split.linear.outputs(), split.linear.params());
}

#[test]
fn places_name_the_op_of_the_user() {
    let loc = pullback_ir::Loc { file: "model.rs", line: 31, column: 7, via: None };
    let mut b = Builder::new("f");
    let x = b.param(f32s(&[]));
    b.set_loc(loc);
    let y = b.unary(Unary::Sin, x).unwrap();
    let f = b.finish(&[y]);
    let gradient = grad(&f, &[0]).unwrap();
    let places: Vec<String> = gradient.nodes().map(|node| node.loc.to_string()).collect();
    assert!(places.contains(&"transpose of sin at model.rs:31:7".to_string()), "{places:?}");
    assert!(places.contains(&"linearize of sin at model.rs:31:7".to_string()), "{places:?}");
    assert!(places.contains(&"seed of sin at model.rs:31:7".to_string()), "{places:?}");
}

#[test]
fn a_program_called_many_times_is_transformed_once() {
    let ty = f32s(&[]);
    let sin =
        Arc::new(program("inner", std::slice::from_ref(&ty), |b, p| Ok(vec![b.unary(Unary::Sin, p[0])?])));
    let f = program("f", &[ty], |b, p| {
        let mut x = p[0];
        for _ in 0..50 {
            x = b.one(Call::new(sin.clone()), &[x])?;
        }
        Ok(vec![x])
    });
    let gradient = grad(&f, &[0]).unwrap();
    let mut programs: Vec<*const Program> =
        gradient.nodes().flat_map(|n| n.op.programs().into_iter().map(Arc::as_ptr)).collect();
    programs.sort_unstable();
    programs.dedup();
    assert_eq!(programs.len(), 2);
    assert_eq!(gradient.op_counts()["call"], 100);
}

#[test]
fn calls_without_tangents_and_dead_calls_stay_as_they_are() {
    let ty = f32s(&[]);
    let sin =
        Arc::new(program("inner", std::slice::from_ref(&ty), |b, p| Ok(vec![b.unary(Unary::Sin, p[0])?])));
    let f = program("f", &[ty.clone(), ty], |b, p| {
        let unrelated = b.one(Call::new(sin.clone()), &[p[1]])?;
        let _dead = b.one(Call::new(sin.clone()), &[p[0]])?;
        Ok(vec![b.mul(p[0], unrelated)?])
    });
    let split = linearize(&f, &[0]).unwrap();
    for node in split.primal.nodes() {
        assert!(node.op.programs().into_iter().all(|p| Arc::ptr_eq(p, &sin)));
    }
    assert!(!split.linear.op_counts().contains_key("call"));
}

#[test]
fn programs_that_are_not_linear_are_not_transposed() {
    let ad = Autodiff::default();
    let refused = |body: fn(&mut Builder, &[pullback_ir::Value]) -> Body| {
        let f = program("f", &[f32s(&[]), f32s(&[]), f32s(&[])], body);
        assert_eq!(ad.transpose(&f, 1).map(|_| ()), verify_linear(&f, 1));
        verify_linear(&f, 1).unwrap_err().to_string()
    };
    assert!(refused(|b, p| Ok(vec![b.mul(p[1], p[2])?])).contains("mul is not linear"));
    assert!(refused(|b, p| Ok(vec![b.unary(Unary::Sin, p[1])?])).contains("sin is not linear"));
    assert!(refused(|b, p| Ok(vec![b.div(p[0], p[1])?])).contains("div is not linear"));
    assert!(refused(|b, p| Ok(vec![b.add(p[0], p[1])?])).contains("operand 0 carries no tangent"));
    assert!(refused(|b, p| Ok(vec![b.add_number(p[1], 1.0)?])).contains("operand 1 carries no tangent"));
    assert!(refused(|_, p| Ok(vec![p[1], p[0]])).contains("return is not linear"));
    assert!(
        refused(|b, p| Ok(vec![
            b.one(pullback_ir::ops::elementwise::convert::Convert { dtype: DType::I32 }, &[p[1]])?
        ]))
        .contains("convert is not linear")
    );
    let fine = program("f", &[f32s(&[]), f32s(&[]), f32s(&[])], |b, p| {
        let scaled = b.mul(p[1], p[0])?;
        let zero = b.number_like(scaled, 0.0)?;
        let sum = b.add(scaled, zero)?;
        Ok(vec![b.sub(p[2], sum)?, zero])
    });
    verify_linear(&fine, 1).unwrap();
    assert_eq!(ad.transpose(&fine, 1).unwrap().output_types(), vec![f32s(&[]), f32s(&[])]);
}

#[test]
fn nested_programs_are_checked_for_linearity_too() {
    let ty = f32s(&[]);
    let square = Arc::new(program("square", std::slice::from_ref(&ty), |b, p| Ok(vec![b.mul(p[0], p[0])?])));
    let f = program("f", &[ty], |b, p| Ok(vec![b.one(Call::new(square.clone()), &[p[0]])?]));
    assert!(verify_linear(&f, 0).unwrap_err().to_string().contains("mul is not linear"));
    assert!(verify_linear(&f, 1).unwrap_err().to_string().contains("return"));
}

#[test]
fn million_op_chains_need_no_stack() {
    let depth = 1_000_000;
    let run = move || {
        let mut b = Builder::new("chain");
        let x = b.param(f32s(&[]));
        let mut y = x;
        for _ in 0..depth {
            y = b.unary(Unary::Neg, y).unwrap();
        }
        let y = b.mul(y, y).unwrap();
        let f = b.finish(&[y]);
        let gradient = grad(&f, &[0]).unwrap();
        assert!(gradient.len() >= 2 * depth);
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn size_grows_linearly() {
    let ops = |depth: usize| {
        let f = program("f", &[f32s(&[])], |b, p| {
            let mut x = p[0];
            for _ in 0..depth {
                x = b.unary(Unary::Sin, x)?;
            }
            Ok(vec![x])
        });
        grad(&f, &[0]).unwrap().len()
    };
    assert_eq!(ops(200) - ops(100), ops(300) - ops(200));
    // The diamond of depth 60 has 2^60 paths.
    let diamond = program("f", &[f32s(&[])], |b, p| {
        let mut x = p[0];
        for _ in 0..60 {
            x = b.add(x, x)?;
        }
        Ok(vec![x])
    });
    assert!(grad(&diamond, &[0]).unwrap().len() < 200);
}

//! Every op on every sample: derivatives against differences, against each other, and against linearity itself.

use crate::common::*;
use crate::contracts::sample_autodiff;
use pullback_autodiff::{AtHand, Autodiff, Linearized, verify_linear};
use pullback_ir::ops::elementwise::unary::Unary;
use pullback_ir::sample::Sample;
use pullback_ir::{Builder, DType, Op, Program, TensorType, Value};
use pullback_runtime::{Array, interpret};
use std::cell::Cell;

/// A sample as a program, with a point to try it at.
struct Case {
    name: String,
    tolerance: f64,
    program: Program,
    /// Float parameters.
    wrt: Vec<usize>,
    point: Vec<Array>,
}

impl Case {
    fn new(index: usize, sample: Sample) -> Case {
        let types: Vec<TensorType> = sample.operands.iter().map(|operand| operand.ty.clone()).collect();
        let program = program("sample", &types, |b, p| Ok(b.emit(sample.op.clone(), p)?.to_vec()));
        let wrt = (0..types.len()).filter(|&i| types[i].dtype.is_float()).collect();
        let point = sample.literals(index as u64).iter().map(Array::from_literal).collect();
        let name = format!("{index}: {:?} on {types:?}", sample.op);
        Case { name, tolerance: sample.tolerance, program, wrt, point }
    }

    fn wrt_types(&self) -> Vec<TensorType> {
        self.wrt.iter().map(|&i| self.point[i].ty().clone()).collect()
    }

    fn float_outputs(&self) -> Vec<TensorType> {
        self.program.output_types().into_iter().filter(|ty| ty.dtype.is_float()).collect()
    }

    /// Whether derivatives can be found from differences.
    fn is_f64(&self) -> bool {
        self.wrt_types().iter().all(|ty| ty.dtype == DType::F64)
    }

    /// What rounding alone may do.
    fn rounding(&self) -> f64 {
        let is_f32 = self.float_outputs().iter().any(|ty| ty.dtype == DType::F32);
        if is_f32 { f32::EPSILON as f64 } else { 1e-14 }
    }

    fn directions(&self, seed: u64) -> Vec<Array> {
        directions(&self.wrt_types(), seed)
    }

    /// A smooth scalar of the outputs, whose derivatives of any order depend on theirs: the sum of weight times
    /// output times (1 + output / 4).
    fn loss(&self) -> Program {
        let types = self.program.param_types();
        program("loss", &types, |b, p| {
            let outputs = b.inline(&self.program, p)?;
            let mut loss = b.scalar(0.0)?;
            for output in outputs {
                if !b.ty(output).dtype.is_float() {
                    continue;
                }
                let y = b.convert(output, DType::F64)?;
                let weights: Vec<f64> = floats(&directions(std::slice::from_ref(b.ty(y)), 9)[0])
                    .iter()
                    .map(|w| w + 1.5)
                    .collect();
                let quarter = b.mul_number(y, 0.25)?;
                let factor = b.add_number(quarter, 1.0)?;
                let product = b.mul(y, factor)?;
                let term = weighted(b, product, &weights)?;
                loss = b.add(loss, term)?;
            }
            Ok(vec![loss])
        })
    }
}

/// Samples with something to differentiate by.
fn cases() -> Vec<Case> {
    let samples = Op::ALL.iter().flat_map(|family| (family.samples)());
    let cases = samples.enumerate().map(|(i, sample)| Case::new(i, sample));
    cases.filter(|case| !case.wrt.is_empty()).collect()
}

/// Runs a check on every case and reports all failures together.
fn for_all(cases: impl Iterator<Item = Case>, check: impl Fn(&Autodiff, &Case) -> Result<(), String>) {
    let ad = sample_autodiff();
    let mut tried = 0;
    let mut failures = Vec::new();
    for case in cases {
        tried += 1;
        if let Err(problem) = check(&ad, &case) {
            failures.push(format!("{}\n    {problem}", case.name));
        }
    }
    assert!(tried > 100, "only {tried} samples");
    assert!(failures.is_empty(), "{} of {tried} failed:\n{}", failures.len(), failures.join("\n"));
}

fn concat(arrays: &[Array]) -> Vec<f64> {
    arrays.iter().flat_map(floats).collect()
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[test]
fn forward_mode_agrees_with_differences() {
    for_all(cases().into_iter().filter(Case::is_f64), |ad, case| {
        let v = case.directions(1);
        let jvp = ad.jvp(&case.program, &case.wrt).map_err(text)?;
        let found = run(&jvp, &[case.point.clone(), v.clone()].concat());
        let found = concat(&found[case.program.outputs().len()..]);
        let due = slope_of(|t| concat(&run(&case.program, &moved(&case.point, &case.wrt, &v, t))));
        compare("jvp", &found, &due, case.tolerance)
    });
}

#[test]
fn reverse_mode_is_the_adjoint_of_forward_mode() {
    for_all(cases().into_iter(), |ad, case| {
        let (v, w) = (case.directions(2), directions(&case.float_outputs(), 3));
        let jvp = ad.jvp(&case.program, &case.wrt).map_err(text)?;
        let vjp = ad.vjp(&case.program, &case.wrt).map_err(text)?;
        let outputs = case.program.outputs().len();
        let jv = concat(&run(&jvp, &[case.point.clone(), v.clone()].concat())[outputs..]);
        let jtw = concat(&run(&vjp, &[case.point.clone(), w.clone()].concat())[outputs..]);
        let terms = |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a * b).collect() };
        let (left, right) = (terms(&jv, &concat(&w)), terms(&concat(&v), &jtw));
        let scale: f64 = left.iter().chain(&right).map(|x| x.abs()).sum();
        let (left, right): (f64, f64) = (left.iter().sum(), right.iter().sum());
        let is_f32 =
            case.program.param_types().iter().chain(&case.float_outputs()).any(|t| t.dtype == DType::F32);
        let ulp = if is_f32 { f32::EPSILON as f64 } else { f64::EPSILON };
        let allowed = 8.0 * ulp * scale;
        if (left - right).abs() <= allowed {
            return Ok(());
        }
        Err(format!("<Jv, w> = {left:e}, <v, Jt w> = {right:e}, allowed {allowed:e}"))
    });
}

#[test]
fn second_derivatives_agree_both_ways_and_with_differences() {
    for_all(cases().into_iter().filter(Case::is_f64), |ad, case| {
        let (loss, wrt) = (case.loss(), &case.wrt);
        let v = case.directions(4);
        let at = [case.point.clone(), v.clone()].concat();
        let gradient = ad.grad(&loss, wrt).map_err(text)?;
        let forward_over_reverse = ad.jvp(&gradient, wrt).map_err(text)?;
        let forward_over_reverse = concat(&run(&forward_over_reverse, &at)[wrt.len()..]);
        let directional = ad.jvp(&loss, wrt).map_err(text)?;
        let directional = directional.clone().with_outputs(&directional.outputs()[1..]);
        let reverse_over_forward = ad.grad(&directional, wrt).map_err(text)?;
        let reverse_over_forward = concat(&run(&reverse_over_forward, &at));
        compare("both ways", &forward_over_reverse, &reverse_over_forward, 1e3 * case.rounding())?;
        let due = slope_of(|t| concat(&run(&gradient, &moved(&case.point, wrt, &v, t))));
        compare("differences", &forward_over_reverse, &due, 10.0 * case.tolerance)
    });
}

#[test]
fn third_derivatives_exist_and_agree_with_differences() {
    for_all(cases().into_iter().filter(Case::is_f64), |ad, case| {
        let (loss, wrt) = (case.loss(), &case.wrt);
        let v = case.directions(5);
        let gradient = ad.grad(&loss, wrt).map_err(text)?;
        let energy = program("energy", &gradient.param_types(), |b, p| {
            let mut total = b.scalar(0.0)?;
            for (i, slope) in b.inline(&gradient, p)?.into_iter().enumerate() {
                let weights: Vec<f64> =
                    floats(&directions(std::slice::from_ref(b.ty(slope)), 11 + i as u64)[0]);
                let term = weighted(b, slope, &weights)?;
                total = b.add(total, term)?;
            }
            Ok(vec![total])
        });
        let second = ad.grad(&energy, wrt).map_err(text)?;
        let third = ad.jvp(&second, wrt).map_err(text)?;
        let found = concat(&run(&third, &[case.point.clone(), v.clone()].concat())[wrt.len()..]);
        let due = slope_of(|t| concat(&run(&second, &moved(&case.point, wrt, &v, t))));
        compare("third", &found, &due, 100.0 * case.tolerance)
    });
}

#[test]
fn every_dtype_differentiates_three_times() {
    for_all(cases().into_iter().filter(|case| !case.is_f64()), |ad, case| {
        let (loss, wrt) = (case.loss(), &case.wrt);
        let gradient = ad.grad(&loss, wrt).map_err(text)?;
        let types: Vec<TensorType> = gradient.output_types();
        if types != case.wrt_types() {
            return Err(format!("gradients of types {types:?}"));
        }
        let second = ad.vjp(&gradient, wrt).map_err(text)?;
        ad.jvp(&second, wrt).map_err(text)?;
        Ok(())
    });
}

#[test]
fn linear_programs_are_linear() {
    for_all(cases().into_iter().filter(Case::is_f64), |ad, case| {
        let split: Linearized = ad.linearize(&case.program, &case.wrt).map_err(text)?;
        verify_linear(&split.linear, split.residuals()).map_err(text)?;
        let residuals = run(&split.primal, &case.point).split_off(split.outputs);
        let apply =
            |tangents: Vec<Array>| concat(&run(&split.linear, &[residuals.clone(), tangents].concat()));
        let (u, v) = (case.directions(6), case.directions(7));
        let mixed = u.iter().zip(&v).map(|(u, v)| {
            let mix = floats(u).into_iter().zip(floats(v)).map(|(u, v)| 2.0 * u - 0.5 * v);
            from_floats(&mix.collect::<Vec<f64>>(), u.ty())
        });
        let found = apply(mixed.collect());
        let due: Vec<f64> = apply(u).iter().zip(apply(v.clone())).map(|(u, v)| 2.0 * u - 0.5 * v).collect();
        compare("2u - v/2", &found, &due, 16.0 * case.rounding())?;
        let zeros = v.iter().map(|v| Array::zeros(v.ty().clone()).unwrap()).collect();
        let found = apply(zeros);
        compare("0", &found, &vec![0.0; found.len()], 0.0)
    });
}

#[test]
fn samples_include_every_op() {
    for family in Op::ALL {
        for name in (family.names)() {
            let found = (family.samples)().iter().any(|sample| sample.op.name() == name);
            assert!(found, "{name} has no sample");
        }
    }
}

/// Losses in tests really depend on the outputs.
#[test]
fn the_loss_of_a_case_has_derivatives() {
    let mut b = Builder::new("neg");
    let x = b.param(f64s(&[2]));
    let y = b.neg(x).unwrap();
    let case = Case {
        name: "neg".into(),
        tolerance: 0.0,
        program: b.finish(&[y]),
        wrt: vec![0],
        point: vec![vector(&[1.0, 3.0])],
    };
    let gradient = reverse(&case.loss(), &[0], &case.point);
    assert!(gradient[0].iter().all(|slope| *slope != 0.0));
}

#[test]
fn passes_from_values_at_hand_give_the_bits_of_gradients() {
    for_all(cases().into_iter(), |ad, case| {
        let loss = case.loss();
        let due = ad.grad(&loss, &case.wrt).map_err(text)?;
        let due = interpret(&due, &case.point).map_err(text)?;
        // Everything between is at hand, or what no sum or product made, or nothing but the loss.
        for keeps in [|_: &Op| true, |op: &Op| !matches!(op, Op::Binary(_)), |_: &Op| false] {
            let kept = loss.nodes().filter(|node| keeps(&node.op)).flat_map(|node| node.results.clone());
            let outputs: Vec<Value> = loss.outputs().iter().copied().chain(kept).collect();
            let program = loss.clone().with_outputs(&outputs);
            let values = interpret(&program, &case.point).map_err(text)?;
            let backward = ad.backward(&program, &case.wrt, &[0]).map_err(text)?;
            backward.program.verify().map_err(text)?;
            let saved = backward.saved.iter().map(|at_hand| match *at_hand {
                AtHand::Param(i) => case.point[i].clone(),
                AtHand::Output(i) => values[i].clone(),
            });
            let arguments: Vec<Array> = saved.chain([scalar(1.0)]).collect();
            let found = interpret(&backward.program, &arguments).map_err(text)?;
            for (&reached, found) in backward.reached.iter().zip(&found) {
                if let Some(difference) = found.first_difference(&due[reached]) {
                    return Err(format!("gradient {reached}: {difference}"));
                }
            }
            let missing = (0..due.len()).filter(|i| !backward.reached.contains(i));
            if let Some(missing) = missing.into_iter().find(|&i| floats(&due[i]).iter().any(|&x| x != 0.0)) {
                return Err(format!("gradient {missing} was not reached"));
            }
        }
        Ok(())
    });
}

#[test]
fn passes_take_what_they_need() {
    let program = on_f64(&[&[2], &[2]], |b, p| {
        let (sum, product) = (b.add(p[0], p[1])?, b.mul(p[0], p[1])?);
        let exp = b.unary(Unary::Exp, sum)?;
        Ok(vec![exp, sum, product])
    });
    let backward = Autodiff::default().backward(&program, &[0, 1], &[0]).unwrap();
    assert_eq!((&backward.saved[..], &backward.reached[..]), (&[AtHand::Output(0)][..], &[0, 1][..]));
    let backward = Autodiff::default().backward(&program, &[0], &[2]).unwrap();
    assert_eq!((&backward.saved[..], &backward.reached[..]), (&[AtHand::Param(1)][..], &[0][..]));
    assert!(Autodiff::default().backward(&program, &[2], &[0]).is_err());
}

/// The gradients of the loss as two programs, run one after the other, and how many values go from one to the other.
fn halves(
    autodiff: &Autodiff,
    linearized: &Linearized,
    point: &[Array],
) -> Result<(Vec<Array>, usize), String> {
    verify_linear(&linearized.linear, linearized.residuals()).map_err(text)?;
    let backward = autodiff.transpose(&linearized.linear, linearized.residuals()).map_err(text)?;
    let mut residuals = interpret(&linearized.primal, point).map_err(text)?.split_off(linearized.outputs);
    let kept = residuals.len();
    residuals.extend(directions(&linearized.linear.output_types(), 7));
    Ok((interpret(&backward, &residuals).map_err(text)?, kept))
}

#[test]
fn what_is_kept_changes_no_bit_of_a_gradient() {
    let fewer = Cell::new(0);
    for_all(cases().into_iter(), |autodiff, case| {
        let linearized = autodiff.linearize(&case.loss(), &case.wrt).map_err(text)?;
        let lean = linearized.clone().keep_cheapest(&|_, _| 1 << 30).map_err(text)?;
        let (expected, all) = halves(autodiff, &linearized, &case.point)?;
        let (found, kept) = halves(autodiff, &lean, &case.point)?;
        fewer.set(fewer.get() + usize::from(kept < all));
        let difference = expected.iter().zip(&found).find_map(|(a, b)| a.first_difference(b));
        difference.map_or(Ok(()), |difference| Err(format!("{difference}, keeping {kept} instead of {all}")))
    });
    assert!(fewer.get() > 50, "only {} samples keep fewer values", fewer.get());
}

//! Derivatives of random smooth programs: forward against reverse mode, and both against difference quotients.

#[allow(dead_code)] // Each test takes what it needs.
#[path = "harness/generate.rs"]
mod generate;
#[path = "harness/properties.rs"]
mod properties;

use generate::{Generated, Style, sample_contracts};
use properties::{Tally, for_programs, given, same_outcome};
use proptest::prop_assert;
use proptest::test_runner::TestCaseError;
use pullback::autodiff::{Autodiff, Linearized};
use pullback::ir::Program;
use pullback::ir::passes::simplify_with;
use pullback::ir::sample::{Domain, SampleOperand};
use pullback::runtime::{Array, Interpreter, interpret};
use std::cell::Cell;

/// A smooth program with its derivatives, at a point, along directions.
struct Point<'a> {
    generated: &'a Generated,
    /// Parameters that may be differentiated.
    wrt: Vec<usize>,
    arguments: Vec<Array>,
    /// Along the parameters of `wrt`.
    direction: Vec<Array>,
    /// Of the float outputs.
    weights: Vec<Array>,
    derivatives: Autodiff,
}

impl<'a> Point<'a> {
    fn new(generated: &'a Generated) -> Point<'a> {
        let program = &generated.program;
        let params = program.param_types();
        let wrt: Vec<usize> = (0..params.len()).filter(|&i| params[i].dtype.is_float()).collect();
        let outputs = program.output_types().into_iter().filter(|ty| ty.dtype.is_float());
        let along = wrt.iter().map(|&i| params[i].clone()).chain(outputs);
        let along = along.map(|ty| SampleOperand::new(ty, Domain::Uniform(-1.0, 1.0)));
        let mut arguments = generated.derived(program.clone(), along).arguments();
        let mut direction = arguments.split_off(params.len());
        let weights = direction.split_off(wrt.len());
        let derivatives = Autodiff { contracts: sample_contracts(), ..Autodiff::default() };
        Point { generated, wrt, arguments, direction, weights, derivatives }
    }

    fn run(program: &Program, arguments: &[&[Array]], what: &str) -> Result<Vec<Array>, TestCaseError> {
        given(interpret(program, &arguments.concat()), what)
    }

    /// The tangents of the float outputs along the direction, by forward mode.
    fn tangents(&self) -> Result<Vec<Array>, TestCaseError> {
        let program = &self.generated.program;
        let jvp = given(self.derivatives.jvp(program, &self.wrt), "jvp")?;
        let mut found = Self::run(&jvp, &[&self.arguments, &self.direction], "jvp")?;
        Ok(found.split_off(program.outputs().len()))
    }

    /// The cotangents of the parameters under the weights, by reverse mode.
    fn cotangents(&self) -> Result<Vec<Array>, TestCaseError> {
        let program = &self.generated.program;
        let vjp = given(self.derivatives.vjp(program, &self.wrt), "vjp")?;
        let mut found = Self::run(&vjp, &[&self.arguments, &self.weights], "vjp")?;
        Ok(found.split_off(program.outputs().len()))
    }

    /// The float outputs so far along the direction.
    fn outputs(&self, step: f64) -> Result<Vec<Array>, TestCaseError> {
        let mut arguments = self.arguments.clone();
        for (&i, direction) in self.wrt.iter().zip(&self.direction) {
            let moved = numbers(&arguments[i]).zip(numbers(direction)).map(|(x, d)| x + step * d);
            arguments[i] = given(Array::from_vec(moved.collect(), direction.shape().clone()), "argument")?;
        }
        let found = Self::run(&self.generated.program, &[&arguments], "a step away")?;
        Ok(found.into_iter().filter(|output| output.dtype().is_float()).collect())
    }

    /// For each element of the float outputs the difference quotient, and how far a rounding of it, or of a number of
    /// about 1 on the way, may move it.
    fn quotients(&self, step: f64) -> Result<Vec<(f64, f64)>, TestCaseError> {
        let (ahead, behind) = (self.outputs(step)?, self.outputs(-step)?);
        let pairs = ahead.iter().zip(&behind).flat_map(|(a, b)| numbers(a).zip(numbers(b)));
        let quotient = |(a, b): (f64, f64)| {
            ((a - b) / (2.0 * step), a.abs().max(b.abs()).max(1.0) * f64::EPSILON / step)
        };
        Ok(pairs.map(quotient).collect())
    }
}

fn numbers(array: &Array) -> impl Iterator<Item = f64> + '_ {
    array.as_slice::<f64>().unwrap_or_default().iter().copied()
}

/// The numbers of `left`, but zeros where those of `right` are not finite.
fn where_finite(left: &Array, right: &Array) -> Array {
    let kept = numbers(left).zip(numbers(right)).map(|(l, r)| if r.is_finite() { l } else { 0.0 });
    Array::from_vec(kept.collect(), left.shape().clone()).unwrap_or_else(|_| left.clone())
}

/// The sum of the products of elements, and of their magnitudes.
fn product(left: &[Array], right: &[Array]) -> (f64, f64) {
    let products = left.iter().zip(right).flat_map(|(l, r)| numbers(l).zip(numbers(r)).map(|(l, r)| l * r));
    products.fold((0.0, 0.0), |(sum, size), product| (sum + product, size + product.abs()))
}

#[test]
fn both_modes_agree_and_simplify_exactly() {
    let tally = Tally::default();
    for_programs(Style::Smooth, |generated| {
        let mut point = Point::new(generated);
        let (program, derivatives) = (&generated.program, &point.derivatives);
        let linearized = given(derivatives.linearize(program, &point.wrt), "linearize")?;
        let vjp = given(derivatives.vjp(program, &point.wrt), "vjp")?;
        for derived in [&linearized.primal, &linearized.linear, &vjp] {
            given(derived.verify(), "verify")?;
            prop_assert!(given(Program::parse(&derived.to_string()), "parse")? == *derived);
        }
        let arguments = [&point.arguments[..], &point.weights].concat();
        let simplified = simplify_with(&vjp, &Interpreter);
        same_outcome(&interpret(&vjp, &arguments), &interpret(&simplified, &arguments), "simplified vjp")?;
        // <w, J d> = <J^T w, d>, of those outputs that are numbers.
        let tangents = point.tangents()?;
        point.weights = point.weights.iter().zip(&tangents).map(|(w, t)| where_finite(w, t)).collect();
        let forward = product(&point.weights, &tangents);
        let reverse = product(&point.direction, &point.cotangents()?);
        let allowed = 1e-9 * forward.1.max(reverse.1);
        let distance = (forward.0 - reverse.0).abs();
        let is_known = forward.1.is_finite() && reverse.1.is_finite();
        prop_assert!(
            !tally.counts(is_known) || distance <= allowed,
            "forward {forward:?}, reverse {reverse:?}"
        );
        Ok(())
    });
    tally.assert_few_left_out();
}

/// Where the quotients of two step sizes agree, an output is smooth on the way, and its slope must be what they
/// converge to.
#[test]
fn slopes_are_limits_of_difference_quotients() {
    let tally = Tally::default();
    for_programs(Style::Smooth, |generated| {
        let point = Point::new(generated);
        let slopes: Vec<f64> = point.tangents()?.iter().flat_map(numbers).collect();
        let (far, near) = (point.quotients(1e-4)?, point.quotients(5e-5)?);
        for ((&slope, (far, _)), (near, noise)) in slopes.iter().zip(far).zip(near) {
            let apart = (far - near).abs();
            let limit = (4.0 * near - far) / 3.0;
            if tally.counts(apart <= 1e-4 * near.abs() + 100.0 * noise) {
                let allowed = 10.0 * apart + 1e-7 * limit.abs() + 1000.0 * noise;
                let distance = (slope - limit).abs();
                prop_assert!(distance <= allowed, "slope {slope:e}, quotients {far:e} and {near:e}");
            }
        }
        Ok(())
    });
    tally.assert_few_left_out();
}

#[test]
fn what_is_kept_changes_no_bit_of_a_gradient() {
    let fewer = Cell::new(0);
    for_programs(Style::Smooth, |generated| {
        let point = Point::new(generated);
        let derivatives = &point.derivatives;
        let linearized = given(derivatives.linearize(&generated.program, &point.wrt), "linearize")?;
        let lean = given(linearized.clone().keep_cheapest(&|_, _| 1 << 30), "keep")?;
        fewer.set(fewer.get() + usize::from(lean != linearized));
        let outputs = generated.program.output_types().into_iter().enumerate();
        let weights = outputs.filter(|(_, ty)| ty.dtype.is_float()).zip(&point.weights);
        let weights = weights.filter(|((i, _), _)| linearized.active.contains(i));
        let weights: Vec<Array> = weights.map(|(_, weight)| weight.clone()).collect();
        let cotangents = |split: &Linearized| {
            let backward = given(derivatives.transpose(&split.linear, split.residuals()), "transpose")?;
            let mut residuals = Point::run(&split.primal, &[&point.arguments], "primal")?;
            let residuals = residuals.split_off(split.outputs);
            Ok::<_, TestCaseError>(interpret(&backward, &[&residuals[..], &weights].concat()))
        };
        same_outcome(&cotangents(&linearized)?, &cotangents(&lean)?, "kept least")
    });
    assert!(fewer.get() > 0, "nothing is ever computed again");
}

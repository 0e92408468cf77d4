//! Checking a program against itself: simplified and compiled against as written, to the bit; derivatives forwards
//! against difference quotients and backwards against forwards.

use crate::input::{Failure, Source};
use pullback::ir::ops::control::barrier::Barrier;
use pullback::ir::passes::simplify_with;
use pullback::ir::sample::{Domain, Sample, SampleOperand};
use pullback::ir::{DType, Literal, Program, TensorType};
use pullback::runtime::{Array, Interpreter, interpret};
use pullback_autodiff as autodiff;
use pullback_lower::{Options, lower};

/// How far a derivative may be from the difference quotient, relative to its size.
fn tolerance(dtype: DType) -> f64 {
    if dtype == DType::F32 { 2e-2 } else { 1e-5 }
}

/// Runs every check on random arguments and returns a report, which is the failure if a check fails.
pub(crate) fn check(source: &Source, program: &Program, cases: u64) -> Result<String, Failure> {
    program.verify().map_err(|error| Failure::Check(format!("{}: {error}", source.name)))?;
    let simplified = simplify_with(program, &Interpreter);
    let floats: Vec<usize> =
        (0..program.params().len()).filter(|&i| program.ty(program.params()[i]).dtype.is_float()).collect();
    let executable = lower(program, &Options::default()).and_then(|lowered| lowered.compile());
    let executable = executable.map_err(|error| source.error(&error))?;
    for seed in 0..cases {
        let case = Case { program, arguments: arguments(program, seed) };
        let outputs = case.run(program, &case.arguments)?;
        case.same_bits("simplified", &outputs, &case.run(&simplified, &case.arguments)?, seed)?;
        let compiled = executable.call(&case.arguments).map_err(|error| Failure::Check(error.to_string()))?;
        case.same_bits("machine code", &outputs, &compiled, seed)?;
        if !floats.is_empty() {
            case.derivatives(&floats, &outputs, seed)?;
        }
    }
    let mut report = format!("@{}: {cases} cases\n", program.name());
    report += "  simplified: same bits\n  machine code: same bits\n";
    if !floats.is_empty() {
        report += "  forward derivative: agrees with difference quotients\n";
        report += "  reverse derivative: agrees with the forward one\n";
    }
    Ok(report)
}

/// Random arguments: floats in (-2, 2), small integers.
fn arguments(program: &Program, seed: u64) -> Vec<Array> {
    let operand = |ty: TensorType| {
        let domain = if ty.dtype.is_float() { Domain::Uniform(-2.0, 2.0) } else { Domain::Below(2) };
        SampleOperand::new(ty, domain)
    };
    let operands = program.param_types().into_iter().map(operand).collect();
    Sample::new(Barrier, operands).literals(seed).iter().map(Array::from_literal).collect()
}

/// A program at arguments.
struct Case<'a> {
    program: &'a Program,
    arguments: Vec<Array>,
}

impl Case<'_> {
    fn run(&self, program: &Program, arguments: &[Array]) -> Result<Vec<Array>, Failure> {
        interpret(program, arguments).map_err(|error| Failure::Check(format!("@{}: {error}", program.name())))
    }

    fn same_bits(&self, what: &str, expected: &[Array], found: &[Array], seed: u64) -> Result<(), Failure> {
        for (i, (expected, found)) in expected.iter().zip(found).enumerate() {
            if let Some(difference) = expected.first_difference(found) {
                return Err(Failure::Check(format!("case {seed}: {what}, output {i}: {difference}")));
            }
        }
        Ok(())
    }

    /// One random direction: forwards against a difference quotient, then backwards against forwards.
    fn derivatives(&self, wrt: &[usize], outputs: &[Array], seed: u64) -> Result<(), Failure> {
        let derive = |result: Result<Program, autodiff::AdError>| {
            result.map_err(|error| Failure::Input(error.to_string()))
        };
        let (jvp, vjp) =
            (derive(autodiff::jvp(self.program, wrt))?, derive(autodiff::vjp(self.program, wrt))?);
        let tangents = random_like(wrt.iter().map(|&i| self.arguments[i].ty()), seed + 1_000_003);
        let forward = self.run(&jvp, &[&self.arguments[..], &tangents].concat())?.split_off(outputs.len());
        let smooth: Vec<&Array> = outputs.iter().filter(|output| output.dtype().is_float()).collect();
        let cotangents = random_like(smooth.iter().map(|output| output.ty()), seed + 2_000_003);

        let slope = dot(&cotangents, &forward);
        let quotient = self.quotient(wrt, &tangents, &cotangents)?;
        self.close("the forward derivative", slope, "the difference quotient", quotient, seed)?;

        let backward = self.run(&vjp, &[&self.arguments[..], &cotangents].concat())?.split_off(outputs.len());
        self.close("the reverse derivative", dot(&tangents, &backward), "the forward one", slope, seed)
    }

    /// The central difference quotient of the outputs' product with the cotangents.
    fn quotient(&self, wrt: &[usize], tangents: &[Array], cotangents: &[Array]) -> Result<f64, Failure> {
        let is_f32 = wrt.iter().any(|&i| self.arguments[i].dtype() == DType::F32);
        let step = if is_f32 { 1e-2 } else { 1e-6 };
        let at = |step: f64| -> Result<f64, Failure> {
            let mut arguments = self.arguments.clone();
            for (&i, tangent) in wrt.iter().zip(tangents) {
                arguments[i] = moved(&arguments[i], tangent, step);
            }
            let outputs = self.run(self.program, &arguments)?;
            let smooth: Vec<Array> = outputs.into_iter().filter(|output| output.dtype().is_float()).collect();
            Ok(dot(cotangents, &smooth))
        };
        Ok((at(step)? - at(-step)?) / (2.0 * step))
    }

    fn close(&self, what: &str, found: f64, than: &str, expected: f64, seed: u64) -> Result<(), Failure> {
        let dtypes = self.program.param_types().into_iter().chain(self.program.output_types());
        let tolerance = dtypes.map(|ty| tolerance(ty.dtype)).fold(0.0, f64::max);
        let error = (found - expected).abs() / expected.abs().max(1.0);
        // Both may be infinite or NaN alike.
        if error <= tolerance || found == expected || (found.is_nan() && expected.is_nan()) {
            return Ok(());
        }
        Err(Failure::Check(format!("case {seed}: {what} is {found}, and {than} is {expected}")))
    }
}

fn random_like<'a>(types: impl Iterator<Item = &'a TensorType>, seed: u64) -> Vec<Array> {
    let operands = types.map(|ty| SampleOperand::new(ty.clone(), Domain::Uniform(-1.0, 1.0))).collect();
    Sample::new(Barrier, operands).literals(seed).iter().map(Array::from_literal).collect()
}

fn floats(array: &Array) -> Vec<f64> {
    let literal = array.to_literal();
    let value = |bits| match array.dtype() {
        DType::F32 => f32::from_bits(bits as u32) as f64,
        _ => f64::from_bits(bits),
    };
    literal.bits().map(value).collect()
}

fn dot(left: &[Array], right: &[Array]) -> f64 {
    let product =
        |(x, y): (&Array, &Array)| -> f64 { floats(x).into_iter().zip(floats(y)).map(|(x, y)| x * y).sum() };
    left.iter().zip(right).map(product).sum()
}

/// `point + step * direction`
fn moved(point: &Array, direction: &Array, step: f64) -> Array {
    let bits = floats(point).into_iter().zip(floats(direction)).map(|(x, d)| match point.dtype() {
        DType::F32 => ((x + step * d) as f32).to_bits() as u64,
        _ => (x + step * d).to_bits(),
    });
    let literal = Literal::dense_bits(point.ty().clone(), bits.collect());
    literal.map_or_else(|| point.clone(), |literal| Array::from_literal(&literal))
}

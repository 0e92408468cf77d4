//! Gradients compared with central differences.

use crate::error::Error;
use crate::tensor::Tensor;
use crate::transform::arguments::argument_name;
use crate::transform::{All, Arguments, Function, value_and_grad};
use crate::tree;
use pullback_ir::{DType, Loc};
use pullback_runtime::Array;

/// How [`gradcheck`] compares. What is `None` takes a default for the dtype of each argument.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GradcheckOptions {
    /// Half the distance of the two points of a difference: 1e-3 in f32, 1e-5 in f64.
    pub epsilon: Option<f64>,
    /// Allowed absolute error: 1e-3 in f32, 1e-7 in f64.
    pub absolute: Option<f64>,
    /// Allowed error relative to the gradient: 1e-2 in f32, 1e-6 in f64.
    pub relative: Option<f64>,
}

/// What [`gradcheck`] found.
#[derive(Clone, Debug, PartialEq)]
pub struct GradcheckReport {
    /// Number of elements compared.
    pub count: usize,
    /// Largest absolute error.
    pub worst_absolute: f64,
    /// Largest error relative to the gradient, where that is not zero.
    pub worst_relative: f64,
    /// The first element beyond the tolerance.
    pub failure: Option<GradcheckFailure>,
}

/// An element whose gradient is not what differences say.
#[derive(Clone, Debug, PartialEq)]
pub struct GradcheckFailure {
    /// Which tensor.
    pub argument: String,
    /// Which of its elements, row-major.
    pub element: usize,
    /// The difference quotient.
    pub numeric: f64,
    /// The gradient.
    pub analytic: f64,
}

impl GradcheckReport {
    /// Whether all elements are within the tolerance.
    pub fn passed(&self) -> bool {
        self.failure.is_none()
    }

    /// The report, or the failure as an error.
    #[track_caller]
    pub fn ok(self) -> Result<GradcheckReport, Error> {
        match &self.failure {
            None => Ok(self),
            Some(f) => {
                let text = format!(
                    "the gradient of element {} of {} is {:e} and differences say {:e}; worst errors {:e} absolute, \
                     {:e} relative, among {} elements; correct the rule, or test away from kinks",
                    f.element,
                    f.argument,
                    f.analytic,
                    f.numeric,
                    self.worst_absolute,
                    self.worst_relative,
                    self.count
                );
                Err(Error::invalid("gradcheck", text, Loc::caller()))
            }
        }
    }
}

/// Compares the gradients of a scalar function with central differences at every element of every float argument:
/// an element passes if `|numeric - analytic| <= absolute + relative * |analytic|`. Differences are formed in f64.
/// The arguments are not changed.
#[track_caller]
pub fn gradcheck<R: Arguments, F>(
    function: F,
    arguments: R,
    options: GradcheckOptions,
) -> Result<GradcheckReport, Error>
where
    F: Function<R::Owned, Output = Tensor>,
{
    let at = Loc::caller();
    check_options(&options, at)?;
    let arguments = arguments.into_owned();
    let leaves = tree::leaves(&arguments);
    if leaves.is_empty() {
        return Err(Error::invalid(
            "gradcheck",
            "there is no tensor among the arguments; give at least one",
            at,
        ));
    }
    let by_reference = Borrowed(&function);
    let (_, gradients) = value_and_grad(by_reference).argnums(All).invoke(&arguments)?;
    let mut report = GradcheckReport { count: 0, worst_absolute: 0.0, worst_relative: 0.0, failure: None };
    for (position, (leaf, gradient)) in leaves.iter().zip(tree::leaves(&gradients)).enumerate() {
        let tolerance = Tolerance::of(leaf.dtype()?, &options);
        let point = as_f64(leaf)?;
        for (element, analytic) in as_f64(gradient)?.into_iter().enumerate() {
            let value = |x: f64| {
                let mut moved = point.clone();
                moved[element] = x;
                let tensor = Tensor::from_slice(&moved, leaf.shape()?.clone()).to_dtype(leaf.dtype()?);
                let x = as_f64(&tensor)?[element];
                let mut tensors: Vec<Tensor> = leaves.iter().map(|&leaf| leaf.clone()).collect();
                tensors[position] = tensor;
                let y = function.invoke(&tree::unflatten(&arguments, tensors)?)?.item::<f64>()?;
                Ok::<_, Error>((x, y))
            };
            let (low, below) = value(point[element] - tolerance.epsilon)?;
            let (high, above) = value(point[element] + tolerance.epsilon)?;
            let numeric = (above - below) / (high - low);
            if !report.compare(numeric, analytic, &tolerance) && report.failure.is_none() {
                let argument = argument_name(&arguments, position);
                report.failure = Some(GradcheckFailure { argument, element, numeric, analytic });
            }
        }
    }
    Ok(report)
}

/// A function by reference.
struct Borrowed<'f, F>(&'f F);

impl<A: crate::transform::Args, F: Function<A>> Function<A> for Borrowed<'_, F> {
    type Output = F::Output;
    fn invoke(&self, arguments: &A) -> Result<F::Output, Error> {
        self.0.invoke(arguments)
    }
}

struct Tolerance {
    epsilon: f64,
    absolute: f64,
    relative: f64,
}

impl Tolerance {
    fn of(dtype: DType, options: &GradcheckOptions) -> Tolerance {
        let (epsilon, absolute, relative) =
            if dtype == DType::F64 { (1e-5, 1e-7, 1e-6) } else { (1e-3, 1e-3, 1e-2) };
        Tolerance {
            epsilon: options.epsilon.unwrap_or(epsilon),
            absolute: options.absolute.unwrap_or(absolute),
            relative: options.relative.unwrap_or(relative),
        }
    }
}

impl GradcheckReport {
    /// Takes one element into account; whether it is within the tolerance.
    fn compare(&mut self, numeric: f64, analytic: f64, tolerance: &Tolerance) -> bool {
        let error = (numeric - analytic).abs();
        self.count += 1;
        self.worst_absolute = if error.is_nan() { f64::NAN } else { self.worst_absolute.max(error) };
        if analytic != 0.0 {
            self.worst_relative = self.worst_relative.max(error / analytic.abs());
        }
        error <= tolerance.absolute + tolerance.relative * analytic.abs()
    }
}

fn check_options(options: &GradcheckOptions, at: Loc) -> Result<(), Error> {
    if options.epsilon.is_some_and(|e| !(e > 0.0 && e.is_finite())) {
        return Err(Error::invalid("gradcheck", "epsilon must be a positive number", at));
    }
    if [options.absolute, options.relative].into_iter().flatten().any(|t| !(t >= 0.0 && t.is_finite())) {
        return Err(Error::invalid("gradcheck", "tolerances must be numbers of at least 0", at));
    }
    Ok(())
}

fn as_f64(tensor: &Tensor) -> Result<Vec<f64>, Error> {
    let array: Array = tensor.to_dtype(DType::F64).array()?;
    Ok(array.to_vec::<f64>()?)
}

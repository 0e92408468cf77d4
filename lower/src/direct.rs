//! Small functions of numbers, called with next to nothing around them.

use crate::executable::Executable;
use pullback_ir::TensorType;
use pullback_runtime::{Array, Element, RuntimeError};

/// A compiled program as a function of `I` numbers of type `T` that gives `O` of them.
///
/// The numbers are the elements of all parameters, one after the other in row-major order, and those of all outputs.
/// Types were checked when it was made, so a call checks nothing and allocates nothing. It keeps the code alive; clones
/// share it, and calls may run at the same time.
///
/// ```
/// use pullback_ir::{Builder, DType, TensorType};
/// use pullback_lower::{Direct, Options, lower};
///
/// let mut b = Builder::new("f");
/// let x = b.param(TensorType::new(DType::F64, [2]));
/// let y = b.param(TensorType::scalar(DType::F64));
/// let y = b.broadcast(y, [2], &[])?;
/// let product = b.mul(x, y)?;
/// let f: Direct<f64, 3, 2> = lower(&b.finish(&[product]), &Options::default())?.compile()?.direct(&[])?;
/// assert_eq!(f.call([1.0, 2.0, 10.0])?, [10.0, 20.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Direct<T, const I: usize, const O: usize> {
    executable: Executable,
    /// Buffer of each parameter, and where in the numbers it begins.
    inputs: Box<[(u32, usize)]>,
    /// The same of each output.
    outputs: Box<[(u32, usize)]>,
    /// Buffers of the parameters that are not numbers of the call, with their values.
    bound: Box<[(u32, Array)]>,
    numbers: std::marker::PhantomData<fn([T; I]) -> [T; O]>,
}

impl Executable {
    /// The program as a function of numbers. Its last parameters are set to `bound` once and for all.
    ///
    /// # Errors
    /// If a parameter or output has another element type than `T`, if their elements are not `I` and `O`, or if `bound`
    /// does not fit the last parameters.
    pub fn direct<T: Element, const I: usize, const O: usize>(
        &self,
        bound: &[Array],
    ) -> Result<Direct<T, I, O>, RuntimeError> {
        let (inner, params) = (self.inner(), self.param_types());
        let Some(free) = params.len().checked_sub(bound.len()) else {
            let (expected, found) = (params.len(), bound.len());
            return Err(RuntimeError::ArgumentCount { program: inner.name().into(), expected, found });
        };
        for (index, array) in (free..).zip(bound) {
            // A stack is refused, as its elements alone.
            inner.check_argument(index, &TensorType::new(array.dtype(), array.ty().shape.clone()))?;
        }
        let number = |ty: &TensorType| TensorType::new(T::DTYPE, ty.shape.clone());
        for (index, ty) in params[..free].iter().enumerate() {
            inner.check_argument(index, &number(ty))?;
        }
        for (index, ty) in self.output_types().iter().enumerate() {
            inner.check_output(index, &number(ty))?;
        }
        let (inputs, takes) = starts(&params[..free]);
        let (outputs, gives) = starts(self.output_types());
        if (takes, gives) != (I, O) {
            let (expected, found) = ((takes, gives), (I, O));
            return Err(RuntimeError::Numbers { program: inner.name().into(), expected, found });
        }
        let (of_params, of_outputs) = inner.interface();
        let (free_params, bound_params): (Vec<_>, Vec<_>) =
            of_params.iter().partition(|(_, number)| (*number as usize) < free);
        Ok(Direct {
            executable: self.clone(),
            inputs: free_params
                .into_iter()
                .map(|(buffer, number)| (buffer, inputs[number as usize]))
                .collect(),
            outputs: of_outputs.iter().copied().zip(outputs).collect(),
            bound: bound_params
                .into_iter()
                .map(|(buffer, number)| (buffer, bound[number as usize - free].clone()))
                .collect(),
            numbers: std::marker::PhantomData,
        })
    }
}

/// Where the elements of each tensor begin if they follow each other, and how many there are.
fn starts(types: &[TensorType]) -> (Vec<usize>, usize) {
    let mut end = 0;
    let start = |ty: &TensorType| {
        let start = end;
        end += ty.shape.elements();
        start
    };
    (types.iter().map(start).collect(), end)
}

impl<T: Element, const I: usize, const O: usize> Direct<T, I, O> {
    /// Calls it.
    ///
    /// # Errors
    /// What the program itself finds when it runs, such as an index out of range.
    pub fn call(&self, arguments: [T; I]) -> Result<[T; O], RuntimeError> {
        let mut results = [T::default(); O];
        let (from, to) = (arguments.as_ptr(), results.as_mut_ptr());
        let fill = |table: &mut [*mut u8]| {
            for &(buffer, start) in &self.inputs {
                table[buffer as usize] = from.wrapping_add(start).cast_mut().cast();
            }
            for &(buffer, start) in &self.outputs {
                table[buffer as usize] = to.wrapping_add(start).cast();
            }
            for (buffer, array) in &self.bound {
                table[*buffer as usize] = array.view().bytes().as_ptr().cast_mut();
            }
        };
        // SAFETY: `direct` checked that all parameters and outputs are numbers of this type, as many as there are, or bound
        // arrays of the parameter's type, which `self` holds.
        unsafe { self.executable.inner().run_on(fill) }.map(|()| results)
    }
}

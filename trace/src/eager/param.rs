//! Parameters: tensors whose gradients are kept, and whose values may be replaced.

use crate::eager::error::EagerError;
use crate::eager::hooks::Hook;
use crate::error::Error;
use crate::tensor::{State, Tensor};
use pullback_ir::{Loc, TensorType};
use pullback_runtime::Array;
use std::sync::{Arc, Mutex, MutexGuard};

/// A parameter. All clones of its tensor are the same parameter.
pub(crate) struct Param {
    pub(crate) ty: TensorType,
    pub(crate) made: Loc,
    state: Mutex<ParamState>,
}

/// What changes of a parameter.
pub(crate) struct ParamState {
    pub(crate) value: Array,
    /// How often the value has been replaced.
    pub(crate) revision: u64,
    pub(crate) gradient: Option<Array>,
    pub(crate) hooks: Vec<Hook>,
}

impl Param {
    pub(crate) fn new(value: Array, made: Loc) -> Param {
        let ty = value.ty().clone();
        let state = ParamState { value, revision: 0, gradient: None, hooks: Vec::new() };
        Param { ty, made, state: Mutex::new(state) }
    }

    /// No code of a user's runs while the lock is held, and every change is a single assignment.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ParamState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn value(&self) -> Array {
        self.lock().value.clone()
    }
}

/// What [`Tensor::zero_grad`] leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reset {
    /// No gradient: the next backward pass begins with its own.
    #[default]
    None,
    /// A gradient of zeros.
    Zeros,
}

impl Tensor {
    /// A parameter with these values: a tensor whose gradient [`Tensor::backward`] accumulates. Clones are the same
    /// parameter. Integers and bools have no gradients and cannot be parameters; nor can values of a program being
    /// recorded.
    ///
    /// ```
    /// use pullback_trace::Tensor;
    ///
    /// let x = Tensor::param([1.0, 2.0, 3.0]);
    /// let c = Tensor::from([10.0, 20.0, 30.0]);
    /// (&x * &c).sum().backward()?;
    /// assert_eq!(x.grad()?.unwrap().to_vec::<f64>()?, [10.0, 20.0, 30.0]);
    /// assert!(c.grad()?.is_none());
    /// # Ok::<(), pullback_trace::Error>(())
    /// ```
    #[track_caller]
    pub fn param(values: impl Into<Tensor>) -> Tensor {
        let (values, at) = (values.into(), Loc::caller());
        let array = match values.array() {
            Ok(array) => array,
            Err(error) => return Tensor::failed(error),
        };
        if !array.dtype().is_float() {
            let ty = array.ty().clone();
            return Tensor::failed(EagerError::NotDifferentiable { function: "param", ty, at }.into());
        }
        Tensor(State::Param(Arc::new(Param::new(array, at))))
    }

    /// Whether this is a parameter or was computed from one by recorded ops.
    pub fn requires_grad(&self) -> bool {
        matches!(self.0, State::Param(_) | State::Live(_))
    }

    /// Whether this is a parameter.
    pub fn is_param(&self) -> bool {
        matches!(self.0, State::Param(_))
    }

    /// The same numbers without history: gradients do not flow through it. Of a parameter it is the value of now; later
    /// updates do not change it.
    #[track_caller]
    pub fn detach(&self) -> Tensor {
        match &self.0 {
            State::Param(param) => Tensor::from_array(param.value()),
            State::Live(live) => Tensor::from_array(live.array.clone()),
            State::Traced(_) => self.stop_gradient(),
            State::Concrete(_) | State::Leaf(_) | State::Failed(_) => self.clone(),
        }
    }

    /// Gives a parameter other values of its type, which is its next revision. Backward passes over what was computed
    /// from earlier revisions are refused from then on.
    #[track_caller]
    pub fn set_data(&self, values: &Tensor) -> Result<(), Error> {
        self.replace("set_data", values, Loc::caller())
    }

    /// Gives a parameter the values that a function makes of those it has. Nothing is recorded meanwhile. If the function
    /// fails nothing changes.
    ///
    /// ```
    /// use pullback_trace::Tensor;
    ///
    /// let p = Tensor::param([1.0, 2.0]);
    /// p.square().sum().backward()?;
    /// let gradient = p.grad()?.unwrap();
    /// p.update(|p| p - &gradient * 0.25)?;
    /// assert_eq!(p.to_vec::<f64>()?, [0.5, 1.0]);
    /// # Ok::<(), pullback_trace::Error>(())
    /// ```
    #[track_caller]
    pub fn update(&self, function: impl FnOnce(&Tensor) -> Tensor) -> Result<(), Error> {
        let at = Loc::caller();
        self.parameter("update", at)?;
        let values = super::no_grad(|| function(&self.detach()));
        self.replace("update", &values, at)
    }

    fn replace(&self, function: &'static str, values: &Tensor, at: Loc) -> Result<(), Error> {
        let param = self.parameter(function, at)?;
        let values = values.array()?;
        if *values.ty() != param.ty {
            let (expected, found) = (param.ty.clone(), values.ty().clone());
            return Err(EagerError::ParameterType { function, expected, found, at }.into());
        }
        let mut state = param.lock();
        state.value = values;
        state.revision += 1;
        Ok(())
    }

    /// How often the values of a parameter have been replaced; `None` if it is none.
    pub fn revision(&self) -> Option<u64> {
        match &self.0 {
            State::Param(param) => Some(param.lock().revision),
            _ => None,
        }
    }

    fn parameter(&self, function: &'static str, at: Loc) -> Result<&Param, Error> {
        match &self.0 {
            State::Param(param) => Ok(param),
            _ => Err(EagerError::NotAParameter { function, ty: self.ty()?.clone(), at }.into()),
        }
    }

    /// The gradient accumulated so far: of a parameter, or of a result that [`Tensor::retain_grad`] was called on. `None`
    /// if there is none yet, and for tensors that keep none. Integers and bools have no gradient, and asking for it is an
    /// error.
    #[track_caller]
    pub fn grad(&self) -> Result<Option<Tensor>, Error> {
        Ok(self.gradient("grad", Loc::caller())?.map(Tensor::from_array))
    }

    /// As [`Tensor::grad`], the array itself, whose elements can be read where they lie. It is that of now: later passes
    /// do not change it.
    #[track_caller]
    pub fn grad_view(&self) -> Result<Option<Array>, Error> {
        self.gradient("grad_view", Loc::caller())
    }

    fn gradient(&self, function: &'static str, at: Loc) -> Result<Option<Array>, Error> {
        let ty = self.ty()?;
        if !ty.dtype.is_float() {
            return Err(EagerError::NotDifferentiable { function, ty: ty.clone(), at }.into());
        }
        Ok(match &self.0 {
            State::Param(param) => param.lock().gradient.clone(),
            State::Live(live) => live.made.gradient(live.result),
            State::Concrete(_) | State::Leaf(_) | State::Traced(_) | State::Failed(_) => None,
        })
    }

    /// Gives up the gradient accumulated so far, of a parameter or of a result that keeps one.
    pub fn zero_grad(&self, reset: Reset) -> Result<(), Error> {
        let zeros = match reset {
            Reset::None => None,
            Reset::Zeros => Some(Array::zeros(self.ty()?.clone())?),
        };
        match &self.0 {
            State::Param(param) => param.lock().gradient = zeros,
            State::Live(live) => live.made.set_gradient(live.result, zeros),
            State::Concrete(_) | State::Leaf(_) | State::Traced(_) | State::Failed(_) => {
                self.ty()?;
            }
        }
        Ok(())
    }
}

//! Tangent times slope.

use crate::array::{ArrayError, Element};
use crate::lanes::{Simple, simple};
use crate::view::{View, ViewMut};
use pullback_ir::DType;
use pullback_ir::maths::{Float, Lanes, Plain};
use pullback_ir::ops::elementwise::scale_by::ScaleBy;

struct Function;

impl<T: Float> Simple<2, T, T> for Function
where
    Plain: Lanes<T, V = T>,
{
    #[inline(always)]
    fn call(&self, [t, slope]: [T; 2]) -> T {
        ScaleBy::float::<T, Plain>(&mut Plain, t, slope)
    }
}

pub(in crate::eval) fn evaluate(inputs: &[View<'_>], out: &mut ViewMut<'_>) -> Result<(), ArrayError> {
    if out.dtype() == DType::F32 { floats::<f32>(inputs, out) } else { floats::<f64>(inputs, out) }
}

fn floats<T: Element + Float>(inputs: &[View<'_>], out: &mut ViewMut<'_>) -> Result<(), ArrayError>
where
    Plain: Lanes<T, V = T>,
{
    simple(&Function, [inputs[0].as_slice::<T>()?, inputs[1].as_slice::<T>()?], out.as_mut_slice::<T>()?);
    Ok(())
}

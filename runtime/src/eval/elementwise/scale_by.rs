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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::eval::testing::{check, one};

    #[test]
    fn zero_tangents_stay_zero() {
        let t = Array::from([0.0f64, -0.0, 0.0, 2.0, f64::NAN, -0.0, 0.0]);
        let slope = Array::from([f64::INFINITY, f64::NAN, f64::NEG_INFINITY, f64::INFINITY, 0.0, -3.0, -3.0]);
        check(one(ScaleBy, &[t, slope]), [0.0, -0.0, 0.0, f64::INFINITY, f64::NAN, 0.0, -0.0]);
    }
}

//! Tangent times slope.

use crate::array::{ArrayError, Element};
use crate::lanes::{Machine, Map, map};
use crate::view::{View, ViewMut};
use pullback_ir::DType;
use pullback_ir::maths::{Float, Lanes};
use pullback_ir::ops::elementwise::scale_by::ScaleBy;

struct Function;

impl<T: Float> Map<2, T, T> for Function
where
    Machine: Lanes<T, V = T>,
{
    const PICOSECONDS: u64 = 400;
    #[inline(always)]
    fn call(&self, machine: &mut Machine, [t, slope]: [T; 2]) -> T {
        ScaleBy::float::<T, Machine>(machine, t, slope)
    }
}

pub(in crate::eval) fn evaluate(inputs: &[View<'_>], out: &mut ViewMut<'_>) -> Result<(), ArrayError> {
    if out.dtype() == DType::F32 { floats::<f32>(inputs, out) } else { floats::<f64>(inputs, out) }
}

fn floats<T: Element + Float>(inputs: &[View<'_>], out: &mut ViewMut<'_>) -> Result<(), ArrayError>
where
    Machine: Lanes<T, V = T>,
{
    map(&Function, [inputs[0].as_slice::<T>()?, inputs[1].as_slice::<T>()?], out.as_mut_slice::<T>()?);
    Ok(())
}

//! Movement: every element of a result is an element of an operand, or a filling.

use crate::error::Problem;

pub mod broadcast;
pub mod concat;
pub mod pad;
pub mod reshape;
pub mod reverse;
pub mod slice;
pub mod transpose;

/// Checks that dimension numbers are below the rank and none is named twice.
pub(crate) fn distinct_axes(dims: &[usize], rank: usize) -> Result<(), Problem> {
    for (i, &axis) in dims.iter().enumerate() {
        if axis >= rank {
            return Err(Problem::AxisOutOfRange { axis: axis as i64, rank });
        }
        if dims[..i].contains(&axis) {
            return Err(Problem::AxisRepeated { axis });
        }
    }
    Ok(())
}

/// Checks the number of entries of an attribute.
pub(crate) fn length(attribute: &'static str, found: usize, expected: usize) -> Result<(), Problem> {
    if found == expected { Ok(()) } else { Err(Problem::AttributeLength { attribute, expected, found }) }
}

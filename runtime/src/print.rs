//! Arrays as text: nested brackets, abbreviated when large.

use crate::array::{Array, Element, with_element};
use std::fmt::{self, Write};

/// Arrays with more elements than this are abbreviated.
const WHOLE: usize = 1000;
/// How many entries an abbreviated dimension shows at either end.
const ENDS: usize = 3;

impl fmt::Display for Array {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_element!(self.dtype(), T => {
            let elements = self.as_slice::<T>().map_err(|_| fmt::Error)?;
            let printer = Printer { extents: self.shape(), elements, whole: elements.len() <= WHOLE };
            printer.print(formatter, 0, 0)
        })
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.ty(), self)
    }
}

struct Printer<'a, T> {
    extents: &'a [usize],
    elements: &'a [T],
    whole: bool,
}

impl<T: Element> Printer<'_, T> {
    /// Prints the part at `position` (in parts of its size) below the first `depth` dimensions.
    fn print(&self, out: &mut fmt::Formatter<'_>, depth: usize, position: usize) -> fmt::Result {
        if depth == self.extents.len() {
            return write!(out, "{:?}", self.elements[position]);
        }
        let extent = self.extents[depth];
        let abbreviated = !self.whole && extent > 2 * ENDS;
        out.write_char('[')?;
        for i in 0..extent {
            if abbreviated && (ENDS..extent - ENDS).contains(&i) {
                if i == ENDS {
                    out.write_str(", ...")?;
                }
                continue;
            }
            if i > 0 {
                self.separator(out, depth)?;
            }
            self.print(out, depth + 1, position * extent + i)?;
        }
        out.write_char(']')
    }

    /// Rows go on lines of their own, indented by the brackets they are in.
    fn separator(&self, out: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        if depth + 1 == self.extents.len() {
            return out.write_str(", ");
        }
        write!(out, ",\n{:width$}", "", width = depth + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_arrays_are_printed_whole() {
        assert_eq!(Array::from(1.5f32).to_string(), "1.5");
        assert_eq!(Array::from([1.0f64, -0.0, f64::NAN]).to_string(), "[1.0, -0.0, NaN]");
        assert_eq!(
            Array::from([[true, false], [false, true]]).to_string(),
            "[[true, false],\n [false, true]]"
        );
        assert_eq!(Array::from([[0i32; 0]; 2]).to_string(), "[[],\n []]");
        assert_eq!(format!("{:?}", Array::from([1u32])), "u32[1] [1]");
    }

    #[test]
    fn large_arrays_are_abbreviated() {
        let a = Array::vector(&(0..2000i64).collect::<Vec<_>>());
        assert_eq!(a.to_string(), "[0, 1, 2, ..., 1997, 1998, 1999]");
    }
}

//! Reading and writing at computed indices.

use super::{Attr, AttrError, AttrReader, Effect};
use crate::error::Problem;
use crate::ops::shape::distinct_axes;
use crate::shape::{Dims, Shape, TensorType};

pub mod dynamic_slice;
pub mod dynamic_update_slice;
pub mod gather;
pub mod scatter;

/// What an index out of range means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IndexMode {
    /// The call fails with `IndexOutOfRange`, also where nobody uses the result.
    Checked,
    /// The nearest valid index is meant.
    Clip,
    /// Reads give 0, writes vanish.
    Drop,
}

const MODES: [(&str, IndexMode); 3] =
    [("checked", IndexMode::Checked), ("clip", IndexMode::Clip), ("drop", IndexMode::Drop)];

impl IndexMode {
    /// Its name in the text form.
    pub fn name(self) -> &'static str {
        MODES[self as usize].0
    }

    /// What an op of this mode does besides giving results.
    fn effect(self) -> Effect {
        match self {
            IndexMode::Checked => Effect::Check,
            IndexMode::Clip | IndexMode::Drop => Effect::None,
        }
    }

    /// The attribute, unless it is the default.
    fn attr(self) -> Option<(&'static str, Attr)> {
        (self != IndexMode::Checked).then(|| ("mode", Attr::Word(self.name().to_string())))
    }

    fn parse(attrs: &mut AttrReader) -> Result<IndexMode, AttrError> {
        attrs.word_or("mode", &MODES, IndexMode::Checked)
    }
}

/// The shape of what `indices` pick from `operand`: the leading dimensions of the indices, then the operand's
/// dimensions that are neither batch nor indexed. The last dimension of the indices holds one index per entry of
/// `index_dims`.
fn picked_shape(
    operand: &TensorType,
    indices: &TensorType,
    index_dims: &Dims,
    batch_dims: usize,
    mode: IndexMode,
) -> Result<Shape, Problem> {
    if !indices.dtype.is_int() {
        return Err(Problem::DType { operand: 1, found: indices.dtype, expected: "an integer type" });
    }
    distinct_axes(index_dims, operand.shape.rank())?;
    let leading = indices.shape.rank().checked_sub(1);
    let Some(leading) = leading.filter(|_| indices.shape.last() == Some(&index_dims.len())) else {
        return Err(Problem::Constraint(format!(
            "indices {indices} must end in a dimension of extent {}, one index per indexed dimension; reshape them",
            index_dims.len()
        )));
    };
    if batch_dims > leading || batch_dims > operand.shape.rank() {
        let text = format!("there are fewer than {batch_dims} batch dimensions; lower batch_dims");
        return Err(Problem::Constraint(text));
    }
    if let Some(&axis) = index_dims.iter().find(|&&d| d < batch_dims) {
        let text = format!("axis {axis} is a batch dimension and cannot be indexed; index a later one");
        return Err(Problem::Constraint(text));
    }
    let nothing = index_dims.iter().any(|&d| operand.shape[d] == 0);
    if mode == IndexMode::Clip && nothing && indices.shape.elements() > 0 {
        let text = "an axis of extent 0 has no index to clip to; use mode drop or give it an element";
        return Err(Problem::Constraint(text.into()));
    }
    for d in 0..batch_dims {
        if operand.shape[d] != indices.shape[d] {
            let what = "operand and indices along a batch dimension";
            return Err(Problem::ExtentsDiffer { what, left: operand.shape[d], right: indices.shape[d] });
        }
    }
    let window = (batch_dims..operand.shape.rank()).filter(|d| !index_dims.contains(d));
    let window = window.map(|d| operand.shape[d]);
    Ok(indices.shape[..leading].iter().copied().chain(window).collect())
}

/// Where among the window's dimensions the dimension `axis` of the operand is, which is neither batch nor indexed.
fn window_place(index_dims: &[usize], batch_dims: usize, axis: usize) -> usize {
    (batch_dims..axis).filter(|d| !index_dims.contains(d)).count()
}

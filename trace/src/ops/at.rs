//! Reading and writing a box or an element, at places that may be computed.

use crate::apply::apply_all;
use crate::error::Error;
use crate::ops::IndexMode;
use crate::ops::number::Operand;
use crate::ops::slice::{Slices, Span};
use crate::tensor::{Tensor, attempt};
use pullback_ir::ops::index::dynamic_slice::DynamicSlice;
use pullback_ir::ops::index::dynamic_update_slice::DynamicUpdateSlice;
use pullback_ir::{Dims, Loc, Problem, Shape, TensorType};

/// A box in a tensor.
struct Region {
    /// Where it starts along each axis.
    starts: Vec<Start>,
    sizes: Dims,
    /// Axes of extent 1 that go.
    gone: Dims,
}

enum Start {
    Known(usize),
    Computed(Tensor),
}

impl Region {
    /// The box that spans mean in a tensor of this type.
    fn new(spans: Vec<Span>, ty: &TensorType) -> Result<Region, Problem> {
        if spans.len() > ty.shape.rank() {
            let (spans, axes) = (spans.len(), ty.shape.rank());
            let text = format!("{spans} spans for {axes} axes; give at most one per axis");
            return Err(Problem::Constraint(text));
        }
        let mut region = Region { starts: Vec::new(), sizes: Dims::from_slice(&ty.shape), gone: Dims::new() };
        for (axis, span) in spans.into_iter().enumerate() {
            let extent = ty.shape[axis];
            let bound = |b: i64| if b < 0 { b.saturating_add(extent as i64) } else { b };
            if !matches!(span, Span::Range(..)) {
                region.gone.push(axis);
            }
            let (low, high) = match span {
                Span::At(i) => (bound(i), bound(i).saturating_add(1)),
                Span::Range(low, high) => (bound(low), high.map_or(extent as i64, bound)),
                Span::Computed(start) => {
                    region.starts.push(Start::Computed(start));
                    region.sizes[axis] = 1;
                    continue;
                }
            };
            if low < 0 || high < low || high > extent as i64 {
                return Err(Problem::Constraint(format!(
                    "{low}..{high} is not within axis {axis} of extent {extent}; bounds must be from 0 to the extent"
                )));
            }
            region.starts.push(Start::Known(low as usize));
            region.sizes[axis] = (high - low) as usize;
        }
        region.starts.resize_with(ty.shape.rank(), || Start::Known(0));
        Ok(region)
    }

    /// The shape of what is read.
    fn shape(&self) -> Shape {
        self.sizes.iter().copied().collect::<Shape>().without(&self.gone)
    }

    /// Where it starts, if nothing is computed.
    fn known(&self) -> Option<Dims> {
        let known = |start: &Start| match start {
            Start::Known(start) => Some(*start),
            Start::Computed(_) => None,
        };
        self.starts.iter().map(known).collect()
    }

    /// Where it starts, as operands.
    #[track_caller]
    fn tensors(self) -> Vec<Tensor> {
        let mut tensors = Vec::with_capacity(self.starts.len());
        for start in self.starts {
            tensors.push(match start {
                Start::Known(start) => Tensor::full(start as i64, Shape::scalar()),
                Start::Computed(start) => start,
            });
        }
        tensors
    }
}

impl Tensor {
    /// The box with these spans: `x.slice((1.., .., -1))`. See [`Tensor::at`], which is the same by another name.
    #[track_caller]
    pub fn slice(&self, spans: impl Slices) -> Tensor {
        self.read("slice", spans.spans(), IndexMode::Checked, Loc::caller())
    }

    /// The element, slice or box at these places along the leading axes: an index, whose axis goes, or a range. An
    /// index may be computed: an integer tensor of rank 0. For several indices along one axis see [`Tensor::take`].
    ///
    /// ```
    /// use pullback_trace::{Error, Tensor};
    ///
    /// let x = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    /// let i = Tensor::from(1i64);
    /// assert_eq!(x.at(-1).to_vec::<f64>()?, [4.0, 5.0, 6.0]);
    /// assert_eq!(x.at((&i, 1..)).to_vec::<f64>()?, [5.0, 6.0]);
    /// assert_eq!(x.at((.., &i)).to_vec::<f64>()?, [2.0, 5.0]);
    /// assert_eq!(x.set_at((&i, 1..), 0.0).at(1).to_vec::<f64>()?, [4.0, 0.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn at(&self, places: impl Slices) -> Tensor {
        self.read("at", places.spans(), IndexMode::Checked, Loc::caller())
    }

    /// [`Tensor::at`] with a mode for computed indices out of range.
    #[track_caller]
    pub fn at_with(&self, places: impl Slices, mode: IndexMode) -> Tensor {
        self.read("at", places.spans(), mode, Loc::caller())
    }

    fn read(&self, name: &str, spans: Vec<Span>, mode: IndexMode, at: Loc) -> Tensor {
        let ty = attempt!(self.ty());
        let region = attempt!(Region::new(spans, ty).map_err(|problem| Error::op(name, &[ty], problem, at)));
        let shape = region.shape();
        let read = match region.known() {
            Some(start) => {
                let limit = start.iter().zip(&region.sizes).map(|(start, size)| start + size).collect();
                self.slice_to(start, limit, Dims::from_elem(1, ty.shape.rank()), at)
            }
            None => {
                let slice = DynamicSlice { sizes: region.sizes.clone(), mode };
                let starts = region.tensors();
                let operands: Vec<&Tensor> = [self].into_iter().chain(&starts).collect();
                attempt!(apply_all(slice.into(), &operands, at)).remove(0)
            }
        };
        read.reshape_to(shape, at)
    }

    /// This tensor with `value` where [`Tensor::at`] reads. The value is a number, or a tensor that broadcasts to the
    /// shape of what is read.
    #[track_caller]
    pub fn set_at(&self, places: impl Slices, value: impl Into<Operand>) -> Tensor {
        self.set_at_with(places, value, IndexMode::Checked)
    }

    /// [`Tensor::set_at`] with a mode for computed indices out of range.
    #[track_caller]
    pub fn set_at_with(&self, places: impl Slices, value: impl Into<Operand>, mode: IndexMode) -> Tensor {
        let (ty, at) = (attempt!(self.ty()), Loc::caller());
        let refuse = |problem: Problem| Error::op("set_at", &[ty], problem, at);
        let region = attempt!(Region::new(places.spans(), ty).map_err(refuse));
        let value = attempt!(value.into().beside(ty.dtype, at));
        let sizes: Shape = region.sizes.iter().copied().collect();
        let update = value.broadcast_to(region.shape()).reshape_to(sizes, at);
        // Places known here are in range.
        let mode = if region.known().is_some() { IndexMode::Clip } else { mode };
        let starts = region.tensors();
        let operands: Vec<&Tensor> = [self, &update].into_iter().chain(&starts).collect();
        attempt!(apply_all(DynamicUpdateSlice { mode }.into(), &operands, at)).remove(0)
    }
}

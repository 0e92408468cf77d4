//! Sparse matrices in compressed rows.

use super::Pattern;
use crate::error::Error;
use crate::tensor::Tensor;
use crate::tree::{Tree, Visitor};
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

/// A sparse matrix in compressed sparse rows: a pattern, and a value for each entry of it in its order. Matrices made
/// by one plan share the pattern.
///
/// As a [`Tree`] it holds one tensor, the values.
#[derive(Clone)]
pub struct Csr {
    pattern: Arc<Pattern>,
    values: Tensor,
}

impl Csr {
    pub(crate) fn new(pattern: Arc<Pattern>, values: Tensor) -> Csr {
        Csr { pattern, values }
    }

    /// Which entries may differ from zero.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.pattern.rows()
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.pattern.columns()
    }

    /// For each row the number of entries before it, and at the end the number of all entries.
    pub fn indptr(&self) -> &[usize] {
        self.pattern.indptr()
    }

    /// The column of each entry.
    pub fn indices(&self) -> &[usize] {
        self.pattern.indices()
    }

    /// The value of each entry, of shape `[entries]`.
    pub fn values(&self) -> &Tensor {
        &self.values
    }

    /// The matrix with all its zeros, of shape `[rows, columns]`.
    ///
    /// # Errors
    /// If it has more elements than can be addressed.
    #[track_caller]
    pub fn to_dense(&self) -> Result<Tensor, Error> {
        let (rows, columns) = (self.rows(), self.columns());
        let flat: Vec<i64> =
            self.pattern.places().map(|(row, column)| (row * columns + column) as i64).collect();
        let entries = flat.len();
        let zeros = Tensor::zeros(self.values.dtype()?, [rows, columns]).ok()?.ravel();
        zeros.index_set(0, &Tensor::from_vec(flat, [entries]), &self.values).reshape([rows, columns]).ok()
    }
}

impl Tree for Csr {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.fact(&(self.indptr(), self.indices(), self.columns()));
        visitor.leaf(&self.values);
    }

    fn rebuild(&self, replace: &mut dyn FnMut(&Tensor) -> Tensor) -> Csr {
        Csr { pattern: self.pattern.clone(), values: replace(&self.values) }
    }
}

/// The pattern, then the values.
impl Display for Csr {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}\n{}", self.pattern, self.values)
    }
}

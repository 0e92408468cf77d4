//! Which entries of a matrix may differ from zero.

use std::fmt::{self, Debug, Display, Formatter};

/// Rows and columns of the largest matrix that is shown entry by entry.
const SHOWN: (usize, usize) = (64, 128);

/// The entries of a matrix that may differ from zero, row by row, in ascending order of columns.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Pattern {
    rows: usize,
    columns: usize,
    /// Where each row begins among `indices`, and where the last one ends.
    indptr: Vec<usize>,
    /// Columns of the entries.
    indices: Vec<usize>,
}

impl Pattern {
    /// The pattern with these columns in each row, ascending.
    pub(crate) fn from_rows<'a>(columns: usize, rows: impl IntoIterator<Item = &'a [u32]>) -> Pattern {
        let (mut indptr, mut indices) = (vec![0], Vec::new());
        for row in rows {
            indices.extend(row.iter().map(|&column| column as usize));
            indptr.push(indices.len());
        }
        Pattern { rows: indptr.len() - 1, columns, indptr, indices }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of entries.
    pub fn entries(&self) -> usize {
        self.indices.len()
    }

    /// For each row the number of entries before it, and at the end the number of all entries.
    pub fn indptr(&self) -> &[usize] {
        &self.indptr
    }

    /// The column of each entry, row by row, ascending within a row.
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    /// The columns of the entries in a row, ascending; none if there is no such row.
    pub fn row(&self, row: usize) -> &[usize] {
        match self.indptr.get(row..row.saturating_add(2)) {
            Some(&[start, end]) => &self.indices[start..end],
            Some(_) | None => &[],
        }
    }

    /// Whether an entry may differ from zero.
    pub fn contains(&self, row: usize, column: usize) -> bool {
        self.row(row).binary_search(&column).is_ok()
    }

    /// Row and column of each entry, in order.
    pub fn places(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.rows).flat_map(|row| self.row(row).iter().map(move |&column| (row, column)))
    }

    /// The pattern of the transposed matrix.
    pub fn transposed(&self) -> Pattern {
        let mut indptr = vec![0; self.columns + 1];
        self.indices.iter().for_each(|&column| indptr[column + 1] += 1);
        (0..self.columns).for_each(|column| indptr[column + 1] += indptr[column]);
        let (mut next, mut indices) = (indptr.clone(), vec![0; self.indices.len()]);
        for (row, column) in self.places() {
            indices[next[column]] = row;
            next[column] += 1;
        }
        Pattern { rows: self.columns, columns: self.rows, indptr, indices }
    }

    /// The entries of a square pattern and those of its transpose.
    pub(crate) fn symmetric(&self) -> Pattern {
        let (transposed, mut indptr, mut indices) = (self.transposed(), vec![0], Vec::new());
        for row in 0..self.rows {
            let start = indices.len();
            indices.extend(self.row(row).iter().chain(transposed.row(row)));
            indices[start..].sort_unstable();
            let mut last = None;
            let mut kept = start;
            for i in start..indices.len() {
                if last.replace(indices[i]) != Some(indices[i]) {
                    indices[kept] = indices[i];
                    kept += 1;
                }
            }
            indices.truncate(kept);
            indptr.push(kept);
        }
        Pattern { indptr, indices, ..*self }
    }

    /// Number of entries in the fullest row.
    pub(crate) fn fullest_row(&self) -> usize {
        self.indptr.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0)
    }
}

/// The size, and of a small matrix a picture: `#` for each entry, `.` for each zero.
impl Display for Pattern {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Pattern { rows, columns, .. } = *self;
        write!(formatter, "{rows} x {columns}, {} entries", self.entries())?;
        if rows > SHOWN.0 || columns > SHOWN.1 {
            return Ok(());
        }
        for row in 0..rows {
            let mark = |column| if self.contains(row, column) { '#' } else { '.' };
            write!(formatter, "\n{}", (0..columns).map(mark).collect::<String>())?;
        }
        Ok(())
    }
}

impl Debug for Pattern {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns() {
        let pattern = Pattern::from_rows(3, [&[0u32, 2][..], &[], &[1]]);
        assert_eq!(pattern.to_string(), "3 x 3, 3 entries\n#.#\n...\n.#.");
        assert_eq!((pattern.indptr(), pattern.indices()), (&[0, 2, 2, 3][..], &[0, 2, 1][..]));
        assert_eq!((pattern.row(0), pattern.row(3)), (&[0, 2][..], &[][..]));
        assert!(pattern.contains(0, 2) && !pattern.contains(2, 2) && !pattern.contains(usize::MAX, 0));
        assert_eq!(pattern.transposed().to_string(), "3 x 3, 3 entries\n#..\n..#\n#..");
        assert_eq!(pattern.symmetric().to_string(), "3 x 3, 5 entries\n#.#\n..#\n##.");
        assert_eq!(pattern.transposed().transposed(), pattern);
        assert_eq!(pattern.fullest_row(), 2);
    }

    #[test]
    fn nothing() {
        let empty = Pattern::from_rows(0, []);
        assert_eq!((empty.to_string(), empty.fullest_row()), ("0 x 0, 0 entries".into(), 0));
        assert_eq!(empty.transposed(), empty);
        assert_eq!(Pattern::from_rows(2, []).transposed().to_string(), "2 x 0, 0 entries\n\n");
        assert_eq!(Pattern::from_rows(200, [&[7u32][..]]).to_string(), "1 x 200, 1 entries");
    }
}

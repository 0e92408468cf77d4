//! Which products with a matrix show all of its entries, and where.

use super::Pattern;
use super::colouring::{self, Colouring};

/// More steps than this are not spent on colouring the other way round as well.
const STEPS: usize = 1 << 28;

/// From which side a matrix is multiplied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// Sums of columns, which forward mode gives.
    Columns,
    /// Sums of rows, which reverse mode gives.
    Rows,
}

/// A way to read the entries of a matrix off a few sums of its columns, or of its rows.
pub(crate) struct Compression {
    pub(crate) side: Side,
    /// Which columns, or rows, are summed: those of each colour.
    pub(crate) colouring: Colouring,
    /// For each entry of the pattern the colour of a sum, and the element of that sum that is the entry.
    pub(crate) places: Vec<(usize, usize)>,
}

impl Compression {
    /// By columns or by rows, whichever needs fewer sums; by columns if both need equally many.
    pub(crate) fn new(pattern: &Pattern) -> Compression {
        let transposed = pattern.transposed();
        // The entries of one row, or column, all need different colours.
        let least = [pattern.fullest_row(), transposed.fullest_row()];
        let steps =
            |pattern: &Pattern| (0..pattern.rows()).map(|row| pattern.row(row).len().pow(2)).sum::<usize>();
        if least[0] <= least[1] {
            let columns = Compression::by_columns(pattern, &transposed);
            if columns.colouring.count <= least[1] || steps(&transposed) > STEPS {
                return columns;
            }
            let rows = Compression::by_rows(pattern, &transposed);
            if rows.colouring.count < columns.colouring.count { rows } else { columns }
        } else {
            let rows = Compression::by_rows(pattern, &transposed);
            if rows.colouring.count < least[0] || steps(pattern) > STEPS {
                return rows;
            }
            let columns = Compression::by_columns(pattern, &transposed);
            if columns.colouring.count <= rows.colouring.count { columns } else { rows }
        }
    }

    fn by_columns(pattern: &Pattern, transposed: &Pattern) -> Compression {
        let colouring = colouring::columns(pattern, transposed);
        let places = pattern.places().map(|(row, column)| (colouring.colours[column], row)).collect();
        Compression { side: Side::Columns, colouring, places }
    }

    fn by_rows(pattern: &Pattern, transposed: &Pattern) -> Compression {
        let colouring = colouring::columns(transposed, pattern);
        let places = pattern.places().map(|(row, column)| (colouring.colours[row], column)).collect();
        Compression { side: Side::Rows, colouring, places }
    }

    /// By columns, where the matrix is symmetric: an entry may be read where its mirror image is.
    pub(crate) fn symmetric(pattern: &Pattern) -> Compression {
        let colouring = colouring::star(pattern);
        let mut met = vec![0; colouring.count];
        let mut places = Vec::with_capacity(pattern.entries());
        for row in 0..pattern.rows() {
            let columns = pattern.row(row);
            columns.iter().for_each(|&column| met[colouring.colours[column]] += 1);
            places.extend(columns.iter().map(|&column| match met[colouring.colours[column]] {
                1 => (colouring.colours[column], row),
                _ => (colouring.colours[row], column),
            }));
            columns.iter().for_each(|&column| met[colouring.colours[column]] = 0);
        }
        Compression { side: Side::Columns, colouring, places }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums that a compression asks for, of a matrix that is given as a function.
    fn sums(
        compression: &Compression,
        pattern: &Pattern,
        entry: impl Fn(usize, usize) -> usize,
    ) -> Vec<Vec<usize>> {
        let elements = match compression.side {
            Side::Columns => pattern.rows(),
            Side::Rows => pattern.columns(),
        };
        let mut sums = vec![vec![0; elements]; compression.colouring.count];
        for (row, column) in pattern.places() {
            let (summed, element) = match compression.side {
                Side::Columns => (column, row),
                Side::Rows => (row, column),
            };
            sums[compression.colouring.colours[summed]][element] += entry(row, column);
        }
        sums
    }

    fn check(compression: &Compression, pattern: &Pattern, entry: impl Fn(usize, usize) -> usize) {
        let sums = sums(compression, pattern, &entry);
        for ((row, column), &(colour, element)) in pattern.places().zip(&compression.places) {
            assert_eq!(sums[colour][element], entry(row, column), "{row}, {column} of\n{pattern}");
        }
    }

    #[test]
    fn the_cheaper_side_is_taken() {
        let wide = Pattern::from_rows(4, [&[0u32, 1, 2, 3][..]]);
        let found = Compression::new(&wide);
        assert_eq!((found.side, found.colouring.count), (Side::Rows, 1));
        check(&found, &wide, |row, column| 10 * row + column + 1);
        let tall = wide.transposed();
        let found = Compression::new(&tall);
        assert_eq!((found.side, found.colouring.count), (Side::Columns, 1));
        check(&found, &tall, |row, column| 10 * row + column + 1);
        let cross = Pattern::from_rows(3, [&[0u32, 1, 2][..], &[0], &[0]]);
        let found = Compression::new(&cross);
        assert_eq!((found.side, found.colouring.count), (Side::Columns, 3));
        check(&found, &cross, |row, column| 10 * row + column + 1);
    }

    #[test]
    fn symmetric_matrices_are_read_on_either_side() {
        let rows: [&[u32]; 5] = [&[0, 1, 2, 3, 4], &[0], &[0, 2, 3], &[0, 2, 3], &[0, 4]];
        let pattern = Pattern::from_rows(5, rows);
        let found = Compression::symmetric(&pattern);
        assert_eq!(found.colouring.count, 3);
        check(&found, &pattern, |row, column| (1 + row) * (1 + column));
        let empty = Pattern::from_rows(0, []);
        assert!(
            Compression::symmetric(&empty).places.is_empty() && Compression::new(&empty).places.is_empty()
        );
    }
}

//! Colours of columns: columns of one colour are computed together and told apart by their rows.
//!
//! See Gebremedhin, Manne and Pothen, What color is your Jacobian? (SIAM Review 47, 2005). Both colourings are
//! greedy, fullest column first, so hubs have a colour before what hangs on them.

use super::Pattern;
use indexmap::IndexMap;

/// What stands for a column without a colour.
pub(crate) const NONE: usize = usize::MAX;

/// A colour for each column that has entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Colouring {
    /// The colour of each column, below `count`; [`NONE`] for a column without entries.
    pub(crate) colours: Vec<usize>,
    /// Number of colours.
    pub(crate) count: usize,
}

impl Colouring {
    fn none(columns: usize) -> Colouring {
        Colouring { colours: vec![NONE; columns], count: 0 }
    }

    /// Gives a column the first colour that is not forbidden to it, and returns the colour.
    fn give(&mut self, column: usize, forbidden: &Forbidden) -> usize {
        let colour = (0..self.count).find(|&colour| forbidden.by[colour] != column).unwrap_or(self.count);
        self.colours[column] = colour;
        self.count = self.count.max(colour + 1);
        colour
    }
}

/// For each colour the last column it was forbidden to.
struct Forbidden {
    by: Vec<usize>,
}

impl Forbidden {
    /// No more colours are needed than there are columns.
    fn new(columns: usize) -> Forbidden {
        Forbidden { by: vec![NONE; columns] }
    }

    fn forbid(&mut self, colour: usize, column: usize) {
        if colour != NONE {
            self.by[colour] = column;
        }
    }
}

/// Rows of a pattern that have entries, the fullest first; of equally full ones the first first.
fn fullest_first(rows: &Pattern) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rows.rows()).filter(|&row| !rows.row(row).is_empty()).collect();
    order.sort_by_key(|&row| std::cmp::Reverse(rows.row(row).len()));
    order
}

/// Colours such that no row has entries in two columns of one colour. `transposed` is the pattern's transpose.
pub(crate) fn columns(pattern: &Pattern, transposed: &Pattern) -> Colouring {
    let n = pattern.columns();
    let (mut colouring, mut forbidden) = (Colouring::none(n), Forbidden::new(n));
    for column in fullest_first(transposed) {
        for &row in transposed.row(column) {
            pattern.row(row).iter().for_each(|&other| forbidden.forbid(colouring.colours[other], column));
        }
        colouring.give(column, &forbidden);
    }
    colouring
}

/// Colours for a symmetric pattern such that of each entry and its mirror image at least one is the only one of its
/// colour in its row, and each entry on the diagonal is: neighbours differ, and no path of four columns has two colours
/// (a star colouring).
pub(crate) fn star(pattern: &Pattern) -> Colouring {
    let n = pattern.columns();
    let (mut colouring, mut forbidden) = (Colouring::none(n), Forbidden::new(n));
    let mut stars = Stars { neighbours: IndexMap::new(), beyond: vec![Vec::new(); n] };
    for column in fullest_first(pattern) {
        for &near in pattern.row(column).iter().filter(|&&near| near != column) {
            let colour = colouring.colours[near];
            if colour == NONE {
                continue;
            }
            forbidden.forbid(colour, column);
            // column - near - x - y, where y has the colour of near.
            stars.beyond[near].iter().for_each(|&colour| forbidden.forbid(colour, column));
            // other - column - near - y, where other has the colour of near.
            if stars.count(column, colour) > 1 {
                let beyond = pattern.row(near).iter().filter(|&&y| y != near);
                beyond.for_each(|&y| forbidden.forbid(colouring.colours[y], column));
            }
        }
        colouring.give(column, &forbidden);
        stars.add(pattern, &colouring, column);
    }
    colouring
}

/// What star colouring remembers of the columns that have a colour.
struct Stars {
    /// How many neighbours of a column have a colour, by column and colour, if any do.
    neighbours: IndexMap<(usize, usize), usize>,
    /// For each column the colours of its neighbours that have a second neighbour of its colour.
    beyond: Vec<Vec<usize>>,
}

impl Stars {
    fn count(&self, column: usize, colour: usize) -> usize {
        self.neighbours.get(&(column, colour)).copied().unwrap_or(0)
    }

    /// Takes note of the colour that a column was given.
    fn add(&mut self, pattern: &Pattern, colouring: &Colouring, column: usize) {
        let colour = colouring.colours[column];
        for &near in pattern.row(column).iter().filter(|&&near| near != column) {
            let count = self.neighbours.entry((near, colour)).or_insert(0);
            *count += 1;
            let (count, near_colour) = (*count, colouring.colours[near]);
            if near_colour == NONE {
                continue;
            }
            if count > 1 {
                self.note(column, near_colour);
            }
            if count == 2 {
                let first = pattern
                    .row(near)
                    .iter()
                    .find(|&&other| other != column && other != near && colouring.colours[other] == colour);
                if let Some(&first) = first {
                    self.note(first, near_colour);
                }
            }
            if self.count(column, near_colour) > 1 {
                self.note(near, colour);
            }
        }
    }

    fn note(&mut self, column: usize, colour: usize) {
        if !self.beyond[column].contains(&colour) {
            self.beyond[column].push(colour);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(rows: &[&[u32]], columns: usize) -> Pattern {
        Pattern::from_rows(columns, rows.iter().copied())
    }

    /// A pattern with about one entry in `one_in`, the same each time.
    fn random(n: usize, one_in: u64, seed: u64) -> Pattern {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut chance = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.is_multiple_of(one_in)
        };
        let rows: Vec<Vec<u32>> = (0..n).map(|_| (0..n as u32).filter(|_| chance()).collect()).collect();
        Pattern::from_rows(n, rows.iter().map(|row| &row[..]))
    }

    /// How many columns of a row have the colour of this one.
    fn alike(pattern: &Pattern, colouring: &Colouring, row: usize, column: usize) -> usize {
        let colour = colouring.colours[column];
        assert!(colour < colouring.count);
        pattern.row(row).iter().filter(|&&other| colouring.colours[other] == colour).count()
    }

    fn check_columns(pattern: &Pattern) -> usize {
        let found = columns(pattern, &pattern.transposed());
        assert!(pattern.places().all(|(row, column)| alike(pattern, &found, row, column) == 1), "{pattern}");
        found.count
    }

    fn check_star(pattern: &Pattern) -> usize {
        let found = star(pattern);
        for (row, column) in pattern.places() {
            let either = alike(pattern, &found, row, column) == 1 || alike(pattern, &found, column, row) == 1;
            assert!(either, "{row}, {column} in {:?} of\n{pattern}", found.colours);
        }
        found.count
    }

    fn tridiagonal(n: u32) -> Pattern {
        let rows: Vec<Vec<u32>> = (0..n).map(|i| (i.saturating_sub(1)..(i + 2).min(n)).collect()).collect();
        Pattern::from_rows(n as usize, rows.iter().map(|row| &row[..]))
    }

    /// Its hub is column `hub`.
    fn arrow(n: u32, hub: u32) -> Pattern {
        let row = |i: u32| if i == hub { (0..n).collect() } else { vec![i.min(hub), i.max(hub)] };
        let rows: Vec<Vec<u32>> = (0..n).map(row).collect();
        Pattern::from_rows(n as usize, rows.iter().map(|row| &row[..]))
    }

    #[test]
    fn structures_need_few_colours() {
        assert_eq!(check_columns(&tridiagonal(100)), 3);
        assert_eq!(check_star(&tridiagonal(100)), 3);
        assert_eq!(check_columns(&arrow(50, 0)), 50);
        assert_eq!((check_star(&arrow(50, 0)), check_star(&arrow(50, 49))), (2, 2));
        let blocks: Vec<Vec<u32>> = (0..60).map(|i| (i / 3 * 3..i / 3 * 3 + 3).collect()).collect();
        let blocks = Pattern::from_rows(60, blocks.iter().map(|row| &row[..]));
        assert_eq!((check_columns(&blocks), check_star(&blocks)), (3, 3));
        assert_eq!(check_columns(&pattern(&[&[], &[]], 2)), 0);
        assert_eq!((check_columns(&pattern(&[], 0)), check_star(&pattern(&[], 0))), (0, 0));
        assert_eq!(check_star(&pattern(&[&[0], &[], &[2]], 3)), 1);
    }

    #[test]
    fn large_arrows_are_coloured_at_once() {
        assert_eq!(star(&arrow(200_000, 7)).count, 2);
    }

    #[test]
    fn random_patterns() {
        for seed in 0..200 {
            let n = 1 + seed as usize % 30;
            let pattern = random(n, 2 + seed % 11, seed);
            assert!(check_columns(&pattern) <= n);
            let with_diagonal = pattern.symmetric();
            assert!(check_star(&with_diagonal) <= n);
        }
    }
}

//! Index arithmetic: affine functions of the loop indices of a kernel.

use smallvec::SmallVec;
use std::fmt;

/// `offset + sum of stride * loop index`, one stride per loop dimension.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Affine {
    /// Value where every loop index is 0.
    pub offset: i64,
    /// Change per step of each loop dimension.
    pub strides: SmallVec<[i64; 4]>,
}

impl Affine {
    /// The constant function.
    pub fn constant(offset: i64, rank: usize) -> Affine {
        Affine { offset, strides: SmallVec::from_elem(0, rank) }
    }

    /// The index of one loop dimension.
    pub fn index(dim: usize, rank: usize) -> Affine {
        let mut affine = Affine::constant(0, rank);
        affine.strides[dim] = 1;
        affine
    }

    /// `self * factor`
    pub fn scaled(&self, factor: i64) -> Affine {
        Affine { offset: self.offset * factor, strides: self.strides.iter().map(|s| s * factor).collect() }
    }

    /// Adds `other * factor`.
    pub fn add_scaled(&mut self, other: &Affine, factor: i64) {
        self.offset += other.offset * factor;
        for (mine, theirs) in self.strides.iter_mut().zip(&other.strides) {
            *mine += theirs * factor;
        }
    }

    /// Least and greatest value over loops of these extents, none of which is 0.
    pub fn range(&self, extents: &[usize]) -> (i64, i64) {
        let mut range = (self.offset, self.offset);
        for (&stride, &extent) in self.strides.iter().zip(extents) {
            let reach = stride * (extent as i64 - 1);
            range.0 += reach.min(0);
            range.1 += reach.max(0);
        }
        range
    }

    /// Whether it does not depend on any loop.
    pub fn is_constant(&self) -> bool {
        self.strides.iter().all(|&s| s == 0)
    }
}

impl fmt::Display for Affine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (d, &stride) in self.strides.iter().enumerate().filter(|(_, s)| **s != 0) {
            if !first {
                formatter.write_str(" + ")?;
            }
            first = false;
            match stride {
                1 => write!(formatter, "i{d}")?,
                _ => write!(formatter, "{stride}*i{d}")?,
            }
        }
        match (first, self.offset) {
            (true, offset) => write!(formatter, "{offset}"),
            (false, 0) => Ok(()),
            (false, offset) => write!(formatter, " + {offset}"),
        }
    }
}

/// A coordinate along one dimension of a tensor: `affine / dilation`, which exists only where there is no
/// remainder.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Coordinate {
    /// The coordinate times the dilation.
    pub affine: Affine,
    /// At least 1.
    pub dilation: i64,
}

impl Coordinate {
    /// A coordinate without division.
    pub fn plain(affine: Affine) -> Coordinate {
        Coordinate { affine, dilation: 1 }
    }

    /// The constant coordinate.
    pub fn constant(offset: i64, rank: usize) -> Coordinate {
        Coordinate::plain(Affine::constant(offset, rank))
    }

    /// `(scale * self + offset) / dilation`
    pub fn mapped(&self, scale: i64, offset: i64, dilation: i64) -> Coordinate {
        let mut affine = self.affine.scaled(scale);
        affine.offset += offset * self.dilation;
        Coordinate { affine, dilation: self.dilation * dilation }
    }

    /// The condition under which it exists and is below `extent`; `None` if it always does.
    pub fn guard(&self, extent: usize, loops: &[usize]) -> Option<Guard> {
        let (least, greatest) = self.affine.range(loops);
        let inside = least >= 0 && greatest < extent as i64 * self.dilation;
        (self.dilation != 1 || !inside).then(|| Guard { coordinate: self.clone(), extent: extent as i64 })
    }
}

/// The condition that a coordinate exists and is at least 0 and below an extent.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Guard {
    /// The coordinate.
    pub coordinate: Coordinate,
    /// What it must be below.
    pub extent: i64,
}

impl fmt::Display for Guard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Guard { coordinate: Coordinate { affine, dilation }, extent } = self;
        match dilation {
            1 => write!(formatter, "{affine} in 0..{extent}"),
            _ => write!(formatter, "({affine}) / {dilation} in 0..{extent}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_compose() {
        // Reading a tensor of 3 through a dilated pad (low 1, interior 1), backwards: 6 - i, then (j - 1) / 2.
        let i = Coordinate::plain(Affine::index(0, 1));
        let j = i.mapped(-1, 6, 1);
        let source = j.mapped(1, -1, 2);
        assert_eq!(source.affine.to_string(), "-1*i0 + 5");
        assert_eq!(source.dilation, 2);
        assert!(source.guard(3, &[7]).is_some());
        assert_eq!(i.guard(7, &[7]), None);
        assert!(i.guard(6, &[7]).is_some());
    }

    #[test]
    fn ranges_cover_both_signs() {
        let mut affine = Affine::constant(3, 2);
        affine.strides[0] = -2;
        affine.strides[1] = 5;
        assert_eq!(affine.range(&[4, 3]), (-3, 13));
    }
}

//! Sets of numbers, each kept once. A set is named by a number of its own, so arrays of names stand for arrays of sets.

use indexmap::{IndexMap, IndexSet};

/// Name of a set.
pub(super) type Id = u32;

/// The set without members.
pub(super) const EMPTY: Id = 0;

/// How many members all sets together may have: 2^28, which take a gigabyte.
const MEMBERS: usize = 1 << 28;

/// Sets of numbers below `universe`.
pub(super) struct Sets {
    /// Members of each set, ascending.
    sets: IndexSet<Box<[u32]>>,
    /// Unions of two that were asked for before.
    unions: IndexMap<(Id, Id), Id>,
    universe: u32,
    /// Members of all sets together.
    held: usize,
    most: usize,
}

impl Sets {
    /// The empty set, and the sets of one number each, named one more than it.
    pub(super) fn new(universe: u32) -> Sets {
        let singles = (0..universe).map(|i| Box::from([i]));
        let sets = std::iter::once(Box::default()).chain(singles).collect();
        Sets { sets, unions: IndexMap::new(), universe, held: universe as usize, most: MEMBERS }
    }

    /// The same, with room for few members.
    #[cfg(test)]
    pub(super) fn with_room(self, most: usize) -> Sets {
        Sets { most, ..self }
    }

    /// Members, ascending.
    pub(super) fn members(&self, id: Id) -> &[u32] {
        &self.sets[id as usize]
    }

    pub(super) fn union(&mut self, a: Id, b: Id) -> Id {
        if a == b || b == EMPTY {
            return a;
        }
        if a == EMPTY {
            return b;
        }
        let pair = (a.min(b), a.max(b));
        if let Some(&id) = self.unions.get(&pair) {
            return id;
        }
        let id = self.intern([self.members(a), self.members(b)].concat());
        self.unions.insert(pair, id);
        id
    }

    /// The union of all of them, whose order is changed.
    pub(super) fn union_all(&mut self, ids: &mut Vec<Id>) -> Id {
        ids.sort_unstable();
        ids.dedup();
        match ids[..] {
            [] => EMPTY,
            [only] => only,
            [a, b] => self.union(a, b),
            _ => self.intern(ids.iter().flat_map(|&id| self.members(id)).copied().collect()),
        }
    }

    /// The set of these. Once there is no more room it is the set of all numbers, which is never too small.
    fn intern(&mut self, mut members: Vec<u32>) -> Id {
        members.sort_unstable();
        members.dedup();
        if let Some(id) = self.sets.get_index_of(&members[..]) {
            return id as Id;
        }
        if self.held + members.len() > self.most || self.sets.len() >= Id::MAX as usize {
            members = (0..self.universe).collect();
        }
        let size = members.len();
        let (id, is_new) = self.sets.insert_full(members.into());
        if is_new {
            self.held += size;
        }
        id as Id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unions_are_kept_once() {
        let mut sets = Sets::new(4);
        let a = sets.union(1, 3);
        assert_eq!((sets.members(a), sets.members(EMPTY)), (&[0, 2][..], &[][..]));
        assert_eq!((sets.union(3, 1), sets.union(a, 3), sets.union(EMPTY, a)), (a, a, a));
        let b = sets.union_all(&mut vec![4, 1, 3, 1, EMPTY]);
        assert_eq!(sets.members(b), [0, 2, 3]);
        assert_eq!(sets.union(a, 4), b);
        assert_eq!(sets.union_all(&mut vec![]), EMPTY);
    }

    #[test]
    fn without_room_a_union_is_everything() {
        let mut sets = Sets::new(5).with_room(7);
        let small = sets.union(1, 2);
        let large = sets.union(3, 4);
        assert_eq!((sets.members(small), sets.members(large)), (&[0, 1][..], &[0, 1, 2, 3, 4][..]));
        assert_eq!(sets.union(large, 1), large);
    }
}

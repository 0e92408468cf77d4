//! Fewer loops over the same indices: dimensions of extent 1 disappear, and neighbours that every operand walks
//! through without a gap become one.

use super::{Affine, InstKind, Kernel};

impl Kernel {
    /// The same kernel with as few dimensions as possible.
    pub fn collapsed(mut self) -> Kernel {
        for d in (0..self.rank()).rev() {
            if self.extents()[d] == 1 {
                self.for_each_affine(|affine| {
                    affine.strides.remove(d);
                });
                self.remove_dim(d);
            }
        }
        for d in (1..self.rank()).rev() {
            if d == self.parallel.len() {
                continue;
            }
            let inner = self.extents()[d];
            let mut seamless = true;
            self.for_each_affine(|a| seamless &= a.strides[d - 1] == a.strides[d] * inner as i64);
            if seamless {
                self.for_each_affine(|affine| {
                    affine.strides.remove(d - 1);
                });
                self.remove_dim(d);
                let (parallel, outer) = (self.parallel.len(), d - 1);
                match outer < parallel {
                    true => self.parallel[outer] *= inner,
                    false => self.reduced[outer - parallel] *= inner,
                }
            }
        }
        self
    }

    fn remove_dim(&mut self, d: usize) {
        let parallel = self.parallel.len();
        if d < parallel {
            self.parallel.remove(d)
        } else {
            self.reduced.remove(d - parallel)
        };
    }

    /// Calls `f` on every affine index.
    pub(crate) fn for_each_affine(&mut self, mut f: impl FnMut(&mut Affine)) {
        for inst in &mut self.body {
            match &mut inst.kind {
                InstKind::Constant(_) | InstKind::Scalar { .. } => {}
                InstKind::Load(access) => {
                    f(&mut access.index);
                    access.divided.iter_mut().for_each(|(c, _)| f(&mut c.affine));
                    access.guards.iter_mut().for_each(|g| f(&mut g.coordinate.affine));
                }
                InstKind::Index(affine) => f(affine),
                InstKind::Inside(guards) => guards.iter_mut().for_each(|g| f(&mut g.coordinate.affine)),
            }
        }
        self.stores.iter_mut().for_each(|store| f(&mut store.index));
        self.reductions.iter_mut().for_each(|reduction| f(&mut reduction.index));
    }
}

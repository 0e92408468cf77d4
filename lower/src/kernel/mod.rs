//! Kernels: loop nests over a scalar body in SSA form.
//!
//! The loops of a kernel are its parallel dimensions, outermost first, then its reduced dimensions. The body is
//! evaluated for every index. Stores write elements as they are computed; reductions combine them along the
//! reduced dimensions in the documented order. A kernel without dimensions is straight-line code.

mod affine;
mod collapse;
mod print;

pub use affine::{Affine, Coordinate, Guard};

use pullback_ir::DType;
use pullback_ir::ops::reduce::reduce::{BLOCK, Reducer};
use pullback_ir::recipe::ScalarOp;
use smallvec::SmallVec;

/// Number of a buffer in its schedule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BufferId(pub u32);

/// Number of an instruction in its body, which stands for its value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Reg(pub u32);

/// One loop nest.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Kernel {
    /// Extents of the parallel dimensions, outermost first.
    pub parallel: Vec<usize>,
    /// Extents of the reduced dimensions, outermost first.
    pub reduced: Vec<usize>,
    /// What is computed for every index.
    pub body: Vec<Inst>,
    /// What is written for every index.
    pub stores: Vec<Store>,
    /// What is combined along the reduced dimensions.
    pub reductions: Vec<Reduction>,
}

/// One instruction of a body.
#[derive(Clone, PartialEq, Debug)]
pub struct Inst {
    /// Element type of its value.
    pub dtype: DType,
    /// How the value comes about.
    pub kind: InstKind,
}

/// What an instruction does.
#[derive(Clone, PartialEq, Debug)]
pub enum InstKind {
    /// These bits.
    Constant(u64),
    /// An element of a buffer.
    Load(Access),
    /// A loop index, converted to the element type.
    Index(Affine),
    /// Whether all conditions hold; bool.
    Inside(Vec<Guard>),
    /// An elementwise function.
    Scalar {
        /// Which.
        op: ScalarOp,
        /// Of what.
        args: SmallVec<[Reg; 3]>,
    },
}

/// Which element of a buffer is read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// The buffer.
    pub buffer: BufferId,
    /// Position of the element, apart from coordinates that are divided.
    pub index: Affine,
    /// Coordinates with a dilation, each with the distance of its neighbours.
    pub divided: Vec<(Coordinate, i64)>,
    /// Where one of these does not hold, nothing is read and the value is unspecified.
    pub guards: Vec<Guard>,
}

/// Writes an element of a buffer.
#[derive(Clone, PartialEq, Debug)]
pub struct Store {
    /// The buffer.
    pub buffer: BufferId,
    /// Position of the element.
    pub index: Affine,
    /// What is written.
    pub value: Reg,
}

/// Combines an element per index of the reduced dimensions.
///
/// Where there is more than one block of elements, the results of the blocks are written one after the other, to
/// be combined later: the result at position `p` of `n` blocks has its partial results from `p * n` on.
#[derive(Clone, PartialEq, Debug)]
pub struct Reduction {
    /// What combines.
    pub reducer: Reducer,
    /// What is combined.
    pub value: Reg,
    /// Where the result goes.
    pub buffer: BufferId,
    /// Position of the result; does not depend on the reduced dimensions.
    pub index: Affine,
}

impl Kernel {
    /// Number of loops.
    pub fn rank(&self) -> usize {
        self.parallel.len() + self.reduced.len()
    }

    /// Extents of all loops.
    pub fn extents(&self) -> Vec<usize> {
        self.parallel.iter().chain(&self.reduced).copied().collect()
    }

    /// Number of indices of the parallel dimensions.
    pub fn outputs(&self) -> usize {
        self.parallel.iter().product()
    }

    /// Number of elements combined into one.
    pub fn length(&self) -> usize {
        self.reduced.iter().product()
    }

    /// Number of blocks that a reduction is cut into.
    pub fn blocks(&self) -> usize {
        self.length().div_ceil(BLOCK)
    }

    /// The instruction of this number.
    pub fn inst(&self, reg: Reg) -> &Inst {
        &self.body[reg.0 as usize]
    }

    /// Rough number of machine instructions of one evaluation of the body.
    pub fn weight(&self) -> u64 {
        self.body.iter().map(|inst| inst.weight()).sum::<u64>() + self.stores.len() as u64
    }
}

impl Inst {
    /// Rough number of machine instructions.
    pub fn weight(&self) -> u64 {
        match &self.kind {
            InstKind::Constant(_) => 0,
            InstKind::Load(access) => 1 + 4 * (access.guards.len() + access.divided.len()) as u64,
            InstKind::Index(_) => 1,
            InstKind::Inside(guards) => 3 * guards.len() as u64,
            InstKind::Scalar { op, .. } => op.weight().into(),
        }
    }
}

impl Kernel {
    /// Every load of the body.
    pub fn loads(&self) -> impl Iterator<Item = &Access> {
        self.loads_with_dtypes().map(|(access, _)| access)
    }

    /// Every load of the body and the type of its element.
    pub fn loads_with_dtypes(&self) -> impl Iterator<Item = (&Access, DType)> {
        self.body.iter().filter_map(|inst| match &inst.kind {
            InstKind::Load(access) => Some((access, inst.dtype)),
            InstKind::Constant(_) | InstKind::Index(_) | InstKind::Inside(_) | InstKind::Scalar { .. } => {
                None
            }
        })
    }

    /// Puts other buffers in the place of those it uses.
    pub(crate) fn rename(&mut self, place: &impl Fn(BufferId) -> BufferId) {
        for inst in &mut self.body {
            match &mut inst.kind {
                InstKind::Load(access) => access.buffer = place(access.buffer),
                InstKind::Constant(_)
                | InstKind::Index(_)
                | InstKind::Inside(_)
                | InstKind::Scalar { .. } => {}
            }
        }
        self.stores.iter_mut().for_each(|store| store.buffer = place(store.buffer));
        self.reductions.iter_mut().for_each(|reduction| reduction.buffer = place(reduction.buffer));
    }

    /// Elementwise operations of one evaluation of the body, and one per reduction.
    pub fn operations(&self) -> u64 {
        let scalars = self.body.iter().filter(|inst| matches!(inst.kind, InstKind::Scalar { .. }));
        (scalars.count() + self.reductions.len()) as u64
    }
}

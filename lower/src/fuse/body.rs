//! A kernel body under construction.

use crate::kernel::{Access, Affine, BufferId, Inst, InstKind, Kernel, Reg};
use pullback_ir::DType;
use pullback_ir::ops::elementwise::binary::Binary;
use pullback_ir::ops::reduce::reduce::Reducer;
use pullback_ir::recipe::ScalarOp;
use smallvec::SmallVec;

#[derive(Default)]
pub(super) struct Body {
    pub(super) insts: Vec<Inst>,
    pub(super) weight: u64,
}

impl Body {
    pub(super) fn push(&mut self, dtype: DType, kind: InstKind) -> Reg {
        let inst = Inst { dtype, kind };
        self.weight += inst.weight() + 1;
        self.insts.push(inst);
        Reg(self.insts.len() as u32 - 1)
    }

    pub(super) fn constant(&mut self, dtype: DType, bits: u64) -> Reg {
        self.push(dtype, InstKind::Constant(bits))
    }

    pub(super) fn scalar(&mut self, dtype: DType, op: ScalarOp, args: &[Reg]) -> Reg {
        self.push(dtype, InstKind::Scalar { op, args: SmallVec::from_slice(args) })
    }

    /// An element at a fixed place.
    pub(super) fn load_at(&mut self, dtype: DType, buffer: BufferId, position: usize) -> Reg {
        let index = Affine::constant(position as i64, 0);
        self.push(dtype, InstKind::Load(Access { buffer, index, divided: Vec::new(), guards: Vec::new() }))
    }

    /// Forgets everything after the first `len` instructions.
    pub(super) fn truncate(&mut self, len: usize) {
        while self.insts.len() > len {
            let Some(inst) = self.insts.pop() else { return };
            self.weight -= inst.weight() + 1;
        }
    }
}

/// The elementwise function that a reduction repeats.
pub(crate) fn combine(reducer: Reducer) -> ScalarOp {
    ScalarOp::Binary(match reducer {
        Reducer::Sum => Binary::Add,
        Reducer::Prod => Binary::Mul,
        Reducer::Max => Binary::Max,
        Reducer::Min => Binary::Min,
        Reducer::And => Binary::And,
        Reducer::Or => Binary::Or,
    })
}

/// The kernel without the instructions that nothing depends on.
pub(super) fn without_dead(mut kernel: Kernel) -> Kernel {
    let mut live = vec![false; kernel.body.len()];
    let roots = kernel.stores.iter().map(|s| s.value).chain(kernel.reductions.iter().map(|r| r.value));
    roots.for_each(|reg| live[reg.0 as usize] = true);
    for i in (0..kernel.body.len()).rev() {
        if let (true, InstKind::Scalar { args, .. }) = (live[i], &kernel.body[i].kind) {
            args.iter().for_each(|arg| live[arg.0 as usize] = true);
        }
    }
    let mut next = 0;
    let numbers: Vec<Reg> = live
        .iter()
        .map(|&live| {
            next += live as u32;
            Reg(next.wrapping_sub(1))
        })
        .collect();
    let renumber = |reg: &mut Reg| *reg = numbers[reg.0 as usize];
    let mut position = 0;
    kernel.body.retain(|_| {
        position += 1;
        live[position - 1]
    });
    for inst in &mut kernel.body {
        if let InstKind::Scalar { args, .. } = &mut inst.kind {
            args.iter_mut().for_each(renumber);
        }
    }
    kernel.stores.iter_mut().for_each(|store| renumber(&mut store.value));
    kernel.reductions.iter_mut().for_each(|reduction| renumber(&mut reduction.value));
    kernel
}

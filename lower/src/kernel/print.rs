//! The text form of kernels, for people and snapshots.

use super::{Access, BufferId, Inst, InstKind, Kernel, Reg};
use pullback_ir::recipe::ScalarOp;
use std::fmt;

impl fmt::Display for BufferId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "b{}", self.0)
    }
}

impl fmt::Display for Reg {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "%{}", self.0)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}[{}", self.buffer, self.index)?;
        for (coordinate, stride) in &self.divided {
            write!(formatter, " + {stride}*(({}) / {})", coordinate.affine, coordinate.dilation)?;
        }
        formatter.write_str("]")?;
        for (i, guard) in self.guards.iter().enumerate() {
            let word = if i == 0 { "if" } else { "and" };
            write!(formatter, " {word} {guard}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Inst {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            InstKind::Constant(bits) => write!(formatter, "{} {:#x}", self.dtype, bits),
            InstKind::Load(access) => write!(formatter, "load {access}"),
            InstKind::Index(affine) => write!(formatter, "{} index {affine}", self.dtype),
            InstKind::Inside(guards) => {
                let guards: Vec<String> = guards.iter().map(|g| g.to_string()).collect();
                write!(formatter, "inside {}", guards.join(" and "))
            }
            InstKind::Scalar { op, args } => {
                write!(formatter, "{}", ScalarName(*op))?;
                args.iter().try_for_each(|arg| write!(formatter, " {arg}"))
            }
        }
    }
}

struct ScalarName(ScalarOp);

impl fmt::Display for ScalarName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ScalarOp::Unary(op) => write!(formatter, "{op:?}"),
            ScalarOp::Binary(op) => write!(formatter, "{op:?}"),
            ScalarOp::Compare(op) => write!(formatter, "{op:?}"),
            ScalarOp::Select => formatter.write_str("Select"),
            ScalarOp::Convert(to) => write!(formatter, "Convert({to})"),
            ScalarOp::Bitcast(to) => write!(formatter, "Bitcast({to})"),
            ScalarOp::ScaleBy => formatter.write_str("ScaleBy"),
            ScalarOp::IntegerPow(n) => write!(formatter, "IntegerPow({n})"),
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "for {:?}", self.parallel)?;
        if !self.reduced.is_empty() {
            write!(formatter, " reduce {:?}", self.reduced)?;
        }
        writeln!(formatter)?;
        for (i, inst) in self.body.iter().enumerate() {
            writeln!(formatter, "  %{i} = {inst}")?;
        }
        for store in &self.stores {
            writeln!(formatter, "  {}[{}] = {}", store.buffer, store.index, store.value)?;
        }
        for reduction in &self.reductions {
            let name = reduction.reducer.name();
            writeln!(formatter, "  {}[{}] = {name} {}", reduction.buffer, reduction.index, reduction.value)?;
        }
        Ok(())
    }
}

//! Checks of what every program promises:
//!
//! - each value is a parameter or one result of one op, its record says so, and no value is anything else;
//! - each operand and output is a value of the program, defined before it is used;
//! - the type of each result is the one the op's type rule gives;
//! - constants hold bits that their element type has, and no tensor is larger than can be addressed;
//! - nested programs keep all of this, and nest no deeper than the text form allows.

use crate::dtype::DType;
use crate::error::Problem;
use crate::literal::Literal;
use crate::loc::Loc;
use crate::ops::{Attr, Op};
use crate::program::{Def, Node, Program, Value};
use crate::shape::TensorType;
use crate::text::{MAX_NESTING, op_line};
use indexmap::IndexMap;
use slotmap::SecondaryMap;
use std::sync::Arc;
use thiserror::Error;

/// A program breaks a promise.
#[derive(Clone, PartialEq, Debug, Error)]
#[error("@{program}: {problem}{}", self.place())]
pub struct VerifyError {
    /// Name of the program.
    pub program: String,
    /// The op as a line of text, if one is to blame; values are numbered as the program's text numbers them.
    pub op: Option<String>,
    /// Where the op comes from.
    pub loc: Loc,
    /// Which promise is broken.
    pub problem: Box<Flaw>,
}

impl VerifyError {
    fn place(&self) -> String {
        let op = self.op.as_ref().map_or(String::new(), |op| format!("\n  in {op}"));
        let loc = if self.loc.is_known() { format!("\n  at {}", self.loc) } else { String::new() };
        op + &loc
    }
}

/// A promise a program can break.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum Flaw {
    /// An operand or output is no value of the program.
    #[error("{0} is not a value of this program; pass it in as a parameter")]
    Foreign(String),
    /// A value is used before it is defined.
    #[error("{0} is used before it is defined")]
    UsedBeforeDefinition(String),
    /// A value's record names another definition than the one it has.
    #[error("the record of {0} names another definition; define each value once")]
    Definition(String),
    /// A value is neither a parameter nor a result.
    #[error("{0} values are defined by nothing")]
    Orphans(usize),
    /// The op's type rule refuses the operands.
    #[error("the type rule refuses the operands: {0}")]
    Operands(Box<Problem>),
    /// A result has another type than the op's type rule gives.
    #[error("the results are ({found}), and the type rule gives ({expected})")]
    Results {
        /// Types the program records.
        found: String,
        /// Types the rule gives.
        expected: String,
    },
    /// A constant holds bits no element of its type has.
    #[error("a constant of type {0} holds bits that no element of its type has")]
    Bits(TensorType),
    /// A tensor is larger than can be addressed.
    #[error("a tensor of type {0} has too many elements; at most 2^48 can be addressed")]
    TooLarge(TensorType),
    /// Programs nest too deep.
    #[error("programs nest deeper than {MAX_NESTING}; inline some of the calls")]
    Nesting,
}

impl Program {
    /// Checks every promise of a program; see [the module](crate::verify).
    pub fn verify(&self) -> Result<(), VerifyError> {
        verify(self, 0, &mut IndexMap::new()).map(|_| ())
    }
}

/// Checks a program inside `depth` others and returns how many levels it has. Programs checked before are known by
/// address: shared ones are checked once, however many paths lead to them.
fn verify(
    program: &Program,
    depth: usize,
    known: &mut IndexMap<*const Program, usize>,
) -> Result<usize, VerifyError> {
    let defined = check_values(program)?;
    let mut levels = 1;
    for (at, node) in program.nodes().enumerate() {
        let fail = |problem| VerifyError {
            program: program.name().to_string(),
            op: Some(op_line(program, node)),
            loc: node.loc,
            problem: Box::new(problem),
        };
        check_operands(program, &defined, at, &node.operands).map_err(fail)?;
        check_attrs(&node.op).map_err(fail)?;
        for nested in node.op.programs() {
            let below = match known.get(&Arc::as_ptr(nested)) {
                Some(&below) => below,
                None if depth + 1 >= MAX_NESTING => return Err(fail(Flaw::Nesting)),
                None => verify(nested, depth + 1, known)?,
            };
            if depth + 1 + below > MAX_NESTING {
                return Err(fail(Flaw::Nesting));
            }
            known.insert(Arc::as_ptr(nested), below);
            levels = levels.max(1 + below);
        }
        check_types(program, node).map_err(fail)?;
    }
    check_operands(program, &defined, program.len(), program.outputs()).map_err(|problem| VerifyError {
        op: None,
        loc: Loc::UNKNOWN,
        problem: Box::new(problem),
        program: program.name().into(),
    })?;
    Ok(levels)
}

/// For each value the number of ops before which it is defined: 0 for parameters. Checks the records on the way.
fn check_values(program: &Program) -> Result<SecondaryMap<Value, usize>, VerifyError> {
    let fail = |node: Option<&Node>, problem| VerifyError {
        program: program.name().to_string(),
        op: node.map(|node| op_line(program, node)),
        loc: node.map_or(Loc::UNKNOWN, |node| node.loc),
        problem: Box::new(problem),
    };
    let mut defined = SecondaryMap::new();
    for (i, &param) in program.params.iter().enumerate() {
        let name = || format!("parameter {i}");
        check_record(program, param, Def::Param(i), name).map_err(|problem| fail(None, problem))?;
        defined.insert(param, 0);
    }
    for (at, &id) in program.order.iter().enumerate() {
        let node = &program.nodes[id];
        for (i, &result) in node.results.iter().enumerate() {
            let name = || format!("result {i} of {}", node.op.name());
            check_record(program, result, Def::Result(id, i), name)
                .map_err(|problem| fail(Some(node), problem))?;
            defined.insert(result, at + 1);
        }
    }
    match program.values.len() - defined.len() {
        0 => Ok(defined),
        orphans => Err(fail(None, Flaw::Orphans(orphans))),
    }
}

fn check_record(program: &Program, value: Value, def: Def, name: impl Fn() -> String) -> Result<(), Flaw> {
    let Some(data) = program.values.get(value) else { return Err(Flaw::Foreign(name())) };
    if data.def != def {
        return Err(Flaw::Definition(name()));
    }
    match data.ty.shape.checked_len() {
        Some(_) => Ok(()),
        None => Err(Flaw::TooLarge(data.ty.clone())),
    }
}

/// Checks that the operands of op number `at` (or the outputs) are defined before it.
fn check_operands(
    program: &Program,
    defined: &SecondaryMap<Value, usize>,
    at: usize,
    operands: &[Value],
) -> Result<(), Flaw> {
    let what = if at == program.len() { "output" } else { "operand" };
    for (i, &operand) in operands.iter().enumerate() {
        match defined.get(operand) {
            None => return Err(Flaw::Foreign(format!("{what} {i}"))),
            Some(&from) if from > at => return Err(Flaw::UsedBeforeDefinition(format!("{what} {i}"))),
            Some(_) => {}
        }
    }
    Ok(())
}

fn check_types(program: &Program, node: &Node) -> Result<(), Flaw> {
    let operands: Vec<&TensorType> = node.operands.iter().map(|&v| program.ty(v)).collect();
    let expected = node.op.infer(&operands).map_err(|problem| Flaw::Operands(Box::new(problem)))?;
    let found = node.results.iter().map(|&v| program.ty(v));
    if found.clone().eq(&expected) {
        return Ok(());
    }
    let list = |types: &mut dyn Iterator<Item = &TensorType>| {
        types.map(|ty| ty.to_string()).collect::<Vec<_>>().join(", ")
    };
    Err(Flaw::Results { found: list(&mut found.clone()), expected: list(&mut expected.iter()) })
}

fn check_attrs(op: &Op) -> Result<(), Flaw> {
    for (_, attr) in op.attrs() {
        if let Attr::Literal(literal) = attr
            && !bits_are_valid(&literal)
        {
            return Err(Flaw::Bits(literal.ty().clone()));
        }
    }
    Ok(())
}

fn bits_are_valid(literal: &Literal) -> bool {
    let largest = match literal.ty().dtype {
        DType::Bool => 1,
        dtype => u64::MAX >> (64 - 8 * dtype.size()),
    };
    match literal.splat_value() {
        Some(bits) => bits <= largest,
        None => literal.bits().all(|bits| bits <= largest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::Builder;
    use crate::ops::control::call::Call;
    use crate::ops::leaf::constant::Constant;

    /// `x -> (-x * x, x)`
    fn program() -> Program {
        let mut b = Builder::new("f");
        let x = b.param(TensorType::new(DType::F32, [2]));
        let y = b.neg(x).unwrap();
        let z = b.mul(y, x).unwrap();
        b.finish(&[z, x])
    }

    fn message(broken: Program) -> String {
        broken.verify().unwrap_err().to_string()
    }

    #[test]
    fn a_good_program_passes() {
        assert_eq!(program().verify(), Ok(()));
        assert_eq!(Program::default().verify(), Ok(()));
    }

    #[test]
    fn order_counts() {
        let mut broken = program();
        broken.order.swap(0, 1);
        assert_eq!(
            message(broken),
            "@f: operand 0 is used before it is defined\n  in %1 = mul %2, %0 : f32[2]"
        );
    }

    #[test]
    fn an_op_left_out_leaves_orphans() {
        let mut broken = program();
        broken.order.remove(0);
        assert_eq!(message(broken), "@f: 1 values are defined by nothing");
    }

    #[test]
    fn an_op_listed_twice_is_found() {
        let mut broken = program();
        let other = broken.order[0];
        let result = broken.nodes[other].results[0];
        let last = broken.order[1];
        broken.nodes[last].results[0] = result;
        assert!(message(broken).starts_with("@f: the record of result 0 of mul names another definition"));
    }

    #[test]
    fn foreign_values_are_found() {
        let mut longer = Builder::new("g");
        let foreign: Vec<_> = (0..9).map(|_| longer.param(TensorType::scalar(DType::F32))).collect();
        let mut broken = program();
        let id = broken.order[0];
        broken.nodes[id].operands[0] = foreign[8];
        assert!(message(broken).starts_with("@f: operand 0 is not a value of this program"));
        let mut broken = program();
        broken.outputs[1] = foreign[8];
        assert!(message(broken).starts_with("@f: output 1 is not a value of this program"));
    }

    #[test]
    fn types_are_those_of_the_rule() {
        let mut broken = program();
        let z = broken.outputs[0];
        broken.values[z].ty = TensorType::new(DType::F32, [3]);
        let expected =
            "@f: the results are (f32[3]), and the type rule gives (f32[2])\n  in %2 = mul %1, %0 : f32[3]";
        assert_eq!(message(broken), expected);
        let mut broken = program();
        let id = broken.order[1];
        broken.nodes[id].operands.pop();
        assert!(
            message(broken).starts_with("@f: the type rule refuses the operands: takes 2 operands, not 1")
        );
    }

    #[test]
    fn bits_fit_their_type() {
        for (dtype, bits) in [(DType::Bool, 2), (DType::F32, 1 << 32), (DType::I32, u64::MAX)] {
            let mut b = Builder::new("f");
            let value = Literal::splat_bits(TensorType::scalar(dtype), bits);
            b.one(Constant { value }, &[]).unwrap();
            assert!(message(b.finish(&[])).contains("holds bits that no element of its type has"));
        }
    }

    /// A program that calls `inner` twice.
    fn calling(inner: Program) -> Program {
        let inner = Arc::new(inner);
        let mut b = Builder::new("f");
        let x = b.param(TensorType::new(DType::F32, [2]));
        let y = b.emit(Call::new(inner.clone()), &[x]).unwrap();
        let z = b.emit(Call::new(inner), &[y[0]]).unwrap();
        b.finish(&[z[0], x])
    }

    #[test]
    fn nested_programs_are_checked_once_each() {
        // Every level calls the next twice: 2^61 paths.
        let deep = (0..61).fold(program(), |inner, _| calling(inner));
        assert_eq!(deep.verify(), Ok(()));
        assert_eq!(deep, (0..61).fold(program(), |inner, _| calling(inner)));
        assert_ne!(deep, (0..60).fold(program(), |inner, _| calling(inner)));
        assert_eq!(deep.op_counts()["call"], 122);
        let too_deep = calling(calling(calling(deep)));
        assert!(message(too_deep).starts_with("@f: programs nest deeper than 64"));
        let mut broken = program();
        broken.order.swap(0, 1);
        assert!(message(calling(broken)).contains("used before it is defined"));
    }
}

//! The vocabulary of rules: what a linearization rule and a transposition rule see and return. Rules speak IR,
//! never numbers, so that a derivative is a program like any other.

use crate::builder::Builder;
use crate::error::TypeError;
use crate::ops::control::looping::map_stacks;
use crate::ops::{Equation, Op, elementwise::scale_by::ScaleBy};
use crate::program::{Node, Value, Values};
use crate::shape::TensorType;
use indexmap::IndexMap;
use smallvec::SmallVec;
use thiserror::Error;

/// Tangents or cotangents, one per result or operand; `None` is a symbolic zero.
pub type Cotangents = SmallVec<[Option<Value>; 2]>;

/// Why a rule could not be applied.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum RuleError {
    /// A rule emitted an op its type rule refuses.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// Transposition met an op that is not linear in the operand that carries a tangent.
    #[error("{op} is not linear in its operand {operand} and has no transpose; linearize the program first")]
    NotLinear {
        /// Name of the op.
        op: &'static str,
        /// Which operand.
        operand: usize,
    },
    /// The rule was asked of an op whose rules live in the transform, because it holds programs or contracts.
    #[error(
        "the rules of {op} live in the transforms, which transform the programs it holds, and not with the op"
    )]
    RuleElsewhere {
        /// Name of the op.
        op: &'static str,
    },
    /// The cotangent of a stack is to be summed up over the iterations of a loop, or is zero at its end.
    #[error(
        "the cotangent of {ty}, a stack that a loop hands on whole, cannot be made; read it slice by slice"
    )]
    StackCotangent {
        /// Type of the stack.
        ty: TensorType,
    },
    /// A stack with another number of slices in each lane was to be used where the lanes have to agree.
    #[error(
        "on lanes {ty} may have another number of slices in each, and {op} {problem}; make what is read from it \
         in the loop that makes the stack"
    )]
    RaggedLanes {
        /// Name of the op.
        op: &'static str,
        /// Type of the stack in one lane.
        ty: TensorType,
        /// What the op does with it.
        problem: &'static str,
    },
    /// A function with a rule of the user's captured a tensor that is differentiated.
    #[error(
        "CapturedTangent: the {op} function `{name}` captured a tensor of type {ty} that is being differentiated, and \
         its rule gives no derivative by what the function captures; pass the tensor as an argument, or let the \
         function capture its stop_gradient()"
    )]
    CapturedTangent {
        /// `custom_jvp` or `custom_vjp`.
        op: &'static str,
        /// Name of the function.
        name: String,
        /// Type of the tensor.
        ty: TensorType,
    },
    /// A rule of the user's for forward mode is not linear in the tangents.
    #[error(
        "CustomRuleNotLinear: the rule of the custom_jvp function `{name}` is not linear in the tangents; multiply them \
         by values and add them up, but do not compare them, multiply them with each other or take functions of them"
    )]
    CustomRuleNotLinear {
        /// Name of the function.
        name: String,
    },
    /// Forward mode was asked of a function whose rule of reverse mode cannot be transposed.
    #[error(
        "NoForwardMode: the backward rule of the custom_vjp function `{name}` is not linear in the cotangents, or has no \
         transpose, so there is no forward mode through it; use reverse mode alone, or give a custom_jvp rule"
    )]
    NoForwardMode {
        /// Name of the function.
        name: String,
    },
    /// A custom call was differentiated whose target has no jvp contract.
    #[error(
        "CustomCallRequiresJvpContract: custom call \"{target}\" has no jvp contract; register one to differentiate it"
    )]
    CustomCallRequiresJvpContract {
        /// Target of the call.
        target: String,
    },
    /// A linear custom call was transposed whose target has no vjp contract.
    #[error(
        "CustomCallRequiresVjpContract: custom call \"{target}\" has no vjp contract; register one to use it in reverse mode"
    )]
    CustomCallRequiresVjpContract {
        /// Target of the call.
        target: String,
    },
    /// A custom call was batched whose target has no batch contract.
    #[error(
        "CustomCallRequiresBatchContract: custom call \"{target}\" has no batch contract; register one to use it on \
         many lanes at once, or call it lane by lane"
    )]
    CustomCallRequiresBatchContract {
        /// Target of the call.
        target: String,
    },
    /// A contract returned something other than what is due.
    #[error("the {contract} contract of custom call \"{target}\" returned {found}, and {expected} is due")]
    BadContract {
        /// Target of the call.
        target: String,
        /// `jvp`, `vjp` or `batch`.
        contract: &'static str,
        /// What is due.
        expected: String,
        /// What came.
        found: String,
    },
}

/// What a linearization rule works with: the primal program and the linear program, both under construction.
pub struct Linearizer<'a> {
    /// The primal program; slopes and other residuals are computed here.
    pub primal: &'a mut Builder,
    /// The linear program; tangents live here.
    pub linear: &'a mut Builder,
    /// Primal values brought over so far, each with its parameter (or constant) in the linear program.
    pub residuals: &'a mut IndexMap<Value, Value>,
}

impl Linearizer<'_> {
    /// Brings a primal value into the linear program: constants are repeated there, everything else becomes a
    /// residual, once.
    pub fn residual(&mut self, primal: Value) -> Result<Value, TypeError> {
        if let Some(&linear) = self.residuals.get(&primal) {
            return Ok(linear);
        }
        if let Some(node) = self.primal.program().producer(primal)
            && let Op::Constant(constant) = &node.op
        {
            let constant = constant.clone();
            return self.linear.one(constant, &[]);
        }
        let ty = self.primal.ty(primal).clone();
        let linear = self.linear.param(ty);
        self.residuals.insert(primal, linear);
        Ok(linear)
    }

    /// The tangents of an op that is linear in its float operands together: the op itself on their tangents, zeros
    /// in place of those that are zero, and on its other operands.
    pub fn linear_op(
        &mut self,
        op: impl Into<Op>,
        equation: Equation<'_>,
        tangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        let mut operands = Values::new();
        for (&operand, &tangent) in equation.operands.iter().zip(tangents) {
            let ty = self.primal.ty(operand).clone();
            operands.push(match tangent {
                Some(tangent) => tangent,
                None if ty.dtype.is_float() => self.linear.number(&ty, 0.0)?,
                None => self.residual(operand)?,
            });
        }
        Ok(self.linear.emit(op, &operands)?.into_iter().map(Some).collect())
    }

    /// The tangent times the primal value `slope`: [`ScaleBy`], so that a zero tangent stays zero.
    pub fn scale(&mut self, tangent: Value, slope: Value) -> Result<Value, TypeError> {
        let slope = self.residual(slope)?;
        self.linear.one(ScaleBy, &[tangent, slope])
    }

    /// The sum of two tangents, either of which may be a symbolic zero.
    pub fn sum(&mut self, a: Option<Value>, b: Option<Value>) -> Result<Option<Value>, TypeError> {
        add_contributions(self.linear, a, b)
    }
}

/// The sum of two contributions to one tangent or cotangent, the second of which may touch a few elements only.
pub fn add_contributions(
    builder: &mut Builder,
    a: Option<Value>,
    b: Option<Value>,
) -> Result<Option<Value>, TypeError> {
    match (a, b) {
        (Some(a), Some(b)) => {
            if let Some(Node { op, operands, .. }) = builder.program().producer(b).cloned()
                && let Some(sum) = op.added_to(a, builder, &operands)?
            {
                return Ok(Some(sum));
            }
            Ok(Some(map_stacks(builder, "add", &[], &[a, b], &mut |builder, v| builder.add(v[0], v[1]))?))
        }
        (a, b) => Ok(a.or(b)),
    }
}

/// An operand as a transposition rule sees it.
#[derive(Clone, Debug)]
pub struct Arg {
    /// Type of the operand.
    pub ty: TensorType,
    /// Its value in the program under construction, if the op does not carry a tangent in it.
    pub known: Option<Value>,
}

impl Arg {
    /// Whether the op is to be transposed with respect to this operand.
    pub fn is_linear(&self) -> bool {
        self.known.is_none()
    }
}

/// The error of a rule that is reached although the op is not linear in an operand.
pub fn not_linear(op: &'static str, args: &[Arg]) -> RuleError {
    RuleError::NotLinear { op, operand: args.iter().position(Arg::is_linear).unwrap_or(0) }
}

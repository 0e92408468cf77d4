//! Truth values, bits and choices.

use super::{Rewrite, Simplifier};
use crate::dtype::DType;
use crate::ops::Op;
use crate::ops::elementwise::binary::Binary;
use crate::ops::elementwise::compare::Compare;
use crate::ops::elementwise::select::Select;
use crate::ops::elementwise::unary::Unary;
use crate::program::Value;

impl Simplifier<'_> {
    pub(super) fn bits(&mut self, function: Binary, x: Value, y: Value) -> Rewrite {
        if x == y {
            return match function {
                // x ^ x = 0
                Binary::Xor => self.number(self.ty(x).clone(), 0.0),
                // x & x = x | x = x
                _ => Ok(Some(x)),
            };
        }
        for (x, other) in [(x, y), (y, x)] {
            let (is_zeros, is_ones) = (self.is_number(other, 0.0), self.is_all_ones(other));
            match function {
                // x & 1.. = x, x & 0 = 0
                Binary::And if is_ones => return Ok(Some(x)),
                Binary::And if is_zeros => return Ok(Some(other)),
                // x | 0 = x, x | 1.. = 1..
                Binary::Or if is_zeros => return Ok(Some(x)),
                Binary::Or if is_ones => return Ok(Some(other)),
                // x ^ 0 = x, x ^ 1.. = !x
                Binary::Xor if is_zeros => return Ok(Some(x)),
                Binary::Xor if is_ones => return self.rewritten(Unary::Not, &[x]),
                _ => {}
            }
        }
        Ok(None)
    }

    fn is_all_ones(&self, x: Value) -> bool {
        let ones = match self.ty(x).dtype {
            DType::Bool => 1,
            dtype => u64::MAX >> (64 - 8 * dtype.size()),
        };
        self.splat(x) == Some(ones)
    }

    pub(super) fn negation(&mut self, x: Value) -> Rewrite {
        // !!x = x
        if let Some(x) = self.argument(Unary::Not, x) {
            return Ok(Some(x));
        }
        let Some(node) = self.producer(x) else { return Ok(None) };
        let Op::Compare(how) = node.op else { return Ok(None) };
        let operands = node.operands.clone();
        // !(x = y) is x != y; the opposite of an order is one only where there is no NaN
        let is_float = self.ty(operands[0]).dtype.is_float();
        let opposite = match how {
            Compare::Eq => Compare::Ne,
            Compare::Ne => Compare::Eq,
            Compare::Lt | Compare::Le | Compare::Gt | Compare::Ge if is_float => return Ok(None),
            Compare::Lt => Compare::Ge,
            Compare::Le => Compare::Gt,
            Compare::Gt => Compare::Le,
            Compare::Ge => Compare::Lt,
        };
        self.rewritten(opposite, &operands)
    }

    pub(super) fn comparison(&mut self, how: Compare, x: Value, y: Value) -> Rewrite {
        if x != y {
            return Ok(None);
        }
        let is_number = !self.ty(x).dtype.is_float() || self.is_finite(x);
        let truth = match how {
            // x < x is false, for NaN too
            Compare::Lt | Compare::Gt => 0.0,
            // x = x and x <= x are true, but for NaN
            Compare::Eq | Compare::Le | Compare::Ge if is_number => 1.0,
            Compare::Ne if is_number => 0.0,
            Compare::Eq | Compare::Le | Compare::Ge | Compare::Ne => return Ok(None),
        };
        self.number(self.ty(x).with_dtype(DType::Bool), truth)
    }

    pub(super) fn selection(&mut self, condition: Value, x: Value, y: Value) -> Rewrite {
        // c ? x : x = x
        if x == y {
            return Ok(Some(x));
        }
        // true ? x : y = x, false ? x : y = y
        if let Some(bits) = self.splat(condition) {
            return Ok(Some(if bits != 0 { x } else { y }));
        }
        // !c ? x : y = c ? y : x
        if let Some(condition) = self.argument(Unary::Not, condition) {
            return self.rewritten(Select, &[condition, y, x]);
        }
        // c ? (c ? x : z) : y = c ? x : y
        if let Some([_, inner, _]) = self.arms(condition, x) {
            return self.rewritten(Select, &[condition, inner, y]);
        }
        // c ? x : (c ? z : y) = c ? x : y
        if let Some([_, _, inner]) = self.arms(condition, y) {
            return self.rewritten(Select, &[condition, x, inner]);
        }
        // c ? true : false = c, c ? false : true = !c
        if self.ty(x).dtype == DType::Bool {
            match (self.splat(x), self.splat(y)) {
                (Some(1), Some(0)) => return Ok(Some(condition)),
                (Some(0), Some(1)) => return self.rewritten(Unary::Not, &[condition]),
                _ => {}
            }
        }
        Ok(None)
    }

    /// The operands of a choice by this very condition.
    fn arms(&self, condition: Value, value: Value) -> Option<[Value; 3]> {
        let node = self.producer(value)?;
        let is_choice = matches!(node.op, Op::Select(_)) && node.operands[0] == condition;
        is_choice.then(|| [node.operands[0], node.operands[1], node.operands[2]])
    }
}

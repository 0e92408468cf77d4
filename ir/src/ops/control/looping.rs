//! A nested program run again and again: scan, counted and conditional loops in one op, so that each transform has
//! one loop rule. Its derivative rules live with the transforms, which transform the body.

use super::check_params;
use crate::batch::{Batched, BatchedValues, Batcher};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Problem, TypeError};
use crate::ops::elementwise::compare::Compare;
use crate::ops::elementwise::unary::Unary;
use crate::ops::{Attr, AttrError, AttrReader, Equation, Primitive, Types};
use crate::program::{Program, Value};
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, Linearizer, RuleError};
use crate::sample::{Domain, Sample, SampleOperand};
use crate::shape::{Shape, TensorType};
use std::sync::Arc;

/// `loop [n,] consts.., carries.., xs.. -> carries.., ys.. [, count]`.
///
/// The body maps `consts.., carries.., one slice of each x..` to `carries.., one slice of each y..`. Without trips the
/// carries are returned as they came. Slices of a tensor are along its first dimension.
///
/// | trip | iterations | xs | ys |
/// |---|---|---|---|
/// | `count(n)` | `n` | tensors of leading extent `n`, or stacks | tensors of leading extent `n`; of stacks, stacks |
/// | `times` | the first operand, an `i64[]`; none if it is negative | stacks of so many slices | stacks |
/// | `each` | as many as the xs have slices, all equally many | stacks, at least one | stacks |
/// | `while` | while the condition holds of `consts.., carries..` | none | stacks |
///
/// A `while` loop has one more result, the number of iterations as an `i64[]`. Stacks of other lengths than due make
/// a call fail.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Loop {
    /// How often the body runs.
    pub trip: Trip,
    /// Whether xs are read from last to first, and ys filled in the same positions.
    pub reverse: bool,
    /// Number of operands that every iteration sees.
    pub consts: usize,
    /// Number of operands that iterations hand on.
    pub carries: usize,
    /// What one iteration does.
    pub body: Arc<Program>,
}

/// How often a loop runs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Trip {
    /// So many times.
    Count(usize),
    /// As many times as the first operand says.
    Times,
    /// Once for each slice of the xs.
    Each,
    /// While this program, of consts and carries, gives true.
    While(Arc<Program>),
}

/// Operands of a loop, or what stands for them, by their role.
#[derive(Clone, Copy, Debug)]
pub struct Roles<'a, T> {
    /// The number of iterations of a `times` loop.
    pub times: Option<&'a T>,
    /// Seen by every iteration.
    pub consts: &'a [T],
    /// Handed on.
    pub carries: &'a [T],
    /// Seen slice by slice.
    pub xs: &'a [T],
}

impl Loop {
    /// Whether the first operand is the number of iterations.
    pub fn has_times(&self) -> bool {
        self.trip == Trip::Times
    }

    /// Whether the last result is the number of iterations.
    pub fn has_count(&self) -> bool {
        matches!(self.trip, Trip::While(_))
    }

    /// Number of xs.
    pub fn xs(&self) -> usize {
        self.body.params().len() - self.consts - self.carries
    }

    /// Number of ys.
    pub fn ys(&self) -> usize {
        self.body.outputs().len() - self.carries
    }

    /// What stands for the operands, by role. There must be as many as the type rule asks for.
    pub fn roles<'a, T>(&self, operands: &'a [T]) -> Roles<'a, T> {
        let (times, rest) = operands.split_at(self.has_times().into());
        let (consts, rest) = rest.split_at(self.consts);
        let (carries, xs) = rest.split_at(self.carries);
        Roles { times: times.first(), consts, carries, xs }
    }

    /// The type of the slices of an x of this type.
    fn x_slice(&self, x: &TensorType) -> Result<TensorType, Problem> {
        let slice = match (&self.trip, x.is_stack(), x.shape.first()) {
            (Trip::Count(n), false, Some(extent)) if extent == n => Some(x.with_shape(&x.shape[1..])),
            (Trip::Count(_) | Trip::Times | Trip::Each, true, _) => x.stack_slice(),
            (Trip::Count(_) | Trip::Times | Trip::Each | Trip::While(_), _, _) => None,
        };
        let due = match &self.trip {
            Trip::Count(n) => format!("tensors of leading extent {n}, or stacks"),
            Trip::Times | Trip::Each => "stacks".to_string(),
            Trip::While(_) => "none; carry a counter and index with it".to_string(),
        };
        slice.ok_or_else(|| {
            Problem::Constraint(format!(
                "{x} cannot be an x of a {} loop, whose xs are {due}",
                self.trip.name()
            ))
        })
    }

    /// The type of the y whose slices have this type.
    pub fn y_type(&self, slice: &TensorType) -> Result<TensorType, Problem> {
        let stacked = match self.trip {
            Trip::Count(n) if !slice.is_stack() => Some(
                slice.with_shape(std::iter::once(n).chain(slice.shape.iter().copied()).collect::<Shape>()),
            ),
            Trip::Count(_) | Trip::Times | Trip::Each | Trip::While(_) => slice.stack(),
        };
        stacked.ok_or_else(|| Problem::Constraint(format!("{slice} has too many levels to be stacked again")))
    }

    fn check_counts(&self, operands: usize) -> Result<(), Problem> {
        let invariant =
            self.consts.checked_add(self.carries).and_then(|n| n.checked_add(self.has_times().into()));
        let (params, outputs) = (self.body.params().len(), self.body.outputs().len());
        if invariant.is_none_or(|least| operands < least) || self.carries > outputs {
            let (consts, carries) = (self.consts, self.carries);
            return Err(Problem::Constraint(format!(
                "{consts} consts and {carries} carries are declared; that takes more operands than {operands}, \
                 or a body with more outputs than {outputs}"
            )));
        }
        let passed = operands - usize::from(self.has_times());
        if passed != params {
            return Err(Problem::Constraint(format!(
                "the body has {params} parameters, and {passed} operands are for it; pass one for each"
            )));
        }
        Ok(())
    }

    fn check_trip(&self, operands: &[&TensorType], invariant: &[TensorType]) -> Result<(), Problem> {
        match &self.trip {
            Trip::Count(n) if i64::try_from(*n).is_err() => Err(Problem::Constraint(format!(
                "{n} iterations are more than an i64 counts; take at most {}, or `while`",
                i64::MAX
            ))),
            Trip::Count(_) => Ok(()),
            Trip::Times if *operands[0] == TensorType::scalar(DType::I64) => Ok(()),
            Trip::Times => Err(Problem::Constraint(format!(
                "the number of iterations is {} and must be i64[]; convert it first",
                operands[0]
            ))),
            Trip::Each if self.xs() > 0 => Ok(()),
            Trip::Each => Err(Problem::Constraint(
                "an `each` loop runs once for each slice of its xs, and there are none; use `times`".into(),
            )),
            Trip::While(condition) => {
                check_params("the condition", condition, invariant)?;
                match &condition.output_types()[..] {
                    [ty] if *ty == TensorType::scalar(DType::Bool) => Ok(()),
                    found => Err(Problem::Constraint(format!(
                        "the condition gives {found:?} and must give one bool[]; reduce it with `all` or `any`"
                    ))),
                }
            }
        }
    }
}

impl Trip {
    /// Its name in the text form.
    pub fn name(&self) -> &'static str {
        match self {
            Trip::Count(_) => "count",
            Trip::Times => "times",
            Trip::Each => "each",
            Trip::While(_) => "while",
        }
    }
}

impl Primitive for Loop {
    fn names() -> Vec<&'static str> {
        vec!["loop"]
    }

    fn parse(_name: &str, attrs: &mut AttrReader) -> Result<Loop, AttrError> {
        let trip = match attrs.take("trip") {
            Some(Attr::Int(n)) if n >= 0 => Trip::Count(n as usize),
            Some(Attr::Word(word)) if word == "times" => Trip::Times,
            Some(Attr::Word(word)) if word == "each" => Trip::Each,
            Some(Attr::Word(word)) if word == "while" => Trip::While(attrs.program("condition")?),
            _ => {
                let text = "attribute `trip` must be a number of iterations, or one of times, each, while";
                return Err(AttrError::new(text));
            }
        };
        let reverse = attrs.word_or("order", &[("forward", false), ("reverse", true)], false)?;
        let (consts, carries) = (attrs.size_or("consts", 0)?, attrs.size_or("carries", 0)?);
        Ok(Loop { trip, reverse, consts, carries, body: attrs.program("body")? })
    }

    fn samples() -> Vec<Sample> {
        samples().unwrap_or_default()
    }

    fn name(&self) -> &'static str {
        "loop"
    }

    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        let mut attrs = vec![match self.trip {
            Trip::Count(n) => ("trip", Attr::Int(n as i64)),
            Trip::Times | Trip::Each | Trip::While(_) => ("trip", Attr::Word(self.trip.name().into())),
        }];
        if self.reverse {
            attrs.push(("order", Attr::Word("reverse".into())));
        }
        for (name, count) in [("consts", self.consts), ("carries", self.carries)] {
            if count > 0 {
                attrs.push((name, Attr::Int(count as i64)));
            }
        }
        if let Trip::While(condition) = &self.trip {
            attrs.push(("condition", Attr::Program(condition.clone())));
        }
        attrs.push(("body", Attr::Program(self.body.clone())));
        attrs
    }

    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
        self.check_counts(operands.len())?;
        let roles = self.roles(operands);
        let mut passed: Vec<TensorType> =
            roles.consts.iter().chain(roles.carries).map(|&ty| ty.clone()).collect();
        self.check_trip(operands, &passed)?;
        for x in roles.xs {
            passed.push(self.x_slice(x)?);
        }
        check_params("the body", &self.body, &passed)?;
        let mut results: Types = roles.carries.iter().map(|&ty| ty.clone()).collect();
        let outputs = self.body.output_types();
        if let Some(i) = (0..self.carries).find(|&i| outputs[i] != results[i]) {
            return Err(Problem::Constraint(format!(
                "carry {i} goes into the body as {} and comes out as {}; the types must be equal",
                results[i], outputs[i]
            )));
        }
        for slice in &outputs[self.carries..] {
            results.push(self.y_type(slice)?);
        }
        if self.has_count() {
            results.push(TensorType::scalar(DType::I64));
        }
        Ok(results)
    }

    fn linearize(
        &self,
        _: &mut Linearizer<'_>,
        _: Equation<'_>,
        _: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        Err(RuleError::RuleElsewhere { op: self.name() })
    }

    fn transpose(&self, _: &mut Builder, _: &[Arg], _: &[Option<Value>]) -> Result<Cotangents, RuleError> {
        Err(RuleError::RuleElsewhere { op: self.name() })
    }

    fn batch(&self, _: &mut Batcher<'_>, _: &[Batched]) -> Result<BatchedValues, RuleError> {
        Err(RuleError::RuleElsewhere { op: self.name() })
    }

    fn recipe(&self, _operands: &[&TensorType]) -> Recipe {
        Recipe::Loop(self.clone())
    }

    fn programs(&self) -> Vec<&Arc<Program>> {
        match &self.trip {
            Trip::While(condition) => vec![&self.body, condition],
            Trip::Count(_) | Trip::Times | Trip::Each => vec![&self.body],
        }
    }

    fn map_programs(&self, map: &mut dyn FnMut(&Arc<Program>) -> Arc<Program>) -> Loop {
        let trip = match &self.trip {
            Trip::While(condition) => Trip::While(map(condition)),
            trip @ (Trip::Count(_) | Trip::Times | Trip::Each) => trip.clone(),
        };
        Loop { trip, body: map(&self.body), ..self.clone() }
    }

    fn takes_stacks(&self) -> bool {
        true
    }
}

/// `(c, s, x) -> (s * c + sin(x), s * x)`: const, carry and x that all carry tangents.
fn sample_body() -> Result<Program, TypeError> {
    let ty = TensorType::new(DType::F64, [2]);
    let mut b = Builder::new("body");
    let [c, s, x] = [0; 3].map(|_| b.param(ty.clone()));
    let (scaled, sin) = (b.mul(s, c)?, b.unary(Unary::Sin, x)?);
    let (next, y) = (b.add(scaled, sin)?, b.mul(s, x)?);
    Ok(b.finish(&[next, y]))
}

/// `(c, i, s) -> (i + 1, tanh(s * c))`: a counter beside a float carry.
fn sample_step() -> Result<Program, TypeError> {
    let (ty, int) = (TensorType::new(DType::F64, [2]), TensorType::scalar(DType::I64));
    let mut b = Builder::new("step");
    let (c, i, s) = (b.param(ty.clone()), b.param(int.clone()), b.param(ty));
    let one = b.number(&int, 1.0)?;
    let next = b.add(i, one)?;
    let scaled = b.mul(s, c)?;
    let s = b.unary(Unary::Tanh, scaled)?;
    Ok(b.finish(&[next, s]))
}

/// `(c, i, s) -> i < 3`.
fn sample_condition() -> Result<Program, TypeError> {
    let mut b = Builder::new("condition");
    let params = sample_step()?.param_types();
    let params: Vec<Value> = params.into_iter().map(|ty| b.param(ty)).collect();
    let three = b.number_like(params[1], 3.0)?;
    let less = b.compare(Compare::Lt, params[1], three)?;
    Ok(b.finish(&[less]))
}

fn samples() -> Result<Vec<Sample>, TypeError> {
    let (body, step) = (Arc::new(sample_body()?), Arc::new(sample_step()?));
    let condition = Arc::new(sample_condition()?);
    let float =
        |shape: &[usize]| SampleOperand::new(TensorType::new(DType::F64, shape), Domain::Uniform(-1.0, 1.0));
    let int = |bound| SampleOperand::new(TensorType::scalar(DType::I64), Domain::Below(bound));
    let counted = |n, reverse| {
        let op = Loop { trip: Trip::Count(n), reverse, consts: 1, carries: 1, body: body.clone() };
        Sample::new(op, vec![float(&[2]), float(&[2]), float(&[n, 2])])
    };
    let stepped = |trip: Trip| Loop { trip, reverse: false, consts: 1, carries: 2, body: step.clone() };
    Ok(vec![
        counted(3, false),
        counted(2, true),
        counted(0, false),
        Sample::new(stepped(Trip::Times), vec![int(4), float(&[2]), int(5), float(&[2])]),
        Sample::new(stepped(Trip::While(condition)), vec![float(&[2]), int(3), float(&[2])]),
    ])
}

/// What `map` makes of the consts and of one tensor of each stack, for all of them: a stack, levels and lengths as the
/// others have. Of tensors it is what `map` makes of these.
pub fn map_stacks(
    builder: &mut Builder,
    name: &str,
    consts: &[Value],
    stacks: &[Value],
    map: &mut dyn FnMut(&mut Builder, &[Value]) -> Result<Value, TypeError>,
) -> Result<Value, TypeError> {
    let operands = [consts, stacks].concat();
    if !stacks.iter().any(|&stack| builder.ty(stack).is_stack()) {
        return map(builder, &operands);
    }
    let mut body = Builder::new(name);
    let slice = |ty: &TensorType| ty.stack_slice().unwrap_or_else(|| ty.clone());
    let params: Vec<Value> = consts.iter().map(|&v| body.param(builder.ty(v).clone())).collect();
    let slices: Vec<Value> = stacks.iter().map(|&v| body.param(slice(builder.ty(v)))).collect();
    let y = map_stacks(&mut body, name, &params, &slices, map)?;
    let (consts, body) = (consts.len(), Arc::new(body.finish(&[y])));
    builder.one(Loop { trip: Trip::Each, reverse: false, consts, carries: 0, body }, &operands)
}

/// A stack of this type without slices.
pub(crate) fn empty_stack(builder: &mut Builder, ty: &TensorType) -> Result<Value, TypeError> {
    let slice = ty.stack_slice().unwrap_or_else(|| ty.clone());
    let mut body = Builder::new("nothing");
    let y = if slice.is_stack() { empty_stack(&mut body, &slice)? } else { body.number(&slice, 0.0)? };
    let body = Arc::new(body.finish(&[y]));
    let none = builder.scalar(0i64)?;
    builder.one(Loop { trip: Trip::Times, reverse: false, consts: 0, carries: 0, body }, &[none])
}

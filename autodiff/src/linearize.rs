//! Linearization: one walk over a program fills two builders, the primal program and the linear one.

use crate::control::nested::Nested;
use crate::control::{branch, call, custom_call, custom_rule, custom_vjp, looping, solve};
use crate::error::AdError;
use crate::options::Autodiff;
use indexmap::IndexMap;
use pullback_ir::ops::control::call::Call;
use pullback_ir::ops::{Equation, Op};
use pullback_ir::program::Values;
use pullback_ir::rules::{Cotangents, RuleError};
use pullback_ir::{Builder, Linearizer, Node, Program, Stage, Value};
use slotmap::SecondaryMap;

/// A program split into its value and its derivative.
#[derive(Clone, PartialEq, Debug)]
pub struct Linearized {
    /// `params.. -> outputs.., residuals..`. A residual may be a parameter or an output once more.
    pub primal: Program,
    /// `residuals.., tangents of wrt.. -> tangents`, those of the outputs listed in `active`.
    pub linear: Program,
    /// Number of outputs of the program, which come first among those of `primal`.
    pub outputs: usize,
    /// Which outputs have a tangent, ascending; that of every other one is zero.
    pub active: Vec<usize>,
}

impl Linearized {
    /// Number of residuals.
    pub fn residuals(&self) -> usize {
        self.primal.outputs().len() - self.outputs
    }

    /// Refuses a linear part that has only a transpose, since a rule of reverse mode that is not linear is in it: to be
    /// asked before it is run as it stands.
    pub fn check_forward(&self) -> Result<(), AdError> {
        custom_vjp::check_forward(&self.linear)
    }

    /// The residuals, as values of `primal`.
    pub fn residual_values(&self) -> &[Value] {
        &self.primal.outputs()[self.outputs..]
    }
}

/// Checks a list of parameters to differentiate with respect to.
pub(crate) fn check_wrt(program: &Program, wrt: &[usize]) -> Result<(), AdError> {
    let params = program.params().len();
    let mut named = vec![false; params];
    for &index in wrt {
        let Some(&param) = program.params().get(index) else {
            return Err(AdError::WrtOutOfRange { index, params, program: program.name().to_string() });
        };
        if std::mem::replace(&mut named[index], true) {
            return Err(AdError::WrtRepeated { index });
        }
        let ty = program.ty(param);
        if !ty.dtype.is_float() {
            return Err(AdError::WrtNotFloat { index, ty: ty.clone() });
        }
    }
    Ok(())
}

/// Linearizes a program with respect to parameters that [`check_wrt`] has accepted.
pub(crate) fn linearize_program(
    autodiff: &Autodiff,
    nested: &mut Nested,
    program: &Program,
    wrt: &[usize],
) -> Result<Linearized, AdError> {
    let mut walk = Walk::new(autodiff, program, wrt);
    for node in program.nodes() {
        walk.node(nested, node).map_err(|failure| failure.at(node))?;
    }
    Ok(walk.finish())
}

/// Why a walk stopped: at a rule, whose place is still to be named, or within a nested program.
pub(crate) enum Failure {
    /// A rule failed.
    Rule(RuleError),
    /// A transform of a nested program failed.
    Nested(Box<AdError>),
}

impl<E: Into<RuleError>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Rule(error.into())
    }
}

impl Failure {
    /// The error, with the place of the op.
    pub(crate) fn at(self, node: &Node) -> AdError {
        match self {
            Failure::Rule(source) => AdError::Rule { origin: Box::new(node.loc), source },
            Failure::Nested(error) => *error,
        }
    }
}

/// The values through which an output can have a tangent: float all the way.
fn useful(program: &Program) -> SecondaryMap<Value, ()> {
    let is_float = |v: &&Value| program.ty(**v).dtype.is_float();
    let mut useful: SecondaryMap<Value, ()> =
        program.outputs().iter().filter(is_float).map(|&v| (v, ())).collect();
    for node in program.nodes().rev() {
        if node.results.iter().any(|&v| useful.contains_key(v)) {
            useful.extend(node.operands.iter().filter(is_float).map(|&v| (v, ())));
        }
    }
    useful
}

struct Walk<'a> {
    autodiff: &'a Autodiff,
    program: &'a Program,
    useful: SecondaryMap<Value, ()>,
    primal: Builder,
    linear: Builder,
    /// Values of `primal` that the linear program needs, with their parameters there.
    residuals: IndexMap<Value, Value>,
    /// For each value of the program its value in `primal`.
    values: SecondaryMap<Value, Value>,
    /// Parameters of the linear program for the tangents of wrt.
    directions: Vec<Value>,
    /// For each value of the program that has a tangent the tangent, in `linear`.
    tangents: SecondaryMap<Value, Value>,
}

impl<'a> Walk<'a> {
    fn new(autodiff: &'a Autodiff, program: &'a Program, wrt: &[usize]) -> Walk<'a> {
        let mut primal = Builder::new(&format!("{}_primal", program.name()));
        let mut linear = Builder::new(&format!("{}_linear", program.name()));
        let values = program.params().iter().map(|&v| (v, primal.param(program.ty(v).clone()))).collect();
        let params: Vec<Value> = wrt.iter().map(|&i| program.params()[i]).collect();
        let directions: Vec<Value> = params.iter().map(|&v| linear.param(program.ty(v).clone())).collect();
        let tangents = params.into_iter().zip(directions.iter().copied()).collect();
        let (useful, residuals) = (useful(program), IndexMap::new());
        Walk { autodiff, program, useful, primal, linear, residuals, values, directions, tangents }
    }

    fn node(&mut self, nested: &mut Nested, node: &Node) -> Result<(), Failure> {
        let operands: Values = node.operands.iter().map(|&v| self.values[v]).collect();
        let tangents: Cotangents = node.operands.iter().map(|&v| self.tangents.get(v).copied()).collect();
        self.primal.set_loc(node.loc);
        let is_active =
            tangents.iter().any(Option::is_some) && node.results.iter().any(|&v| self.useful.contains_key(v));
        let (results, tangents) = if is_active {
            self.derivative(nested, node, &operands, &tangents)?
        } else {
            (self.primal.emit(node.op.clone(), &operands)?, Cotangents::from_elem(None, node.results.len()))
        };
        for ((&value, result), tangent) in node.results.iter().zip(results).zip(tangents) {
            self.values.insert(value, result);
            if let Some(tangent) = tangent.filter(|_| self.program.ty(value).dtype.is_float()) {
                debug_assert_eq!(self.linear.ty(tangent), self.program.ty(value), "tangent of {:?}", node.op);
                self.tangents.insert(value, tangent);
            }
        }
        Ok(())
    }

    /// The op's results and their tangents.
    fn derivative(
        &mut self,
        nested: &mut Nested,
        node: &Node,
        operands: &[Value],
        tangents: &[Option<Value>],
    ) -> Result<(Values, Cotangents), Failure> {
        match &node.op {
            Op::Call(op) => {
                if let Some(called) = self.call(nested, node, op, operands, tangents)? {
                    return Ok(called);
                }
            }
            Op::CustomLinear(op) if op.inverse_of.is_some() => {
                let solver = solve::linearized(self.autodiff, nested, op, tangents)?;
                let results = self.primal.emit(node.op.clone(), operands)?;
                let equation = Equation { operands, results: &results };
                let found = self.rule(node, |lin| solver.linearize(op, lin, equation, tangents))?;
                return Ok((results, found));
            }
            Op::CustomLinear(op) if tangents[..op.known].iter().any(Option::is_some) => {
                let missing = || RuleError::NoForwardMode { name: op.name.clone() };
                let call = Call::new(op.forward.clone().ok_or_else(missing)?);
                if let Some(called) = self.call(nested, node, &call, operands, tangents)? {
                    return Ok(called);
                }
            }
            Op::CustomLinear(op) => {
                let results = self.primal.emit(node.op.clone(), operands)?;
                let equation = Equation { operands, results: &results };
                let found =
                    self.rule(node, |lin| custom_vjp::linearize_linear(op, lin, equation, tangents))?;
                return Ok((results, found));
            }
            Op::CustomVjp(op) => {
                if let Some(linearized) = custom_vjp::linearized(self.autodiff, nested, op, tangents)? {
                    let results = linearized.emit_primal(&mut self.primal, operands)?;
                    let equation = Equation { operands, results: &results };
                    let found = self.rule(node, |lin| linearized.linearize(lin, equation, tangents))?;
                    return Ok((results[..node.results.len()].into(), found));
                }
            }
            Op::Loop(op) => {
                if let Some(linearized) = looping::linearized(self.autodiff, nested, op, tangents)? {
                    let (results, kept) = linearized.emit_primal(&mut self.primal, operands)?;
                    let equation = Equation { operands, results: &results };
                    let found =
                        self.rule(node, |lin| linearized.linearize(lin, equation, &kept, tangents))?;
                    return Ok((results, found));
                }
            }
            Op::Branch(op) => {
                if let Some(linearized) = branch::linearized(self.autodiff, nested, op, tangents)? {
                    let results = linearized.emit_primal(&mut self.primal, operands)?;
                    let equation = Equation { operands, results: &results };
                    let found = self.rule(node, |lin| linearized.linearize(lin, equation, tangents))?;
                    return Ok((results[..node.results.len()].into(), found));
                }
            }
            Op::CustomJvp(op) => {
                if let Some(parts) = custom_rule::jvp(self.autodiff, nested, op, tangents)? {
                    let results = self.primal.emit(node.op.clone(), operands)?;
                    let equation = Equation { operands, results: &results };
                    let rule = |lin: &mut Linearizer<'_>| {
                        custom_rule::linearize_jvp(&parts, op, lin, equation, tangents)
                    };
                    let found = self.rule(node, rule)?;
                    return Ok((results, found));
                }
            }
            Op::CustomCall(call) => {
                let results = self.primal.emit(node.op.clone(), operands)?;
                let (equation, contracts) =
                    (Equation { operands, results: &results }, &self.autodiff.contracts);
                let found =
                    self.rule(node, |lin| custom_call::linearize(contracts, call, lin, equation, tangents))?;
                return Ok((results, found));
            }
            op => {
                let results = self.primal.emit(op.clone(), operands)?;
                let equation = Equation { operands, results: &results };
                let found = self.rule(node, |lin| op.linearize(lin, equation, tangents))?;
                return Ok((results, found));
            }
        }
        // Of a nested program no result has a tangent.
        let results = self.primal.emit(node.op.clone(), operands)?;
        Ok((results, Cotangents::from_elem(None, node.results.len())))
    }

    /// The results of a call and their tangents. `None` if none has one.
    fn call(
        &mut self,
        nested: &mut Nested,
        node: &Node,
        op: &Call,
        operands: &[Value],
        tangents: &[Option<Value>],
    ) -> Result<Option<(Values, Cotangents)>, Failure> {
        let split = nested.call_linearized(self.autodiff, op, &given(tangents))?;
        if split.active.is_empty() {
            return Ok(None);
        }
        let results = call::emit_primal(&split, op, &mut self.primal, operands)?;
        let equation = Equation { operands, results: &results };
        let found = self.rule(node, |lin| call::linearize(&split, op, lin, equation, tangents))?;
        Ok(Some((results[..node.results.len()].into(), found)))
    }

    /// Runs a rule with the place and the hooks set.
    fn rule(
        &mut self,
        node: &Node,
        rule: impl FnOnce(&mut Linearizer<'_>) -> Result<Cotangents, RuleError>,
    ) -> Result<Cotangents, RuleError> {
        let loc = derived(node, Stage::Linearize.name());
        for builder in [&mut self.primal, &mut self.linear] {
            builder.set_loc(loc);
            builder.set_hook(self.autodiff.hooks.at(Stage::Linearize));
        }
        let (primal, linear) = (&mut self.primal, &mut self.linear);
        let tangents = rule(&mut Linearizer { primal, linear, residuals: &mut self.residuals });
        self.primal.set_hook(None);
        self.linear.set_hook(None);
        tangents
    }

    fn finish(self) -> Linearized {
        let outputs = self.program.outputs();
        let active: Vec<usize> =
            (0..outputs.len()).filter(|&i| self.tangents.contains_key(outputs[i])).collect();
        let tangents: Vec<Value> = active.iter().map(|&i| self.tangents[outputs[i]]).collect();
        let values = outputs.iter().map(|&v| self.values[v]);
        let primal_outputs: Vec<Value> = values.chain(self.residuals.keys().copied()).collect();
        let params: Vec<Value> = self.residuals.values().chain(&self.directions).copied().collect();
        Linearized {
            primal: self.primal.finish(&primal_outputs),
            linear: self.linear.finish_with_params(&params, &tangents),
            outputs: outputs.len(),
            active,
        }
    }
}

/// Which tangents, or cotangents, are not symbolic zeros.
pub(crate) fn given(tangents: &[Option<Value>]) -> Vec<bool> {
    tangents.iter().map(Option::is_some).collect()
}

/// The place of what a transform makes of an op. Through several transforms it stays the op the user wrote.
pub(crate) fn derived(node: &Node, transform: &'static str) -> pullback_ir::Loc {
    node.loc.via(transform, node.loc.origin(node.op.name()))
}

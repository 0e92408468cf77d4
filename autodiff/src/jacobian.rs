//! Jacobians: the derivative along every direction at once. Directions are the lanes of a batch.

use crate::control::nested::{Nested, transpose_program};
use crate::derive::{Linearization, begin, end, wrt_types};
use crate::error::AdError;
use crate::linearize::check_wrt;
use crate::options::Autodiff;
use pullback_ir::ops::elementwise::compare::Compare;
use pullback_ir::{Batched, Batcher, Builder, DType, Program, Shape, TensorType, TypeError, Value};

impl Autodiff {
    /// The derivative of every output by every parameter in `wrt`: `params.. -> blocks`, those of the first output
    /// first. A block has the shape of the output followed by that of the parameter, and the output's dtype. By forward
    /// mode with one lane per element of a parameter, so cheap where parameters have fewer elements than outputs.
    pub fn jacfwd(&self, program: &Program, wrt: &[usize]) -> Result<Program, AdError> {
        let mut jacobian = Jacobian::begin(self, program, wrt, "jacfwd")?;
        jacobian.at.linearized.check_forward()?;
        for i in 0..wrt.len() {
            self.push_basis(&mut jacobian, i)?;
        }
        jacobian.end()
    }

    /// The same blocks as [`jacfwd`](Autodiff::jacfwd), by reverse mode with one lane per element of an output, so cheap
    /// where outputs have fewer elements than parameters.
    pub fn jacrev(&self, program: &Program, wrt: &[usize]) -> Result<Program, AdError> {
        let mut jacobian = Jacobian::begin(self, program, wrt, "jacrev")?;
        for o in 0..program.outputs().len() {
            self.pull_basis(&mut jacobian, o)?;
        }
        jacobian.end()
    }

    /// [`jacfwd`](Autodiff::jacfwd) or [`jacrev`](Autodiff::jacrev), whichever has fewer lanes.
    pub fn jacobian(&self, program: &Program, wrt: &[usize]) -> Result<Program, AdError> {
        check_wrt(program, wrt)?;
        let elements =
            |types: &[TensorType]| types.iter().map(|ty| ty.shape.elements() as u128).sum::<u128>();
        if elements(&wrt_types(program, wrt)) <= elements(&program.output_types()) {
            self.jacfwd(program, wrt)
        } else {
            self.jacrev(program, wrt)
        }
    }

    /// The blocks of parameter `i` of wrt.
    fn push_basis(&self, jacobian: &mut Jacobian, i: usize) -> Result<(), AdError> {
        let Jacobian { builder, at, params, .. } = jacobian;
        let linear = &at.linearized.linear;
        // The part of the derivative that depends on this tangent: what a linear program is linearized to.
        // Hooks have seen its ops already.
        let part = self.without_hooks().linearize(linear, &[at.residuals.len() + i])?;
        let mut args = at.residuals.clone();
        for ty in params.iter() {
            args.push(builder.number(ty, 0.0)?);
        }
        let residuals = builder.inline(&part.primal, &args)?.split_off(part.outputs);
        let mut args: Vec<Batched> = residuals.into_iter().map(Batched::same).collect();
        args.push(Batched::along(basis(builder, &params[i])?, 0));
        let size = params[i].shape.elements();
        let found = self.batch_into(builder, &part.linear, &args, size)?;
        for (&active, tangent) in part.active.iter().zip(found) {
            let o = jacobian.at.linearized.active[active];
            let last = jacobian.outputs[o].shape.rank();
            let tangent = Batcher { builder: &mut jacobian.builder, size }.at(tangent, last)?;
            jacobian.put(o, i, tangent)?;
        }
        Ok(())
    }

    /// The blocks of output `o`.
    fn pull_basis(&self, jacobian: &mut Jacobian, o: usize) -> Result<(), AdError> {
        let Jacobian { builder, at, outputs, .. } = jacobian;
        let (linear, residuals) = (&at.linearized.linear, at.residuals.len());
        let known: Vec<bool> = (0..linear.params().len()).map(|p| p < residuals).collect();
        let seeded: Vec<bool> = at.linearized.active.iter().map(|&active| active == o).collect();
        if !seeded.contains(&true) {
            return Ok(());
        }
        let is_linear: Vec<bool> = known.iter().map(|known| !known).collect();
        let started = vec![false; is_linear.len()];
        let transposed =
            transpose_program(self, &mut Nested::default(), linear, &is_linear, &seeded, &started)?;
        let mut args: Vec<Batched> = at.residuals.iter().copied().map(Batched::same).collect();
        args.push(Batched::along(basis(builder, &outputs[o])?, 0));
        let size = outputs[o].shape.elements();
        let found = self.batch_into(builder, &transposed.program, &args, size)?;
        for (param, cotangent) in transposed.active.into_iter().zip(found) {
            let cotangent = Batcher { builder: &mut jacobian.builder, size }.at(cotangent, 0)?;
            jacobian.put(o, param - residuals, cotangent)?;
        }
        Ok(())
    }
}

/// [`Autodiff::jacfwd`] without contracts and hooks.
pub fn jacfwd(program: &Program, wrt: &[usize]) -> Result<Program, AdError> {
    Autodiff::default().jacfwd(program, wrt)
}

/// [`Autodiff::jacrev`] without contracts and hooks.
pub fn jacrev(program: &Program, wrt: &[usize]) -> Result<Program, AdError> {
    Autodiff::default().jacrev(program, wrt)
}

/// [`Autodiff::jacobian`] without contracts and hooks.
pub fn jacobian(program: &Program, wrt: &[usize]) -> Result<Program, AdError> {
    Autodiff::default().jacobian(program, wrt)
}

/// A Jacobian under construction.
struct Jacobian {
    builder: Builder,
    at: Linearization,
    /// Types of the outputs.
    outputs: Vec<TensorType>,
    /// Types of the parameters differentiated by.
    params: Vec<TensorType>,
    /// By output, then parameter; `None` for zero.
    blocks: Vec<Option<Value>>,
}

impl Jacobian {
    fn begin(autodiff: &Autodiff, program: &Program, wrt: &[usize], name: &str) -> Result<Jacobian, AdError> {
        check_wrt(program, wrt)?;
        let outputs = program.output_types();
        if let Some(index) = outputs.iter().position(|ty| !ty.dtype.is_float()) {
            return Err(AdError::OutputNotFloat { index, ty: outputs[index].clone() });
        }
        let (mut builder, args) = begin(program, name);
        let at = autodiff.linearize_into(&mut builder, program, &args, wrt)?;
        let blocks = vec![None; outputs.len() * wrt.len()];
        Ok(Jacobian { builder, at, outputs, params: wrt_types(program, wrt), blocks })
    }

    /// Keeps the elements of a block, which are in its order.
    fn put(&mut self, o: usize, i: usize, elements: Value) -> Result<(), TypeError> {
        let ty = self.block_type(o, i);
        let block = self.builder.reshape(elements, ty.shape)?;
        let place = o * self.params.len() + i;
        self.blocks[place] = Some(self.builder.convert(block, ty.dtype)?);
        Ok(())
    }

    fn block_type(&self, o: usize, i: usize) -> TensorType {
        let (output, param) = (&self.outputs[o], &self.params[i]);
        output.with_shape(output.shape.iter().chain(param.shape.iter()).copied().collect::<Shape>())
    }

    fn end(mut self) -> Result<Program, AdError> {
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for (place, block) in self.blocks.iter().enumerate() {
            let ty = self.block_type(place / self.params.len(), place % self.params.len());
            blocks.push(match block {
                Some(block) => *block,
                None => self.builder.number(&ty, 0.0)?,
            });
        }
        Ok(end(self.builder, &blocks))
    }
}

/// The unit vectors of a type, as lanes along axis 0.
fn basis(b: &mut Builder, ty: &TensorType) -> Result<Value, TypeError> {
    let n = ty.shape.elements();
    let square = TensorType::new(DType::I64, [n, n]);
    let (rows, columns) = (b.iota(square.clone(), 0)?, b.iota(square, 1)?);
    let is_one = b.compare(Compare::Eq, rows, columns)?;
    let ones = b.convert(is_one, ty.dtype)?;
    b.reshape(ones, [n].iter().chain(ty.shape.iter()).copied().collect::<Shape>())
}

//! How dependence flows through nested programs. A loop whose trips are known is followed step by step; of any other
//! one is found what holds after each step, however many there are.

use super::Walk;
use super::flow::{Flow, elements, named};
use crate::array::Array;
use pullback_ir::ops::control::branch::Branch;
use pullback_ir::ops::control::looping::{Loop, Roles, Trip};
use pullback_ir::{Program, TensorType};

/// How often what holds after each step is refined before what still grows is taken to depend on everything.
const ROUNDS: usize = 64;

impl Walk {
    /// The arm that is taken, or what is true of all of them.
    pub(super) fn branch(&mut self, op: &Branch, operands: &[&Flow]) -> Vec<Flow> {
        let rest: Vec<Flow> = operands[1..].iter().map(|&flow| flow.clone()).collect();
        if let Flow::Known(index) = operands[0]
            && let Ok(index) = index.item::<i32>()
        {
            return self.program(op.arm(index), rest);
        }
        let mut all = self.program(&op.arms[0], rest.clone());
        for arm in &op.arms[1..] {
            let types = arm.output_types();
            let found = self.program(arm, rest.clone());
            all = all.iter().zip(&found).zip(&types).map(|((a, b), ty)| self.join(a, b, ty)).collect();
        }
        if operands[0].is_tracked() {
            // Which arm is taken depends on tracked elements, and with it everything.
            let types = op.arms[0].output_types();
            return self.dense(operands.iter().copied().chain(&all), &types);
        }
        all
    }

    pub(super) fn looping(&mut self, op: &Loop, operands: &[&Flow], results: &[TensorType]) -> Vec<Flow> {
        let flows: Vec<Flow> = operands.iter().map(|&flow| flow.clone()).collect();
        let roles = op.roles(&flows);
        if roles.times.is_some_and(Flow::is_tracked) {
            return self.dense(&flows, results);
        }
        match self.stepped(op, &roles, results) {
            Some(found) => found,
            None => self.settled(op, &roles, results),
        }
    }

    /// The loop step by step; `None` if its trips are unknown or too many.
    fn stepped(&mut self, op: &Loop, roles: &Roles<'_, Flow>, results: &[TensorType]) -> Option<Vec<Flow>> {
        let trips = match &op.trip {
            Trip::Count(n) => Some(*n),
            Trip::Times => match roles.times? {
                Flow::Known(times) => Some(times.item::<i64>().ok()?.max(0) as usize),
                Flow::Varying | Flow::Sets(_) | Flow::Stack(_) | Flow::Each(_) => return None,
            },
            Trip::Each => Some(roles.xs.first()?.slices()?),
            Trip::While(_) => None,
        };
        let lengths = |x: &Flow| x.slices().is_some_and(|found| Some(found) != trips);
        if trips.is_some_and(|n| n.saturating_mul(op.body.len().max(1)) > self.fuel)
            || roles.xs.iter().any(lengths)
        {
            return None;
        }
        let mut carries = roles.carries.to_vec();
        let mut ys: Vec<Vec<Flow>> = vec![Vec::new(); op.ys()];
        let mut done = 0;
        while self.goes_on(op, trips, done, roles.consts, &carries)? {
            let at = match trips {
                Some(n) if op.reverse => n - 1 - done,
                Some(_) | None => done,
            };
            let slices = roles.xs.iter().map(|x| x.slice(at));
            carries =
                self.program(&op.body, roles.consts.iter().cloned().chain(carries).chain(slices).collect());
            for (y, slice) in ys.iter_mut().zip(carries.drain(op.carries..)) {
                y.push(slice);
            }
            done += 1;
        }
        let types = op.body.output_types();
        for ((slice, mut y), ty) in types[op.carries..].iter().zip(ys).zip(&results[op.carries..]) {
            if op.reverse {
                y.reverse();
            }
            carries.push(if ty.is_stack() { Flow::Stack(y) } else { rows(slice, &y, ty) });
        }
        if op.has_count() {
            carries.push(Flow::Known(Array::scalar(done as i64)));
        }
        Some(carries)
    }

    /// Whether there is one more step; `None` if that is unknown.
    fn goes_on(
        &mut self,
        op: &Loop,
        trips: Option<usize>,
        done: usize,
        consts: &[Flow],
        carries: &[Flow],
    ) -> Option<bool> {
        let Trip::While(condition) = &op.trip else { return Some(trips.is_some_and(|n| done < n)) };
        if self.fuel == 0 {
            return None;
        }
        match self.program(condition, consts.iter().chain(carries).cloned().collect()).first()? {
            Flow::Known(goes_on) => goes_on.item().ok(),
            Flow::Varying | Flow::Sets(_) | Flow::Stack(_) | Flow::Each(_) => None,
        }
    }

    /// What is true of a loop however often it runs.
    fn settled(&mut self, op: &Loop, roles: &Roles<'_, Flow>, results: &[TensorType]) -> Vec<Flow> {
        let params = op.body.param_types();
        let (types, slices) = (op.body.output_types(), &params[op.consts + op.carries..]);
        let xs: Vec<Flow> = roles.xs.iter().zip(slices).map(|(x, ty)| self.any_slice_of(x, ty)).collect();
        let mut carries = roles.carries.to_vec();
        for round in 0.. {
            let arguments = roles.consts.iter().chain(&carries).chain(&xs);
            let arguments: Vec<Flow> = arguments.cloned().collect();
            if let Trip::While(condition) = &op.trip
                && self.decides_by_tracked(condition, &arguments)
            {
                return self.dense(&arguments, results);
            }
            let mut found = self.program(&op.body, arguments.clone());
            let ys = found.split_off(op.carries);
            let joined: Vec<Flow> = (carries.iter().zip(&found).zip(&types))
                .map(|((old, new), ty)| self.join(old, new, ty))
                .collect();
            if joined.iter().zip(&carries).all(|(new, old)| new.is_same(old)) {
                let ys = ys.into_iter().zip(&results[op.carries..]);
                carries.extend(ys.map(|(y, ty)| repeated(y, ty)));
                carries.extend(op.has_count().then_some(Flow::Varying));
                return carries;
            }
            carries = if round < ROUNDS {
                joined
            } else {
                let everything = self.dense(&arguments, &types[..op.carries]);
                let next = joined.into_iter().zip(&carries).zip(everything);
                next.map(|((new, old), all)| if new.is_same(old) { new } else { all }).collect()
            };
        }
        carries
    }

    /// Whether the number of iterations depends on tracked elements.
    fn decides_by_tracked(&mut self, condition: &Program, arguments: &[Flow]) -> bool {
        let arguments = arguments[..condition.params().len()].to_vec();
        self.program(condition, arguments).iter().any(Flow::is_tracked)
    }

    /// What is true of each slice of an x, of a type.
    fn any_slice_of(&mut self, x: &Flow, slice: &TensorType) -> Flow {
        match x {
            Flow::Sets(ids) => {
                let n = slice.shape.elements().max(1);
                let pairs = elements(ids).iter().enumerate().map(|(i, &id)| ((i % n) as u32, id));
                Flow::Sets(self.gathered(slice, pairs))
            }
            Flow::Known(_) | Flow::Varying | Flow::Stack(_) | Flow::Each(_) => {
                self.any_slice(x, slice).unwrap_or(Flow::Varying)
            }
        }
    }
}

/// Rows one under the other, as a tensor of type `ty`.
fn rows(row: &TensorType, rows: &[Flow], ty: &TensorType) -> Flow {
    let known = rows.iter().map(|flow| match flow {
        Flow::Known(array) => Some(array.clone()),
        Flow::Varying | Flow::Sets(_) | Flow::Stack(_) | Flow::Each(_) => None,
    });
    if let Some(known) = known.collect::<Option<Vec<Array>>>() {
        return Flow::Known(Array::from_rows(row, &known));
    }
    if !rows.iter().any(Flow::is_tracked) {
        return Flow::Varying;
    }
    let mut ids = Vec::with_capacity(ty.shape.elements());
    rows.iter().for_each(|flow| ids.extend_from_slice(elements(&flow.ids(row))));
    Flow::Sets(named(ty, ids))
}

/// The y of type `ty` of each slice of which this is true.
fn repeated(slice: Flow, ty: &TensorType) -> Flow {
    match slice {
        slice if ty.is_stack() => Flow::Each(Box::new(slice)),
        Flow::Sets(ids) => {
            let ids = elements(&ids).iter().copied().cycle();
            Flow::Sets(named(ty, ids.take(ty.shape.elements()).collect()))
        }
        Flow::Known(_) | Flow::Varying | Flow::Stack(_) | Flow::Each(_) => Flow::Varying,
    }
}

//! Einstein's summation: `einsum("bij,bjk->bik", &[&x, &y])`.

use crate::error::Error;
use crate::ops::contract::dot;
use crate::tensor::{Tensor, attempt};
use pullback_ir::ops::contract::dot::Dot;
use pullback_ir::{Dims, Loc};

/// Sums of products of elements, by letters: each letter is an axis, equal letters go along together, letters not
/// after `->` are summed over. Operands are contracted from left to right.
#[track_caller]
pub fn einsum(letters: &str, operands: &[&Tensor]) -> Tensor {
    attempt!(contract(letters, operands, Loc::caller()))
}

fn contract(letters: &str, operands: &[&Tensor], at: Loc) -> Result<Tensor, Error> {
    let refuse = |text: &str| Error::invalid("einsum", format!("\"{letters}\": {text}"), at);
    let letters_only: String = letters.chars().filter(|c| !c.is_whitespace()).collect();
    let Some((inputs, output)) = letters_only.split_once("->") else {
        return Err(refuse("there is no ->; write the letters of the result after it"));
    };
    let inputs: Vec<Vec<char>> = inputs.split(',').map(|part| part.chars().collect()).collect();
    let output: Vec<char> = output.chars().collect();
    if inputs.len() != operands.len() {
        return Err(refuse(&format!("it names {} operands and {} are given", inputs.len(), operands.len())));
    }
    for (part, operand) in inputs.iter().zip(operands) {
        if part.len() != operand.rank()? {
            let part: String = part.iter().collect();
            return Err(refuse(&format!(
                "\"{part}\" does not have one letter per axis of {}",
                operand.ty()?
            )));
        }
        if repeats(part) {
            return Err(refuse("a letter occurs twice in one operand; take its diagonal first"));
        }
    }
    if repeats(&output) || output.iter().any(|c| !inputs.iter().any(|part| part.contains(c))) {
        return Err(refuse("each letter of the result must occur once there, and in some operand"));
    }
    let mut axes = Vec::new();
    let mut result: Option<Tensor> = None;
    for (i, &operand) in operands.iter().enumerate() {
        let needed = |c: &char| output.contains(c) || inputs[i + 1..].iter().any(|part| part.contains(c));
        (result, axes) = match result {
            None => (Some(operand.clone()), inputs[i].clone()),
            Some(left) => {
                let (product, axes) = pair(&left, &axes, operand, &inputs[i], &needed, at)?;
                (Some(product), axes)
            }
        };
        if let Some(tensor) = result {
            let (summed, kept) = sum_out(&tensor, &axes, &needed);
            (result, axes) = (Some(summed.ok()?), kept);
        }
    }
    let result = result.ok_or_else(|| refuse("there is no operand; give at least one"))?;
    let permutation = output.iter().filter_map(|c| axes.iter().position(|a| a == c)).collect();
    result.permute_to(permutation, at).ok()
}

fn repeats(letters: &[char]) -> bool {
    letters.iter().enumerate().any(|(i, c)| letters[..i].contains(c))
}

/// Sums over the axes nobody needs.
fn sum_out(tensor: &Tensor, axes: &[char], needed: &dyn Fn(&char) -> bool) -> (Tensor, Vec<char>) {
    let gone: Vec<usize> = (0..axes.len()).filter(|&d| !needed(&axes[d])).collect();
    let kept = axes.iter().copied().filter(needed).collect();
    (if gone.is_empty() { tensor.clone() } else { tensor.sum_axes(gone.as_slice()) }, kept)
}

/// The product of two operands, summed over the letters that both have and nobody else needs.
fn pair(
    left: &Tensor,
    left_axes: &[char],
    right: &Tensor,
    right_axes: &[char],
    needed: &dyn Fn(&char) -> bool,
    at: Loc,
) -> Result<(Tensor, Vec<char>), Error> {
    let mut op = Dot {
        lhs_contract: Dims::new(),
        rhs_contract: Dims::new(),
        lhs_batch: Dims::new(),
        rhs_batch: Dims::new(),
    };
    let mut batch = Vec::new();
    for (l, c) in left_axes.iter().enumerate() {
        let Some(r) = right_axes.iter().position(|d| d == c) else { continue };
        if needed(c) {
            op.lhs_batch.push(l);
            op.rhs_batch.push(r);
            batch.push(*c);
        } else {
            op.lhs_contract.push(l);
            op.rhs_contract.push(r);
        }
    }
    let left_free = left_axes.iter().filter(|c| !right_axes.contains(c));
    let right_free = right_axes.iter().filter(|c| !left_axes.contains(c));
    let axes = batch.into_iter().chain(left_free.copied()).chain(right_free.copied()).collect();
    Ok((dot("einsum", op, left, right, at)?, axes))
}

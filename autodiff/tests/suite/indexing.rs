//! Reading and writing at computed indices: duplicates, indices out of range, and what each mode makes of them.

use crate::common::*;
use pullback_autodiff::{grad, jvp};
use pullback_ir::ops::index::IndexMode;
use pullback_ir::ops::index::dynamic_slice::DynamicSlice;
use pullback_ir::ops::index::dynamic_update_slice::DynamicUpdateSlice;
use pullback_ir::ops::index::gather::Gather;
use pullback_ir::ops::index::scatter::{Scatter, ScatterKind};
use pullback_ir::shape::Dims;
use pullback_ir::{DType, Program, TensorType};
use pullback_runtime::{Array, interpret};

fn gather(dim: usize, batch_dims: usize, mode: IndexMode) -> Gather {
    Gather { index_dims: Dims::from_slice(&[dim]), batch_dims, mode }
}

fn scatter(kind: ScatterKind, dim: usize, batch_dims: usize, mode: IndexMode) -> Scatter {
    Scatter { kind, index_dims: Dims::from_slice(&[dim]), batch_dims, mode }
}

fn i64s(shape: &[usize]) -> TensorType {
    TensorType::new(DType::I64, shape)
}

fn indices(values: &[i64], shape: &[usize]) -> Array {
    Array::from_slice(values, shape).unwrap()
}

/// The weighted sum of what a vector of 4 holds at as many places as there are weights.
fn reading(weights: &[f64], mode: IndexMode) -> Program {
    program("f", &[f64s(&[4]), i64s(&[weights.len(), 1])], |b, p| {
        let read = b.one(gather(0, 0, mode), p)?;
        Ok(vec![weighted(b, read, weights)?])
    })
}

/// The weighted sum of a vector of 3 after writes.
fn writing(kind: ScatterKind, writes: usize, weights: &[f64], mode: IndexMode) -> Program {
    program("f", &[f64s(&[3]), f64s(&[writes]), i64s(&[writes, 1])], |b, p| {
        let written = b.one(scatter(kind, 0, 0, mode), &[p[0], p[2], p[1]])?;
        Ok(vec![weighted(b, written, weights)?])
    })
}

fn ten_to_forty() -> Array {
    vector(&[10.0, 20.0, 30.0, 40.0])
}

#[test]
fn reads_add_up_where_indices_repeat() {
    let f = reading(&[1.0, 10.0, 100.0], IndexMode::Checked);
    check_gradient(&f, &[ten_to_forty(), indices(&[2, 2, 0], &[3, 1])], &[&[100.0, 0.0, 11.0, 0.0]], 0.0);
}

#[test]
fn clipped_reads_add_up_at_the_ends() {
    let f = reading(&[1.0, 1.0], IndexMode::Clip);
    let at = [ten_to_forty(), indices(&[4, -5], &[2, 1])];
    assert_eq!(floats(&run(&f, &at)[0]), [50.0]);
    check_gradient(&f, &at, &[&[1.0, 0.0, 0.0, 1.0]], 0.0);
}

#[test]
fn dropped_reads_have_no_slope() {
    let f = reading(&[1.0, 10.0, 100.0, 1000.0], IndexMode::Drop);
    let at = [ten_to_forty(), indices(&[4, 3, -1, 3], &[4, 1])];
    assert_eq!(floats(&run(&f, &at)[0]), [40400.0]);
    check_gradient(&f, &at, &[&[0.0, 0.0, 0.0, 1010.0]], 0.0);
}

#[test]
fn checked_reads_out_of_range_fail_in_derivatives_too() {
    let f = reading(&[1.0], IndexMode::Checked);
    let at = [ten_to_forty(), indices(&[4], &[1, 1])];
    assert!(interpret(&f, &at).is_err());
    assert!(interpret(&grad(&f, &[0]).unwrap(), &at).is_err());
    let forward = jvp(&f, &[0]).unwrap();
    assert!(interpret(&forward, &[&at[..], &[ten_to_forty()]].concat()).is_err());
}

#[test]
fn added_writes_all_count() {
    let f = writing(ScatterKind::Add, 3, &[5.0, 7.0, 11.0], IndexMode::Checked);
    let at = [vector(&[0.0; 3]), vector(&[1.0, 2.0, 3.0]), indices(&[0, 0, 2], &[3, 1])];
    assert_eq!(floats(&run(&f, &at)[0]), [48.0]);
    check_gradient(&f, &at, &[&[5.0, 7.0, 11.0], &[5.0, 5.0, 11.0]], 0.0);
}

#[test]
fn the_last_write_stays() {
    let f = writing(ScatterKind::Set, 3, &[5.0, 7.0, 11.0], IndexMode::Checked);
    let at = [vector(&[1.0; 3]), vector(&[1.0, 2.0, 3.0]), indices(&[1, 1, 2], &[3, 1])];
    check_gradient(&f, &at, &[&[5.0, 0.0, 0.0], &[0.0, 7.0, 11.0]], 0.0);
}

#[test]
fn writes_out_of_range_follow_the_mode() {
    let at = [vector(&[1.0; 3]), vector(&[1.0, 2.0, 3.0, 4.0]), indices(&[3, 0, -1, 5], &[4, 1])];
    let of = |kind, mode| writing(kind, 4, &[5.0, 7.0, 11.0], mode);
    let add_drop = of(ScatterKind::Add, IndexMode::Drop);
    check_gradient(&add_drop, &at, &[&[5.0, 7.0, 11.0], &[0.0, 5.0, 0.0, 0.0]], 0.0);
    let add_clip = of(ScatterKind::Add, IndexMode::Clip);
    check_gradient(&add_clip, &at, &[&[5.0, 7.0, 11.0], &[11.0, 5.0, 5.0, 11.0]], 0.0);
    let set_drop = of(ScatterKind::Set, IndexMode::Drop);
    check_gradient(&set_drop, &at, &[&[0.0, 7.0, 11.0], &[0.0, 5.0, 0.0, 0.0]], 0.0);
    let set_clip = of(ScatterKind::Set, IndexMode::Clip);
    check_gradient(&set_clip, &at, &[&[0.0, 7.0, 0.0], &[0.0, 0.0, 5.0, 11.0]], 0.0);
}

#[test]
fn writes_along_an_axis_of_a_larger_operand() {
    let f = program("f", &[f64s(&[1, 5]), f64s(&[1, 2]), i64s(&[1, 2, 1])], |b, p| {
        let written = b.one(scatter(ScatterKind::Add, 1, 1, IndexMode::Checked), &[p[0], p[2], p[1]])?;
        Ok(vec![weighted(b, written, &[1.0, 2.0, 3.0, 4.0, 5.0])?])
    });
    let at = [array(&[0.0; 5], &[1, 5]), array(&[1.0, 1.0], &[1, 2]), indices(&[1, 3], &[1, 2, 1])];
    check_gradient(&f, &at, &[&[1.0, 2.0, 3.0, 4.0, 5.0], &[2.0, 4.0]], 0.0);
}

#[test]
fn rows_of_a_table_get_their_gradient_by_scatter_add() {
    let types = [f32s(&[4, 2]), TensorType::new(DType::I32, [3, 1])];
    let f = program("f", &types, |b, p| {
        let rows = b.one(gather(0, 0, IndexMode::Checked), p)?;
        Ok(vec![sum(b, rows)?])
    });
    let gradient = grad(&f, &[0]).unwrap();
    assert_eq!(gradient.param_types(), types);
    let writes: Vec<String> = gradient
        .nodes()
        .filter(|node| node.op.name() == "scatter")
        .map(|node| format!("{:?}", node.op.attrs()[0].1))
        .collect();
    assert_eq!(writes, ["Word(\"add\")"]);
    let table = Array::from_slice(&[0f32; 8], [4, 2]).unwrap();
    let rows = Array::from_slice(&[2i32, 0, 2], [3, 1]).unwrap();
    assert_eq!(floats(&run(&gradient, &[table, rows])[0]), [1.0, 1.0, 0.0, 0.0, 2.0, 2.0, 0.0, 0.0]);
}

/// The weighted sum of a box of a vector of 4, at a start.
fn box_of(weights: &[f64], mode: IndexMode, start: DType) -> Program {
    program("f", &[f64s(&[4]), TensorType::scalar(start)], |b, p| {
        let slice = DynamicSlice { sizes: Dims::from_slice(&[weights.len()]), mode };
        let read = b.one(slice, p)?;
        Ok(vec![weighted(b, read, weights)?])
    })
}

#[test]
fn the_slope_of_a_box_lands_where_the_box_was_read() {
    let check = |mode, start: Array, due: [f64; 4]| {
        let f = box_of(&[1.0, 10.0], mode, start.dtype());
        check_gradient(&f, &[ten_to_forty(), start], &[&due], 0.0);
    };
    for mode in [IndexMode::Checked, IndexMode::Clip, IndexMode::Drop] {
        check(mode, Array::from(1u32), [0.0, 1.0, 10.0, 0.0]);
    }
    let (first, last, none) = ([1.0, 10.0, 0.0, 0.0], [0.0, 0.0, 1.0, 10.0], [0.0; 4]);
    for start in [Array::from(3i64), Array::from(i32::MAX), Array::from(u32::MAX), Array::from(u64::MAX)] {
        check(IndexMode::Clip, start, last);
    }
    for start in [Array::from(-1i32), Array::from(i64::MIN)] {
        check(IndexMode::Clip, start, first);
    }
    check(IndexMode::Drop, Array::from(3i64), [0.0, 0.0, 0.0, 1.0]);
    check(IndexMode::Drop, Array::from(-1i64), [10.0, 0.0, 0.0, 0.0]);
    for start in [Array::from(4u64), Array::from(u64::MAX), Array::from(i32::MIN), Array::from(i64::MIN)] {
        check(IndexMode::Drop, start, none);
    }
    let f = box_of(&[1.0, 10.0, 100.0, 1000.0, 10000.0], IndexMode::Drop, DType::I64);
    check_gradient(&f, &[ten_to_forty(), Array::from(-1i64)], &[&[10.0, 100.0, 1000.0, 10000.0]], 0.0);
}

#[test]
fn checked_boxes_out_of_range_fail_in_derivatives_too() {
    for (weights, start) in [(&[1.0, 10.0][..], 3i64), (&[1.0], -1), (&[], 5)] {
        let f = box_of(weights, IndexMode::Checked, DType::I64);
        let at = [ten_to_forty(), Array::from(start)];
        assert!(interpret(&f, &at).is_err());
        assert!(interpret(&grad(&f, &[0]).unwrap(), &at).is_err());
    }
}

/// The weighted sum of a vector of 4 after a box of `size` was written at a start.
fn box_into(size: usize, mode: IndexMode, start: DType) -> Program {
    program("f", &[f64s(&[4]), f64s(&[size]), TensorType::scalar(start)], |b, p| {
        let written = b.one(DynamicUpdateSlice { mode }, p)?;
        Ok(vec![weighted(b, written, &[1.0, 10.0, 100.0, 1000.0])?])
    })
}

#[test]
fn the_slope_of_a_written_box_is_that_of_its_place() {
    let check = |mode, start: Array, due: [&[f64]; 2]| {
        let f = box_into(due[1].len(), mode, start.dtype());
        let update = vector(&vec![5.0; due[1].len()]);
        check_gradient(&f, &[ten_to_forty(), update, start], &due, 0.0);
    };
    for mode in [IndexMode::Checked, IndexMode::Clip, IndexMode::Drop] {
        check(mode, Array::from(1u32), [&[1.0, 0.0, 0.0, 1000.0], &[10.0, 100.0]]);
        check(mode, Array::from(4i64), [&[1.0, 10.0, 100.0, 1000.0], &[]]);
    }
    for start in [Array::from(3i64), Array::from(i32::MAX), Array::from(u64::MAX)] {
        check(IndexMode::Clip, start, [&[1.0, 10.0, 0.0, 0.0], &[100.0, 1000.0]]);
    }
    check(IndexMode::Clip, Array::from(i64::MIN), [&[0.0, 0.0, 100.0, 1000.0], &[1.0, 10.0]]);
    check(IndexMode::Drop, Array::from(3i64), [&[1.0, 10.0, 100.0, 0.0], &[1000.0, 0.0]]);
    check(IndexMode::Drop, Array::from(-1i64), [&[0.0, 10.0, 100.0, 1000.0], &[0.0, 1.0]]);
    check(IndexMode::Drop, Array::from(-1i64), [&[0.0; 4], &[0.0, 1.0, 10.0, 100.0, 1000.0, 0.0]]);
    for start in [Array::from(u64::MAX), Array::from(i64::MIN), Array::from(4u32)] {
        check(IndexMode::Drop, start, [&[1.0, 10.0, 100.0, 1000.0], &[0.0, 0.0]]);
    }
}

#[test]
fn checked_boxes_written_out_of_range_fail_in_derivatives_too() {
    for (size, start) in [(2, 3i64), (1, -1), (0, 5)] {
        let f = box_into(size, IndexMode::Checked, DType::I64);
        let at = [ten_to_forty(), vector(&vec![5.0; size]), Array::from(start)];
        assert!(interpret(&f, &at).is_err());
        for wrt in [0, 1] {
            assert!(interpret(&grad(&f, &[wrt]).unwrap(), &at).is_err());
        }
    }
}

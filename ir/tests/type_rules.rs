//! Type rules over every sample of every op: they accept the samples, refuse bad operands with an error that names
//! the op and never panic, and attributes survive the trip through their text-form values.

use pullback_ir::ops::AttrReader;
use pullback_ir::ops::control::call::{Call, Keep};
use pullback_ir::ops::control::looping::{Loop, Trip};
use pullback_ir::{DType, Op, Program, TensorType};

fn samples() -> impl Iterator<Item = (Op, Vec<TensorType>)> {
    let samples = Op::ALL.iter().flat_map(|family| (family.samples)());
    samples.map(|sample| (sample.op, sample.operands.into_iter().map(|operand| operand.ty).collect()))
}

fn infer(op: &Op, operands: &[TensorType]) -> Result<Vec<TensorType>, String> {
    let operands: Vec<&TensorType> = operands.iter().collect();
    op.infer(&operands).map(|types| types.to_vec()).map_err(|problem| problem.to_string())
}

#[test]
fn samples_are_accepted() {
    for (op, operands) in samples() {
        infer(&op, &operands).unwrap_or_else(|error| panic!("{op:?} {operands:?}: {error}"));
    }
}

#[test]
fn every_name_has_a_sample() {
    for family in Op::ALL {
        let sampled: Vec<&str> = (family.samples)().iter().map(|sample| sample.op.name()).collect();
        for name in (family.names)() {
            assert!(sampled.contains(&name), "{name}");
        }
    }
}

#[test]
fn attributes_survive_the_trip_through_text_values() {
    for (op, _) in samples() {
        let attrs = op.attrs().into_iter().map(|(name, attr)| (name.to_string(), attr)).collect();
        assert_eq!(Op::parse(op.name(), &mut AttrReader::new(attrs)), Ok(op));
    }
}

/// Ops that take any number of operands.
fn is_variadic(op: &Op) -> bool {
    matches!(op.name(), "barrier" | "custom_call" | "concat")
}

#[test]
fn wrong_numbers_of_operands_are_refused() {
    for (op, operands) in samples().filter(|(op, _)| !is_variadic(op)) {
        let mut more = operands.clone();
        more.push(TensorType::scalar(DType::F32));
        let error = infer(&op, &more).unwrap_err();
        assert!(error.contains("operands"), "{}: {error}", op.name());
        if !operands.is_empty() {
            assert!(infer(&op, &operands[1..]).unwrap_err().contains("operands"));
        }
    }
}

/// Each sample with one operand changed in dtype, rank or extent: an error or a type, never a panic; and errors
/// are not empty.
#[test]
fn changed_operands_never_panic() {
    let mut refused = 0;
    for (op, operands) in samples() {
        for i in 0..operands.len() {
            for changed in changes(&operands[i]) {
                let mut operands = operands.clone();
                operands[i] = changed;
                if let Err(error) = infer(&op, &operands) {
                    assert!(!error.is_empty());
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 10_000, "{refused}");
}

fn changes(ty: &TensorType) -> Vec<TensorType> {
    let mut shapes: Vec<Vec<usize>> = vec![vec![], vec![0], vec![1 << 48], vec![1; 12], vec![0, 1 << 48]];
    let extents = ty.shape.to_vec();
    shapes.push([&extents[..], &[2]].concat());
    shapes.push([&[2], &extents[..]].concat());
    for d in 0..extents.len() {
        for extent in [0, 1, extents[d] + 1] {
            let mut changed = extents.clone();
            changed[d] = extent;
            shapes.push(changed);
        }
    }
    let shapes = shapes.into_iter().map(|shape| ty.with_shape(&shape[..]));
    DType::ALL.into_iter().map(|dtype| ty.with_dtype(dtype)).chain(shapes).collect()
}

/// What the first op of each family says about operands it cannot take: one line per mistake.
#[test]
fn errors_read_well() {
    let mut lines: Vec<String> = Vec::new();
    for family in Op::ALL {
        let mut names = Vec::new();
        for sample in (family.samples)() {
            let operands: Vec<TensorType> =
                sample.operands.iter().map(|operand| operand.ty.clone()).collect();
            let is_large_enough = operands.iter().all(|ty| ty.shape.rank() > 0 && ty.shape.elements() > 1);
            if !is_large_enough || operands.is_empty() || names.contains(&sample.op.name()) {
                continue;
            }
            names.push(sample.op.name());
            let mut mistakes = vec![operands[1..].to_vec()];
            for dtype in [DType::Bool, DType::I32, DType::F32] {
                mistakes.push(operands.iter().map(|ty| ty.with_dtype(dtype)).collect());
            }
            let last = operands.len() - 1;
            for shape in [&[][..], &[5], &[3, 2], &[2, 3, 4]] {
                let mut operands = operands.clone();
                operands[last] = operands[last].with_shape(shape);
                mistakes.push(operands);
            }
            for operands in mistakes {
                if let Err(error) = infer(&sample.op, &operands) {
                    lines.push(format!("{}{operands:?}: {error}", sample.op.name()));
                }
            }
            break;
        }
    }
    insta::assert_snapshot!(lines.join("\n"));
}

/// What is written in a text as an i64 is one, so that every program has a text that reads as the program.
#[test]
fn counts_and_budgets_have_a_text() {
    let text = "program @f(%0: f64[]) -> (f64[]) {
        %1 = loop %0 {trip = 9223372036854775807, carries = 1, body = program @b(%0: f64[]) -> (f64[]) {
            return %0
        }} : f64[]
        %2 = call %1 {checkpoint = budget, bytes = 9223372036854775807, program = program @c(%0: f64[]) -> (f64[]) {
            return %0
        }} : f64[]
        return %2
    }";
    let program = Program::parse(text).unwrap();
    assert_eq!(Program::parse(&program.to_string()).unwrap(), program);
    let scalar = [TensorType::scalar(DType::F64)];
    for node in program.nodes() {
        let larger: Op = match node.op.clone() {
            Op::Loop(op) => Loop { trip: Trip::Count(1 << 63), ..op }.into(),
            Op::Call(op) => Call { checkpoint: Some(Keep::Budget(1 << 63)), ..op }.into(),
            op => panic!("{}", op.name()),
        };
        assert!(infer(&node.op, &scalar).is_ok());
        assert!(infer(&larger, &scalar).unwrap_err().contains("9223372036854775808"));
    }
}

//! What dependence says of every sample of every op, compared with what changing an element does; and how exact it is.

use super::*;
use crate::eval::control::custom_call;
use crate::interpreter::interpret;
use pullback_ir::ops::control::custom_call::SAMPLE_TARGET;
use pullback_ir::{Builder, Literal};

/// The program that is one op.
fn program_of(op: &Op, operands: &[Array]) -> Program {
    let mut b = Builder::new("f");
    let params: Vec<_> = operands.iter().map(|array| b.param(array.ty().clone())).collect();
    let results = b.emit(op.clone(), &params).unwrap();
    b.finish(&results)
}

/// The array with one element in the place of another's.
fn with_element(array: &Array, other: &Array, at: usize) -> Array {
    let mut bits: Vec<u64> = array.to_literal().bits().collect();
    bits[at] = other.to_literal().bits_at(at);
    Array::from_literal(&Literal::dense_bits(array.ty().clone(), bits).unwrap())
}

/// Every element of an output that changes with a tracked element depends on it.
fn check_changes(program: &Program, base: &[Array], others: &[Array], sources: &[Source]) {
    let found = dependence(program, sources).unwrap();
    let before = interpret(program, base).unwrap();
    let mut number = 0;
    for (p, source) in sources.iter().enumerate() {
        if !matches!(source, Source::Tracked) {
            continue;
        }
        for at in 0..base[p].elements() {
            let mut arguments = base.to_vec();
            arguments[p] = with_element(&base[p], &others[p], at);
            for (o, (before, after)) in before.iter().zip(interpret(program, &arguments).unwrap()).enumerate()
            {
                let (before, after) = (before.to_literal(), after.to_literal());
                for (element, set) in found.of_output(o).enumerate() {
                    let changed = before.bits_at(element) != after.bits_at(element);
                    assert!(
                        !changed || set.contains(&number),
                        "element {element} of output {o} depends on {number}, not only on {set:?}:\n{program}"
                    );
                }
            }
            number += 1;
        }
    }
}

#[test]
fn what_changes_with_an_element_depends_on_it() {
    custom_call::register(SAMPLE_TARGET, 1, |_, inputs, outputs| {
        let x = inputs[0].as_slice::<f64>().map_err(|e| e.to_string())?;
        let y = outputs[0].as_mut_slice::<f64>().map_err(|e| e.to_string())?;
        y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
        Ok(())
    });
    for sample in Op::ALL.iter().flat_map(|family| (family.samples)()) {
        let operands =
            |seed| -> Vec<Array> { sample.literals(seed).iter().map(Array::from_literal).collect() };
        let (base, others) = (operands(1), operands(2));
        if base.iter().map(Array::elements).sum::<usize>() > 200 {
            continue;
        }
        let program = program_of(&sample.op, &base);
        if program.output_types().iter().any(TensorType::is_stack) {
            continue;
        }
        let floats = |array: &Array| array.dtype().is_float();
        let known = |array: &Array| Source::Known(array.clone());
        let every: Vec<Source> =
            base.iter().map(|a| if floats(a) { Source::Tracked } else { known(a) }).collect();
        check_changes(&program, &base, &others, &every);
        let blind = base.iter().map(|a| if floats(a) { Source::Tracked } else { Source::Varying });
        check_changes(&program, &base, &others, &blind.collect::<Vec<_>>());
        check_changes(&program, &base, &others, &vec![Source::Tracked; base.len()]);
        for i in (0..base.len()).filter(|&i| floats(&base[i])) {
            for other in [Source::Varying, every[i].clone()] {
                let mut sources: Vec<Source> =
                    base.iter().map(|a| if floats(a) { other.clone() } else { known(a) }).collect();
                sources[i] = Source::Tracked;
                check_changes(&program, &base, &others, &sources);
            }
            let mut sources: Vec<Source> = base.iter().map(known).collect();
            sources[i] = Source::Tracked;
            check_changes(&program, &base, &others, &sources);
        }
    }
}

/// The sets of the first output.
fn sets(text: &str, sources: &[Source]) -> Vec<Vec<u32>> {
    let program = Program::parse(text).unwrap_or_else(|error| panic!("{error}"));
    dependence(&program, sources).unwrap().of_output(0).map(<[u32]>::to_vec).collect()
}

#[test]
fn moves_sums_and_known_zeros_are_exact() {
    let differences = "program @f(%x: f64[4]) -> (f64[3]) {
        %a = slice %x {start = [1], limit = [4], stride = [1]} : f64[3]
        %b = slice %x {start = [0], limit = [3], stride = [1]} : f64[3]
        %d = sub %a, %b : f64[3]
        return %d
    }";
    assert_eq!(sets(differences, &[Source::Tracked]), [[0, 1], [1, 2], [2, 3]]);
    let product = "program @f(%m: f64[2,3], %x: f64[3]) -> (f64[2]) {
        %y = dot %m, %x {lhs_contract = [1], rhs_contract = [0]} : f64[2]
        return %y
    }";
    let m = Array::from([[1.0, 0.0, 2.0], [0.0, f64::NAN, 0.0]]);
    assert_eq!(sets(product, &[Source::Known(m), Source::Tracked]), [vec![0, 2], vec![1]]);
    assert_eq!(sets(product, &[Source::Varying, Source::Tracked]), [[0, 1, 2], [0, 1, 2]]);
    assert_eq!(sets(product, &[Source::Tracked, Source::Varying]), [[0, 1, 2], [3, 4, 5]]);
    let masked = "program @f(%x: f64[3], %m: f64[3]) -> (f64[3]) {
        %y = mul %x, %m : f64[3]
        return %y
    }";
    let m = Source::Known(Array::from([1.0, -0.0, 3.0]));
    assert_eq!(sets(masked, &[Source::Tracked, m]), [vec![0], vec![], vec![2]]);
}

const GATHER: &str = "program @f(%x: f64[4], %i: i64[2,1]) -> (f64[2]) {
    %y = gather %x, %i {index_dims = [0]} : f64[2]
    return %y
}";

#[test]
fn computed_places_are_exact_where_they_are_known() {
    let indices = Source::Known(Array::from([[3i64], [1]]));
    assert_eq!(sets(GATHER, &[Source::Tracked, indices]), [[3], [1]]);
    assert_eq!(sets(GATHER, &[Source::Tracked, Source::Varying]), [[0, 1, 2, 3], [0, 1, 2, 3]]);
    // Every call fails, so anything is right.
    let outside = Source::Known(Array::from([[3i64], [4]]));
    assert_eq!(sets(GATHER, &[Source::Tracked, outside]).len(), 2);
    let scatter = "program @f(%x: f64[3], %i: i64[4,1], %u: f64[4]) -> (f64[3]) {
        %y = scatter %x, %i, %u {op = add, index_dims = [0], mode = drop} : f64[3]
        return %y
    }";
    let indices = Source::Known(Array::from([[2i64], [0], [2], [9]]));
    assert_eq!(
        sets(scatter, &[Source::Tracked, indices, Source::Tracked]),
        [vec![0, 4], vec![1], vec![2, 3, 5]]
    );
}

/// A carry of three elements turned by one place in each step.
const TURN: &str = "program @f(%n: i64[], %x: f64[3]) -> (f64[3]) {
    %y = loop %n, %x {trip = times, carries = 1, body = program @body(%x: f64[3]) -> (f64[3]) {
        %a = slice %x {start = [1], limit = [3], stride = [1]} : f64[2]
        %b = slice %x {start = [0], limit = [1], stride = [1]} : f64[1]
        %y = concat %a, %b {dim = 0} : f64[3]
        return %y
    }} : f64[3]
    return %y
}";

#[test]
fn loops_are_followed_as_often_as_they_run() {
    let times = |n: i64| Source::Known(Array::from(n));
    assert_eq!(sets(TURN, &[times(2), Source::Tracked]), [[2], [0], [1]]);
    assert_eq!(sets(TURN, &[times(-1), Source::Tracked]), [[0], [1], [2]]);
    // However often.
    assert_eq!(sets(TURN, &[Source::Varying, Source::Tracked]), vec![vec![0, 1, 2]; 3]);
    assert_eq!(sets(TURN, &[times(i64::MAX), Source::Tracked]), vec![vec![0, 1, 2]; 3]);
    let apart = TURN.replace("return %y\n    }}", "%z = sin %x : f64[3]\n return %z\n    }}");
    assert_eq!(sets(&apart, &[Source::Varying, Source::Tracked]), [[0], [1], [2]]);
}

#[test]
fn what_grows_for_long_depends_on_everything() {
    let n = 2 * 64 + 10;
    let text = TURN.replace("f64[3]", &format!("f64[{n}]")).replace("f64[2]", &format!("f64[{}]", n - 1));
    let text = text.replace("limit = [3]", &format!("limit = [{n}]"));
    let found = sets(&text, &[Source::Varying, Source::Tracked]);
    assert!(found.iter().all(|set| set.len() == n));
}

#[test]
fn branches_unite_their_arms_unless_the_arm_is_known() {
    let text = "program @f(%i: i32[], %x: f64[], %y: f64[]) -> (f64[]) {
        %z = branch %i, %x, %y {arms = [program @a(%x: f64[], %y: f64[]) -> (f64[]) {
            return %x
        }, program @b(%x: f64[], %y: f64[]) -> (f64[]) {
            return %y
        }]} : f64[]
        return %z
    }";
    let (one, both) = (Source::Known(Array::from(1i32)), [Source::Tracked, Source::Tracked]);
    assert_eq!(sets(text, &[&[one][..], &both].concat()), [[1]]);
    assert_eq!(sets(text, &[&[Source::Varying][..], &both].concat()), [[0, 1]]);
    assert_eq!(sets(text, &[Source::Tracked, Source::Tracked, Source::Varying]), [[0, 1]]);
}

#[test]
fn sources_are_checked() {
    let program = Program::parse(GATHER).unwrap();
    let found = dependence(&program, &[Source::Tracked]).err();
    assert_eq!(found, Some(RuntimeError::ArgumentCount { program: "f".into(), expected: 2, found: 1 }));
    let wrong = Source::Known(Array::from(1i64));
    let found = dependence(&program, &[Source::Tracked, wrong]).err();
    assert!(matches!(found, Some(RuntimeError::ArgumentType { index: 1, .. })));
    let huge =
        Program::parse("program @f(%x: f32[8589934592]) -> (f32[8589934592]) {\n return %x\n}").unwrap();
    let found = dependence(&huge, &[Source::Tracked]).err();
    assert_eq!(found, Some(RuntimeError::TooManyTracked { found: 1 << 33 }));
}

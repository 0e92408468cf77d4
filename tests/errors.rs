//! Texts of errors: what was wrong, with which types, at which line of the user's, and what to do.

use pullback::IndexMode;
use pullback::custom::Map;
use pullback::prelude::*;
use pullback::{associative_scan, cond, fori_loop, scan, switch, while_loop};
use std::sync::Mutex;

fn text<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => error.to_string(),
    }
}

/// The text with places in this file as distances from a line of it, so that the file may be edited.
fn relative(text: &str, line: u32) -> String {
    let mut parts = text.split(concat!(file!(), ":"));
    let mut relative = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let number: String = part.chars().take_while(char::is_ascii_digit).collect();
        let column = part[number.len() + 1..].trim_start_matches(|c: char| c.is_ascii_digit());
        relative += &format!("line {:+}{column}", number.parse::<i64>().unwrap() - i64::from(line));
    }
    relative
}

/// Compares the text of the error with the one kept under `tests/snapshots`.
macro_rules! refused {
    ($result:expr) => {
        insta::assert_snapshot!(relative(&text($result), line!()))
    };
}

fn zeros<const N: usize>(shape: [usize; N]) -> Tensor {
    Tensor::zeros(DType::F64, shape)
}

#[test]
fn a44_1_shapes() {
    refused!((zeros([2, 3]) + zeros([4, 3])).ok());
    refused!(zeros([2, 3]).matmul(&zeros([4, 3])).ok());
    refused!(zeros([6]).reshape([4, 2]).ok());
    refused!(concat(&[zeros([2, 3]), zeros([2, 4])], 0).ok());
    refused!(zeros([2, 3]).sum_axes(2).ok());
    refused!(zeros([2, 3]).squeeze_axes(0).ok());
    refused!(zeros([2, 3]).slice((.., 1..5)).ok());
    refused!(stack(&[zeros([2]), zeros([3])], 0).ok());
    refused!(einsum("ij,jk->ik", &[&zeros([2, 3]), &zeros([4, 5])]).ok());
    refused!(zeros([2, 3]).dims::<1>());
}

#[test]
fn a44_1_shapes_while_compiling() {
    let f = |x: &Tensor, y: &Tensor| x + y;
    refused!(jit(f).call((&zeros([2, 3]), &zeros([4, 3]))));
    let g = |x: &Tensor| Ok::<_, Error>(grad(|y: &Tensor| y.matmul(x).sum()).call((x,))?.sum());
    refused!(jit(g).call((&zeros([2, 3]),)));
}

#[test]
fn a44_2_gradient_of_a_vector() {
    refused!(grad(|x: &Tensor| x.sin()).call((&zeros([2]),)));
    refused!(grad(|x: &Tensor| x.gt(0)).call((&zeros([]),)));
}

#[test]
fn a13_1_maximum_of_nothing() {
    refused!(zeros([0]).max().ok());
    refused!(zeros([0]).argmax(0).ok());
}

#[derive(Tree)]
struct Counted {
    weight: Tensor,
    steps: Tensor,
}

#[test]
fn a15_1_gradient_of_an_integer() {
    refused!(grad(|x: &Tensor| x * x).call((&Tensor::from(3i32),)));
    let counted = Counted { weight: Tensor::from(1.0), steps: Tensor::from(0i64) };
    refused!(grad(|c: &Counted| &c.weight * c.steps.to_dtype(DType::F64)).call((&counted,)));
}

#[test]
fn a19_1_escaped_tensors() {
    let outside = Mutex::new(None);
    let f = |x: &Tensor| {
        *outside.lock().unwrap() = Some(x * 2.0);
        x.square()
    };
    grad(f).call((&Tensor::from(1.0),)).unwrap();
    let escaped = outside.lock().unwrap().clone().unwrap();
    refused!((&escaped + 1.0).ok());
    refused!(escaped.item::<f64>());
    refused!(grad(|x: &Tensor| x * &escaped).call((&Tensor::from(1.0),)));
    refused!(jit(|_: &()| escaped.clone()).call((&(),)));
}

#[test]
fn values_unknown_while_tracing() {
    let f = |x: &Tensor| Ok::<_, Error>(if x.sum().item::<f64>()? > 0.0 { x.clone() } else { -x });
    refused!(jit(f).call((&zeros([2]),)));
}

#[test]
fn values_unknown_inside_loops() {
    let f = |x: &Tensor| {
        fori_loop(0, 3, x, |_, x| Ok::<_, Error>(if x.item::<f64>()? > 0.0 { x.clone() } else { -x }))
    };
    refused!(f(&zeros([])));
    refused!(grad(f).call((&zeros([]),)));
}

#[test]
fn a23_1_carries_that_change() {
    let mixed = scan(&Tensor::from(0f32), &zeros([3]), |c, x| (c + x, ())).0;
    refused!(mixed.ok());
    let widened = scan(&Tensor::from(0f32), &zeros([3]), |c, x| (c.to_dtype(DType::F64) + x, ())).0;
    refused!(widened.ok());
    let line = Line { slope: zeros([2]), offsets: vec![zeros([]), zeros([3])] };
    let change =
        |l: &Line| Line { slope: l.slope.sum(), offsets: vec![l.offsets[0].gt(0), l.offsets[1].clone()] };
    refused!(while_loop(&line, |l| l.slope.sum().gt(0), change).slope.ok());
    let grow = |l: &Line| Line { slope: l.slope.clone(), offsets: [&l.offsets[..], &[zeros([])]].concat() };
    refused!(fori_loop(0, 3, &line, |_, l| grow(l)).slope.ok());
    refused!(
        jit(|x: &Tensor| fori_loop(0, 3, x, |i, x| x * i.to_dtype(DType::F64) + zeros([4])))
            .call((&zeros([]),))
    );
}

#[derive(Tree)]
struct Line {
    slope: Tensor,
    offsets: Vec<Tensor>,
}

#[test]
fn loops_and_branches_that_do_not_fit() {
    let x = zeros([3]);
    refused!(scan(&x, (&x, &zeros([2, 3])), |c, (x, y)| (c + x + y, ())).0.ok());
    refused!(scan(&x, &zeros([]), |c, x| (c + x, ())).0.ok());
    refused!(scan(&x, &(), |c, ()| (c.clone(), ())).0.ok());
    refused!(while_loop(&x, |x| x.gt(0), |x| x * 0.5).ok());
    refused!(fori_loop(0, &Tensor::from(3i32), &x, |_, x| x * 0.5).ok());
    refused!(fori_loop(&x, 3, &x, |_, x| x * 0.5).ok());
    refused!(cond(&x, &x, |x| x.clone(), |x| x * 0.5).ok());
    refused!(cond(&x.sum().gt(0), &x, |x| x.clone(), |x| x.sum()).ok());
    refused!(switch(&x.sum(), &x, [&|x| x.clone()]).ok());
    let arms: [&dyn Fn(&Tensor) -> (Tensor, Tensor); 2] =
        [&|x| (x.clone(), x.gt(0)), &|x| (x.clone(), x.clone())];
    refused!(switch(&Tensor::from(0i32), &x, arms).0.ok());
    refused!(associative_scan(&x, |a, b| (a + b).sum()).ok());
    refused!(fori_loop(0, 3, &x, |_, x| x.reshape([2])).ok());
    refused!(cond(&Tensor::from(true), &x, |x| x.take(&Tensor::from([3i64]), 0), |x| x.narrow(0, 0, 1)).ok());
    refused!(fori_loop(i64::MIN, i64::MAX, &x, |_, x| x * 0.5).ok());
}

#[test]
fn dtypes() {
    refused!((Tensor::from(1.0f32) + Tensor::from(1.0)).ok());
    refused!((Tensor::from(1i64) * 0.5).ok());
    refused!(Tensor::from(1.0f32).to_vec::<i64>());
    refused!(Tensor::from(1i64).mean().ok());
    refused!(jvp(|x: &Tensor| x.sin()).call((&Tensor::from(1.0f32),), (&Tensor::from(1.0),)));
}

#[test]
fn indices_out_of_range() {
    let f = |x: &Tensor, i: &Tensor| x.take(i, 0);
    refused!(f(&zeros([3]), &Tensor::from([3i64])).ok());
    refused!(jit(f).call((&zeros([3]), &Tensor::from([-1i64]))));
    refused!(zeros([3]).index_axis(0, -4).ok());
    refused!(zeros([3]).at(Tensor::from(3i64)).ok());
    refused!(zeros([3]).at((Tensor::from(0i64), 1)).ok());
    refused!(zeros([3]).at(Tensor::from([0i64])).ok());
    refused!(zeros([3]).set_at(2..5, 1.0).ok());
    refused!(zeros([3]).set_at(Tensor::from(-1i32), 1.0).ok());
    refused!(zeros([3]).set_at(1.., Tensor::from(1.0f32)).ok());
    refused!(zeros([3]).set_at(.., zeros([2])).ok());
}

/// A derivative that refuses an index names the op and the line the user wrote.
#[test]
fn indices_out_of_range_in_derivatives() {
    let (x, i) = (zeros([3]), Tensor::from([3i64]));
    let read = |x: &Tensor, i: &Tensor| x.take(i, 0).sum();
    refused!(grad(read).call((&x, &i)));
    refused!(jit(grad(read)).call((&x, &i)));
    let written = |x: &Tensor, i: &Tensor| (zeros([3]).index_set(0, i, x)).sum();
    refused!(jit(grad(written)).call((&zeros([1]), &i)));
    let boxed = |x: &Tensor, i: &Tensor| x.dynamic_slice_with(&[i], [1], IndexMode::Checked).sum();
    refused!(jit(grad(boxed)).call((&x, &Tensor::from(3i64))));
}

/// What nobody uses is checked all the same, however the program is run; a derivative owes its outputs alone.
#[test]
fn indices_out_of_range_in_unused_results() {
    let f = |x: &Tensor, i: &Tensor| {
        let _ = x.take(i, 0);
        x.square().sum()
    };
    let (x, i) = (zeros([3]), Tensor::from([3i64]));
    refused!(jit(f).call((&x, &i)));
    let message = text(jit(f).call((&x, &i)));
    assert_eq!(text(jit(f).interpreted().call((&x, &i))), message);
    assert_eq!(text(jit(f).compile((&x, &i)).unwrap().call((&x, &i))), message);
    assert!(grad(f).call((&x, &i)).is_ok());
    assert!(jit(grad(f)).call((&x, &i)).is_ok());
}

#[test]
fn lanes() {
    let f = |x: &Tensor, y: &Tensor| x + y;
    refused!(vmap(f).call((&zeros([3, 2]), &zeros([4, 2]))));
    refused!(vmap(f).in_axes((0, -1)).call((&zeros([3, 2]), &zeros([2, 4]))));
    refused!(vmap(f).call((&zeros([3]), &zeros([]))));
    refused!(vmap(f).in_axes(None).call((&zeros([3]), &zeros([3]))));
    refused!(vmap(f).in_axes((0, 0, 0)).call((&zeros([3]), &zeros([3]))));
    refused!(vmap(f).out_axes(1).call((&zeros([3]), &zeros([3]))));
    refused!(vmap(f).out_axes((0, None)).call((&zeros([3]), &zeros([3]))));
    refused!(vmap(f).out_axes(None).call((&zeros([3]), &zeros([3]))));
    let counted = Counted { weight: zeros([3]), steps: zeros([4]) };
    refused!(vmap(|c: &Counted| &c.weight + &c.steps).call((&counted,)));
    refused!(vmap(|x: &Tensor| x.reshape([5])).call((&zeros([3, 4]),)));
    refused!(vmap(|x: &Tensor| x.item::<f64>().map(Tensor::from)).call((&zeros([3]),)));
    refused!(jit(vmap(|i: &Tensor| zeros([3]).take(i, 0))).call((&Tensor::from([1i64, 3]),)));
}

#[test]
fn jacobians() {
    refused!(jacobian(|x: &Tensor| (x.sin(), x.gt(0))).call((&zeros([2]),)));
    refused!(jacrev(|x: &Tensor| x.argmax(0)).call((&zeros([2]),)));
    refused!(jacfwd(|x: &Tensor| x * x).call((&Tensor::from(3i32),)));
    refused!(hessian(|x: &Tensor| x * x).call((&zeros([2]),)));
    refused!(hvp(|x: &Tensor| x.sum()).call((&zeros([2]),), &zeros([3])));
    let line = (zeros([2]), zeros([]));
    refused!(hvp(|p: &(Tensor, Tensor)| p.0.sum() * &p.1).call((&line,), &(zeros([2]), zeros([1]))));
}

#[test]
fn sparse_plans() {
    let f = |x: &Tensor, i: &Tensor, on: &Tensor| where_(on, x.take(i, 0), 0.0);
    let (x, i, on) = (zeros([3]), Tensor::from([0i64, 2]), Tensor::from([true, false]));
    let plan = sparse_jacobian(f).plan((&x, &i, &on)).unwrap();
    refused!(plan.call((&zeros([4]), &i, &on)));
    refused!(plan.call((&x, &Tensor::from([0i64, 1]), &on)));
    refused!(plan.call((&x, &i, &Tensor::from([true, true]))));
    refused!(jit(|i: &Tensor| plan.call((&x, i, &on))).call((&i,)));
    refused!(sparsity(|x: &Tensor| x.argmax(0)).call((&x,)));
    refused!(sparsity(|i: &Tensor| i.to_dtype(DType::F64)).call((&i,)));
    refused!(sparse_hessian(|x: &Tensor| x.sin()).plan((&x,)));
    refused!(sparse_jacobian(|x: &Tensor| (x.clone(), x.to_dtype(DType::F32))).plan((&x,)));
    let by_value = |x: &Tensor| Ok::<_, Error>(if x.sum().item::<f64>()? > 0.0 { x.clone() } else { -x });
    refused!(sparse_jacobian(by_value).plan((&x,)));
}

#[test]
fn custom_calls_without_a_batch_contract() {
    let ty = pullback::TensorType::new(DType::F64, [2]);
    let nobody =
        |x: &Tensor| pullback::custom::custom_call("test.nobody", 1, "", &[x], std::slice::from_ref(&ty));
    refused!(vmap(nobody).call((&zeros([3, 2]),)));
}

/// A step that would change a parameter is refused, and the path says which.
#[test]
fn optimizers() {
    use pullback::optim::{Adam, AdamState, Sgd};
    let line = |slope: Tensor| Line { slope, offsets: vec![zeros([]), zeros([3])] };
    let (right, other) = (line(zeros([3])), line(zeros([2, 3])));
    let state = Adam::new(0.1).init(&right);
    refused!(Adam::new(0.1).update(&right, &other, &state));
    refused!(Sgd::new(0.1).update(&right, &other, &right));
    refused!(Sgd::new(0.1).update(&right, &right, &other));
    refused!(Sgd::new(0.1).update(&zeros([3]), &zeros([3]).to_dtype(DType::F32), &zeros([3])));
    refused!(Sgd::new(zeros([2, 1])).update(&zeros([3]), &zeros([3]), &zeros([3])));
    refused!(Adam::new(zeros([2, 1])).update(&right, &right, &state));
    let short = Line { slope: zeros([3]), offsets: vec![] };
    refused!(Adam::new(0.1).update(&right, &short, &state));
    let moments = |first: &Tensor, second: &Tensor, step: &Tensor| {
        let state = AdamState { step: step.clone(), first: (first.clone(),), second: (second.clone(),) };
        Adam::new(0.1).update(&(zeros([3]),), &(zeros([3]),), &state)
    };
    let step = Tensor::from(0i64);
    refused!(moments(&zeros([1]), &zeros([3]), &step));
    refused!(moments(&zeros([3]), &zeros([1]), &step));
    refused!(moments(&zeros([3]), &zeros([3]), &Tensor::from([0i64, 0])));
    assert!(moments(&zeros([3]), &zeros([3]), &step).is_ok());
    refused!(jit(|p: &Tensor, g: &Tensor| Sgd::new(0.1).update(p, g, p)).call((&zeros([3]), &zeros([2, 3]))));
}

/// Numbers that make no sense where they stand, and parts that are not the whole.
#[test]
fn arguments_without_a_meaning() {
    refused!(zeros([2]).clamp(2, -1).ok());
    refused!(zeros([2]).clip(0.5, 0).ok());
    refused!(zeros([2]).clamp(f64::NAN, 1.0).ok());
    refused!(zeros([2]).clamp(zeros([]), f32::NAN).ok());
    let key = pullback::random::key(0);
    for p in [f64::NAN, -0.1, 1.5, f64::INFINITY] {
        assert!(pullback::random::bernoulli(&key, p, [2]).error().is_some());
        assert!(zeros([2]).dropout(&key, p).error().is_some());
    }
    refused!(pullback::random::bernoulli(&key, f64::NAN, [2]).ok());
    refused!(zeros([3]).split(0, &[1, 1]).remove(1).ok());
    refused!(zeros([3]).split(-1, &[2, 2]).remove(0).ok());
    refused!(zeros([3]).split(0, &[]).remove(0).ok());
    refused!(zeros([3]).split(0, &[usize::MAX, 4]).remove(0).ok());
    refused!(zeros([2, 3]).flatten(1, 0).ok());
    refused!(zeros([2, 3]).flatten(-1, -2).ok());
    assert!(zeros([0]).split(0, &[]).is_empty());
}

#[test]
fn compiled_signatures() {
    let f = jit(|x: &Tensor| x.sin()).compile((&zeros([2]),)).unwrap();
    refused!(f.call((&zeros([3]),)));
}

#[test]
fn the_first_error_comes_through_later_ops() {
    let first = zeros([2]) + zeros([3]);
    let message = text(first.clone().ok());
    let later = (first.sin() * zeros([7])).sum().reshape([1]);
    assert_eq!(text(later.clone().ok()), message);
    assert_eq!(text(later.item::<f64>()), message);
    assert_eq!(text(jit(|x: &Tensor| &later + x).call((&zeros([1]),))), message);
    assert_eq!(text(grad(|x: &Tensor| x.sum()).call((&later,))), message);
}

/// A tree of one number.
type One = (Tensor,);

#[test]
fn rules_of_forward_mode() {
    fn bend(x: &Tensor) -> Tensor {
        x * x
    }
    let wide = |_: &One, _: &Tensor, (dx,): &One| stack(&[dx.clone(), dx.clone()], 0);
    refused!(grad(custom_jvp(bend, wide)).call((&zeros([]),)));
    let narrow = |_: &One, _: &Tensor, (dx,): &One| dx.to_dtype(DType::F32);
    refused!(grad(custom_jvp(bend, narrow).named("bend.v2")).call((&zeros([]),)));
    let more = |_: &One, _: &Vec<Tensor>, (dx,): &One| vec![dx.clone(), dx.clone()];
    let several = custom_jvp(|x: &Tensor| vec![x.clone()], more);
    refused!(grad(|x: &Tensor| Ok::<_, Error>(several.call((x,))?.remove(0))).call((&zeros([]),)));
    for (i, rule) in [
        |_: &One, _: &Tensor, (dx,): &One| dx * dx,
        |_: &One, _: &Tensor, (dx,): &One| dx.gt(0).select(dx, 0.0),
        |_: &One, _: &Tensor, (dx,): &One| fori_loop(0, 2, dx, |_, dx| dx.sin()),
    ]
    .into_iter()
    .enumerate()
    {
        let error = text(grad(custom_jvp(bend, rule)).call((&zeros([]),)));
        assert!(error.contains("CustomRuleNotLinear"), "{i}: {error}");
    }
    refused!(grad(custom_jvp(bend, |_: &One, _: &Tensor, (dx,): &One| dx * dx)).call((&zeros([]),)));
    let rule = |_: &One, _: &Tensor, (dx,): &One| dx.clone();
    refused!(custom_jvp(bend, rule).nondiff(&[1]).call((&zeros([]),)));
    refused!(jit(custom_jvp(bend, |_: &One, y: &Tensor, _: &One| y.matmul(y))).call((&zeros([]),)));
}

#[test]
fn captured_tensors_that_are_differentiated() {
    let f = |x: &Tensor, w: &Tensor| {
        custom_jvp(|x: &Tensor| x * w, |_: &One, _: &Tensor, (dx,): &One| dx * w).call((x,))
    };
    refused!(grad(f).argnum::<1>().call((&zeros([]), &zeros([]))));
    let in_a_loop = |x: &Tensor, w: &Tensor| fori_loop(0, 2, x, |_, x| f(x, w));
    refused!(grad(in_a_loop).argnum::<1>().call((&zeros([]), &zeros([]))));
}

#[test]
fn rules_that_call_their_own_function() {
    fn endless(x: &Tensor) -> Result<Tensor, Error> {
        custom_jvp(
            |x: &Tensor| x.exp(),
            |(x,): &One, _: &Tensor, (dx,): &One| Ok::<_, Error>(endless(x)? * dx),
        )
        .call((x,))
    }
    refused!(grad(endless).call((&zeros([]),)));
}

#[test]
fn a28_1_rules_of_reverse_mode() {
    fn same(x: &Tensor) -> Tensor {
        x.clone()
    }
    let keep = |x: &Tensor| (x.clone(), ());
    let wide = |_: &(), _: &Tensor| (zeros([10]),);
    refused!(grad(custom_vjp(same, keep, wide)).call((&zeros([]),)));
    let pair = |_: &(), ct: &Tensor| (ct.clone(),);
    refused!(grad(custom_vjp(same, |x: &Tensor| (x.to_dtype(DType::F32), ()), pair)).call((&zeros([]),)));
    refused!(grad(custom_vjp(same, |x: &Tensor| (x.matmul(x), ()), pair)).call((&zeros([]),)));
    let f = |x: &Tensor, w: &Tensor| {
        custom_vjp(|x: &Tensor| x * w, keep, |_: &(), ct: &Tensor| (ct * w,)).call((x,))
    };
    refused!(grad(f).argnum::<1>().call((&zeros([]), &zeros([]))));
}

#[test]
fn forward_mode_through_rules_that_are_not_linear() {
    fn clip(x: &Tensor) -> Result<Tensor, Error> {
        custom_vjp(Tensor::clone, |x: &Tensor| (x.clone(), ()), |_: &(), ct: &Tensor| (ct.clamp(-1.0, 1.0),))
            .call((x,))
    }
    let x = zeros([]);
    refused!(jvp(clip).call((&x,), (&x,)));
    refused!(pullback::linearize(clip).call((&x,)));
    refused!(jacfwd(clip).call((&x,)));
    refused!(hessian(|x: &Tensor| Ok::<_, Error>(clip(x)?.powi(3))).call((&x,)));
    let in_a_loop = |x: &Tensor| fori_loop(0, 2, x, |_, x| clip(x));
    refused!(jvp(in_a_loop).call((&x,), (&x,)));
    assert_eq!(jacrev(clip).call((&x,)).unwrap().item::<f64>().unwrap(), 1.0);
}

#[test]
fn live_tensors() {
    use pullback::eager::{self, Pass, Retain, Seeds, checked};
    let x = Tensor::param([1.0, 2.0]);
    let y = &x * 2.0;
    refused!(y.backward());
    refused!(y.backward_with(&zeros([3])));
    refused!(zeros([2]).backward());
    refused!(checked(|| y.backward_with(Pass::seed(&Tensor::from([1.0, f64::NAN])))));
    refused!(eager::grad(&[&y], &[&x], Seeds::Batch(&[&zeros([3])])));
    y.backward_with(Pass::seed(&zeros([2])).retain(Retain::Nothing)).unwrap();
    refused!((&y + 1.0).sum().backward());
    let z = x.exp().sum();
    refused!(x.set_data(&zeros([3])));
    x.set_data(&zeros([2])).unwrap();
    refused!(z.backward());
    refused!(y.update(|y| y + 1.0));
    refused!(Tensor::from([1i32]).grad());
    refused!(Tensor::param([true]).ok());
}

#[test]
fn equations_to_solve() {
    let (x, a) = (zeros([2]), Tensor::from([1.0, 2.0]));
    let direct = |_: &Map<Tensor>, b: &Tensor| b.clone();
    refused!(custom_linear_solve(|x: &Tensor| x * x, &x, direct).array());
    refused!(custom_linear_solve(|x: &Tensor| x + &a, &x, direct).array());
    refused!(custom_linear_solve(|x: &Tensor| x.sum(), &x, direct).array());
    refused!(custom_linear_solve(|x: &Tensor| x * &a, &x, |_, b: &Tensor| b.sum()).array());
    refused!(custom_linear_solve(|x: &Tensor| x.clone(), &Tensor::from(1i64), direct).array());
    refused!(custom_root(|x: &Tensor| x.sum(), &x, direct, direct).array());
    refused!(custom_root(|x: &Tensor| x + zeros([3]), &x, direct, direct).array());
    refused!(
        custom_root(|_: &Tensor| Err::<Tensor, Error>(Error::user("no such world")), &x, direct, direct)
            .array()
    );
}

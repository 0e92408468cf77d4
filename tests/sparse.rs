//! Sparse Jacobians and Hessians against dense ones.

mod common;

use common::{assert_close, floats, vec};
use proptest::prelude::*;
use pullback::prelude::*;
use pullback::sparse::{Csr, Pattern};
use pullback::transform::{All, Arg};
use pullback::{IndexMode, random};

/// The matrix of a Jacobian by one tensor.
fn matrix(dense: &Tensor, rows: usize) -> Vec<f64> {
    let columns = dense.size().unwrap() / rows.max(1);
    dense.reshape([rows, columns]).to_vec().unwrap()
}

/// Every entry is that of the dense matrix to the bit, and what is no entry is zero there.
#[track_caller]
fn assert_same(sparse: &Csr, dense: &[f64]) {
    let found = vec(&sparse.to_dense().unwrap());
    assert_eq!(found.len(), dense.len());
    for (at, (found, due)) in found.iter().zip(dense).enumerate() {
        let is_same = found == due || (found.is_nan() && due.is_nan());
        assert!(is_same, "{at}: {found} instead of {due} in\n{}", sparse.pattern());
    }
}

/// Checks the sparse Jacobian of a function of one tensor at a point, planned at another one.
#[track_caller]
fn check_jacobian(f: impl Fn(&Tensor) -> Tensor, x: &Tensor) -> (Pattern, usize) {
    let plan = sparse_jacobian(&f).plan((&x.zeros_like(),)).unwrap();
    let rows = f(x).size().unwrap();
    for x in [x.clone(), x * 0.5 + 0.25] {
        let found = plan.call((&x,)).unwrap();
        assert_same(&found, &matrix(&jacobian(&f).call((&x,)).unwrap(), rows));
    }
    assert_eq!(&sparsity(&f).call((x,)).unwrap(), plan.pattern());
    (plan.pattern().clone(), plan.products())
}

#[track_caller]
fn check_hessian(f: impl Fn(&Tensor) -> Tensor, x: &Tensor) -> (Pattern, usize) {
    let plan = sparse_hessian(&f).plan((&x.zeros_like(),)).unwrap();
    for x in [x.clone(), x * 0.5 + 0.25] {
        let found = plan.call((&x,)).unwrap().to_dense().unwrap();
        assert_close(&vec(&found), &vec(&hessian(&f).call((&x,)).unwrap()), 1e-13);
    }
    (plan.pattern().clone(), plan.products())
}

fn ramp(n: usize) -> Tensor {
    Tensor::linspace(DType::F64, -1.0, 2.0, n)
}

fn rosenbrock(x: &Tensor) -> Tensor {
    let (a, b) = (x.slice(..-1), x.slice(1..));
    ((b - a.square()).square() * 100.0 + (1.0 - a).square()).sum()
}

#[test]
fn rosenbrock_has_three_diagonals() {
    let (pattern, products) = check_hessian(rosenbrock, &ramp(30));
    assert_eq!((pattern.entries(), products), (3 * 30 - 2, 3));
    let (pattern, products) = check_jacobian(|x| grad(rosenbrock).call((x,)).unwrap(), &ramp(30));
    assert_eq!((pattern.entries(), products), (3 * 30 - 2, 3));
}

#[test]
fn arrows() {
    let hub = |x: &Tensor| (x.slice(1..).sin() * x.narrow(0, 0, 1).sum()).square().sum();
    let (pattern, products) = check_hessian(hub, &ramp(20));
    assert_eq!((pattern.entries(), products), (3 * 20 - 2, 2));
    let wide = |x: &Tensor| stack(&[x.square().sum(), x.slice(0..1).sum()], 0);
    assert_eq!(check_jacobian(wide, &ramp(20)).1, 2);
    assert_eq!(check_jacobian(|x| x.sum() * Tensor::ones(DType::F64, [30]), &ramp(2)).1, 2);
}

#[test]
fn blocks() {
    let x = ramp(24).reshape([4, 2, 3]);
    let (pattern, products) = check_jacobian(|x| (x * x.sum_axes(2).expand_dims(2)).sin(), &x);
    assert_eq!((pattern.entries(), products), (8 * 9, 3));
    let w = ramp(9).reshape([3, 3]);
    let (pattern, products) = check_jacobian(|x| x.matmul(&w), &x);
    assert_eq!((pattern.entries(), products), (8 * 9, 3));
    let (pattern, products) = check_hessian(|x| x.sum_axes(2).powi(3).sum(), &x);
    assert_eq!((pattern.entries(), products), (8 * 9, 3));
}

/// A matrix of constants is as sparse as it is.
#[test]
fn constant_matrices() {
    let m = Tensor::from([[1.0, 0.0, 2.0, 0.0], [0.0, 3.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]);
    let (pattern, products) = check_jacobian(|x| m.matmul(&x.sin()), &ramp(4));
    assert_eq!(pattern.to_string(), "3 x 4, 3 entries\n#.#.\n.#..\n....");
    assert_eq!(products, 1);
    let (pattern, _) = check_jacobian(|x| x.square().matmul(&m.t()), &ramp(8).reshape([2, 4]));
    assert_eq!(pattern.entries(), 6);
}

#[test]
fn masks_of_constants_choose() {
    let mask = Tensor::from([true, false, true, true]);
    let f = |x: &Tensor| where_(&mask, x, x.flip(0).square());
    assert_eq!(check_jacobian(f, &ramp(4)).0.entries(), 4);
    let by_value = |x: &Tensor| where_(&x.gt(0), x, x.flip(0).square());
    assert_eq!(check_jacobian(by_value, &ramp(4)).0.entries(), 8);
}

#[test]
fn indices_are_followed() {
    let f = |x: &Tensor, i: &Tensor, j: &Tensor| {
        let read = x.take(i, 0) * x.take(j, 0);
        Tensor::zeros(DType::F64, [4]).index_add(0, j, &read)
    };
    let (i, j) = (Tensor::from([0i64, 5, 2]), Tensor::from([1i64, 3, 3]));
    let x = ramp(6);
    let plan = sparse_jacobian(f).plan((&x, &i, &j)).unwrap();
    assert_eq!(plan.pattern().to_string(), "4 x 6, 5 entries\n......\n##....\n......\n..##.#");
    let dense = jacobian(f).call((&x, &i, &j)).unwrap();
    assert_same(&plan.call((&x, &i, &j)).unwrap(), &vec(&dense));
    let drop = |x: &Tensor, i: &Tensor| x.take_with(i, 0, IndexMode::Drop).square();
    let outside = Tensor::from([7i64, 1]);
    let found = sparse_jacobian(drop).plan((&x, &outside)).unwrap().call((&x, &outside)).unwrap();
    assert_eq!((found.indptr(), found.indices()), (&[0, 0, 1][..], &[1][..]));
    // Where the index is computed from floats it may be any.
    let largest = |x: &Tensor| x.take(&x.argmax(0), 0).square();
    assert_eq!(check_jacobian(largest, &x).0.entries(), 6);
}

#[test]
fn loops_and_branches() {
    let steps = |x: &Tensor| {
        fori_loop(0, 3, x, |_, x| x + concat(&[x.slice(1..), Tensor::zeros(DType::F64, [1])], 0).sin())
    };
    assert_eq!(check_jacobian(steps, &ramp(9)).0.row(0), [0, 1, 2, 3]);
    let scanned = |x: &Tensor| scan(&Tensor::from(0.0), x, |c, x| (c + x, c * x)).1;
    let (pattern, _) = check_jacobian(scanned, &ramp(4));
    assert_eq!(pattern.to_string(), "4 x 4, 10 entries\n#...\n##..\n###.\n####");
    let halved = |x: &Tensor| while_loop(x, |x| x.abs().max().gt(0.5), |x| x * 0.5);
    assert_eq!(check_jacobian(halved, &ramp(5)).0.entries(), 5);
    assert_eq!(check_hessian(|x| halved(x).powi(3).sum(), &ramp(5)).0.entries(), 5);
    let branched = |x: &Tensor| cond(&x.sum().gt(0), x, |x| x.sin(), |x| x.flip(0) * 2.0);
    assert_eq!(check_jacobian(branched, &ramp(5)).0.entries(), 9);
    assert_eq!(check_hessian(|x| scanned(x).square().sum(), &ramp(4)).0.entries(), 16);
}

#[test]
fn nothing() {
    assert_eq!(
        check_jacobian(|x| x.square(), &Tensor::zeros(DType::F64, [0])),
        check_jacobian(|x| x.sin(), &ramp(0))
    );
    let (pattern, products) = check_jacobian(|x| x.slice(..0), &ramp(3));
    assert_eq!((pattern.to_string().as_str(), products), ("0 x 3, 0 entries", 0));
    let (pattern, products) = check_jacobian(|x| x.zeros_like(), &ramp(3));
    assert_eq!((pattern.entries(), products), (0, 0));
    let (pattern, products) = check_jacobian(|x| x.sign() * x.floor(), &ramp(3));
    assert_eq!((pattern.entries(), products), (0, 0));
    let (pattern, products) = check_hessian(|x| x.sum(), &ramp(3));
    assert_eq!((pattern.entries(), products), (0, 0));
    let (pattern, _) = check_hessian(|x| x.square().sum(), &Tensor::zeros(DType::F64, [0]));
    assert_eq!(pattern.rows(), 0);
    assert_eq!(check_hessian(|x| x.sin(), &Tensor::from(0.5)).0.entries(), 1);
    let none: Vec<Tensor> = Vec::new();
    let plan = sparse_jacobian(|_: &Vec<Tensor>, x: &Tensor| x.clone()).plan((&none, &ramp(2))).unwrap();
    assert_eq!(plan.call((&none, &ramp(2))).unwrap().pattern().to_string(), "2 x 0, 0 entries\n\n");
    let plan = sparse_jacobian(|_: &Tensor| Vec::<Tensor>::new()).plan((&ramp(2),)).unwrap();
    assert_eq!(plan.call((&ramp(2),)).unwrap().rows(), 0);
}

#[derive(Tree, Clone)]
struct Chain {
    ends: (Tensor, Tensor),
    inner: Tensor,
}

#[test]
fn trees_follow_each_other() {
    let f = |chain: &Chain, scale: &Tensor| {
        let all = concat(&[chain.ends.0.reshape([1]), chain.inner.clone(), chain.ends.1.reshape([1])], 0);
        ((all.slice(1..) - all.slice(..-1)).square() * scale, all.sum().reshape([1, 1]))
    };
    let ends = (Tensor::from(1.0), Tensor::from(4.0));
    let (chain, scale) = (Chain { ends, inner: Tensor::from([2.0, 2.5]) }, Tensor::from(2.0));
    let found = sparse_jacobian(f).plan((&chain, &scale)).unwrap().call((&chain, &scale)).unwrap();
    assert_eq!(found.pattern().to_string(), "4 x 4, 10 entries\n#.#.\n..##\n.#.#\n####");
    assert_eq!(vec(found.values()), [-4.0, 4.0, -2.0, 2.0, 6.0, -6.0, 1.0, 1.0, 1.0, 1.0]);
    let by_scale = sparse_jacobian(f).argnum::<1>().plan((&chain, &scale)).unwrap();
    assert_eq!(vec(by_scale.call((&chain, &scale)).unwrap().values()), [1.0, 0.25, 2.25]);
    let by_both = sparsity(f).argnums(All).call((&chain, &scale)).unwrap();
    assert_eq!(by_both.to_string(), "4 x 5, 13 entries\n#.#.#\n..###\n.#.##\n####.");
    let loss = |chain: &Chain, scale: &Tensor| f(chain, scale).0.sum();
    let found = sparse_hessian(loss).argnums((Arg::<1>, Arg::<0>)).plan((&chain, &scale)).unwrap();
    assert_eq!(found.pattern().to_string(), "5 x 5, 18 entries\n.####\n##.#.\n#.#.#\n##.##\n#.###");
    assert_eq!(found.call((&chain, &scale)).unwrap().to_dense().unwrap().dims::<2>().unwrap(), [5, 5]);
}

#[test]
fn single_precision_and_mixed_dtypes() {
    let x = ramp(5).to_dtype(DType::F32);
    let plan = sparse_jacobian(|x: &Tensor| x.sin().to_dtype(DType::F64)).plan((&x,)).unwrap();
    let found = plan.call((&x,)).unwrap();
    let dense = jacobian(|x: &Tensor| x.sin().to_dtype(DType::F64)).call((&x,)).unwrap();
    assert_same(&found, &vec(&dense));
    let wide = |x: &Tensor| x.sin().sum().to_dtype(DType::F64).reshape([1]);
    let found = sparse_jacobian(wide).plan((&x,)).unwrap().call((&x,)).unwrap();
    assert_eq!(found.values().dtype().unwrap(), DType::F64);
    assert_same(&found, &vec(&jacobian(wide).call((&x,)).unwrap()));
    let second = sparse_hessian(|x: &Tensor| x.powi(3).sum()).plan((&x,)).unwrap().call((&x,)).unwrap();
    assert_eq!(second.values().dtype().unwrap(), DType::F32);
}

/// A bad number stays in the entries that it belongs to.
#[test]
fn nan_stays_where_it_is() {
    let x = Tensor::from([1.0, f64::NAN, -1.0, 0.0, 4.0]);
    let f = |x: &Tensor| x.sqrt() + x.flip(0).square();
    let found = sparse_jacobian(f).plan((&x,)).unwrap().call((&x,)).unwrap();
    assert_same(&found, &vec(&jacobian(f).call((&x,)).unwrap()));
    let second = sparse_hessian(|x: &Tensor| x.ln().sum() + (x.slice(1..) * x.slice(..-1)).sum());
    let found = vec(&second.plan((&x,)).unwrap().call((&x,)).unwrap().to_dense().unwrap());
    let bad: Vec<usize> = (0..25).filter(|&i| !found[i].is_finite()).collect();
    assert_eq!(bad, [6, 18]);
}

/// Plans in functions that are recorded: compiled with the rest, differentiated, on lanes.
#[test]
fn plans_are_functions_like_others() {
    let x = ramp(6);
    let plan = sparse_hessian(rosenbrock).plan((&x,)).unwrap();
    let direct = plan.call((&x,)).unwrap();
    let inside = jit(|x: &Tensor| plan.call((&(x * 1.0),))).call((&x,)).unwrap();
    assert_eq!((vec(inside.values()), inside.pattern()), (vec(direct.values()), direct.pattern()));
    let size = |x: &Tensor| Ok::<_, Error>(plan.call((x,))?.values().square().sum());
    let dense = |x: &Tensor| Ok::<_, Error>(hessian(rosenbrock).call((x,))?.square().sum());
    let (found, due) = (grad(size).call((&x,)).unwrap(), grad(dense).call((&x,)).unwrap());
    assert_close(&vec(&found), &vec(&due), 1e-12);
    let both = vmap(|x: &Tensor| Ok::<_, Error>(plan.call((x,))?.values().clone()));
    let both = both.call((&stack(&[x.clone(), &x * 2.0], 0),)).unwrap();
    assert_eq!(vec(&both.index_axis(0, 0)), vec(direct.values()));
}

/// One observation: a camera of nine numbers, two points it sees, and the difference of their images.
fn residuals(cameras: &Tensor, points: &Tensor, camera: &Tensor, from: &Tensor, to: &Tensor) -> Tensor {
    let (camera, a, b) = (cameras.take(camera, 0), points.take(from, 0), points.take(to, 0));
    let (turn, shift, lens) = (camera.slice((.., 0..3)), camera.slice((.., 3..6)), camera.slice((.., 6..9)));
    let image = |point: &Tensor| {
        let seen = point + turn.cos() * point.flip(1) + &shift + turn.sin();
        let flat = seen.slice((.., 0..2)) / (seen.slice((.., 2..3)).square() + 1.0);
        let distance = flat.square().sum_axes(1).expand_dims(1);
        let bent = 1.0 + (lens.slice((.., 1..2)) + lens.slice((.., 2..3)) * &distance) * &distance;
        flat * bent * lens.slice((.., 0..1))
    };
    image(&a) - image(&b)
}

#[test]
fn bundles_of_rays() {
    let key = random::key(3);
    let cameras = random::normal(&random::fold_in(&key, 0), DType::F64, [5, 9]);
    let points = random::normal(&random::fold_in(&key, 1), DType::F64, [12, 3]);
    let pick = |by: i64, n: i64| (Tensor::arange(DType::I64, 20) * by).floor_mod(n);
    let (camera, from, to) = (pick(1, 5), pick(5, 12), (pick(5, 12) + 1).floor_mod(12));
    let f = |p: &(Tensor, Tensor), c: &Tensor, a: &Tensor, b: &Tensor| residuals(&p.0, &p.1, c, a, b);
    let parameters = (cameras, points);
    let plan = sparse_jacobian(f).plan((&parameters, &camera, &from, &to)).unwrap();
    let found = plan.call((&parameters, &camera, &from, &to)).unwrap();
    let (by_cameras, by_points) = jacobian(f).call((&parameters, &camera, &from, &to)).unwrap();
    let dense = concat(&[by_cameras.reshape([40, 45]), by_points.reshape([40, 36])], 1);
    assert_same(&found, &vec(&dense));
    assert!(found.pattern().entries() <= 40 * 15);
}

/// A step that a random function is made of.
fn step(which: u8, x: &Tensor) -> Tensor {
    let n = x.size().unwrap();
    let near = |by: usize| concat(&[x.slice(by as i64 % n as i64..), x.slice(..by as i64 % n as i64)], 0);
    match which % 8 {
        0 => x.sin(),
        1 => x * near(1),
        2 => x + near(2).square(),
        3 => concat(&[x.slice(..1) * x.slice(..1).sum(), x.slice(1..)], 0),
        4 => where_(&x.gt(0), x, near(1)),
        5 => x.maximum(near(1) * 0.5),
        6 => x.index_add(0, &Tensor::from([0i64]), &x.slice(..1).exp()),
        _ => (x / (x.square() + 1.0)).flip(0),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn random_functions(steps in prop::collection::vec(0u8..8, 1..5), values in prop::collection::vec(-2.0..2.0f64, 2..9)) {
        let f = |x: &Tensor| steps.iter().fold(x.clone(), |x, &which| step(which, &x));
        let x = floats(&values);
        check_jacobian(f, &x);
        check_hessian(|x| f(x).sin().sum(), &x);
    }
}

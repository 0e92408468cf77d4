//! Loops and branches under `vmap`: each lane does what it would do alone, in every mix of modes.

mod common;

use common::*;
use pullback::control::{Steps, map};
use pullback::prelude::*;
use pullback::transform::All;
use pullback::{associative_scan, cond, fori_loop, scan, switch, while_loop};

fn number(x: f64) -> Tensor {
    Tensor::from(x)
}

/// What the function gives for each number, one at a time.
fn looped(f: impl Fn(&Tensor) -> Tensor, xs: &[f64]) -> Tensor {
    stack(&xs.iter().map(|&x| f(&number(x))).collect::<Vec<_>>(), 0)
}

/// Checks a function of a number on lanes: its bits, and to rounding its slopes and curvatures in every order of lanes
/// and derivatives, on the spot and compiled.
#[track_caller]
fn check<F: Fn(&Tensor) -> Tensor + Copy>(f: F, xs: &[f64]) {
    let all = floats(xs);
    let due = looped(f, xs);
    assert_bits(&vmap(f).call((&all,)).unwrap(), &due, "eager");
    assert_bits(&jit(vmap(f)).call((&all,)).unwrap(), &due, "compiled");
    let slope = |x: &Tensor| grad(f).call((x,)).unwrap();
    let total = move |xs: &Tensor| Ok::<_, Error>(vmap(f).call((xs,))?.sum());
    let due = vec(&looped(slope, xs));
    let forward = jvp(vmap(f)).call((&all,), (&all.ones_like(),)).unwrap().1;
    let slopes = [
        vmap(grad(f)).call((&all,)).unwrap(),
        jit(vmap(grad(f))).call((&all,)).unwrap(),
        grad(total).call((&all,)).unwrap(),
        jit(grad(total)).call((&all,)).unwrap(),
        forward,
    ];
    slopes.iter().for_each(|found| assert_close(&vec(found), &due, 1e-12));
    let due = vec(&looped(|x| grad(grad(f)).call((x,)).unwrap(), xs));
    let slopes = move |xs: &Tensor| Ok::<_, Error>(vmap(grad(f)).call((xs,))?.sum());
    let curvatures = [
        vmap(grad(grad(f))).call((&all,)).unwrap(),
        grad(slopes).call((&all,)).unwrap(),
        jit(grad(slopes)).call((&all,)).unwrap(),
        jvp(grad(total)).call((&all,), (&all.ones_like(),)).unwrap().1,
    ];
    curvatures.iter().for_each(|found| assert_close(&vec(found), &due, 1e-12));
}

/// Newton's iteration for the square root.
fn root(a: &Tensor) -> Tensor {
    while_loop(a, |x| (x * x - a).abs().gt(a * 1e-12), |x| (a / x + x) * 0.5)
}

#[test]
fn conditional_loops_end_in_each_lane_for_itself() {
    check(root, &[2.0, 1.0, 100.0, 0.01]);
}

#[test]
fn a22_1_and_2_counted_loops_and_loops_without_trips() {
    check(|x| fori_loop(0, 3, &number(1.0), |_, y| y * x), &[2.0, -1.5]);
    check(|x| fori_loop(0, 0, x, |_, y| y * x), &[2.0, -1.5]);
    let nothing = Tensor::zeros(DType::F64, [0, 4]);
    let f = |w: &Tensor| scan(&number(3.0), &nothing, |c, x| (w * c, x * c)).1;
    let rows = vmap(f).call((&floats(&[1.0, 2.0]),)).unwrap();
    assert_eq!(rows.dims::<3>().unwrap(), [2, 0, 4]);
}

#[test]
fn loops_run_as_often_as_each_lane_says() {
    check(
        |x| {
            let n = x.to_dtype(DType::I64);
            fori_loop(0, &n, x, |i, y| (y * x).sin() + i.to_dtype(DType::F64) * 0.1)
        },
        &[3.2, 0.5, -2.5, 6.1],
    );
}

#[test]
fn a22_3_and_4_scans_backwards_and_arrays_made_in_loops() {
    let weights = floats(&[1.0, 10.0, 100.0]);
    let backwards = |x: &Tensor| {
        let xs = stack(&[x.sin(), x * 2.0, x * x], 0);
        scan(x, Steps::over(&xs).reverse(), |c, x| (c * 2.0 + x * c, c.clone())).1.vdot(&weights)
    };
    check(backwards, &[0.3, -1.0, 2.0]);
    let powers = |w: &Tensor| {
        let start = Tensor::zeros(DType::F64, [4]).set_at(0, 1.0);
        fori_loop(0, 3, &start, |i, a| a.set_at(i + 1, a.at(i) * w)).sum()
    };
    check(powers, &[2.0, 0.5, -1.0]);
}

#[test]
fn scans_with_lanes_along_any_axis_and_shared_parts() {
    let steps = floats(&[0.1, 0.2, 0.3]);
    let f = |c: &Tensor, xs: &Tensor| {
        let (c, ys) = scan(c, xs, |c, x| (c * x, c + x));
        (c, ys)
    };
    let xs = Tensor::from([[0.1, 0.2, 0.3], [1.0, -1.0, 2.0]]);
    let cs = floats(&[1.0, 2.0]);
    let one = |c: f64, xs: &Tensor| f(&number(c), xs);
    let due = [one(1.0, &xs.index_axis(0, 0)), one(2.0, &xs.index_axis(0, 1))];
    let (c, ys) = vmap(f).call((&cs, &xs)).unwrap();
    assert_bits(&c, &stack(&[due[0].0.clone(), due[1].0.clone()], 0), "carries");
    assert_bits(&ys, &stack(&[due[0].1.clone(), due[1].1.clone()], 0), "ys");
    let (_, across) = vmap(f).in_axes((0, 1)).out_axes((0, 1)).call((&cs, &xs.t())).unwrap();
    assert_bits(&across, &ys.t(), "along the second axis");
    let (_, shared) = vmap(f).in_axes((0, None)).call((&cs, &steps)).unwrap();
    assert_bits(&shared, &stack(&[one(1.0, &steps).1, one(2.0, &steps).1], 0), "one sequence for all");
}

#[test]
fn a45_1_each_lane_takes_its_own_arm() {
    let f = |x: &Tensor| cond(&x.gt(0), x, |x| x.sqrt(), |x| x * 2.0);
    let xs = floats(&[4.0, -1.0, 0.0]);
    for found in [vmap(grad(f)).call((&xs,)).unwrap(), jit(vmap(grad(f))).call((&xs,)).unwrap()] {
        assert_eq!(vec(&found), [0.25, 2.0, 2.0]);
    }
    let total = |xs: &Tensor| Ok::<_, Error>(vmap(f).call((xs,))?.sum());
    assert_eq!(slopes(move |xs| total(xs).unwrap(), &xs), [0.25, 2.0, 2.0]);
    // The arm for other lanes is a loop that would not end here, and reads out of range.
    let table = floats(&[3.0, 5.0]);
    let f = |x: &Tensor| {
        let k = x.to_dtype(DType::I32);
        let read = |x: &Tensor| table.at(x.to_dtype(DType::I64)) * x;
        let down =
            |x: &Tensor| while_loop((x, &number(1.0)), |(x, _)| x.floor().ne(0), |(x, p)| (x - 1.0, p * x)).1;
        switch(&k, x, [&read, &read, &down])
    };
    check(f, &[0.5, 1.25, 4.5, 7.75]);
    check(f, &[0.5, 1.25]);
    check(f, &[2.5, 9.0]);
}

#[test]
fn lanes_of_lanes() {
    let f = |x: &Tensor, y: &Tensor| {
        let steps = |(x, _): &(Tensor, Tensor)| x.lt(y);
        while_loop((x, &number(0.0)), steps, |(x, s)| (x * 2.0, s + x.sin())).1
    };
    let (xs, ys) = ([0.5, 1.0, 3.0], [1.0, 9.0]);
    let inner = move |x: &Tensor, ys: &Tensor| vmap(f).in_axes((None, 0)).call((x, ys));
    let outer = vmap(inner).in_axes((0, None));
    let found = outer.call((&floats(&xs), &floats(&ys))).unwrap();
    let due: Vec<f64> = xs.iter().flat_map(|&x| ys.map(|y| item(&f(&number(x), &number(y))))).collect();
    assert_eq!(vec(&found.reshape([6])), due);
    let slope = |x: &Tensor, y: &Tensor| grad(f).call((x, y));
    let due: Vec<f64> =
        xs.iter().flat_map(|&x| ys.map(|y| item(&slope(&number(x), &number(y)).unwrap()))).collect();
    let inner = move |x: &Tensor, ys: &Tensor| vmap(slope).in_axes((None, 0)).call((x, ys));
    let found = jit(vmap(inner).in_axes((0, None))).call((&floats(&xs), &floats(&ys))).unwrap();
    assert_eq!(vec(&found.reshape([6])), due);
}

#[test]
fn captures_of_lanes_get_their_gradients() {
    // The body captures a lane of x and a matrix that all lanes share.
    let f = |x: &Tensor, w: &Tensor| {
        let n = x.at(0).to_dtype(DType::I64);
        fori_loop(0, &n, x, |_, h| (w.matmul(h) + x).tanh()).sum()
    };
    let w = Tensor::from([[0.3, -0.2], [0.8, 0.5]]);
    let xs = Tensor::from([[1.0, 0.5], [3.0, -0.7], [0.0, 2.0]]);
    let total = |xs: &Tensor, w: &Tensor| Ok::<_, Error>(vmap(f).in_axes((0, None)).call((xs, w))?.sum());
    let (by_xs, by_w) = grad(total).argnums(All).call((&xs, &w)).unwrap();
    let each: Vec<(Tensor, Tensor)> =
        (0..3).map(|i| grad(f).argnums(All).call((&xs.index_axis(0, i), &w)).unwrap()).collect();
    let rows: Vec<Tensor> = each.iter().map(|(x, _)| x.clone()).collect();
    assert_close(&vec(&by_xs.reshape([6])), &vec(&stack(&rows, 0).reshape([6])), 1e-13);
    let sum = each.iter().skip(1).fold(each[0].1.clone(), |sum, (_, w)| sum + w);
    assert_close(&vec(&by_w.reshape([4])), &vec(&sum.reshape([4])), 1e-13);
}

#[test]
fn maps_and_associative_scans() {
    let rates = floats(&[1.0, 2.0, 3.0, 4.0, 5.0]);
    check(|x| map(&rates, |r| (r * x).sin()).sum(), &[0.3, -1.0, 2.0]);
    check(|x| associative_scan(&(&rates * x), |a, b| a * b).sum(), &[0.3, -1.0, 2.0]);
}

#[test]
fn a_lane_that_is_done_does_not_fail_and_one_out_of_range_does() {
    let table = floats(&[1.0, 2.0, 4.0]);
    let f = |i: &Tensor, n: &Tensor| {
        let step = |(k, s): &(Tensor, Tensor)| (k + 1, s + table.at(i + k));
        while_loop((&Tensor::from(0i64), &number(0.0)), |(k, _)| k.lt(n), step).1
    };
    let run = |i: &[i64], n: &[i64]| {
        let (i, n) = (ints(i), ints(n));
        [vmap(f).call((&i, &n)), jit(vmap(f)).call((&i, &n))]
    };
    for found in run(&[2, 0, 7], &[1, 3, 0]) {
        assert_eq!(vec(&found.unwrap()), [4.0, 7.0, 0.0]);
    }
    for found in run(&[2, 0, 7], &[2, 3, 0]) {
        let text = found.unwrap_err().to_string();
        assert!(text.contains("IndexOutOfRange") && text.contains("control_lanes.rs"), "{text}");
    }
}

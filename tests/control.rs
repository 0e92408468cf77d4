//! Loops and branches as users write them: what they compute, their slopes in every mode, nesting and captures.

mod common;

use common::*;
use pullback::control::{Steps, map};
use pullback::prelude::*;
use pullback::transform::All;
use pullback::{associative_scan, cond, fori_loop, scan, switch, while_loop};
use std::cell::Cell;
use std::sync::Mutex;

fn number(x: f64) -> Tensor {
    Tensor::from(x)
}

fn int(x: i64) -> Tensor {
    Tensor::from(x)
}

/// The second derivative of a function of a number, in the four mixes of modes.
#[track_caller]
fn curvature<F: Fn(&Tensor) -> Tensor + Copy>(f: F, x: f64, relative: f64) -> f64 {
    let x = number(x);
    let one = number(1.0);
    let forward = move |x: &Tensor| Ok::<_, Error>(jvp(f).call((x,), (&x.ones_like(),))?.1);
    let found = item(&grad(grad(f)).call((&x,)).unwrap());
    let others = [
        grad(forward).call((&x,)).unwrap(),
        jvp(grad(f)).call((&x,), (&one,)).unwrap().1,
        jvp(forward).call((&x,), (&one,)).unwrap().1,
    ];
    others.iter().for_each(|other| assert_close(&[item(other)], &[found], relative));
    found
}

fn central(f: impl Fn(f64) -> f64, x: f64) -> f64 {
    let h = 1e-6 * x.abs().max(1.0);
    (f(x + h) - f(x - h)) / (2.0 * h)
}

/// Computed bounds so far apart, in either direction, that their difference does not fit.
#[test]
fn counted_loops_from_and_to_extreme_bounds() {
    let double =
        |lower: &Tensor, upper: &Tensor| fori_loop(lower, upper, &Tensor::from(1.0), |_, x: &Tensor| x * 2.0);
    let min = i64::MIN;
    for (lower, upper, due) in [
        (5, min, 1.0),
        (1, min, 1.0),
        (i64::MAX, min, 1.0),
        (i64::MAX, -5, 1.0),
        (min, min, 1.0),
        (min, min + 3, 8.0),
        (i64::MAX - 3, i64::MAX, 8.0),
        (-2, 1, 8.0),
    ] {
        let (lower, upper) = (Tensor::from(lower), Tensor::from(upper));
        assert_eq!(double(&lower, &upper).item::<f64>().unwrap(), due);
        assert_eq!(jit(double).call((&lower, &upper)).unwrap().item::<f64>().unwrap(), due);
    }
}

#[test]
fn a22_1_a_scan_of_nothing() {
    let nothing = Tensor::zeros(DType::F64, [0, 4]);
    let f = |c: &Tensor, w: &Tensor| scan(c, &nothing, |c, x| (w * c, (c.clone(), x * c)));
    let (c, w) = (number(3.0), number(2.0));
    for (carry, (ys, rows)) in [f(&c, &w), jit(f).call((&c, &w)).unwrap()] {
        assert_eq!(item(&carry), 3.0);
        assert_eq!((ys.dims::<1>().unwrap(), rows.dims::<2>().unwrap()), ([0], [0, 4]));
    }
    let g = grad(|c: &Tensor, w: &Tensor| f(c, w).0).argnums(All);
    let (dc, dw) = compiled_too(g.call((&c, &w)).unwrap(), jit(g).call((&c, &w)).unwrap());
    assert_eq!((item(&dc), item(&dw)), (1.0, 0.0));
}

#[test]
fn a22_2_counted_loops() {
    let cube = |x: &Tensor| fori_loop(0, 3, &number(1.0), |_, y| y * x);
    assert_eq!(slopes(cube, &number(2.0)), [12.0]);
    let none = |x: &Tensor| fori_loop(0, 0, x, |_, y| y * x);
    assert_eq!(slopes(none, &number(2.0)), [1.0]);
    assert_eq!(curvature(cube, 2.0, 0.0), 12.0);
}

#[test]
fn a22_3_scans_from_the_end() {
    let weights = floats(&[1.0, 10.0, 100.0]);
    let f = |x: &Tensor| scan(&number(0.0), Steps::over(x).reverse(), |c, x| (c * 2.0 + x, c.clone())).1;
    let x = floats(&[1.0, 2.0, 3.0]);
    assert_eq!(vec(&f(&x)), [8.0, 3.0, 0.0]);
    assert_eq!(slopes(|x| f(x).vdot(&weights), &x), [0.0, 1.0, 12.0]);
}

#[test]
fn a22_4_an_array_filled_in_a_loop() {
    let f = |w: &Tensor| {
        let start = floats(&[1.0, 0.0, 0.0, 0.0]);
        fori_loop(0, 3, &start, |i, a| a.set_at(i + 1, a.at(i) * w)).sum()
    };
    assert_eq!(item(&f(&number(2.0))), 15.0);
    assert_eq!(slopes(f, &number(2.0)), [17.0]);
    assert_eq!(curvature(f, 2.0, 0.0), 14.0);
}

#[test]
fn a24_1_many_steps() {
    let f = |c: &Tensor| scan(c, 1_000_000, |c, ()| (c * 0.9999999 + c.sin() * 1e-7, ())).0;
    let gradient = jit(value_and_grad(f));
    let (value, slope) = gradient.call((&number(0.5),)).unwrap();
    assert_close(&[item(&value), item(&slope)], &[0.497955062624872, 0.98788134374005], 1e-9);
    let lowered = gradient.lower((&number(0.5),)).unwrap();
    assert!(lowered.memory().bytes < 2 * 8 * 1_000_000, "{}", lowered.memory().bytes);
}

#[test]
fn a45_1_a_branch_with_a_singular_arm() {
    let f = |x: &Tensor| cond(&x.gt(0), x, |x| x.sqrt(), |x| x * 2.0);
    for (x, due) in [(4.0, 0.25), (-1.0, 2.0), (0.0, 2.0)] {
        assert_eq!(slopes(f, &number(x)), [due]);
    }
    let lanes = vmap(grad(f));
    let x = floats(&[4.0, -1.0, 0.0]);
    for found in [lanes.call((&x,)).unwrap(), jit(vmap(grad(f))).call((&x,)).unwrap()] {
        assert_eq!(vec(&found), [0.25, 2.0, 2.0]);
    }
}

/// Newton's iteration for the square root, by `while_loop` and by Rust's own loop.
fn root(a: &Tensor) -> Tensor {
    while_loop(a, |x| (x * x - a).abs().gt(a * 1e-12), |x| (a / x + x) * 0.5)
}

fn root_of(a: f64) -> (f64, usize) {
    let (mut x, mut n) = (a, 0);
    while (x * x - a).abs() > 1e-12 * a {
        (x, n) = (0.5 * (a / x + x), n + 1);
    }
    (x, n)
}

#[test]
fn newtons_iteration_in_every_mode() {
    for a in [1.0, 1.1, 2.0, 30.0, 1e4] {
        let iterations = root_of(a).1;
        let unrolled = |a: &Tensor| (0..iterations).fold(a.clone(), |x, _| (a / &x + x) * 0.5);
        let x = number(a);
        assert_eq!(item(&root(&x)), root_of(a).0);
        let found = slopes(root, &x);
        // Contributions may be added up in another order.
        assert_close(&found, &slopes(unrolled, &x), 1e-15);
        // At 1 no iteration is made, and next to it there is one.
        let due = if iterations == 0 { 1.0 } else { central(|a| root_of(a).0, a) };
        assert_close(&found, &[due], 1e-7);
        assert_close(&[curvature(root, a, 1e-11)], &[curvature(unrolled, a, 1e-11)], 1e-13);
    }
}

#[test]
fn lanes_go_on_for_as_long_as_each_needs() {
    let a = floats(&[1.0, 1.1, 2.0, 30.0, 1e4]);
    let alone =
        |f: &dyn Fn(&Tensor) -> Tensor| vec(&a).into_iter().map(|a| item(&f(&number(a)))).collect::<Vec<_>>();
    assert_eq!(vec(&vmap(root).call((&a,)).unwrap()), alone(&root));
    let slopes = alone(&|a| grad(root).call((a,)).unwrap());
    assert_eq!(vec(&vmap(grad(root)).call((&a,)).unwrap()), slopes);
    assert_eq!(vec(&jit(vmap(grad(root))).call((&a,)).unwrap()), slopes);
}

#[test]
fn steps_until_the_ground() {
    let fall = |v: &Tensor| {
        let step = |(y, v): &(Tensor, Tensor)| (y + v * 0.01, v - 0.0981 - v * v * 0.003);
        while_loop((&number(1.0), v), |(y, _)| y.ge(0), step).0
    };
    let reference = |v: f64| {
        let (mut y, mut v) = (1.0, v);
        while y >= 0.0 {
            (y, v) = (y + v * 0.01, v - 0.0981 - v * v * 0.003);
        }
        y
    };
    for v in [2.0, 0.1, -3.0] {
        assert_eq!(item(&fall(&number(v))), reference(v));
        assert_close(&slopes(fall, &number(v)), &[central(reference, v)], 1e-7);
    }
}

#[test]
fn any_number_of_trips() {
    for n in [0, 1, 10, 1_000_000] {
        let rate = 0.5 / n.max(1) as f64;
        let counted = |x: &Tensor| fori_loop(0, n, &number(1.0), |_, y| y + y * x * rate);
        let times = |x: &Tensor| fori_loop(0, int(n), &number(1.0), |_, y| y + y * x * rate);
        let conditional = |x: &Tensor| {
            let step = |(i, y): &(Tensor, Tensor)| (i + 1, y + y * x * rate);
            while_loop((&int(0), &number(1.0)), |(i, _)| i.lt(n), step).1
        };
        let x = number(1.0);
        let due = n as f64 * rate * (1.0 + rate).powi(n as i32 - 1);
        let found = jit(grad(counted)).call((&x,)).unwrap();
        assert_close(&[item(&found)], &[due], 1e-10);
        assert_bits(&found, &jit(grad(times)).call((&x,)).unwrap(), "times");
        assert_bits(&found, &jit(grad(conditional)).call((&x,)).unwrap(), "while");
        let (value, tangent) = jit(jvp(conditional)).call((&(x.clone(),), &(x.clone(),))).unwrap();
        assert_bits(&value, &jit(counted).call((&x,)).unwrap(), "values");
        assert_close(&[item(&tangent)], &[due], 1e-10);
        if n <= 10 {
            assert_bits(&found, &grad(conditional).call((&x,)).unwrap(), "interpreted");
        }
    }
}

#[test]
fn bounds_are_integers_or_tensors() {
    let sum = |lower: i64, upper: i64| {
        let total = |i: &Tensor, s: &Tensor| s + i;
        let due = (lower..upper).sum::<i64>();
        for found in [
            fori_loop(lower, upper, &int(0), total),
            fori_loop(lower, &int(upper), &int(0), total),
            fori_loop(int(lower), upper, &int(0), total),
            fori_loop(&int(lower), &int(upper), &int(0), total),
            jit(|l: &Tensor, u: &Tensor| fori_loop(l, u, &int(0), total))
                .call((&int(lower), &int(upper)))
                .unwrap(),
        ] {
            assert_eq!(found.item::<i64>().unwrap(), due, "from {lower} to {upper}");
        }
    };
    for (lower, upper) in [(0, 0), (0, 5), (-3, 4), (5, 2), (7, 8)] {
        sum(lower, upper);
    }
    let three = fori_loop(0u32, 3usize, &int(0), |i, s| s + i);
    assert_eq!(three.item::<i64>().unwrap(), 3);
}

#[test]
fn gradients_flow_into_captures() {
    // x, w and b are all captured by the body, b by a loop inside it.
    let f = |x: &Tensor, w: &Tensor, b: &Tensor| {
        let inner = |h: &Tensor| fori_loop(0, 2, h, |_, h| (w.matmul(h) + b).tanh());
        scan(&Tensor::zeros(DType::F64, [2]), 3, |h, ()| (inner(h) + x, h.sum())).0.sum()
    };
    let unrolled = |x: &Tensor, w: &Tensor, b: &Tensor| {
        let mut h = Tensor::zeros(DType::F64, [2]);
        for _ in 0..3 {
            let inner = (0..2).fold(h, |h, _| (w.matmul(&h) + b).tanh());
            h = inner + x;
        }
        h.sum()
    };
    let (x, w, b) = (floats(&[0.3, -0.2]), Tensor::from([[0.5, -0.4], [0.1, 0.9]]), floats(&[0.2, 0.1]));
    let g = grad(f).argnums(All);
    let found = compiled_too(g.call((&x, &w, &b)).unwrap(), jit(g).call((&x, &w, &b)).unwrap());
    let due = grad(unrolled).argnums(All).call((&x, &w, &b)).unwrap();
    for (found, due) in [(&found.0, &due.0), (&found.1, &due.1), (&found.2, &due.2)] {
        assert_close(&vec(found), &vec(due), 1e-14);
    }
}

#[test]
fn captures_are_passed_and_not_copied_in() {
    let table = floats(&[0.5; 100]);
    let f = |x: &Tensor| fori_loop(0, 3, x, |_, x| x + &table + &table);
    let lowered = jit(f).lower((&Tensor::zeros(DType::F64, [100]),)).unwrap();
    let text = lowered.program().to_string();
    assert_eq!(lowered.program().params().len(), 2, "{text}");
    assert!(text.contains("trip = 3, consts = 1, carries = 2"), "{text}");
}

#[test]
fn closures_of_one_loop_share_what_they_capture() {
    // The condition captures a and b, the body b and c; and of the arms one a and b, the other b.
    let grow = |a: &Tensor, b: &Tensor, c: &Tensor| while_loop(c, |x| (x * b).lt(a), |x| x * c + b);
    let pick = |a: &Tensor, b: &Tensor, c: &Tensor| cond(&c.gt(2), c, |c| c * a - b, |c| c * b);
    let (a, b) = (number(100.0), number(3.0));
    for (c, grown, picked) in [(2.0, 37.0, 6.0), (5.0, 143.0, 497.0)] {
        let c = number(c);
        assert_eq!(item(&grow(&a, &b, &c)), grown);
        assert_eq!(item(&pick(&a, &b, &c)), picked);
        assert_eq!(item(&jit(grow).call((&a, &b, &c)).unwrap()), grown);
        assert_eq!(item(&jit(pick).call((&a, &b, &c)).unwrap()), picked);
    }
    let slopes = |f: fn(&Tensor, &Tensor, &Tensor) -> Tensor, c| {
        let (a, b, c) = grad(f).argnums(All).call((&a, &b, &number(c))).unwrap();
        [item(&a), item(&b), item(&c)]
    };
    // c^4 + b (c^2 + c + 1) after three iterations.
    assert_eq!(slopes(grow, 2.0), [0.0, 7.0, 47.0]);
    assert_eq!(slopes(pick, 2.0), [0.0, 2.0, 3.0]);
    assert_eq!(slopes(pick, 5.0), [5.0, -1.0, 100.0]);
    let text = jit(grow).lower((&a, &b, &b)).unwrap().program().to_string();
    assert!(text.contains("consts = 3, carries = 1"), "{text}");
}

#[test]
fn bodies_are_recorded_once() {
    let calls = Cell::new(0);
    let count = || calls.set(calls.get() + 1);
    let x = floats(&[1.0, 2.0, 3.0]);
    scan(&number(0.0), &x, |c, x| {
        count();
        (c + x, ())
    });
    while_loop(
        &number(9.0),
        |x| x.gt(1),
        |x| {
            count();
            x * 0.5
        },
    );
    fori_loop(0, 100, &x, |_, x| {
        count();
        x * 2.0
    });
    assert_eq!(calls.get(), 3);
}

#[derive(Tree, Clone, Debug)]
struct State {
    position: Tensor,
    steps: Tensor,
    idle: Vec<Tensor>,
}

#[test]
fn carries_are_trees_of_any_dtypes() {
    let run = |x: &Tensor| {
        let idle = vec![Tensor::from([true, false]), Tensor::zeros(DType::F32, [0, 3])];
        let start = State { position: x.clone(), steps: int(0), idle };
        let step =
            |s: &State| State { position: &s.position * 0.5, steps: &s.steps + 1, idle: s.idle.clone() };
        while_loop(&start, |s| s.position.abs().max().gt(1), step)
    };
    let x = floats(&[8.0, -3.0]);
    let end = run(&x);
    assert_eq!((vec(&end.position), end.steps.item::<i64>().unwrap()), (vec![1.0, -0.375], 3));
    assert_eq!(end.idle[0].to_vec::<bool>().unwrap(), [true, false]);
    assert_eq!(end.idle[1].dims::<2>().unwrap(), [0, 3]);
    assert_eq!(slopes(|x| run(x).position.sum(), &x), [0.125; 2]);
    assert_eq!(slopes(|x| run(x).position.sum() * run(x).steps.to_dtype(DType::F64), &x), [0.375; 2]);
}

#[test]
fn nothing_carried_nothing_scanned_nothing_stacked() {
    let ((), ()) = scan(&(), 3, |(), ()| ((), ()));
    let ((), ones) = scan(&(), 3, |(), ()| ((), number(1.0)));
    assert_eq!(vec(&ones), [1.0; 3]);
    let (c, ys) =
        scan(&Tensor::zeros(DType::F64, [0]), &Tensor::zeros(DType::F64, [2, 0]), |c, x| (c + x, c * x));
    assert_eq!((c.dims::<1>().unwrap(), ys.dims::<2>().unwrap()), ([0], [2, 0]));
    let unused = |x: &Tensor| scan((x, &(x * x)), x, |(a, b), x| ((a.clone(), b * 3.0), x.sin())).0.0.sum();
    assert_eq!(slopes(unused, &floats(&[1.0, 2.0])), [1.0, 1.0]);
}

#[test]
fn map_goes_over_slices_of_trees() {
    let f = |x: &Tensor, y: &Tensor| map((x, y), |(x, y)| (x.matmul(y), y.sum()));
    let x = Tensor::arange(DType::F64, 12).reshape([3, 2, 2]);
    let y = Tensor::arange(DType::F64, 6).reshape([3, 2]);
    let (products, sums) = f(&x, &y);
    assert_eq!(vec(&products), [1.0, 3.0, 23.0, 33.0, 77.0, 95.0]);
    assert_eq!(vec(&sums), [1.0, 5.0, 9.0]);
    assert_eq!(slopes(|x| map(x, |x| x.powi(3)).sum(), &floats(&[1.0, 2.0])), [3.0, 12.0]);
}

#[test]
fn loops_and_branches_in_each_other() {
    // For each x: a while loop whose body branches, its number of trips by the data.
    let f = |x: &Tensor| {
        let collatz = |n: &Tensor, x: &Tensor| {
            let even = |(n, y): &(Tensor, Tensor)| (n / 2, y * 0.5);
            let odd = |(n, y): &(Tensor, Tensor)| (n * 3 + 1, (y * x).sin());
            let step = |s: &(Tensor, Tensor)| cond(&(&s.0 % 2).eq(0), s, even, odd);
            while_loop((n, x), |(n, _)| n.gt(1), step).1
        };
        scan(&number(0.0), (&ints(&[6, 1, 7]), x), |sum, (n, x)| (sum + collatz(n, x), ())).0
    };
    let unrolled = |x: &Tensor| {
        let mut sum = number(0.0);
        for (i, start) in [6, 1, 7].into_iter().enumerate() {
            let x = x.index_axis(0, i);
            let (mut n, mut y) = (start, x.clone());
            while n > 1 {
                (n, y) = if n % 2 == 0 { (n / 2, y * 0.5) } else { (n * 3 + 1, (y * &x).sin()) };
            }
            sum += y;
        }
        sum
    };
    let x = floats(&[0.7, -1.3, 2.1]);
    let found = slopes(f, &x);
    assert_close(&found, &slopes(unrolled, &x), 1e-14);
    let line = |t: &Tensor| f(&(t * &x));
    let straight = |t: &Tensor| unrolled(&(t * &x));
    assert_close(&[curvature(line, 1.0, 1e-12)], &[curvature(straight, 1.0, 1e-12)], 1e-12);
}

#[test]
fn transforms_inside_bodies_and_around_them() {
    // Gradient descent, each step a gradient; then the gradient of the result with respect to the rate.
    let loss = |x: &Tensor| (x - 3.0).square().sum();
    let train = |rate: &Tensor| {
        fori_loop(0, 5, &number(0.0), |_, x| Ok::<_, Error>(x - grad(loss).call((x,))? * rate))
    };
    let due = |rate: f64| 3.0 - 3.0 * (1.0 - 2.0 * rate).powi(5);
    let rate = number(0.1);
    assert_close(&[item(&train(&rate).unwrap())], &[due(0.1)], 1e-14);
    let slope = grad(train).call((&rate,)).unwrap();
    assert_close(&[item(&slope)], &[30.0 * 0.8f64.powi(4)], 1e-14);
    assert_bits(&slope, &jit(grad(train)).call((&rate,)).unwrap(), "compiled");
    assert_bits(&slope, &grad(jit(train)).call((&rate,)).unwrap(), "a compiled function inside");
    let compiled_body = |x: &Tensor| fori_loop(0, 3, x, |_, y| jit(|y: &Tensor| y * y).call((y,)));
    assert_eq!(item(&grad(compiled_body).call((&number(1.5),)).unwrap()), 8.0 * 1.5f64.powi(7));
}

#[test]
fn only_the_chosen_arm_runs() {
    let read = |x: &Tensor, i: &Tensor| cond(&i.lt(2), (x, i), |(x, i)| x.take(i, 0), |(x, _)| x.sum());
    let x = floats(&[1.0, 10.0]);
    for (i, due, slope) in [(1, 10.0, [0.0, 1.0]), (7, 11.0, [1.0, 1.0])] {
        let i = int(i);
        for value in [read(&x, &i), jit(read).call((&x, &i)).unwrap()] {
            assert_eq!(item(&value), due);
        }
        assert_eq!(slopes(|x| read(x, &i), &x), slope);
    }
    let forever = |x: &Tensor| cond(&x.gt(0), x, |x| x * 2.0, |x| while_loop(x, |x| x.lt(1), |x| x * 1.0));
    assert_eq!(slopes(forever, &number(3.0)), [2.0]);
}

#[test]
fn indices_beyond_the_arms_mean_the_nearest() {
    let f = |i: &Tensor, x: &Tensor| switch(i, x, [&|x| x.sin(), &|x| x * x, &|x| x * x * x]);
    let x = number(2.0);
    let choices: [(Tensor, f64); 8] = [
        (int(0), x.sin().item().unwrap()),
        (int(1), 4.0),
        (int(i64::MAX), 8.0),
        (int(1 << 32), 8.0),
        (int(i64::MIN), x.sin().item().unwrap()),
        (Tensor::from(-1i32), x.sin().item().unwrap()),
        (Tensor::from(u64::MAX), 8.0),
        (Tensor::from(1u32), 4.0),
    ];
    for (i, due) in choices {
        assert_eq!(item(&f(&i, &x)), due);
        assert_eq!(item(&jit(f).call((&i, &x)).unwrap()), due);
    }
    assert_eq!(slopes(|x| f(&int(2), x), &x), [12.0]);
    assert_eq!(item(&switch(&int(5), &x, [&|x| x * 7.0])), 14.0);
}

#[test]
fn associative_scans_agree_with_scans() {
    // Products of matrices do not commute.
    for n in 0..18usize {
        let xs = (Tensor::arange(DType::F64, n * 4).reshape([n, 2, 2]) * 0.37).sin();
        let product = |a: &Tensor, b: &Tensor| a.matmul(b);
        let eye = Tensor::eye(DType::F64, 2);
        let stepwise = |xs: &Tensor| {
            let step = |c: &Tensor, x: &Tensor| (c.matmul(x), c.matmul(x));
            scan(&eye, xs, step).1
        };
        let backwards = |xs: &Tensor| {
            let step = |c: &Tensor, x: &Tensor| (c.matmul(x), c.matmul(x));
            scan(&eye, Steps::over(xs).reverse(), step).1
        };
        let close = |found: &Tensor, due: &Tensor| {
            assert_eq!(found.shape().unwrap(), due.shape().unwrap());
            let error = (found - due).abs().sum();
            assert!(item(&error) < 1e-13, "{n}: {error}");
        };
        close(&associative_scan(&xs, product), &stepwise(&xs));
        close(&associative_scan(Steps::over(&xs).reverse(), product), &backwards(&xs));
        let weights = (Tensor::arange(DType::F64, n * 4).reshape([n, 2, 2]) * 0.11).cos();
        let found =
            grad(|xs: &Tensor| (associative_scan(xs, product) * &weights).sum()).call((&xs,)).unwrap();
        let due = grad(|xs: &Tensor| (stepwise(xs) * &weights).sum()).call((&xs,)).unwrap();
        close(&found, &due);
    }
    let sums = |x: &Tensor| associative_scan(x, |a, b| a + b);
    let text = jit(sums).lower((&Tensor::zeros(DType::F64, [1000]),)).unwrap().program().to_string();
    assert_eq!(text.matches("= add ").count(), 18, "{text}");
}

#[test]
fn closures_may_return_results() {
    let x = floats(&[1.0, 2.0]);
    let refuse = |fails: bool| match fails {
        true => Err(Error::invalid("test", "no", pullback::ir::Loc::caller())),
        false => Ok(()),
    };
    for fails in [false, true] {
        let scanned = scan(&number(0.0), &x, |c, x| {
            refuse(fails)?;
            Ok::<_, Error>((c + x, x.clone()))
        });
        let chosen =
            cond(&Tensor::from(true), &x, |x| Ok::<_, Error>(x.clone()), |x| refuse(fails).map(|()| x * 2.0));
        let counted = fori_loop(0, 2, &x, |_, x| refuse(fails).map(|()| x * 2.0));
        let combined = associative_scan(&x, |a, b| refuse(fails).map(|()| a + b));
        let mapped = map(&x, |x| refuse(fails).map(|()| x * 2.0));
        for failed in
            [scanned.is_err(), chosen.is_err(), counted.is_err(), combined.is_err(), mapped.is_err()]
        {
            assert_eq!(failed, fails);
        }
    }
}

#[test]
fn errors_come_through_in_the_tensors() {
    let failed = number(1.0) + Tensor::from(1.0f32);
    let message = failed.error().unwrap().to_string();
    let x = floats(&[1.0, 2.0]);
    let (c, (y, z)) = scan(&failed, &x, |c, x| (c + x, (x.clone(), c.clone())));
    let found = [
        c,
        y,
        z,
        scan(&number(0.0), &failed, |c, x| (c + x, ())).0,
        scan(&number(0.0), &x, |c, x| (c + x + &failed, ())).0,
        scan(&number(0.0), &x, |c, x| (c + x, &failed + x)).1,
        fori_loop(0, 2, &failed, |_, x| x * 2.0),
        fori_loop(0, failed.clone(), &x, |_, x| x * 2.0),
        fori_loop(0, 3, &x, |_, x| x * &failed),
        while_loop(&failed, |x| x.gt(1), |x| x * 0.5),
        while_loop(&x, |_| failed.gt(1), |x| x * 0.5),
        cond(&failed.gt(0), &x, |x| x.clone(), |x| x * 2.0),
        cond(&Tensor::from(true), &failed, |x| x.clone(), |x| x * 2.0),
        cond(&Tensor::from(true), &x, |x| x.clone(), |x| x * &failed),
        switch(&failed, &x, [&|x| x.clone()]),
        associative_scan(&failed, |a, b| a + b),
        associative_scan(&x, |a, b| a + b + &failed),
        map(&x, |x| x + &failed),
    ];
    for tensor in found {
        assert_eq!(tensor.error().map(|error| error.to_string()), Some(message.clone()));
    }
}

#[test]
fn bodies_see_no_values_and_let_no_tensor_escape() {
    let asks = |x: &Tensor| {
        let halve = |x: &Tensor| Ok::<_, Error>(if x.item::<f64>()? > 1.0 { x * 0.5 } else { x.clone() });
        fori_loop(0, 3, x, |_, x| halve(x))
    };
    let x = number(4.0);
    let failures =
        [asks(&x).map(|_| ()), grad(asks).call((&x,)).map(|_| ()), jit(asks).call((&x,)).map(|_| ())];
    for failure in failures {
        let error = failure.unwrap_err();
        let root = error.root();
        assert!(matches!(root, Error::ValueUnknownWhileTracing { transform: "fori_loop", .. }), "{error}");
    }
    // What a body captures is not its own: it is known where it is known outside.
    let knows = |x: &Tensor| {
        fori_loop(0, 3, x, |_, y| Ok::<_, Error>(if x.item::<f64>()? > 1.0 { y * x } else { -y }))
    };
    assert_eq!(item(&grad(knows).call((&number(2.0),)).unwrap()), 32.0);

    let outside = Mutex::new(None);
    let keep = |x: &Tensor| *outside.lock().unwrap() = Some(x.clone());
    let _ = scan(&x, 2, |c, ()| {
        keep(c);
        (c * 2.0, ())
    });
    let escaped = outside.lock().unwrap().take().unwrap();
    let error = (escaped + 1.0).ok().unwrap_err();
    assert!(matches!(error.root(), Error::Escaped { transform: "scan", .. }), "{error}");
    let failed = fori_loop(0, 2, &x, |_, x| {
        keep(x);
        Err::<Tensor, _>(Error::invalid("test", "no", pullback::ir::Loc::caller()))
    });
    assert!(failed.is_err());
    let escaped = outside.lock().unwrap().take().unwrap();
    assert!(matches!(
        (escaped + 1.0).ok().unwrap_err().root(),
        Error::Escaped { transform: "fori_loop", .. }
    ));
}

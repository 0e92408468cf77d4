//! Random numbers: the published test vectors of the generator, prefixes, ranges, moments.

mod common;

use common::*;
use pullback::prelude::*;
use pullback::{Shape, random};

fn words(t: &Tensor) -> Vec<u32> {
    t.to_vec::<u32>().unwrap()
}

#[test]
fn a42_2_known_answers() {
    for (key, counter, expected) in [
        ([0u32, 0], [0u32, 0], [0x6b200159u32, 0x99ba4efe]),
        ([u32::MAX; 2], [u32::MAX; 2], [0x1cb996fc, 0xbb002be7]),
        ([0x13198a2e, 0x03707344], [0x243f6a88, 0x85a308d3], [0xc4923a9c, 0x483df7a0]),
    ] {
        let (key, a, b) = (Tensor::from(key), Tensor::from([counter[0]]), Tensor::from([counter[1]]));
        let (x, y) = random::threefry(&key, &a, &b);
        assert_eq!([words(&x), words(&y)].concat(), expected);
        let (x, y) =
            jit(|k: &Tensor, a: &Tensor, b: &Tensor| random::threefry(k, a, b)).call((&key, &a, &b)).unwrap();
        assert_eq!([words(&x), words(&y)].concat(), expected);
    }
}

#[test]
fn a42_1_draws_by_key() {
    let key = random::key(42);
    for draw in [random::normal::<Shape>, random::uniform::<Shape>] {
        for dtype in [DType::F32, DType::F64] {
            let four = vec(&draw(&key, dtype, [4].into()));
            assert_eq!(vec(&draw(&key, dtype, [3].into())), four[..3]);
            assert_eq!(vec(&draw(&key, dtype, [2, 2].into())), four);
        }
    }
    let keys: [Tensor; 4] = random::split(&key);
    let more = random::keys(&key, 6);
    let draws: Vec<Vec<f64>> = keys.iter().map(|k| vec(&random::uniform(k, DType::F64, [2]))).collect();
    for i in 0..4 {
        assert_eq!(words(&keys[i]), words(&more.index_axis(0, i)));
        assert!((0..i).all(|j| draws[i] != draws[j]));
    }
    assert_ne!(words(&random::fold_in(&key, 1)), words(&random::fold_in(&key, 2)));
    let text = random::randint(&key, 3, 3, [2]).to_vec::<i64>().unwrap_err().to_string();
    assert!(text.contains("no integers from 3 to below 3"), "{text}");
}

#[test]
fn a42_1_uniform_numbers_stay_below_one() {
    for dtype in [DType::F32, DType::F64] {
        let x = random::uniform(&random::key(7), dtype, [1_000_000]);
        assert!(item(&x.max()) < 1.0 && item(&x.min()) >= 0.0);
        assert!((item(&x.mean()) - 0.5).abs() < 2e-3);
        assert!((item(&x.var()) - 1.0 / 12.0).abs() < 1e-3);
    }
}

#[test]
fn normal_numbers_have_their_moments() {
    for dtype in [DType::F32, DType::F64] {
        let x = random::normal(&random::key(1), dtype, [200_000]);
        assert!(item(&x.mean()).abs() < 1e-2);
        assert!((item(&x.var()) - 1.0).abs() < 2e-2);
        assert!((item(&x.powi(4).mean()) - 3.0).abs() < 0.1);
        assert!(x.is_finite().all().item::<bool>().unwrap());
    }
}

#[test]
fn other_distributions() {
    let key = random::key(3);
    let heads = random::bernoulli(&key, 0.25, [100_000]).count_nonzero().item::<i64>().unwrap();
    assert!((heads - 25_000).abs() < 600);
    let dice = random::randint(&key, -1, 5, [60_000]);
    let (low, high) = (dice.min().item::<i64>().unwrap(), dice.max().item::<i64>().unwrap());
    assert_eq!((low, high), (-1, 4));
    let logits = floats(&[0.0, f64::NEG_INFINITY, 2f64.ln()]).broadcast_to([30_000, 3]);
    let drawn = random::categorical(&key, &logits);
    let count = |class: i64| drawn.eq(class).count_nonzero().item::<i64>().unwrap();
    assert_eq!(count(1), 0);
    assert!((count(2) - 20_000).abs() < 400);
}

#[test]
fn traced_keys_give_the_same_numbers() {
    let key = random::key(5);
    let f = |key: &Tensor| {
        let [first, second] = random::split(key);
        let third = random::fold_in(&second, 3);
        random::normal(&first, DType::F64, [5]) + random::normal(&third, DType::F64, [5])
    };
    assert_bits(&f(&key), &jit(f).call((&key,)).unwrap(), "normal");
}

#[test]
fn dropout_keeps_its_mask_in_the_gradient() {
    let key = random::key(9);
    let x = Tensor::ones(DType::F64, [1000]);
    let kept = vec(&x.dropout(&key, 0.25));
    let slopes = grad(|x: &Tensor| x.dropout(&key, 0.25).sum()).call((&x,)).unwrap();
    assert_eq!(vec(&slopes), kept);
    let zeros = kept.iter().filter(|&&v| v == 0.0).count();
    assert!((200..300).contains(&zeros), "{zeros}");
    assert!(kept.iter().all(|&v| v == 0.0 || v == 1.0 / 0.75));
    assert!(x.dropout(&key, 1.0).error().is_some());
}

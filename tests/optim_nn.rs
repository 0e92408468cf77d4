//! Optimizers, losses and layers, and a small network that learns.

mod common;

use common::*;
use pullback::optim::{Adam, Sgd, clip_by_global_norm};
use pullback::prelude::*;
use pullback::{nn, random, tree};

#[derive(Tree)]
struct Mlp {
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
    b2: Tensor,
}

impl Mlp {
    fn new(seed: u64) -> Mlp {
        let [first, second] = random::split(&random::key(seed));
        Mlp {
            w1: nn::glorot_uniform(&first, DType::F64, [2, 8]),
            b1: Tensor::zeros(DType::F64, [8]),
            w2: nn::glorot_uniform(&second, DType::F64, [8, 2]),
            b2: Tensor::zeros(DType::F64, [2]),
        }
    }

    fn logits(&self, x: &Tensor) -> Tensor {
        let h = (x.matmul(&self.w1) + &self.b1).tanh();
        h.matmul(&self.w2) + &self.b2
    }
}

fn loss(mlp: &Mlp, x: &Tensor, y: &Tensor) -> Tensor {
    mlp.logits(x).cross_entropy(y).mean()
}

fn xor() -> (Tensor, Tensor) {
    (Tensor::from([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), ints(&[0, 1, 1, 0]))
}

#[test]
fn a_network_learns_xor_in_one_compiled_step() {
    let (x, y) = xor();
    let adam = Adam::new(0.05);
    let step = jit(|mlp: &Mlp, state: &pullback::optim::AdamState<Mlp>, x: &Tensor, y: &Tensor| {
        let (value, gradient) = value_and_grad(loss).call((mlp, x, y))?;
        let (mlp, state) = adam.update(mlp, &gradient, state)?;
        Ok::<_, Error>((value, mlp, state))
    });
    let mut mlp = Mlp::new(0);
    let mut state = adam.init(&mlp);
    let first = item(&loss(&mlp, &x, &y));
    let mut last = first;
    for _ in 0..200 {
        let (value, next, next_state) = step.call((&mlp, &state, &x, &y)).unwrap();
        (last, mlp, state) = (item(&value), next, next_state);
    }
    assert!(last < 0.05 && first > 0.5, "{first} to {last}");
    assert_eq!(step.cache_stats().misses, 1);
    assert_eq!(mlp.logits(&x).argmax(-1).to_vec::<i64>().unwrap(), [0, 1, 1, 0]);
}

#[test]
fn sgd_steps() {
    let (p, g) = (floats(&[1.0, 2.0]), floats(&[10.0, 20.0]));
    let sgd = Sgd::new(0.1);
    let (next, v) = sgd.update(&p, &g, &sgd.init(&p)).unwrap();
    assert_eq!((vec(&next), vec(&v)), (vec![0.0, 0.0], vec![10.0, 20.0]));
    let heavy = Sgd::new(0.1).momentum(0.5);
    let (p1, v) = heavy.update(&p, &g, &heavy.init(&p)).unwrap();
    let (p2, v) = heavy.update(&p1, &g, &v).unwrap();
    assert_close(&vec(&v), &[15.0, 30.0], 1e-15);
    assert_close(&vec(&p2), &[-1.5, -3.0], 1e-15);
    let ahead = Sgd::new(0.1).momentum(0.5).nesterov();
    let (p1, _) = ahead.update(&p, &g, &ahead.init(&p)).unwrap();
    assert_close(&vec(&p1), &[-0.5, -1.0], 1e-15);
    // The rate may be a tensor, of another dtype as well.
    let (next, _) = Sgd::new(Tensor::from(0.5f32)).update(&p, &g, &g).unwrap();
    assert_eq!(vec(&next), [-4.0, -8.0]);
}

#[test]
fn adam_steps() {
    let (p, g) = (floats(&[1.0]), floats(&[10.0]));
    let adam = Adam::new(0.1);
    let (p1, state) = adam.update(&p, &g, &adam.init(&p)).unwrap();
    // The first step has the length of the rate whatever the gradient.
    assert_close(&vec(&p1), &[0.9], 1e-9);
    let (p2, state) = adam.update(&p1, &floats(&[-10.0]), &state).unwrap();
    assert_eq!(state.step.item::<i64>().unwrap(), 2);
    // By hand: m = -0.1, v = 0.19990..., unbiased m = -0.526..., unbiased v = 100.
    assert_close(&vec(&p2), &[0.9 + 0.1 * (0.1 / 0.19) / 10.0], 1e-9);
    let decayed = Adam::new(0.1).weight_decay(0.5);
    let (p1, _) = decayed.update(&p, &g, &decayed.init(&p)).unwrap();
    assert_close(&vec(&p1), &[0.85], 1e-9);
}

#[test]
fn gradients_are_clipped_together() {
    let g = (floats(&[3.0]), floats(&[4.0]));
    let clipped = clip_by_global_norm(&g, 1.0);
    let values: Vec<f64> = tree::leaves(&clipped).into_iter().flat_map(vec).collect();
    assert_close(&values, &[0.6, 0.8], 1e-15);
    assert_eq!(vec(&clip_by_global_norm(&g, 10.0).0), [3.0]);
}

#[test]
fn cross_entropy_takes_indices_and_probabilities() {
    let logits = Tensor::from([[1.0, 2.0, 3.0], [1000.0, 0.0, 0.0]]);
    let by_index = logits.cross_entropy(&ints(&[2, 0]));
    let by_probability = logits.cross_entropy(&ints(&[2, 0]).one_hot(3, DType::F64));
    assert_close(&vec(&by_index), &[0.40760596444438, 0.0], 1e-13);
    assert_close(&vec(&by_probability), &vec(&by_index), 1e-15);
    assert!(logits.cross_entropy(&ints(&[1])).error().is_some());
    // Slopes are the probabilities less the targets.
    let slopes = grad(|z: &Tensor| z.cross_entropy(&ints(&[2, 0])).sum()).call((&logits,)).unwrap();
    let expected = logits.softmax(-1) - ints(&[2, 0]).one_hot(3, DType::F64);
    assert!((slopes - expected).abs().max().item::<f64>().unwrap() < 1e-15);
}

#[test]
fn other_losses() {
    let (x, t) = (floats(&[0.0, 3.0]), floats(&[0.5, 0.0]));
    assert_close(&vec(&x.huber(&t, 1.0)), &[0.125, 2.5], 1e-15);
    assert_close(&[item(&x.mse(&t))], &[4.625], 1e-15);
    assert_close(
        &vec(&floats(&[1000.0, -1000.0]).binary_cross_entropy(&floats(&[1.0, 1.0]))),
        &[0.0, 1000.0],
        1e-15,
    );
}

#[test]
fn normalizations() {
    let x = Tensor::from([[1.0, 3.0], [2.0, 2.0]]);
    let ones = floats(&[1.0, 1.0]);
    assert_close(&vec(&x.layer_norm(&ones, &ones, 0.0).index_axis(0, 0)), &[0.0, 2.0], 1e-15);
    assert!(x.layer_norm(&ones, &ones, 1e-5).is_finite().all().item::<bool>().unwrap());
    assert_close(
        &vec(&floats(&[3.0, 4.0]).rms_norm(&ones, 0.0)),
        &[3.0 / 12.5f64.sqrt(), 4.0 / 12.5f64.sqrt()],
        1e-15,
    );
}

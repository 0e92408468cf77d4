//! Training with live tensors: equal to compiled training to the bit, compiled by itself, and on many threads.

mod common;

use common::{assert_bits, vec};
use pullback::custom::{custom_call, register_kernel};
use pullback::eager::{self, EagerError, Reset, Retain, no_grad};
use pullback::optim::Adam;
use pullback::prelude::*;
use pullback::{nn, random, tree};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Tree, Clone)]
struct Net {
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
}

impl Net {
    fn new(seed: u64) -> Net {
        let [first, second] = random::split(&random::key(seed));
        Net {
            w1: nn::he_normal(&first, DType::F32, [5, 16]),
            b1: Tensor::zeros(DType::F32, [16]),
            w2: nn::he_normal(&second, DType::F32, [16, 3]),
        }
    }

    fn loss(&self, x: &Tensor, labels: &Tensor) -> Tensor {
        let h = (x.matmul(&self.w1) + &self.b1).tanh();
        h.dropout(&random::key(3), 0.25).matmul(&self.w2).cross_entropy(labels).mean()
    }

    fn live(&self) -> Net {
        tree::map(self, |values| Tensor::param(values.clone()))
    }
}

fn batch(i: u64) -> (Tensor, Tensor) {
    let [x, labels] = random::split(&random::key(100 + i));
    (
        random::normal(&x, DType::F32, [8, 5]),
        (random::uniform(&labels, DType::F32, [8]) * 3.0).to_dtype(DType::I64),
    )
}

/// Gradient descent on live tensors.
fn descend(net: &Net, steps: u64) -> Result<Vec<f32>, Error> {
    (0..steps)
        .map(|i| {
            let (x, labels) = batch(i);
            let loss = net.loss(&x, &labels);
            loss.backward()?;
            for parameter in tree::leaves(net) {
                let gradient = parameter.grad()?.unwrap_or_else(|| parameter.zeros_like());
                parameter.update(|values| values - gradient * 0.1)?;
                parameter.zero_grad(Reset::None)?;
            }
            loss.item::<f32>()
        })
        .collect()
}

#[test]
fn a_hundred_steps_equal_compiled_ones_to_the_bit() {
    let net = Net::new(1);
    let live = net.live();
    let step = jit(|net: &Net, state: &pullback::optim::AdamState<Net>, x: &Tensor, labels: &Tensor| {
        let (loss, gradients) = value_and_grad(Net::loss).call((net, x, labels))?;
        let (net, state) = Adam::new(1e-2).update(net, &gradients, state)?;
        Ok::<_, Error>((loss, net, state))
    });
    let mut compiled = (net.clone(), Adam::new(1e-2).init(&net));
    let mut state = Adam::new(1e-2).init(&net);
    for i in 0..100 {
        let (x, labels) = batch(i);
        let loss = live.loss(&x, &labels);
        loss.backward().unwrap();
        let gradients = eager::gradients(&live).unwrap();
        let next = no_grad(|| Adam::new(1e-2).update(&live, &gradients, &state)).unwrap();
        state = next.1;
        for (parameter, values) in tree::leaves(&live).into_iter().zip(tree::leaves(&next.0)) {
            parameter.set_data(values).unwrap();
            parameter.zero_grad(Reset::Zeros).unwrap();
        }
        let (due, net, next) = step.call((&compiled.0, &compiled.1, &x, &labels)).unwrap();
        compiled = (net, next);
        assert_bits(&loss, &due, "loss");
    }
    for (found, due) in tree::leaves(&live).into_iter().zip(tree::leaves(&compiled.0)) {
        assert_bits(found, due, "parameter");
    }
}

#[test]
fn a_structure_that_comes_again_is_compiled() {
    // No other test has this shape, but others count at the same time.
    let x = Tensor::param([0.5; 37]);
    let mut gradients = Vec::new();
    for pass in 0..4 {
        let before = eager::stats();
        (x.sin() * x.exp()).sum().backward().unwrap();
        let after = eager::stats();
        gradients.push(x.grad().unwrap().unwrap());
        x.zero_grad(Reset::None).unwrap();
        match pass {
            0 => assert!(after.misses > before.misses),
            1 => assert!(after.hits > before.hits && after.compiled > before.compiled),
            _ => assert!(after.hits > before.hits),
        }
    }
    gradients.iter().for_each(|gradient| assert_bits(gradient, &gradients[0], "interpreted and compiled"));
}

#[test]
fn a_thousand_threads_train() {
    let due = descend(&Net::new(2).live(), 3).unwrap();
    let threads: Vec<_> = (0..1000)
        .map(|_| {
            std::thread::Builder::new().stack_size(1 << 19).spawn(|| descend(&Net::new(2).live(), 3)).unwrap()
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap().unwrap(), due);
    }
}

#[test]
fn threads_accumulate_into_one_parameter() {
    let (x, passes) = (Tensor::param([1.0, 2.0]), 50);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..passes).for_each(|_| (&x * 3.0).sum().backward().unwrap()));
        }
    });
    assert_eq!(vec(&x.grad().unwrap().unwrap()), [3.0 * 8.0 * passes as f64; 2]);
}

#[test]
fn of_two_passes_over_one_graph_one_is_first() {
    for _ in 0..50 {
        let x = Tensor::param([1.0, 2.0]);
        let y = x.square().sum();
        let results: Vec<Result<(), Error>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| y.backward())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let refused = results.into_iter().filter_map(Result::err).collect::<Vec<_>>();
        assert_eq!(refused.len(), 3);
        for error in refused {
            assert!(matches!(error.root(), Error::Eager(EagerError::GraphReleased { .. })), "{error}");
        }
        assert_eq!(vec(&x.grad().unwrap().unwrap()), [2.0, 4.0]);
    }
}

/// Steps until the kernel of the test below fails, and one test at a time.
static FAILS_IN: AtomicUsize = AtomicUsize::new(usize::MAX);
static ONE: Mutex<()> = Mutex::new(());

#[test]
fn a_fault_at_any_op_of_a_pass_leaves_all_gradients() {
    let _one = ONE.lock().unwrap();
    register_kernel("test.faulty", 1, |_, inputs, outputs| {
        if FAILS_IN.fetch_sub(1, Ordering::Relaxed) == 0 {
            return Err("a fault".into());
        }
        outputs[0].copy_from(&inputs[0]);
        Ok(())
    });
    // Every op on the way has a backward rule that may fail.
    let faulty = custom_vjp(
        |x: &Tensor| x.sin(),
        |x: &Tensor| (x.sin(), x.cos()),
        |cos: &Tensor, ct: &Tensor| {
            let ty = ct.ty().expect("a cotangent").clone();
            let slope = custom_call("test.faulty", 1, "", &[&(ct * cos)], &[ty]);
            (slope.map_or_else(|_| ct.clone(), |mut found| found.remove(0)),)
        },
    );
    let (x, w) = (Tensor::param([0.5, 1.5]), Tensor::param([2.0, 3.0]));
    (&x * &w).sum().backward().unwrap();
    let before = (vec(&x.grad().unwrap().unwrap()), vec(&w.grad().unwrap().unwrap()));
    let mut h = &x * &w;
    for _ in 0..10 {
        h = faulty.call((&h,)).unwrap() * &w + &x;
    }
    let y = h.sum();
    for failing in 0..10 {
        FAILS_IN.store(failing, Ordering::Relaxed);
        let error = y.backward_with(Retain::Graph).unwrap_err().to_string();
        assert!(error.contains("a fault"), "{error}");
        assert_eq!((vec(&x.grad().unwrap().unwrap()), vec(&w.grad().unwrap().unwrap())), before);
    }
    FAILS_IN.store(usize::MAX, Ordering::Relaxed);
    y.backward().unwrap();
    assert!(vec(&x.grad().unwrap().unwrap()) != before.0);
}

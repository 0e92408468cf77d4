//! Trees: derived and built in, their paths, maps and structures.

use indexmap::IndexMap;
use pullback::prelude::*;
use pullback::tree;
use std::collections::BTreeMap;

#[derive(Tree, Debug)]
struct Layer {
    weight: Tensor,
    bias: Option<Tensor>,
    #[tree(skip)]
    rate: f64,
}

#[derive(Tree)]
struct Model<T> {
    layers: Vec<Layer>,
    head: T,
    extra: BTreeMap<String, Tensor>,
    pair: (Tensor, [Tensor; 2]),
}

#[derive(Tree)]
struct Wrapper(Tensor, #[tree(skip)] &'static str);

#[derive(Tree)]
enum Activation {
    Plain,
    Scaled(Tensor),
    Affine { a: Tensor, b: Tensor },
}

/// A tree of its own kind inside.
#[derive(Tree)]
struct Chain {
    here: Tensor,
    next: Option<Box<Chain>>,
}

/// A type that occurs among tensors and in configuration, next to one that occurs nowhere, and words of the language.
#[derive(Tree, Debug)]
struct Both<T, U: Copy, const N: usize>
where
    U: PartialEq,
{
    r#type: [T; N],
    #[tree(skip)]
    first: Option<(T, U)>,
}

#[derive(Tree)]
#[allow(non_camel_case_types)]
enum Word {
    r#move(Tensor),
}

fn t(v: f64) -> Tensor {
    Tensor::from(v)
}

fn model() -> Model<Wrapper> {
    Model {
        layers: vec![
            Layer { weight: t(1.0), bias: Some(t(2.0)), rate: 0.5 },
            Layer { weight: t(3.0), bias: None, rate: 0.5 },
        ],
        head: Wrapper(t(4.0), "relu"),
        extra: [("z".to_string(), t(6.0)), ("a".to_string(), t(5.0))].into(),
        pair: (t(7.0), [t(8.0), t(9.0)]),
    }
}

fn values<T: Tree>(tree: &T) -> Vec<f64> {
    tree::leaves(tree).iter().map(|leaf| leaf.item().unwrap()).collect()
}

#[test]
fn paths_name_each_tensor() {
    let expected = [
        ".layers.0.weight",
        ".layers.0.bias",
        ".layers.1.weight",
        ".head.0",
        ".extra[\"a\"]",
        ".extra[\"z\"]",
        ".pair.0",
        ".pair.1.0",
        ".pair.1.1",
    ];
    assert_eq!(tree::paths(&model()), expected);
    assert_eq!(values(&model()), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
}

#[test]
fn parameters_and_words_of_the_language() {
    let both = Both { r#type: [t(1.0), t(2.0)], first: Some((t(3.0), 'c')) };
    assert_eq!(tree::paths(&both), [".type.0", ".type.1"]);
    let doubled = tree::map(&both, |x| x * 2.0);
    assert_eq!(values(&doubled), [2.0, 4.0]);
    assert_eq!(
        doubled.first.map(|(tensor, letter)| (tensor.item::<f64>().unwrap(), letter)),
        Some((3.0, 'c'))
    );
    let word = Word::r#move(t(1.0));
    assert_eq!(tree::structure(&word).to_string(), "\"move\";(*)");
    let Word::r#move(tensor) = tree::map(&word, |x| -x);
    assert_eq!(tensor.item::<f64>().unwrap(), -1.0);
}

#[test]
fn maps_keep_the_structure_and_what_is_skipped() {
    let doubled = tree::map(&model(), |x| x * 2.0);
    assert_eq!(values(&doubled)[3], 8.0);
    assert_eq!((doubled.layers[1].rate, doubled.head.1), (0.5, "relu"));
    let sum = tree::zip_map(&model(), &doubled, |x, y| x + y).unwrap();
    assert_eq!(values(&sum)[8], 27.0);
}

#[test]
fn structures_tell_trees_apart() {
    let (a, mut b) = (model(), model());
    assert_eq!(tree::structure(&a), tree::structure(&b));
    b.layers[0].rate = 0.25;
    assert_ne!(tree::structure(&a), tree::structure(&b));
    b = model();
    b.layers[0].bias = None;
    assert!(matches!(tree::zip_map(&a, &b, |x, _| x.clone()), Err(Error::TreesDiffer { .. })));
    let keyed = |key: &str| IndexMap::from([(key.to_string(), t(1.0))]);
    assert_ne!(tree::structure(&keyed("a")), tree::structure(&keyed("b")));
    let variants =
        [Activation::Plain, Activation::Scaled(t(1.0)), Activation::Affine { a: t(1.0), b: t(2.0) }];
    assert_ne!(tree::structure(&variants[0]), tree::structure(&variants[1]));
    assert_eq!(tree::paths(&variants[2]), [".a", ".b"]);
}

#[test]
fn trees_are_flattened_and_put_together_again() {
    let (leaves, structure) = tree::flatten(&model());
    let again = tree::unflatten(&model(), leaves.into_iter().map(|leaf| leaf + 1.0).collect()).unwrap();
    assert_eq!(tree::structure(&again), structure);
    assert_eq!(values(&again)[0], 2.0);
    assert!(tree::unflatten(&model(), vec![]).is_err());
}

#[test]
fn gradients_are_trees() {
    let loss = |m: &Model<Wrapper>, x: &Tensor| {
        let bias = m.layers[0].bias.as_ref().map_or_else(|| x.zeros_like(), |b| b * x);
        &m.layers[1].weight * x + bias + &m.pair.1[1] * &m.extra["z"]
    };
    let g = grad(loss).call((&model(), &t(10.0))).unwrap();
    assert_eq!(values(&g), [0.0, 10.0, 10.0, 0.0, 0.0, 9.0, 0.0, 0.0, 6.0]);
    let compiled = jit(grad(loss)).call((&model(), &t(10.0))).unwrap();
    assert_eq!(values(&compiled), values(&g));
    let chain = Chain { here: t(2.0), next: Some(Box::new(Chain { here: t(3.0), next: None })) };
    let product = |c: &Chain| &c.here * &c.next.as_ref().unwrap().here;
    assert_eq!(values(&grad(product).call((&chain,)).unwrap()), [3.0, 2.0]);
}

#[test]
fn configuration_is_part_of_the_signature() {
    let f = jit(|layer: &Layer| &layer.weight * layer.rate);
    let mut layer = Layer { weight: t(2.0), bias: None, rate: 0.5 };
    assert_eq!(f.call((&layer,)).unwrap().item::<f64>().unwrap(), 1.0);
    layer.rate = 0.25;
    assert_eq!(f.call((&layer,)).unwrap().item::<f64>().unwrap(), 0.5);
    assert_eq!(f.cache_stats().misses, 2);
}

#[test]
fn a_tree_may_hold_nothing() {
    let f = |_: &(), x: &Tensor| x.square();
    assert_eq!(grad(f).argnum::<1>().call((&(), &t(3.0))).unwrap().item::<f64>().unwrap(), 6.0);
    grad(f).call((&(), &t(3.0))).unwrap();
}

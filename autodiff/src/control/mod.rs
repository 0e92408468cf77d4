//! Rules of ops that hold programs or leave the language.

pub(crate) mod branch;
pub(crate) mod call;
pub(crate) mod checkpoint;
pub(crate) mod custom_call;
pub(crate) mod custom_rule;
pub(crate) mod custom_vjp;
mod depends;
pub(crate) mod lanes;
pub(crate) mod looping;
pub(crate) mod nested;
pub(crate) mod solve;

use pullback_ir::Value;
use pullback_ir::rules::Cotangents;

/// As many as `count` tangents or cotangents: these at the places listed, `None` elsewhere.
fn spread(
    count: usize,
    places: impl IntoIterator<Item = usize>,
    found: impl IntoIterator<Item = Value>,
) -> Cotangents {
    let mut all = Cotangents::from_elem(None, count);
    for (place, value) in places.into_iter().zip(found) {
        all[place] = Some(value);
    }
    all
}

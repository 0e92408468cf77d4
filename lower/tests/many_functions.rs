//! Many functions at once, each compiled and finished on its own.

use pullback_ir::{Builder, DType, TensorType};
use pullback_lower::{Executable, Options, lower};
use pullback_runtime::Array;

fn adder(step: i64) -> Executable {
    let mut b = Builder::new("adder");
    let x = b.param(TensorType::scalar(DType::I64));
    let sum = b.add_number(x, step as f64).expect("types fit");
    let program = b.finish(&[sum]);
    lower(&program, &Options::default()).and_then(|lowered| lowered.compile()).expect("compiles")
}

#[test]
fn a46_2_ten_thousand_functions_live_side_by_side() {
    let functions: Vec<Executable> = (0..10_000).map(adder).collect();
    for (step, function) in functions.iter().enumerate() {
        let found = function.call(&[Array::from(1i64)]).expect("runs");
        assert_eq!(found[0].item::<i64>(), Ok(1 + step as i64));
    }
}

//! Properties of random programs. A failure is made small and printed with its program; `PULLBACK_CASES` sets how many
//! programs are tried.
#![allow(dead_code)] // Each test takes what it needs.

use crate::generate::{Generated, Style, programs, register_sample_kernel};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use proptest::{prop_assert, prop_assert_eq};
use pullback::runtime::{Array, RuntimeError};
use std::cell::Cell;
use std::fmt::Display;

/// What a property says of a case.
pub(crate) type Checked = Result<(), TestCaseError>;

/// Tries a property on programs of several sizes, the same ones in every run.
pub(crate) fn for_programs(style: Style, property: impl Fn(&Generated) -> Checked) {
    register_sample_kernel();
    let cases = std::env::var("PULLBACK_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let result =
        TestRunner::new_with_rng(config, rng).run(&programs(style), |generated| property(&generated));
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

/// The value, or a failed case.
pub(crate) fn given<T>(result: Result<T, impl Display>, what: &str) -> Result<T, TestCaseError> {
    result.map_err(|error| TestCaseError::fail(format!("{what}: {error}")))
}

pub(crate) fn same_bits(expected: &[Array], found: &[Array], what: &str) -> Checked {
    prop_assert_eq!(expected.len(), found.len(), "{}", what);
    for (i, (expected, found)) in expected.iter().zip(found).enumerate() {
        if let Some(difference) = expected.first_difference(found) {
            return Err(TestCaseError::fail(format!("{what}: output {i}: {difference}")));
        }
    }
    Ok(())
}

/// The same outputs, or the same failure.
pub(crate) fn same_outcome(
    expected: &Result<Vec<Array>, RuntimeError>,
    found: &Result<Vec<Array>, RuntimeError>,
    what: &str,
) -> Checked {
    match (expected, found) {
        (Ok(expected), Ok(found)) => same_bits(expected, found, what),
        (expected, found) => {
            let failures = [expected, found].map(|outcome| outcome.as_ref().err());
            prop_assert!(failures[0] == failures[1], "{what}: {failures:?}");
            Ok(())
        }
    }
}

/// How many cases there were and how many a property had nothing to say of.
#[derive(Default)]
pub(crate) struct Tally {
    tried: Cell<u32>,
    left_out: Cell<u32>,
}

impl Tally {
    /// One more case; passes on whether the property speaks of it.
    pub(crate) fn counts(&self, speaks: bool) -> bool {
        self.tried.set(self.tried.get() + 1);
        self.left_out.set(self.left_out.get() + u32::from(!speaks));
        speaks
    }

    /// A property that leaves out more than a tenth of what it should see has lost its point.
    #[track_caller]
    pub(crate) fn assert_few_left_out(&self) {
        let (tried, left_out) = (self.tried.get(), self.left_out.get());
        assert!(left_out * 10 <= tried, "{left_out} of {tried} left out");
    }
}

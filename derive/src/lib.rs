//! #[derive(Tree)] for pullback.

//! Linearize and transpose, and the derivatives they compose to.

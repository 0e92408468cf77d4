//! The proof of every derivative rule and of the transforms, against the reference interpreter.

mod batching;
mod common;
mod contracts;
mod control;
mod edges;
mod higher;
mod hooks;
mod indexing;
mod lanes;
mod rules;
mod tensors;
mod transforms;

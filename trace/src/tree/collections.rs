//! Trees made of other trees by Rust's own types.

use super::{Step, Tree, Visitor, visit_part};
use crate::tensor::Tensor;
use indexmap::IndexMap;
use std::collections::BTreeMap;
use std::marker::PhantomData;

type Replace<'r> = &'r mut dyn FnMut(&Tensor) -> Tensor;

macro_rules! tuples {
    ($($($t:ident $i:tt)*;)*) => {
        $(impl<$($t: Tree),*> Tree for ($($t,)*) {
            fn visit<'a>(&'a self, _visitor: &mut dyn Visitor<'a>) {
                $(visit_part(_visitor, Step::Index($i), &self.$i);)*
            }
            #[allow(clippy::unused_unit)]
            fn rebuild(&self, _replace: Replace<'_>) -> Self {
                ($(self.$i.rebuild(_replace),)*)
            }
        })*
    };
}

tuples! {
    ;
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
}

impl<T: Tree, const N: usize> Tree for [T; N] {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        self.iter().enumerate().for_each(|(i, part)| visit_part(visitor, Step::Index(i), part));
    }
    fn rebuild(&self, replace: Replace<'_>) -> Self {
        self.each_ref().map(|part| part.rebuild(replace))
    }
}

impl<T: Tree> Tree for Vec<T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.fact(&self.len());
        self.iter().enumerate().for_each(|(i, part)| visit_part(visitor, Step::Index(i), part));
    }
    fn rebuild(&self, replace: Replace<'_>) -> Self {
        self.iter().map(|part| part.rebuild(replace)).collect()
    }
}

impl<T: Tree> Tree for Option<T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.fact(&self.is_some());
        if let Some(part) = self {
            part.visit(visitor);
        }
    }
    fn rebuild(&self, replace: Replace<'_>) -> Self {
        self.as_ref().map(|part| part.rebuild(replace))
    }
}

impl<T: Tree> Tree for Box<T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        (**self).visit(visitor);
    }
    fn rebuild(&self, replace: Replace<'_>) -> Self {
        Box::new((**self).rebuild(replace))
    }
}

impl<T: Send + Sync + 'static> Tree for PhantomData<T> {
    fn visit<'a>(&'a self, _: &mut dyn Visitor<'a>) {}
    fn rebuild(&self, _: Replace<'_>) -> Self {
        PhantomData
    }
}

impl<T: Tree> Tree for IndexMap<String, T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.fact(&self.len());
        self.iter().for_each(|(key, part)| visit_part(visitor, Step::Key(key), part));
    }
    fn rebuild(&self, replace: Replace<'_>) -> Self {
        self.iter().map(|(key, part)| (key.clone(), part.rebuild(replace))).collect()
    }
}

impl<T: Tree> Tree for BTreeMap<String, T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.fact(&self.len());
        self.iter().for_each(|(key, part)| visit_part(visitor, Step::Key(key), part));
    }
    fn rebuild(&self, replace: Replace<'_>) -> Self {
        self.iter().map(|(key, part)| (key.clone(), part.rebuild(replace))).collect()
    }
}

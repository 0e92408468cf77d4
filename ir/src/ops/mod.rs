//! The primitives: one table, from which come the closed enum, the dispatch, the name lookup and the lists that
//! generic tests walk. A primitive is one file (or one row of a file) that holds every answer about it.

use crate::batch::{Batched, BatchedValues, Batcher};
use crate::builder::Builder;
use crate::error::{Problem, TypeError};
use crate::program::{Program, Value};
use crate::recipe::Recipe;
use crate::rules::{Arg, Cotangents, Linearizer, RuleError};
use crate::sample::Sample;
use crate::shape::TensorType;
use smallvec::SmallVec;
use std::hash::Hash;
use std::sync::Arc;

pub mod attrs;
pub mod contract;
pub mod control;
pub mod elementwise;
pub mod index;
pub mod leaf;
pub mod reduce;
pub mod shape;

pub use attrs::{Attr, AttrError, AttrReader};

/// Types of an op's results.
pub type Types = SmallVec<[TensorType; 2]>;

/// The one type of an op with one result.
pub(crate) fn one(ty: TensorType) -> Result<Types, Problem> {
    Ok(SmallVec::from_iter([ty]))
}

/// Checks the number of operands.
pub(crate) fn arity(operands: &[&TensorType], expected: usize) -> Result<(), Problem> {
    if operands.len() == expected { Ok(()) } else { Err(Problem::Arity { expected, found: operands.len() }) }
}

/// The op a rule is asked about, with its values in the primal program.
#[derive(Clone, Copy)]
pub struct Equation<'a> {
    /// Operands, in the primal builder.
    pub operands: &'a [Value],
    /// Results, in the primal builder.
    pub results: &'a [Value],
}

/// What running an op does besides giving results: the reason why it stays where nobody uses them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Effect {
    /// Nothing.
    None,
    /// It looks at its operands and may fail the call.
    Check,
    /// Whatever a user's kernel does, as often as the op is written.
    Any,
}

/// The answers every primitive gives.
pub trait Primitive: Sized + Clone + Eq + Hash + std::fmt::Debug + Into<Op> {
    /// Every name that this primitive has in the text form (one per row).
    fn names() -> Vec<&'static str>;

    /// The primitive of that name with these attributes.
    fn parse(name: &str, attrs: &mut AttrReader) -> Result<Self, AttrError>;

    /// Shapes, dtypes and domains on which every generic suite tries the primitive: every row, every rule.
    fn samples() -> Vec<Sample>;

    /// Its name in the text form.
    fn name(&self) -> &'static str;

    /// Attributes in declaration order, defaults omitted.
    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        Vec::new()
    }

    /// Types of the results.
    fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem>;

    /// Tangents of the results, in the linear builder, given those of the operands (`None`: zero). Called only
    /// when at least one operand has a tangent. An op that is linear in its float operands together has itself as
    /// its derivative, which is what it gets unless it says otherwise.
    fn linearize(
        &self,
        linearizer: &mut Linearizer<'_>,
        equation: Equation<'_>,
        tangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError> {
        linearizer.linear_op(self.clone(), equation, tangents)
    }

    /// Cotangents of the operands the op is linear in (`None` for the known ones and for zeros), given those of
    /// the results, of which at least one is not `None`.
    fn transpose(
        &self,
        builder: &mut Builder,
        args: &[Arg],
        cotangents: &[Option<Value>],
    ) -> Result<Cotangents, RuleError>;

    /// The sum of another value and the result, where there is a cheaper way to it than to make the result and to add
    /// it: contributions to a cotangent that touch a few elements only are added to those. An element that is not
    /// touched stays as it is, -0.0 included.
    fn added_to(
        &self,
        _sum: Value,
        _builder: &mut Builder,
        _operands: &[Value],
    ) -> Result<Option<Value>, TypeError> {
        Ok(None)
    }

    /// The results in every lane at once, given the operands with the axes of their lanes. Called only when at least
    /// one operand differs from lane to lane. Each lane is what the op gives on the operands of that lane.
    fn batch(&self, batcher: &mut Batcher<'_>, args: &[Batched]) -> Result<BatchedValues, RuleError>;

    /// How it is lowered on operands of these types.
    fn recipe(&self, operands: &[&TensorType]) -> Recipe;

    /// What it does besides giving results, apart from what programs nested in it do.
    fn effect(&self) -> Effect {
        Effect::None
    }

    /// Whether two occurrences on equal operands may become one, if its effect allows it.
    fn is_shareable(&self) -> bool {
        true
    }

    /// Nested programs.
    fn programs(&self) -> Vec<&Arc<Program>> {
        Vec::new()
    }

    /// The same op with others in place of its nested programs.
    fn map_programs(&self, _map: &mut dyn FnMut(&Arc<Program>) -> Arc<Program>) -> Self {
        self.clone()
    }

    /// The name under which it offers its result to be kept, if it does.
    fn offered(&self) -> Option<&str> {
        None
    }

    /// Whether operands and results may be stacks. Only ops that hold programs or pass values on take them.
    fn takes_stacks(&self) -> bool {
        false
    }
}

/// A row of the table of primitives, for code that walks all of them.
pub struct Family {
    /// Names in the text form.
    pub names: fn() -> Vec<&'static str>,
    /// Samples of all of them.
    pub samples: fn() -> Vec<Sample>,
    parse: fn(&str, &mut AttrReader) -> Result<Op, AttrError>,
}

macro_rules! primitives {
    ($($(#[$doc:meta])* $variant:ident = $path:path,)*) => {
        /// Any primitive.
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        pub enum Op {
            $($(#[$doc])* $variant($path),)*
        }

        impl Op {
            /// Every primitive, in the order of the table.
            pub const ALL: &'static [Family] = &[$(Family {
                names: <$path>::names,
                samples: <$path>::samples,
                parse: |name, attrs| <$path>::parse(name, attrs).map(Op::$variant),
            },)*];

            /// Its name in the text form.
            pub fn name(&self) -> &'static str {
                match self { $(Op::$variant(op) => op.name(),)* }
            }

            /// Attributes in declaration order, defaults omitted.
            pub fn attrs(&self) -> Vec<(&'static str, Attr)> {
                match self { $(Op::$variant(op) => op.attrs(),)* }
            }

            /// Types of the results.
            pub fn infer(&self, operands: &[&TensorType]) -> Result<Types, Problem> {
                self.check_stacks(operands.iter().copied())?;
                let results = match self { $(Op::$variant(op) => op.infer(operands),)* }?;
                self.check_stacks(results.iter())?;
                Ok(results)
            }

            /// See [`Primitive::linearize`].
            pub fn linearize(
                &self,
                linearizer: &mut Linearizer<'_>,
                equation: Equation<'_>,
                tangents: &[Option<Value>],
            ) -> Result<Cotangents, RuleError> {
                match self { $(Op::$variant(op) => op.linearize(linearizer, equation, tangents),)* }
            }

            /// See [`Primitive::transpose`].
            pub fn transpose(
                &self,
                builder: &mut Builder,
                args: &[Arg],
                cotangents: &[Option<Value>],
            ) -> Result<Cotangents, RuleError> {
                match self { $(Op::$variant(op) => op.transpose(builder, args, cotangents),)* }
            }

            /// See [`Primitive::added_to`].
            pub fn added_to(
                &self,
                sum: Value,
                builder: &mut Builder,
                operands: &[Value],
            ) -> Result<Option<Value>, TypeError> {
                match self { $(Op::$variant(op) => op.added_to(sum, builder, operands),)* }
            }

            /// See [`Primitive::batch`].
            pub fn batch(
                &self,
                batcher: &mut Batcher<'_>,
                args: &[Batched],
            ) -> Result<BatchedValues, RuleError> {
                match self { $(Op::$variant(op) => op.batch(batcher, args),)* }
            }

            /// How it is lowered.
            pub fn recipe(&self, operands: &[&TensorType]) -> Recipe {
                match self { $(Op::$variant(op) => op.recipe(operands),)* }
            }

            fn own_effect(&self) -> Effect {
                match self { $(Op::$variant(op) => op.effect(),)* }
            }

            /// Whether two occurrences on equal operands may become one.
            pub fn is_shareable(&self) -> bool {
                self.effect() < Effect::Any && match self { $(Op::$variant(op) => op.is_shareable(),)* }
            }

            /// The name under which it offers its result to be kept, if it does.
            pub fn offered(&self) -> Option<&str> {
                match self { $(Op::$variant(op) => op.offered(),)* }
            }

            /// Whether operands and results may be stacks.
            pub fn takes_stacks(&self) -> bool {
                match self { $(Op::$variant(op) => op.takes_stacks(),)* }
            }

            /// Nested programs.
            pub fn programs(&self) -> Vec<&Arc<Program>> {
                match self { $(Op::$variant(op) => op.programs(),)* }
            }

            /// The same op with others in place of its nested programs, of the same parameters and outputs.
            pub fn map_programs(&self, map: &mut dyn FnMut(&Arc<Program>) -> Arc<Program>) -> Op {
                match self { $(Op::$variant(op) => op.map_programs(map).into(),)* }
            }
        }

        $(impl From<$path> for Op {
            fn from(op: $path) -> Op { Op::$variant(op) }
        })*
    };
}

primitives! {
    /// A constant tensor.
    Constant = leaf::constant::Constant,
    /// Indices along a dimension.
    Iota = leaf::iota::Iota,
    /// Elementwise functions of one operand.
    Unary = elementwise::unary::Unary,
    /// Elementwise functions of two operands of one type.
    Binary = elementwise::binary::Binary,
    /// Elementwise comparison.
    Compare = elementwise::compare::Compare,
    /// Elementwise choice.
    Select = elementwise::select::Select,
    /// Conversion by value.
    Convert = elementwise::convert::Convert,
    /// Conversion by bits.
    Bitcast = elementwise::bitcast::Bitcast,
    /// Tangent times slope.
    ScaleBy = elementwise::scale_by::ScaleBy,
    /// Constant integer power.
    IntegerPow = elementwise::integer_pow::IntegerPow,
    /// Another shape over the same elements.
    Reshape = shape::reshape::Reshape,
    /// Permuted dimensions.
    Transpose = shape::transpose::Transpose,
    /// Repetition along new dimensions.
    Broadcast = shape::broadcast::Broadcast,
    /// A strided box.
    Slice = shape::slice::Slice,
    /// Elements added around and between.
    Pad = shape::pad::Pad,
    /// Several tensors side by side.
    Concat = shape::concat::Concat,
    /// Opposite order along dimensions.
    Reverse = shape::reverse::Reverse,
    /// Reduction over dimensions.
    Reduce = reduce::reduce::Reduce,
    /// Index of the extreme element.
    ArgReduce = reduce::arg_reduce::ArgReduce,
    /// Sums of products.
    Dot = contract::dot::Dot,
    /// Reading at computed indices.
    Gather = index::gather::Gather,
    /// Writing at computed indices.
    Scatter = index::scatter::Scatter,
    /// A box at a computed place.
    DynamicSlice = index::dynamic_slice::DynamicSlice,
    /// A box written at a computed place.
    DynamicUpdateSlice = index::dynamic_update_slice::DynamicUpdateSlice,
    /// A nested program.
    Call = control::call::Call,
    /// A nested program again and again.
    Loop = control::looping::Loop,
    /// One of several nested programs.
    Branch = control::branch::Branch,
    /// A nested program with the user's rule of forward mode.
    CustomJvp = control::custom_jvp::CustomJvp,
    /// A nested program with the user's rule of reverse mode.
    CustomVjp = control::custom_vjp::CustomVjp,
    /// A linear function known by its transpose.
    CustomLinear = control::custom_linear::CustomLinear,
    /// A kernel the user registered.
    CustomCall = control::custom_call::CustomCall,
    /// Identity that nothing is moved across.
    Barrier = control::barrier::Barrier,
    /// Identity that gives a value a name.
    Offer = control::offer::Offer,
}

impl Op {
    /// Whether each element of the one result is a function of the operands' elements at the same index.
    pub fn is_elementwise(&self) -> bool {
        match self {
            Op::Unary(_)
            | Op::Binary(_)
            | Op::Compare(_)
            | Op::Select(_)
            | Op::Convert(_)
            | Op::Bitcast(_)
            | Op::ScaleBy(_)
            | Op::IntegerPow(_) => true,
            Op::Constant(_)
            | Op::Iota(_)
            | Op::Reshape(_)
            | Op::Transpose(_)
            | Op::Broadcast(_)
            | Op::Slice(_)
            | Op::Pad(_)
            | Op::Concat(_)
            | Op::Reverse(_)
            | Op::Reduce(_)
            | Op::ArgReduce(_)
            | Op::Dot(_)
            | Op::Gather(_)
            | Op::DynamicSlice(_)
            | Op::DynamicUpdateSlice(_)
            | Op::Scatter(_)
            | Op::Call(_)
            | Op::Loop(_)
            | Op::Branch(_)
            | Op::CustomJvp(_)
            | Op::CustomVjp(_)
            | Op::CustomLinear(_)
            | Op::CustomCall(_)
            | Op::Barrier(_)
            | Op::Offer(_) => false,
        }
    }

    /// What running it does besides giving results: the most that it or an op nested in it does.
    pub fn effect(&self) -> Effect {
        self.programs().into_iter().map(|program| program.effect()).fold(self.own_effect(), Effect::max)
    }

    fn check_stacks<'a>(&self, types: impl Iterator<Item = &'a TensorType>) -> Result<(), Problem> {
        match types.into_iter().find(|ty| ty.is_stack() && !self.takes_stacks()) {
            None => Ok(()),
            Some(ty) => Err(Problem::Constraint(format!(
                "{ty} is a stack, whose length is known only at run time; go through it with a loop"
            ))),
        }
    }

    /// The primitive of this name with these attributes. Attributes that it does not have are an error.
    pub fn parse(name: &str, attrs: &mut AttrReader) -> Result<Op, AttrError> {
        let family = Op::ALL
            .iter()
            .find(|family| (family.names)().contains(&name))
            .ok_or_else(|| AttrError::new(format!("there is no op `{name}`")))?;
        let op = (family.parse)(name, attrs)?;
        attrs.finish()?;
        Ok(op)
    }
}

//! Samples: operands on which an op is tried by every generic suite. They travel with the op.

use crate::dtype::DType;
use crate::literal::Literal;
use crate::ops::Op;
use crate::shape::TensorType;

/// One way to call an op.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The op with its attributes.
    pub op: Op,
    /// Its operands.
    pub operands: Vec<SampleOperand>,
    /// How far the derivative in f64 may be from central differences, relative to its size.
    pub tolerance: f64,
}

/// An operand of a sample: its type and which values it may take.
#[derive(Clone, Debug)]
pub struct SampleOperand {
    /// Type of the operand.
    pub ty: TensorType,
    /// Its values.
    pub domain: Domain,
}

/// Values of an operand.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Domain {
    /// Uniform in this interval, where the op is smooth.
    Uniform(f64, f64),
    /// Multiples of a quarter, no two alike and none at 0, in a random order: away from ties and kinks.
    Distinct,
    /// Integers from 0 up to but excluding this bound: indices.
    Below(u64),
    /// Any integer or bool of the type, small magnitudes preferred.
    Any,
}

impl Sample {
    /// A sample with the default tolerance.
    pub fn new(op: impl Into<Op>, operands: Vec<SampleOperand>) -> Sample {
        Sample { op: op.into(), operands, tolerance: 1e-7 }
    }
}

impl SampleOperand {
    /// An operand of this type and domain.
    pub fn new(ty: TensorType, domain: Domain) -> SampleOperand {
        SampleOperand { ty, domain }
    }
}

impl Sample {
    /// Values for the operands: the same ones for the same seed, on every machine.
    pub fn literals(&self, seed: u64) -> Vec<Literal> {
        let streams = (0u64..).map(|i| Stream { key: mix(mix(seed) ^ i), counter: 0 });
        self.operands.iter().zip(streams).map(|(operand, mut stream)| operand.literal(&mut stream)).collect()
    }
}

impl SampleOperand {
    fn literal(&self, stream: &mut Stream) -> Literal {
        let count = self.ty.shape.elements();
        let dtype = self.ty.dtype;
        let bits = match self.domain {
            Domain::Uniform(low, high) => {
                (0..count).map(|_| float_bits(dtype, low + (high - low) * stream.unit())).collect()
            }
            Domain::Distinct => stream.distinct(count).map(|k| float_bits(dtype, k as f64 / 4.0)).collect(),
            Domain::Below(bound) => (0..count).map(|_| narrow(dtype, stream.next() % bound.max(1))).collect(),
            Domain::Any => (0..count).map(|_| narrow(dtype, stream.any())).collect(),
        };
        Literal::dense_bits(self.ty.clone(), bits).unwrap_or_else(|| Literal::number(self.ty.clone(), 0.0))
    }
}

/// The bits of a number as an element.
fn float_bits(dtype: DType, value: f64) -> u64 {
    Literal::number(TensorType::scalar(dtype), value).bits_at(0)
}

/// An integer cut to the width of the element type; bool takes the lowest bit.
fn narrow(dtype: DType, bits: u64) -> u64 {
    match dtype {
        DType::Bool => bits & 1,
        DType::I32 | DType::U32 => bits as u32 as u64,
        DType::I64 | DType::U64 => bits,
        DType::F32 | DType::F64 => float_bits(dtype, bits as i64 as f64),
    }
}

/// Random words by hashing a counter, so that no state outlives a sample.
struct Stream {
    key: u64,
    counter: u64,
}

/// A bijection of words in which every bit depends on every bit (the finalizer of SplitMix64).
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Stream {
    fn next(&mut self) -> u64 {
        self.counter += 1;
        mix(self.key ^ mix(self.counter))
    }

    /// In [0, 1).
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Any word: mostly small magnitudes, now and then an extreme or no pattern at all.
    fn any(&mut self) -> u64 {
        const EXTREMES: [u64; 6] =
            [0, u64::MAX, i32::MIN as u32 as u64, i32::MAX as u64, i64::MIN as u64, i64::MAX as u64];
        let word = self.next();
        match word % 8 {
            0 => self.next(),
            1 => EXTREMES[(self.next() % EXTREMES.len() as u64) as usize],
            _ => ((self.next() % 17) as i64 - 8) as u64,
        }
    }

    /// The `count` integers nearest to 0 but not 0, shuffled.
    fn distinct(&mut self, count: usize) -> impl Iterator<Item = i64> + use<> {
        let mut numbers: Vec<i64> =
            (0..count as i64).map(|i| if i % 2 == 0 { i / 2 + 1 } else { -(i / 2 + 1) }).collect();
        for i in (1..count).rev() {
            let j = (self.next() % (i as u64 + 1)) as usize;
            numbers.swap(i, j);
        }
        numbers.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::elementwise::unary::Unary;

    fn sample(ty: TensorType, domain: Domain) -> Sample {
        Sample::new(Unary::Neg, vec![SampleOperand::new(ty, domain)])
    }

    fn floats(literal: &Literal) -> Vec<f64> {
        literal.bits().map(f64::from_bits).collect()
    }

    #[test]
    fn values_depend_on_the_seed_alone_and_stay_in_their_domain() {
        let sample = sample(TensorType::new(DType::F64, [100]), Domain::Uniform(-1.0, 3.0));
        assert_eq!(sample.literals(7), sample.literals(7));
        assert_ne!(sample.literals(7), sample.literals(8));
        let values = floats(&sample.literals(7)[0]);
        assert!(values.iter().all(|x| (-1.0..3.0).contains(x)));
        assert!(values.iter().any(|x| *x < 0.0) && values.iter().any(|x| *x > 2.0));
    }

    #[test]
    fn distinct_values_are_distinct_quarters_and_never_zero() {
        let sample = sample(TensorType::new(DType::F64, [37]), Domain::Distinct);
        let mut values = floats(&sample.literals(1)[0]);
        values.sort_by(f64::total_cmp);
        assert!(values.windows(2).all(|w| w[0] < w[1]));
        assert!(values.iter().all(|x| *x != 0.0 && (x * 4.0).fract() == 0.0));
    }

    #[test]
    fn indices_stay_below_their_bound_and_words_fit_their_type() {
        let indices = sample(TensorType::new(DType::I32, [50]), Domain::Below(3)).literals(0);
        assert!(indices[0].bits().all(|b| b < 3));
        let words = sample(TensorType::new(DType::U32, [500]), Domain::Any).literals(0);
        assert!(words[0].bits().all(|b| b <= u32::MAX as u64));
        let flags = sample(TensorType::new(DType::Bool, [50]), Domain::Any).literals(0);
        assert!(flags[0].bits().any(|b| b == 1) && flags[0].bits().all(|b| b <= 1));
    }

    #[test]
    fn empty_operands_have_no_values() {
        assert_eq!(
            sample(TensorType::new(DType::F32, [0]), Domain::Distinct).literals(0)[0].bits().count(),
            0
        );
    }
}

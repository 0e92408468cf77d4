//! Contraction: gemm where the shapes say so, else the sum of the rounded products in the documented order.

use crate::array::{ArrayError, Element};
use crate::eval::elementwise::by_kind;
use crate::eval::offsets::{Strided, Strides};
use crate::kernels::gemm::{Extents, GemmElement, Layout, gemm, is_gemm};
use crate::kernels::reduce::Reduction;
use crate::threads;
use crate::view::{View, ViewMut};
use pullback_ir::literal::Scalar;
use pullback_ir::maths::{IntLanes, Plain};
use pullback_ir::ops::contract::dot::Dot;
use pullback_ir::{Dims, Shape};

pub(in crate::eval) fn evaluate(
    op: &Dot,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), ArrayError> {
    let contraction = Contraction::new(op, inputs[0].shape(), inputs[1].shape());
    let Extents { batch, m, n, k } = contraction.extents;
    by_kind! { out.dtype(),
        float T => {
            let (a, b) = (inputs[0].as_slice::<T>()?, inputs[1].as_slice::<T>()?);
            let out = out.as_mut_slice::<T>()?;
            if is_gemm(T::DTYPE, batch, m, n, k) {
                contraction.by_gemm(a, b, out);
            } else {
                contraction.by_sums(a, b, out, 0.0, |x, y| x * y, |x, y| x + y);
            }
        },
        int T => {
            let (a, b) = (inputs[0].as_slice::<T>()?, inputs[1].as_slice::<T>()?);
            let product = |x, y| IntLanes::<T>::mul(&mut Plain, x, y);
            let sum = |x, y| IntLanes::<T>::add(&mut Plain, x, y);
            contraction.by_sums(a, b, out.as_mut_slice::<T>()?, 0, product, sum);
        },
        // The type rule refuses bool.
        bool => out.as_mut_slice::<bool>()?.fill(false),
    }
    Ok(())
}

/// One operand: its batch, free and contracted dimensions.
struct Operand {
    batch: Strided,
    free: Strided,
    contracted: Strided,
    /// All of them in that order, unmerged.
    extents: Dims,
    strides: Strides,
}

impl Operand {
    fn new(shape: &Shape, batch: &[usize], free: &[usize], contracted: &[usize]) -> Operand {
        let all = shape.strides();
        let dims: Dims = batch.iter().chain(free).chain(contracted).copied().collect();
        Operand {
            batch: Strided::dims_of(shape, batch),
            free: Strided::dims_of(shape, free),
            contracted: Strided::dims_of(shape, contracted),
            extents: dims.iter().map(|&d| shape[d]).collect(),
            strides: dims.iter().map(|&d| all[d] as isize).collect(),
        }
    }

    /// Strides from matrix to matrix, along the free and along the contracted dimensions, if each is one number.
    fn layout(&self) -> Option<Layout> {
        let batch = self.batch.single_stride()?;
        Some(Layout { batch, row: self.free.single_stride()?, column: self.contracted.single_stride()? })
    }

    /// The elements as matrices `[batch, free, contracted]`: where they are, or packed if strides cannot say it.
    fn matrices<'a, T: Element>(&self, elements: &'a [T], packed: &'a mut Vec<T>) -> (&'a [T], Layout) {
        if let Some(layout) = self.layout() {
            return (elements, layout);
        }
        packed.resize(elements.len(), T::default());
        Strided::new(&self.extents, &self.strides, 0).copy_to(elements, packed);
        (packed, Layout::row_major(self.free.len(), self.contracted.len()))
    }
}

struct Contraction {
    lhs: Operand,
    rhs: Operand,
    extents: Extents,
}

impl Contraction {
    fn new(op: &Dot, lhs: &Shape, rhs: &Shape) -> Contraction {
        let (batch, m, n, k) = op.sizes(lhs, rhs);
        Contraction {
            lhs: Operand::new(lhs, &op.lhs_batch, &op.lhs_free(lhs.rank()), &op.lhs_contract),
            rhs: Operand::new(rhs, &op.rhs_batch, &op.rhs_free(rhs.rank()), &op.rhs_contract),
            extents: Extents { batch, m, n, k },
        }
    }

    fn by_gemm<T: Element + GemmElement>(&self, a: &[T], b: &[T], out: &mut [T]) {
        let (mut packed_a, mut packed_b) = (Vec::new(), Vec::new());
        let (a, a_layout) = self.lhs.matrices(a, &mut packed_a);
        let (b, b_layout) = self.rhs.matrices(b, &mut packed_b);
        gemm(self.extents, (a, a_layout), (b, b_layout.transposed()), out);
    }

    fn by_sums<T: Element>(
        &self,
        a: &[T],
        b: &[T],
        out: &mut [T],
        zero: T,
        product: impl Fn(T, T) -> T + Sync,
        sum: impl Fn(T, T) -> T + Copy + Sync,
    ) {
        let Extents { m, n, k, .. } = self.extents;
        let collect = |strided: &Strided| strided.offsets().collect::<Vec<usize>>();
        let (a_batch, a_free, a_k) =
            (collect(&self.lhs.batch), collect(&self.lhs.free), collect(&self.lhs.contracted));
        let (b_batch, b_free, b_k) =
            (collect(&self.rhs.batch), collect(&self.rhs.free), collect(&self.rhs.contracted));
        let rows = [&self.lhs, &self.rhs].iter().all(|operand| operand.contracted.single_stride() == Some(1));
        let nanoseconds = (out.len() as u64).saturating_mul(k as u64);
        threads::for_chunks_mut(out, 4096 / k.max(1) + 1, nanoseconds, |first, out| {
            let mut reduction = Reduction::new();
            for (i, out) in out.iter_mut().enumerate() {
                let (row, column) = ((first + i) / n, (first + i) % n);
                let a = &a[(a_batch[row / m] + a_free[row % m]).min(a.len())..];
                let b = &b[(b_batch[row / m] + b_free[column]).min(b.len())..];
                let total = reduction.run(k, sum, &mut |start, block| {
                    let range = start..start + block.len();
                    if rows {
                        let terms = a[range.clone()].iter().zip(&b[range]);
                        block.iter_mut().zip(terms).for_each(|(slot, (&x, &y))| *slot = product(x, y));
                    } else {
                        let places = a_k[range.clone()].iter().zip(&b_k[range]);
                        block.iter_mut().zip(places).for_each(|(slot, (&i, &j))| *slot = product(a[i], b[j]));
                    }
                });
                *out = total.unwrap_or(zero);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::eval::testing::{check, one, words};
    use crate::kernels::reduce::contiguous;

    fn dot(dims: [&[usize]; 4], x: impl Into<Array>, y: impl Into<Array>) -> Array {
        let [lhs_contract, rhs_contract, lhs_batch, rhs_batch] = dims.map(Dims::from_slice);
        one(Dot { lhs_contract, rhs_contract, lhs_batch, rhs_batch }, &[x.into(), y.into()])
    }

    #[test]
    fn small_products() {
        let (x, y) = ([[1, 2], [3, 4]], [[5, 6], [7, 8]]);
        check(dot([&[1], &[0], &[], &[]], x, y), [[19, 22], [43, 50]]);
        check(dot([&[0], &[0], &[], &[]], x, y), [[26, 30], [38, 44]]);
        check(dot([&[1], &[1], &[], &[]], x, y), [[17, 23], [39, 53]]);
        check(dot([&[1], &[1], &[0], &[0]], x, y), [17, 53]);
        check(dot([&[0, 1], &[1, 0], &[], &[]], x, y), 69);
        check(dot([&[], &[], &[], &[]], [1.0f64, 2.0], [3.0f64]), [[3.0f64], [6.0]]);
        check(dot([&[0], &[0], &[], &[]], [u64::MAX, 1], [2u64, 3]), 1u64);
        check(dot([&[1], &[0], &[], &[]], [[0.0f32; 0]; 2], [[0.0f32; 3]; 0]), [[0.0f32; 3]; 2]);
        check(dot([&[0], &[0], &[], &[]], [0.0f64, 1.0], [f64::INFINITY, 1.0]), f64::NAN);
        check(dot([&[0], &[0], &[], &[]], [-0.0f64], [1.0f64]), -0.0f64);
    }

    fn floats(shape: &[usize], seed: usize) -> Array {
        let n: usize = shape.iter().product();
        let x: Vec<f32> = words(n + seed)[seed..].iter().map(|&w| (w as i32) as f32 * 1e-9).collect();
        Array::from_slice(&x, shape).unwrap()
    }

    /// A thin product is the sum of rounded products in the documented order.
    #[test]
    fn thin_products_follow_the_order_of_sums() {
        let (x, y) = (floats(&[3, 9000], 0), floats(&[9000], 5));
        let found = dot([&[1], &[0], &[], &[]], x.clone(), y.clone());
        let y = y.to_vec::<f32>().unwrap();
        let expected: Vec<f32> = x
            .as_slice::<f32>()
            .unwrap()
            .chunks(9000)
            .map(|row| {
                let products: Vec<f32> = row.iter().zip(&y).map(|(x, y)| x * y).collect();
                contiguous(&products, 0.0, |a, b| a + b)
            })
            .collect();
        check(found, Array::vector(&expected));
    }

    /// The same product through every arrangement of dimensions: in place through strides, and packed.
    #[test]
    fn layouts_do_not_change_the_bits_of_gemm() {
        use pullback_ir::ops::shape::transpose::Transpose;
        let permuted =
            |x: &Array, p: &[usize]| one(Transpose { permutation: Dims::from_slice(p) }, &[x.clone()]);
        let (x, y) = (floats(&[2, 12, 5, 6], 0), floats(&[2, 5, 6, 11], 9));
        let expected = dot([&[2, 3], &[1, 2], &[0], &[0]], x.clone(), y.clone());
        assert_eq!(expected.ty().to_string(), "f32[2,12,11]");
        let packed =
            dot([&[0, 3], &[3, 1], &[1], &[2]], permuted(&x, &[2, 0, 1, 3]), permuted(&y, &[3, 2, 0, 1]));
        assert!(expected.bits_equal(&packed));
        let flat =
            dot([&[2], &[1], &[0], &[0]], x.reshaped([2, 12, 30]).unwrap(), y.reshaped([2, 30, 11]).unwrap());
        assert!(expected.bits_equal(&flat));
        let transposed = dot(
            [&[1], &[1], &[0], &[0]],
            permuted(&x.reshaped([2, 12, 30]).unwrap(), &[0, 2, 1]),
            y.reshaped([2, 30, 11]).unwrap(),
        );
        assert!(expected.bits_equal(&transposed));
    }
}

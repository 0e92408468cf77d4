//! Movement: every element of a result is an element of an operand, or a filling.

pub(super) mod broadcast;
pub(super) mod concat;
pub(super) mod pad;
pub(super) mod reverse;
pub(super) mod slice;
pub(super) mod transpose;

use super::offsets::Strided;
use crate::view::{View, ViewMut, with_word};

/// Writes the elements of a box of `x` in row-major order of the box.
fn copy(strided: &Strided, x: &View<'_>, out: &mut ViewMut<'_>) {
    with_word!(x.dtype(), W => strided.copy_to(x.words::<W>(), out.words_mut::<W>()));
}

#[cfg(test)]
mod tests {
    use crate::array::Array;
    use crate::eval::testing::{check, one};
    use pullback_ir::ops::shape::broadcast::Broadcast;
    use pullback_ir::ops::shape::concat::Concat;
    use pullback_ir::ops::shape::pad::{Amounts, Pad};
    use pullback_ir::ops::shape::reshape::Reshape;
    use pullback_ir::ops::shape::reverse::Reverse;
    use pullback_ir::ops::shape::slice::Slice;
    use pullback_ir::ops::shape::transpose::Transpose;
    use pullback_ir::{Dims, Shape};

    fn matrix() -> Array {
        Array::from([[1, 2, 3], [4, 5, 6]])
    }

    #[test]
    fn reshapes() {
        check(one(Reshape { shape: Shape::new(&[3, 2]) }, &[matrix()]), [[1, 2], [3, 4], [5, 6]]);
        check(one(Reshape { shape: Shape::scalar() }, &[Array::from([[7u64]])]), 7u64);
    }

    #[test]
    fn transposes() {
        let transpose = |x: Array, permutation: &[usize]| {
            one(Transpose { permutation: Dims::from_slice(permutation) }, &[x])
        };
        check(transpose(matrix(), &[1, 0]), [[1, 4], [2, 5], [3, 6]]);
        let cube = Array::from([[[1, 2], [3, 4], [5, 6]]]);
        check(transpose(cube.clone(), &[1, 2, 0]), [[[1], [2]], [[3], [4]], [[5], [6]]]);
        check(transpose(cube, &[2, 0, 1]), [[[1, 3, 5]], [[2, 4, 6]]]);
        check(transpose(Array::from([[true; 0]; 2]), &[1, 0]), [[true; 2]; 0]);
        check(transpose(Array::from(1.5f64), &[]), 1.5f64);
    }

    #[test]
    fn broadcasts() {
        let broadcast = |x: Array, shape: &[usize], dims: &[usize]| {
            one(Broadcast { shape: Shape::new(shape), dims: Dims::from_slice(dims) }, &[x])
        };
        check(broadcast(Array::from([1, 2]), &[2, 3], &[0]), [[1, 1, 1], [2, 2, 2]]);
        check(broadcast(Array::from([1, 2, 3]), &[2, 3], &[1]), [[1, 2, 3], [1, 2, 3]]);
        check(broadcast(matrix(), &[3, 2], &[1, 0]), [[1, 4], [2, 5], [3, 6]]);
        check(broadcast(Array::from(true), &[2, 2], &[]), [[true; 2]; 2]);
        check(broadcast(Array::from([1.0f64]), &[1, 0], &[0]), [[0.0f64; 0]; 1]);
    }

    #[test]
    fn slices() {
        let slice = |x: Array, start: &[usize], limit: &[usize], stride: &[usize]| {
            let dims = Dims::from_slice;
            one(Slice { start: dims(start), limit: dims(limit), stride: dims(stride) }, &[x])
        };
        check(slice(matrix(), &[0, 1], &[2, 3], &[1, 1]), [[2, 3], [5, 6]]);
        check(slice(matrix(), &[1, 0], &[2, 3], &[1, 2]), [[4, 6]]);
        check(slice(Array::from([0, 1, 2, 3, 4, 5, 6]), &[1], &[7], &[3]), [1, 4]);
        check(slice(Array::from([1, 2]), &[1], &[1], &[1]), [0i32; 0]);
        check(slice(Array::from([1, 2]), &[2], &[2], &[5]), [0i32; 0]);
    }

    #[test]
    fn pads() {
        let pad = |x: Array, low: &[i64], high: &[i64], interior: &[usize]| {
            let amounts = Amounts::from_slice;
            let op = Pad { low: amounts(low), high: amounts(high), interior: Dims::from_slice(interior) };
            one(op, &[x, Array::from(9)])
        };
        check(pad(Array::from([1, 2, 3]), &[1], &[2], &[1]), [9, 1, 9, 2, 9, 3, 9, 9]);
        check(pad(Array::from([1, 2, 3]), &[-1], &[-1], &[0]), [2]);
        check(pad(Array::from([1, 2, 3]), &[-1], &[0], &[1]), [9, 2, 9, 3]);
        check(pad(Array::from([1, 2, 3]), &[-5], &[4], &[0]), [9, 9]);
        check(pad(Array::from([0i32; 0]), &[2], &[1], &[7]), [9, 9, 9]);
        check(pad(matrix(), &[0, -1], &[1, 0], &[0, 0]), [[2, 3], [5, 6], [9, 9]]);
    }

    #[test]
    fn concatenates() {
        let (a, b) = (Array::from([[1], [2]]), Array::from([[3, 4], [5, 6]]));
        check(one(Concat { dim: 1 }, &[a.clone(), b.clone()]), [[1, 3, 4], [2, 5, 6]]);
        check(one(Concat { dim: 0 }, &[b.clone(), b]), [[3, 4], [5, 6], [3, 4], [5, 6]]);
        check(one(Concat { dim: 1 }, &[a.clone(), Array::from([[0i32; 0]; 2])]), [[1], [2]]);
        check(one(Concat { dim: 0 }, &[Array::from([true; 0])]), [true; 0]);
    }

    #[test]
    fn reverses() {
        let reverse = |x: Array, dims: &[usize]| one(Reverse { dims: Dims::from_slice(dims) }, &[x]);
        check(reverse(matrix(), &[1]), [[3, 2, 1], [6, 5, 4]]);
        check(reverse(matrix(), &[1, 0]), [[6, 5, 4], [3, 2, 1]]);
        check(reverse(matrix(), &[]), [[1, 2, 3], [4, 5, 6]]);
        check(reverse(Array::from([[0i32; 0]; 2]), &[1, 0]), [[0i32; 0]; 2]);
    }
}

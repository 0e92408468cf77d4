//! Elementwise loops that the compiler vectorises, in versions for several instruction sets.
//!
//! Simple functions (a few instructions) run on [`Plain`] numbers in a plain loop. Elementary functions run on
//! [`Machine`], one lane of plain numbers, in a loop over a tile of fixed length. Slow paths would keep that loop from
//! being vectorised, so the machine only notes that some lane needed one, and then the tile is computed again one
//! number at a time. Either way each lane gets the bits of [`Plain`].

use crate::threads;
use pullback_ir::maths::{Lanes, Plain, Slow, Slow2};
use std::sync::LazyLock;

/// Elements per tile: enough to amortise the test for slow paths, few enough to repeat cheaply.
const TILE: usize = 128;

/// Fewer elements than this are computed one at a time instead of filling up a tile.
const FEW: usize = 8;

/// Elements per piece of work for a thread.
const CHUNK: usize = 16 * 1024;

/// One lane of plain numbers whose slow paths are noted, not taken.
pub(crate) struct Machine {
    slow_path_due: bool,
}

macro_rules! forward {
    ($t:ty; $($name:ident($($arg:ident: $kind:ident),*) -> $out:ident;)*) => {
        $(#[inline(always)]
        fn $name(&mut self, $($arg: <Plain as Lanes<$t>>::$kind),*) -> <Plain as Lanes<$t>>::$out {
            Lanes::<$t>::$name(&mut Plain, $($arg),*)
        })*
    };
}

macro_rules! machine {
    ($t:ty) => {
        impl Lanes<$t> for Machine {
            type V = <Plain as Lanes<$t>>::V;
            type I = <Plain as Lanes<$t>>::I;
            type M = <Plain as Lanes<$t>>::M;

            #[inline(always)]
            fn float(&mut self, value: $t) -> $t {
                value
            }
            #[inline(always)]
            fn int(&mut self, value: i64) -> Self::I {
                Lanes::<$t>::int(&mut Plain, value)
            }
            #[inline(always)]
            fn ishl(&mut self, a: Self::I, by: u32) -> Self::I {
                Lanes::<$t>::ishl(&mut Plain, a, by)
            }
            #[inline(always)]
            fn ushr(&mut self, a: Self::I, by: u32) -> Self::I {
                Lanes::<$t>::ushr(&mut Plain, a, by)
            }
            #[inline(always)]
            fn sshr(&mut self, a: Self::I, by: u32) -> Self::I {
                Lanes::<$t>::sshr(&mut Plain, a, by)
            }
            forward! { $t;
                add(a: V, b: V) -> V;
                sub(a: V, b: V) -> V;
                mul(a: V, b: V) -> V;
                div(a: V, b: V) -> V;
                fma(a: V, b: V, c: V) -> V;
                sqrt(a: V) -> V;
                neg(a: V) -> V;
                abs(a: V) -> V;
                floor(a: V) -> V;
                ceil(a: V) -> V;
                trunc(a: V) -> V;
                nearest(a: V) -> V;
                max(a: V, b: V) -> V;
                min(a: V, b: V) -> V;
                eq(a: V, b: V) -> M;
                lt(a: V, b: V) -> M;
                le(a: V, b: V) -> M;
                and(a: M, b: M) -> M;
                or(a: M, b: M) -> M;
                not(a: M) -> M;
                select(m: M, a: V, b: V) -> V;
                to_bits(a: V) -> I;
                from_bits(a: I) -> V;
                to_int(a: V) -> I;
                from_int(a: I) -> V;
                iadd(a: I, b: I) -> I;
                isub(a: I, b: I) -> I;
                iand(a: I, b: I) -> I;
                ior(a: I, b: I) -> I;
                ixor(a: I, b: I) -> I;
                ieq(a: I, b: I) -> M;
                ilt(a: I, b: I) -> M;
                iselect(m: M, a: I, b: I) -> I;
            }

            #[inline(always)]
            fn slow(&mut self, rare: bool, fast: $t, _: $t, _: Slow<$t>) -> $t {
                self.slow_path_due |= rare;
                fast
            }
            #[inline(always)]
            fn slow2(&mut self, rare: bool, fast: $t, _: $t, _: $t, _: Slow2<$t>) -> $t {
                self.slow_path_due |= rare;
                fast
            }
        }
    };
}

machine!(f32);
machine!(f64);

/// A simple elementwise function of `N` operands of one type. Implementations are inlined always, so that they are
/// compiled for the instruction set of the loop.
pub(crate) trait Simple<const N: usize, A, R>: Sync {
    /// The function.
    fn call(&self, x: [A; N]) -> R;
}

/// An elementary function of `N` floats, on either machine; likewise inlined always.
pub(crate) trait Elemental<const N: usize, T>: Sync {
    /// The function with slow paths.
    fn exact(&self, x: [T; N]) -> T;
    /// The function with slow paths noted.
    fn fast(&self, machine: &mut Machine, x: [T; N]) -> T;
}

/// Instruction sets that loops are compiled for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Level {
    /// What every processor of the architecture has.
    Baseline,
    /// 256-bit vectors and fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 512-bit vectors.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// The best level this processor has.
static LEVEL: LazyLock<Level> = LazyLock::new(|| {
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl");
        if avx2 {
            return if avx512 { Level::Avx512 } else { Level::Avx2 };
        }
    }
    Level::Baseline
});

/// `out[i] = function(inputs[..][i])` for all `i`. All slices have the length of `out`.
pub(crate) fn simple<const N: usize, A: Copy + Sync, R: Send, F: Simple<N, A, R>>(
    function: &F,
    inputs: [&[A]; N],
    out: &mut [R],
) {
    threads::for_chunks_mut(out, CHUNK, out.len() as u64 / 2, |first, out| {
        simple_at(*LEVEL, function, inputs.map(|input| &input[first..first + out.len()]), out);
    });
}

/// As [`simple`], for elementary functions.
pub(crate) fn elemental<const N: usize, T: Copy + Default + Send + Sync, F: Elemental<N, T>>(
    function: &F,
    inputs: [&[T]; N],
    out: &mut [T],
) {
    threads::for_chunks_mut(out, CHUNK, out.len() as u64, |first, out| {
        elemental_at(*LEVEL, function, inputs.map(|input| &input[first..first + out.len()]), out);
    });
}

fn simple_at<const N: usize, A: Copy, R, F: Simple<N, A, R>>(
    level: Level,
    function: &F,
    inputs: [&[A]; N],
    out: &mut [R],
) {
    match level {
        Level::Baseline => simple_loop(function, inputs, out),
        // SAFETY: these levels are only chosen on processors that have the features. Simple functions wait for
        // memory, so wider vectors than these would not help them.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => unsafe { simple_avx2(function, inputs, out) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn simple_avx2<const N: usize, A: Copy, R, F: Simple<N, A, R>>(
    function: &F,
    inputs: [&[A]; N],
    out: &mut [R],
) {
    simple_loop(function, inputs, out);
}

#[inline(always)]
fn simple_loop<const N: usize, A: Copy, R, F: Simple<N, A, R>>(
    function: &F,
    inputs: [&[A]; N],
    out: &mut [R],
) {
    let inputs = inputs.map(|input| &input[..out.len()]);
    for i in 0..out.len() {
        out[i] = function.call(inputs.map(|input| input[i]));
    }
}

fn elemental_at<const N: usize, T: Copy + Default, F: Elemental<N, T>>(
    level: Level,
    function: &F,
    inputs: [&[T]; N],
    out: &mut [T],
) {
    let (tiles, rest) = out.as_chunks_mut::<TILE>();
    let whole = tiles.len() * TILE;
    for (i, tile) in tiles.iter_mut().enumerate() {
        one_tile(level, function, inputs.map(|input| &input.as_chunks().0[i]), tile);
    }
    let inputs = inputs.map(|input| &input[whole..]);
    if rest.len() < FEW {
        return one_by_one(level, function, inputs, rest);
    }
    let padded = inputs.map(|input| {
        let mut tile = [input[0]; TILE];
        tile[..input.len()].copy_from_slice(input);
        tile
    });
    let mut tile = [T::default(); TILE];
    one_tile(level, function, padded.each_ref(), &mut tile);
    rest.copy_from_slice(&tile[..rest.len()]);
}

fn one_tile<const N: usize, T: Copy, F: Elemental<N, T>>(
    level: Level,
    function: &F,
    inputs: [&[T; TILE]; N],
    out: &mut [T; TILE],
) {
    let slow_path_due = match level {
        // Without a fused multiply-add instruction there is nothing to vectorise.
        #[cfg(target_arch = "x86_64")]
        Level::Baseline => true,
        #[cfg(not(target_arch = "x86_64"))]
        Level::Baseline => tile_loop(function, inputs, out),
        // SAFETY: the level is only chosen on processors that have these features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { tile_avx2(function, inputs, out) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { tile_avx512(function, inputs, out) },
    };
    if slow_path_due {
        one_by_one(level, function, inputs.map(|input| &input[..]), out);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn tile_avx2<const N: usize, T: Copy, F: Elemental<N, T>>(
    function: &F,
    inputs: [&[T; TILE]; N],
    out: &mut [T; TILE],
) -> bool {
    tile_loop(function, inputs, out)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512bw,avx512vl")]
fn tile_avx512<const N: usize, T: Copy, F: Elemental<N, T>>(
    function: &F,
    inputs: [&[T; TILE]; N],
    out: &mut [T; TILE],
) -> bool {
    tile_loop(function, inputs, out)
}

/// Returns whether a slow path was due.
#[inline(always)]
fn tile_loop<const N: usize, T: Copy, F: Elemental<N, T>>(
    function: &F,
    inputs: [&[T; TILE]; N],
    out: &mut [T; TILE],
) -> bool {
    let mut machine = Machine { slow_path_due: false };
    for i in 0..TILE {
        out[i] = function.fast(&mut machine, inputs.map(|input| input[i]));
    }
    machine.slow_path_due
}

fn one_by_one<const N: usize, T: Copy, F: Elemental<N, T>>(
    level: Level,
    function: &F,
    inputs: [&[T]; N],
    out: &mut [T],
) {
    for (i, out) in out.iter_mut().enumerate() {
        let x = inputs.map(|input| input[i]);
        *out = match level {
            Level::Baseline => one(function, x),
            // SAFETY: these levels are only chosen on processors that have the features.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Avx512 => unsafe { one_fma(function, x) },
        };
    }
}

// Not inlined: loops around these are never worth vectorising, and compiling them is dear.
#[inline(never)]
fn one<const N: usize, T, F: Elemental<N, T>>(function: &F, x: [T; N]) -> T {
    function.exact(x)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
#[inline(never)]
fn one_fma<const N: usize, T, F: Elemental<N, T>>(function: &F, x: [T; N]) -> T {
    function.exact(x)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The levels this processor has.
    fn levels() -> Vec<Level> {
        let mut levels = vec![Level::Baseline];
        #[cfg(target_arch = "x86_64")]
        levels.extend([Level::Avx2, Level::Avx512].into_iter().filter(|&level| level <= *LEVEL));
        levels
    }

    /// Checks that a function has the same bits at every level, whatever stands beside an element.
    pub(crate) fn check_levels<const N: usize, T>(
        name: &str,
        function: &impl Elemental<N, T>,
        inputs: [&[T]; N],
    ) where
        T: Copy + Default + pullback_ir::maths::Float + PartialEq,
    {
        let n = inputs[0].len();
        let expected: Vec<T> = (0..n).map(|i| function.exact(inputs.map(|input| input[i]))).collect();
        for level in levels() {
            for len in [0, 1, FEW - 1, FEW, TILE - 1, TILE, TILE + 1, n] {
                let mut out = vec![T::default(); len];
                elemental_at(level, function, inputs.map(|input| &input[..len]), &mut out);
                for i in 0..len {
                    let (found, expected) = (out[i], expected[i]);
                    #[allow(clippy::eq_op)] // Only NaN differs from itself.
                    let both_nan = found != found && expected != expected;
                    let same = both_nan || found.to_bits64() == expected.to_bits64();
                    let at = inputs.map(|input| input[i].to_bits64());
                    assert!(same, "{name} of bits {at:x?} at {level:?}");
                }
            }
        }
    }

    struct Halved;

    const SLOW: Slow<f32> = Slow { name: "test", call: slow_half };

    extern "C" fn slow_half(x: f32) -> f32 {
        x / 2.0 + 1000.0
    }

    fn halved<L: Lanes<f32>>(l: &mut L, x: L::V) -> L::V {
        let (limit, factor) = (l.float(100.0), l.float(0.5));
        let rare = l.lt(limit, x);
        let half = l.mul(x, factor);
        l.slow(rare, half, x, SLOW)
    }

    impl Elemental<1, f32> for Halved {
        fn exact(&self, [x]: [f32; 1]) -> f32 {
            halved(&mut Plain, x)
        }
        fn fast(&self, machine: &mut Machine, [x]: [f32; 1]) -> f32 {
            halved(machine, x)
        }
    }

    #[test]
    fn slow_paths_are_taken_where_due_and_only_there() {
        let x: Vec<f32> = (0..1000).map(|i| if i % 300 == 299 { 200.0 } else { i as f32 % 90.0 }).collect();
        check_levels("halved", &Halved, [&x]);
        let mut out = vec![0.0; x.len()];
        elemental(&Halved, [&x], &mut out);
        assert_eq!((out[298], out[299]), (x[298] / 2.0, 1100.0));
    }

    #[test]
    fn chunks_of_threads_fit_together() {
        threads::set_threads(2);
        let x: Vec<f32> = (0..5 * CHUNK + 7).map(|i| i as f32 % 90.0).collect();
        let mut out = vec![0.0; x.len()];
        elemental(&Halved, [&x], &mut out);
        assert!(x.iter().zip(&out).all(|(x, y)| x / 2.0 == *y));
    }
}

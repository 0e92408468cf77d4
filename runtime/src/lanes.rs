//! Elementwise loops that the compiler vectorises, in versions for several instruction sets.
//!
//! A scalar definition runs here on [`Machine`]: one lane of plain numbers, inside a loop over a tile. Slow paths
//! would keep the loop from being vectorised, so the machine only notes that some lane needed one, and then the tile
//! is computed again with slow paths taken. Either way each lane gets the bits of [`Plain`].

use crate::threads;
use pullback_ir::maths::{Lanes, Plain, Slow, Slow2};
use std::sync::LazyLock;

/// Elements per tile: enough to amortise the test for slow paths, few enough to repeat cheaply.
const TILE: usize = 128;

/// Elements per piece of work for a thread.
const CHUNK: usize = 16 * 1024;

/// One lane of plain numbers whose slow paths are taken or only noted.
pub(crate) struct Machine {
    take_slow_paths: bool,
    noted: bool,
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
            fn slow(&mut self, rare: bool, fast: $t, x: $t, slow: Slow<$t>) -> $t {
                if self.take_slow_paths {
                    return if rare { (slow.call)(x) } else { fast };
                }
                self.noted |= rare;
                fast
            }
            #[inline(always)]
            fn slow2(&mut self, rare: bool, fast: $t, x: $t, y: $t, slow: Slow2<$t>) -> $t {
                if self.take_slow_paths {
                    return if rare { (slow.call)(x, y) } else { fast };
                }
                self.noted |= rare;
                fast
            }
        }
    };
}

machine!(f32);
machine!(f64);

/// An elementwise function of `N` operands of one type.
pub(crate) trait Map<const N: usize, A, R>: Sync {
    /// Estimated picoseconds per element, for [`threads`].
    const PICOSECONDS: u64;

    /// The function. Implementations are inlined always, so that they are compiled for the instruction set of the loop.
    fn call(&self, machine: &mut Machine, x: [A; N]) -> R;
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
        if avx2 && avx512 {
            return Level::Avx512;
        }
        if avx2 {
            return Level::Avx2;
        }
    }
    Level::Baseline
});

/// `out[i] = function(inputs[..][i])` for all `i`. All slices have the length of `out`.
pub(crate) fn map<const N: usize, A: Copy + Sync, R: Send, F: Map<N, A, R>>(
    function: &F,
    inputs: [&[A]; N],
    out: &mut [R],
) {
    let nanoseconds = out.len() as u64 * F::PICOSECONDS / 1000;
    threads::for_chunks_mut(out, CHUNK, nanoseconds, |first, out| {
        map_at(*LEVEL, function, inputs.map(|input| &input[first..first + out.len()]), out);
    });
}

fn map_at<const N: usize, A: Copy, R, F: Map<N, A, R>>(
    level: Level,
    function: &F,
    inputs: [&[A]; N],
    out: &mut [R],
) {
    match level {
        Level::Baseline => tiles(function, inputs, out),
        // SAFETY: the level is only chosen on processors that have these features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { tiles_avx2(function, inputs, out) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { tiles_avx512(function, inputs, out) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn tiles_avx2<const N: usize, A: Copy, R, F: Map<N, A, R>>(function: &F, inputs: [&[A]; N], out: &mut [R]) {
    tiles(function, inputs, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512bw,avx512vl")]
fn tiles_avx512<const N: usize, A: Copy, R, F: Map<N, A, R>>(function: &F, inputs: [&[A]; N], out: &mut [R]) {
    tiles(function, inputs, out);
}

#[inline(always)]
fn tiles<const N: usize, A: Copy, R, F: Map<N, A, R>>(function: &F, inputs: [&[A]; N], out: &mut [R]) {
    let mut start = 0;
    for tile in out.chunks_mut(TILE) {
        let inputs = inputs.map(|input| &input[start..start + tile.len()]);
        if one_tile(function, inputs, tile, false) {
            one_tile(function, inputs, tile, true);
        }
        start += tile.len();
    }
}

/// Returns whether a slow path was due and not taken.
#[inline(always)]
fn one_tile<const N: usize, A: Copy, R, F: Map<N, A, R>>(
    function: &F,
    inputs: [&[A]; N],
    tile: &mut [R],
    take_slow_paths: bool,
) -> bool {
    let mut machine = Machine { take_slow_paths, noted: false };
    for i in 0..tile.len() {
        tile[i] = function.call(&mut machine, inputs.map(|input| input[i]));
    }
    machine.noted
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The function at every level this processor has.
    pub(crate) fn at_all_levels<const N: usize, A: Copy, R: Default + Clone, F: Map<N, A, R>>(
        function: &F,
        inputs: [&[A]; N],
        n: usize,
    ) -> Vec<Vec<R>> {
        let mut levels = vec![Level::Baseline];
        #[cfg(target_arch = "x86_64")]
        levels.extend([Level::Avx2, Level::Avx512].into_iter().filter(|&level| level <= *LEVEL));
        let run = |level| {
            let mut out = vec![R::default(); n];
            map_at(level, function, inputs, &mut out);
            out
        };
        levels.into_iter().map(run).collect()
    }

    struct Halved;

    const SLOW: Slow<f32> = Slow { name: "test", call: slow_half };

    extern "C" fn slow_half(x: f32) -> f32 {
        x / 2.0 + 1000.0
    }

    impl Map<1, f32, f32> for Halved {
        const PICOSECONDS: u64 = 1_000_000;
        #[inline(always)]
        fn call(&self, l: &mut Machine, [x]: [f32; 1]) -> f32 {
            let rare = x > 100.0;
            let half = Lanes::<f32>::mul(l, x, 0.5);
            Lanes::<f32>::slow(l, rare, half, x, SLOW)
        }
    }

    #[test]
    fn slow_paths_are_taken_where_due_and_only_there() {
        for n in [0, 1, 15, 127, 128, 129, 1000] {
            let x: Vec<f32> = (0..n).map(|i| if i % 300 == 299 { 200.0 } else { i as f32 % 90.0 }).collect();
            let expected: Vec<f32> =
                x.iter().map(|&x| if x > 100.0 { slow_half(x) } else { x / 2.0 }).collect();
            for found in at_all_levels(&Halved, [&x], n) {
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn chunks_of_threads_fit_together() {
        threads::set_threads(2);
        let x: Vec<f32> = (0..5 * CHUNK + 7).map(|i| i as f32 % 90.0).collect();
        let mut out = vec![0.0; x.len()];
        map(&Halved, [&x], &mut out);
        assert!(x.iter().zip(&out).all(|(x, y)| x / 2.0 == *y));
    }
}

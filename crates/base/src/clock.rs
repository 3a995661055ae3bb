//! Time: wall clock in milliseconds and microseconds, and a cheap tick counter for durations.
//!
//! The only module that reads time. Ticks come from the processor's time-stamp counter where it is invariant (about 10 ns a
//! reading), else from the monotonic clock; [`Ticks::to_nanos`] converts with a factor measured at start.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch.
pub fn unix_ms() -> i64 {
    since_epoch().as_millis() as i64
}

/// Microseconds since the Unix epoch.
pub fn unix_us() -> i64 {
    since_epoch().as_micros() as i64
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A reading of the tick counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticks(u64);

struct Scale {
    /// Nanoseconds per tick, as a 32.32 fixed-point number.
    nanos_per_tick: u64,
    origin: Instant,
    /// False where the counter cannot be trusted: ticks are then nanoseconds since `origin`.
    counter: bool,
}

fn scale() -> &'static Scale {
    static SCALE: OnceLock<Scale> = OnceLock::new();
    SCALE.get_or_init(|| {
        let origin = Instant::now();
        if !counter_is_invariant() {
            return Scale { nanos_per_tick: 1 << 32, origin, counter: false };
        }
        // Two readings 5 ms apart: an error of 50 ns in either is 10 parts in a million.
        let (start, first) = (Instant::now(), read_counter());
        while start.elapsed() < Duration::from_millis(5) {
            std::hint::spin_loop();
        }
        let (ticks, nanos) = (read_counter().wrapping_sub(first), start.elapsed().as_nanos());
        Scale { nanos_per_tick: ((nanos << 32) / u128::from(ticks.max(1))) as u64, origin, counter: true }
    })
}

/// Measures the counter's speed; call once at start so that no request pays for it.
pub fn calibrate() {
    scale();
}

impl Ticks {
    /// The present reading.
    #[inline]
    pub fn now() -> Ticks {
        let scale = scale();
        if scale.counter { Ticks(read_counter()) } else { Ticks(scale.origin.elapsed().as_nanos() as u64) }
    }

    /// Nanoseconds from `earlier` to this reading; zero if the order is the other way round.
    #[inline]
    pub fn nanos_since(self, earlier: Ticks) -> u64 {
        let ticks = self.0.saturating_sub(earlier.0);
        ((u128::from(ticks) * u128::from(scale().nanos_per_tick)) >> 32) as u64
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn read_counter() -> u64 {
    // SAFETY: RDTSC exists on every x86-64 processor and has no precondition.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "x86_64")]
fn counter_is_invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    // Leaf 0x8000_0007, EDX bit 8: the counter runs at a constant rate in all power states.
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn read_counter() -> u64 {
    0
}

#[cfg(not(target_arch = "x86_64"))]
fn counter_is_invariant() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_agree_with_the_monotonic_clock() {
        let (ticks, instant) = (Ticks::now(), Instant::now());
        while instant.elapsed() < Duration::from_millis(20) {}
        let (by_ticks, by_clock) = (Ticks::now().nanos_since(ticks) as f64, instant.elapsed().as_nanos() as f64);
        assert!((by_ticks / by_clock - 1.0).abs() < 0.05, "{by_ticks} against {by_clock}");
        assert_eq!(ticks.nanos_since(Ticks::now()), 0);
    }
}

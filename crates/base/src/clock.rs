// SPDX-License-Identifier: BSD-3-Clause
//! Time: wall clock in milliseconds and microseconds, and a cheap tick counter for durations.
//!
//! The only module that reads time. Ticks come from the processor's time-stamp counter if it is
//! invariant (about 10 ns per reading), otherwise from the monotonic clock; [`Ticks::nanos_since`]
//! converts with a factor measured at start. Miri supports neither instruction and gets the clock.

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

/// Nanoseconds of CLOCK_BOOTTIME, which never steps and continues while the machine is suspended.
/// For time-limited rights such as leases.
#[inline]
pub fn boot_nanos() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A reading of the tick counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticks(u64);

/// A duration in ticks: checking whether it has passed costs one subtraction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TickSpan(u64);

impl TickSpan {
    /// The span of this many nanoseconds.
    pub fn from_nanos(nanos: u64) -> TickSpan {
        let ticks = (u128::from(nanos) << 32) / u128::from(scale().nanos_per_tick.max(1));
        TickSpan(u64::try_from(ticks).unwrap_or(u64::MAX))
    }
}

struct Scale {
    /// Nanoseconds per tick, as a 32.32 fixed-point number.
    nanos_per_tick: u64,
    origin: Instant,
    /// False if the counter cannot be trusted: ticks are then nanoseconds since `origin`.
    counter: bool,
}

fn scale() -> &'static Scale {
    static SCALE: OnceLock<Scale> = OnceLock::new();
    SCALE.get_or_init(|| {
        let origin = Instant::now();
        if !counter_is_invariant() {
            return Scale { nanos_per_tick: 1 << 32, origin, counter: false };
        }
        // Two readings 5 ms apart: an error of 50 ns in either reading is 10 parts in a million.
        let (start, first) = read_both();
        std::thread::sleep(Duration::from_millis(5));
        let (end, last) = read_both();
        let (ticks, nanos) = (last.wrapping_sub(first), end.duration_since(start).as_nanos());
        Scale { nanos_per_tick: ((nanos << 32) / u128::from(ticks.max(1))) as u64, origin, counter: true }
    })
}

/// Both clocks at one moment: the fastest of several attempts, so that an interruption in between
/// does no harm.
fn read_both() -> (Instant, u64) {
    let attempt = || {
        let before = read_counter();
        let instant = Instant::now();
        (read_counter().wrapping_sub(before), instant, before)
    };
    let (gap, instant, before) =
        (0..8).map(|_| attempt()).min_by_key(|(gap, ..)| *gap).expect("eight attempts");
    (instant, before.wrapping_add(gap / 2))
}

/// Measures the counter's speed; call once at start so that no request pays for it.
pub fn calibrate() {
    scale();
}

impl Ticks {
    /// The current reading.
    #[inline]
    pub fn now() -> Ticks {
        let scale = scale();
        if scale.counter { Ticks(read_counter()) } else { Ticks(scale.origin.elapsed().as_nanos() as u64) }
    }

    /// True if this reading is more than `span` later than `earlier`.
    #[inline]
    pub fn exceeds(self, earlier: Ticks, span: TickSpan) -> bool {
        self.0.saturating_sub(earlier.0) > span.0
    }

    /// Nanoseconds from `earlier` to this reading; zero if `earlier` is later.
    #[inline]
    pub fn nanos_since(self, earlier: Ticks) -> u64 {
        let ticks = self.0.saturating_sub(earlier.0);
        ((u128::from(ticks) * u128::from(scale().nanos_per_tick)) >> 32) as u64
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn read_counter() -> u64 {
    // SAFETY: RDTSC exists on every x86-64 processor and has no precondition.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn counter_is_invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    // Leaf 0x8000_0007, EDX bit 8: the counter runs at a constant rate in all power states.
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
}

#[cfg(any(not(target_arch = "x86_64"), miri))]
fn read_counter() -> u64 {
    0
}

#[cfg(any(not(target_arch = "x86_64"), miri))]
fn counter_is_invariant() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_agree_with_the_monotonic_clock() {
        calibrate();
        let (instant, ticks) = read_both();
        while instant.elapsed() < Duration::from_millis(20) {}
        let (later_instant, later_ticks) = read_both();
        let by_clock = later_instant.duration_since(instant).as_nanos() as f64;
        if scale().counter {
            let by_ticks = Ticks(later_ticks).nanos_since(Ticks(ticks)) as f64;
            assert!((by_ticks / by_clock - 1.0).abs() < 0.01, "{by_ticks} against {by_clock}");
        }
        let ticks = Ticks::now();
        assert_eq!(ticks.nanos_since(Ticks::now()), 0);
    }
}

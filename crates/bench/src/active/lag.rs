// SPDX-License-Identifier: BSD-3-Clause
//! Measures the replication lag between two servers: writes a marker to one and polls the other for
//! it.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use braid_client::{Connection, Value};
use fastrand::Rng;

/// The polling interval, and the maximum pause between two markers.
const LOOK: Duration = Duration::from_micros(500);
const PAUSE_MS: u64 = 40;

/// The state of the links, as a count of cuts and heals. Even: all links are open.
#[derive(Default)]
pub struct Weather {
    pub changes: AtomicU64,
    pub stop: AtomicBool,
}

impl Weather {
    fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }
}

/// Times in milliseconds.
#[derive(Clone, Debug, Default)]
pub struct Lags {
    /// Lags of markers written and seen while all links were open.
    pub open: Vec<f64>,
    /// Times from the end of a cut until a marker written during it was seen.
    pub after_cuts: Vec<f64>,
}

impl Lags {
    pub fn add(&mut self, other: Lags) {
        self.open.extend(other.open);
        self.after_cuts.extend(other.after_cuts);
    }
}

/// A percentile of sorted times; `share` is between 0 and 1. `None` without times.
pub fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}

/// Writes a marker and waits until it is visible on the other server. False if `is_over` says so
/// first.
///
/// # Errors
/// If a connection fails, or the server refuses the write.
pub fn passes(
    from: &mut Connection,
    to: &mut Connection,
    key: &str,
    number: u64,
    is_over: &mut dyn FnMut() -> bool,
) -> Result<bool, String> {
    let text = number.to_string();
    if let Value::Error(text) = from.command(&["SET", key, &text]).map_err(|error| error.to_string())? {
        return Err(text);
    }
    loop {
        let seen = to.command(&["GET", key]).map_err(|error| error.to_string())?;
        if seen.integer() == Some(number as i64) {
            return Ok(true);
        }
        if is_over() {
            return Ok(false);
        }
        std::thread::sleep(LOOK);
    }
}

/// Measures the lag between two servers until told to stop.
///
/// # Errors
/// If the server refuses a write for good. Connections that fail for a while are part of the test.
pub fn measure(
    from: &mut Connection,
    to: &mut Connection,
    key: &str,
    weather: &Weather,
    random: &mut Rng,
) -> Result<Lags, String> {
    let mut lags = Lags::default();
    let mut number = 0;
    while !weather.stop.load(Relaxed) {
        number += 1;
        let (before, start) = (weather.changes(), Instant::now());
        let mut healed = None;
        let mut last = before;
        let has_passed = passes(from, to, key, number, &mut || {
            let now = weather.changes();
            if now != last {
                healed = now.is_multiple_of(2).then(Instant::now);
                last = now;
            }
            weather.stop.load(Relaxed)
        });
        match has_passed {
            Ok(true) if before == last && before.is_multiple_of(2) && weather.changes() == before => {
                lags.open.push(start.elapsed().as_secs_f64() * 1e3);
            }
            Ok(true) => lags.after_cuts.extend(healed.map(|healed| healed.elapsed().as_secs_f64() * 1e3)),
            Ok(false) => break,
            Err(text) if !may_pass(&text) => return Err(text),
            Err(_) => {}
        }
        std::thread::sleep(Duration::from_millis(random.u64(1..PAUSE_MS)));
    }
    Ok(lags)
}

/// True for temporary errors: a server that is loading a full copy may refuse commands for a while.
pub fn may_pass(error: &str) -> bool {
    error.starts_with("LOADING") || error.starts_with("BUSY")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_sorted_times() {
        let times: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!(percentile(&times, 0.5), Some(50.0));
        assert_eq!(percentile(&times, 0.99), Some(99.0));
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(percentile(&[7.0], 0.99), Some(7.0));
    }
}

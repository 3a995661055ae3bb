// SPDX-License-Identifier: BSD-3-Clause
//! Throttle of the snapshot writer: full speed while a processor is idle or no client sends
//! requests, short slices with pauses in between otherwise.
//!
//! A snapshot can wait; clients that expect a reply cannot. Without pauses on a machine with no
//! processor to spare, the scheduler would run the writer for some milliseconds at a time, and the
//! clients of the preempted thread would wait that long. Therefore every [`SLICE`] the writer
//! checks whether it had to wait for a processor itself. If so there are more runnable threads than
//! processors, and it pauses after each slice: first for [`REST_MOST`] slices, then for less and
//! less, until it runs at full speed or finds processors scarce again. The time to return to full
//! speed doubles whenever full speed proved too fast.
//!
//! Until the first check it relies on short scheduler turns (`scheduling.rs`).
//!
//! If no request has arrived for [`QUIET`], no client is waiting: a replica on this machine that
//! loads the snapshot takes processors too, but wants the snapshot soon.
//!
//! With pauses a snapshot takes at most about [`REST_MOST`] + 1 times as long. There are no
//! pauses while old forms of entries approach their memory bound, because writers would then have
//! to wait.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::old_forms::OldForms;
use crate::scheduling::ask_for_turns_of;

/// Time between two checks.
const SLICE: Duration = Duration::from_micros(200);
/// Longest pause, as a multiple of the slice's work.
const REST_MOST: f64 = 2.0;
/// After this long without a request, none is expected soon. Longer than a busy machine may delay
/// clients' requests.
const QUIET: Duration = Duration::from_millis(100);
/// Processors are scarce when the waiting time exceeds this fraction of the running time.
const SCARCE: f64 = 0.25;
/// Slices in which the pause shrinks from longest to none, at first and at most.
const RETURN_FIRST: f64 = 32.0;
const RETURN_MOST: f64 = 2048.0;

/// Number of requests that clients have sent since the server started.
pub type RequestCount = Arc<dyn Fn() -> u64 + Send + Sync>;

/// A thread's processor time since its start.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Share {
    /// Time running.
    ran: Duration,
    /// Time runnable, but waiting for a processor.
    waited: Duration,
}

/// Whether clients send requests; uses no clock.
struct Demand {
    seen: u64,
    quiet: Duration,
}

impl Demand {
    /// Records that a slice and the pause before it took `took`, and that there have been
    /// `requests` requests. True until it has been quiet for long enough.
    fn note(&mut self, requests: u64, took: Duration) -> bool {
        match requests == self.seen {
            true => self.quiet += took,
            false => (self.seen, self.quiet) = (requests, Duration::ZERO),
        }
        self.quiet < QUIET
    }
}

/// Computes the pauses; uses no clock.
struct Policy {
    /// The pause after a slice, as a multiple of its work.
    rest: f64,
    /// Slices in which the pause shrinks from longest to none.
    slices: f64,
    /// Consecutive slices without a pause.
    unrested: f64,
}

impl Policy {
    fn new() -> Policy {
        Policy { rest: REST_MOST, slices: RETURN_FIRST, unrested: 0.0 }
    }

    /// The pause after a slice. `share`: processor time of the slice and the pause before it;
    /// `None` if the system does not report it.
    fn rest_after(&mut self, share: Option<Share>) -> Duration {
        let Some(Share { ran, waited }) = share else { return SLICE };
        if waited.as_secs_f64() > SCARCE * ran.as_secs_f64() {
            if self.rest == 0.0 {
                self.slices = (2.0 * self.slices).min(RETURN_MOST);
            }
            self.rest = REST_MOST;
            self.unrested = 0.0;
        } else if self.rest > 0.0 {
            self.rest = (self.rest - REST_MOST / self.slices).max(0.0);
        } else {
            self.unrested += 1.0;
            if self.unrested > RETURN_MOST {
                self.slices = RETURN_FIRST;
            }
        }
        ran.min(4 * SLICE).mul_f64(self.rest)
    }
}

struct ThrottleState {
    /// `/proc/thread-self/schedstat`, if the system has it.
    figures: Option<File>,
    seen: Option<Share>,
    since: Instant,
    checked: Instant,
    policy: Policy,
    demand: Demand,
    requests: Option<RequestCount>,
}

/// Throttle of the thread that writes a snapshot; tied to that thread.
#[derive(Clone)]
pub(crate) struct Throttle {
    state: Rc<RefCell<ThrottleState>>,
    forms: Arc<OldForms>,
}

impl Throttle {
    /// A throttle for the calling thread. Without a request count, clients are assumed to be
    /// active.
    pub(crate) fn new(forms: &Arc<OldForms>, requests: Option<RequestCount>) -> Throttle {
        ask_for_turns_of(SLICE.as_nanos() as u64);
        let figures = File::open("/proc/thread-self/schedstat").ok();
        let seen = figures.as_ref().and_then(read);
        let now = Instant::now();
        let demand = Demand { seen: requests.as_ref().map_or(0, |count| count()), quiet: Duration::ZERO };
        let state = ThrottleState {
            figures,
            seen,
            since: now,
            checked: now,
            policy: Policy::new(),
            demand,
            requests,
        };
        Throttle { state: Rc::new(RefCell::new(state)), forms: Arc::clone(forms) }
    }

    /// Pauses if a slice is over and processors are scarce. No lock or gate may be held.
    #[inline]
    pub(crate) fn pause_if_due(&self) {
        let mut state = self.state.borrow_mut();
        if state.since.elapsed() >= SLICE {
            state.end_slice(&self.forms);
        }
    }
}

impl ThrottleState {
    #[cold]
    fn end_slice(&mut self, forms: &OldForms) {
        let now = self.figures.as_ref().and_then(read);
        let since_last = now.zip(self.seen).map(|(now, seen)| Share {
            ran: now.ran.saturating_sub(seen.ran),
            waited: now.waited.saturating_sub(seen.waited),
        });
        self.seen = now;
        let took = self.checked.elapsed();
        self.checked += took;
        let has_clients = match &self.requests {
            Some(count) => self.demand.note(count(), took),
            None => true,
        };
        let rest = self.policy.rest_after(since_last);
        forms.watch_copies();
        if has_clients && !rest.is_zero() && !forms.is_filling() {
            std::thread::sleep(rest);
        }
        self.since = Instant::now();
    }
}

/// Reads a thread's running and waiting time.
fn read(figures: &File) -> Option<Share> {
    let mut line = [0; 96];
    let len = figures.read_at(&mut line, 0).ok()?;
    parse(line.get(..len)?)
}

fn parse(line: &[u8]) -> Option<Share> {
    let mut numbers = std::str::from_utf8(line).ok()?.split_ascii_whitespace().map(str::parse::<u64>);
    let (ran, waited) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    // A system without accounting reports 0.
    (ran > 0).then(|| Share { ran: Duration::from_nanos(ran), waited: Duration::from_nanos(waited) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(ran: u64, waited: u64) -> Option<Share> {
        Some(Share { ran: Duration::from_micros(ran), waited: Duration::from_micros(waited) })
    }

    /// Slices of a thread that never waits, until there are no more pauses.
    fn return_to_full_speed(policy: &mut Policy) -> usize {
        let mut slices = 0;
        while !policy.rest_after(share(200, 0)).is_zero() {
            slices += 1;
            assert!(slices < 10_000);
        }
        slices
    }

    #[test]
    fn with_a_processor_to_spare_the_rests_end_soon() {
        let mut policy = Policy::new();
        assert!(return_to_full_speed(&mut policy) < 40);
        for _ in 0..100 {
            assert_eq!(policy.rest_after(share(200, 3)), Duration::ZERO);
        }
    }

    #[test]
    fn delayed_worker_rests_twice_as_long_as_it_works() {
        let mut policy = Policy::new();
        return_to_full_speed(&mut policy);
        assert_eq!(policy.rest_after(share(200, 1000)), Duration::from_micros(400));
        // Even if this persists: a snapshot takes at most three times as long.
        let rests: Duration = (0..10_000).map(|_| policy.rest_after(share(200, 500))).sum();
        assert_eq!(rests, 10_000 * Duration::from_micros(400));
        // The pause after an exceptionally long slice is bounded.
        assert_eq!(policy.rest_after(share(100_000, 50_000)), 8 * SLICE);
    }

    #[test]
    fn full_speed_that_was_too_much_is_tried_again_later_and_later() {
        let mut policy = Policy::new();
        let mut before = return_to_full_speed(&mut policy);
        for _ in 0..4 {
            policy.rest_after(share(200, 300));
            let slices = return_to_full_speed(&mut policy);
            assert!(slices > before + before / 2, "{slices} after {before}");
            before = slices;
        }
        // Until full speed has held for a long time.
        for _ in 0..=RETURN_MOST as usize {
            policy.rest_after(share(200, 0));
        }
        policy.rest_after(share(200, 300));
        assert!(return_to_full_speed(&mut policy) < before);
    }

    #[test]
    fn clients_count_as_active_until_a_quiet_period() {
        let mut demand = Demand { seen: 7, quiet: Duration::ZERO };
        assert!(demand.note(7, QUIET / 2), "the snapshot has just begun");
        assert!(!demand.note(7, QUIET / 2));
        assert!(!demand.note(7, SLICE));
        assert!(demand.note(8, 2 * QUIET), "a request has arrived");
        assert!(demand.note(8, QUIET / 2));
        assert!(!demand.note(8, QUIET / 2));
    }

    #[test]
    fn without_figures_it_takes_twice_as_long() {
        assert_eq!(Policy::new().rest_after(None), SLICE);
    }

    #[test]
    fn the_systems_line_is_read() {
        assert_eq!(parse(b"2000000 3000 17\n"), share(2000, 3));
        assert_eq!(parse(b"0 0 0\n"), None);
        assert_eq!(parse(b"no numbers"), None);
        assert_eq!(parse(b""), None);
    }
}

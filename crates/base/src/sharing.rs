// SPDX-License-Identifier: BSD-3-Clause
//! Counts what a thread writes to memory that other threads write too: cache lines, and atomic
//! read-modify-write steps. They limit how far threads scale (docs/scaling.md), and one more of
//! them in a frequent command would show on no small machine.
//!
//! Only in builds with debug assertions; otherwise nothing is counted, and nothing is executed.

use std::cell::Cell;

/// What is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line {
    /// A shard's lock and what shares its line.
    Shard,
    /// The gate, by a thread that stops the world.
    Gate,
    /// The gate's epoch.
    Epoch,
    /// The end of the journal.
    JournalEnd,
    /// Who is to be woken when the journal grows.
    JournalWake,
    /// A part of the table of channels, or the patterns.
    Channels,
    /// A loop's mailbox.
    Mailbox,
    /// Queues of waiting clients, and the tickets of waiters.
    Waiters,
}

/// Number of kinds of lines.
const KINDS: usize = Line::Waiters as usize + 1;

/// Cache lines and read-modify-write steps.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Count {
    pub lines: u32,
    pub steps: u32,
}

thread_local! {
    static COUNTS: Cell<[Count; KINDS]> = const { Cell::new([Count { lines: 0, steps: 0 }; KINDS]) };
}

/// Counts writes of the current thread.
#[inline(always)]
pub fn note(line: Line, lines: u32, steps: u32) {
    if cfg!(debug_assertions) {
        COUNTS.with(|counts| {
            let mut now = counts.get();
            now[line as usize].lines += lines;
            now[line as usize].steps += steps;
            counts.set(now);
        });
    }
}

/// What the current thread has counted since the last call, without zeros. Empty in builds that do
/// not count.
pub fn take() -> Vec<(Line, Count)> {
    use Line::*;
    let counts = COUNTS.with(Cell::take);
    let all = [Shard, Gate, Epoch, JournalEnd, JournalWake, Channels, Mailbox, Waiters];
    all.into_iter().zip(counts).filter(|(_, count)| *count != Count::default()).collect()
}

// SPDX-License-Identifier: BSD-3-Clause
//! The cost of a cluster's hash slots: processor time and traffic (CLUSTER SLOT-STATS).
//!
//! Each thread has its own counters for all slots; a reader sums them. They take 384 KB per
//! thread and are allocated when the thread first counts, so a server that counts nothing has
//! none.

use braid_base::Padded;
use braid_base::crc::{HASH_SLOTS, key_hash_slot};
use braid_base::slots::Slots;
use braid_clients::THREADS_MAX;
use braid_clients::describe::request_bytes;
use braid_keyspace::counters::Counter;

/// A thread's counters for one slot.
#[derive(Default)]
struct Counters {
    nanos: Counter,
    bytes_in: Counter,
    bytes_out: Counter,
}

/// The cost of the commands on one slot.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SlotCost {
    /// Nanoseconds of execution.
    pub nanos: u64,
    /// Bytes of requests.
    pub bytes_in: u64,
    /// Bytes of replies, and of messages to subscribers of shard channels.
    pub bytes_out: u64,
}

/// The counters of all threads.
pub struct SlotStats {
    threads: Slots<Padded<Box<[Counters]>>>,
}

impl Default for SlotStats {
    fn default() -> SlotStats {
        SlotStats { threads: Slots::new(THREADS_MAX) }
    }
}

impl SlotStats {
    /// Adds a cost to a slot. Only the thread itself may call this.
    pub fn add(&self, thread: usize, slot: u16, cost: SlotCost) {
        if self.threads.get(thread).is_none() {
            let none = |_| Padded::new((0..HASH_SLOTS).map(|_| Counters::default()).collect());
            self.threads.grow(thread + 1, none);
        }
        let counters = &self.threads[thread][usize::from(slot)];
        counters.nanos.add(cost.nanos);
        counters.bytes_in.add(cost.bytes_in);
        counters.bytes_out.add(cost.bytes_out);
    }

    /// Adds a message to `receivers` subscribers of a shard channel. Only the thread itself may
    /// call this.
    pub fn add_shard_message(&self, thread: usize, channel: &[u8], message: &[u8], receivers: usize) {
        // Pushes are as long as the arrays that RESP2 clients get.
        let bytes_out = (receivers * request_bytes(&[b"smessage", channel, message])) as u64;
        self.add(thread, key_hash_slot(channel), SlotCost { bytes_out, ..SlotCost::default() });
    }

    /// A slot's cost since it arrived here, or since the last reset.
    pub fn of(&self, slot: u16) -> SlotCost {
        let mut sum = SlotCost::default();
        for counters in self.threads.iter().map(|thread| &thread[usize::from(slot)]) {
            sum.nanos += counters.nanos.get();
            sum.bytes_in += counters.bytes_in.get();
            sum.bytes_out += counters.bytes_out.get();
        }
        sum
    }

    /// Resets the counters of some slots; concurrent additions may survive.
    pub fn reset(&self, is_meant: impl Fn(u16) -> bool) {
        for thread in self.threads.iter() {
            for counters in
                (0..HASH_SLOTS).filter(|&slot| is_meant(slot)).map(|slot| &thread[usize::from(slot)])
            {
                counters.nanos.reset();
                counters.bytes_in.reset();
                counters.bytes_out.reset();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_costs_of_all_threads_add_up() {
        let stats = SlotStats::default();
        let cost = SlotCost { nanos: 5, bytes_in: 7, bytes_out: 11 };
        assert_eq!(stats.of(3), SlotCost::default(), "an uncounted slot has no cost");
        stats.add(2, 3, cost);
        stats.add(0, 3, cost);
        stats.add(0, HASH_SLOTS - 1, cost);
        assert_eq!(stats.of(3), SlotCost { nanos: 10, bytes_in: 14, bytes_out: 22 });
        assert_eq!(stats.of(HASH_SLOTS - 1), cost);
        stats.reset(|slot| slot < 100);
        assert_eq!((stats.of(3), stats.of(HASH_SLOTS - 1)), (SlotCost::default(), cost));
    }
}

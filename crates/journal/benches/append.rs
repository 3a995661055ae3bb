// SPDX-License-Identifier: BSD-3-Clause
//! The cost of journalling a change: the time of one append, alone and while another thread
//! appends.
//!
//! `cargo bench -p braid-journal`. A thread follows as reader, like the one that writes the
//! append-only file.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use braid_journal::{Journal, Reader, Writer};
use divan::Bencher;

const VALUE: [u8; 32] = [b'v'; 32];

fn main() {
    divan::main();
}

fn append(journal: &Journal, slot: usize, writer: &mut Writer) {
    journal.append_request(slot, writer, 0, &[b"SET", b"key:000000001234", &VALUE]);
    journal.wake();
}

fn read_behind(journal: &Journal, mut reader: Reader, over: &AtomicBool) {
    while !over.load(Relaxed) {
        let seen = journal.complete();
        reader.read(journal, seen, <[u8]>::len);
        reader.wait(journal, seen, Duration::from_millis(5), || false);
    }
    reader.end(journal);
}

/// `others`: number of other threads that append as fast as they can.
#[divan::bench(args = [0, 1], sample_size = 10_000)]
fn append_request(bencher: Bencher<'_, '_>, others: usize) {
    let journal = Journal::new(1 + others);
    journal.make_room_for_threads(1 + others);
    let reader = journal.reader();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| read_behind(&journal, reader, &over));
        for other in 0..others {
            let (journal, over) = (&journal, &over);
            scope.spawn(move || {
                let mut writer = Writer::default();
                while !over.load(Relaxed) {
                    append(journal, 1 + other, &mut writer);
                }
            });
        }
        let mut writer = Writer::default();
        bencher.bench_local(|| append(&journal, 0, &mut writer));
        over.store(true, Relaxed);
    });
}

// SPDX-License-Identifier: BSD-3-Clause
//! The journal under the model checker, which explores interleavings of its real code:
//! `cargo test -p braid-journal --features model --test model`.
//!
//! Like the models of `braid-base`, each runs with the unchanged code and with a planted fault,
//! with which some schedule must fail. The checker's execution is sequentially consistent:
//! `src/log.rs` argues why the weaker orderings in the code suffice, which cannot be tested here.

#![cfg(feature = "model")]

use std::sync::Arc;
use std::time::Duration;

use braid_base::sync::{Condvar, Fault, Mutex, holds_unless, lock};
use braid_journal::{Journal, Reader, Writer};
use shuttle::thread;

const SCHEDULES: usize = 6_000;
const APPENDERS: usize = 2;
const UNITS: usize = 2;

/// The text that identifies a unit in the log.
fn name(slot: usize, unit: usize) -> String {
    format!("<{slot}.{unit}{}>", "-".repeat(unit * 50))
}

/// Reads the log up to an offset and appends it to `log`.
fn read(journal: &Journal, reader: &mut Reader, end: u64, log: &mut Vec<u8>) {
    reader.read(journal, end, |piece| {
        log.extend_from_slice(piece);
        piece.len()
    });
}

/// Threads append; one thread reads, and sleeps when there is nothing to read. It gets every unit
/// whole, in each thread's order, and is always woken: that the test ends is part of the
/// assertion.
fn appenders_and_a_reader() {
    let journal = Arc::new(Journal::new(APPENDERS));
    journal.make_room_for_threads(APPENDERS);
    let mut reader = journal.reader();
    let appenders: Vec<_> = (0..APPENDERS)
        .map(|slot| {
            let journal = Arc::clone(&journal);
            thread::spawn(move || {
                let mut writer = Writer::default();
                for unit in 0..UNITS {
                    // Two databases: the next thread may have to select another one.
                    let (db, name) = (slot as u32, name(slot, unit));
                    if unit == 0 {
                        writer.unit.push(db, &[name.as_bytes()]);
                        journal.append(slot, &mut writer);
                    } else {
                        journal.append_request(slot, &mut writer, db, &[name.as_bytes()]);
                    }
                    journal.wake();
                }
            })
        })
        .collect();
    let mut log = Vec::new();
    loop {
        let seen = journal.complete();
        read(&journal, &mut reader, seen, &mut log);
        if log.iter().filter(|&&byte| byte == b'>').count() == APPENDERS * UNITS {
            break;
        }
        reader.wait(&journal, seen, Duration::MAX, || false);
        thread::yield_now();
    }
    appenders.into_iter().for_each(|appender| appender.join().expect("no appender panicked"));
    let log = String::from_utf8(log).expect("the log is text");
    assert!(log.ends_with("\r\n"), "{log:?}");
    let mut left = log.as_str();
    let (mut db, mut next) = (None, [0; APPENDERS]);
    while let Some((request, rest)) = left.strip_prefix('*').and_then(|rest| rest.split_once("\r\n")) {
        let words: usize = request.parse().expect("a number of words");
        let mut lines = rest.splitn(2 * words + 1, "\r\n");
        let texts: Vec<&str> = (0..words).map(|_| lines.nth(1).expect("a word")).collect();
        left = lines.next().expect("the rest");
        if let ["SELECT", number] = texts[..] {
            db = number.parse().ok();
            continue;
        }
        let slot = db.expect("a database was selected");
        assert_eq!(texts, [name(slot, next[slot])], "{log:?}");
        next[slot] += 1;
    }
    assert_eq!((left, next), ("", [UNITS; APPENDERS]));
}

/// Threads append; one thread follows them like a loop that feeds replicas, waiting only for its
/// bell. Another reader begins in the middle of the backlog, and sees what the first one saw from
/// there on.
fn appenders_and_a_bell() {
    let journal = Arc::new(Journal::new(APPENDERS));
    journal.make_room_for_threads(APPENDERS);
    journal.begin_backlog(1 << 20, None);
    let bell = Arc::new((Mutex::new(false), Condvar::new()));
    let rung = Arc::clone(&bell);
    journal.set_bell(move || {
        *lock(&rung.0) = true;
        rung.1.notify_one();
    });
    let mut reader = journal.reader_from(0).expect("the whole log is kept");
    let appenders: Vec<_> = (0..APPENDERS)
        .map(|slot| {
            let journal = Arc::clone(&journal);
            thread::spawn(move || {
                let mut writer = Writer::default();
                journal.append_request(slot, &mut writer, slot as u32, &[name(slot, 0).as_bytes()]);
                journal.wake();
                journal.append_aside(slot, &mut writer, &[name(slot, 1).as_bytes()]);
                journal.wake();
            })
        })
        .collect();
    let (mut log, mut late) = (Vec::new(), None);
    loop {
        let seen = journal.complete();
        read(&journal, &mut reader, seen, &mut log);
        if log.iter().filter(|&&byte| byte == b'>').count() == APPENDERS * UNITS {
            break;
        }
        if late.is_none() && !log.is_empty() {
            let offset = reader.position() / 2;
            late = Some((offset, journal.reader_from(offset).expect("the whole log is kept")));
        }
        if !journal.wants_bell(seen) {
            let mut rung = lock(&bell.0);
            while !std::mem::take(&mut *rung) {
                rung = bell.1.wait(rung).expect("no thread panicked while holding it");
            }
        }
        thread::yield_now();
    }
    appenders.into_iter().for_each(|appender| appender.join().expect("no appender panicked"));
    if let Some((offset, mut late)) = late {
        let mut seen = Vec::new();
        read(&journal, &mut late, journal.complete(), &mut seen);
        assert_eq!(seen, log[offset as usize..]);
    }
}

/// A shared reader, and what was read.
struct Shared {
    stream: Mutex<(Reader, Vec<u8>)>,
    progress: Condvar,
}

impl Shared {
    /// Reads up to `end`.
    fn read(&self, journal: &Journal, end: u64) {
        let mut stream = lock(&self.stream);
        let (reader, log) = &mut *stream;
        read(journal, reader, end, log);
        self.progress.notify_all();
    }
}

/// Threads append, and read the log themselves if a loop waits for its bell; the loop reads
/// otherwise. Nothing is left unread.
fn appenders_that_read_for_a_loop() {
    let journal = Arc::new(Journal::new(APPENDERS));
    journal.make_room_for_threads(APPENDERS);
    let bell = Arc::new((Mutex::new((false, false)), Condvar::new()));
    let rung = Arc::clone(&bell);
    journal.set_bell(move || {
        lock(&rung.0).0 = true;
        rung.1.notify_one();
    });
    let stream = Mutex::new((journal.reader(), Vec::new()));
    let shared = Arc::new(Shared { stream, progress: Condvar::new() });
    let the_loop = {
        let (journal, shared, bell) = (Arc::clone(&journal), Arc::clone(&shared), Arc::clone(&bell));
        thread::spawn(move || {
            loop {
                let seen = journal.complete();
                shared.read(&journal, seen);
                if !journal.wants_bell(seen) {
                    let mut rung = lock(&bell.0);
                    while !std::mem::take(&mut rung.0) {
                        rung = bell.1.wait(rung).expect("no thread panicked while holding it");
                    }
                    if rung.1 {
                        break;
                    }
                }
                thread::yield_now();
            }
        })
    };
    let appenders: Vec<_> = (0..APPENDERS)
        .map(|slot| {
            let (journal, shared) = (Arc::clone(&journal), Arc::clone(&shared));
            thread::spawn(move || {
                let mut writer = Writer::default();
                writer.defers_bell = true;
                for unit in 0..UNITS {
                    journal.append_request(slot, &mut writer, slot as u32, &[name(slot, unit).as_bytes()]);
                    journal.wake_after(&mut writer);
                }
                if writer.owes_bell {
                    let end = journal.complete();
                    if end == journal.end() {
                        shared.read(&journal, end);
                    } else {
                        journal.wake();
                    }
                }
            })
        })
        .collect();
    appenders.into_iter().for_each(|appender| appender.join().expect("no appender panicked"));
    let mut stream = lock(&shared.stream);
    while stream.0.position() < journal.end() {
        stream = shared.progress.wait(stream).expect("no thread panicked while holding it");
    }
    drop(stream);
    *lock(&bell.0) = (true, true);
    bell.1.notify_one();
    the_loop.join().expect("the loop did not panic");
}

#[test]
fn nothing_is_left_unread_if_appenders_read_for_a_loop() {
    holds_unless(Fault::SleeperLooksBefore, SCHEDULES, appenders_that_read_for_a_loop);
}

#[test]
fn units_are_read_complete() {
    holds_unless(Fault::NoteComesLate, SCHEDULES, appenders_and_a_reader);
}

#[test]
fn append_is_never_missed_by_a_waiting_reader() {
    holds_unless(Fault::SleeperLooksBefore, SCHEDULES, appenders_and_a_reader);
}

/// The reader is called without new data, as when it must switch to another file or end.
fn a_call_and_a_reader() {
    let journal = Arc::new(Journal::new(1));
    let is_called = Arc::new(Mutex::new(false));
    let caller = {
        let (journal, is_called) = (Arc::clone(&journal), Arc::clone(&is_called));
        thread::spawn(move || {
            *lock(&is_called) = true;
            journal.wake();
        })
    };
    let mut reader = journal.reader();
    while !*lock(&is_called) {
        reader.wait(&journal, 0, Duration::MAX, || *lock(&is_called));
        thread::yield_now();
    }
    caller.join().expect("the caller did not panic");
}

#[test]
fn wake_call_is_never_missed_by_a_waiting_reader() {
    holds_unless(Fault::SleeperLooksBefore, SCHEDULES, a_call_and_a_reader);
}

#[test]
fn the_bell_is_rung_when_something_was_appended() {
    holds_unless(Fault::SleeperLooksBefore, SCHEDULES, appenders_and_a_bell);
}

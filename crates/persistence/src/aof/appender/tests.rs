// SPDX-License-Identifier: BSD-3-Clause
use std::sync::atomic::AtomicUsize;

use braid_journal::Writer;

use super::*;
use crate::aof::increment::AHEAD;
use crate::aof::{AofRecord, CommandReader, data_len};
use crate::direct_writer::BUFFER_BYTES_MAX;

/// A journal with a thread that writes it.
struct Rig {
    journal: Arc<Journal>,
    appender: Arc<Appender>,
    writer: Writer,
    folder: tempfile::TempDir,
    thread: Option<std::thread::JoinHandle<()>>,
    failures: Arc<AtomicUsize>,
}

impl Rig {
    fn new(policy: Policy) -> Rig {
        let folder = tempfile::tempdir().expect("a folder");
        let failures = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&failures);
        let on_failure = move |failed: bool| {
            seen.fetch_add(failed.into(), Relaxed);
        };
        let place_of = |dataset, offset| (dataset == 7).then_some(HistoryPosition { id: [b'a'; 40], offset });
        let appender = Arc::new(Appender::new(Box::new(on_failure), Box::new(|| ()), Box::new(place_of)));
        let journal = Arc::new(Journal::new(1));
        journal.make_room_for_threads(1);
        appender.set_policy(&journal, policy);
        let mut rig = Rig { journal, appender, writer: Writer::default(), folder, thread: None, failures };
        let file = rig.create("one");
        rig.run(file);
        rig
    }

    fn create(&self, name: &str) -> File {
        File::create_new(self.folder.path().join(name)).expect("a new file")
    }

    fn run(&mut self, file: File) {
        let reader = self.begin();
        self.write(reader, file);
    }

    /// Returns a reader that keeps the journal for the thread from here on.
    fn begin(&self) -> Reader {
        let reader = self.journal.reader();
        self.appender.begin(&reader, 7);
        reader
    }

    fn write(&mut self, reader: Reader, file: File) {
        let (journal, appender) = (Arc::clone(&self.journal), Arc::clone(&self.appender));
        self.thread = Some(std::thread::spawn(move || appender.run(&journal, reader, file)));
    }

    /// Switches files as the cut of a rewrite does.
    fn switch(&self, name: &str) {
        let offset = self.journal.forget_database();
        self.appender.switch(&self.journal, offset, self.create(name));
    }

    fn append(&mut self, args: &[&[u8]]) -> u64 {
        self.writer.unit.push(0, args);
        self.journal.append(0, &mut self.writer);
        self.journal.wake();
        self.journal.end()
    }

    fn end(&mut self) {
        self.appender.end(&self.journal);
        self.thread.take().expect("the thread is running").join().expect("the thread did not panic");
    }

    /// The commands in a file, one per line, without timestamps.
    fn lines(&self, name: &str) -> Vec<String> {
        let mut file = File::open(self.folder.path().join(name)).expect("the file exists");
        let len = data_len(&mut file).expect("the file is readable");
        let mut reader = CommandReader::new(io::Read::take(file, len), Some(len));
        let mut lines = Vec::new();
        while let Some(record) = reader.read().expect("a good file") {
            if record == AofRecord::Command {
                let args: Vec<_> = reader.args().map(String::from_utf8_lossy).collect();
                lines.push(args.join(" "));
            }
        }
        lines
    }

    fn len(&self, name: &str) -> u64 {
        self.folder.path().join(name).metadata().expect("the file exists").len()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.end();
        }
    }
}

#[test]
fn synced_records_are_in_the_file() {
    let mut rig = Rig::new(Policy::Always);
    for number in 1..=20 {
        let offset = rig.append(&[b"SET", b"k", number.to_string().as_bytes()]);
        assert!(rig.appender.wait_until_synced(offset));
        assert!(rig.appender.synced() >= offset);
        let lines = rig.lines("one");
        assert_eq!(
            (lines.len(), lines.last().map(String::as_str)),
            (number + 1, Some(&*format!("SET k {number}")))
        );
    }
    assert_eq!(rig.len("one"), AHEAD);
    let size = rig.appender.size();
    rig.end();
    assert_eq!(rig.len("one"), size, "zeros written ahead are cut off");
}

#[test]
fn records_larger_than_preallocated_space_are_appended() {
    let mut rig = Rig::new(Policy::Always);
    let long = vec![b'x'; 3 * AHEAD as usize];
    for _ in 0..2 {
        let offset = rig.append(&[b"SET", b"k", &long]);
        assert!(rig.appender.wait_until_synced(offset));
    }
    assert_eq!(rig.lines("one").len(), 3);
    rig.end();
    assert_eq!(rig.len("one"), rig.appender.size());
}

#[test]
fn everything_is_written_at_the_end() {
    for policy in [Policy::Always, Policy::EverySecond, Policy::Never] {
        let mut rig = Rig::new(policy);
        for number in 0..1000 {
            rig.append(&[b"RPUSH", b"l", number.to_string().as_bytes()]);
        }
        rig.end();
        let lines = rig.lines("one");
        assert_eq!((lines.len(), &*lines[1000]), (1001, "RPUSH l 999"));
        assert_eq!(rig.appender.synced(), rig.journal.end());
    }
}

#[test]
fn another_file_from_an_offset_on() {
    for policy in [Policy::Always, Policy::EverySecond] {
        let mut rig = Rig::new(policy);
        rig.append(&[b"SET", b"a", b"1"]);
        let offset = rig.journal.forget_database();
        let next = rig.create("two");
        rig.appender.switch(&rig.journal, offset, next);
        rig.append(&[b"SET", b"b", b"1"]);
        rig.append(&[b"SET", b"c", b"1"]);
        rig.end();
        assert_eq!(rig.lines("one"), ["SELECT 0", "SET a 1"]);
        assert_eq!(rig.lines("two"), ["SELECT 0", "SET b 1", "SET c 1"]);
    }
}

/// A second cut is made before the thread has reached the first. The units between them are in
/// the first cut's file, which the next base replaces only once it is complete.
#[test]
fn several_file_switches_before_the_first_is_processed() {
    for policy in [Policy::Always, Policy::EverySecond, Policy::Never] {
        let mut rig = Rig::new(policy);
        rig.end();
        let (file, reader) = (rig.create("two"), rig.begin());
        rig.journal.forget_database();
        rig.append(&[b"SET", b"a", b"1"]);
        rig.switch("three");
        rig.append(&[b"SET", b"b", b"1"]);
        // No data was appended in between.
        rig.switch("four");
        rig.switch("five");
        let offset = rig.append(&[b"SET", b"c", b"1"]);
        rig.write(reader, file);
        if policy == Policy::Always {
            assert!(rig.appender.wait_until_synced(offset));
            assert_eq!(rig.lines("five"), ["SELECT 0", "SET c 1"]);
        }
        rig.end();
        let files = ["two", "three", "four", "five"].map(|name| rig.lines(name));
        let [two, three, four, five] = &files;
        assert_eq!(two, &["SELECT 0", "SET a 1"]);
        assert_eq!(three, &["SELECT 0", "SET b 1"]);
        assert!(four.is_empty());
        assert_eq!(five, &["SELECT 0", "SET c 1"]);
    }
}

#[test]
fn the_policy_changes() {
    let mut rig = Rig::new(Policy::EverySecond);
    rig.append(&[b"SET", b"a", b"1"]);
    rig.appender.set_policy(&rig.journal, Policy::Always);
    let offset = rig.append(&[b"SET", b"b", b"1"]);
    assert!(rig.appender.wait_until_synced(offset));
    rig.appender.set_policy(&rig.journal, Policy::Never);
    rig.append(&[b"SET", b"c", b"1"]);
    rig.end();
    assert_eq!(rig.lines("one"), ["SELECT 0", "SET a 1", "SET b 1", "SET c 1"]);
    assert_eq!(rig.len("one"), rig.appender.size());
}

/// A file that is continued gets a line of its own, which no sync follows: writers must not wait
/// for one.
#[test]
fn a_continued_file_without_changes_is_not_late() {
    let mut rig = Rig::new(Policy::EverySecond);
    rig.append(&[b"SET", b"k", b"v"]);
    rig.end();
    let len = data_len(&mut File::open(rig.folder.path().join("one")).expect("a file")).expect("a length");
    let file = File::options().append(true).open(rig.folder.path().join("one")).expect("the file exists");
    file.set_len(len).expect("zeros are cut off");
    rig.run(file);
    let limit = Instant::now() + Duration::from_secs(20);
    while rig.len("one") == len {
        assert!(Instant::now() < limit, "the file has not been continued");
        std::thread::yield_now();
    }
    assert_eq!(rig.appender.unsynced_ms(i64::MAX), 0);
}

/// Data that no client waited for under the previous policy, with nothing added to it.
#[test]
fn fsync_policy_can_change_with_nothing_to_write() {
    let mut rig = Rig::new(Policy::Never);
    for round in 0..100 {
        let offset = rig.append(&[b"SET", b"a", b"1"]);
        while rig.appender.written() < offset {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(round));
        rig.appender.set_policy(&rig.journal, Policy::Always);
        assert!(rig.appender.wait_until_synced(offset));
        rig.appender.set_policy(&rig.journal, Policy::Never);
    }
    rig.end();
}

/// Ends and switches of files are noticed at any step of the thread.
#[test]
fn calls_are_heard_at_any_moment() {
    for policy in [Policy::EverySecond, Policy::Never] {
        let mut rig = Rig::new(policy);
        rig.end();
        for round in 0..300_u64 {
            let file = tempfile::tempfile_in(rig.folder.path()).expect("a file");
            rig.run(file);
            if round % 3 == 0 {
                rig.append(&[b"SET", b"a", b"1"]);
            }
            std::thread::sleep(Duration::from_micros(round % 100));
            rig.end();
        }
    }
}

#[test]
fn lines_that_tell_the_time() {
    let mut rig = Rig::new(Policy::Always);
    rig.appender.set_timestamps(true);
    let offset = rig.append(&[b"SET", b"a", b"1"]);
    assert!(rig.appender.wait_until_synced(offset));
    let text = std::fs::read(rig.folder.path().join("one")).expect("the file exists");
    // After the place of the file's beginning.
    let text = String::from_utf8_lossy(&text);
    assert!(text.starts_with("#HISTORY:") && text.contains("\r\n#TS:"), "{text}");
    assert_eq!(rig.lines("one"), ["SELECT 0", "SET a 1"]);
}

/// Wherever a process ends after a write, the file says which place in the history that is.
#[test]
fn the_file_ends_with_its_place() {
    let place_in = |rig: &Rig| {
        let mut file = File::open(rig.folder.path().join("one")).expect("the file exists");
        let len = data_len(&mut file).expect("the file is readable");
        let mut reader = CommandReader::new(io::Read::take(file, len), Some(len));
        while reader.read().expect("a good file").is_some() {}
        reader.place().map(|place| place.offset)
    };
    for policy in [Policy::Always, Policy::EverySecond, Policy::Never] {
        let mut rig = Rig::new(policy);
        for number in 0..50 {
            let offset = rig.append(&[b"SET", b"k", number.to_string().as_bytes()]);
            if policy == Policy::Always {
                assert!(rig.appender.wait_until_synced(offset));
                assert_eq!(place_in(&rig), Some(offset));
            }
        }
        rig.end();
        assert_eq!(place_in(&rig), Some(rig.journal.end()), "{policy:?}");
        // What the file does not have counts at the end.
        let file = File::options().write(true).open(rig.folder.path().join("one")).expect("writable");
        rig.journal.forget_database();
        rig.run(file);
        rig.journal.append_aside(0, &mut rig.writer, &[b"PING"]);
        rig.end();
        assert_eq!(place_in(&rig), Some(rig.journal.end()), "{policy:?}");
        // Another dataset.
        let file = File::options().write(true).open(rig.folder.path().join("one")).expect("writable");
        rig.journal.forget_database();
        let reader = rig.journal.reader();
        rig.appender.begin(&reader, 8);
        rig.write(reader, file);
        rig.append(&[b"SET", b"k", b"v"]);
        rig.end();
        assert_eq!(place_in(&rig), None, "{policy:?}");
    }
}

/// The file has checksums at intervals, also after an existing file is continued.
#[test]
fn sums_are_written_and_fit() {
    let mut rig = Rig::new(Policy::Always);
    for round in 0..3 {
        for number in 0..200 {
            let offset = rig.append(&[b"SET", format!("key:{number}").as_bytes(), &[b'x'; 100]]);
            if number % 10 == 0 {
                assert!(rig.appender.wait_until_synced(offset));
            }
        }
        rig.end();
        let file = std::fs::read(rig.folder.path().join("one")).expect("the file exists");
        let mut reader = CommandReader::new(&file[..], None);
        let (mut commands, mut sums) = (0, 0);
        while let Some(record) = reader.read().expect("checksums that match") {
            commands += usize::from(record == AofRecord::Command);
            sums += usize::from(record == AofRecord::Checked);
        }
        assert!(commands > (round + 1) * 200 && sums > round * 3, "{commands} {sums}");
        let file =
            std::fs::OpenOptions::new().write(true).open(rig.folder.path().join("one")).expect("writable");
        rig.journal.forget_database();
        rig.run(file);
    }
}

/// A file that cannot be written: no client is told that its write succeeded, and none waits
/// forever.
#[test]
fn write_failure_is_reported_to_waiting_clients() {
    let mut rig = Rig::new(Policy::Always);
    rig.end();
    let file = File::open(rig.folder.path().join("one")).expect("a read-only file");
    rig.run(file);
    let offset = rig.append(&[b"SET", b"a", b"1"]);
    assert!(!rig.appender.wait_until_synced(offset));
    let failure = rig.appender.failure().expect("the write has failed");
    assert_eq!((&*failure.text, failure.needs_rewrite), ("Bad file descriptor", false));
    assert_eq!(rig.failures.load(Relaxed), 1);
    assert!(rig.appender.synced() < offset);
}

/// Once a new base contains the data that a file cannot take, the thread continues with the next
/// file.
#[test]
fn data_in_a_new_base_need_not_be_written_to_the_log() {
    let mut rig = Rig::new(Policy::Always);
    rig.end();
    let len = rig.len("one");
    let file = File::open(rig.folder.path().join("one")).expect("a read-only file");
    rig.run(file);
    rig.journal.forget_database();
    let offset = rig.append(&[b"SET", b"a", b"1"]);
    assert!(!rig.appender.wait_until_synced(offset));
    rig.switch("two");
    rig.appender.forgive(offset);
    while rig.appender.synced() < offset {
        rig.appender.ask(offset);
        std::thread::yield_now();
    }
    let offset = rig.append(&[b"SET", b"b", b"1"]);
    assert!(rig.appender.wait_until_synced(offset));
    assert!(rig.appender.failure().is_none());
    rig.end();
    assert_eq!(rig.lines("two"), ["SELECT 0", "SET b 1"]);
    assert_eq!(rig.len("one"), len);
}

/// Data after the cut of a rewrite that could not be synced is not in its base.
#[test]
fn base_does_not_clear_a_failure_after_its_cut() {
    let mut rig = Rig::new(Policy::Always);
    let cut = rig.append(&[b"SET", b"a", b"1"]);
    assert!(rig.appender.wait_until_synced(cut));
    let offset = rig.append(&[b"SET", b"b", b"1"]);
    assert!(rig.appender.wait_until_synced(offset));
    // A pipe cannot be synced.
    let (_reader, pipe) = std::io::pipe().expect("a pipe");
    assert!(!rig.appender.sync(&File::from(std::os::fd::OwnedFd::from(pipe)), offset));
    let needs_rewrite = |rig: &Rig| rig.appender.failure().is_some_and(|failure| failure.needs_rewrite);
    assert!(needs_rewrite(&rig));
    rig.appender.forgive(cut);
    assert!(needs_rewrite(&rig));
    rig.appender.forgive(offset);
    assert!(rig.appender.failure().is_none());
}

/// Large and small bursts: all data is written in order and soon, although more may be gathered for
/// a moment.
#[test]
fn bursts_and_drops() {
    let mut rig = Rig::new(Policy::EverySecond);
    let mut expected = vec!["SELECT 0".to_owned()];
    for round in 0..6 {
        let (count, len) = if round % 2 == 0 { (400, BUFFER_BYTES_MAX / 150) } else { (3, 5) };
        for number in 0..count {
            let value = format!("{number:0len$}");
            rig.append(&[b"SET", b"k", value.as_bytes()]);
            expected.push(format!("SET k {value}"));
        }
        while rig.appender.written() < rig.journal.end() {
            std::thread::yield_now();
        }
        assert!(rig.lines("one") == expected);
        assert_eq!(rig.len("one"), rig.appender.size());
    }
}

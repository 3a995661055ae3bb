// SPDX-License-Identifier: BSD-3-Clause
use super::*;
use std::time::Duration;

fn journal(threads: usize) -> Journal {
    let journal = Journal::new(threads);
    journal.make_room_for_threads(threads);
    journal
}

fn all(journal: &Journal, reader: &mut Reader) -> Vec<u8> {
    let mut out = Vec::new();
    reader.read(journal, journal.complete(), |piece| {
        out.extend_from_slice(piece);
        piece.len()
    });
    out
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", " ")
}

#[test]
fn a_database_is_chosen_when_it_changes_and_for_a_new_reader() {
    let journal = journal(1);
    let mut reader = journal.reader();
    let mut writer = Writer::default();
    for (db, name) in [(0, b"A"), (0, b"B"), (2, b"C"), (2, b"D"), (300, b"E"), (300, b"F")] {
        if name[0] % 2 == 0 {
            writer.unit.push(db, &[name]);
            journal.append(0, &mut writer);
        } else {
            journal.append_request(0, &mut writer, db, &[name]);
        }
    }
    assert_eq!(
        text(&all(&journal, &mut reader)),
        "*2 $6 SELECT $1 0 *1 $1 A *1 $1 B *2 $6 SELECT $1 2 *1 $1 C *1 $1 D *2 $6 SELECT $3 300 *1 $1 E \
         *2 $6 SELECT $3 300 *1 $1 F "
    );
    assert_eq!(journal.forget_database(), journal.end());
    writer.unit.push(300, &[b"G"]);
    journal.append(0, &mut writer);
    assert_eq!(text(&all(&journal, &mut reader)), "*2 $6 SELECT $3 300 *1 $1 G ");
    assert_eq!(journal.end(), reader.position());
}

#[test]
fn several_requests_are_a_transaction() {
    let journal = journal(1);
    let mut reader = journal.reader();
    let mut writer = Writer::default();
    writer.unit.push(0, &[b"A"]);
    writer.unit.push(1, &[b"B"]);
    journal.append(0, &mut writer);
    writer.unit.push(1, &[b"C"]);
    journal.append(0, &mut writer);
    assert_eq!(
        text(&all(&journal, &mut reader)),
        "*1 $5 MULTI *2 $6 SELECT $1 0 *1 $1 A *2 $6 SELECT $1 1 *1 $1 B *1 $4 EXEC *1 $1 C "
    );
}

#[test]
fn journal_frees_memory_of_read_units() {
    let journal = journal(1);
    let mut reader = journal.reader();
    let mut writer = Writer::default();
    let big = vec![b'x'; 3 * CHUNK];
    let mut most = 0;
    for _ in 0..40 {
        writer.unit.push(0, &[&big]);
        journal.append(0, &mut writer);
        let read = all(&journal, &mut reader);
        assert!(read.ends_with(b"xx\r\n") && read.len() > 3 * CHUNK);
        most = most.max(journal.memory_bytes());
    }
    assert!(most < 16 * CHUNK, "{most}");
    reader.end(&journal);
    for _ in 0..40 {
        writer.unit.push(0, &[&big]);
        journal.append(0, &mut writer);
        journal.trim();
    }
    assert!(journal.memory_bytes() < 16 * CHUNK);
}

#[test]
fn a_reader_may_take_less_than_it_is_shown() {
    let journal = journal(1);
    let mut reader = journal.reader();
    let mut writer = Writer::default();
    writer.unit.push(0, &[b"ABCDEF"]);
    journal.append(0, &mut writer);
    let mut seen = Vec::new();
    while reader.position() < journal.end() {
        reader.read(&journal, journal.complete(), |piece| {
            seen.push(piece[0]);
            1
        });
    }
    assert_eq!(text(&seen), "*2 $6 SELECT $1 0 *1 $6 ABCDEF ");
}

/// Threads append while one reads: every unit arrives once and whole, in each thread's order.
#[test]
fn many_threads_append_and_one_reads() {
    const THREADS: usize = 4;
    const UNITS: usize = if cfg!(miri) { 30 } else { 20_000 };
    let journal = journal(THREADS);
    let mut reader = journal.reader();
    let mut log = Vec::new();
    std::thread::scope(|scope| {
        for slot in 0..THREADS {
            let journal = &journal;
            scope.spawn(move || {
                let mut writer = Writer::default();
                for unit in 0..UNITS {
                    let number = format!("{slot} {unit}");
                    let fill = vec![b'f'; unit * 7 % 300];
                    let args = [number.as_bytes(), &fill[..]];
                    if unit % 3 == 0 {
                        writer.unit.push(0, &args);
                        journal.append(slot, &mut writer);
                    } else {
                        journal.append_request(slot, &mut writer, 0, &args);
                    }
                    journal.wake();
                }
            });
        }
        let mut units = 0;
        while units < THREADS * UNITS {
            let seen = journal.complete();
            reader.read(&journal, seen, |piece| {
                log.extend_from_slice(piece);
                piece.len()
            });
            units = log.iter().filter(|&&byte| byte == b'*').count() - usize::from(!log.is_empty());
            reader.wait(&journal, seen, Duration::from_millis(50), || false);
        }
    });
    let mut next = [0; THREADS];
    let log = String::from_utf8(log).expect("text");
    let mut lines = log.split("\r\n").skip(5);
    while let Some(head) = lines.next().filter(|line| !line.is_empty()) {
        assert_eq!(head, "*2");
        let number = lines.nth(1).expect("a number");
        let (slot, unit) = number.split_once(' ').expect("two numbers");
        let slot: usize = slot.parse().expect("a slot");
        assert_eq!(unit.parse(), Ok(next[slot]));
        assert_eq!(lines.nth(1).expect("the fill").len(), next[slot] * 7 % 300);
        next[slot] += 1;
    }
    assert_eq!(next, [UNITS; THREADS]);
}

/// Appends small numbered units to a log.
fn append_numbers(journal: &Journal, writer: &mut Writer, numbers: std::ops::Range<u32>) {
    let filling = [b'.'; if cfg!(miri) { 40 } else { 1000 }];
    for number in numbers {
        let text = number.to_string();
        journal.append_request(0, writer, number % 3, &[b"N", text.as_bytes(), &filling]);
    }
}

/// A reader that writes a file and one that feeds a replica, both starting at the log's end.
fn file_and_replica(journal: &Journal) -> (Reader, Reader) {
    let file = journal.reader();
    journal.begin_backlog(1 << 20, None);
    (file, journal.reader_from(journal.end()).expect("the end is always kept"))
}

#[test]
fn asides_are_for_some_readers_only() {
    let journal = journal(1);
    let mut writer = Writer::default();
    let (mut file, mut replica) = file_and_replica(&journal);
    journal.append_request(0, &mut writer, 0, &[b"A"]);
    journal.append_aside(0, &mut writer, &[b"PING"]);
    journal.append_aside(0, &mut writer, &[b"PING"]);
    assert_eq!(writer.end, journal.end() - 28, "an aside is not one of the thread's changes");
    journal.append_request(0, &mut writer, 0, &[b"B"]);
    journal.append_aside(0, &mut writer, &[b"PING"]);
    assert_eq!(text(&all(&journal, &mut file)), "*2 $6 SELECT $1 0 *1 $1 A *1 $1 B ");
    assert_eq!(
        text(&all(&journal, &mut replica)),
        "*2 $6 SELECT $1 0 *1 $1 A *1 $4 PING *1 $4 PING *1 $1 B *1 $4 PING "
    );
    assert_eq!([file.position(), replica.position()], [journal.end(); 2]);
}

#[test]
fn an_aside_of_a_client_stands_in_its_database() {
    let journal = journal(1);
    let mut writer = Writer::default();
    let (mut file, mut replica) = file_and_replica(&journal);
    journal.append_aside_in(0, &mut writer, 3, &[b"P"]);
    journal.append_aside_in(0, &mut writer, 3, &[b"Q"]);
    journal.append_request(0, &mut writer, 3, &[b"A"]);
    journal.append_aside(0, &mut writer, &[b"PING"]);
    journal.append_request(0, &mut writer, 0, &[b"B"]);
    let (three, zero) = ("*2 $6 SELECT $1 3 ", "*2 $6 SELECT $1 0 ");
    assert_eq!(text(&all(&journal, &mut file)), format!("{three}*1 $1 A {zero}*1 $1 B "));
    let all_of_it = format!("{three}*1 $1 P *1 $1 Q *1 $1 A *1 $4 PING {zero}*1 $1 B ");
    assert_eq!(text(&all(&journal, &mut replica)), all_of_it);
}

#[test]
fn asides_follow_their_unit() {
    let journal = journal(1);
    let mut writer = Writer::default();
    let (mut file, mut replica) = file_and_replica(&journal);
    writer.unit.push(0, &[b"A"]);
    writer.unit.push_aside(&[b"P"]);
    writer.unit.push(0, &[b"B"]);
    writer.unit.push_aside(&[b"Q"]);
    journal.append(0, &mut writer);
    assert_eq!(writer.end, journal.end() - 22, "an aside is not one of the thread's changes");
    writer.unit.push(0, &[b"C"]);
    journal.append(0, &mut writer);
    let unit = "*1 $5 MULTI *2 $6 SELECT $1 0 *1 $1 A *1 $1 B *1 $4 EXEC ";
    assert_eq!(text(&all(&journal, &mut file)), format!("{unit}*1 $1 C "));
    assert_eq!(text(&all(&journal, &mut replica)), format!("{unit}*1 $1 P *1 $1 Q *1 $1 C "));
}

#[test]
fn a_reader_begins_anywhere_in_the_backlog() {
    const SIZE: u64 = 3 * CHUNK as u64;
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let journal = journal(1);
    let mut writer = Writer::default();
    append_numbers(&journal, &mut writer, 0..10);
    assert!(journal.reader_from(journal.end()).is_none(), "there is no backlog");
    journal.begin_backlog(SIZE, None);
    let start = journal.end();
    let mut first = journal.reader_from(start).expect("kept");
    let mut log = Vec::new();
    for round in 0..if cfg!(miri) { 25 } else { 60 } {
        append_numbers(&journal, &mut writer, 0..random.u32(1..if cfg!(miri) { 10 } else { 100 }));
        if random.bool() {
            journal.append_aside(0, &mut writer, &[b"PING"]);
        }
        if round % 20 == 19 {
            journal.resize_backlog(random.u64(1..2 * SIZE));
        }
        log.extend(all(&journal, &mut first));
        let kept = journal.backlog().expect("the backlog");
        assert_eq!(kept.first + kept.len, journal.end());
        for offset in [kept.first, random.u64(kept.first..=journal.end()), journal.end()] {
            let mut reader = journal.reader_from(offset).expect("kept");
            assert!(all(&journal, &mut reader) == log[(offset - start) as usize..], "from {offset} on");
            reader.end(&journal);
        }
        assert!(kept.first == 0 || journal.reader_from(kept.first - 1).is_none());
        assert!(journal.reader_from(journal.end() + 1).is_none());
    }
}

#[test]
fn a_backlog_without_readers_does_not_grow() {
    let journal = journal(1);
    let mut writer = Writer::default();
    journal.begin_backlog(2 * CHUNK as u64, None);
    for _ in 0..40 {
        append_numbers(&journal, &mut writer, 0..if cfg!(miri) { 5 } else { 200 });
        assert!(journal.memory_bytes() < (4 + SPARE_CHUNKS) * CHUNK, "{}", journal.memory_bytes());
    }
    let kept = journal.backlog().expect("the backlog");
    assert_eq!(kept.len, 2 * CHUNK as u64);
    journal.resize_backlog(10 * CHUNK as u64);
    assert_eq!(journal.backlog(), Some(kept), "dropped bytes do not return");
    journal.end_backlog();
    assert!(journal.memory_bytes() <= (1 + SPARE_CHUNKS) * CHUNK);
}

/// Sets a bell that counts its rings.
fn counting_bell(journal: &Journal) -> Arc<AtomicU64> {
    let rung = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&rung);
    journal.set_bell(move || {
        counter.fetch_add(1, Relaxed);
    });
    rung
}

#[test]
fn the_bell_is_rung_once_for_each_time_that_it_is_wanted() {
    let journal = journal(1);
    let rung = counting_bell(&journal);
    let mut writer = Writer::default();
    let seen = journal.end();
    assert!(!journal.wants_bell(seen));
    append_numbers(&journal, &mut writer, 0..1);
    journal.wake();
    journal.wake();
    assert_eq!(rung.load(Relaxed), 1);
    assert!(journal.wants_bell(seen), "data has arrived already");
}

#[test]
fn a_thread_that_defers_the_bell_is_told_that_it_was_wanted() {
    let journal = journal(1);
    let rung = counting_bell(&journal);
    let mut writer = Writer { defers_bell: true, ..Writer::default() };
    append_numbers(&journal, &mut writer, 0..1);
    journal.wake_after(&mut writer);
    assert!(!writer.owes_bell, "nobody waited for it");
    assert!(!journal.wants_bell(journal.end()));
    append_numbers(&journal, &mut writer, 1..3);
    journal.wake_after(&mut writer);
    assert!(writer.owes_bell);
    assert_eq!(rung.load(Relaxed), 0);
    // It is still wanted.
    let mut other = Writer::default();
    append_numbers(&journal, &mut other, 3..4);
    journal.wake_after(&mut other);
    assert_eq!((rung.load(Relaxed), other.owes_bell), (1, false));
}

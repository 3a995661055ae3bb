// SPDX-License-Identifier: BSD-3-Clause
//! Feeds over a journal in memory: no server, no sockets.

use braid_journal::{Journal, Writer};
use braid_replication::history::History;
use braid_resp::request;
use braid_spec::spec::Spec;
use braid_spec::table::{CommandTable, Row};
use braid_spec::{Flags, Group, KeyFlags, KeySpec};

use crate::scan::Scanner;
use crate::{Ended, EntryId, Feed, Feeds, FieldValue, Missed, ReadPoint, Reading, Source};

struct Rows(Spec);

impl Row for Rows {
    fn spec(&'static self) -> &'static Spec {
        &self.0
    }

    fn subcommands(&'static self) -> &'static [Rows] {
        &[]
    }
}

const fn write(name: &'static str, group: Group, keys: &'static [KeySpec]) -> Rows {
    Rows(Spec::new(name, group).at_least(1).flags(Flags::WRITE).keys(keys))
}

const CHANGES: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW)];
const FROM: KeySpec = KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE));
const TO: KeySpec = KeySpec::at(2, KeyFlags::OW);
const COMMANDS: &[Rows] = &[
    Rows(Spec::new("ping", Group::Connection).at_least(1)),
    Rows(
        Spec::new("get", Group::String)
            .at_least(2)
            .flags(Flags::READONLY)
            .keys(&[KeySpec::at(1, KeyFlags::RO)]),
    ),
    write("set", Group::String, CHANGES),
    write("mset", Group::String, &[KeySpec::range(1, -1, 2, KeyFlags::OW)]),
    write("del", Group::Generic, &[KeySpec::range(1, -1, 1, KeyFlags::RM)]),
    write("unlink", Group::Generic, &[KeySpec::range(1, -1, 1, KeyFlags::RM)]),
    write("hset", Group::Hash, CHANGES),
    write("pexpireat", Group::Generic, CHANGES),
    write("sunionstore", Group::Set, &[TO_FIRST, KeySpec::range(2, -1, 1, KeyFlags::RO)]),
    write("smove", Group::Set, &[FROM, KeySpec::at(2, KeyFlags::RW)]),
    write("rename", Group::Generic, &[FROM, TO]),
    write("copy", Group::Generic, &[KeySpec::at(1, KeyFlags::RO), TO]),
    write("move", Group::Generic, &[FROM]),
    write("flushall", Group::Server, &[]),
    write("flushdb", Group::Server, &[]),
    write("swapdb", Group::Server, &[]),
    write("json.set", Group::Module, CHANGES),
];
const TO_FIRST: KeySpec = KeySpec::at(1, KeyFlags::OW);

fn table() -> CommandTable {
    CommandTable::new(&[COMMANDS]).0
}

/// A journal that keeps everything, with its one writer.
struct Rig {
    journal: Journal,
    writer: Writer,
    history: History,
    commands: CommandTable,
    is_primary: bool,
}

impl Rig {
    fn new() -> Rig {
        Rig::keeping(1 << 30)
    }

    fn keeping(bytes: u64) -> Rig {
        let journal = Journal::new(1);
        journal.make_room_for_threads(1);
        journal.begin_backlog(bytes, None);
        let (history, commands) = (History::default(), table());
        Rig { journal, writer: Writer::default(), history, commands, is_primary: true }
    }

    /// Appends requests as one unit. Words are separated by spaces.
    fn unit(&mut self, db: u32, requests: &[&str]) {
        for line in requests {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            self.writer.unit.push(db, &words);
        }
        self.journal.append(0, &mut self.writer);
    }

    fn source(&self) -> Source<'_> {
        let Rig { journal, history, commands, is_primary, .. } = self;
        Source { journal, history, commands, end: journal.complete(), is_primary: *is_primary }
    }

    /// The entries after an ID as text, with their IDs; a gap comes first.
    fn after(&self, feed: &Feed, after: EntryId) -> Vec<(EntryId, String)> {
        let reading = Reading::after(self.source(), after, None).expect("a good journal");
        reading.map_or(Vec::new(), |reading| texts(reading, feed, u64::MAX, usize::MAX).0)
    }

    fn all(&self, feed: &Feed) -> Vec<String> {
        self.after(feed, EntryId::MIN).into_iter().map(|(_, text)| text).collect()
    }
}

/// Up to `most` entries of a reading, and why it has ended.
fn texts(mut reading: Reading<'_>, feed: &Feed, bytes: u64, most: usize) -> (Vec<(EntryId, String)>, Ended) {
    let mut found = Vec::new();
    if let Some(gap) = reading.gap {
        found.push((gap.id(), format!("gap {}", gap.missed.name())));
    }
    let ended = reading.read(feed, bytes, |entry| {
        if found.len() == most {
            return false;
        }
        let mut words = Vec::new();
        entry.for_each_field(|name, value| {
            let value = match value {
                FieldValue::Text(text) => String::from_utf8_lossy(text).into_owned(),
                FieldValue::Number(number) => number.to_string(),
            };
            words.push(if name == "event" { value } else { format!("{name}={value}") });
        });
        assert_eq!(words.len(), entry.field_count());
        found.push((entry.id, words.join(" ")));
        true
    });
    (found, ended.expect("a good journal"))
}

fn feed(pattern: &str) -> Feed {
    Feed::new(b"feed", pattern.as_bytes(), false)
}

fn with_values(pattern: &str) -> Feed {
    Feed::new(b"feed", pattern.as_bytes(), true)
}

#[test]
fn requests_become_changes_of_their_keys() {
    let mut rig = Rig::new();
    for line in [
        "SET k v",
        "HSET h f 1",
        "DEL k h",
        "dEL e",
        "uNLINK e",
        "DEl g",
        "UNLINk g",
        "PEXPIREAT k 99",
        "SUNIONSTORE s a b",
        "SMOVE s t m",
        "COPY s c DB 4",
        "RENAME s r",
        "JSON.SET j $ 1",
        "PING",
        "GET k",
        "NOSUCH k",
    ] {
        rig.unit(0, &[line]);
    }
    assert_eq!(
        rig.all(&feed("*")),
        [
            "set key=k type=string command=SET db=0",
            "changed key=h type=hash command=HSET db=0",
            "deleted key=k type=none command=DEL db=0 more=1",
            "deleted key=h type=none command=DEL db=0 more=0",
            "expired key=e type=none command=DEL db=0",
            "expired key=e type=none command=UNLINK db=0",
            "evicted key=g type=none command=DEL db=0",
            "evicted key=g type=none command=UNLINK db=0",
            "changed key=k type=unknown command=PEXPIREAT db=0",
            "set key=s type=set command=SUNIONSTORE db=0",
            "changed key=s type=set command=SMOVE db=0 more=1",
            "changed key=t type=set command=SMOVE db=0 more=0",
            "set key=c type=unknown command=COPY db=4 from=s",
            "renamed key=s type=none command=RENAME db=0 to=r more=1",
            "set key=r type=unknown command=RENAME db=0 from=s more=0",
            "changed key=j type=ReJSON-RL command=JSON.SET db=0",
        ]
    );
}

#[test]
fn values_of_other_keys_are_not_shown() {
    let mut rig = Rig::new();
    for line in ["MSET a:1 x b:1 y", "HSET a:2 f 1", "RENAME a:2 b:2", "RENAME b:1 a:3", "SMOVE a:4 b:4 m"] {
        rig.unit(0, &[line]);
    }
    rig.unit(0, &["SMOVE a:4 a:5 m"]);
    assert_eq!(
        rig.all(&with_values("a:*")),
        [
            "set key=a:1 type=string command=MSET db=0 value=x",
            "changed key=a:2 type=hash command=HSET db=0 arg1=a:2 arg2=f arg3=1",
            "renamed key=a:2 type=none command=RENAME db=0",
            "set key=a:3 type=unknown command=RENAME db=0",
            "changed key=a:4 type=set command=SMOVE db=0",
            "changed key=a:4 type=set command=SMOVE db=0 arg1=a:4 arg2=a:5 arg3=m more=1",
            "changed key=a:5 type=set command=SMOVE db=0 arg1=a:4 arg2=a:5 arg3=m more=0",
        ]
    );
}

#[test]
fn databases_are_known_and_changes_of_whole_ones_are_in_every_feed() {
    let mut rig = Rig::new();
    rig.unit(3, &["SET a v"]);
    rig.unit(3, &["FLUSHDB", "SET a w"]);
    rig.unit(300, &["SET a x"]);
    rig.unit(0, &["FLUSHALL"]);
    rig.unit(0, &["SWAPDB 1 2"]);
    rig.unit(0, &["MOVE a 7"]);
    assert_eq!(
        rig.all(&feed("a")),
        [
            "set key=a type=string command=SET db=3",
            "flushed command=FLUSHDB db=3 more=1",
            "set key=a type=string command=SET db=3 more=0",
            "set key=a type=string command=SET db=300",
            "flushed command=FLUSHALL db=-1",
            "swapped command=SWAPDB db=1 with=2",
            "deleted key=a type=none command=MOVE db=0 more=1",
            "set key=a type=unknown command=MOVE db=7 more=0",
        ]
    );
    assert_eq!(rig.all(&feed("z")).len(), 3);
}

#[test]
fn a_transaction_is_a_group_and_readers_may_stop_within_it() {
    let mut rig = Rig::new();
    rig.unit(0, &["SET x 0"]);
    rig.unit(0, &["SET a 1", "SET other 2", "HSET a f 1", "SET a 3"]);
    rig.unit(0, &["SET a 4"]);
    let feed = feed("a");
    let all = rig.after(&feed, EntryId::MIN);
    let more: Vec<&str> = all.iter().map(|(_, text)| text.split("more=").nth(1).unwrap_or("alone")).collect();
    assert_eq!(more, ["2", "1", "0", "alone"]);
    assert!(all[..3].iter().all(|(id, _)| id.place == all[0].0.place), "one group");
    assert!(all.is_sorted_by_key(|(id, _)| *id));
    for index in 0..all.len() {
        assert_eq!(rig.after(&feed, all[index].0), all[index + 1..], "continues after entry {index}");
        let rest = rig.after(&feed, EntryId::at(all[index].0.place));
        assert!(all.ends_with(&rest) && !rest.contains(&all[index]), "{index}: behind its group");
    }
}

#[test]
fn ids_follow_from_the_bytes_and_not_from_where_reading_begins() {
    let mut rig = Rig::new();
    for number in 0..40_000_u32 {
        match number % 3 {
            0 => rig.unit(number % 5, &[&format!("SET key:{number} value")]),
            1 => rig.unit(0, &[&format!("HSET key:{number} f v"), "SET other 1", "SET key:x 1"]),
            _ => rig.unit(0, &["SET other 1"]),
        }
    }
    assert!(rig.journal.end() > 1 << 20, "several chunks");
    let feed = feed("key:*");
    let all = rig.after(&feed, EntryId::MIN);
    assert_eq!(all.len(), 13_334 + 2 * 13_333);
    for index in (0..all.len()).step_by(5003) {
        assert_eq!(rig.after(&feed, all[index].0).first(), all.get(index + 1), "after entry {index}");
        let reading = Reading::from(rig.source(), all[index].0).expect("good").expect("kept");
        let (from, _) = texts(reading, &feed, u64::MAX, usize::MAX);
        let begin = from.iter().position(|entry| entry.0 >= all[index].0);
        assert_eq!(begin.map(|begin| &from[begin]), Some(&all[index]), "from entry {index}");
    }
}

#[test]
fn a_replica_with_the_same_bytes_has_the_same_entries() {
    let mut rig = Rig::new();
    rig.unit(2, &["SET before 1"]);
    let begin = rig.journal.end();
    let mut reader = rig.journal.reader_at(begin).expect("kept");
    for number in 0..3000 {
        rig.unit(2, &[&format!("SET key:{number} v"), "SET b 1"]);
        rig.unit(number % 2 + 1, &["HSET h f 1"]);
    }
    let mut bytes = Vec::new();
    reader.read(&rig.journal, rig.journal.complete(), |piece| {
        bytes.extend_from_slice(piece);
        piece.len()
    });
    reader.end(&rig.journal);
    // A replica that has another journal offset, and was told the database.
    let mut replica = Rig::new();
    replica.unit(0, &["SET own 1"]);
    replica.history.adopt(rig.history.id().to_owned(), begin, replica.journal.end());
    replica.journal.begin_backlog(1 << 30, Some(2));
    replica.journal.append_received(0, &mut replica.writer, &bytes, false, None);
    let feed = feed("*");
    let of_primary = rig.after(&feed, EntryId::at(begin));
    assert_eq!(of_primary.len(), 9000);
    assert_eq!(replica.after(&feed, EntryId::at(begin)), of_primary);
    // A reader of the primary continues at the replica.
    assert_eq!(replica.after(&feed, of_primary[4000].0), of_primary[4001..]);
}

#[test]
fn a_reader_that_has_fallen_behind_is_told() {
    let mut rig = Rig::keeping(1 << 16);
    rig.unit(0, &["SET a 1"]);
    let feed = feed("*");
    let first = rig.after(&feed, EntryId::MIN)[0].0;
    let value = "x".repeat(5000);
    for _ in 0..1000 {
        rig.unit(0, &[&format!("SET a {value}")]);
    }
    let behind = rig.after(&feed, first);
    assert_eq!(behind[0].1, "gap dropped");
    assert!(behind.len() > 10 && behind[0].0 > first && behind[0].0 < behind[1].0);
    // The ID of the gap is a place to continue from, as is any entry.
    assert_eq!(rig.after(&feed, behind[0].0), behind[1..]);
    assert_eq!(rig.after(&feed, EntryId::MIN), behind[1..], "a new reader misses nothing");
    let reading = Reading::from(rig.source(), first).expect("good").expect("kept");
    assert_eq!(reading.gap.map(|gap| (gap.missed, gap.after)), Some((Missed::Dropped, first)));
    let reading = Reading::from(rig.source(), EntryId::MIN).expect("good").expect("kept");
    assert_eq!(reading.gap, None);
}

#[test]
fn changes_that_a_failover_has_lost_are_noticed() {
    let feed = feed("*");
    let (mut old, mut new) = (Rig::new(), Rig::new());
    for rig in [&mut old, &mut new] {
        rig.unit(0, &["SET a 1"]);
        rig.unit(0, &["SET a 2"]);
    }
    let branch = new.journal.end();
    new.history.branch(branch);
    new.journal.forget_database();
    for number in 0..20 {
        old.unit(0, &[&format!("SET lost {number}")]);
    }
    let seen = old.after(&feed, EntryId::MIN);
    let last = seen.last().expect("some").0;
    // The new primary has less than the reader has seen.
    assert_eq!(new.after(&feed, last), [(EntryId::at(branch), "gap diverged".to_owned())]);
    new.is_primary = false;
    assert_eq!(new.after(&feed, last), [], "a replica may still get it");
    new.is_primary = true;
    for number in 0..100 {
        new.unit(0, &[&format!("SET kept {number}")]);
    }
    // Now it has something else at that place.
    let (kept, lost): (Vec<_>, Vec<_>) = seen.iter().partition(|(_, text)| text.contains("key=a"));
    for (id, _) in lost {
        let after = new.after(&feed, *id);
        assert_eq!(after[0].1, "gap diverged");
        assert_eq!(after.len(), 101, "all that the new history has of its own");
    }
    for (id, _) in kept {
        assert!(!new.after(&feed, *id)[0].1.starts_with("gap"), "what both have is no gap");
    }
}

#[test]
fn the_same_place_with_another_unit_is_noticed() {
    let feed = feed("*");
    let (mut one, mut other) = (Rig::new(), Rig::new());
    one.unit(0, &["SET a 1"]);
    other.unit(0, &["SET a 2"]);
    let id = one.after(&feed, EntryId::MIN)[0].0;
    let found = other.after(&feed, id);
    assert_eq!(found[0].1, "gap diverged");
    assert_eq!(found.len(), 2, "from the first that is kept, as no branch is known");
}

/// A value may hold bytes that look like requests: an ID that points there gets nothing of them.
#[test]
fn an_id_within_a_value_reads_no_requests_there() {
    let mut rig = Rig::new();
    let mut inner = Vec::new();
    request::push(&mut inner, &[b"SET", b"mine", b"forged"]);
    rig.writer.unit.push(0, &[b"SET", b"other", &inner]);
    rig.journal.append(0, &mut rig.writer);
    rig.unit(0, &["SET mine 1"]);
    let feed = feed("mine");
    let entry = rig.after(&feed, EntryId::MIN);
    assert_eq!(entry.len(), 1);
    for place in 1..rig.journal.end() {
        for second in [0, u64::MAX] {
            let found = rig.after(&feed, EntryId { place, second });
            let texts: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
            let set = "set key=mine type=string command=SET db=0";
            assert!(
                [&[][..], &[set], &["gap diverged", set]].contains(&&texts[..]),
                "{place}-{second}: {texts:?}"
            );
        }
    }
}

#[test]
fn a_reading_pauses_and_continues_from_its_place() {
    let mut rig = Rig::new();
    let value = "x".repeat(1000);
    for number in 0..2000 {
        let key = if number % 500 == 499 { "mine" } else { "other" };
        rig.unit(number % 3, &[&format!("SET {key} {value}")]);
    }
    let feed = feed("mine");
    let (mut known, mut found, mut rounds) = (None, Vec::new(), 0);
    loop {
        let mut reading = Reading::after(rig.source(), EntryId::at(1), known).expect("good").expect("kept");
        let gap = reading.gap.take();
        assert_eq!(gap.is_some(), known.is_none(), "the first ID is within a unit");
        let ended = reading.read(&feed, 100_000, |entry| {
            found.push(entry.id);
            true
        });
        known = Some(reading.place());
        rounds += 1;
        match ended.expect("good") {
            Ended::Paused => {}
            Ended::AtEnd => break,
            Ended::Stopped => panic!("nobody stops it"),
        }
    }
    let expected: Vec<EntryId> = rig.after(&feed, EntryId::MIN).into_iter().map(|(id, _)| id).collect();
    assert_eq!(found, expected);
    assert!(rounds > 10, "{rounds}");
}

#[test]
fn a_unit_larger_than_the_limit_is_read_whole() {
    let mut rig = Rig::new();
    let value = "x".repeat(1 << 20);
    rig.unit(0, &[&format!("SET a {value}"), &format!("SET b {value}")]);
    let reading = Reading::after(rig.source(), EntryId::MIN, None).expect("good").expect("kept");
    let (found, _) = texts(reading, &feed("*"), 1000, usize::MAX);
    assert_eq!(found.len(), 2);
}

#[test]
fn a_journal_without_a_backlog_has_nothing_to_read() {
    let rig = Rig::new();
    rig.journal.end_backlog();
    assert!(Reading::after(rig.source(), EntryId::MIN, None).expect("good").is_none());
    assert!(Reading::from(rig.source(), EntryId::at(5)).expect("good").is_none());
}

#[test]
fn readings_hold_the_journal_only_while_they_last() {
    let mut rig = Rig::keeping(1 << 16);
    let value = "x".repeat(5000);
    rig.unit(0, &["SET a 1"]);
    let reading = Reading::after(rig.source(), EntryId::MIN, None).expect("good").expect("kept");
    drop(reading);
    for _ in 0..400 {
        rig.unit(0, &[&format!("SET a {value}")]);
    }
    assert!(rig.journal.memory_bytes() < 14 * (256 << 10), "{}", rig.journal.memory_bytes());
}

#[test]
fn bytes_that_are_no_requests_are_an_error() {
    let mut scanner = Scanner::new(0, None);
    assert!(scanner.push(b"*1\r\n$4\r\nPING\r\nnonsense\r\n").is_err());
}

#[test]
fn feeds_keep_their_number_while_their_definition_stays() {
    let feeds = Feeds::default();
    let hash = |name: &[u8]| name.len() as u64;
    assert!(!feeds.is_any() && feeds.get(b"one").is_none());
    feeds.set(vec![Feed::new(b"one", b"*", false), Feed::new(b"three", b"*", false)], hash);
    let (one, three) = (feeds.get(b"one").expect("set"), feeds.get(b"three").expect("set"));
    assert_ne!(one.number, three.number);
    assert!(feeds.may_have(3) && feeds.may_have(5) && !feeds.may_have(4));
    let asked = ReadPoint { feed: one.number, dataset: 0, after: EntryId::at(7) };
    let place = braid_journal::Boundary { offset: 9, db: None };
    feeds.note_place(asked, place);
    feeds.set(vec![Feed::new(b"three", b"a*", false), Feed::new(b"one", b"*", false)], hash);
    assert_eq!(feeds.get(b"one").expect("set").number, one.number);
    assert_ne!(feeds.get(b"three").expect("set").number, three.number, "another pattern");
    assert_eq!(feeds.place_of(&asked), Some(place));
    feeds.set(Vec::new(), hash);
    assert!(!feeds.is_any() && !feeds.may_have(3));
}

// SPDX-License-Identifier: BSD-3-Clause
//! The record of acknowledged writes, and the verdict on the servers' final contents.
//!
//! Every acknowledged write with a predictable outcome is recorded. Elements are unique and are
//! removed only by clients that have seen them, so no removed element may be present and no other
//! element may be missing; counters have exact sums. Only acknowledged writes count.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::contents::{Content, Contents};
use super::kinds::{KeyKind, name, second};

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Add(u64),
    /// By a client that has seen it on its server.
    Remove(u64),
    /// An increment of a field or member, in quarters.
    Count {
        field: u8,
        quarters: i64,
    },
    Write(u64),
    Create,
    /// Of an existing key.
    Delete,
    Other,
}

/// An acknowledged write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    pub server: usize,
    pub kind: KeyKind,
    pub key: u32,
    pub what: What,
    /// When it was sent and when it was acknowledged, in microseconds since the start.
    pub sent: u64,
    pub done: u64,
}

/// The verdict on a kind of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub keys: usize,
    pub writes: usize,
    /// Keys written on both sides of a cut while it lasted.
    pub conflicts: usize,
    /// Keys that differ between servers.
    pub differ: usize,
    /// Elements and keys that no client removed and that are missing on at least one server.
    pub lost: usize,
    /// Elements and keys that were removed and are present on at least one server.
    pub came_back: usize,
    /// Counters with a wrong sum, strings with an outdated value, torn transactions, duplicate
    /// elements.
    pub wrong: usize,
    pub examples: Vec<String>,
}

/// Examples kept per kind.
const EXAMPLES: usize = 3;
/// A write on another server counts as later only this long after the earlier one was acknowledged:
/// the servers' clocks may differ a little, and a server may stamp a write some time after
/// receiving it.
const CLOCKS_US: u64 = 1_000_000;

impl Verdict {
    /// True if the servers agree and hold every acknowledged write.
    pub fn is_good(&self) -> bool {
        self.differ + self.lost + self.came_back + self.wrong == 0
    }

    fn example(&mut self, text: impl FnOnce() -> String) {
        if self.examples.len() < EXAMPLES {
            self.examples.push(text());
        }
    }
}

/// Judges the servers' contents. `cuts`: begin and end of each cut in microseconds, and the
/// servers' sides.
pub fn judge(
    notes: &[Note],
    contents: &[Contents],
    cuts: &[(u64, u64, Vec<bool>)],
) -> BTreeMap<KeyKind, Verdict> {
    let mut verdicts: BTreeMap<KeyKind, Verdict> = BTreeMap::new();
    let mut by_key: BTreeMap<(KeyKind, u32), Vec<&Note>> = BTreeMap::new();
    for note in notes {
        by_key.entry((note.kind, note.key)).or_default().push(note);
    }
    for ((kind, key), notes) in &by_key {
        let verdict = verdicts.entry(*kind).or_default();
        verdict.writes += notes.len();
        verdict.keys += 1;
        verdict.conflicts += usize::from(cuts.iter().any(|cut| is_conflict(notes, cut)));
        let name = name(*kind, *key);
        match kind {
            KeyKind::Mixed => {}
            KeyKind::Deleted => judge_once(verdict, &name, notes, contents),
            KeyKind::String => judge_string(verdict, &name, notes, contents),
            KeyKind::Transaction => judge_transaction(verdict, &name, notes, contents),
            KeyKind::HyperLogLog => judge_estimate(verdict, &name, notes, contents),
            _ if kind.counts() => judge_sum(verdict, *kind, &name, notes, contents),
            _ => judge_elements(verdict, *kind, &name, notes, contents),
        }
    }
    let names: BTreeSet<&String> = contents.iter().flat_map(|held| held.keys()).collect();
    for name in names {
        let Some(kind) = KeyKind::of_key(name) else { continue };
        if let Some(how) = super::contents::difference(name, contents) {
            let verdict = verdicts.entry(kind).or_default();
            verdict.differ += 1;
            verdict.example(|| format!("{name} differs: {how}"));
        }
    }
    verdicts
}

/// True if both sides wrote to the key during the cut.
fn is_conflict(notes: &[&Note], (begin, end, sides): &(u64, u64, Vec<bool>)) -> bool {
    let mut wrote = notes.iter().filter(|note| note.sent >= *begin && note.done <= *end);
    let Some(first) = wrote.next() else { return false };
    wrote.any(|note| sides[note.server] != sides[first.server])
}

/// A key written once, and possibly deleted by a client that has seen it.
fn judge_once(verdict: &mut Verdict, name: &str, notes: &[&Note], contents: &[Contents]) {
    let is_deleted = notes.iter().any(|note| note.what == What::Delete);
    let there = contents.iter().filter(|held| held.contains_key(name)).count();
    if is_deleted && there > 0 {
        verdict.came_back += 1;
        verdict.example(|| format!("{name} was deleted and is on {there} of {} servers", contents.len()));
    } else if !is_deleted && there < contents.len() {
        verdict.lost += 1;
        verdict.example(|| format!("{name} was not deleted and is on {there} of {} servers", contents.len()));
    }
}

/// True if a value was overwritten by a later acknowledged write: any later one on its own server,
/// or one long after on another server. `None` if no acknowledged write has this value.
fn is_outdated(value: &str, notes: &[&Note]) -> Option<bool> {
    let number: u64 = value.strip_prefix('v')?.parse().ok()?;
    let write = notes.iter().find(|note| note.what == What::Write(number))?;
    Some(notes.iter().any(|later| {
        let margin = if later.server == write.server { 0 } else { CLOCKS_US };
        later.sent > write.done + margin
    }))
}

fn judge_value(verdict: &mut Verdict, name: &str, notes: &[&Note], contents: &[Contents]) {
    let held: Vec<Option<&str>> =
        contents.iter().map(|held| held.get(name).and_then(|content| content.first())).collect();
    if held.contains(&None) {
        verdict.lost += 1;
        verdict.example(|| format!("{name} was never deleted and is missing"));
    }
    for value in held.into_iter().flatten() {
        if is_outdated(value, notes) != Some(false) {
            verdict.wrong += 1;
            verdict.example(|| format!("{name} holds {value}, which a later write replaced"));
            return;
        }
    }
}

fn judge_string(verdict: &mut Verdict, name: &str, notes: &[&Note], contents: &[Contents]) {
    judge_value(verdict, name, notes, contents);
}

fn judge_transaction(verdict: &mut Verdict, name: &str, notes: &[&Note], contents: &[Contents]) {
    judge_value(verdict, name, notes, contents);
    let second = second(name);
    let torn = contents.iter().any(|held| held.get(name) != held.get(&second));
    if torn {
        verdict.wrong += 1;
        verdict.example(|| format!("{name} and {second} come from different transactions"));
    }
}

/// HyperLogLogs may be off by a few percent.
fn judge_estimate(verdict: &mut Verdict, name: &str, notes: &[&Note], contents: &[Contents]) {
    let added = notes.iter().filter(|note| matches!(note.what, What::Add(_))).count() as f64;
    for held in contents {
        let counted = held.get(name).and_then(|content| content.first()?.parse::<f64>().ok()).unwrap_or(0.0);
        if (counted - added).abs() > (added * 0.05).max(3.0) {
            verdict.wrong += 1;
            verdict.example(|| format!("{name} counts {counted}, but {added} elements were added"));
            return;
        }
    }
}

fn judge_sum(verdict: &mut Verdict, kind: KeyKind, name: &str, notes: &[&Note], contents: &[Contents]) {
    let mut sums: BTreeMap<u8, i64> = BTreeMap::new();
    for note in notes {
        if let What::Count { field, quarters } = note.what {
            *sums.entry(field).or_default() += quarters;
        }
    }
    for (field, sum) in sums {
        let expected = sum as f64 / 4.0;
        let read = |held: &Contents| held.get(name).and_then(|content| number_of(kind, content, field));
        let held: Vec<Option<f64>> = contents.iter().map(read).collect();
        if held.iter().any(|held| *held != Some(expected)) {
            verdict.wrong += 1;
            let shown = |held: &Option<f64>| held.map_or("nothing".into(), |held| held.to_string());
            let held: Vec<String> = held.iter().map(shown).collect();
            let part = if matches!(kind, KeyKind::HashCounter | KeyKind::ScoreCounter) {
                format!(" of f{field}")
            } else {
                String::new()
            };
            verdict
                .example(|| format!("{name}: the sum{part} is {expected}, servers hold {}", held.join(", ")));
        }
    }
}

/// The counter's value in a field.
fn number_of(kind: KeyKind, content: &Content, field: u8) -> Option<f64> {
    match kind {
        KeyKind::Counter | KeyKind::FloatCounter => content.first()?.parse().ok(),
        _ => content.value_of(&format!("f{field}"))?.parse().ok(),
    }
}

fn judge_elements(verdict: &mut Verdict, kind: KeyKind, name: &str, notes: &[&Note], contents: &[Contents]) {
    let mut removed: BTreeMap<u64, bool> = BTreeMap::new();
    for note in notes {
        match note.what {
            What::Add(element) => {
                removed.entry(element).or_default();
            }
            // The reply to the addition may have reached another client later.
            What::Remove(element) => {
                removed.insert(element, true);
            }
            _ => {}
        }
    }
    let held: Vec<HashMap<u64, usize>> = contents
        .iter()
        .map(|held| held.get(name).map(|content| content.elements(kind)).unwrap_or_default())
        .collect();
    for (element, is_removed) in removed {
        let there = held.iter().filter(|held| held.contains_key(&element)).count();
        if is_removed && there > 0 {
            verdict.came_back += 1;
            verdict.example(|| {
                format!("{name}: {element} was removed and is on {there} of {} servers", held.len())
            });
        } else if !is_removed && there < held.len() {
            verdict.lost += 1;
            verdict.example(|| {
                format!("{name}: {element} was not removed and is on {there} of {} servers", held.len())
            });
        }
        if held.iter().any(|held| held.get(&element).is_some_and(|times| *times > 1)) {
            verdict.wrong += 1;
            verdict.example(|| format!("{name}: {element} occurs twice"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(server: usize, kind: KeyKind, what: What, sent: u64) -> Note {
        Note { server, kind, key: 0, what, sent, done: sent + 10 }
    }

    fn held(kind: KeyKind, type_name: &str, items: &[&str]) -> Contents {
        let items = items.iter().map(|&item| item.to_owned()).collect();
        Contents::from([(name(kind, 0), Content { type_name: type_name.into(), items })])
    }

    #[track_caller]
    fn check(notes: &[Note], contents: &[Contents], expected: (usize, usize, usize, usize)) {
        let verdicts = judge(notes, contents, &[]);
        let verdict = &verdicts[&notes[0].kind];
        let found = (verdict.differ, verdict.lost, verdict.came_back, verdict.wrong);
        assert_eq!(found, expected, "{verdict:?}");
        assert_eq!(verdict.is_good(), expected == (0, 0, 0, 0));
        assert_eq!(verdict.examples.is_empty(), verdict.is_good());
    }

    #[test]
    fn elements_that_are_lost_or_back_are_found() {
        let kind = KeyKind::Set;
        let notes = [
            note(0, kind, What::Add(1), 0),
            note(1, kind, What::Add(2), 0),
            note(1, kind, What::Add(3), 0),
            note(1, kind, What::Remove(3), 50),
        ];
        let good = held(kind, "set", &["1", "2"]);
        check(&notes, &[good.clone(), good.clone()], (0, 0, 0, 0));
        let lost = held(kind, "set", &["2"]);
        check(&notes, &[lost.clone(), lost.clone()], (0, 1, 0, 0));
        check(&notes, &[good.clone(), lost], (1, 1, 0, 0));
        let back = held(kind, "set", &["1", "2", "3"]);
        check(&notes, &[back.clone(), back], (0, 0, 1, 0));
        check(&notes, &[Contents::new(), good], (1, 2, 0, 0));
    }

    #[test]
    fn elements_of_every_type_are_read() {
        for (kind, type_name, items) in [
            (KeyKind::Hash, "hash", &["7", "x", "8", "x"][..]),
            (KeyKind::SortedSet, "zset", &["7", "1", "8", "1.5"]),
            (KeyKind::List, "list", &["8", "7"]),
            (KeyKind::Stream, "stream", &["1-1", "e 7", "2-1", "e 8"]),
        ] {
            let notes = [note(0, kind, What::Add(7), 0), note(1, kind, What::Add(8), 0)];
            let whole = held(kind, type_name, items);
            check(&notes, &[whole.clone(), whole], (0, 0, 0, 0));
            let part = held(kind, type_name, &items[..items.len() / 2]);
            check(&notes, &[part.clone(), part], (0, 1, 0, 0));
        }
        let notes = [note(0, KeyKind::List, What::Add(7), 0)];
        let twice = held(KeyKind::List, "list", &["7", "7"]);
        check(&notes, &[twice.clone(), twice], (0, 0, 0, 1));
    }

    #[test]
    fn sums_must_be_exact() {
        let count =
            |server, quarters| note(server, KeyKind::FloatCounter, What::Count { field: 0, quarters }, 0);
        let notes = [count(0, 6), count(1, -1)];
        let good = held(KeyKind::FloatCounter, "string", &["1.25"]);
        check(&notes, &[good.clone(), good], (0, 0, 0, 0));
        let bad = held(KeyKind::FloatCounter, "string", &["1.5"]);
        check(&notes, &[bad.clone(), bad], (0, 0, 0, 1));
        let count = |field, quarters| note(0, KeyKind::HashCounter, What::Count { field, quarters }, 0);
        let notes = [count(1, 4), count(2, 8)];
        let good = held(KeyKind::HashCounter, "hash", &["f1", "1", "f2", "2"]);
        let bad = held(KeyKind::HashCounter, "hash", &["f1", "2", "f2", "2"]);
        check(&notes, &[good.clone(), good.clone()], (0, 0, 0, 0));
        check(&notes, &[good, bad], (1, 0, 0, 1));
    }

    #[test]
    fn older_values_and_torn_transactions_are_wrong() {
        let kind = KeyKind::String;
        let notes = [
            note(0, kind, What::Write(1), 0),
            note(0, kind, What::Write(2), 100),
            note(1, kind, What::Write(3), 105),
        ];
        for (value, expected) in [("v1", 1), ("v2", 0), ("v3", 0), ("else", 1)] {
            let held = held(kind, "string", &[value]);
            check(&notes, &[held.clone(), held], (0, 0, 0, expected));
        }
        // On another server the later write must be much later.
        let notes = [note(0, kind, What::Write(1), 0), note(1, kind, What::Write(2), CLOCKS_US + 100)];
        let old = held(kind, "string", &["v1"]);
        check(&notes, &[old.clone(), old], (0, 0, 0, 1));
        let kind = KeyKind::Transaction;
        let notes = [note(0, kind, What::Write(1), 0), note(1, kind, What::Write(2), 1)];
        let mut both = held(kind, "string", &["v1"]);
        both.insert("transaction:0:second".into(), both["transaction:0"].clone());
        check(&notes, &[both.clone(), both.clone()], (0, 0, 0, 0));
        both.insert(
            "transaction:0:second".into(),
            Content { type_name: "string".into(), items: vec!["v2".into()] },
        );
        check(&notes, &[both.clone(), both], (0, 0, 0, 1));
    }

    #[test]
    fn deleted_keys_stay_away_and_others_stay() {
        let kind = KeyKind::Deleted;
        let here = held(kind, "hash", &["a", "b"]);
        let notes = [note(0, kind, What::Create, 0)];
        check(&notes, &[here.clone(), here.clone()], (0, 0, 0, 0));
        check(&notes, &[here.clone(), Contents::new()], (1, 1, 0, 0));
        let notes = [notes[0], note(1, kind, What::Delete, 50)];
        check(&notes, &[Contents::new(), Contents::new()], (0, 0, 0, 0));
        check(&notes, &[here, Contents::new()], (1, 0, 1, 0));
    }

    #[test]
    fn conflicts_are_writes_on_both_sides_of_a_cut() {
        let kind = KeyKind::Mixed;
        let cut = (100, 200, vec![true, false, false]);
        for (servers, sent, expected) in [
            ([0, 1], [110, 120], 1),
            ([1, 2], [110, 120], 0),
            ([0, 1], [50, 120], 0),
            ([0, 2], [150, 185], 1),
        ] {
            let notes =
                [note(servers[0], kind, What::Other, sent[0]), note(servers[1], kind, What::Other, sent[1])];
            let verdicts = judge(&notes, &[], std::slice::from_ref(&cut));
            assert_eq!(verdicts[&kind].conflicts, expected, "{servers:?} {sent:?}");
        }
    }
}

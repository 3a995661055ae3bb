// SPDX-License-Identifier: BSD-3-Clause
//! Collections rewritten as requests in a file.

use braid_keyspace::object::{Object, ObjectType};
use braid_keyspace::{Event, Expiry};
use braid_persistence::{AofRecord, CommandReader, Form, SaveOptions, save};
use braid_values::hash::{Expiry as FieldExpiry, Hash, HashLimits};
use braid_values::list::{End, List, ListLimits};
use braid_values::sorted_set::{AddRule, PackedLimits, SortedSet};
use braid_values::stream::Stream;

use crate::save_and_load::{NOW, keyspace, with};
use crate::snapshot::options;

/// The requests in a file as text.
fn requests(file: &[u8]) -> Vec<String> {
    let mut reader = CommandReader::new(file, Some(file.len() as u64));
    let mut requests = Vec::new();
    while let Some(record) = reader.read().expect("a proper file") {
        if matches!(record, AofRecord::Command) {
            let words = reader.args().map(|arg| String::from_utf8_lossy(arg).into_owned());
            requests.push(words.collect::<Vec<_>>().join(" "));
        }
    }
    requests
}

/// The requests in a file for a key `k` with this value, after the SELECT.
fn of(value: impl ObjectType, expiry: Expiry) -> Vec<String> {
    let keyspace = keyspace();
    with(&keyspace, |txn| txn.set_object(Event::generic("t"), b"k", Object::new(value), expiry));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("base.aof");
    let options = SaveOptions { form: Form::Requests(None), ..options(&path) };
    save(&keyspace, &keyspace.gate.stop_world(None), &options).unwrap();
    let mut requests = requests(&std::fs::read(path).unwrap());
    assert_eq!(requests.remove(0), "SELECT 0");
    requests
}

#[test]
fn rewritten_elements_are_split_into_bounded_requests() {
    for (len, expected) in [(1, &[1][..]), (64, &[64]), (65, &[64, 1]), (200, &[64, 64, 64, 8])] {
        let mut list = List::new();
        let texts: Vec<String> = (0..len).map(|number: i32| number.to_string()).collect();
        texts.iter().for_each(|text| list.push(End::Back, text.as_bytes(), &ListLimits::default()));
        let requests = of(list, Expiry::Clear);
        let elements: Vec<Vec<&str>> =
            requests.iter().map(|request| request.split(' ').skip(2).collect()).collect();
        assert_eq!(elements.iter().map(Vec::len).collect::<Vec<_>>(), expected);
        assert_eq!(elements.concat(), texts);
        assert!(requests.iter().all(|request| request.starts_with("RPUSH k ")));
    }
}

#[test]
fn expiry_requests_follow_the_data_they_apply_to() {
    let (at, end) = (NOW + 9, NOW + 10);
    let mut hash = Hash::new();
    hash.set(b"f", b"1", FieldExpiry::Keep, i64::MIN, &HashLimits::default());
    hash.set(b"g", b"x", FieldExpiry::At(at), i64::MIN, &HashLimits::default());
    let mut requests = of(hash, Expiry::At(end));
    assert!(["HMSET k f 1 g x", "HMSET k g x f 1"].contains(&requests.remove(0).as_str()));
    assert_eq!(requests, [format!("HPEXPIREAT k {at} FIELDS 1 g"), format!("PEXPIREAT k {end}")]);
    let mut set = SortedSet::new();
    for (member, score) in [(&b"a"[..], 0.1), (b"b", f64::INFINITY), (b"c", -2.0)] {
        set.add(member, score, AddRule::default(), &PackedLimits::default());
    }
    set.set_expiry(b"b", Some(at));
    assert_eq!(
        of(set, Expiry::Clear),
        ["ZADD k -2 c 0.1 a inf b".to_owned(), format!("ZPEXPIREAT k {at} MEMBERS 1 b")]
    );
}

#[test]
fn empty_stream_is_rewritten_with_its_metadata() {
    assert_eq!(
        of(Stream::new(), Expiry::Clear),
        ["XADD k MAXLEN 0 0-1 x y", "XSETID k 0-0 ENTRIESADDED 0 MAXDELETEDID 0-0"]
    );
}

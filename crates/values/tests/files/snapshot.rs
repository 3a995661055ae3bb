// SPDX-License-Identifier: BSD-3-Clause
//! A snapshot contains the state at its cut, whatever happens while it is written.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::hash::KeyHasher;
use braid_keyspace::keyspace::Shape;
use braid_keyspace::object::Object;
use braid_keyspace::{Context, Event, Expiry, KeyRef, Keyspace, Txn, Value, scan};
use braid_persistence::{
    Cut, Form, OldForms, SaveError, SaveOptions, Saved, SnapshotProgress, cut, write_snapshot,
};
use braid_values::hash::{Expiry as FieldExpiry, Hash, HashLimits};
use braid_values::list::{End, List, ListLimits};
use braid_values::set::Set;
use braid_values::sorted_set::{AddRule, PackedLimits, SortedSet};
use braid_values::stream::{Group, Stream, StreamId};
use parking_lot::Mutex;

use crate::save_and_load::{
    NOW, OfEachType, content, content_in, fill, keyspace, load_from, loose_content, varied, with,
};

const LIMIT: usize = 1 << 20;

fn forms() -> Arc<OldForms> {
    Arc::new(OldForms::new(Box::new(|_| {})))
}

fn make_cut(keyspace: &Keyspace, forms: &Arc<OldForms>) -> Option<Cut> {
    let world = keyspace.gate.stop_world(None);
    cut(keyspace, &world, forms, LIMIT, Form::default())
}

fn write_to(
    keyspace: &Keyspace,
    cut: Cut,
    path: &Path,
    progress: &SnapshotProgress,
) -> Result<Saved, SaveError> {
    write_snapshot(keyspace, cut, &options(path), progress)
}

/// Save options for a dump file at a path.
pub fn options(path: &Path) -> SaveOptions<'_> {
    SaveOptions {
        path,
        form: Form::default(),
        compress: true,
        checksum: true,
        sync_pieces: false,
        key_delay: 0,
        notes: &[],
        functions: &[],
        indexes: &[],
        requests: None,
    }
}

/// The content of a file in the form of [`content`], without expired keys.
fn content_of(path: &Path) -> Vec<String> {
    let other = keyspace();
    load_from(&other, &std::fs::read(path).unwrap(), false).unwrap();
    content(&other)
}

/// A random change of a random key under its lock; occasionally of everything.
fn change(keyspace: &Keyspace, context: &mut Context, random: &mut fastrand::Rng, sweeping: bool) {
    let db = random.u32(0..4);
    if sweeping && random.u32(0..2000) == 0 {
        let world = keyspace.gate.stop_world(Some(context.slot));
        if random.bool() {
            let flushed = keyspace.flush(&world, Some(db));
            if random.bool() {
                flushed.free_in_background(&keyspace.lazy_free, None);
            }
        } else {
            Txn::world(keyspace, context, world, 0, NOW).swap_databases(db, random.u32(0..4));
        }
        return;
    }
    let names: Vec<String> = (0..2).map(|_| format!("key:{}", random.u32(0..3000))).collect();
    let keys: Vec<KeyRef<'_>> = names
        .iter()
        .map(|name| KeyRef { key: name.as_bytes(), hash: keyspace.hash(name.as_bytes()), write: true })
        .collect();
    keyspace.gate.enter(context.slot);
    let (one, other) = (names[0].as_bytes(), names[1].as_bytes());
    let mut txn = Txn::lock(keyspace, context, db, NOW, &keys);
    match random.u32(0..10) {
        0 => drop(txn.delete(one)),
        1 => drop(txn.rename(one, random.u32(0..4), other)),
        2 => drop(txn.copy(one, random.u32(0..4), other)),
        3 => drop(txn.set_expiry(one, random.bool().then_some(NOW + 100_000))),
        4 => drop(txn.set_expiry(one, Some(NOW - 1))),
        5 => drop(txn.increment(one, 1)),
        6 => drop(txn.edit_string(Event::string("edited"), one, 2000, |bytes, _| {
            bytes[random.usize(0..2000)] ^= 1;
            ((), 1)
        })),
        7 => txn.set(one, Value::string(format!("value {}", random.u32(..)).as_bytes()), Expiry::Keep),
        _ => {
            if let Ok(list) = txn.write_or_create(one, List::new) {
                list.push(End::Back, &[b'x'; 100], &ListLimits::default());
                txn.changed(Event::generic("changed"), one);
            }
        }
    }
    drop(txn);
    keyspace.gate.leave(context.slot);
    context.limbo.reclaim();
}

#[test]
fn changes_before_the_walk_do_not_show() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.rdb");
    let (one, forms) = (keyspace(), forms());
    with(&one, fill);
    let mut random = fastrand::Rng::with_seed(1);
    let mut context = Context::new(&one, 0);
    (0..20_000).for_each(|_| change(&one, &mut context, &mut random, true));
    with(&one, |txn| txn.set_expiry(b"expired", Some(NOW + 1)));
    for round in 0..4 {
        with(&one, remove_expired);
        let before = content(&one);
        let taken = make_cut(&one, &forms).expect("no other snapshot");
        assert!(make_cut(&one, &forms).is_none(), "only one snapshot at a time");
        (0..5000 * round).for_each(|_| change(&one, &mut context, &mut random, round > 1));
        let kept = forms.bytes();
        assert_eq!(kept > 0, round > 0);
        let keys = taken.keys();
        let saved = write_to(&one, taken, &path, &SnapshotProgress::default()).unwrap();
        assert_eq!(saved.keys, keys);
        assert_eq!(content_of(&path), before, "round {round}");
    }
}

/// Removes expired keys: a file is compared after a load, which leaves them out.
fn remove_expired(txn: &mut Txn<'_>) {
    for db in 0..4 {
        txn.set_db(db);
        let mut names = Vec::new();
        scan::scan(txn.keyspace(), db, 0, usize::MAX, |entry| names.push(entry.key().to_vec()));
        for name in names {
            // Looking up a key for writing removes it if it is expired.
            txn.write(&name);
        }
    }
}

#[test]
fn changes_by_several_threads_during_the_walk_do_not_show() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.rdb");
    let shared =
        Keyspace::new(Shape { shards: 16, databases: 4, threads: 3, threads_max: 3 }, KeyHasher::random());
    for db in 0..4 {
        with(&shared, |txn| {
            txn.set_db(db);
            (0..3000).for_each(|n| txn.set(format!("key:{n}").as_bytes(), Value::Integer(n), Expiry::Clear));
        });
    }
    let (stop, forms) = (AtomicBool::new(false), forms());
    std::thread::scope(|scope| {
        for slot in [1, 2] {
            let (shared, stop) = (&shared, &stop);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(slot as u64);
                let mut context = Context::new(shared, slot);
                while !stop.load(Relaxed) {
                    change(shared, &mut context, &mut random, true);
                }
            });
        }
        for round in 0..8 {
            let (before, taken) = {
                let world = shared.gate.stop_world(None);
                let mut context = Context::new(&shared, 0);
                let mut txn = Txn::world(&shared, &mut context, world, 0, NOW);
                remove_expired(&mut txn);
                let world = txn.stopped_world().expect("stopped");
                (
                    content_in(&shared, world),
                    cut(&shared, world, &forms, LIMIT, Form::default()).expect("no other snapshot"),
                )
            };
            write_to(&shared, taken, &path, &SnapshotProgress::default()).unwrap();
            let after = content_of(&path);
            if after != before {
                stop.store(true, Relaxed);
                panic!("round {round}: {} keys instead of {}", after.len(), before.len());
            }
        }
        stop.store(true, Relaxed);
    });
}

#[test]
fn failed_snapshot_leaves_no_file_and_the_next_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.rdb");
    let (one, forms) = (keyspace(), forms());
    with(&one, fill);
    with(&one, remove_expired);
    let mut context = Context::new(&one, 0);
    let mut random = fastrand::Rng::with_seed(2);
    let mut some_changes = || (0..100).for_each(|_| change(&one, &mut context, &mut random, false));
    let taken = make_cut(&one, &forms).expect("a cut");
    let error = write_to(&one, taken, &folder.path().join("no/such"), &SnapshotProgress::default());
    assert!(error.unwrap_err().to_string().starts_with("cannot create"));
    some_changes();
    let taken = make_cut(&one, &forms).expect("a cut");
    let progress = SnapshotProgress::default();
    progress.stop();
    assert!(write_to(&one, taken, &path, &progress).unwrap_err().to_string().contains("stopped"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    some_changes();
    with(&one, remove_expired);
    let before = content(&one);
    let taken = make_cut(&one, &forms).expect("a cut");
    some_changes();
    write_to(&one, taken, &path, &SnapshotProgress::default()).unwrap();
    assert_eq!(content_of(&path), before);
}

#[test]
fn members_that_expire_make_it_a_file_of_valkey() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.rdb");
    let (one, forms) = (keyspace(), forms());
    let mut hash = Hash::new();
    hash.set(b"f", b"v", FieldExpiry::At(NOW + 5), 0, &HashLimits::default());
    with(&one, |txn| txn.set_object(Event::hash("made"), b"hash", Object::new(hash), Expiry::Clear));
    let taken = make_cut(&one, &forms).expect("a cut");
    with(&one, |txn| txn.delete(b"hash"));
    write_to(&one, taken, &path, &SnapshotProgress::default()).unwrap();
    assert!(std::fs::read(&path).unwrap().starts_with(b"VALKEY080"));
    assert_eq!(content_of(&path).len(), 1);
}

#[test]
fn writers_are_notified_when_old_forms_exceed_the_limit() {
    let (one, told) = (keyspace(), Arc::new(AtomicBool::new(false)));
    let tell = Arc::clone(&told);
    let forms = Arc::new(OldForms::new(Box::new(move |full| tell.store(full, Relaxed))));
    with(&one, |txn| {
        (0..40).for_each(|n| {
            let name = format!("key:{n}");
            txn.set(name.as_bytes(), Value::string(&[b'x'; 60_000]), Expiry::Clear);
        });
    });
    let taken = make_cut(&one, &forms).expect("a cut");
    let delete = |numbers: std::ops::Range<u32>| {
        with(&one, |txn| numbers.for_each(|n| assert!(txn.delete(format!("key:{n}").as_bytes()))));
    };
    delete(0..10);
    assert!(!forms.is_full() && !told.load(Relaxed));
    delete(10..25);
    assert!(forms.is_full() && told.load(Relaxed));
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            while forms.is_full() {
                forms.wait_for_room();
            }
        });
        write_to(&one, taken, &folder.path().join("dump.rdb"), &SnapshotProgress::default()).unwrap();
        waiter.join().unwrap();
    });
    assert!(forms.bytes() == 0 && !told.load(Relaxed));
}

/// Values copied out of a shard and written later have the same form as values written
/// immediately.
#[test]
fn values_of_all_forms_are_in_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.rdb");
    let (one, forms) = (varied(), forms());
    with(&one, |txn| txn.set(b"", Value::string(b""), Expiry::At(NOW + 5)));
    let taken = make_cut(&one, &forms).expect("a cut");
    let keys = taken.keys();
    let saved = write_to(&one, taken, &path, &SnapshotProgress::default()).unwrap();
    assert_eq!(saved.keys, keys);
    with(&one, remove_expired);
    let other = keyspace();
    load_from(&other, &std::fs::read(&path).unwrap(), false).unwrap();
    assert!(loose_content(&other) == loose_content(&one));
}

/// Large collections of all types, named after their types.
fn large_collections(txn: &mut Txn<'_>) {
    let mut collections = OfEachType::new();
    for number in 0..6000u32 {
        let (name, value) = (format!("member {number}"), vec![b'v'; [5, 50, 400][number as usize % 3]]);
        collections.add(name.as_bytes(), &value, f64::from(number % 1000));
    }
    for (name, object) in collections.into_objects() {
        txn.set_object(Event::generic("made"), name.as_bytes(), object, Expiry::At(NOW + 1000));
    }
}

/// Changes each collection a little.
fn change_large_collections(keyspace: &Keyspace, context: &mut Context, random: &mut fastrand::Rng) {
    let (number, changed) = (random.u32(0..7000), Event::generic("changed"));
    let name = format!("member {number}");
    let names = ["hash", "list", "set", "sorted", "stream"];
    let keys =
        names.map(|name| KeyRef { key: name.as_bytes(), hash: keyspace.hash(name.as_bytes()), write: true });
    keyspace.gate.enter(context.slot);
    let mut txn = Txn::lock(keyspace, context, 0, NOW, &keys);
    if let Ok(Some(hash)) = txn.write_as::<Hash>(b"hash") {
        hash.set(name.as_bytes(), &[b'n'; 300], FieldExpiry::Keep, 0, &HashLimits::default());
    }
    if let Ok(Some(list)) = txn.write_as::<List>(b"list") {
        list.push(End::Front, name.as_bytes(), &ListLimits::default());
        list.set(i64::from(number), b"other", &ListLimits::default());
    }
    if let Ok(Some(set)) = txn.write_as::<Set>(b"set") {
        set.remove(name.as_bytes(), 0);
    }
    if let Ok(Some(sorted)) = txn.write_as::<SortedSet>(b"sorted") {
        sorted.add(name.as_bytes(), random.f64(), AddRule::default(), &PackedLimits::default());
        sorted.remove(format!("member {}", number / 2).as_bytes());
    }
    if let Ok(Some(stream)) = txn.write_as::<Stream>(b"stream") {
        stream.log_mut().delete(StreamId::new(u64::from(number), 0));
    }
    for name in names {
        txn.changed(changed, name.as_bytes());
    }
    if random.u32(0..3000) == 0 {
        txn.delete(names[random.usize(0..5)].as_bytes());
    }
    drop(txn);
    keyspace.gate.leave(context.slot);
    context.limbo.reclaim();
}

#[test]
fn large_collections_that_are_changed_or_deleted_meanwhile_are_in_it_as_they_were() {
    let _turn = LOANS.lock();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.rdb");
    for form in [Form::default(), Form::Requests(None)] {
        let (one, forms) = (keyspace(), forms());
        let mut random = fastrand::Rng::with_seed(3);
        for round in 0..8 {
            with(&one, large_collections);
            let before = loose_content(&one);
            let taken = {
                let world = one.gate.stop_world(None);
                cut(&one, &world, &forms, 64 * LIMIT, form).expect("no other snapshot")
            };
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let (one, stop, mut own_random) = (&one, &stop, random.fork());
                let mut context = Context::new(one, 0);
                if round % 2 == 0 {
                    (0..500).for_each(|_| change_large_collections(one, &mut context, &mut random));
                    assert!(forms.bytes() > 0, "changed shared parts count");
                }
                scope.spawn(move || {
                    while !stop.load(Relaxed) {
                        change_large_collections(one, &mut context, &mut own_random);
                    }
                });
                let options = SaveOptions { form, ..options(&path) };
                write_snapshot(one, taken, &options, &SnapshotProgress::default()).unwrap();
                stop.store(true, Relaxed);
            });
            assert_eq!(forms.bytes(), 0);
            if form == Form::default() {
                let other = keyspace();
                load_from(&other, &std::fs::read(&path).unwrap(), false).unwrap();
                assert!(loose_content(&other) == before, "round {round}");
            } else {
                // Every member occurs once, with its old value.
                let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
                assert_eq!(text.matches("\r\nmember ").count(), 3 * 6000, "round {round}");
                assert_eq!(text.matches("\r\nXADD\r\n").count(), 6000);
                assert!(!text.contains("other"));
            }
        }
    }
}

/// Copies of shared collections are counted per process, so tests that share run one at a time.
static LOANS: Mutex<()> = Mutex::new(());

/// A long string, a sorted set in which every other member expires, and a stream of few entries
/// with many pending ones.
fn long_string_and_large_parts(txn: &mut Txn<'_>) {
    txn.set(b"string", Value::string(&vec![b's'; 300_000]), Expiry::At(NOW + 1000));
    let mut sorted = SortedSet::new();
    for number in 0..4000u32 {
        let name = format!("member {number}");
        sorted.add(name.as_bytes(), f64::from(number % 100), AddRule::default(), &PackedLimits::default());
        if number % 2 == 0 {
            sorted.set_expiry(name.as_bytes(), Some(NOW + 1000 + i64::from(number)));
        }
    }
    let (mut stream, mut group) = (Stream::new(), Group::new(StreamId::MIN, None));
    let consumers = [b"one", b"two"].map(|name| group.create_consumer(name, NOW).unwrap());
    (1..=4000)
        .for_each(|number| group.deliver(StreamId::new(number, 0), consumers[number as usize % 2], NOW));
    stream.log_mut().set_last_id(StreamId::new(4000, 0));
    stream.split_mut().1.create(b"group", group);
    for (name, object) in [("sorted", Object::new(sorted)), ("stream", Object::new(stream))] {
        txn.set_object(Event::generic("made"), name.as_bytes(), object, Expiry::Clear);
    }
}

/// Changes each value a little.
fn change_large_parts(txn: &mut Txn<'_>, number: u32) {
    let changed = Event::generic("changed");
    txn.edit_string(changed, b"string", 0, |bytes, _| (bytes[number as usize] = b'x', 1)).unwrap();
    let name = format!("member {number}");
    let sorted = txn.write_as::<SortedSet>(b"sorted").unwrap().unwrap();
    match number % 3 {
        0 => drop(sorted.set_expiry(name.as_bytes(), None)),
        1 => drop(sorted.set_expiry(name.as_bytes(), Some(NOW + 10))),
        _ => drop(sorted.remove(name.as_bytes())),
    }
    let (_, groups) = txn.write_as::<Stream>(b"stream").unwrap().unwrap().split_mut();
    let group = groups.get_mut(b"group").unwrap();
    group.acknowledge(StreamId::new(u64::from(number), 0));
    group.redeliver(StreamId::new(u64::from(number + 100), 0), NOW + 1);
    for name in ["string", "sorted", "stream"] {
        txn.changed(changed, name.as_bytes());
    }
}

#[test]
fn long_strings_times_and_pending_entries_are_shared() {
    let _turn = LOANS.lock();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.rdb");
    for round in 0..4 {
        let (one, forms) = (keyspace(), forms());
        with(&one, long_string_and_large_parts);
        let before = loose_content(&one);
        let taken = make_cut(&one, &forms).expect("no other snapshot");
        if round > 0 {
            with(&one, |txn| (1..round * 50).for_each(|number| change_large_parts(txn, number)));
            let kept = forms.bytes();
            assert!(
                (300_000..600_000).contains(&kept),
                "the string once, and the copied parts of the others: {kept}"
            );
        }
        if round > 1 {
            with(&one, |txn| ["string", "sorted", "stream"].map(|name| assert!(txn.delete(name.as_bytes()))));
        }
        write_to(&one, taken, &path, &SnapshotProgress::default()).unwrap();
        assert_eq!(forms.bytes(), 0);
        let other = keyspace();
        load_from(&other, &std::fs::read(&path).unwrap(), false).unwrap();
        assert!(loose_content(&other) == before, "round {round}");
    }
}

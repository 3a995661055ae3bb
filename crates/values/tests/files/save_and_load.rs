// SPDX-License-Identifier: BSD-3-Clause
//! Saving a keyspace and loading it into another.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::gate::World;
use braid_base::hash::KeyHasher;
use braid_keyspace::keyspace::Shape;
use braid_keyspace::object::Object;
use braid_keyspace::{Context, Event, Expiry, Keyspace, Txn, Value};
use braid_persistence::{
    Accepts, Form, LoadError, LoadOptions, Loaded, Progress, SaveOptions, Saved, Slices, load, save, to_rdb,
};
use braid_rdb::Limits;
use braid_values::hash::{Expiry as FieldExpiry, Hash, HashLimits};
use braid_values::list::{End, List, ListLimits};
use braid_values::set::{Set, SetLimits};
use braid_values::sorted_set::{AddRule, PackedLimits, SortedSet};
use braid_values::stream::{BlockLimits, Stream, StreamId};

pub(crate) const NOW: i64 = 1_800_000_000_000;

pub(crate) fn keyspace() -> Keyspace {
    Keyspace::new(Shape { shards: 16, databases: 4, threads: 1, threads_max: 1 }, KeyHasher::random())
}

pub(crate) fn with<R>(keyspace: &Keyspace, work: impl FnOnce(&mut Txn<'_>) -> R) -> R {
    let mut context = Context::new(keyspace, 0);
    let world = keyspace.gate.stop_world(None);
    work(&mut Txn::world(keyspace, &mut context, world, 0, NOW))
}

pub(crate) fn fill(txn: &mut Txn<'_>) {
    for number in 0..500 {
        txn.set(format!("key:{number}").as_bytes(), Value::string(b"value"), Expiry::Clear);
    }
    txn.set(b"expiring", Value::Integer(7), Expiry::At(NOW + 1000));
    txn.set(b"expired", Value::Integer(8), Expiry::At(NOW - 1000));
    txn.set_db(3);
    let mut list = List::new();
    (0..300).for_each(|number| list.push(End::Back, number.to_string().as_bytes(), &ListLimits::default()));
    txn.set_object(Event::generic("t"), b"list", Object::new(list), Expiry::Clear);
}

fn save_to(keyspace: &Keyspace, path: &Path) -> Saved {
    let world = keyspace.gate.stop_world(None);
    let notes = [("redis-ver", "7.2.4".to_string())];
    let options = SaveOptions {
        path,
        form: Form::default(),
        compress: true,
        checksum: true,
        sync_pieces: true,
        key_delay: 0,
        notes: &notes,
        functions: &[b"code".to_vec()],
        indexes: &[],
        requests: None,
    };
    save(keyspace, &world, &options).unwrap()
}

pub(crate) fn load_from(
    keyspace: &Keyspace,
    bytes: &[u8],
    replace: bool,
) -> Result<(Loaded, Vec<Vec<u8>>), LoadError> {
    load_with(keyspace, bytes, replace, 1, true)
}

fn load_with(
    keyspace: &Keyspace,
    bytes: &[u8],
    replace: bool,
    threads: usize,
    checksum: bool,
) -> Result<(Loaded, Vec<Vec<u8>>), LoadError> {
    braid_values::register();
    let progress = Progress::default();
    let options = LoadOptions {
        len: Some(bytes.len() as u64),
        limits: Limits::default(),
        accepts: Accepts { relaxed: false, checksum, skip_unsupported: false },
        replace,
        expired: None,
        first_db: 0,
        threads,
        stands_back: false,
        progress: &progress,
    };
    let mut functions = Vec::new();
    let loaded = with(keyspace, |txn| {
        let mut slices = Slices::new(&progress, false, 0);
        let loaded = load(txn, bytes, &options, &mut slices, &mut |code| {
            functions.push(code.to_vec());
            Ok(())
        })?;
        slices.end_file(loaded.bytes);
        Ok::<_, LoadError>(loaded)
    })?;
    // A damaged file may appear to end early.
    assert!(!checksum || progress.loaded_bytes.load(Relaxed) == bytes.len() as u64);
    Ok((loaded, functions))
}

/// Names, values and expiries of all databases, as text.
pub(crate) fn content(keyspace: &Keyspace) -> Vec<String> {
    content_in(keyspace, &keyspace.gate.stop_world(None))
}

pub(crate) fn content_in(keyspace: &Keyspace, world: &World<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for db in 0..keyspace.databases() {
        keyspace.visit(world, db, |entry| {
            let payload = braid_rdb::dump(to_rdb(entry), Default::default(), false);
            lines.push(format!("{db} {:?} {:?} {payload:?}", entry.key(), entry.expiry()));
            true
        });
    }
    lines.sort();
    lines
}

#[test]
fn saved_keyspace_is_loaded_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.rdb");
    let one = keyspace();
    with(&one, fill);
    let saved = save_to(&one, &path);
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(saved.keys, 503);
    assert!(bytes.starts_with(b"REDIS0011"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    let other = keyspace();
    let (loaded, functions) = load_from(&other, &bytes, false).unwrap();
    assert_eq!(loaded, Loaded { keys: 502, expired: 1, bytes: bytes.len() as u64, ..Loaded::default() });
    assert_eq!(functions, [b"code"]);
    with(&one, |txn| txn.delete(b"expired"));
    let mut expected = content(&one);
    expected.retain(|line| !line.contains(&format!("{:?}", b"expired")));
    assert_eq!(content(&other), expected);
    // Again: now every key already exists.
    assert!(matches!(load_from(&other, &bytes, false), Err(LoadError::Duplicate { .. })));
    assert_eq!(load_from(&other, &bytes, true).unwrap().0.keys, 502);
    assert_eq!(content(&other), expected);
}

/// A collection of each type, with the same members.
pub(crate) struct OfEachType {
    hash: Hash,
    list: List,
    set: Set,
    sorted: SortedSet,
    stream: Stream,
    members: u64,
}

impl OfEachType {
    pub(crate) fn new() -> OfEachType {
        OfEachType {
            hash: Hash::new(),
            list: List::new(),
            set: Set::default(),
            sorted: SortedSet::new(),
            stream: Stream::new(),
            members: 0,
        }
    }

    pub(crate) fn add(&mut self, name: &[u8], value: &[u8], score: f64) {
        self.members += 1;
        self.hash.set(name, value, FieldExpiry::Keep, 0, &HashLimits::default());
        self.list.push(End::Back, value, &ListLimits::default());
        self.set.add(name, 0, &SetLimits::default());
        self.sorted.add(name, score, AddRule::default(), &PackedLimits::default());
        let id = StreamId::new(self.members, 0);
        self.stream.log_mut().append(id, &[(b"field", value)], &BlockLimits::default()).unwrap();
    }

    /// The collections with the names of their types.
    pub(crate) fn into_objects(self) -> [(&'static str, Object); 5] {
        [
            ("hash", Object::new(self.hash)),
            ("list", Object::new(self.list)),
            ("set", Object::new(self.set)),
            ("sorted", Object::new(self.sorted)),
            ("stream", Object::new(self.stream)),
        ]
    }
}

/// A keyspace with values of many types and sizes.
pub(crate) fn varied() -> Keyspace {
    let keyspace = keyspace();
    let mut random = fastrand::Rng::with_seed(5);
    with(&keyspace, |txn| {
        fill(txn);
        txn.set_db(0);
        let text = |random: &mut fastrand::Rng, len: usize| -> Vec<u8> {
            let byte = random.u8(..);
            (0..len).map(|_| if random.u8(0..4) == 0 { random.u8(..) } else { byte }).collect()
        };
        for number in 0..300 {
            let len = random.usize(0..2000);
            let value = text(&mut random, len);
            txn.set(format!("string:{number}").as_bytes(), Value::string(&value), Expiry::Clear);
            let mut collections = OfEachType::new();
            for member in 0..random.u64(1..200) {
                let len = random.usize(0..80);
                let value = text(&mut random, len);
                let name = format!("{}{member}", random.i64(-5..500));
                collections.add(name.as_bytes(), &value, random.f64());
            }
            for (kind, object) in collections.into_objects() {
                let at = if random.bool() { Expiry::At(NOW + 1000) } else { Expiry::Clear };
                txn.set_object(Event::generic("t"), format!("{kind}:{number}").as_bytes(), object, at);
            }
        }
        // Too large for the loader threads.
        txn.set(b"large", Value::string(&vec![b'x'; 3_000_000]), Expiry::Clear);
        let mut list = List::new();
        (0..4000).for_each(|_| list.push(End::Back, &[b'y'; 100], &ListLimits::default()));
        txn.set_object(Event::generic("t"), b"large list", Object::new(list), Expiry::Clear);
    });
    keyspace
}

/// [`content`] with members in any order, since tables order them differently.
pub(crate) fn loose_content(keyspace: &Keyspace) -> Vec<String> {
    let world = keyspace.gate.stop_world(None);
    let mut lines = Vec::new();
    for db in 0..keyspace.databases() {
        keyspace.visit(&world, db, |entry| {
            let mut payload = braid_rdb::dump(to_rdb(entry), Default::default(), false);
            // The checksum depends on the order.
            payload.truncate(payload.len() - 8);
            payload.sort_unstable();
            lines.push(format!("{db} {:?} {:?} {payload:?}", entry.key(), entry.expiry()));
            true
        });
    }
    lines.sort();
    lines
}

#[test]
fn parallel_load_matches_serial_load() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.rdb");
    save_to(&varied(), &path);
    let bytes = std::fs::read(&path).unwrap();
    let one = keyspace();
    let loaded = load_from(&one, &bytes, false).unwrap();
    let expected = loose_content(&one);
    for threads in [2, 3, 7] {
        let other = keyspace();
        assert_eq!(load_with(&other, &bytes, false, threads, true).unwrap(), loaded);
        assert!(loose_content(&other) == expected, "{threads} threads");
        let again = load_with(&other, &bytes, false, threads, true);
        assert!(matches!(again, Err(LoadError::Duplicate { .. })), "{again:?}");
    }
}

#[test]
fn parallel_load_rejects_the_same_files_as_serial_load() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.rdb");
    let small = keyspace();
    with(&small, |txn| {
        fill(txn);
        let mut hash = Hash::new();
        (0..300).for_each(|n| {
            hash.set(format!("f{n}").as_bytes(), b"v", FieldExpiry::Keep, 0, &HashLimits::default());
        });
        txn.set_object(Event::generic("t"), b"hash", Object::new(hash), Expiry::Clear);
    });
    save_to(&small, &path);
    let good = std::fs::read(&path).unwrap();
    let mut random = fastrand::Rng::with_seed(11);
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..120 {
        let mut bytes = good.clone();
        let at = random.usize(9..bytes.len());
        match round % 3 {
            0 => bytes.truncate(at),
            1 => bytes[at] = random.u8(..),
            _ => bytes[at] ^= 1 << random.u32(0..8),
        }
        let (one, other) = (keyspace(), keyspace());
        let (serial, parallel) =
            (load_with(&one, &bytes, false, 1, false), load_with(&other, &bytes, false, 3, false));
        match (serial, parallel) {
            (Ok(serial), Ok(parallel)) => {
                assert_eq!(serial, parallel, "byte {at}");
                assert!(loose_content(&one) == loose_content(&other), "byte {at}");
                accepted += 1;
            }
            (Err(_), Err(_)) => refused += 1,
            (serial, parallel) => panic!("byte {at}: {serial:?}, but {parallel:?}"),
        }
    }
    assert!(accepted > 10 && refused > 10, "{accepted} and {refused}");
    // The first fault is reported, although the end is also missing.
    let file = b"REDIS0011\xfe\x00\x02\x03set\x02\x01a\x01a\x00\x01k";
    let error = load_with(&keyspace(), file, false, 2, false).unwrap_err().to_string();
    assert!(error.contains("key 'set' of database 0") && error.contains("at byte 21"), "{error}");
}

#[test]
fn members_that_expire_are_noted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.rdb");
    let one = keyspace();
    with(&one, |txn| {
        let mut hash = Hash::new();
        hash.set(b"f", b"v", FieldExpiry::At(NOW + 5), 0, &HashLimits::default());
        txn.set_object(Event::generic("t"), b"hash", Object::new(hash), Expiry::Clear);
    });
    save_to(&one, &path);
    let other = keyspace();
    load_from(&other, &std::fs::read(&path).unwrap(), false).unwrap();
    assert_eq!((one.expiring_collections(0), other.expiring_collections(0)), (1, 1));
}

#[test]
fn fields_that_expire_make_it_a_file_of_valkey() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.rdb");
    let one = keyspace();
    let hash = |time| {
        let mut hash = Hash::new();
        hash.set(b"f", b"v", FieldExpiry::At(time), 0, &HashLimits::default());
        Object::new(hash)
    };
    with(&one, |txn| {
        txn.set_object(Event::generic("t"), b"hash", hash(NOW + 5), Expiry::Clear);
        txn.set_object(Event::generic("t"), b"all-expired", hash(NOW - 5), Expiry::Clear);
    });
    save_to(&one, &path);
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes.starts_with(b"VALKEY080"));
    let (loaded, _) = load_from(&keyspace(), &bytes, false).unwrap();
    assert_eq!((loaded.keys, loaded.empty), (1, 1));
}

#[test]
fn a_save_that_fails_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let one = keyspace();
    with(&one, fill);
    let path = folder.path().join("nosuch").join("dump.rdb");
    let world = one.gate.stop_world(None);
    let options = SaveOptions {
        path: &path,
        form: Form::default(),
        compress: false,
        checksum: true,
        sync_pieces: false,
        key_delay: 0,
        notes: &[],
        functions: &[],
        indexes: &[],
        requests: None,
    };
    let error = save(&one, &world, &options).unwrap_err().to_string();
    assert!(error.starts_with("cannot create") && error.contains("nosuch"), "{error}");
    // The final name is a folder's: the file is complete but cannot be moved there.
    let path = folder.path().join("folder");
    std::fs::create_dir_all(path.join("inside")).unwrap();
    let error = save(&one, &world, &SaveOptions { path: &path, ..options }).unwrap_err().to_string();
    assert!(error.starts_with("cannot move"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn errors_name_the_key() {
    let file = b"REDIS0011\xfe\x00\x02\x03set\x02\x01a\x01a\xff\0\0\0\0\0\0\0\0";
    let error = load_from(&keyspace(), file, false).unwrap_err().to_string();
    assert!(error.contains("key 'set' of database 0") && error.contains("at byte 21"), "{error}");
    let file = b"REDIS0011\xfe\x04";
    let error = load_from(&keyspace(), file, false).unwrap_err().to_string();
    assert!(error.contains("database 4") && error.contains("'databases' is 4"), "{error}");
    let file = b"REDIS0011\x02\x05empty\x00\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0";
    let (loaded, _) = load_from(&keyspace(), file, false).unwrap();
    assert_eq!((loaded.keys, loaded.empty), (1, 1));
}

//! Saving a keyspace and loading it into another.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::gate::World;
use braid_base::hash::KeyHasher;
use braid_containers::hash::{Expiry as FieldExpiry, Hash, HashLimits};
use braid_containers::list::{End, List, ListLimits};
use braid_keyspace::Event;
use braid_keyspace::keyspace::Shape;
use braid_keyspace::object::Object;
use braid_keyspace::{Context, Expiry, Keyspace, Txn, Value};
use braid_rdb::Limits;

use crate::{LoadError, LoadOptions, Loaded, Progress, SaveOptions, Slices, load, save};

pub(crate) const NOW: i64 = 1_800_000_000_000;

pub(crate) fn keyspace() -> Keyspace {
    Keyspace::new(Shape { shards: 16, databases: 4, threads: 1, threads_max: 1 }, KeyHasher::random())
}

pub(crate) fn with<R>(keyspace: &Keyspace, work: impl FnOnce(&mut Txn<'_>) -> R) -> R {
    let mut context = Context::new(keyspace, 0);
    let world = keyspace.gate.close(None);
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
    txn.set_object(Event::generic("t"), b"list", Object::List(Box::new(list)), Expiry::Clear);
}

fn save_to(keyspace: &Keyspace, path: &Path) -> crate::Saved {
    let world = keyspace.gate.close(None);
    let notes = [("redis-ver", "7.2.4".to_string())];
    let options = SaveOptions {
        path,
        compress: true,
        checksum: true,
        sync_pieces: true,
        key_delay: 0,
        notes: &notes,
        functions: &[b"code".to_vec()],
    };
    save(keyspace, &world, &options).unwrap()
}

pub(crate) fn load_from(
    keyspace: &Keyspace,
    bytes: &[u8],
    replace: bool,
) -> Result<(Loaded, Vec<Vec<u8>>), LoadError> {
    let progress = Progress::default();
    let options = LoadOptions {
        len: Some(bytes.len() as u64),
        limits: Limits::default(),
        relaxed: false,
        checksum: true,
        replace,
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
    assert_eq!(progress.loaded_bytes.load(Relaxed), bytes.len() as u64);
    Ok((loaded, functions))
}

/// Names, values and expiries of all databases, as text.
pub(crate) fn content(keyspace: &Keyspace) -> Vec<String> {
    content_in(keyspace, &keyspace.gate.close(None))
}

pub(crate) fn content_in(keyspace: &Keyspace, world: &World<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for db in 0..keyspace.databases() {
        keyspace.visit(world, db, |entry| {
            let payload = braid_rdb::dump(crate::to_rdb(entry), false);
            lines.push(format!("{db} {:?} {:?} {payload:?}", entry.key(), entry.expiry()));
            true
        });
    }
    lines.sort();
    lines
}

#[test]
fn what_was_saved_is_loaded() {
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
    assert_eq!(loaded, Loaded { keys: 502, expired: 1, empty: 0, bytes: bytes.len() as u64 });
    assert_eq!(functions, [b"code"]);
    with(&one, |txn| txn.delete(b"expired"));
    let mut expected = content(&one);
    expected.retain(|line| !line.contains(&format!("{:?}", b"expired")));
    assert_eq!(content(&other), expected);
    // Once more: now every key is there already.
    assert!(matches!(load_from(&other, &bytes, false), Err(LoadError::Duplicate { .. })));
    assert_eq!(load_from(&other, &bytes, true).unwrap().0.keys, 502);
    assert_eq!(content(&other), expected);
}

#[test]
fn fields_that_expire_make_it_a_file_of_valkey() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.rdb");
    let one = keyspace();
    let hash = |time| {
        let mut hash = Hash::new();
        hash.set(b"f", b"v", FieldExpiry::At(time), 0, &HashLimits::default());
        Object::Hash(Box::new(hash))
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
    let world = one.gate.close(None);
    let options = SaveOptions {
        path: &path,
        compress: false,
        checksum: true,
        sync_pieces: false,
        key_delay: 0,
        notes: &[],
        functions: &[],
    };
    let error = save(&one, &world, &options).unwrap_err().to_string();
    assert!(error.starts_with("cannot create") && error.contains("nosuch"), "{error}");
    // The final name is that of a folder: the file is complete but cannot be moved there.
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
    assert!(error.contains("database 4") && error.contains("only 4"), "{error}");
    let file = b"REDIS0011\x02\x05empty\x00\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0";
    let (loaded, _) = load_from(&keyspace(), file, false).unwrap();
    assert_eq!((loaded.keys, loaded.empty), (1, 1));
}

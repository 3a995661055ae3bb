// SPDX-License-Identifier: BSD-3-Clause
//! Keys of the keyspace as the requests that write them, and the values these requests produce.
//!
//! Some commands are journalled in forms from which no effects follow (RENAME, the STORE
//! commands, RESTORE ...). For these, the keyspace's current content is written to the shadow:
//! the keys are compared, and the elements that differ are written as one unit.

use braid_active::change::Kind;
use braid_active::replica::{Replica, Settings, State};
use braid_active::translate::{Request, Values, shown, translate};
use braid_active::vector_set::{Shape, with_given};
use braid_active::view::{Shown, View};
use braid_active::{Region, Stamp};
use braid_keyspace::Txn;
use braid_keyspace::entry::Entry;
use braid_keyspace::txn::KeyRef;
use braid_persistence::aof::push_key;
use braid_replication::link::units::{StreamRequest, Units};

/// A key's database and name.
pub(super) type KeyName = (u32, Box<[u8]>);

/// A request with its arguments.
pub(super) type Words = Vec<Vec<u8>>;

/// Runs `work` on the entry of a key, if it exists. The world is stopped.
pub(super) fn with_entry(txn: &mut Txn<'_>, db: u32, key: &[u8], work: impl FnOnce(&Txn<'_>, Entry<'_>)) {
    txn.set_db(db);
    let hash = txn.keyspace().hash(key);
    let keys = [KeyRef { key, hash, write: false }];
    txn.with_keys(&keys, |txn| txn.peek(key).map(|entry| work(txn, entry)));
}

/// The requests that write a key as it is; empty if the key does not exist. The world is stopped.
pub(super) fn requests_of(txn: &mut Txn<'_>, (db, key): &KeyName) -> Vec<Words> {
    let mut bytes = Vec::new();
    with_entry(txn, *db, key, |_, entry| {
        // Writing to memory cannot fail.
        let _ = push_key(&mut bytes, key, entry.value(), entry.expiry());
    });
    let mut units = Units::default();
    // Bytes encoded here can be parsed.
    let _ = units.parse(&bytes);
    let words =
        |request: &StreamRequest| -> Words { units.args(request, &bytes).map(<[u8]>::to_vec).collect() };
    units.requests().iter().map(words).collect()
}

/// The names of all keys. The world is stopped.
pub(super) fn all_keys(txn: &mut Txn<'_>) -> Vec<KeyName> {
    let mut names = Vec::new();
    for db in 0..txn.keyspace().databases() {
        txn.set_db(db);
        txn.for_each(|entry| names.push((db, entry.key().into())));
    }
    names
}

/// What the keyspace shows, but with the vectors that clients gave where it has them in another
/// precision.
pub(super) fn with_given_vectors(values: &dyn Values, there: Shown, here: &Shown) -> Shown {
    match (there, here) {
        (
            Some((View::Parts(Kind::VectorSet, parts), until)),
            Some((View::Parts(Kind::VectorSet, given), _)),
        ) => {
            let stored = |shape: Shape, vector: &[u8]| values.vector(shape.quantisation, vector);
            Some((View::Parts(Kind::VectorSet, with_given(parts, given, stored)), until))
        }
        (there, _) => there,
    }
}

/// The value that requests give a key, computed in a scratch replica; `None` if that is
/// impossible.
pub(super) fn shown_by(
    values: &dyn Values,
    (db, key): &KeyName,
    requests: &[Words],
    now_ms: u64,
) -> Option<Shown> {
    if requests.is_empty() {
        return Some(None);
    }
    let region = Region::new(0)?;
    let settings = Settings { region, members: 1, ahead_ms_max: u64::MAX, rules: Default::default() };
    let mut scratch = Replica::new(settings, State::default());
    scratch.raise_ceiling(Stamp::of(region, (1 << 57) - 1)?);
    let args: Vec<Vec<&[u8]>> =
        requests.iter().map(|words| words.iter().map(|word| &word[..]).collect()).collect();
    let requests: Vec<Request<'_>> = args.iter().map(|args| Request { database: *db, args }).collect();
    translate(&mut scratch, values, now_ms, &requests).ok()?;
    Some(shown(&scratch, *db, key))
}

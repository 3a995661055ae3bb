// SPDX-License-Identifier: BSD-3-Clause
//! Keys of the keyspace as the requests that write them, and what they show.
//!
//! Some commands are journalled in forms from which no effects follow (RENAME, the STORE commands,
//! RESTORE ...). For these, what the keyspace has now is written to the shadow: their keys are
//! compared, and elements that differ are written, as one unit.

use braid_active::replica::{Replica, Settings, State};
use braid_active::translate::{Request, Values, shown, translate};
use braid_active::view::Shown;
use braid_active::{Region, Stamp};
use braid_keyspace::Txn;
use braid_keyspace::txn::KeyRef;
use braid_persistence::aof::push_key;
use braid_replication::link::units::{StreamRequest, Units};

/// A key's database and name.
pub(super) type KeyName = (u32, Box<[u8]>);

/// A request with its arguments.
pub(super) type Words = Vec<Vec<u8>>;

/// The requests that write a key as it is; none if it is not there. The world is stopped.
pub(super) fn requests_of(txn: &mut Txn<'_>, (db, key): &KeyName) -> Vec<Words> {
    txn.set_db(*db);
    let hash = txn.keyspace().hash(key);
    let keys = [KeyRef { key, hash, write: false }];
    let mut bytes = Vec::new();
    txn.with_keys(&keys, |txn| {
        if let Some(entry) = txn.peek(key) {
            // Memory takes everything.
            let _ = push_key(&mut bytes, key, entry.value(), entry.expiry());
        }
    });
    let mut units = Units::default();
    // What was encoded here can be read.
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

/// What requests make of a key, by a replica of their own; nothing if that cannot be told.
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

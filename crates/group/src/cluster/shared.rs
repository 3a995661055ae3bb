// SPDX-License-Identifier: BSD-3-Clause
//! Cluster-wide records: settings, roles, users and function libraries, one record each.
//!
//! | key under `/braid/<cluster>/` | value |
//! | --- | --- |
//! | `setting/<directive>` | `{"value": "..."}` |
//! | `role/<name>`, `user/<name>` | `{"value": "<all its rules>"}` |
//! | `library/<name>` | `{"value": "<its code>"}` |
//!
//! A deleted record becomes a tombstone, `{"deleted": true}`, for nodes that were away. Each record
//! is written whole, without a comparison: the last writer wins, in etcd's revision order.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::changes::{Change, Write};
use crate::record::{Keys, Record, RecordError, Versioned, read_json};

/// The kind of a record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SharedKind {
    Setting,
    /// Before users, who refer to them.
    Role,
    User,
    Library,
}

impl SharedKind {
    pub const ALL: [SharedKind; 4] =
        [SharedKind::Setting, SharedKind::Role, SharedKind::User, SharedKind::Library];

    /// Its name in keys and messages.
    pub fn name(self) -> &'static str {
        match self {
            SharedKind::Setting => "setting",
            SharedKind::Role => "role",
            SharedKind::User => "user",
            SharedKind::Library => "library",
        }
    }

    pub fn named(name: &str) -> Option<SharedKind> {
        SharedKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A record's value; `None` if deleted.
pub type SharedValue = Option<Arc<str>>;

/// All records, by kind and name.
pub type Shared = BTreeMap<(SharedKind, Arc<str>), Versioned<SharedValue>>;

fn to_json(value: Option<&str>) -> String {
    match value {
        Some(value) => json!({ "value": value }),
        None => json!({ "deleted": true }),
    }
    .to_string()
}

fn from_json(text: &str) -> Result<SharedValue, RecordError> {
    read_json(text, "a record of the whole cluster", |value: &Value| match value["value"].as_str() {
        Some(text) => Some(Some(text.into())),
        None => value["deleted"].as_bool().filter(|&deleted| deleted).map(|_| None),
    })
}

/// The kind and name in a key from which the cluster's prefix has been stripped.
fn of_key(name: &str) -> Option<(SharedKind, &str)> {
    let (kind, name) = name.split_once('/')?;
    Some((SharedKind::named(kind)?, name)).filter(|(_, name)| !name.is_empty())
}

/// Parses the records. Unparseable records are skipped and returned as errors.
pub fn read<'a>(keys: &Keys, records: impl Iterator<Item = Record<'a>>) -> (Shared, Vec<RecordError>) {
    let (mut shared, mut strange) = (Shared::new(), Vec::new());
    for Record { key, value, revision, .. } in records {
        let Ok(key) = std::str::from_utf8(key) else { continue };
        let Some((kind, name)) = key.strip_prefix(keys.prefix()).and_then(of_key) else { continue };
        match from_json(&String::from_utf8_lossy(value)) {
            Ok(value) => drop(shared.insert((kind, name.into()), Versioned { value, revision })),
            Err(error) => strange.push(error),
        }
    }
    (shared, strange)
}

/// The change that writes these values; `None` deletes.
pub fn put(keys: &Keys, values: &[(SharedKind, String, Option<String>)]) -> Change {
    let put = |(kind, name, value): &(SharedKind, String, Option<String>)| Write::Put {
        key: keys.named(kind.name(), name),
        value: to_json(value.as_deref()),
    };
    Change { compares: Vec::new(), writes: values.iter().map(put).collect() }
}

/// The change that removes a record: nodes keep their values, which are no longer shared.
pub fn forget(keys: &Keys, kind: SharedKind, name: &str) -> Change {
    Change { compares: Vec::new(), writes: vec![Write::Delete { key: keys.named(kind.name(), name) }] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record<'a>(key: &'a str, value: &'a str, revision: u64) -> Record<'a> {
        Record { key: key.as_bytes(), value: value.as_bytes(), revision, lease: 0 }
    }

    #[test]
    fn what_is_written_is_read() {
        let keys = Keys::of_shard("c", "-");
        let values = [
            (SharedKind::Setting, "maxmemory".to_owned(), Some("1gb".to_owned())),
            (SharedKind::User, "a/b \"ü".to_owned(), Some("on >x ~*".to_owned())),
            (SharedKind::Library, "old".to_owned(), None),
        ];
        let writes = put(&keys, &values).writes;
        let pairs: Vec<(String, String)> = writes
            .into_iter()
            .map(|write| match write {
                Write::Put { key, value } => (key, value),
                Write::Delete { key } => panic!("{key}"),
            })
            .collect();
        let records = pairs.iter().zip(7..).map(|((key, value), revision)| record(key, value, revision));
        let (shared, strange) = read(&keys, records);
        assert!(strange.is_empty(), "{strange:?}");
        assert_eq!(shared.len(), 3);
        for ((kind, name, value), revision) in values.iter().zip(7..) {
            let found = &shared[&(*kind, Arc::from(name.as_str()))];
            assert_eq!((found.value.as_deref(), found.revision), (value.as_deref(), revision));
        }
    }

    #[test]
    fn unrelated_and_malformed_records_are_skipped() {
        let keys = Keys::of_shard("c", "-");
        let records = [
            record("/braid/c/epoch", "4", 1),
            record("/braid/c/known/n0", "{}", 1),
            record("/braid/other/setting/hz", "{\"value\": \"1\"}", 1),
            record("/braid/c/setting/", "{\"value\": \"1\"}", 1),
            record("/braid/c/setting/hz", "{\"value\": 1}", 1),
            record("/braid/c/user/x", "on", 1),
            record("/braid/c/user/y", "{\"deleted\": false}", 1),
        ];
        let (shared, strange) = read(&keys, records.into_iter());
        assert!(shared.is_empty(), "{shared:?}");
        assert_eq!(strange.len(), 3);
    }
}

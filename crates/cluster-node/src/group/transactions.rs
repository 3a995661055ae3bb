// SPDX-License-Identifier: BSD-3-Clause
//! Reads and transactions of the records in etcd.

use braid_etcd::{Client, Compare, Error, Operation};
use braid_group::Snapshot;
use braid_group::cluster::{Change, Map, Write};
use braid_group::record::{Expected, Keys};

use crate::group::Group;
use crate::group::mirror::Mirror;

/// Reads the records now, for a change that is computed from them.
pub(crate) fn read(
    group: &Group,
    own: &Keys,
    client: &Client,
) -> Result<(Snapshot, Option<Map>, String), String> {
    Mirror::read(own, client)?.parts(group, own)
}

/// Commits a change of the cluster. Returns the revision, or `None` if the records are not as
/// expected.
pub(crate) fn commit(client: &Client, change: &Change) -> Result<Option<u64>, Error> {
    let compares = change.compares.iter().filter_map(|(key, expected)| compare(key.clone(), *expected));
    let operation = |write: &Write| match write {
        Write::Put { key, value } => {
            Operation::Put { key: key.as_str().into(), value: value.as_str().into(), lease: None }
        }
        Write::Delete { key } => Operation::Delete { key: key.as_str().into() },
    };
    let sent = braid_etcd::Transaction {
        compares: compares.collect(),
        then: change.writes.iter().map(operation).collect(),
        otherwise: Vec::new(),
    };
    let outcome = client.transaction(&sent)?;
    Ok(outcome.succeeded.then(|| outcome.revision.unsigned_abs()))
}

/// The expected state of a record, as an etcd comparison.
pub(super) fn compare(key: String, expected: Expected) -> Option<Compare> {
    match expected {
        Expected::Absent => Some(Compare::Version { key: key.into(), equals: 0 }),
        Expected::Revision(revision) => Some(Compare::ModRevision {
            key: key.into(),
            equals: i64::try_from(revision).unwrap_or(i64::MAX),
        }),
        Expected::Anything => None,
    }
}

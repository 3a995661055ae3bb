// SPDX-License-Identifier: BSD-3-Clause
//! From what peers did to requests for the keyspace: brings a keyspace that shows what the shadow
//! showed to what it shows now.
//!
//! Call these with the world stopped and the whole journal [translated](crate::translate), several in
//! a row if there are several units, then [`Difference::finish`], and run its requests as a replica
//! runs its primary's: with nothing expired by time. They go to the append-only file and ordinary
//! replicas, and must not be translated back.
//!
//! A change of one element is one request; finding it looks at all that the key shows, before and
//! after.

use std::collections::BTreeMap;

use crate::Name;
use crate::changes_between::{Requests, Shown};
use crate::effect::{Effect, Unit};
use crate::replica::{Applied, Refusal, Replica, State};
use crate::translate::shown;

/// A plain request for the keyspace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedRequest {
    pub database: u32,
    pub args: Vec<Vec<u8>>,
}

/// Keys that were touched, with what they showed before.
#[derive(Debug, Default)]
pub struct Difference {
    before: BTreeMap<(u32, Name), Shown>,
}

impl Difference {
    pub fn is_empty(&self) -> bool {
        self.before.is_empty()
    }

    fn note(&mut self, replica: &Replica, now_ms: u64, database: u32, name: &Name) {
        let id = (database, name.clone());
        self.before.entry(id).or_insert_with(|| shown(replica, database, name, now_ms));
    }

    fn note_all(&mut self, replica: &Replica, now_ms: u64, only: Option<u32>) {
        for ((database, name), _) in replica.state.keys.iter() {
            if only.is_none_or(|only| only == *database) {
                self.note(replica, now_ms, *database, name);
            }
        }
    }

    /// The requests, in order.
    pub fn finish(self, replica: &mut Replica, now_ms: u64) -> Vec<OwnedRequest> {
        let mut all = Vec::new();
        for ((database, name), before) in self.before {
            let after = shown(replica, database, &name, now_ms);
            let mut requests = Requests { database, all: Vec::new() };
            requests.bring(&name, &before, &after);
            all.extend(requests.all.into_iter().map(|args| OwnedRequest { database, args }));
        }
        all
    }
}

/// [`Replica::apply`].
pub fn apply_with_difference(
    replica: &mut Replica,
    now_ms: u64,
    unit: &Unit,
    difference: &mut Difference,
) -> Result<Applied, Refusal> {
    for effect in &unit.effects {
        match effect {
            Effect::Key { database, name, .. } => difference.note(replica, now_ms, *database, name),
            Effect::Flush { database, .. } => difference.note_all(replica, now_ms, *database),
        }
    }
    replica.apply(now_ms, unit)
}

/// [`Replica::merge`].
pub fn merge_with_difference(
    replica: &mut Replica,
    now_ms: u64,
    theirs: &State,
    difference: &mut Difference,
) -> Result<(), Refusal> {
    difference.note_all(replica, now_ms, None);
    for ((database, name), _) in theirs.keys.iter() {
        difference.note(replica, now_ms, *database, name);
    }
    replica.merge(now_ms, theirs)
}

/// The requests that write all keys of the shadow into an empty keyspace.
pub fn whole(replica: &Replica) -> impl Iterator<Item = OwnedRequest> {
    replica.views().flat_map(|(database, name, view, until)| {
        let mut requests = Requests { database, all: Vec::new() };
        requests.bring(name, &None, &Some((view, until)));
        requests.all.into_iter().map(move |args| OwnedRequest { database, args })
    })
}

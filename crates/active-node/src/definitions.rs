// SPDX-License-Identifier: BSD-3-Clause
//! Definitions of search: the shadow's and this server's. A definition is a name, and the requests
//! that make it.

use std::collections::BTreeMap;

use braid_active::{Bytes, Name, Replica};
use braid_executor::engine::Engine;
use braid_replication::link::units::Units;
use braid_resp::request;

use crate::keys::Words;

/// This server's definitions, in the shadow's form.
fn present(engine: &Engine) -> BTreeMap<Name, Bytes> {
    let all = engine.keyspace.documents().map(|documents| documents.definitions()).unwrap_or_default();
    let of = |requests: Vec<Words>| {
        let mut bytes = Vec::new();
        for words in requests {
            request::push(&mut bytes, &words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        Bytes::from(bytes)
    };
    all.into_iter().map(|(name, requests)| (Name::from(name), of(requests))).collect()
}

/// The definitions that clients of this server have made or removed: a removed one has no value.
pub(super) fn changed(engine: &Engine, replica: &Replica) -> Vec<(Name, Option<Bytes>)> {
    let (present, known) = (present(engine), replica.definitions());
    let gone = known.keys().filter(|name| !present.contains_key(*name)).map(|name| (name.clone(), None));
    let new = present.iter().filter(|(name, requests)| known.get(*name) != Some(requests));
    let gone: Vec<_> = gone.collect();
    new.map(|(name, requests)| (name.clone(), Some(requests.clone()))).chain(gone).collect()
}

/// The requests that remove this server's definitions that the shadow has not, or has in another
/// form. Those that depend on one come before it.
pub(super) fn removals(engine: &Engine, replica: &Replica) -> Vec<Words> {
    let (present, wanted) = (present(engine), replica.definitions());
    let Some(documents) = engine.keyspace.documents() else { return Vec::new() };
    let gone = present.iter().rev().filter(|(name, requests)| wanted.get(*name) != Some(requests));
    gone.flat_map(|(name, _)| documents.removal(name)).collect()
}

/// The requests that make the definitions that this server lacks.
pub(super) fn missing(engine: &Engine, replica: &Replica) -> Vec<Words> {
    let (present, wanted) = (present(engine), replica.definitions());
    let new = wanted.into_iter().filter(|(name, _)| !present.contains_key(name));
    new.flat_map(|(_, bytes)| parsed(&bytes)).collect()
}

fn parsed(bytes: &[u8]) -> Vec<Words> {
    let mut units = Units::default();
    if units.parse(bytes).is_err() {
        log::warn!("Active-active: a definition of search cannot be read");
        return Vec::new();
    }
    let requests = units.requests().iter();
    requests.map(|request| units.args(request, bytes).map(<[u8]>::to_vec).collect()).collect()
}

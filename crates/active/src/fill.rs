// SPDX-License-Identifier: BSD-3-Clause
//! Requests that write keys of the keyspace as the shadow has them: all keys into an empty keyspace
//! when a server starts, or some keys anew, whatever the keyspace has.

use smallvec::SmallVec;

use crate::Name;
use crate::difference::OwnedRequest;
use crate::keys::TOGETHER;
use crate::replica::Replica;
use crate::requests::Requests;
use crate::translate::shown;

/// Runs the requests that write all keys of the shadow into an empty keyspace. Nearly all keys are
/// plain strings: `prefetch` gets some of them at a time, before their requests.
pub fn run_whole(
    replica: &Replica,
    prefetch: impl Fn(u32, &mut dyn Iterator<Item = &[u8]>),
    run: &mut dyn FnMut(u32, &[&[u8]]),
) {
    for (database, strings) in replica.plain_strings() {
        let mut strings = strings.peekable();
        while strings.peek().is_some() {
            let some: SmallVec<[_; TOGETHER]> = strings.by_ref().take(TOGETHER).collect();
            prefetch(database, &mut some.iter().map(|(name, _)| *name));
            for (name, plain) in some {
                run(database, &[b"SET", name, plain.value]);
                if let Some(time) = plain.time {
                    run(database, &[b"PEXPIREAT", name, time.to_string().as_bytes()]);
                }
            }
        }
    }
    for (database, name, view, until) in replica.other_views() {
        let mut requests = Requests::new(database);
        requests.write(name, &view, until);
        for args in requests.all {
            run(database, &args.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
    }
}

/// The requests that rewrite some keys as the shadow has them, whatever the keyspace has.
pub fn anew(replica: &Replica, keys: &[(u32, Name)]) -> impl Iterator<Item = OwnedRequest> {
    keys.iter().flat_map(|(database, name)| {
        let mut requests = Requests::new(*database);
        match shown(replica, *database, name) {
            Some((view, until)) => requests.rewrite(name, &view, until),
            None => requests.delete(name),
        }
        requests.all.into_iter().map(|args| OwnedRequest { database: *database, args })
    })
}

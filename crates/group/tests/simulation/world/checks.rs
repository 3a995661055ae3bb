// SPDX-License-Identifier: BSD-3-Clause
//! The invariants, checked after each tick.

use super::{SERVERS, STALLS, World};
use crate::server::Server;

impl World {
    /// Checks that enough other servers have had a number that is revealed. What a primary has
    /// found at its promotion counts as it did at its predecessor.
    pub(super) fn check_minimum(&self, index: usize, number: u64) -> Option<String> {
        let server = &self.servers[index];
        let places = &self.places[number as usize];
        if places.writer.as_ref().is_none_or(|(id, term)| id != server.id() || *term != server.terms) {
            return None;
        }
        let at_disk = server.waits_for_disk(&self.faults.path);
        let have = if at_disk { places.on_disk } else { places.in_memory };
        let others = (0..SERVERS).filter(|&other| other != index && have[other]).count();
        (others < self.minimum)
            .then(|| format!("{} reveals {number}, which {others} of {} have had", server.id(), self.minimum))
    }

    /// Checks that a sick replica does not keep the replies of a healthy group waiting for long,
    /// nor again and again.
    pub(super) fn check_progress(&mut self) -> Option<String> {
        let (sick, _) = self.sick?;
        let id = self.servers[sick].id().clone();
        let path = self.faults.path;
        let tick = self.tick;
        let primary = self.servers.iter_mut().find(|one| one.leads().is_some() && one.paused_until <= tick);
        let waits = primary.is_some_and(|server| {
            let len = server.held.front().map(|held| held.len);
            let (required, confirmed) = (server.orders.required.clone(), server.confirmed);
            server.orders.required.retain(|member| *member != id);
            let is_ready = len.is_some_and(|len| server.is_acknowledged(len, &path));
            (server.orders.required, server.confirmed) = (required, confirmed);
            is_ready && len.is_some_and(|len| !server.is_acknowledged(len, &path))
        });
        self.stalled += u64::from(waits);
        let what = format!("replies have waited for {id} alone for {STALLS} ticks");
        (self.stalled > STALLS).then_some(what)
    }

    /// Checks the invariants.
    pub(super) fn check(&mut self) -> Option<String> {
        let serving: Vec<&Server> = self
            .servers
            .iter()
            .filter(|server| server.paused_until <= self.tick)
            .filter(|server| {
                server.leads().is_some() && server.clock.at(self.tick) < server.orders.serve_until
            })
            .collect();
        if let [one, other, ..] = &*serving {
            return Some(format!("{} and {} both serve", one.id(), other.id()));
        }
        let shard = &self.etcd.records().shard.as_ref()?.value;
        // For a member that is down, its files count. A member in a full sync is not promoted in
        // the meantime, so it is not checked.
        let is_whole = |server: &&Server| server.loads_until <= self.tick && !server.awaits_data();
        for server in
            self.servers.iter().filter(|server| shard.in_sync.contains(server.id())).filter(is_whole)
        {
            let lost = self.acknowledged.iter().find(|number| server.log.binary_search(number).is_err());
            if let Some(lost) = lost {
                return Some(format!("{} is in sync and lacks {lost}", server.id()));
            }
        }
        None
    }
}

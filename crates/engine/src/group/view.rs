// SPDX-License-Identifier: BSD-3-Clause
//! What others see of the group: INFO, discovery, the page.

use std::collections::BTreeSet;
use std::sync::Arc;

use braid_group::{MemberId, Snapshot};

use super::settings::Settings;

/// The group as this server knows it.
#[derive(Clone, Debug)]
pub struct View {
    pub group: String,
    pub id: MemberId,
    /// Records of etcd, as last seen.
    pub records: Arc<Snapshot>,
    pub epoch: u64,
    /// This server is the primary.
    pub is_primary: bool,
    /// It refuses its primary, and wants to take its place.
    pub is_candidate: bool,
    pub primary: Option<MemberId>,
    pub in_sync: BTreeSet<MemberId>,
    /// Until when it may serve, nanoseconds of CLOCK_BOOTTIME; `u64::MAX`: for ever.
    pub serve_until: u64,
    /// Until when its lease is alive; 0: it has none.
    pub lease_until: u64,
    /// Why etcd cannot be used at present; empty if it can.
    pub etcd_error: String,
    /// Changes of the primary that this server has seen.
    pub changes: u64,
}

impl View {
    pub(super) fn new(settings: &Settings, id: &MemberId) -> View {
        View {
            group: settings.name.clone(),
            id: id.clone(),
            records: Arc::default(),
            epoch: 0,
            is_primary: false,
            is_candidate: false,
            primary: None,
            in_sync: BTreeSet::new(),
            serve_until: 0,
            lease_until: 0,
            etcd_error: String::new(),
            changes: 0,
        }
    }
}

impl View {
    /// As INFO names it.
    pub fn role_name(&self) -> &'static str {
        match (self.is_primary, self.is_candidate) {
            (true, _) => "primary",
            (false, true) => "candidate",
            (false, false) => "replica",
        }
    }

    /// Milliseconds that this server may serve as the primary from now on; -1: without an end.
    pub fn serve_ms(&self, now: u64) -> i64 {
        match self.serve_until {
            u64::MAX => -1,
            until => milliseconds(until.saturating_sub(now)),
        }
    }

    /// Milliseconds that its lease is surely alive.
    pub fn lease_ms(&self, now: u64) -> i64 {
        milliseconds(self.lease_until.saturating_sub(now))
    }
}

fn milliseconds(nanos: u64) -> i64 {
    i64::try_from(nanos / 1_000_000).unwrap_or(i64::MAX)
}

/// The nodes of members, with commas between.
pub fn names(members: &BTreeSet<MemberId>) -> String {
    members.iter().map(|member| &*member.node).collect::<Vec<_>>().join(",")
}

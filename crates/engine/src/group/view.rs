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

/// The nodes of members, with commas between.
pub fn names(members: &BTreeSet<MemberId>) -> String {
    members.iter().map(|member| &*member.node).collect::<Vec<_>>().join(",")
}

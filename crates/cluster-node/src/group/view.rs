// SPDX-License-Identifier: BSD-3-Clause
//! The group as seen from outside: INFO, discovery, the page.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use braid_group::{HeldOut, MemberId, Node, Snapshot, Why};

use super::settings::Settings;

/// The address at which clients reach a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    pub host: Box<str>,
    /// The plain port, or the TLS port if there is none.
    pub port: u16,
    /// The TLS port; 0 if there is none.
    pub tls_port: u16,
}

impl Address {
    pub fn of(node: &Node) -> Address {
        let Node { host, port, tls_port, .. } = node;
        Address { host: host.clone(), port: if *port == 0 { *tls_port } else { *port }, tls_port: *tls_port }
    }

    /// The address to name to a client, with the TLS port if it uses TLS.
    pub fn for_client(mut self, over_tls: bool) -> Address {
        if over_tls && self.tls_port != 0 {
            self.port = self.tls_port;
        }
        self
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(formatter, "[{}]:{}", self.host, self.port),
            false => write!(formatter, "{}:{}", self.host, self.port),
        }
    }
}

/// A member's role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberRole {
    Primary,
    Replica,
    /// It offers to take over from a primary whose lease has ended.
    Candidate,
}

impl MemberRole {
    pub fn name(self) -> &'static str {
        match self {
            MemberRole::Primary => "primary",
            MemberRole::Replica => "replica",
            MemberRole::Candidate => "candidate",
        }
    }
}

/// The group as this server knows it.
#[derive(Clone, Debug)]
pub struct View {
    pub group: String,
    pub id: MemberId,
    /// Run IDs that this process had before.
    pub runs: Vec<Arc<str>>,
    /// It has been decided which member this process is.
    pub has_id: bool,
    /// etcd's records as last seen.
    pub records: Arc<Snapshot>,
    pub epoch: u64,
    /// This server is the primary.
    pub is_primary: bool,
    /// This server refuses its primary and offers to take over.
    pub is_candidate: bool,
    /// Why no server may lead by itself; empty if one may, or leads.
    pub leaderless: String,
    pub primary: Option<MemberId>,
    /// The primary's address, or its predecessor's while the primary's is unknown.
    pub primary_address: Option<Address>,
    pub in_sync: BTreeSet<MemberId>,
    /// Replicas that this primary does not take into the set for now.
    pub held_out: Vec<HeldOut>,
    /// Until when this server may serve, nanoseconds of CLOCK_BOOTTIME; `u64::MAX`: indefinitely.
    pub serve_until: u64,
    /// Until when the lease is alive, nanoseconds of CLOCK_BOOTTIME; 0 without a lease.
    pub lease_until: u64,
    /// This server is about to stop being the primary: a handover has been ordered.
    pub is_handing_over: bool,
    /// This primary has given up its lease, so that a member which it does not hear may lead.
    pub is_resigned: bool,
    /// Why etcd cannot be used at present; empty if it can.
    pub etcd_error: String,
    /// When etcd last answered, nanoseconds of CLOCK_BOOTTIME; 0: never.
    pub etcd_answered: u64,
    /// Number of changes of the primary seen by this server.
    pub changes: u64,
}

impl View {
    pub(super) fn new(settings: &Settings, id: &MemberId) -> View {
        View {
            group: settings.name.clone(),
            id: id.clone(),
            runs: Vec::new(),
            // A cluster node has its id before it is in a shard.
            has_id: settings.is_cluster,
            records: Arc::default(),
            epoch: 0,
            is_primary: false,
            is_candidate: false,
            leaderless: String::new(),
            primary: None,
            primary_address: None,
            in_sync: BTreeSet::new(),
            held_out: Vec::new(),
            serve_until: 0,
            lease_until: 0,
            is_handing_over: false,
            is_resigned: false,
            etcd_error: String::new(),
            etcd_answered: 0,
            changes: 0,
        }
    }
}

impl View {
    /// True if the primary's lease has no holder.
    pub fn is_primary_down(&self) -> bool {
        self.records.holder.is_none()
    }

    /// Updates the primary's address. Returns the previous one if it differed.
    pub(super) fn note_address(&mut self) -> Option<Address> {
        let primary = self.primary.as_ref()?;
        let node = self.records.nodes.get(&primary.node).filter(|node| node.run == primary.run)?;
        let address = Address::of(node);
        let before = self.primary_address.replace(address.clone());
        before.filter(|before| *before != address)
    }

    /// This server's role.
    pub fn role(&self) -> MemberRole {
        match (self.is_primary, self.is_candidate) {
            (true, _) => MemberRole::Primary,
            (false, true) => MemberRole::Candidate,
            (false, false) => MemberRole::Replica,
        }
    }

    /// For how long this server may serve as the primary, in ms; -1: indefinitely.
    pub fn serve_ms(&self, now: u64) -> i64 {
        match self.serve_until {
            u64::MAX => -1,
            until => milliseconds(until.saturating_sub(now)),
        }
    }

    /// For how long the lease is certainly alive, in ms.
    pub fn lease_ms(&self, now: u64) -> i64 {
        milliseconds(self.lease_until.saturating_sub(now))
    }
}

/// True if a record names the place of this server. A cluster node may not know its own address.
pub(super) fn is_same_place(known: &Node, own: &Node) -> bool {
    (own.host.is_empty() || known.host == own.host)
        && (known.port, known.tls_port) == (own.port, own.tls_port)
}

pub(super) fn milliseconds(nanos: u64) -> i64 {
    i64::try_from(nanos / 1_000_000).unwrap_or(i64::MAX)
}

/// Why a replica is not taken into the in-sync set, in words.
pub fn why_held_out(why: Why) -> &'static str {
    match why {
        Why::Removed => "it was removed a short time ago",
        Why::Unacknowledged => "it did not acknowledge in time when it was to join",
        Why::Disk => "its append-only file does not get to the disk in time (appendfsync, disk errors)",
    }
}

/// The members' node names, separated by commas.
pub fn names(members: &BTreeSet<MemberId>) -> String {
    members.iter().map(|member| &*member.node).collect::<Vec<_>>().join(",")
}

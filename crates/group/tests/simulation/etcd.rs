// SPDX-License-Identifier: BSD-3-Clause
//! A miniature etcd: one set of records with revisions, and leases on a clock of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use braid_group::record::{Expected, HolderChange, Versioned};
use braid_group::{MemberId, Node, Offer, Snapshot, Transaction};

/// A server's request.
#[derive(Clone, Debug)]
pub enum Request {
    Read,
    /// With the lease time.
    Grant(u64),
    KeepAlive(i64),
    Transact(Transaction),
    PutNode(MemberId, i64),
    PutOffer(MemberId, Offer, i64),
}

/// etcd's reply.
#[derive(Clone, Debug)]
pub enum Reply {
    Records(Arc<Snapshot>),
    Lease(i64),
    NoLease,
    /// The revision; `None` if a comparison failed.
    Transacted(Option<u64>),
    Done,
}

#[derive(Default)]
pub struct Etcd {
    records: Arc<Snapshot>,
    /// Each lease's expiry and lease time.
    leases: BTreeMap<i64, (u64, u64)>,
    /// Leases of the node and offer keys.
    node_leases: BTreeMap<Arc<str>, i64>,
    offer_leases: BTreeMap<Arc<str>, i64>,
    next_lease: i64,
}

impl Etcd {
    pub fn new() -> Etcd {
        Etcd { next_lease: 1, ..Etcd::default() }
    }

    pub fn records(&self) -> &Snapshot {
        &self.records
    }

    fn change(&mut self, change: impl FnOnce(&mut Snapshot)) -> u64 {
        let mut records = (*self.records).clone();
        records.revision += 1;
        change(&mut records);
        let revision = records.revision;
        self.records = Arc::new(records);
        revision
    }

    /// Expires leases.
    pub fn pass(&mut self, now: u64) {
        while let Some(id) = self.leases.iter().find(|&(_, &(end, _))| end <= now).map(|(&id, _)| id) {
            self.leases.remove(&id);
            let gone = |leases: &BTreeMap<Arc<str>, i64>| -> Vec<Arc<str>> {
                leases.iter().filter(|&(_, &lease)| lease == id).map(|(name, _)| name.clone()).collect()
            };
            let (nodes, offers) = (gone(&self.node_leases), gone(&self.offer_leases));
            self.change(|records| {
                if records.holder.as_ref().is_some_and(|holder| holder.lease == id) {
                    records.holder = None;
                }
                nodes.iter().for_each(|name| drop(records.nodes.remove(name)));
                offers.iter().for_each(|name| drop(records.offers.remove(name)));
            });
        }
    }

    /// Renews all leases, as etcd does after an outage.
    pub fn recover(&mut self, now: u64) {
        self.leases.values_mut().for_each(|(end, time)| *end = now + *time);
    }

    pub fn execute(&mut self, request: &Request, now: u64) -> Reply {
        match request {
            Request::Read => Reply::Records(Arc::clone(&self.records)),
            Request::Grant(time) => {
                self.next_lease += 1;
                self.leases.insert(self.next_lease, (now + time, *time));
                Reply::Lease(self.next_lease)
            }
            Request::KeepAlive(id) => match self.leases.get_mut(id) {
                Some((end, time)) => {
                    *end = now + *time;
                    Reply::Lease(*id)
                }
                None => Reply::NoLease,
            },
            Request::Transact(transaction) => Reply::Transacted(self.transact(transaction)),
            Request::PutNode(id, lease) => {
                if self.leases.contains_key(lease) {
                    let node = Node { run: id.run.clone(), priority: 100, ..Node::default() };
                    self.node_leases.insert(id.node.clone(), *lease);
                    self.change(|records| drop(records.nodes.insert(id.node.clone(), node)));
                }
                Reply::Done
            }
            Request::PutOffer(id, offer, lease) => {
                if self.leases.contains_key(lease) {
                    self.offer_leases.insert(id.node.clone(), *lease);
                    self.change(|records| drop(records.offers.insert(id.node.clone(), offer.clone())));
                }
                Reply::Done
            }
        }
    }

    fn transact(&mut self, transaction: &Transaction) -> Option<u64> {
        let seen = self.records.shard.as_ref().map(|shard| shard.revision);
        let is_expected = match transaction.expected {
            Expected::Absent => seen.is_none(),
            Expected::Revision(revision) => seen == Some(revision),
            Expected::Anything => true,
        };
        let is_free = !transaction.needs_no_holder || self.records.holder.is_none();
        let is_bound = match &transaction.holder {
            HolderChange::Take(holder) => self.leases.contains_key(&holder.lease),
            _ => true,
        };
        (is_expected && is_free && is_bound).then(|| {
            self.change(|records| {
                if let Some(value) = transaction.shard.clone() {
                    records.shard = Some(Versioned { value, revision: records.revision });
                }
                match &transaction.holder {
                    HolderChange::Keep => {}
                    HolderChange::Take(holder) => records.holder = Some(holder.clone()),
                    HolderChange::Release => records.holder = None,
                }
            })
        })
    }
}

// SPDX-License-Identifier: BSD-3-Clause
//! Carries out what the state machine orders: the role, the members that replies wait for, until
//! when this server may serve; and looks at the server for it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::{boot_nanos, unix_ms};
use braid_base::gate::World;
use braid_config::SyncLevel;
use braid_group::{Duty, Follower, Local, Member, MemberId, Orders};
use braid_replication::link::{Phase, Primary};

use super::{Group, former, view};
use crate::engine::Engine;

/// What is being done.
pub(super) struct Duties<'e> {
    engine: &'e Engine,
    group: &'e Group,
    duty: Duty,
    /// Where the primary that is followed is.
    primary: Option<Primary>,
    former: Option<Arc<str>>,
    next_probe: u64,
    /// etcd could not be used, since then.
    trouble: Option<String>,
    in_sync: String,
}

impl<'e> Duties<'e> {
    pub fn new(engine: &'e Engine, group: &'e Group) -> Duties<'e> {
        Duties {
            engine,
            group,
            duty: Duty::Wait,
            primary: None,
            former: former::take(&group.id),
            next_probe: 0,
            trouble: None,
            in_sync: String::new(),
        }
    }

    /// Notes why etcd cannot be used; empty: it can. One line in the log for each change.
    pub fn note_trouble(&mut self, error: String) {
        if error.is_empty() {
            if self.trouble.take().is_some() {
                log::info!("etcd can be used again");
            }
        } else if self.trouble.is_none() {
            log::warn!("{error}; the group goes on as it is");
            self.trouble = Some(error.clone());
        }
        self.group.view.lock().etcd_error = error;
    }

    /// What the server knows itself.
    pub fn local(&self, member: &Member) -> Local {
        let (engine, group) = (self.engine, self.group);
        let journal = &engine.keyspace.journal;
        let link = &engine.replication.link;
        let (end, history, offset) = {
            let state = engine.replication.state.lock();
            let end = journal.end();
            (end, state.history.id().into(), state.history.offset(end))
        };
        let acknowledging = group.acknowledging.lock();
        let heard_ms = unix_ms() - link.last_io_ms();
        let epoch = member.shard().map_or(0, |shard| shard.epoch);
        Local {
            end,
            history,
            offset,
            has_data: (0..engine.keyspace.databases()).any(|db| engine.keyspace.len(db).0 > 0),
            is_whole: group.is_whole.load(Relaxed) && link.phase() != Phase::Sync,
            former: self.former.clone(),
            acknowledged: acknowledging.last,
            refuses: acknowledging.is_refused,
            hears_primary: link.is_up() && heard_ms < (group.settings.lease_ms / 2) as i64,
            priority: engine.config.replica_priority(),
            followers: self.followers(epoch),
            slow: engine.slow_members(boot_nanos()).iter().map(own_id).collect(),
        }
    }

    fn followers(&self, epoch: u64) -> Vec<Follower> {
        let engine = self.engine;
        let is_on_disk = engine.config.sync_level() == SyncLevel::Disk;
        let follower = |replica: Arc<braid_replication::Replica>| {
            let (id, _) = replica.options.member.as_ref().filter(|(_, under)| *under == epoch)?;
            // Nothing counts before it has loaded its full sync and said so.
            let has_said = replica.has_acknowledged.load(Relaxed);
            let of = if is_on_disk { &replica.on_disk } else { &replica.acknowledged };
            Some(Follower {
                id: own_id(id),
                probed: engine.acknowledged_probe(id).filter(|_| has_said)?,
                acknowledged: of.load(Relaxed),
            })
        };
        engine.replication.replicas().into_iter().filter_map(follower).collect()
    }

    /// Does what is ordered.
    pub fn carry_out(&mut self, orders: &Orders, member: &Member) {
        match &orders.duty {
            Duty::Lead { epoch } => self.lead(*epoch, orders, member),
            Duty::Follow { primary, epoch } => self.follow(primary, *epoch, member),
            Duty::Refuse => {
                // Before anything else: from now on nothing is acknowledged.
                self.group.set_refused(true);
                if self.duty != Duty::Refuse {
                    log::info!("The primary's lease is gone: this server offers to take its place");
                    self.go_idle();
                }
            }
            Duty::Wait => {
                if self.duty != Duty::Wait {
                    self.go_idle();
                }
            }
        }
        self.duty = orders.duty.clone();
        self.show(orders, member);
    }

    fn lead(&mut self, epoch: u64, orders: &Orders, member: &Member) {
        let engine = self.engine;
        let in_sync = &engine.replication.in_sync;
        if self.duty != (Duty::Lead { epoch }) {
            let world = engine.keyspace.gate.close(None);
            // Nothing before the members are known that replies wait for.
            in_sync.set_serve_until(0);
            if engine.replication.link.is_replica() {
                engine.become_primary(&world);
            } else {
                // They come again, under the new epoch.
                engine.lead_anew(&world);
            }
            in_sync.set(epoch, orders.required.iter().filter_map(their_id).collect(), orders.size);
            drop(world);
            self.primary = None;
            let set = member.shard().map_or_else(String::new, |shard| view::names(&shard.in_sync));
            log::warn!("This server is the primary of the group now: epoch {epoch}, in sync: {set}");
        }
        in_sync.set(epoch, orders.required.iter().filter_map(their_id).collect(), orders.size);
        in_sync.set_serve_until(orders.serve_until);
        let now = boot_nanos();
        if now >= self.next_probe {
            self.next_probe = now + self.group.timing.lease / 8;
            engine.send_probe();
        }
    }

    fn follow(&mut self, primary: &MemberId, epoch: u64, member: &Member) {
        let engine = self.engine;
        let use_tls = engine.config.tls_replication();
        let known = member.snapshot().and_then(|records| records.nodes.get(&primary.node));
        let place = known.filter(|node| node.run == primary.run).map(|node| Primary {
            host: node.host.to_string(),
            port: if use_tls && node.tls_port != 0 { node.tls_port } else { node.port },
        });
        let is_same = matches!(&self.duty, Duty::Follow { primary: old, epoch: under } if old == primary && *under == epoch);
        // As long as its record is gone it may be where it was.
        if is_same && (place.is_none() || place == self.primary) {
            return;
        }
        match &place {
            Some(place) => {
                log::warn!("The primary of the group is {} ({place}): epoch {epoch}", primary.node);
                if !is_same {
                    engine.keep_divergence(member.shard());
                }
                let world = engine.keyspace.gate.close(None);
                self.group.link_epoch.store(epoch, Relaxed);
                engine.replication.in_sync.clear();
                engine.replication.in_sync.set_serve_until(u64::MAX);
                engine.become_replica(&world, place.clone());
                drop(world);
                self.group.set_refused(false);
            }
            None => self.go_idle(),
        }
        self.primary = place;
    }

    /// A replica without a primary.
    fn go_idle(&mut self) {
        let world = self.engine.keyspace.gate.close(None);
        self.engine.replication.in_sync.clear();
        self.engine.replication.in_sync.set_serve_until(u64::MAX);
        self.engine.follow_nobody(&world);
        self.primary = None;
    }

    /// Begins a handover that was asked for (FAILOVER).
    pub fn hand_over(&mut self, member: &mut Member) {
        let Some(handover) = self.group.handover.lock().take() else { return };
        if let Err(why) = member.hand_over(handover.to) {
            log::warn!("FAILOVER within the group: {why}");
        }
    }

    fn show(&mut self, orders: &Orders, member: &Member) {
        let mut view = self.group.view.lock();
        let Some(shard) = member.shard() else { return };
        if view.primary.as_ref() != Some(&shard.primary) {
            view.changes += u64::from(view.primary.is_some());
            view.primary = Some(shard.primary.clone());
        }
        view.epoch = shard.epoch;
        view.is_primary = matches!(orders.duty, Duty::Lead { .. });
        view.is_candidate = orders.duty == Duty::Refuse;
        view.serve_until = orders.serve_until;
        if view.in_sync != shard.in_sync {
            view.in_sync = shard.in_sync.clone();
            self.in_sync = view::names(&shard.in_sync);
            log::info!("In sync: {}", self.in_sync);
        }
    }
}

impl Engine {
    /// The primary goes on under another epoch. The world is stopped.
    fn lead_anew(&self, _world: &World<'_>) {
        self.disconnect_replicas();
    }

    /// A replica that knows of no primary. The world is stopped.
    pub(crate) fn follow_nobody(&self, world: &World<'_>) {
        self.become_replica(world, Primary::nowhere());
    }
}

fn own_id(id: &braid_replication::MemberId) -> MemberId {
    MemberId::new(&id.node, &id.run)
}

fn their_id(id: &MemberId) -> Option<braid_replication::MemberId> {
    braid_replication::MemberId::new(&id.node, &id.run).ok()
}

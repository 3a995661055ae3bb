// SPDX-License-Identifier: BSD-3-Clause
//! Carries out the state machine's orders (the role, the members that replies wait for, until
//! when this server may serve), and reports the server's state to it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::{boot_nanos, unix_ms};
use braid_base::gate::World;
use braid_clients::Message;
use braid_config::SyncLevel;
use braid_group::{Duty, Follower, Local, Member, MemberId, Node, Orders};
use braid_replication::link::{Phase, Primary};

use super::former::Former;
use super::view::Address;
use super::{Group, former, view};
use crate::cluster_node::stays_replica;
use crate::engine::Engine;

/// The executor of the state machine's orders.
pub(super) struct Duties<'e> {
    engine: &'e Engine,
    group: &'e Group,
    duty: Duty,
    /// The address of the primary being followed.
    primary: Option<Primary>,
    former: Former,
    next_probe: u64,
    /// The log has reported that this primary may not serve.
    is_fenced: bool,
    /// This primary has served.
    has_served: bool,
}

/// Why etcd cannot be used.
#[derive(Default)]
pub(super) struct Trouble(Option<String>);

impl Trouble {
    /// Records why etcd cannot be used; empty: it can. Logs one line per change.
    pub fn note(&mut self, group: &Group, error: String) {
        if error.is_empty() {
            if self.0.take().is_some() {
                log::info!("etcd is available again");
            }
        } else if self.0.is_none() {
            log::warn!("{error}; the group's roles stay as they are");
            self.0 = Some(error.clone());
        }
        group.view.lock().etcd_error = error;
    }
}

impl<'e> Duties<'e> {
    pub fn new(engine: &'e Engine, group: &'e Group, former: Former) -> Duties<'e> {
        Duties {
            engine,
            group,
            duty: Duty::Wait,
            primary: None,
            former,
            next_probe: 0,
            is_fenced: false,
            has_served: false,
        }
    }

    /// The server's own state, for the state machine.
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
            has_data: !engine.has_no_keys(),
            is_whole: group.is_whole.load(Relaxed) && link.phase() != Phase::Sync,
            former: self.former.run.clone(),
            kept: self.former.run.clone().filter(|_| engine.append_only.was_loaded.load(Relaxed)),
            ended: self.former.ended.clone(),
            at_disk: engine.config.sync_level() == SyncLevel::Disk,
            synced: engine.append_only.synced(),
            acknowledged: acknowledging.last,
            refuses: acknowledging.is_refused,
            hears_primary: link.is_up() && heard_ms < (group.settings.lease_ms / 2) as i64,
            priority: engine.config.replica_priority(),
            stays_replica: stays_replica(&engine.config) && !group.is_wanted.load(Relaxed),
            followers: self.followers(epoch),
            slow: engine.slow_members(boot_nanos()),
        }
    }

    fn followers(&self, epoch: u64) -> Vec<Follower> {
        let engine = self.engine;
        let is_on_disk = engine.sync_level() == SyncLevel::Disk;
        let follower = |replica: Arc<braid_replication::Replica>| {
            let (id, _) = replica.options.member.as_ref().filter(|(_, under)| *under == epoch)?;
            // Nothing counts before the replica has loaded its full sync and acknowledged it.
            let has_said = replica.has_acknowledged.load(Relaxed);
            let of = if is_on_disk { &replica.on_disk } else { &replica.acknowledged };
            Some(Follower {
                id: id.clone(),
                probed: engine.replication.in_sync.acknowledged_probe(id).filter(|_| has_said)?,
                acknowledged: of.load(Relaxed),
            })
        };
        engine.replication.replicas().into_iter().filter_map(follower).collect()
    }

    /// Carries out orders.
    pub fn carry_out(&mut self, orders: &Orders, member: &Member) {
        match &orders.duty {
            Duty::Lead { epoch } => self.lead(*epoch, orders, member),
            Duty::Follow { primary, epoch } => self.follow(primary, *epoch, member),
            Duty::Refuse => {
                // Before anything else: from now on nothing is acknowledged.
                self.group.set_refused(true);
                if self.duty != Duty::Refuse {
                    log::info!("The primary's lease has ended: this server is a candidate to replace it");
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
        self.note_service(orders);
    }

    /// Logs when the primary stops serving, and when it serves again.
    fn note_service(&mut self, orders: &Orders) {
        if !matches!(orders.duty, Duty::Lead { .. }) {
            (self.is_fenced, self.has_served) = (false, false);
            return;
        }
        let now = boot_nanos();
        let serves = orders.serve_until >= now;
        if serves && self.is_fenced {
            log::warn!("This primary serves again");
        } else if !serves && self.has_served && !self.is_fenced {
            let view = self.group.view.lock().clone();
            let why = self.engine.why_not_serving(self.group, &view, now);
            log::warn!("This primary is not serving: {why}");
        }
        self.is_fenced = !serves && self.has_served;
        self.has_served |= serves;
    }

    fn lead(&mut self, epoch: u64, orders: &Orders, member: &Member) {
        let engine = self.engine;
        let in_sync = &engine.replication.in_sync;
        let apply = || {
            in_sync.set_needs_disk(orders.at_disk);
            in_sync.set(epoch, orders.required.clone(), orders.size);
            in_sync.set_serve_until(orders.serve_until);
        };
        if self.duty != (Duty::Lead { epoch }) {
            former::write(member.id());
            let world = engine.keyspace.gate.close(None);
            // Serve nothing before the members that replies wait for are known.
            in_sync.set_serve_until(0);
            if engine.replication.link.is_replica() {
                engine.become_primary(&world);
            } else {
                // They reconnect under the new epoch.
                engine.disconnect_replicas();
            }
            // With the world stopped: no batch meets a primary that may not serve yet.
            apply();
            drop(world);
            self.primary = None;
            let set = member.shard().map_or_else(String::new, |shard| view::names(&shard.in_sync));
            log::warn!("This server is now the primary of the group: epoch {epoch}, in sync: {set}");
        } else {
            apply();
        }
        let now = boot_nanos();
        if now >= self.next_probe {
            self.next_probe = now + self.group.timing.lease / 8;
            engine.clients.mailboxes[0].send(Message::AskReplicas);
        }
    }

    fn follow(&mut self, primary: &MemberId, epoch: u64, member: &Member) {
        let engine = self.engine;
        let known = member.snapshot().and_then(|records| records.nodes.get(&primary.node));
        let place = known.filter(|node| node.run == primary.run).map(|node| engine.primary_at(node));
        let is_same = matches!(&self.duty, Duty::Follow { primary: old, epoch: under } if old == primary && *under == epoch);
        // While its record is missing, the primary may still be where it was.
        if is_same && (place.is_none() || place == self.primary) {
            return;
        }
        if !is_same {
            // From now on the files follow the primary's history, without this server's changes
            // beyond it.
            former::write(member.id());
            engine.keep_divergence(member.shard());
        }
        match &place {
            Some(place) => {
                log::warn!(
                    "This server is a replica of {} ({place}) in the group: epoch {epoch}",
                    primary.node
                );
                let world = engine.keyspace.gate.close(None);
                self.group.link_epoch.store(epoch, Relaxed);
                self.replicate(&world, place.clone());
                drop(world);
                self.group.set_refused(false);
            }
            None => {
                log::info!(
                    "{} is the primary of the group, its address is not known yet: epoch {epoch}",
                    primary.node
                );
                self.go_idle();
            }
        }
        self.primary = place;
    }

    /// Makes this server a replica without a primary.
    fn go_idle(&mut self) {
        let world = self.engine.keyspace.gate.close(None);
        self.replicate(&world, Primary::nowhere());
        self.primary = None;
    }

    fn replicate(&self, world: &World<'_>, primary: Primary) {
        self.engine.become_replica(world, primary);
        // No reply is waiting any more that could take this as permission to be sent.
        self.engine.replication.in_sync.set_serve_until(u64::MAX);
    }

    /// Starts a requested handover (FAILOVER).
    pub fn hand_over(&mut self, member: &mut Member) {
        let Some(to) = self.group.handover.lock().take() else { return };
        if let Err(why) = member.hand_over(to) {
            log::warn!("FAILOVER within the group: {why}");
        }
    }

    /// Makes this server take the primary's place if an operator requested it (FAILOVER
    /// TAKEOVER).
    pub fn take_over(&self, member: &mut Member) {
        if self.group.takes_over.swap(false, Relaxed) {
            log::warn!(
                "FAILOVER TAKEOVER: this server becomes the primary with the data it has; acknowledged \
                 writes that it lacks are lost"
            );
            member.take_over();
        }
    }

    fn show(&self, orders: &Orders, member: &Member) {
        let mut view = self.group.view.lock();
        let Some(shard) = member.shard() else { return };
        if view.primary.as_ref() != Some(&shard.primary) {
            view.changes += u64::from(view.primary.is_some());
            self.group.is_wanted.store(false, Relaxed);
            view.primary = Some(shard.primary.clone());
        }
        view.epoch = shard.epoch;
        view.is_primary = matches!(orders.duty, Duty::Lead { .. });
        view.is_candidate = orders.duty == Duty::Refuse;
        view.is_handing_over = member.is_being_replaced();
        view.serve_until = orders.serve_until;
        if view.in_sync != shard.in_sync {
            view.in_sync = shard.in_sync.clone();
            log::info!("In sync: {}", view::names(&shard.in_sync));
        }
        let before = view.note_address();
        let (name, now) = (view.group.clone(), view.primary_address.clone());
        drop(view);
        if let Some((before, now)) = before.zip(now) {
            self.publish_switch(&name, &before, &now);
        }
    }

    /// Notifies clients made for Sentinel of a new primary.
    fn publish_switch(&self, group: &str, before: &Address, now: &Address) {
        let message = format!("{group} {} {} {} {}", before.host, before.port, now.host, now.port);
        // This thread is not a loop: all loops are woken.
        self.engine.hub.publish(usize::MAX, b"+switch-master", message.as_bytes(), None);
    }
}

impl Engine {
    /// Where a replica reaches the server of a record.
    pub(super) fn primary_at(&self, node: &Node) -> Primary {
        let use_tls = self.config.tls_replication();
        Primary {
            host: node.host.to_string(),
            port: if use_tls && node.tls_port != 0 { node.tls_port } else { node.port },
        }
    }
}

// SPDX-License-Identifier: BSD-3-Clause
//! Carries out the state machine's orders (the role, the members that replies wait for, until
//! when this server may serve), and reports the server's state to it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::{boot_nanos, unix_ms};
use braid_base::gate::World;
use braid_clients::Message;
use braid_config::SyncLevel;
use braid_executor::engine::Engine;
use braid_executor::world;
use braid_group::{Duty, Follower, HeldOut, Local, Member, MemberId, Orders};
use braid_replica::become_replica::become_replica;
use braid_replica::{role, sync_writes};
use braid_replication::link::{Phase, Primary};

use super::previous_process::{self, PreviousProcess};
use super::view::{self, Address, is_same_place};
use super::{Group, leaderless};
use crate::group::{divergence, leftovers, own_node, report};
use crate::identity::stays_replica;

/// The executor of the state machine's orders.
pub(super) struct Duties<'e> {
    engine: &'e Engine,
    group: &'e Group,
    duty: Duty,
    /// The address of the primary being followed.
    primary: Option<Primary>,
    previous: PreviousProcess,
    next_probe: u64,
    /// The log has reported that this primary may not serve.
    is_fenced: bool,
    /// This primary has served.
    has_served: bool,
    disks: Disks,
    /// Since when no server may lead by itself, and the reason in the log.
    leaderless: Option<(u64, String)>,
}

/// Why etcd cannot be used.
#[derive(Default)]
pub(super) struct LastError(Option<String>);

impl LastError {
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

/// What replicas have shown of their disks.
#[derive(Default)]
struct Disks(Vec<(MemberId, Disk)>);

impl Disks {
    fn of(&self, id: &MemberId) -> Disk {
        self.0.iter().find(|(of, _)| of == id).map_or_else(Disk::default, |(_, disk)| *disk)
    }
}

/// Whether a replica's append-only file gets to its disk. One that cannot be written, is not synced
/// or does not exist leaves behind what the replica receives.
#[derive(Clone, Copy, Default)]
struct Disk {
    /// An offset that the replica had received, and when. Its disk did not have it then.
    awaited: Option<(u64, u64)>,
    has_reached: bool,
}

impl Disk {
    /// Takes in what a replica has acknowledged, in memory and on disk.
    fn note(&mut self, in_memory: u64, on_disk: u64, now: u64) {
        if self.awaited.is_none_or(|(offset, _)| on_disk >= offset) {
            self.has_reached |= self.awaited.is_some() || on_disk >= in_memory;
            self.awaited = Some((in_memory, now));
        }
    }

    /// True if the disk gets everything within `patience` nanoseconds.
    fn is_syncing(&self, now: u64, patience: u64) -> bool {
        self.has_reached && self.awaited.is_none_or(|(_, since)| now.saturating_sub(since) <= patience)
    }
}

impl<'e> Duties<'e> {
    pub fn new(engine: &'e Engine, group: &'e Group, previous: PreviousProcess) -> Duties<'e> {
        Duties {
            engine,
            group,
            duty: Duty::Wait,
            primary: None,
            previous,
            next_probe: 0,
            is_fenced: false,
            has_served: false,
            disks: Disks::default(),
            leaderless: None,
        }
    }

    /// The server's own state, for the state machine.
    pub fn local(&mut self, member: &Member) -> Local {
        let followers = self.followers(member.shard().map_or(0, |shard| shard.epoch));
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
        let timeout = u64::from(engine.config.sync_timeout_ms()) * 1_000_000;
        Local {
            end,
            history,
            offset,
            has_data: !engine.keyspace.is_empty(),
            is_whole: group.is_whole.load(Relaxed) && link.phase() != Phase::Sync,
            previous_run: self.previous.run.clone(),
            run_on_disk: self.previous.run.clone().filter(|_| engine.append_only.was_loaded.load(Relaxed)),
            clean_shutdown: self.previous.clean_shutdown.clone(),
            at_disk: engine.config.sync_level() == SyncLevel::Disk,
            synced: engine.append_only.synced(),
            acknowledged: acknowledging.last,
            refuses: acknowledging.is_refused,
            hears_primary: link.is_up() && heard_ms < (group.settings.lease_ms / 2) as i64,
            priority: engine.config.replica_priority(),
            stays_replica: stays_replica(&engine.config) && !group.is_wanted.load(Relaxed),
            followers,
            slow: sync_writes::slow_members(engine, boot_nanos()),
            // It takes several steps to join.
            patience: timeout.max(group.timing.lease / 4),
            minimum: match engine.sync_writes.waits_for_members() {
                true => engine.config.min_sync_replicas() as usize,
                false => 0,
            },
        }
    }

    fn followers(&mut self, epoch: u64) -> Vec<Follower> {
        let (engine, now, lease) = (self.engine, boot_nanos(), self.group.timing.lease);
        let before = std::mem::take(&mut self.disks);
        let disks = &mut self.disks;
        let is_on_disk = sync_writes::sync_level(engine) == SyncLevel::Disk;
        let follower = |replica: Arc<braid_replication::Replica>| {
            let (id, _) = replica.options.member.as_ref().filter(|(_, under)| *under == epoch)?;
            // Nothing counts before the replica has loaded its full sync and acknowledged it.
            let has_said = replica.has_acknowledged.load(Relaxed);
            let probed = engine.replication.in_sync.acknowledged_probe(id).filter(|_| has_said)?;
            let (in_memory, on_disk) = (replica.acknowledged.load(Relaxed), replica.on_disk.load(Relaxed));
            let mut disk = before.of(id);
            disk.note(in_memory, on_disk, now);
            let is_syncing = !is_on_disk || disk.is_syncing(now, lease);
            disks.0.push((id.clone(), disk));
            let acknowledged = if is_on_disk { on_disk } else { in_memory };
            Some(Follower { id: id.clone(), probed, acknowledged, is_syncing })
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
        self.note_leaderless(member);
    }

    /// Notes whether any server may lead. The log tells it once, after a moment in which a server
    /// that has been started again with its files would have taken the lead.
    fn note_leaderless(&mut self, member: &Member) {
        let now = boot_nanos();
        let mut view = self.group.view.lock();
        // Without etcd the records are old, and a primary that is heard may serve without a lease.
        let may_tell = matches!(self.duty, Duty::Follow { .. } | Duty::Wait)
            && view.etcd_error.is_empty()
            && !self.engine.replication.link.is_up();
        let known = member.snapshot().zip(member.shard()).filter(|_| may_tell);
        let reason = known.and_then(|(records, shard)| leaderless::reason(records, shard));
        view.leaderless = reason.clone().unwrap_or_default();
        drop(view);
        self.group.is_leaderless.store(reason.is_some(), Relaxed);
        match (reason, &mut self.leaderless) {
            (None, since) => *since = None,
            (Some(_), since @ None) => *since = Some((now, String::new())),
            (Some(reason), Some((since, told))) => {
                if now >= *since + 2 * self.group.timing.lease && *told != reason {
                    log::warn!("No server may lead the group: {reason}");
                    *told = reason;
                }
            }
        }
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
            let why = report::why_not_serving(self.engine, self.group, &view, now);
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
            previous_process::write(member.id());
            let world = world::stop(engine);
            let again = self.group.view.lock().primary.as_ref() == Some(member.id());
            in_sync.begin(engine.keyspace.journal.end(), again);
            // Serve nothing before the members that replies wait for are known.
            in_sync.set_serve_until(0);
            if engine.replication.link.is_replica() {
                role::become_primary(engine, &world);
            } else {
                // They reconnect under the new epoch.
                role::disconnect_replicas(engine);
            }
            // With the world stopped: no batch meets a primary that may not serve yet.
            apply();
            drop(world);
            self.primary = None;
            leftovers::note_takeover(engine);
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
        let place =
            known.filter(|node| node.run == primary.run).map(|node| own_node::primary_at(engine, node));
        // This process has taken the place of its former one, whose lease is still alive.
        let is_own = known.is_some_and(|node| {
            primary.node == member.id().node && is_same_place(node, &own_node::own_node(engine, &primary.run))
        });
        let place = place.filter(|_| !is_own);
        let is_same = matches!(&self.duty, Duty::Follow { primary: old, epoch: under } if old == primary && *under == epoch);
        // Another process runs where the primary was.
        let is_replaced = self.primary.is_some()
            && known.is_some_and(|node| {
                node.run != primary.run && self.primary == Some(own_node::primary_at(engine, node))
            })
            && !engine.replication.link.is_up();
        // While its record is missing, the primary may still be where it was.
        if is_same && !is_replaced && (place.is_none() || place == self.primary) {
            return;
        }
        if !is_same {
            // From now on the files follow the primary's history, without this server's changes
            // beyond it.
            previous_process::write(member.id());
            divergence::keep_divergence(engine, member.shard());
        }
        match &place {
            Some(place) => {
                log::warn!(
                    "This server is a replica of {} ({place}) in the group: epoch {epoch}",
                    primary.node
                );
                let world = world::stop(engine);
                self.group.link_epoch.store(epoch, Relaxed);
                self.replicate(&world, place.clone());
                drop(world);
                self.group.set_refused(false);
            }
            None => {
                let name = &primary.node;
                match is_own || is_replaced {
                    true => log::info!("The process of {name} that was the primary has ended: epoch {epoch}"),
                    false => log::info!(
                        "{name} is the primary of the group, its address is not known yet: epoch {epoch}"
                    ),
                }
                self.go_idle();
            }
        }
        self.primary = place;
    }

    /// Makes this server a replica without a primary.
    fn go_idle(&mut self) {
        let world = world::stop(self.engine);
        self.replicate(&world, Primary::nowhere());
        self.primary = None;
    }

    fn replicate(&self, world: &World<'_>, primary: Primary) {
        become_replica(self.engine, world, primary);
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
        let held_out = |one: &HeldOut| (one.id.clone(), one.why);
        let (was, is): (Vec<_>, Vec<_>) =
            (view.held_out.iter().map(held_out).collect(), orders.held_out.iter().map(held_out).collect());
        for (id, why) in is.iter().filter(|one| !was.contains(one)) {
            log::warn!("{} is kept out of the in-sync set: {}", id.node, view::why_held_out(*why));
        }
        view.held_out.clone_from(&orders.held_out);
        if orders.is_resigned && !view.is_resigned {
            log::warn!(
                "This primary gives up its lease, so that another member may lead: it hears too few of {}, and \
                 the others are connected to etcd",
                view::names(&shard.in_sync)
            );
        }
        view.is_resigned = orders.is_resigned;
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

// SPDX-License-Identifier: BSD-3-Clause
//! Move orders: their outcomes, and random schedules of a move whose source and target are replaced
//! again and again.

use super::*;

#[test]
fn move_orders_end_when_their_slots_are_gone_or_cancelled() {
    let mut store = Store::default();
    create(&mut store, 2);
    let order = |store: &mut Store, number: usize, slots: &str| {
        let wanted = [(move_name(number), slots.parse().expect("slots"), Arc::from(id(1)))];
        run(store, 0, |operator| operator.order_moves(&wanted, 7)).expect("the order is accepted");
    };
    order(&mut store, 0, "0,2");
    order(&mut store, 1, "4");
    let left = |store: &Store| -> Vec<String> {
        store.map().orders().map(|(_, _, order)| order.slots.to_string()).collect()
    };
    run(&mut store, 0, |operator| operator.delete_slots(&[2, 4], &SlotMemory::default()))
        .expect("its own slots");
    assert_eq!(left(&store), ["0"], "unassigned slots are still in an order");
    order(&mut store, 2, "6");
    // A server that does not lead cannot withdraw the order.
    run(&mut store, 1, |operator| Ok(operator.give_up_move(&move_name(2)))).expect("nothing to do");
    assert_eq!(left(&store), ["0", "6"]);
    let (map, keys) = (store.map(), keys());
    let late = Operator { map: &map, keys: &keys, me: &me(0) }.give_up_move(&move_name(2));
    store.promote(1, &id(0));
    assert!(!store.commit(&late), "a former primary withdrew the order");
    store.promote(0, &id(0));
    run(&mut store, 0, |operator| Ok(operator.give_up_move(&move_name(2)))).expect("it leads");
    // Any node may cancel.
    run(&mut store, 1, |operator| Ok(operator.cancel_moves(|_, _, order| *order.to == *id(1)))).expect("so");
    assert!(left(&store).is_empty());
}

/// The part of the order protocol that is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// A new leader of the source shard does not take up the orders.
    IsNotTakenUp,
    /// An interrupted source withdraws the order.
    EndsWithAnAttempt,
    /// A handover does not compare the epoch, so a cancelled move still takes place.
    ComparesNoEpoch,
    /// The target keeps accepting data from a former source.
    KeepsFormerSource,
    /// A source that has lost its connection continues with any target.
    ResumesWithoutCopy,
}

/// The slot that moves.
const SLOT: u16 = 8;

/// One server's attempt at the move, as its source.
#[derive(Clone, Default)]
struct Attempt {
    /// The target, and the number it gave this attempt.
    target: usize,
    session: u64,
    /// The source's version when it was copied.
    copied: Option<u64>,
    /// The connection was lost.
    is_cut: bool,
    read: Option<Map>,
    on_the_way: Option<Change>,
}

/// A move between two shards of two servers each: servers 0 and 2, and servers 1 and 3.
struct World {
    random: fastrand::Rng,
    fault: Option<Fault>,
    store: Store,
    keys: Keys,
    leaders: [usize; 2],
    /// Each write makes a new version at the source. The target's shard has one version, from the
    /// source with its current session.
    version: u64,
    copy: Option<u64>,
    session: Option<u64>,
    sessions: u64,
    /// By server.
    attempts: [Option<Attempt>; 4],
    /// The source shard has had only one leader.
    is_first: bool,
    was_cancelled: bool,
    /// The slot moved although the move was cancelled, or without all writes.
    has_failed: bool,
}

impl World {
    fn new(seed: u64, fault: Option<Fault>) -> World {
        let mut store = Store::default();
        create(&mut store, 2);
        for (index, shard) in [(2, 0), (3, 1)] {
            store.start(index);
            run(&mut store, index, |operator| operator.meet(&id(0), "h")).expect("both are known");
            run(&mut store, index, |operator| operator.replicate(&id(shard), true)).expect("it is empty");
        }
        let wanted = [(move_name(0), [SLOT].into_iter().collect(), Arc::from(id(1)))];
        run(&mut store, 0, |operator| operator.order_moves(&wanted, 7)).expect("the order is accepted");
        World {
            random: fastrand::Rng::with_seed(seed),
            fault,
            store,
            keys: keys(),
            leaders: [0, 1],
            version: 1,
            copy: None,
            session: None,
            sessions: 0,
            attempts: Default::default(),
            is_first: true,
            was_cancelled: false,
            has_failed: false,
        }
    }

    fn record(&self, shard: usize) -> ShardSlots {
        let (text, _) = &self.store.records[&self.keys.named("slots", &id(shard))];
        ShardSlots::from_json(text).expect("a record")
    }

    fn is_targets(&self) -> bool {
        self.record(1).slots.contains(SLOT)
    }

    fn change(&mut self, index: usize, work: impl FnOnce(&Operator<'_>) -> Change) -> bool {
        let map = self.store.map();
        let change = work(&Operator { map: &map, keys: &self.keys, me: &me(index) });
        assert!(self.store.commit(&change), "a concurrent change was made");
        !change.writes.is_empty()
    }

    fn raise(&mut self, index: usize) {
        self.change(index, |operator| operator.raise_epoch());
    }

    /// Kills a primary and replaces it.
    fn fail_over(&mut self) {
        let shard = usize::from(self.random.bool());
        let next = if self.leaders[shard] == shard { shard + 2 } else { shard };
        self.store.promote(next, &id(shard));
        self.leaders[shard] = next;
        if shard == 1 {
            // The target's connections are closed, and its copy is discarded safely.
            (self.session, self.copy) = (None, self.copy.filter(|_| self.is_targets()));
            self.raise(next);
        } else {
            // The new leader was a replica in the meantime.
            self.attempts[next] = None;
            self.is_first = false;
        }
    }

    /// Cuts the connection of the current source, or lets the target give it up.
    fn cut(&mut self) {
        let Some(attempt) = &mut self.attempts[self.leaders[0]] else { return };
        if !attempt.is_cut {
            // A handover that has not been sent to etcd begins again.
            (attempt.is_cut, attempt.read) = (true, None);
        } else if self.session == Some(attempt.session) && !self.is_targets() {
            self.raise(self.leaders[1]);
            if !self.is_targets() {
                (self.session, self.copy) = (None, None);
            }
        }
    }

    fn cancel(&mut self) {
        let has_some = self.change(1, |operator| operator.cancel_moves(|_, _, _| true));
        self.was_cancelled |= has_some;
    }

    /// A write. Writes wait during the handover.
    fn write(&mut self) {
        let waits = self.attempts[self.leaders[0]].as_ref().is_some_and(|one| one.on_the_way.is_some());
        self.version += u64::from(!self.is_targets() && !waits);
    }

    /// A step of a source, perhaps of a former one that does not know it yet.
    fn act(&mut self, index: usize) {
        let leads = self.leaders[0] == index;
        let Some(mut attempt) = self.attempts[index].take() else {
            let is_taken_up = self.is_first || self.fault != Some(Fault::IsNotTakenUp);
            if leads && is_taken_up && !self.record(0).ordered.is_empty() {
                self.begin(index);
            }
            return;
        };
        let is_heard = self.session == Some(attempt.session) && self.leaders[1] == attempt.target;
        if let Some(change) = attempt.on_the_way.take() {
            match self.random.u8(0..4) {
                0 => attempt.on_the_way = Some(change),
                // It is lost or late: its outcome is unknown.
                1 => return self.raise(index),
                _ => {
                    let is_gone = self.store.commit(&change);
                    self.has_failed |= is_gone && (self.was_cancelled || self.copy != Some(self.version));
                    return;
                }
            }
        } else if attempt.is_cut && (is_heard || self.fault == Some(Fault::ResumesWithoutCopy)) {
            attempt.is_cut = false;
            if !is_heard {
                self.sessions += 1;
                self.session = Some(self.sessions);
                (attempt.target, attempt.session) = (self.leaders[1], self.sessions);
            }
        } else if !is_heard {
            if self.fault == Some(Fault::EndsWithAnAttempt) {
                self.change(index, |operator| operator.give_up_move(&move_name(0)));
            }
            return;
        } else if attempt.copied.is_none() || attempt.read.is_none() && self.random.bool() {
            // A former primary still has the version it last copied.
            let has = if leads { self.version } else { attempt.copied.unwrap_or(self.version) };
            // After the first copy only changes follow.
            if attempt.copied.is_none() || self.copy.is_some() {
                self.copy = Some(has);
            }
            attempt.copied = Some(has);
        } else if let Some(map) = attempt.read.take() {
            let Some(change) = self.hand_over(index, &map, attempt.target) else { return };
            // The last changes are copied before the handover.
            if leads && self.copy.is_some() {
                (attempt.copied, self.copy) = (Some(self.version), Some(self.version));
            }
            attempt.on_the_way = Some(change);
        } else {
            attempt.read = Some(self.store.map());
        }
        self.attempts[index] = Some(attempt);
    }

    fn begin(&mut self, index: usize) {
        let target = self.leaders[1];
        if self.fault != Some(Fault::KeepsFormerSource) || self.session.is_none() {
            // The session of any other source is invalid from now on.
            self.raise(target);
            self.sessions += 1;
            (self.session, self.copy) = (Some(self.sessions), None);
        }
        let session = self.session.unwrap_or(0);
        self.attempts[index] = Some(Attempt { target, session, ..Attempt::default() });
    }

    fn hand_over(&self, index: usize, map: &Map, target: usize) -> Option<Change> {
        let operator = Operator { map, keys: &self.keys, me: &me(index) };
        let slots = [SLOT].into_iter().collect();
        let mut change = operator.move_slots(&move_name(0), &slots, &id(target)).ok()?;
        if self.fault == Some(Fault::ComparesNoEpoch) {
            change.compares.retain(|(key, _)| *key != self.keys.named_epoch());
        }
        Some(change)
    }

    /// True if the slot has exactly one owner and the move has not been forgotten.
    fn is_well(&self) -> bool {
        let (from, is_targets) = (self.record(0), self.is_targets());
        let is_lost = from.ordered.is_empty() && !is_targets && !self.was_cancelled;
        !self.has_failed && !is_lost && from.slots.contains(SLOT) != is_targets
    }
}

/// True if the move ends up done, with all writes, or cancelled, and no cancelled move takes place.
fn is_carried_out(seed: u64, fault: Option<Fault>) -> bool {
    const STEPS: usize = 80;
    let mut world = World::new(seed, fault);
    for _ in 0..STEPS {
        match world.random.u8(0..20) {
            0 | 1 => world.fail_over(),
            2 if world.random.u8(0..8) == 0 => world.cancel(),
            2..5 => world.write(),
            5 => world.cut(),
            _ => {
                let index = 2 * world.random.usize(0..2);
                world.act(index);
            }
        }
        if !world.is_well() {
            return false;
        }
    }
    // From here on nothing interferes.
    for _ in 0..STEPS {
        world.act(world.leaders[0]);
    }
    world.is_well() && (world.is_targets() || world.was_cancelled)
}

#[test]
fn move_order_is_completed_despite_any_crash() {
    const SCHEDULES: u64 = 150;
    for seed in 0..SCHEDULES {
        assert!(is_carried_out(seed, None), "seed {seed}");
    }
    for fault in [
        Fault::IsNotTakenUp,
        Fault::EndsWithAnAttempt,
        Fault::ComparesNoEpoch,
        Fault::KeepsFormerSource,
        Fault::ResumesWithoutCopy,
    ] {
        let found = (0..4 * SCHEDULES).find(|&seed| !is_carried_out(seed, Some(fault)));
        println!("{fault:?}: found by schedule {found:?}");
        assert!(found.is_some(), "no schedule exposes {fault:?}");
    }
}

// SPDX-License-Identifier: BSD-3-Clause
//! One server's part: what it has applied, and what follows from it.
//!
//! Flow: [`Replica::execute`] runs a client's command and returns the unit that the others are to
//! get. [`Replica::apply`] takes a unit of another region, from whomever it comes: it applies it
//! once, after the one before it and after everything that its region had seen, or answers that it
//! has it already or that something is missing. [`Replica::merge`] takes a full copy.
//! Acknowledgements of all regions let garbage go.
//!
//! Invariant: what has been applied depends on the vector only, not on the way it came. Two
//! replicas with equal vectors show the same.

use std::cell::Cell;

use crate::cell::{At, Sides};
use crate::change::{Change, Kind};
use crate::clock::{Clock, TooFarAhead};
use crate::database::{KeyRef, ValueRef};
use crate::effect::{Effect, Effects, Head, Unit};
use crate::ended::Ended;
use crate::keys::{Changes, Keys};
use crate::libraries::LIBRARIES;
use crate::lost::Lost;
use crate::rules::Rules;
use crate::stability::Stability;
use crate::stamp::{REGIONS, Region, Stamp};
use crate::stored::Stored;
use crate::value::Value;
use crate::vector::{Run, Seen, Vector};
use crate::view::{View, digest};
use crate::{Bytes, Name};

/// Stamps that a unit may take; a replica needs as many below its ceiling.
pub const STAMPS_OF_A_UNIT: u64 = 1 << 24;
/// Keys whose garbage is dropped at once.
const SETTLED_AT_ONCE: usize = 1000;

/// What became of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Applied {
    Now,
    /// It had been applied before.
    Known,
    /// Something that comes before it has not arrived, up to this stamp.
    Early(Stamp),
}

/// Why something is not done. Nothing has changed then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    TooFarAhead(#[from] TooFarAhead),
    #[error(
        "the peer sends effects as region {}, which is this server's own number: two servers have it, or this one was \
         set back to older files", .0.number()
    )]
    OwnRegion(Region),
    #[error(
        "the peer sends effects of region {} that do not go with those known here: two servers have this number, or \
         one was set back to older files", .0.number()
    )]
    Contradiction(Region),
    #[error("the stamps that may be given have to be recorded on disk first")]
    Ceiling,
}

/// What a server starts with.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub region: Region,
    /// Regions that there are, a bit for each.
    pub members: u64,
    /// How far a peer's stamps may be ahead of this server's clock.
    pub ahead_ms_max: u64,
    pub rules: Rules,
}

/// What is saved, and what a full copy carries: all keys with their marks, and what they come from.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub vector: Vector,
    pub(crate) keys: Keys,
}

impl State {
    /// The last database that has a key, of those that clients can choose.
    pub fn last_database(&self) -> Option<u32> {
        self.keys.last_database()
    }

    /// Database and name of all keys, also of those that nothing shows of any more.
    pub fn names(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.keys.names()
    }

    /// Reads what a saver has written.
    pub(crate) fn load(from: &mut &[u8], has_marks: bool) -> Option<State> {
        Some(State { vector: Vector::load(from)?, keys: Keys::load(from, has_marks)? })
    }
}

#[derive(Clone, Debug)]
pub struct Replica {
    pub(crate) settings: Settings,
    pub(crate) state: State,
    pub(crate) clock: Clock,
    /// The start of the run in which this server writes.
    pub(crate) run: Stamp,
    /// No stamp above it may be given before a higher one is on disk.
    pub(crate) ceiling: Stamp,
    /// What the keyspace has ended and the shadow still has.
    pub(crate) ended: Ended,
    stability: Stability,
    /// All regions have acknowledged so many changes.
    stable: u64,
    /// Regions that are gone for good.
    gone: u64,
}

/// A ceiling above another stamp that lets a region write for so long.
pub fn ceiling_after(stamp: Stamp, region: Region, now_ms: u64, for_ms: u64) -> Stamp {
    let now = Stamp::at(now_ms.saturating_add(for_ms), region);
    now.max(stamp.next_of(region).plus(2 * STAMPS_OF_A_UNIT))
}

impl Replica {
    /// A server that starts with nothing, or goes on from what it saved when it ended in good
    /// order.
    pub fn new(settings: Settings, mut state: State) -> Replica {
        state.keys.find_garbage(&settings.rules);
        let region = settings.region;
        let run = state.vector.newest_run(region).map_or(Stamp::start(region), |run| run.start);
        let latest = state.vector.latest();
        Replica {
            settings,
            state,
            clock: Clock::new(region, latest, settings.ahead_ms_max),
            run,
            ceiling: Stamp::start(region),
            ended: Ended::default(),
            stability: Stability::default(),
            stable: 0,
            gone: 0,
        }
    }

    /// A server that comes back from a file that may be older than what others have seen of it.
    /// `last` is the ceiling that its former process had recorded, `ceiling` a higher one that is
    /// on disk by now ([`ceiling_after`] it and the state): not even a process that crashes at once
    /// may start where another did. The unit tells the others of the new run, which starts now if
    /// that is later than the former ceiling: that of files that were put back may be below what
    /// others have seen.
    pub fn restart(
        settings: Settings,
        state: State,
        last: Stamp,
        ceiling: Stamp,
        now_ms: u64,
    ) -> Result<(Replica, Option<Unit>), Refusal> {
        let mut replica = Replica::new(settings, state);
        replica.raise_ceiling(ceiling);
        if !settings.rules.starts_new_run {
            return Ok((replica, None));
        }
        replica.clock.observe(last);
        let first = replica.clock.tick(now_ms, 1, &settings.rules);
        if first > ceiling {
            return Err(Refusal::Ceiling);
        }
        replica.run = first.before().max(last);
        let unit = Unit {
            first,
            previous: replica.run,
            starts_run: true,
            seen: replica.state.vector.clone(),
            effects: Effects::new(),
        };
        replica.state.vector.add(Run { start: replica.run, last: first });
        Ok((replica, Some(unit)))
    }

    pub fn region(&self) -> Region {
        self.settings.region
    }

    pub fn rules(&self) -> &Rules {
        &self.settings.rules
    }

    /// What has been applied.
    pub fn vector(&self) -> &Vector {
        &self.state.vector
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// The start of the run in which it writes.
    pub fn run(&self) -> Stamp {
        self.run
    }

    /// A ceiling that lets it write for so long.
    pub fn next_ceiling(&self, now_ms: u64, for_ms: u64) -> Stamp {
        ceiling_after(self.ceiling.max(self.clock.latest()), self.region(), now_ms, for_ms)
    }

    /// Whether it cannot write until a higher ceiling is on disk.
    pub fn needs_ceiling(&self, now_ms: u64) -> bool {
        let next = self.clock.clone().tick(now_ms, 1, self.rules());
        next.plus(STAMPS_OF_A_UNIT) > self.ceiling
    }

    /// The ceiling is on disk.
    pub fn raise_ceiling(&mut self, ceiling: Stamp) {
        self.ceiling = self.ceiling.max(ceiling);
    }

    pub fn key(&self, database: u32, name: &[u8]) -> Option<KeyRef<'_>> {
        self.state.keys.get(database, name)
    }

    /// What the keyspace shows of a key: all that has not been ended there.
    pub fn view(&self, database: u32, name: &[u8]) -> Option<View> {
        let value = self.visible(database, name)?;
        Some(View::beside(&value, self.ended.of(database, name), self.rules()))
    }

    pub(crate) fn visible(&self, database: u32, name: &[u8]) -> Option<ValueRef<'_>> {
        let value = self.key(database, name)?.into_value()?;
        let ended = self.ended.of(database, name);
        ended.is_none_or(|ended| value.shows_beside(ended)).then_some(value)
    }

    /// The hash of a key's name, as long as there is this replica.
    pub fn hash(&self, name: &[u8]) -> u64 {
        self.state.keys.hash(name)
    }

    /// Prefetches keys that are about to be looked at: their databases and hashes.
    pub fn prefetch(&self, hashed: &[(u32, u64)]) {
        self.state.keys.prefetch(hashed);
    }

    /// Whether a key is a string that has been written once, and shows: a write sees all of it.
    pub(crate) fn is_plain(&self, database: u32, name: &[u8]) -> bool {
        self.state.keys.is_plain(database, name) && self.ended.of(database, name).is_none()
    }

    /// Whether a unit with one change replaces all that there is of a string or an element, or adds
    /// to a string.
    pub(crate) fn is_replaced_by(&self, unit: &Unit, database: u32, name: &[u8], change: &Change) -> bool {
        let Some(run) = unit.head().run(&self.state.vector) else { return false };
        let seen = Seen { others: &unit.seen, own: Run { start: run.start, last: unit.first.before() } };
        self.state.keys.is_replaced(database, name, change, &seen) && self.ended.of(database, name).is_none()
    }

    /// All keys that are there, whether or not the keyspace has ended them: database, name, value,
    /// time. Without libraries.
    pub fn views(&self) -> impl Iterator<Item = (u32, &[u8], View, Option<u64>)> {
        let keys = self.state.keys.iter().filter(|(database, ..)| *database != LIBRARIES);
        keys.filter_map(|(database, name, key)| {
            let time = key.time(self.rules()).map(|(_, time)| time);
            Some((database, name, View::new(key.value()?, self.rules()), time))
        })
    }

    /// The code of all libraries, the latest first.
    pub fn libraries(&self) -> Vec<Bytes> {
        let code = |key: KeyRef<'_>| match key.value() {
            Some(Value::String(cell)) => Some((cell.stamp()?, cell.base()?.clone())),
            _ => None,
        };
        let mut all: Vec<(Stamp, Bytes)> = self.state.keys.of_database(LIBRARIES).filter_map(code).collect();
        all.sort_unstable_by_key(|(stamp, _)| std::cmp::Reverse(*stamp));
        all.into_iter().map(|(_, code)| code).collect()
    }

    /// Equal for replicas that show the same.
    pub fn digest(&self) -> u64 {
        let keys = self.state.keys.iter();
        let digests = keys.map(|(database, name, key)| digest(database, name, &key, self.rules()).0);
        digests.fold(0, u64::wrapping_add)
    }

    /// Keys that hold what is kept until all regions have acknowledged it.
    pub fn tombstones(&self) -> usize {
        self.state.keys.garbage_len()
    }

    /// Whether garbage has been lost sight of; tests ask.
    pub fn has_forgotten_garbage(&self) -> bool {
        self.state.keys.has_forgotten_garbage(self.rules())
    }

    /// Values that were hidden behind others of another type.
    pub fn type_conflicts(&self) -> u64 {
        self.state.keys.type_conflicts
    }

    /// Values that lost against another region's concurrent write since the start, by their type.
    pub fn conflicts(&self) -> impl Iterator<Item = (Kind, u64)> {
        Kind::ALL.into_iter().map(|kind| (kind, self.state.keys.conflicts[kind as usize]))
    }

    /// What becomes of a unit of another region, or of an earlier run of this one: the run that it
    /// is of, if it is to be applied now.
    pub(crate) fn admit(&self, now_ms: u64, unit: &Head<'_>) -> Result<Result<Run, Applied>, Refusal> {
        let rules = self.settings.rules;
        let applied = &self.state.vector;
        self.clock.check(now_ms, unit.last)?;
        let is_own = unit.region() == self.region();
        if is_own && unit.previous >= self.run && rules.starts_new_run {
            let is_known = applied.covers(unit.last);
            return if is_known { Ok(Err(Applied::Known)) } else { Err(Refusal::OwnRegion(unit.region())) };
        }
        let is_known = applied.covers(unit.first) && rules.applies_once;
        if is_known || is_own && !rules.takes_back_own {
            return Ok(Err(Applied::Known));
        }
        let run = match unit.run(applied) {
            Some(run) if run.last == unit.previous || unit.starts_run || !rules.applies_in_order => run,
            _ if !rules.applies_in_order => Run { start: Stamp::start(unit.region()), last: unit.previous },
            // One server's own come one after another.
            Some(run) if unit.previous < run.last && rules.applies_once => {
                return Err(Refusal::Contradiction(unit.region()));
            }
            Some(run) if unit.previous < run.last => run,
            _ => return Ok(Err(Applied::Early(unit.previous))),
        };
        if let Some(missing) = unit.seen.first_missing(applied)
            && rules.waits_for_dependencies
        {
            return Ok(Err(Applied::Early(missing)));
        }
        if applied.contradicts(&Run { start: run.start, last: unit.last }) {
            return Err(Refusal::Contradiction(unit.region()));
        }
        Ok(Ok(run))
    }

    /// Applies a unit of another region, or of an earlier run of this one.
    pub fn apply(&mut self, now_ms: u64, unit: &Unit) -> Result<Applied, Refusal> {
        let rules = self.settings.rules;
        let head = unit.head();
        let run = match self.admit(now_ms, &head)? {
            Ok(run) => run,
            Err(applied) => return Ok(applied),
        };
        let is_own = unit.region() == self.region();
        let lost = Cell::new(0);
        for (stamp, effect) in unit.stamped() {
            let own = Run { start: run.start, last: stamp.before() };
            let at = At { stamp, seen: Seen { others: &unit.seen, own }, rules: &rules, lost: &lost };
            // What is lost has been applied before, or is of this run.
            let starts = |stamp| Some(self.state.vector.run_start(stamp, run.start));
            self.state.keys.apply(&at, effect, is_own, starts);
            self.review(effect);
        }
        self.note_applied(Run { start: run.start, last: head.last });
        Ok(Applied::Now)
    }

    /// A unit of another region has been applied: its run, up to and with it.
    pub(crate) fn note_applied(&mut self, run: Run) {
        self.state.vector.add(run);
        self.observe(run.last);
    }

    /// After an effect: what the keyspace has ended may show again, or be gone.
    pub(crate) fn review(&mut self, effect: &Effect) {
        match effect {
            Effect::Key { database, name, .. } => self.review_key(*database, name),
            Effect::Flush { .. } => self.review_all(),
        }
    }

    pub(crate) fn review_key(&mut self, database: u32, name: &[u8]) {
        if self.ended.of(database, name).is_none() {
            return;
        }
        let (key, rules) = (self.state.keys.get(database, name), &self.settings.rules);
        self.ended.review(database, name, |element| key.as_ref()?.time_of(element, rules));
    }

    fn review_all(&mut self) {
        for (database, name) in self.ended.names() {
            self.review_key(database, &name);
        }
    }

    fn observe(&mut self, stamp: Stamp) {
        if self.settings.rules.clock_is_hybrid {
            self.clock.observe(stamp);
        }
    }

    /// Takes a full copy of another replica: it merges, nothing is replaced.
    pub fn merge(&mut self, now_ms: u64, theirs: &State) -> Result<(), Refusal> {
        self.merge_noting(now_ms, theirs, |_, _| ())
    }

    /// The same; `note` is told what is about to change.
    pub(crate) fn merge_noting<'t>(
        &mut self,
        now_ms: u64,
        theirs: &'t State,
        note: impl FnOnce(&Replica, &Changes<'t>),
    ) -> Result<(), Refusal> {
        for run in theirs.vector.runs() {
            self.clock.check(now_ms, run.last)?;
            let is_own = run.start.region() == self.region() && run.start >= self.run;
            if is_own && !self.state.vector.covers(run.last) && self.settings.rules.starts_new_run {
                return Err(Refusal::OwnRegion(self.region()));
            }
            if self.state.vector.contradicts(run) {
                return Err(Refusal::Contradiction(run.start.region()));
            }
        }
        let rules = self.settings.rules;
        let sides = Sides {
            mine: &self.state.vector,
            theirs: &theirs.vector,
            lost: &Lost::none(),
            horizon: Stamp::ZERO,
            rules: &rules,
        };
        let changes = self.state.keys.changes_by(&theirs.keys, &sides);
        note(self, &changes);
        self.state.keys.merge(changes, &theirs.keys, &sides);
        self.review_all();
        self.state.vector.join(&theirs.vector);
        self.observe(theirs.vector.latest());
        Ok(())
    }

    /// Regions that have to acknowledge: all that were named or heard of, and are not gone.
    pub fn others(&self) -> Vec<Region> {
        let heard = self.state.vector.runs().iter().map(|run| 1 << run.start.region().number());
        let members = heard.fold(self.settings.members, |members, one: u64| members | one) & !self.gone;
        let regions = (0..REGIONS).filter(|number| members >> number & 1 == 1).filter_map(Region::new);
        regions.filter(|region| *region != self.region()).collect()
    }

    /// There is a region from which nothing may have been heard yet: it has to acknowledge as well.
    pub fn add_member(&mut self, region: Region) {
        self.settings.members |= 1 << region.number();
    }

    /// A region is gone for good: nothing waits for it any more.
    pub fn remove_region(&mut self, region: Region) {
        self.gone |= 1 << region.number();
        self.stability.forget(region);
        self.collect_garbage();
    }

    /// What a region has on disk, as it says.
    pub fn acknowledge(&mut self, region: Region, vector: Vector) {
        self.stability.acknowledge(region, vector);
        self.collect_garbage();
    }

    /// Drops what all regions have acknowledged, as far as that does not take long. True if there
    /// is more.
    pub fn collect_garbage(&mut self) -> bool {
        let others = self.others();
        let rules = self.settings.rules;
        let changes = self.state.keys.changes;
        if let Some(stable) = self.stability.advance(&self.state.vector, changes, &others, &rules) {
            self.stable = stable;
        }
        self.collect_more_garbage()
    }

    /// Goes on with that.
    pub fn collect_more_garbage(&mut self) -> bool {
        self.state.keys.settle(self.stable, SETTLED_AT_ONCE, &self.settings.rules)
    }

    /// Whether something of a key was evicted here and has not been written anew.
    pub fn is_evicted(&self, database: u32, name: &[u8]) -> bool {
        self.state.keys.is_evicted(database, name)
    }

    /// Keys of which something was evicted and has not been written anew.
    pub fn evicted(&self) -> usize {
        self.state.keys.evicted_len()
    }

    /// Their names.
    pub fn evicted_names(&self) -> impl Iterator<Item = (u32, Name)> {
        self.state.keys.evicted_names().map(|(database, name)| (database, name.into()))
    }

    /// Marks of evicted keys that are kept, about; see [`crate::evicted`].
    pub fn limit_marks(&mut self, most: usize) {
        self.state.keys.limit_marks(most);
    }

    /// Numbers that were evicted and that clients here have since added to, not knowing of more:
    /// the keyspace is to get what shows of them now.
    pub fn take_revived(&mut self) -> Vec<(u32, Name)> {
        self.state.keys.take_revived()
    }

    /// Whether there are such.
    pub fn has_revived(&self) -> bool {
        self.state.keys.has_revived()
    }

    /// Evicted keys whose times have come and are this region's: it removes them.
    pub fn end_evicted(&mut self, now_ms: u64) -> Result<Option<Unit>, Refusal> {
        let rules = self.settings.rules;
        let is_due = |key: &crate::key::Key| {
            key.time(&rules).is_some_and(|(giver, until)| until <= now_ms && self.expires(giver))
        };
        let due = self.state.keys.all_hidden().filter(|(_, _, key)| is_due(key));
        let mut due: Vec<(u32, Name, Change)> = due
            .map(|(database, name, key)| (database, name.into(), Change::Remove { seen: key.seen() }))
            .collect();
        // The same history for a seed, always.
        due.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
        self.execute(now_ms, |transaction| {
            for (database, name, change) in due {
                transaction.change(database, &name, change);
            }
        })
    }

    /// Begins to save the state as it is now; a saving that goes on ends.
    pub(crate) fn begin_saving(&mut self) -> u64 {
        let mut bytes = Vec::new();
        self.state.vector.store(&mut bytes);
        self.state.keys.begin_saving(bytes)
    }

    /// Begins to make the digest of the state as it is now, in place of a saving.
    pub(crate) fn begin_digest(&mut self) -> u64 {
        self.state.keys.begin_digest(self.settings.rules)
    }

    /// The next piece of a saving, and whether it is the last; nothing if it has come to nothing.
    pub(crate) fn take_piece(&mut self, number: u64, bytes: usize) -> Option<(Vec<u8>, bool)> {
        self.state.keys.take_piece(number, bytes)
    }

    /// A saving is not wanted any more.
    pub fn stop_saving(&mut self) {
        self.state.keys.stop_saving();
    }

    /// The region that removes what a time given with this stamp ends.
    pub(crate) fn expires(&self, stamp: Stamp) -> bool {
        let giver = stamp.region();
        let owner = if self.gone >> giver.number() & 1 == 0 {
            Some(giver)
        } else {
            self.others().into_iter().chain([self.region()]).min()
        };
        owner == Some(self.region()) || !self.settings.rules.one_region_expires
    }

    /// Removes what the keyspace has ended and is this region's to remove by now, since the region
    /// that gave the time is gone.
    pub fn remove_inherited(&mut self, now_ms: u64) -> Result<Option<Unit>, Refusal> {
        let due = self.ended.given_by(|stamp| self.expires(stamp));
        self.execute(now_ms, |transaction| {
            for (database, name, element) in &due {
                transaction.end(*database, name, element.as_deref());
            }
        })
    }
}

// SPDX-License-Identifier: BSD-3-Clause
//! A replica: the state that one server has applied, and the operations on it.
//!
//! Flow: [`Replica::execute`] runs a client's command and returns the unit for the other regions.
//! [`Replica::apply`] takes a unit of another region, from any peer: it applies the unit once,
//! after its predecessor and everything that its region had seen, or reports that the unit is
//! known already or that a predecessor is missing. [`Replica::merge`] takes a full copy. Garbage
//! is dropped when all regions have acknowledged it.
//!
//! Invariant: the applied state depends on the vector only, not on the route of the units. Two
//! replicas with equal vectors show the same.

use std::cell::Cell;
use std::collections::BTreeMap;

use braid_keyspace::HeldString;

use crate::cell::At;
use crate::change::{Change, Kind};
use crate::clock::{Clock, TooFarAhead};
use crate::cold::ColdSearch;
use crate::database::{KeyRef, ValueRef};
use crate::effect::{Effect, Effects, Head, Unit};
use crate::ended::Ended;
use crate::hidden::{DEFINITIONS, LIBRARIES, is_of_clients};
use crate::key::Key;
use crate::keys::Keys;
use crate::merge_progress::MergeProgress;
use crate::plain::Plain;
use crate::rules::Rules;
use crate::stability::Stability;
use crate::stamp::{REGIONS, Region, Stamp};
use crate::stored::Stored;
use crate::value::Value;
use crate::vector::{Run, Seen, Vector};
use crate::view::{View, digest};
use crate::{Bytes, Name, Text};

/// The maximum number of stamps in a unit; a replica needs as many below its ceiling.
pub const STAMPS_OF_A_UNIT: u64 = 1 << 24;
/// The number of keys whose garbage is dropped in one step.
const COLLECTED_AT_ONCE: usize = 1000;

/// The outcome of applying a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Applied {
    Now,
    /// It had been applied before.
    Known,
    /// A predecessor is missing, up to this stamp.
    Early(Stamp),
}

/// Reasons for refusing an operation. A refused operation changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    TooFarAhead(#[from] TooFarAhead),
    #[error(
        "the peer sends effects as region {}, this server's own number: two servers use it, or this server \
         was restored from older files", .0.number()
    )]
    OwnRegion(Region),
    #[error(
        "the peer's effects of region {} contradict those known here: two servers use this number, or one \
         was restored from older files", .0.number()
    )]
    Contradiction(Region),
    #[error("the clock's ceiling must be on disk before stamps are issued")]
    Ceiling,
}

impl Refusal {
    /// The region whose effects are refused.
    pub fn about(&self) -> Option<Region> {
        match self {
            Refusal::TooFarAhead(ahead) => Some(ahead.region),
            Refusal::OwnRegion(region) | Refusal::Contradiction(region) => Some(*region),
            Refusal::Ceiling => None,
        }
    }
}

/// The settings that a server starts with.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub region: Region,
    /// The known regions, one bit each.
    pub members: u64,
    /// The maximum lead of a peer's stamps over this server's clock, in ms.
    pub ahead_ms_max: u64,
    pub rules: Rules,
}

/// The saved state, which is also the content of a full copy: all keys with their marks, and the
/// vector of the effects applied to them.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub vector: Vector,
    pub(crate) keys: Keys,
}

impl State {
    /// The last database that has a key, among those that clients can select.
    pub fn last_database(&self) -> Option<u32> {
        self.keys.last_database()
    }

    /// Database and name of all keys, including those that are no longer visible.
    pub fn names(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.keys.names()
    }

    /// Parses the saver's output.
    pub(crate) fn load(from: &mut &[u8], has_marks: bool) -> Option<State> {
        Some(State { vector: Vector::load(from)?, keys: Keys::load(from, has_marks)? })
    }
}

/// A search for tallies that are over, among the keys last touched by certain changes.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    /// Up to here it is done.
    done: u64,
    /// The last change that the region has acknowledged.
    until: u64,
    /// The start of the run in which it has done so: older tallies may not be over.
    run: Stamp,
}

#[derive(Clone, Debug)]
pub struct Replica {
    pub(crate) settings: Settings,
    pub(crate) state: State,
    pub(crate) clock: Clock,
    /// The start of the run in which this server writes.
    pub(crate) run: Stamp,
    /// No stamp above this one may be given before a higher ceiling is on disk.
    pub(crate) ceiling: Stamp,
    /// Keys and elements that the keyspace has ended and the shadow still has.
    pub(crate) ended: Ended,
    stability: Stability,
    /// The number of changes that all regions have acknowledged.
    stable: u64,
    /// By region, the changes whose forgotten tallies are being searched for its own.
    searches: BTreeMap<Region, Search>,
    /// Regions that have been removed, one bit each.
    gone: u64,
    /// The full copy that is being merged.
    pub(crate) merging: Option<Box<MergeProgress>>,
}

/// A ceiling above `stamp` that lets a region write for `for_ms`.
pub fn ceiling_after(stamp: Stamp, region: Region, now_ms: u64, for_ms: u64) -> Stamp {
    let now = Stamp::at(now_ms.saturating_add(for_ms), region);
    now.max(stamp.next_of(region).plus(2 * STAMPS_OF_A_UNIT))
}

impl Replica {
    /// A server that starts empty, or continues from the state it saved at a clean shutdown.
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
            searches: BTreeMap::new(),
            gone: 0,
            merging: None,
        }
    }

    /// A server that restarts from a file that may be older than the state others have seen. No
    /// stamp that its former process has issued is above `last`. `ceiling` is a higher one that is
    /// on disk already ([`ceiling_after`] `last` and the state), so that even a process that
    /// crashes immediately never starts where another did. The unit announces the new run. The run
    /// starts now if that is later than `last`, since the ceiling in restored files may be below
    /// stamps that others have seen.
    ///
    /// # Errors
    /// [`Refusal::Ceiling`] if the new run's first stamp would be above `ceiling`.
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
            seen_less: None,
        };
        replica.state.vector.add(Run { start: replica.run, last: first });
        Ok((replica, Some(unit)))
    }

    pub fn region(&self) -> Region {
        self.settings.region
    }

    /// Sets the maximum lead of other regions' stamps over this server's clock, in ms.
    pub fn allow_ahead(&mut self, ahead_ms_max: u64) {
        self.settings.ahead_ms_max = ahead_ms_max;
        self.clock.allow_ahead(ahead_ms_max);
    }

    /// How far this server's next stamp is ahead of its wall clock, in ms.
    pub fn ahead_ms(&self, now_ms: u64) -> u64 {
        self.clock.ahead_ms(now_ms)
    }

    pub fn rules(&self) -> &Rules {
        &self.settings.rules
    }

    /// The vector of the applied effects.
    pub fn vector(&self) -> &Vector {
        &self.state.vector
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// The start of the run in which this server writes.
    pub fn run(&self) -> Stamp {
        self.run
    }

    /// A ceiling that lets this server write for `for_ms`.
    pub fn next_ceiling(&self, now_ms: u64, for_ms: u64) -> Stamp {
        ceiling_after(self.ceiling.max(self.clock.latest()), self.region(), now_ms, for_ms)
    }

    /// True if it cannot write until a higher ceiling is on disk.
    pub fn needs_ceiling(&self, now_ms: u64) -> bool {
        let next = self.clock.clone().tick(now_ms, 1, self.rules());
        next.plus(STAMPS_OF_A_UNIT) > self.ceiling
    }

    /// Raises the ceiling. It must be on disk already.
    pub fn raise_ceiling(&mut self, ceiling: Stamp) {
        self.ceiling = self.ceiling.max(ceiling);
    }

    pub fn key(&self, database: u32, name: &[u8]) -> Option<KeyRef<'_>> {
        self.state.keys.get(database, name)
    }

    /// A key as the keyspace shows it: without the elements that the keyspace has ended.
    pub fn view(&self, database: u32, name: &[u8]) -> Option<View> {
        let value = self.visible(database, name)?;
        Some(View::beside(&value, self.ended.of(database, name), self.rules()))
    }

    pub(crate) fn visible(&self, database: u32, name: &[u8]) -> Option<ValueRef<'_>> {
        let value = self.key(database, name)?.into_value()?;
        let ended = self.ended.of(database, name);
        ended.is_none_or(|ended| value.is_visible_without(ended)).then_some(value)
    }

    /// The hash of a key's name. Valid as long as this replica exists.
    pub fn hash(&self, name: &[u8]) -> u64 {
        self.state.keys.hash(name)
    }

    /// Prefetches keys that are about to be accessed, by database and hash.
    pub fn prefetch(&self, hashed: &[(u32, u64)]) {
        self.state.keys.prefetch(hashed);
    }

    /// True if a key is a visible string that has been written once: a write sees all of it.
    pub(crate) fn is_plain(&self, database: u32, name: &[u8]) -> bool {
        self.state.keys.is_plain(database, name) && self.ended.of(database, name).is_none()
    }

    /// True if a unit with this one change replaces everything there is of a string or element,
    /// or increments a string.
    pub(crate) fn is_replaced_by(&self, unit: &Unit, database: u32, name: &[u8], change: &Change) -> bool {
        let Some(run) = unit.head().run(&self.state.vector) else { return false };
        let seen = Seen { others: &unit.seen, own: Run { start: run.start, last: unit.first.before() } };
        self.state.keys.is_replaced(database, name, change, &seen) && self.ended.of(database, name).is_none()
    }

    /// All existing keys of clients, whether or not the keyspace has ended them: database,
    /// name, value, expiry time in Unix ms.
    pub fn views(&self) -> impl Iterator<Item = (u32, &[u8], View, Option<u64>)> {
        let keys = self.state.keys.iter().filter(|(database, ..)| is_of_clients(*database));
        keys.filter_map(|(database, name, key)| {
            self.view_of(&key).map(|(view, time)| (database, name, view, time))
        })
    }

    /// A visible key's value and expiry time.
    fn view_of(&self, key: &Key) -> Option<(View, Option<u64>)> {
        let time = key.time(self.rules()).map(|(_, time)| time);
        Some((View::new(key.value()?, self.rules()), time))
    }

    /// The plain strings of clients, by database.
    pub(crate) fn plain_strings(
        &self,
    ) -> impl Iterator<Item = (u32, impl Iterator<Item = (&[u8], Plain<'_>)>)> {
        self.state.keys.plain_strings().filter(|(database, _)| is_of_clients(*database))
    }

    /// The number of clients' keys, whether or not the keyspace has ended them.
    pub fn visible_len(&self) -> usize {
        let of_clients = |database: &u32| is_of_clients(*database);
        let others = self.state.keys.iter_others().filter(|(database, ..)| of_clients(database));
        let others = others.filter(|(.., key)| key.value().is_some()).count();
        let plain = self.state.keys.plain_len().filter(|(database, _)| of_clients(database));
        plain.map(|(_, len)| len).sum::<usize>() + others
    }

    /// [`Replica::views`] of all other keys.
    pub(crate) fn other_views(&self) -> impl Iterator<Item = (u32, &[u8], View, Option<u64>)> {
        let keys = self.state.keys.iter_others().filter(|(database, ..)| is_of_clients(*database));
        keys.filter_map(|(database, name, key)| {
            self.view_of(key).map(|(view, time)| (database, name, view, time))
        })
    }

    /// The keys of strings too long for the blocks of short ones: database, name.
    pub fn long_strings(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.state.keys.long_strings()
    }

    /// Takes over `text` in place of equal bytes: then the allocation is shared with its other
    /// holders.
    pub fn share(&mut self, database: u32, name: &[u8], text: &Text) {
        self.state.keys.share(database, name, text);
    }

    /// Holds the keyspace's entry of a short string in place of a copy of name and value, if they
    /// are equal and the string has been written once. A write of the key lets go of it.
    pub fn hold(&mut self, database: u32, string: HeldString) {
        self.state.keys.hold(database, string);
    }

    /// The number of strings that are [held](Replica::hold).
    pub fn held(&self) -> usize {
        self.state.keys.held()
    }

    /// The number of changes so far.
    pub fn changes(&self) -> u64 {
        self.state.keys.changes
    }

    /// Continues a search for strings to [hold](Replica::hold) that were last written before
    /// `before_ms` (Unix time): database, name. Visits a bounded part of all keys.
    pub fn cold_strings(&self, search: &mut ColdSearch, before_ms: u64) -> Vec<(u32, Name)> {
        search.advance(&self.state.keys, before_ms)
    }

    /// The definitions of search, by their names.
    pub fn definitions(&self) -> BTreeMap<Name, Bytes> {
        let all = self.state.keys.of_database(DEFINITIONS);
        let shown = all.filter_map(|(name, key)| match key.value()? {
            Value::String(cell) => Some((Name::from(name), crate::string::shown(cell)?)),
            _ => None,
        });
        shown.collect()
    }

    /// The code of all libraries, latest first.
    pub fn libraries(&self) -> Vec<Bytes> {
        let code = |(_, key): (&[u8], KeyRef<'_>)| match key.value() {
            Some(Value::String(cell)) => Some((cell.stamp()?, Bytes::from(&**cell.base()?))),
            _ => None,
        };
        let mut all: Vec<(Stamp, Bytes)> = self.state.keys.of_database(LIBRARIES).filter_map(code).collect();
        all.sort_unstable_by_key(|(stamp, _)| std::cmp::Reverse(*stamp));
        all.into_iter().map(|(_, code)| code).collect()
    }

    /// A digest that is equal on replicas that show the same.
    pub fn digest(&self) -> u64 {
        let keys = self.state.keys.iter();
        let digests = keys.map(|(database, name, key)| digest(database, name, &key, self.rules()).0);
        digests.fold(0, u64::wrapping_add)
    }

    /// The number of keys with state that is kept until all regions have acknowledged it.
    pub fn tombstones(&self) -> usize {
        self.state.keys.garbage_len()
    }

    /// True if some garbage is not indexed; for tests.
    pub fn has_forgotten_garbage(&self) -> bool {
        self.state.keys.has_forgotten_garbage(self.rules())
    }

    /// The number of values that became hidden behind a value of another type.
    pub fn type_conflicts(&self) -> u64 {
        self.state.keys.type_conflicts
    }

    /// The number of values that lost to a concurrent write of another region since the start, by
    /// type.
    pub fn conflicts(&self) -> impl Iterator<Item = (Kind, u64)> {
        Kind::ALL.into_iter().map(|kind| (kind, self.state.keys.conflicts[kind as usize]))
    }

    /// Checks a unit of another region, or of an earlier run of this one. Returns its run if it
    /// can be applied now, otherwise the outcome.
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
            // Units of one server are consecutive.
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
    ///
    /// # Errors
    /// If the unit's stamps are too far ahead of this server's clock, if it comes from this region
    /// but not from an earlier run, or if it contradicts what is known of its region. Nothing has
    /// changed then. A unit that is early or known is no error.
    pub fn apply(&mut self, now_ms: u64, unit: &Unit) -> Result<Applied, Refusal> {
        let rules = self.settings.rules;
        let head = unit.head();
        let run = match self.admit(now_ms, &head)? {
            Ok(run) => run,
            Err(applied) => return Ok(applied),
        };
        let is_own = unit.region() == self.region();
        let lost = Cell::new(0);
        for (number, (stamp, effect)) in unit.stamped().enumerate() {
            let own = Run { start: run.start, last: stamp.before() };
            let seen = Seen { others: unit.seen_by(number), own };
            let at = At { stamp, seen, rules: &rules, lost: &lost };
            // A lost value has been applied before, or belongs to this run.
            let starts = |stamp| Some(self.state.vector.run_start(stamp, run.start));
            self.state.keys.apply(&at, effect, is_own, starts);
            self.review(effect);
        }
        self.note_applied(Run { start: run.start, last: head.last });
        Ok(Applied::Now)
    }

    /// Records that a unit of another region has been applied: its run, up to and including the
    /// unit.
    pub(crate) fn note_applied(&mut self, run: Run) {
        self.state.vector.add(run);
        self.observe(run.last);
    }

    /// After an effect: keys that the keyspace has ended may be visible again, or gone.
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

    pub(crate) fn observe(&mut self, stamp: Stamp) {
        if self.settings.rules.clock_is_hybrid {
            self.clock.observe(stamp);
        }
    }

    /// Merges a full copy of another replica. Nothing is replaced.
    ///
    /// # Errors
    /// As [`Replica::apply`], for any of the regions in the copy.
    pub fn merge(&mut self, now_ms: u64, theirs: &State) -> Result<(), Refusal> {
        self.begin_merge(now_ms, theirs)?;
        while self.is_merging() {
            self.merge_part(theirs);
        }
        Ok(())
    }

    /// Checks that a full copy with this vector can be merged.
    pub(crate) fn check_copy(&self, now_ms: u64, theirs: &Vector) -> Result<(), Refusal> {
        for run in theirs.runs() {
            self.clock.check(now_ms, run.last)?;
            let is_own = run.start.region() == self.region() && run.start >= self.run;
            if is_own && !self.state.vector.covers(run.last) && self.settings.rules.starts_new_run {
                return Err(Refusal::OwnRegion(self.region()));
            }
            if self.state.vector.contradicts(run) {
                return Err(Refusal::Contradiction(run.start.region()));
            }
        }
        Ok(())
    }

    /// The regions that must acknowledge: all that are configured or known from effects, except
    /// removed ones.
    pub fn others(&self) -> Vec<Region> {
        let heard = self.state.vector.runs().iter().map(|run| 1 << run.start.region().number());
        let members = heard.fold(self.settings.members, |members, one: u64| members | one) & !self.gone;
        let regions = (0..REGIONS).filter(|number| members >> number & 1 == 1).filter_map(Region::new);
        regions.filter(|region| *region != self.region()).collect()
    }

    /// Adds a region that may not have sent anything yet: it must acknowledge as well.
    pub fn add_member(&mut self, region: Region) {
        self.settings.members |= 1 << region.number();
    }

    /// Removes a region permanently: nothing waits for it any more.
    pub fn remove_region(&mut self, region: Region) {
        self.gone |= 1 << region.number();
        self.stability.forget(region);
        self.searches.remove(&region);
        self.collect_garbage();
    }

    /// Records the vector that a region says it has on disk.
    pub fn acknowledge(&mut self, region: Region, vector: Vector) {
        self.stability.acknowledge(region, vector);
        if self.is_merging() {
            // What has come with the copy is not in the applied vector that others acknowledge.
            return;
        }
        self.advance();
        self.search_tallies();
        self.collect_more_garbage();
    }

    /// Notes how far each region is known to have forgotten its own tallies. What this one has
    /// applied, it has forgotten.
    fn search_tallies(&mut self) {
        let known = |region: Region| match region == self.region() {
            true => Some((self.state.keys.changes, self.run)),
            false => self.stability.of_region(region),
        };
        let regions = self.others().into_iter().chain([self.region()]);
        let found: Vec<_> = regions.filter_map(|region| Some((region, known(region)?))).collect();
        for (region, (until, run)) in found {
            let search = self.searches.entry(region).or_default();
            (search.until, search.run) = (until, run);
        }
    }

    /// Drops garbage that all regions have acknowledged, as much as fits a short step. Returns
    /// true if there is more.
    pub fn collect_garbage(&mut self) -> bool {
        if self.is_merging() {
            return false;
        }
        self.advance();
        self.collect_more_garbage()
    }

    /// Notes which changes all regions have acknowledged.
    fn advance(&mut self) {
        let others = self.others();
        let rules = self.settings.rules;
        let changes = self.state.keys.changes;
        if let Some(stable) = self.stability.advance(&self.state.vector, changes, &others, &rules) {
            self.stable = self.stable.max(stable);
        }
    }

    /// Drops more of that garbage. Returns true if there is more.
    pub fn collect_more_garbage(&mut self) -> bool {
        let rules = &self.settings.rules;
        let mut has_more = self.state.keys.collect_garbage(self.stable, COLLECTED_AT_ONCE, rules);
        for (region, search) in &mut self.searches {
            let is_over = |start: Stamp| {
                let is_own = start.region() == *region || !rules.tallies_wait_for_their_region;
                is_own && (start > search.run || !rules.tallies_end_with_their_run)
            };
            // Keys that all regions have acknowledged have been collected, or will be.
            let after = search.done.max(self.stable);
            search.done =
                self.state.keys.drop_tallies((after, search.until), COLLECTED_AT_ONCE, &is_over, rules);
            has_more |= search.done < search.until;
        }
        has_more
    }

    /// True if a key was evicted here, and not all of it has been written again.
    pub fn is_evicted(&self, database: u32, name: &[u8]) -> bool {
        self.state.keys.is_evicted(database, name)
    }

    /// The number of keys that were evicted here and not completely written again.
    pub fn evicted(&self) -> usize {
        self.state.keys.evicted_len()
    }

    /// The names of these keys.
    pub fn evicted_names(&self) -> impl Iterator<Item = (u32, Name)> {
        self.state.keys.evicted_names().map(|(database, name)| (database, name.into()))
    }

    /// Limits the number of marks of evicted keys to about `most`; see [`crate::evicted`].
    pub fn limit_marks(&mut self, most: usize) {
        self.state.keys.limit_marks(most);
    }

    /// Takes the evicted numbers that clients here have incremented without knowing their sums:
    /// the keyspace must get the visible values.
    pub fn take_revived(&mut self) -> Vec<(u32, Name)> {
        self.state.keys.take_revived()
    }

    /// True if there are any.
    pub fn has_revived(&self) -> bool {
        self.state.keys.has_revived()
    }

    /// Removes evicted keys whose time has passed, if this region has to end them.
    ///
    /// # Errors
    /// [`Refusal::Ceiling`] if a higher ceiling must be on disk first.
    pub fn end_evicted(&mut self, now_ms: u64) -> Result<Option<Unit>, Refusal> {
        let rules = self.settings.rules;
        let is_due = |key: &crate::key::Key| {
            key.time(&rules).is_some_and(|(giver, until)| until <= now_ms && self.expires(giver))
        };
        let due = self.state.keys.all_hidden().filter(|(_, _, key)| is_due(key));
        let mut due: Vec<(u32, Name, Change)> = due
            .map(|(database, name, key)| (database, name.into(), Change::Remove { seen: key.seen() }))
            .collect();
        // Sorted, so that a seed always gives the same history.
        due.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
        self.execute(now_ms, |transaction| {
            for (database, name, change) in due {
                transaction.change(database, &name, change);
            }
        })
    }

    /// Starts a save of the present state. Aborts any save or digest in progress.
    pub(crate) fn begin_saving(&mut self) -> u64 {
        let mut bytes = Vec::new();
        self.state.vector.store(&mut bytes);
        self.state.keys.begin_saving(bytes)
    }

    /// Starts a digest of the present state. Aborts any save or digest in progress.
    pub(crate) fn begin_digest(&mut self) -> u64 {
        self.state.keys.begin_digest(self.settings.rules)
    }

    /// The next piece, and whether it is the last; `None` if the save or digest was aborted.
    pub(crate) fn take_piece(&mut self, number: u64, bytes: usize) -> Option<(Vec<u8>, bool)> {
        self.state.keys.take_piece(number, bytes)
    }

    /// Aborts the save or digest.
    pub fn stop_saving(&mut self) {
        self.state.keys.stop_saving();
    }

    /// True if this region has to remove a key or element that ends by a time with this stamp.
    pub(crate) fn expires(&self, stamp: Stamp) -> bool {
        let giver = stamp.region();
        let owner = if self.gone >> giver.number() & 1 == 0 {
            Some(giver)
        } else {
            self.others().into_iter().chain([self.region()]).min()
        };
        owner == Some(self.region()) || !self.settings.rules.one_region_expires
    }

    /// Removes what the keyspace has ended and this region has to remove now, because the region
    /// that gave the time has been removed.
    ///
    /// # Errors
    /// [`Refusal::Ceiling`] if a higher ceiling must be on disk first.
    pub fn remove_inherited(&mut self, now_ms: u64) -> Result<Option<Unit>, Refusal> {
        let due = self.ended.given_by(|stamp| self.expires(stamp));
        self.execute(now_ms, |transaction| {
            for (database, name, element) in &due {
                transaction.end(*database, name, element.as_deref());
            }
        })
    }
}

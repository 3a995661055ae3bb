// SPDX-License-Identifier: BSD-3-Clause
//! Merges a full copy of another replica part by part, while clients write.
//!
//! The applied vector covers all keys together, and gets the copy's only once all keys are merged.
//! Until then an effect on a key that has been merged has seen the copy, and one on another key has
//! not. Either is exactly what its region has seen of that key, and a removal removes just that. A
//! unit may have effects of both kinds ([`crate::effect::SeenLess`]).
//!
//! Invariant: what is acknowledged never exceeds the applied vector. A region that acknowledged
//! the copy at its beginning could still make a unit that had not seen it.
//!
//! Keys are merged by the buckets of their names' hashes, in order, so one comparison tells whether
//! a key has been merged.

use crate::Name;
use crate::cell::Sides;
use crate::effect::Effect;
use crate::hidden::flushes;
use crate::keys::Changes;
use crate::lost::Lost;
use crate::merge_progress::MergeProgress;
use crate::replica::{Refusal, Replica, State};
use crate::stamp::Stamp;
use crate::vector::{Run, Vector};

impl Replica {
    /// Begins to merge a full copy of another replica. Until all parts are merged, nothing of other
    /// regions may be applied, and nothing saved.
    ///
    /// # Errors
    /// As [`Replica::apply`], for any of the regions in the copy. Nothing has changed then.
    pub fn begin_merge(&mut self, now_ms: u64, theirs: &State) -> Result<(), Refusal> {
        self.check_copy(now_ms, &theirs.vector)?;
        let mut joined = self.vector().clone();
        joined.join(&theirs.vector);
        let databases = self.state.keys.buckets_with(&theirs.keys);
        self.merging = Some(Box::new(MergeProgress::begin(joined, databases)));
        self.state.keys.horizon = self.state.keys.horizon.max(theirs.keys.horizon);
        // Clients' changes win over those in the copy from now on.
        self.observe(theirs.vector.latest());
        Ok(())
    }

    /// True if a copy has begun to be merged and has parts left.
    pub fn is_merging(&self) -> bool {
        self.merging.is_some()
    }

    /// The part of the copy that is left, in percent; 0 if none is being merged.
    pub fn copy_left_percent(&self) -> u64 {
        self.merging.as_ref().map_or(0, |merging| merging.left_percent())
    }

    /// True if the next part takes long.
    pub fn next_part_is_large(&self, theirs: &State) -> bool {
        let part = self.merging.as_ref().and_then(|merging| merging.part());
        part.is_some_and(|part| self.state.keys.is_large_with(&theirs.keys, part))
    }

    /// Merges the next part of the copy, which must be the one that was begun with.
    pub fn merge_part(&mut self, theirs: &State) {
        self.merge_part_noting(theirs, |_, _| ());
    }

    /// [`Replica::merge_part`] that calls `note` before it makes the changes.
    pub(crate) fn merge_part_noting<'t>(
        &mut self,
        theirs: &'t State,
        note: impl FnOnce(&Replica, &Changes<'t>),
    ) {
        let Some(part) = self.merging.as_ref().and_then(|merging| merging.part()) else {
            return self.end_merge(theirs);
        };
        let rules = self.settings.rules;
        let sides = Sides {
            mine: &self.state.vector,
            theirs: &theirs.vector,
            lost: &Lost::none(),
            horizon: Stamp::ZERO,
            rules: &rules,
        };
        let changes = self.state.keys.changes_by(&theirs.keys, &sides, part);
        note(self, &changes);
        let merged = changes.merged.iter().map(|(database, name, _)| (*database, name.clone()));
        let new = changes.new.iter().map(|(database, name, _)| (*database, (*name).into()));
        let touched: Vec<_> = match self.ended.is_empty() {
            true => Vec::new(),
            false => merged.chain(changes.evicted.iter().cloned()).chain(new).collect(),
        };
        self.state.keys.merge(changes, &theirs.keys, &sides);
        touched.iter().for_each(|(database, name)| self.review_key(*database, name));
        if let Some(merging) = &mut self.merging {
            merging.advance();
            if merging.part().is_none() {
                self.end_merge(theirs);
            }
        }
    }

    fn end_merge(&mut self, theirs: &State) {
        if self.merging.take().is_some() {
            self.state.vector.join(&theirs.vector);
        }
    }

    /// True if the copy that is being merged has a key in reach of this effect that has not been
    /// merged, so that the effect has not seen the copy.
    pub(crate) fn has_unmerged(&self, effect: &Effect) -> bool {
        let by_key = self.settings.rules.copies_are_seen_by_key;
        let Some(merging) = self.merging.as_ref().filter(|_| by_key) else { return false };
        match effect {
            Effect::Key { database, name, .. } => !merging.has_merged(*database, self.hash(name)),
            Effect::Flush { database, .. } => merging.has_unmerged_of(*database),
        }
    }

    /// This region's run now extends to a unit that it has made.
    pub(crate) fn note_own(&mut self, run: Run) {
        self.state.vector.add(run);
        if let Some(merging) = &mut self.merging {
            merging.note_own(run);
        }
    }

    /// The merged keys that a flush would have to remove, besides those it has seen without the
    /// copy. Empty if it has seen the copy.
    pub(crate) fn merged_keys(&self, flushed: Option<u32>) -> Vec<(u32, Name)> {
        let Some(merging) = self.merging.as_ref().filter(|merging| merging.has_unmerged_of(flushed)) else {
            return Vec::new();
        };
        let keys = self.state.keys.names().chain(self.state.keys.evicted_names());
        let keys = keys.filter(|(database, name)| {
            flushes(flushed, *database) && merging.has_merged(*database, self.hash(name))
        });
        let mut keys: Vec<(u32, Name)> = keys.map(|(database, name)| (database, name.into())).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// The applied vector, with the copy that is being merged.
    pub fn vector_with_copy(&self) -> &Vector {
        self.merging.as_ref().map_or(&self.state.vector, |merging| merging.joined())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, replica};
    use crate::view::View;
    use crate::{Bytes, Transaction};

    fn name(text: &str) -> Name {
        text.as_bytes().into()
    }

    fn bytes(text: &str) -> Bytes {
        text.as_bytes().into()
    }

    /// Merges parts until `is_enough`.
    fn merge_until(replica: &mut Replica, copy: &State, is_enough: impl Fn(&Replica) -> bool) {
        while !is_enough(replica) {
            assert!(replica.is_merging());
            replica.merge_part(copy);
        }
    }

    /// A transaction on a key that has been merged and one that has not, and what it removes: the
    /// former's value from the copy, and not the latter's.
    #[test]
    fn effects_have_seen_the_copy_by_key() {
        let (mut one, mut two) = (replica(1), replica(2));
        let names: Vec<Name> = (0..200).map(|number| name(&number.to_string())).collect();
        let fill = |transaction: &mut Transaction<'_>| {
            names.iter().for_each(|name| transaction.set_add(0, name, bytes("one")));
        };
        let filled = one.execute(NOW, fill).unwrap().unwrap();
        two.begin_merge(NOW, one.state()).unwrap();
        merge_until(&mut two, one.state(), |two| names.iter().any(|name| two.key(0, name).is_some()));
        let is_merged = |two: &Replica, name: &Name| two.key(0, name).is_some();
        let merged = names.iter().find(|name| is_merged(&two, name)).unwrap();
        let other = names.iter().find(|name| !is_merged(&two, name)).unwrap();
        let unit = two.execute(NOW + 1, |transaction| {
            for name in [merged, other] {
                transaction.remove(0, name);
                transaction.set_add(0, name, bytes("two"));
            }
        });
        let unit = unit.unwrap().unwrap();
        let less = unit.seen_less.as_ref().expect("effects of both kinds");
        assert_eq!((less.effects.len(), unit.effects.len()), (2, 5));
        let flush = two.execute(NOW + 2, |transaction| transaction.flush(Some(1))).unwrap().unwrap();
        assert_eq!((flush.effects.len(), &flush.seen_less), (1, &None));
        merge_until(&mut two, one.state(), |two| !two.is_merging());
        one.apply(NOW, &unit).unwrap();
        one.apply(NOW, &flush).unwrap();
        // A server that has seen neither needs the copy's units first.
        let mut three = replica(3);
        assert!(matches!(three.apply(NOW, &unit), Ok(crate::Applied::Early(_))));
        for unit in [&filled, &unit, &flush] {
            assert_eq!(three.apply(NOW, unit), Ok(crate::Applied::Now));
        }
        for replica in [&one, &two, &three] {
            let members = |name| match replica.view(0, name) {
                Some(View::Set(members)) => members.into_iter().map(|(member, _)| member).collect::<Vec<_>>(),
                other => panic!("{other:?}"),
            };
            assert_eq!(members(merged), [bytes("two")]);
            assert_eq!(members(other), [bytes("one"), bytes("two")]);
            assert_eq!(replica.digest(), one.digest());
        }
    }

    /// A flush while a copy is being merged removes the keys that have been merged, and no others.
    #[test]
    fn a_flush_has_seen_the_merged_keys() {
        let (mut one, mut two) = (replica(1), replica(2));
        let names: Vec<Name> = (0..200).map(|number| name(&number.to_string())).collect();
        let fill = |transaction: &mut Transaction<'_>| {
            names.iter().for_each(|name| transaction.set(0, name, "one", None));
        };
        one.execute(NOW, fill).unwrap();
        two.begin_merge(NOW, one.state()).unwrap();
        merge_until(&mut two, one.state(), |two| two.views().count() > 50);
        let merged = two.views().count();
        let flush = two.execute(NOW, |transaction| transaction.flush(None)).unwrap().unwrap();
        assert_eq!(two.views().count(), 0);
        merge_until(&mut two, one.state(), |two| !two.is_merging());
        one.apply(NOW, &flush).unwrap();
        assert_eq!((one.views().count(), two.views().count()), (200 - merged, 200 - merged));
        assert_eq!(one.digest(), two.digest());
    }

    /// Garbage that came with the copy is not dropped when all regions have acknowledged what was
    /// applied before: a region that has seen only the winner may still remove it.
    #[test]
    fn garbage_of_the_copy_waits() {
        let [mut one, mut two, mut three, mut four, mut five] = [1, 2, 3, 4, 5].map(replica);
        let names: Vec<Name> = (0..200).map(|number| name(&number.to_string())).collect();
        let set = |replica: &mut Replica, now, names: &[Name], value: &str| {
            let set = |transaction: &mut Transaction<'_>| {
                names.iter().for_each(|name| transaction.set(0, name, value, None));
            };
            replica.execute(now, set).unwrap().unwrap()
        };
        let before = set(&mut two, NOW, &[name("before")], "two");
        for replica in [&mut one, &mut three, &mut four, &mut five] {
            replica.apply(NOW, &before).unwrap();
            two.acknowledge(replica.region(), replica.vector().clone());
        }
        let lost = set(&mut one, NOW + 1, &names, "lost");
        let won = set(&mut three, NOW + 2, &names, "won");
        for unit in [&lost, &won] {
            four.apply(NOW, unit).unwrap();
        }
        two.begin_merge(NOW, four.state()).unwrap();
        let first = |two: &Replica| names.iter().find(|name| two.key(0, name).is_some()).cloned();
        merge_until(&mut two, four.state(), |two| first(two).is_some());
        assert!(two.is_merging());
        let key = first(&two).unwrap();
        two.collect_garbage();
        five.apply(NOW, &won).unwrap();
        let removed = five.execute(NOW + 3, |transaction| transaction.remove(0, &key)).unwrap().unwrap();
        merge_until(&mut two, four.state(), |two| !two.is_merging());
        two.apply(NOW, &removed).unwrap();
        assert_eq!(two.view(0, &key), Some(View::String(bytes("lost"))));
    }
}

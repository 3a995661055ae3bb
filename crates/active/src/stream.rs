// SPDX-License-Identifier: BSD-3-Clause
//! Streams: the entries of all regions in order of their IDs. Generated IDs encode the region, so
//! two regions never give the same one. XDEL and XTRIM remove the entries they saw.
//!
//! XGROUP DESTROY removes a group permanently: concurrent reads and acknowledgements do not bring
//! it back, since these effects name the creation that they belong to. Groups of the same name
//! that two regions have created are shown as one. A delivered entry is pending; XACK removes the
//! deliveries that it saw.

use crate::stored::stored;
use std::collections::BTreeMap;

use crate::Bytes;
use crate::cell::{At, Cell, CellChange, Sides};
use crate::elements::Elements;
use crate::rules::Rules;
use crate::stamp::{REGIONS, Region, Stamp, sort_few};

/// A stream with more entries, pending ones counted again, is large.
const LARGE: usize = 2_000;

/// An entry's ID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Id {
    pub ms: u64,
    pub sequence: u64,
}

impl Id {
    /// The next ID that a region generates: its sequence modulo 64 is the region's number.
    pub fn next(last: Id, now_ms: u64, region: Region) -> Option<Id> {
        let (regions, number) = (u64::from(REGIONS), u64::from(region.number()));
        if now_ms > last.ms {
            return Some(Id { ms: now_ms, sequence: number });
        }
        let round = last.sequence - last.sequence % regions + number;
        let sequence = if round > last.sequence { Some(round) } else { round.checked_add(regions) };
        match sequence {
            Some(sequence) => Some(Id { ms: last.ms, sequence }),
            None => Some(Id { ms: last.ms.checked_add(1)?, sequence: number }),
        }
    }
}

/// Alternating fields and values.
pub type Fields = Box<[Bytes]>;

/// A delivery that has not been acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pending {
    pub consumer: Bytes,
    pub delivered_ms: u64,
    pub count: u64,
}

impl Pending {
    /// True if the entry has no consumer: it was released by XNACK.
    pub(crate) fn is_released(&self) -> bool {
        self.consumer.is_empty() && self.delivered_ms == 0
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum StreamChange {
    Entry(Id, CellChange<Fields>),
    /// The last ID, by XADD, XSETID or the creation of an empty stream.
    Last(Id),
    Group(Bytes, GroupChange),
}

/// A change of a group. `created` identifies the creation of the group.
#[derive(Clone, PartialEq, Debug)]
pub enum GroupChange {
    Create {
        delivered: Id,
    },
    Destroy,
    /// Sets the position up to which the group has read. `since` is the stamp of the creation or
    /// XGROUP SETID from which it counts; `None` if this is itself a SETID.
    Deliver {
        created: Stamp,
        since: Option<Stamp>,
        id: Id,
    },
    Pending {
        created: Stamp,
        id: Id,
        pending: Pending,
    },
    /// XACK, in all creations of the group that it saw.
    Acknowledge {
        id: Id,
    },
    Consumer {
        created: Stamp,
        name: Bytes,
        is_there: bool,
    },
}

/// One creation of a group.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    created: Stamp,
    /// The last ID delivered since a SETID or the creation; a later SETID wins, then the larger ID.
    delivered: (Stamp, Id),
    pending: Elements<Id, Pending>,
    consumers: Elements<Bytes, ()>,
}

/// A group as clients see it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GroupView {
    pub delivered: Id,
    pub pending: BTreeMap<Id, Pending>,
    pub consumers: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Stream {
    last: Cell<Id>,
    entries: Elements<Id, Fields>,
    groups: BTreeMap<Bytes, Vec<Group>>,
}

impl Group {
    fn new(created: Stamp, delivered: Id) -> Group {
        Group {
            created,
            delivered: (created, delivered),
            pending: Elements::default(),
            consumers: Elements::default(),
        }
    }

    fn merge(&mut self, theirs: &Group, sides: &Sides) {
        self.delivered = self.delivered.max(theirs.delivered);
        self.pending.merge(&theirs.pending, sides);
        self.consumers.merge(&theirs.consumers, sides);
    }

    pub fn created(&self) -> Stamp {
        self.created
    }

    /// The stamp of the creation or SETID from which it counts, and the ID up to which it has
    /// read.
    pub fn delivered(&self) -> (Stamp, Id) {
        self.delivered
    }
}

impl Stream {
    /// Visits the stamps of everything.
    pub(crate) fn each_stamp(&self, note: &mut dyn FnMut(Stamp)) {
        self.last.each_stamp(note);
        self.entries.each_stamp(note);
        for group in self.groups.values().flatten() {
            note(group.created);
            note(group.delivered.0);
            group.pending.each_stamp(note);
            group.consumers.each_stamp(note);
        }
    }

    /// The visible entries.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = (Id, &Fields)> {
        self.entries.iter().filter_map(|(id, cell)| Some((*id, cell.base()?)))
    }

    /// An entry, if it is visible.
    pub(crate) fn entry(&self, id: Id) -> Option<&Fields> {
        self.entries.get(&id)?.base()
    }

    pub fn last_id(&self) -> Id {
        let last = self.entries().next_back().map(|(id, _)| id);
        self.last.base().copied().max(last).unwrap_or_default()
    }

    /// True if the last ID is recorded separately from the entry that has it.
    pub fn records_last_id(&self) -> bool {
        self.last.base() == Some(&self.last_id())
    }

    /// The creations of a group, oldest first.
    pub fn creations(&self, name: &[u8]) -> &[Group] {
        self.groups.get(name).map_or(&[], |groups| groups)
    }

    pub fn group_names(&self) -> impl Iterator<Item = &Bytes> {
        self.groups.keys()
    }

    pub fn group(&self, name: &[u8]) -> Option<GroupView> {
        let creations = self.groups.get(name)?;
        let mut view = GroupView::default();
        let mut stamps: BTreeMap<Id, Stamp> = BTreeMap::new();
        for group in creations {
            view.delivered = view.delivered.max(group.delivered.1);
            for (id, cell) in group.pending.iter() {
                let (Some(stamp), Some(pending)) = (cell.stamp(), cell.base()) else { continue };
                if stamps.get(id).is_none_or(|other| *other < stamp) {
                    stamps.insert(*id, stamp);
                    view.pending.insert(*id, pending.clone());
                }
            }
            view.consumers.extend(group.consumers.iter().map(|(name, _)| name.clone()));
        }
        view.consumers.sort_unstable();
        view.consumers.dedup();
        Some(view)
    }

    /// See [`Members::is_large`](crate::members::Members::is_large).
    pub fn is_large(&self) -> bool {
        let pending = self.groups.values().flatten().map(|group| group.pending.len()).sum::<usize>();
        self.entries.len() + pending > LARGE
    }

    pub fn is_live(&self) -> bool {
        self.last.is_live() || self.entries.is_live() || !self.groups.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.last.is_empty() && self.entries.is_empty() && self.groups.is_empty()
    }

    /// Applies a change. Returns true if the changed part now holds garbage.
    pub fn apply(&mut self, at: &At, change: StreamChange) -> bool {
        match change {
            StreamChange::Entry(id, change) => self.entries.apply(at, id, change),
            StreamChange::Last(id) => {
                self.last.apply(at, CellChange::Put { value: id, time: None, seen: Vec::new() })
            }
            StreamChange::Group(name, change) => self.apply_to_group(at, name, change),
        }
    }

    fn apply_to_group(&mut self, at: &At, name: Bytes, change: GroupChange) -> bool {
        let mut has_garbage = false;
        let creations = self.groups.entry(name.clone()).or_default();
        let find = |creations: &mut Vec<Group>, created: Stamp| {
            creations.iter().position(|group| group.created == created)
        };
        match change {
            GroupChange::Create { delivered } => {
                creations.push(Group::new(at.stamp, delivered));
                sort_few(creations, |group| group.created);
            }
            GroupChange::Destroy => creations.retain(|group| !at.removes(group.created)),
            // A change of a creation that has been destroyed has no effect.
            GroupChange::Deliver { created, since, id } => {
                if let Some(index) = find(creations, created) {
                    let group = &mut creations[index];
                    group.delivered = group.delivered.max((since.unwrap_or(at.stamp), id));
                }
            }
            GroupChange::Pending { created, id, pending } => {
                if let Some(index) = find(creations, created) {
                    let change = CellChange::Put { value: pending, time: None, seen: Vec::new() };
                    has_garbage = creations[index].pending.apply(at, id, change);
                }
            }
            GroupChange::Acknowledge { id } => {
                for group in creations.iter_mut() {
                    has_garbage |= group.pending.apply(at, id, CellChange::Remove { seen: Vec::new() });
                }
            }
            GroupChange::Consumer { created, name, is_there } => {
                if let Some(index) = find(creations, created) {
                    let seen = Vec::new();
                    let change = if is_there {
                        CellChange::Put { value: (), time: None, seen }
                    } else {
                        CellChange::Remove { seen }
                    };
                    has_garbage = creations[index].consumers.apply(at, name, change);
                }
            }
        }
        if creations.is_empty() {
            self.groups.remove(&name);
        }
        has_garbage
    }

    pub fn remove_all(&mut self, at: &At) {
        self.last.remove(at, &[]);
        self.entries.remove_all(at, std::iter::empty());
        self.groups.retain(|_, creations| {
            creations.retain(|group| !at.removes(group.created));
            !creations.is_empty()
        });
    }

    pub fn merge(&mut self, theirs: &Stream, sides: &Sides) {
        self.last.merge(&theirs.last, sides);
        self.entries.merge(&theirs.entries, sides);
        for (name, others) in &theirs.groups {
            let creations = self.groups.entry(name.clone()).or_default();
            for other in others {
                match creations.iter_mut().find(|group| group.created == other.created) {
                    Some(group) => group.merge(other, sides),
                    None if sides.removed_here(other.created) => {}
                    None => creations.push(other.clone()),
                }
            }
            sort_few(creations, |group| group.created);
        }
        self.groups.retain(|name, creations| {
            let others = theirs.creations(name);
            creations.retain(|group| {
                let is_there = others.iter().any(|other| other.created == group.created);
                is_there || !sides.removed_there(group.created)
            });
            !creations.is_empty()
        });
    }

    pub fn has_garbage(&self, rules: &Rules) -> bool {
        let mut groups = self.groups.values().flatten();
        self.last.has_garbage(rules)
            || self.entries.has_garbage(rules)
            || groups.any(|group| group.pending.has_garbage(rules) || group.consumers.has_garbage(rules))
    }

    pub fn collect_garbage(&mut self, rules: &Rules) -> usize {
        let groups = self.groups.values_mut().flatten();
        let of_groups: usize = groups
            .map(|group| group.pending.collect_garbage(rules) + group.consumers.collect_garbage(rules))
            .sum();
        self.last.collect_garbage(rules) + self.entries.collect_garbage(rules) + of_groups
    }
}

stored!(Id { ms, sequence });
stored!(Pending { consumer, delivered_ms, count });
stored!(Group { created, delivered, pending, consumers });
stored!(Stream { last, entries, groups });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_regions_never_collide() {
        let region = |number| Region::new(number).unwrap();
        let mut last = Id { ms: 5, sequence: 7 };
        for (number, expected) in [(7, 71), (8, 72), (3, 131), (63, 191), (0, 192)] {
            last = Id::next(last, 4, region(number)).unwrap();
            assert_eq!((last.ms, last.sequence), (5, expected));
            assert_eq!(last.sequence % 64, u64::from(number));
        }
        assert_eq!(Id::next(last, 9, region(2)), Some(Id { ms: 9, sequence: 2 }));
        let end = Id { ms: 9, sequence: u64::MAX };
        assert_eq!(Id::next(end, 9, region(2)), Some(Id { ms: 10, sequence: 2 }));
        assert_eq!(Id::next(Id { ms: u64::MAX, ..end }, 9, region(2)), None);
    }
}

// SPDX-License-Identifier: BSD-3-Clause
//! The decoder. Its input is untrusted: it must never panic, nor allocate more than the bytes can
//! fill.

use std::ops::Range;

use super::DecodeError::{self, Damaged, Short, Trailing};
use super::{STEPS_MAX, VERSION, VERSION_SEEN_LESS, tag};
use crate::amount::Amount;
use crate::cell::{CellChange, Sum, Time};
use crate::change::{Change, Kind, SeenAt, Written};
use crate::effect::{Effect, Effects, FlushSeen, SeenLess, Unit, Write};
use crate::hyperloglog::{RANK_MAX, REGISTERS};
use crate::position::{Position, Side, Step};
use crate::stamp::{Region, Stamp};
use crate::stream::{GroupChange, Id, Pending, StreamChange};
use crate::tally::SeenTally;
use crate::vector::{Run, Vector};
use crate::{Bytes, Name, Text};

type Result<T> = std::result::Result<T, DecodeError>;

struct Reader<'a> {
    rest: &'a [u8],
    first: Stamp,
    /// The stamp of the effect being read.
    stamp: Stamp,
}

/// The changes that a type's cells allow.
#[derive(Clone, Copy)]
struct Allowed {
    add: bool,
    live: bool,
}

const NUMBERS: Allowed = Allowed { add: true, live: true };
/// Increments of a vector would not show.
const PARTS: Allowed = Allowed { add: true, live: false };
const MEMBERS: Allowed = Allowed { add: false, live: true };
const PLAIN: Allowed = Allowed { add: false, live: false };

/// # Errors
/// As [`crate::wire::decode`].
pub fn decode(bytes: &[u8]) -> Result<Unit> {
    let mut reader = Reader::new(bytes);
    let (version, (first, previous, starts_run)) = (reader.version()?, reader.stamps()?);
    let seen = reader.vector()?;
    let count = reader.count(1)?;
    let seen_less = match version {
        VERSION_SEEN_LESS => Some(Box::new(reader.seen_less(&seen, count)?)),
        _ => None,
    };
    let mut effects = Effects::with_capacity(count);
    let mut key: Option<(u32, Name)> = None;
    for _ in 0..count {
        let effect = reader.effect(&mut key)?;
        reader.stamp = reader.stamp.plus(effect.stamps());
        effects.push(effect);
    }
    if !reader.rest.is_empty() {
        return Err(Trailing(reader.rest.len()));
    }
    Ok(Unit { first, previous, starts_run, seen, effects, seen_less })
}

/// # Errors
/// As [`crate::wire::first`].
pub fn first(bytes: &[u8]) -> Result<Stamp> {
    let mut reader = Reader::new(bytes);
    reader.version()?;
    Ok(reader.stamps()?.0)
}

/// The plain write that a unit consists of; `None` for other units.
///
/// # Errors
/// If the bytes end early, have another version, or are damaged.
pub fn decode_write(bytes: &[u8]) -> Result<Option<Write>> {
    let mut reader = Reader::new(bytes);
    if reader.version()? != VERSION {
        return Ok(None);
    }
    let (first, previous, starts_run) = reader.stamps()?;
    let seen = reader.vector()?;
    if reader.count(1)? != 1 {
        return Ok(None);
    }
    let kind = reader.byte()?;
    if !matches!(kind, tag::STRING | tag::HASH | tag::SET | tag::SORTED_SET) {
        return Ok(None);
    }
    let text = |reader: &mut Reader<'_>| -> Result<Range<usize>> {
        let len = reader.text()?.len();
        let end = bytes.len() - reader.rest.len();
        Ok(end - len..end)
    };
    let database = reader.database()?;
    let name = text(&mut reader)?;
    let element = if kind == tag::STRING { 0..0 } else { text(&mut reader)? };
    let written = match (reader.byte()?, kind) {
        (tag::CELL_ADD, tag::STRING) => Written::Sum(reader.sum()?),
        (tag::CELL_PUT, _) => {
            if reader.count(4)? != 0 {
                return Ok(None);
            }
            match kind {
                tag::STRING => Written::Text(text(&mut reader)?),
                tag::HASH => Written::Field(element, text(&mut reader)?),
                tag::SET => Written::Member(element),
                _ => Written::Score(element, reader.score()?),
            }
        }
        _ => return Ok(None),
    };
    let write = Write { first, previous, starts_run, seen, database, name, written };
    Ok(reader.rest.is_empty().then_some(write))
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes, first: Stamp::ZERO, stamp: Stamp::ZERO }
    }

    fn version(&mut self) -> Result<u8> {
        match self.byte()? {
            version @ (VERSION | VERSION_SEEN_LESS) => Ok(version),
            other => Err(DecodeError::Version(other)),
        }
    }

    /// What comes next: the first stamp of a unit, the last stamp before it, and whether it starts
    /// a run.
    fn stamps(&mut self) -> Result<(Stamp, Stamp, bool)> {
        let first = Stamp::from_word(self.word()?).ok_or(Damaged("a stamp out of range"))?;
        (self.first, self.stamp) = (first, first);
        let distance = self.number()?;
        let previous = u64::try_from(distance >> 1)
            .ok()
            .and_then(|distance| first.position().checked_sub(distance).filter(|_| distance > 0))
            .and_then(|position| Stamp::of(first.region(), position))
            .ok_or(Damaged("a stamp before the first"))?;
        Ok((first, previous, distance & 1 == 1))
    }

    fn byte(&mut self) -> Result<u8> {
        let (byte, rest) = self.rest.split_first().ok_or(Short)?;
        self.rest = rest;
        Ok(*byte)
    }

    fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN]> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(Short)?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn word(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn number(&mut self) -> Result<u128> {
        let mut number = 0;
        for shift in (0..128).step_by(7) {
            let byte = self.byte()?;
            let bits = u128::from(byte & 0x7f);
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                return Err(Damaged("a number not in its shortest form"));
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Damaged("a number out of range"))
    }

    fn number_u64(&mut self) -> Result<u64> {
        u64::try_from(self.number()?).map_err(|_| Damaged("a number out of range"))
    }

    fn database(&mut self) -> Result<u32> {
        u32::try_from(self.number()?).map_err(|_| Damaged("a database out of range"))
    }

    fn signed(&mut self) -> Result<i128> {
        let number = self.number()?;
        Ok((number >> 1) as i128 ^ -((number & 1) as i128))
    }

    /// A count of items that have at least `bytes_min` bytes each.
    fn count(&mut self, bytes_min: usize) -> Result<usize> {
        let count = usize::try_from(self.number()?).map_err(|_| Short)?;
        let fits = count.checked_mul(bytes_min).is_some_and(|bytes| bytes <= self.rest.len());
        if fits { Ok(count) } else { Err(Short) }
    }

    fn list<T>(&mut self, bytes_min: usize, mut one: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.count(bytes_min)?;
        (0..count).map(|_| one(self)).collect()
    }

    fn text(&mut self) -> Result<&'a [u8]> {
        let len = self.count(1)?;
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Short)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn bytes(&mut self) -> Result<Bytes> {
        Ok(self.text()?.into())
    }

    fn stamp(&mut self) -> Result<Stamp> {
        let region = Region::new(self.byte()?).ok_or(Damaged("a region out of range"))?;
        let distance = self.signed()?;
        let position = i128::from(self.first.position()).checked_sub(distance);
        position
            .and_then(|position| u64::try_from(position).ok())
            .and_then(|position| Stamp::of(region, position))
            .ok_or(Damaged("a stamp out of range"))
    }

    fn vector(&mut self) -> Result<Vector> {
        let mut vector = Vector::default();
        let mut before: Option<Run> = None;
        for _ in 0..self.count(3)? {
            let last = self.stamp()?;
            let position = self.number_u64()?;
            let start = Stamp::of(last.region(), position).ok_or(Damaged("a stamp out of range"))?;
            let run = Run { start, last };
            if !run.can_be() || before.is_some_and(|before| !before.may_precede(&run)) {
                return Err(Damaged("runs out of order"));
            }
            before = Some(run);
            vector.add(run);
        }
        Ok(vector)
    }

    /// The effects, out of `count`, that had seen less than `seen`.
    fn seen_less(&mut self, seen: &Vector, count: usize) -> Result<SeenLess> {
        let less = self.vector()?;
        if less == *seen || !seen.includes(&less) {
            return Err(Damaged("effects that had not seen less"));
        }
        let mut effects: Vec<u32> = Vec::new();
        for _ in 0..self.count(1)? {
            let number = u32::try_from(self.number()?).ok().filter(|number| (*number as usize) < count);
            let number = number.filter(|number| effects.last().is_none_or(|last| last < number));
            effects.push(number.ok_or(Damaged("a number of an effect out of order"))?);
        }
        match (1..count).contains(&effects.len()) {
            true => Ok(SeenLess { seen: less, effects }),
            false => Err(Damaged("all effects or none had seen less")),
        }
    }

    fn amount(&mut self) -> Result<Amount> {
        Ok(Amount::from_steps(self.signed()?))
    }

    fn time(&mut self) -> Result<Time> {
        Ok(match self.number()? {
            0 => Time::Never,
            time => Time::At(u64::try_from(time - 1).map_err(|_| Damaged("a time out of range"))?),
        })
    }

    fn id(&mut self) -> Result<Id> {
        Ok(Id { ms: self.number_u64()?, sequence: self.number_u64()? })
    }

    fn kind(&mut self) -> Result<Kind> {
        let number = self.byte()?;
        Kind::ALL.get(usize::from(number)).copied().ok_or(Damaged("an unknown type"))
    }

    fn tally(&mut self) -> Result<SeenTally> {
        let start = self.stamp()?;
        let distance = self.number_u64()?;
        let position = start.position().checked_add(distance).ok_or(Damaged("a stamp out of range"))?;
        let last = Stamp::of(start.region(), position).ok_or(Damaged("a stamp out of range"))?;
        Ok(SeenTally { start, last, sum: self.amount()? })
    }

    fn seen_at(&mut self) -> Result<SeenAt> {
        Ok(SeenAt { kind: self.kind()?, element: self.bytes()?, tally: self.tally()? })
    }

    fn sum(&mut self) -> Result<Sum> {
        let start = self.stamp()?;
        if start.region() != self.first.region() || start > self.stamp {
            return Err(Damaged("an increment of another region's tally, or of a later one"));
        }
        Ok(Sum { start, before: self.amount()?, sum: self.amount()? })
    }

    fn score(&mut self) -> Result<f64> {
        let score = f64::from_bits(self.word()?);
        if score.is_nan() { Err(Damaged("a score that is not a number")) } else { Ok(score) }
    }

    fn cell<V>(
        &mut self,
        allowed: Allowed,
        value: impl FnOnce(&mut Self) -> Result<V>,
    ) -> Result<CellChange<V>> {
        let kind = self.byte()?;
        Ok(match kind {
            tag::CELL_PUT | tag::CELL_PUT_UNTIL => {
                let time = if kind == tag::CELL_PUT_UNTIL { Some(self.number_u64()?) } else { None };
                if time.is_some() && !allowed.live {
                    return Err(Damaged("an unexpected time"));
                }
                let seen = self.list(4, Self::tally)?;
                CellChange::Put { value: value(self)?, time, seen }
            }
            tag::CELL_REMOVE => CellChange::Remove { seen: self.list(4, Self::tally)? },
            tag::CELL_ADD if allowed.add => CellChange::Add(self.sum()?),
            tag::CELL_LIVE if allowed.live => CellChange::Live(self.time()?),
            _ => return Err(Damaged("an unknown change of a value")),
        })
    }

    fn effect(&mut self, key: &mut Option<(u32, Name)>) -> Result<Effect> {
        let kind = self.byte()?;
        if let tag::FLUSH | tag::FLUSH_ALL = kind {
            let database = if kind == tag::FLUSH { Some(self.database()?) } else { None };
            let seen = self.list(6, |reader| {
                Ok(FlushSeen {
                    database: reader.database()?,
                    name: reader.bytes()?.into(),
                    at: reader.seen_at()?,
                })
            })?;
            return Ok(Effect::Flush { database, seen });
        }
        if kind & tag::SAME_KEY == 0 {
            let named = Some((self.database()?, self.bytes()?.into()));
            if named == *key {
                return Err(Damaged("a repeated key"));
            }
            *key = named;
        }
        let (database, name) = key.clone().ok_or(Damaged("an effect without a key"))?;
        let change = self.change(kind & !tag::SAME_KEY)?;
        Ok(Effect::Key { database, name, change })
    }

    fn change(&mut self, kind: u8) -> Result<Change> {
        Ok(match kind {
            tag::REMOVE => Change::Remove { seen: self.list(6, Self::seen_at)? },
            tag::CLEAR => Change::Clear { kind: self.kind()?, seen: self.list(6, Self::seen_at)? },
            tag::LIVE => Change::Live(self.time()?),
            tag::STRING => match self.cell(NUMBERS, |reader| Ok(Text::from_slice(reader.text()?)))? {
                // The time of a string belongs to its key.
                CellChange::Live(_) => return Err(Damaged("an unexpected time")),
                change => Change::String(change),
            },
            tag::HASH => Change::Hash(self.bytes()?, self.cell(NUMBERS, Self::bytes)?),
            tag::PART => {
                let kind = self.kind()?;
                if !kind.has_parts() {
                    return Err(Damaged("a type without parts"));
                }
                Change::Part(kind, self.bytes()?, self.cell(PARTS, Self::bytes)?)
            }
            tag::SET => Change::Set(self.bytes()?, self.cell(MEMBERS, |_| Ok(()))?),
            tag::SORTED_SET => Change::SortedSet(self.bytes()?, self.cell(NUMBERS, Self::score)?),
            tag::PUSH_LEFT | tag::PUSH_RIGHT => {
                let side = if kind == tag::PUSH_LEFT { Side::Left } else { Side::Right };
                Change::Push { side, values: self.list(1, Self::bytes)? }
            }
            tag::ELEMENT => Change::Element(self.place()?, self.cell(PLAIN, Self::bytes)?),
            tag::ENTRY => {
                let fields = |reader: &mut Self| Ok(reader.list(1, Self::bytes)?.into());
                Change::Stream(StreamChange::Entry(self.id()?, self.cell(PLAIN, fields)?))
            }
            tag::LAST => Change::Stream(StreamChange::Last(self.id()?)),
            tag::GROUP => Change::Stream(StreamChange::Group(self.bytes()?, self.group()?)),
            tag::COUNT => Change::Count(self.list(3, |reader| {
                let register = u16::from_le_bytes(reader.array()?);
                let rank = reader.byte()?;
                if register >= REGISTERS || rank == 0 || rank > RANK_MAX {
                    return Err(Damaged("a register out of range"));
                }
                Ok((register, rank))
            })?),
            _ => return Err(Damaged("an unknown effect")),
        })
    }

    fn place(&mut self) -> Result<Position> {
        let steps = self.list(8, |reader| Ok(Step::from_word(reader.word()?)))?;
        if steps.len() > STEPS_MAX {
            return Err(Damaged("a place with too many steps"));
        }
        Position::new(steps.into_iter()).ok_or(Damaged("a place without a step"))
    }

    fn group(&mut self) -> Result<GroupChange> {
        let kind = self.byte()?;
        Ok(match kind {
            tag::GROUP_CREATE => GroupChange::Create { delivered: self.id()? },
            tag::GROUP_DESTROY => GroupChange::Destroy,
            tag::GROUP_DELIVER | tag::GROUP_SET_ID => {
                let created = self.stamp()?;
                let since = if kind == tag::GROUP_DELIVER { Some(self.stamp()?) } else { None };
                GroupChange::Deliver { created, since, id: self.id()? }
            }
            tag::GROUP_PENDING => GroupChange::Pending {
                created: self.stamp()?,
                id: self.id()?,
                pending: Pending {
                    consumer: self.bytes()?,
                    delivered_ms: self.number_u64()?,
                    count: self.number_u64()?,
                },
            },
            tag::GROUP_ACKNOWLEDGE => GroupChange::Acknowledge { id: self.id()? },
            tag::GROUP_CONSUMER | tag::GROUP_NO_CONSUMER => GroupChange::Consumer {
                created: self.stamp()?,
                name: self.bytes()?,
                is_there: kind == tag::GROUP_CONSUMER,
            },
            _ => return Err(Damaged("an unknown change of a group")),
        })
    }
}

// SPDX-License-Identifier: BSD-3-Clause
//! Writing values, each in the form that it has. Streams are in `stream.rs`.

use std::io::{self, Write};

use braid_containers::hash::Hash;
use braid_containers::list::{List, SavedNode};
use braid_containers::set::Set;
use braid_containers::sorted_set::SortedSet;
use braid_containers::stream::Stream;

use crate::encode::Encoder;
use crate::kind::Kind;
use crate::read::{PACKED, PLAIN};
use crate::target::Format;

/// A value to be written.
#[derive(Clone, Copy)]
pub enum ValueRef<'a> {
    Text(&'a [u8]),
    Integer(i64),
    List(&'a List),
    Set(&'a Set),
    SortedSet(&'a SortedSet),
    Hash(&'a Hash),
    Stream(&'a Stream),
}

/// What stands for the time of a field or member without one.
pub(crate) const NO_TIME: i64 = -1;

impl ValueRef<'_> {
    /// The type under which it is written for this server itself.
    pub fn kind(self) -> Kind {
        match self {
            ValueRef::Text(_) | ValueRef::Integer(_) => Kind::String,
            ValueRef::List(_) => Kind::ListNodes,
            ValueRef::Set(set) if set.as_ints().is_some() => Kind::SetIntegers,
            ValueRef::Set(set) if set.as_listpack().is_some() => Kind::SetListpack,
            ValueRef::Set(set) if set.expiring_len() > 0 => Kind::SetExpiry,
            ValueRef::Set(_) => Kind::Set,
            ValueRef::SortedSet(set) if set.as_listpack().is_some() => Kind::SortedSetListpack,
            ValueRef::SortedSet(set) if set.next_expiry().is_some() => Kind::SortedSetExpiry,
            ValueRef::SortedSet(_) => Kind::SortedSet,
            ValueRef::Hash(hash) if hash.as_listpack().is_some() => Kind::HashListpack,
            ValueRef::Hash(hash) if hash.expiring_len() > 0 => Kind::HashExpiry,
            ValueRef::Hash(_) => Kind::Hash,
            ValueRef::Stream(_) => Kind::Stream3,
        }
    }

    /// Adds the packed form of a collection that has one, and is written in it, to `out`; the type under which it is written. Copying it takes less time
    /// than writing it: [`FileWriter::packed_key`](crate::FileWriter::packed_key) does that later.
    pub fn take_packed(self, format: Format, out: &mut Vec<u8>) -> Option<Kind> {
        if format.kind(self) != self.kind() {
            return None;
        }
        if let ValueRef::Set(set) = self
            && let Some(integers) = set.as_ints()
        {
            integers.write_to(out);
            return Some(self.kind());
        }
        let list = match self {
            ValueRef::List(list) => list.as_listpack(),
            ValueRef::Set(set) => set.as_listpack(),
            ValueRef::SortedSet(set) => set.as_listpack(),
            ValueRef::Hash(hash) => hash.as_listpack(),
            _ => None,
        };
        out.extend_from_slice(list?.bytes());
        Some(self.kind())
    }
}

impl<W: Write> Encoder<W> {
    /// The type of a value.
    pub fn kind(&mut self, kind: Kind) -> io::Result<()> {
        self.byte(kind as u8)
    }

    /// A value, behind its type ([`Format::kind`]).
    pub fn value(&mut self, value: ValueRef<'_>) -> io::Result<()> {
        let (kind, now_ms) = (self.format.kind(value), self.format.time_for(value));
        match value {
            ValueRef::Text(text) => self.string(text),
            ValueRef::Integer(number) => self.integer(number),
            ValueRef::List(list) if kind == Kind::List => self.elements(list),
            ValueRef::List(list) => self.list(list),
            ValueRef::Set(set) => self.set(set, kind, value.members_at(now_ms), now_ms),
            ValueRef::SortedSet(set) => self.sorted_set(set, kind, value.members_at(now_ms), now_ms),
            ValueRef::Hash(hash) => self.hash(hash, kind, value.members_at(now_ms), now_ms),
            ValueRef::Stream(stream) => self.stream(stream, kind),
        }
    }

    /// A value of which [`ValueRef::take_packed`] has taken the form, behind its type.
    pub(crate) fn packed(&mut self, kind: Kind, bytes: &[u8]) -> io::Result<()> {
        if kind == Kind::ListNodes {
            self.length(1)?;
            self.length(PACKED)?;
        }
        self.string(bytes)
    }

    fn list(&mut self, list: &List) -> io::Result<()> {
        self.length(list.node_count() as u64)?;
        for node in list.nodes() {
            match node {
                SavedNode::Packed(block) => {
                    self.length(PACKED)?;
                    self.string(block.bytes())?;
                }
                SavedNode::Plain(text) => {
                    self.length(PLAIN)?;
                    self.string(text)?;
                }
            }
        }
        Ok(())
    }

    fn elements(&mut self, list: &List) -> io::Result<()> {
        self.length(list.len() as u64)?;
        let mut written = Ok(());
        list.range(0, list.len(), |element| {
            if written.is_ok() {
                written = self.string(element.text(&mut itoa::Buffer::new()));
            }
        });
        written
    }

    fn set(&mut self, set: &Set, kind: Kind, len: usize, now_ms: i64) -> io::Result<()> {
        if let Some(integers) = set.as_ints() {
            let mut bytes = Vec::new();
            integers.write_to(&mut bytes);
            return self.string(&bytes);
        }
        if kind == Kind::SetListpack
            && let Some(list) = set.as_listpack()
        {
            return self.string(list.bytes());
        }
        self.length(len as u64)?;
        let mut digits = itoa::Buffer::new();
        for (member, expire_at) in set.iter_with_expiry() {
            if expire_at.is_some_and(|time| time < now_ms) {
                continue;
            }
            self.string(member.text(&mut digits))?;
            if kind == Kind::SetExpiry {
                self.time_ms(expire_at.unwrap_or(NO_TIME))?;
            }
        }
        Ok(())
    }

    fn sorted_set(&mut self, set: &SortedSet, kind: Kind, len: usize, now_ms: i64) -> io::Result<()> {
        if kind == Kind::SortedSetListpack
            && let Some(list) = set.as_listpack()
        {
            return self.string(list.bytes());
        }
        // From the greatest to the smallest: stock servers insert that fastest.
        self.length(len as u64)?;
        let mut digits = itoa::Buffer::new();
        for (member, score, expire_at) in set.iter_back_with_expiry() {
            if expire_at.is_some_and(|time| time < now_ms) {
                continue;
            }
            self.string(member.text(&mut digits))?;
            self.double(score)?;
            if kind == Kind::SortedSetExpiry {
                self.time_ms(expire_at.unwrap_or(NO_TIME))?;
            }
        }
        Ok(())
    }

    fn hash(&mut self, hash: &Hash, kind: Kind, len: usize, now_ms: i64) -> io::Result<()> {
        if kind == Kind::HashListpack
            && let Some(list) = hash.as_listpack()
        {
            return self.string(list.bytes());
        }
        let mut earliest = 0;
        if kind == Kind::HashExpiryRelative {
            earliest = hash.iter_with_expiry().filter_map(|(_, _, time)| time).min().unwrap_or_default();
            self.time_ms(earliest)?;
        }
        self.length(len as u64)?;
        let (mut field_digits, mut value_digits) = (itoa::Buffer::new(), itoa::Buffer::new());
        for (field, value, expire_at) in hash.iter_with_expiry() {
            if expire_at.is_some_and(|time| time < now_ms) {
                continue;
            }
            if kind == Kind::HashExpiryRelative {
                // One more than the distance, since 0 means none.
                self.length(expire_at.map_or(0, |time| (time - earliest) as u64 + 1))?;
            }
            self.string(field.text(&mut field_digits))?;
            self.string(value.text(&mut value_digits))?;
            if kind == Kind::HashExpiry {
                self.time_ms(expire_at.unwrap_or(NO_TIME))?;
            }
        }
        Ok(())
    }
}

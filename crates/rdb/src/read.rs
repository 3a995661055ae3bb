// SPDX-License-Identifier: BSD-3-Clause
//! Reading values. Streams are in `stream.rs`.

use braid_base::blob::Blob;
use braid_containers::hash::{Expiry, Hash};
use braid_containers::int_set::IntSet;
use braid_containers::list::{End, List, SavedNode};
use braid_containers::listpack::{Element, Listpack};
use braid_containers::set::Set;
use braid_containers::sorted_set::{AddRule, Added, SortedSet};
use braid_containers::stream::Stream;

use crate::decode::{Decoder, Text};
use crate::error::{Error, Fault};
use crate::kind::Kind;
use crate::limits::Limits;
use crate::source::Source;
use crate::write::NO_TIME;
use crate::{ziplist, zipmap};

/// A value that was read. Short strings are lent until the next thing is read.
pub enum Value<'a> {
    Text(&'a [u8]),
    Integer(i64),
    Blob(Blob),
    List(List),
    Set(Set),
    SortedSet(SortedSet),
    Hash(Hash),
    Stream(Stream),
}

/// Containers of a list's nodes.
pub(crate) const PLAIN: u64 = 1;
pub(crate) const PACKED: u64 = 2;

/// A time before all others: at it nothing has expired.
const BEFORE_ALL: i64 = i64::MIN;

// What operators find in the log has the words that they know from stock servers.
const TWICE: &str = "a member that comes twice";

impl<S: Source> Decoder<S> {
    /// The type of a value.
    pub fn kind(&mut self) -> Result<Kind, Error> {
        let number = self.byte()?;
        Kind::from_number(number, self.version).ok_or_else(|| self.error(Fault::UnknownType(number)))
    }

    /// A value of this type. Fields of hashes that expire before `now_ms` are left out.
    pub fn value(&mut self, kind: Kind, limits: &Limits, now_ms: i64) -> Result<Value<'_>, Error> {
        Ok(match kind {
            Kind::String => {
                return Ok(match self.text_or_blob()? {
                    Ok(Text::Bytes(bytes)) => Value::Text(bytes),
                    Ok(Text::Integer(number)) => Value::Integer(number),
                    Err(blob) => Value::Blob(blob),
                });
            }
            Kind::List => Value::List(self.list(limits)?),
            Kind::ListZiplist => Value::List(self.list_ziplist(limits)?),
            Kind::ListNodes => Value::List(self.list_nodes(limits, false)?),
            Kind::ListNodesOfZiplists => Value::List(self.list_nodes(limits, true)?),
            Kind::Set => Value::Set(self.set(limits)?),
            Kind::SetIntegers => Value::Set(self.set_integers(limits)?),
            Kind::SetExpiry => Value::Set(self.set_expiry(limits, now_ms)?),
            Kind::SetListpack => Value::Set(self.set_listpack(limits)?),
            Kind::SortedSet => Value::SortedSet(self.sorted_set(limits, false)?),
            Kind::SortedSetText => Value::SortedSet(self.sorted_set(limits, true)?),
            Kind::SortedSetExpiry => Value::SortedSet(self.sorted_set_expiry(limits, now_ms)?),
            Kind::SortedSetListpack => Value::SortedSet(self.sorted_set_packed(limits, false)?),
            Kind::SortedSetZiplist => Value::SortedSet(self.sorted_set_packed(limits, true)?),
            Kind::Hash => Value::Hash(self.hash(limits)?),
            Kind::HashZipmap => Value::Hash(self.hash_zipmap(limits)?),
            Kind::HashListpack => Value::Hash(self.hash_packed(limits, false)?),
            Kind::HashZiplist => Value::Hash(self.hash_packed(limits, true)?),
            Kind::HashExpiry => Value::Hash(self.hash_expiry(limits, now_ms)?),
            Kind::HashExpiryRelative => Value::Hash(self.hash_expiry_relative(limits, now_ms)?),
            Kind::HashExpiryListpack => Value::Hash(self.hash_expiry_listpack(limits, now_ms)?),
            Kind::Stream1 | Kind::Stream2 | Kind::Stream3 => Value::Stream(self.stream(kind)?),
            Kind::Module => {
                let id = self.length()?;
                return Err(self.error(Fault::Module(module_name(id))));
            }
            Kind::KeyDbJob => {
                self.skip_keydb_job()?;
                return Err(self.error(Fault::LeftOut("a job of KeyDB's KEYDB.CRON")));
            }
            Kind::ModulePreRelease => {
                return Err(self.corrupt("a module's value of a pre-release of Redis 4"));
            }
        })
    }

    /// The number of members of a collection: at least one.
    fn members(&mut self, least: u64) -> Result<usize, Error> {
        match self.count(least)? {
            0 => Err(self.error(Fault::Empty)),
            count => Ok(count),
        }
    }

    /// A packed list, in today's form or the old one; `what` is said of one that is none.
    fn packed(&mut self, is_ziplist: bool, what: &'static str) -> Result<Listpack, Error> {
        let bytes = self.string()?;
        let list = if is_ziplist { ziplist::to_listpack(bytes) } else { Listpack::from_bytes(bytes) };
        list.ok_or_else(|| self.corrupt(what))
    }

    /// A packed list with members in it.
    fn packed_members(&mut self, is_ziplist: bool, what: &'static str) -> Result<Listpack, Error> {
        let list = self.packed(is_ziplist, what)?;
        if list.is_empty() { Err(self.error(Fault::Empty)) } else { Ok(list) }
    }

    // Lists.

    fn list(&mut self, limits: &Limits) -> Result<List, Error> {
        let mut list = List::new();
        for _ in 0..self.members(1)? {
            list.push(End::Back, self.string()?, &limits.list);
        }
        Ok(list)
    }

    fn list_ziplist(&mut self, limits: &Limits) -> Result<List, Error> {
        let mut list = List::new();
        let read = ziplist::read(self.string()?, |element| {
            list.push(End::Back, element.text(&mut itoa::Buffer::new()), &limits.list);
            true
        });
        self.ensure(read.is_some(), "List ziplist integrity check failed")?;
        if list.is_empty() { Err(self.error(Fault::Empty)) } else { Ok(list) }
    }

    fn list_nodes(&mut self, limits: &Limits, of_ziplists: bool) -> Result<List, Error> {
        let mut list = List::new();
        let what =
            if of_ziplists { "Ziplist integrity check failed" } else { "Listpack integrity check failed" };
        for _ in 0..self.members(1)? {
            match if of_ziplists { PACKED } else { self.length()? } {
                PACKED => {
                    let node = self.packed(of_ziplists, what)?;
                    list.load_node(SavedNode::Packed(std::borrow::Cow::Owned(node)));
                }
                PLAIN => {
                    let position = self.position();
                    let text = self.string()?;
                    if text.is_empty() {
                        let fault = Fault::Corrupt("a list's node without content");
                        return Err(Error { position, fault });
                    }
                    list.load_node(SavedNode::Plain(text));
                }
                _ => return Err(self.corrupt("Quicklist integrity check failed: a node of an unknown form")),
            }
        }
        if list.is_empty() {
            return Err(self.error(Fault::Empty));
        }
        list.loaded(&limits.list);
        Ok(list)
    }

    // Sets.

    fn set(&mut self, limits: &Limits) -> Result<Set, Error> {
        let count = self.members(1)?;
        let mut member = Vec::new();
        self.string_into(&mut member)?;
        let mut set = Set::for_member(&member, count, &limits.set);
        set.add(&member, BEFORE_ALL, &limits.set);
        for _ in 1..count {
            let is_new = set.add(self.string()?, BEFORE_ALL, &limits.set);
            self.ensure(is_new, TWICE)?;
        }
        Ok(set)
    }

    fn set_expiry(&mut self, limits: &Limits, now_ms: i64) -> Result<Set, Error> {
        let (mut set, mut member) = (Set::default(), Vec::new());
        for _ in 0..self.members(9)? {
            self.string_into(&mut member)?;
            let expire_at = self.time_or_none()?;
            if expire_at.is_some_and(|time| now_ms > time) {
                continue;
            }
            let is_new = set.add(&member, BEFORE_ALL, &limits.set);
            self.ensure(is_new, TWICE)?;
            if expire_at.is_some() {
                set.set_expiry(&member, expire_at, BEFORE_ALL);
            }
        }
        if set.is_empty() { Err(self.error(Fault::Empty)) } else { Ok(set) }
    }

    /// The time of a field or member, if it has one.
    fn time_or_none(&mut self) -> Result<Option<i64>, Error> {
        let time = self.time_ms()?;
        self.ensure(time >= NO_TIME, "a member's time that is out of range")?;
        Ok((time != NO_TIME).then_some(time))
    }

    fn set_integers(&mut self, limits: &Limits) -> Result<Set, Error> {
        let integers = IntSet::from_bytes(self.string()?);
        let integers = integers.ok_or_else(|| self.corrupt("Intset integrity check failed"))?;
        Ok(Set::from_ints(integers, &limits.set))
    }

    fn set_listpack(&mut self, limits: &Limits) -> Result<Set, Error> {
        let list = self.packed_members(false, "Set listpack integrity check failed")?;
        Set::from_listpack(list, &limits.set).ok_or_else(|| self.corrupt(TWICE))
    }

    // Sorted sets.

    fn sorted_set(&mut self, limits: &Limits, scores_are_text: bool) -> Result<SortedSet, Error> {
        // A member has at least one byte for its length, a score one or eight.
        let count = self.members(if scores_are_text { 2 } else { 9 })?;
        let mut set = SortedSet::with_hints(count, 0, &limits.sorted_set);
        let mut member = Vec::new();
        for _ in 0..count {
            self.string_into(&mut member)?;
            let score = if scores_are_text { self.double_text()? } else { self.double()? };
            match set.add(&member, score, AddRule::default(), &limits.sorted_set) {
                Added::Added(_) => {}
                Added::NotANumber => return Err(self.corrupt("a score that is no number")),
                _ => return Err(self.corrupt(TWICE)),
            }
        }
        set.pack_if_small(&limits.sorted_set);
        Ok(set)
    }

    fn sorted_set_expiry(&mut self, limits: &Limits, now_ms: i64) -> Result<SortedSet, Error> {
        let (mut set, mut member) = (SortedSet::new(), Vec::new());
        for _ in 0..self.members(17)? {
            self.string_into(&mut member)?;
            let score = self.double()?;
            let expire_at = self.time_or_none()?;
            if expire_at.is_some_and(|time| now_ms > time) {
                continue;
            }
            match set.add(&member, score, AddRule::default(), &limits.sorted_set) {
                Added::Added(_) => {}
                Added::NotANumber => return Err(self.corrupt("a score that is no number")),
                _ => return Err(self.corrupt(TWICE)),
            }
            if expire_at.is_some() {
                set.set_expiry(&member, expire_at);
            }
        }
        if set.is_empty() { Err(self.error(Fault::Empty)) } else { Ok(set) }
    }

    fn sorted_set_packed(&mut self, limits: &Limits, is_ziplist: bool) -> Result<SortedSet, Error> {
        let what = if is_ziplist {
            "Zset ziplist integrity check failed"
        } else {
            "Zset listpack integrity check failed"
        };
        let list = self.packed_members(is_ziplist, what)?;
        SortedSet::from_listpack(list, &limits.sorted_set).ok_or_else(|| self.corrupt(what))
    }

    // Hashes.

    fn add_field(
        &self,
        hash: &mut Hash,
        field: &[u8],
        value: &[u8],
        expire_at: Option<i64>,
        limits: &Limits,
    ) -> Result<(), Error> {
        let expiry = expire_at.map_or(Expiry::Keep, Expiry::At);
        let is_new = hash.set(field, value, expiry, BEFORE_ALL, &limits.hash);
        self.ensure(is_new, TWICE)
    }

    fn hash(&mut self, limits: &Limits) -> Result<Hash, Error> {
        let (mut hash, mut field) = (Hash::new(), Vec::new());
        for _ in 0..self.members(2)? {
            self.string_into(&mut field)?;
            let is_new = hash.set(&field, self.string()?, Expiry::Keep, BEFORE_ALL, &limits.hash);
            self.ensure(is_new, TWICE)?;
        }
        Ok(hash)
    }

    fn hash_zipmap(&mut self, limits: &Limits) -> Result<Hash, Error> {
        let mut bytes = Vec::new();
        self.string_into(&mut bytes)?;
        let pairs = zipmap::read(&bytes).ok_or_else(|| self.corrupt("Zipmap integrity check failed"))?;
        self.ensure(!pairs.is_empty(), "Zipmap integrity check failed: no pairs")?;
        let mut hash = Hash::new();
        for (field, value) in pairs {
            self.add_field(&mut hash, field, value, None, limits)?;
        }
        Ok(hash)
    }

    fn hash_packed(&mut self, limits: &Limits, is_ziplist: bool) -> Result<Hash, Error> {
        let what = if is_ziplist {
            "Hash ziplist integrity check failed"
        } else {
            "Hash listpack integrity check failed"
        };
        let list = self.packed_members(is_ziplist, what)?;
        let is_uneven = !list.len().is_multiple_of(2);
        self.ensure(!is_uneven, what)?;
        Hash::from_listpack(list, &limits.hash)
            .ok_or_else(|| self.corrupt("Hash ziplist or listpack with dup elements: integrity check failed"))
    }

    fn hash_expiry(&mut self, limits: &Limits, now_ms: i64) -> Result<Hash, Error> {
        let (mut hash, mut field, mut value) = (Hash::new(), Vec::new(), Vec::new());
        for _ in 0..self.members(10)? {
            self.string_into(&mut field)?;
            self.string_into(&mut value)?;
            let expire_at = self.time_or_none()?;
            self.add_expiring(&mut hash, &field, &value, expire_at, limits, now_ms)?;
        }
        self.not_empty(hash)
    }

    fn hash_expiry_relative(&mut self, limits: &Limits, now_ms: i64) -> Result<Hash, Error> {
        let (mut hash, mut field, mut value) = (Hash::new(), Vec::new(), Vec::new());
        let earliest = self.time_ms()?;
        for _ in 0..self.members(3)? {
            let expire_at = match self.length()? {
                0 => None,
                // One more than the distance, since 0 means none.
                more => {
                    let time = i64::try_from(more - 1).ok().and_then(|more| earliest.checked_add(more));
                    Some(time.ok_or_else(|| self.corrupt("a field's time that is out of range"))?)
                }
            };
            self.string_into(&mut field)?;
            self.string_into(&mut value)?;
            self.add_expiring(&mut hash, &field, &value, expire_at, limits, now_ms)?;
        }
        self.not_empty(hash)
    }

    fn hash_expiry_listpack(&mut self, limits: &Limits, now_ms: i64) -> Result<Hash, Error> {
        // The earliest time; every field's is in the list.
        self.time_ms()?;
        let list = self.packed_members(false, "Hash listpack integrity check failed")?;
        let mut hash = Hash::new();
        let (mut field_text, mut value_text) = (itoa::Buffer::new(), itoa::Buffer::new());
        let mut elements = list.iter();
        while let Some(field) = elements.next() {
            let (Some(value), Some(Element::Int(time))) = (elements.next(), elements.next()) else {
                return Err(self.corrupt("Hash listpack integrity check failed: no times"));
            };
            let expire_at = (time != 0).then_some(time);
            let (field, value) = (field.text(&mut field_text), value.text(&mut value_text));
            self.add_expiring(&mut hash, field, value, expire_at, limits, now_ms)?;
        }
        self.not_empty(hash)
    }

    fn add_expiring(
        &self,
        hash: &mut Hash,
        field: &[u8],
        value: &[u8],
        expire_at: Option<i64>,
        limits: &Limits,
        now_ms: i64,
    ) -> Result<(), Error> {
        self.ensure(expire_at.is_none_or(|time| time >= 0), "a field's time that is out of range")?;
        if expire_at.is_some_and(|time| now_ms > time) {
            return Ok(());
        }
        self.add_field(hash, field, value, expire_at, limits)
    }

    fn not_empty(&self, hash: Hash) -> Result<Hash, Error> {
        if hash.is_empty() { Err(self.error(Fault::Empty)) } else { Ok(hash) }
    }

    /// A script, when it begins, its interval, its keys and its arguments.
    fn skip_keydb_job(&mut self) -> Result<(), Error> {
        self.string()?;
        self.take(16)?;
        for _ in 0..2 {
            for _ in 0..self.count(1)? {
                self.string()?;
            }
        }
        Ok(())
    }

    /// Passes over the value of a module or its data beside the keys, behind the module's id.
    pub fn skip_module(&mut self) -> Result<(), Error> {
        loop {
            match self.length()? {
                0 => return Ok(()),
                1 | 2 => _ = self.length()?,
                3 => _ = self.take(4)?,
                4 => _ = self.take(8)?,
                5 => _ = self.string()?,
                _ => return Err(self.corrupt("a module's value of an unknown form")),
            }
        }
    }
}

/// The name in a module's id: nine characters of 6 bits, and 10 bits of version.
pub fn module_name(id: u64) -> String {
    const CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..9).rev().map(|index| char::from(CHARACTERS[(id >> (10 + 6 * index) & 63) as usize])).collect()
}

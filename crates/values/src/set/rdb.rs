// SPDX-License-Identifier: BSD-3-Clause
//! Sets in dump files: packed, or member by member.

use std::io;

use braid_containers::int_set::IntSet;
use braid_containers::listpack::Element;
use braid_keyspace::object::Object;
use braid_rdb::{
    Error, Fault, Limits, NO_TIME, Part, RdbType, SavedObject, Target, ValueDecoder, ValueEncoder, ValueForm,
};

use super::Set;
use crate::saved::{BEFORE_ALL, TWICE};

static MEMBERS: ValueForm = ValueForm::new(2, "Set", &[Part::Members(&[Part::Text])]);
static INTEGERS: ValueForm = ValueForm::new(11, "SetIntegers", &[Part::Text]).packed();
static LISTPACK: ValueForm = ValueForm::new(20, "SetListpack", &[Part::Text]).packed();
/// Braid: a time with each member. Other servers have no expiring set members and cannot read this
/// form.
static EXPIRY: ValueForm = ValueForm::new(240, "SetExpiry", &[Part::Members(&[Part::Text, Part::Bytes(8)])]);

pub(super) static FORMS: &[&ValueForm] = &[&MEMBERS, &INTEGERS, &LISTPACK, &EXPIRY];

impl SavedObject for Set {
    fn form(&self, target: Target) -> &'static ValueForm {
        if self.as_ints().is_some() {
            &INTEGERS
        } else if self.as_listpack().is_some() {
            if matches!(target, Target::Redis70 | Target::KeyDb) { &MEMBERS } else { &LISTPACK }
        } else if self.expiring_len() > 0 && target == Target::Own {
            &EXPIRY
        } else {
            &MEMBERS
        }
    }

    fn encode(&self, form: &ValueForm, now_ms: i64, out: &mut ValueEncoder<'_>) -> io::Result<()> {
        if let Some(integers) = self.as_ints() {
            let mut bytes = Vec::new();
            integers.write_to(&mut bytes);
            return out.string(&bytes);
        }
        if form.number == LISTPACK.number
            && let Some(list) = self.as_listpack()
        {
            return out.string(list.bytes());
        }
        out.length(self.members_at(now_ms) as u64)?;
        let mut digits = itoa::Buffer::new();
        for (member, expire_at) in self.iter_with_expiry() {
            if expire_at.is_some_and(|time| time < now_ms) {
                continue;
            }
            out.string(member.text(&mut digits))?;
            if form.number == EXPIRY.number {
                out.time_ms(expire_at.unwrap_or(NO_TIME))?;
            }
        }
        Ok(())
    }

    fn take_packed(&self, out: &mut Vec<u8>) -> bool {
        if let Some(integers) = self.as_ints() {
            integers.write_to(out);
            return true;
        }
        self.as_listpack().map(|list| out.extend_from_slice(list.bytes())).is_some()
    }

    fn has_times(&self) -> bool {
        self.expiring_len() > 0
    }

    fn keeps_times(&self, form: &ValueForm) -> bool {
        form.number == EXPIRY.number
    }

    fn for_each_time(&self, see: &mut dyn FnMut(Element<'_>, i64)) {
        self.iter_with_expiry().for_each(|(member, time)| {
            if let Some(time) = time {
                see(member, time);
            }
        });
    }

    fn member_count(&self) -> usize {
        self.len()
    }
}

/// Reads a set in any of its forms.
pub(super) fn decode(
    decoder: &mut ValueDecoder<'_>,
    kind: RdbType,
    limits: &Limits,
    now_ms: i64,
) -> Result<Object, Error> {
    let set = match kind.number() {
        2 => set(decoder, limits),
        11 => set_integers(decoder, limits),
        20 => set_listpack(decoder, limits),
        _ => set_expiry(decoder, limits, now_ms),
    };
    set.map(Object::new)
}

fn set(decoder: &mut ValueDecoder<'_>, limits: &Limits) -> Result<Set, Error> {
    let count = decoder.members(1)?;
    let mut member = Vec::new();
    decoder.string_into(&mut member)?;
    let mut set = Set::for_member(&member, count, &limits.set);
    set.add(&member, BEFORE_ALL, &limits.set);
    for _ in 1..count {
        let is_new = set.add(decoder.string()?, BEFORE_ALL, &limits.set);
        decoder.ensure(is_new, TWICE)?;
    }
    Ok(set)
}

fn set_expiry(decoder: &mut ValueDecoder<'_>, limits: &Limits, now_ms: i64) -> Result<Set, Error> {
    let (mut set, mut member) = (Set::default(), Vec::new());
    for _ in 0..decoder.members(9)? {
        decoder.string_into(&mut member)?;
        let expire_at = decoder.time_or_none()?;
        if expire_at.is_some_and(|time| now_ms > time) {
            continue;
        }
        let is_new = set.add(&member, BEFORE_ALL, &limits.set);
        decoder.ensure(is_new, TWICE)?;
        if expire_at.is_some() {
            set.set_expiry(&member, expire_at, BEFORE_ALL);
        }
    }
    if set.is_empty() { Err(decoder.error(Fault::Empty)) } else { Ok(set) }
}

fn set_integers(decoder: &mut ValueDecoder<'_>, limits: &Limits) -> Result<Set, Error> {
    let integers = IntSet::from_bytes(decoder.string()?);
    let integers = integers.ok_or_else(|| decoder.corrupt("Intset integrity check failed"))?;
    Ok(Set::from_ints(integers, &limits.set))
}

fn set_listpack(decoder: &mut ValueDecoder<'_>, limits: &Limits) -> Result<Set, Error> {
    let list = decoder.packed_members(false, "Set listpack integrity check failed")?;
    Set::from_listpack(list, &limits.set).ok_or_else(|| decoder.corrupt(TWICE))
}

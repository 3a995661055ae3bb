// SPDX-License-Identifier: BSD-3-Clause
//! Sorted sets in dump files: packed, or member by member with scores as text or in 8 bytes.

use std::io;

use braid_containers::listpack::Element;
use braid_keyspace::object::Object;
use braid_rdb::{
    Error, Fault, Limits, NO_TIME, Part, RdbType, SavedObject, Target, ValueDecoder, ValueEncoder, ValueForm,
};

use super::{AddRule, Added, SortedSet};
use crate::saved::TWICE;

/// Scores as text.
static TEXT: ValueForm = ValueForm::new(3, "SortedSetText", &[Part::Members(&[Part::Text, Part::ScoreText])]);
/// Scores as 8 bytes.
static MEMBERS: ValueForm = ValueForm::new(5, "SortedSet", &[Part::Members(&[Part::Text, Part::Bytes(8)])]);
static ZIPLIST: ValueForm = ValueForm::new(12, "SortedSetZiplist", &[Part::Text]).packed();
static LISTPACK: ValueForm = ValueForm::new(17, "SortedSetListpack", &[Part::Text]).packed();
/// Braid: a score and a time with each member.
static EXPIRY: ValueForm =
    ValueForm::new(241, "SortedSetExpiry", &[Part::Members(&[Part::Text, Part::Bytes(16)])]);

pub(super) static FORMS: &[&ValueForm] = &[&TEXT, &MEMBERS, &ZIPLIST, &LISTPACK, &EXPIRY];

impl SavedObject for SortedSet {
    fn form(&self, target: Target) -> &'static ValueForm {
        if self.as_listpack().is_some() {
            if target == Target::KeyDb { &MEMBERS } else { &LISTPACK }
        } else if self.has_times() && target == Target::Own {
            &EXPIRY
        } else {
            &MEMBERS
        }
    }

    fn encode(&self, form: &ValueForm, now_ms: i64, out: &mut ValueEncoder<'_>) -> io::Result<()> {
        if form.number == LISTPACK.number
            && let Some(list) = self.as_listpack()
        {
            return out.string(list.bytes());
        }
        // In descending order, which stock servers load fastest.
        out.length(self.members_at(now_ms) as u64)?;
        let mut digits = itoa::Buffer::new();
        for (member, score, expire_at) in self.iter_back_with_expiry() {
            if expire_at.is_some_and(|time| time < now_ms) {
                continue;
            }
            out.string(member.text(&mut digits))?;
            out.double(score)?;
            if form.number == EXPIRY.number {
                out.time_ms(expire_at.unwrap_or(NO_TIME))?;
            }
        }
        Ok(())
    }

    fn take_packed(&self, out: &mut Vec<u8>) -> bool {
        self.as_listpack().map(|list| out.extend_from_slice(list.bytes())).is_some()
    }

    fn has_times(&self) -> bool {
        self.next_expiry().is_some()
    }

    fn keeps_times(&self, form: &ValueForm) -> bool {
        form.number == EXPIRY.number
    }

    fn for_each_time(&self, see: &mut dyn FnMut(Element<'_>, i64)) {
        self.iter_back_with_expiry().for_each(|(member, _, time)| {
            if let Some(time) = time {
                see(member, time);
            }
        });
    }

    fn member_count(&self) -> usize {
        self.len()
    }
}

/// Reads a sorted set in any of its forms.
pub(super) fn decode(
    decoder: &mut ValueDecoder<'_>,
    kind: RdbType,
    limits: &Limits,
    now_ms: i64,
) -> Result<Object, Error> {
    let set = match kind.number() {
        3 => sorted_set(decoder, limits, true),
        5 => sorted_set(decoder, limits, false),
        12 => sorted_set_packed(decoder, limits, true),
        17 => sorted_set_packed(decoder, limits, false),
        _ => sorted_set_expiry(decoder, limits, now_ms),
    };
    set.map(Object::new)
}

fn sorted_set(
    decoder: &mut ValueDecoder<'_>,
    limits: &Limits,
    scores_are_text: bool,
) -> Result<SortedSet, Error> {
    // A member takes at least one byte for its length, a score one or eight.
    let count = decoder.members(if scores_are_text { 2 } else { 9 })?;
    let mut set = SortedSet::with_hints(count, 0, &limits.sorted_set);
    let mut member = Vec::new();
    for _ in 0..count {
        decoder.string_into(&mut member)?;
        let score = if scores_are_text { decoder.double_text()? } else { decoder.double()? };
        match set.add(&member, score, AddRule::default(), &limits.sorted_set) {
            Added::Added(_) => {}
            Added::NotANumber => return Err(decoder.corrupt("a score that is not a number")),
            _ => return Err(decoder.corrupt(TWICE)),
        }
    }
    set.pack_if_small(&limits.sorted_set);
    Ok(set)
}

fn sorted_set_expiry(
    decoder: &mut ValueDecoder<'_>,
    limits: &Limits,
    now_ms: i64,
) -> Result<SortedSet, Error> {
    let (mut set, mut member) = (SortedSet::new(), Vec::new());
    for _ in 0..decoder.members(17)? {
        decoder.string_into(&mut member)?;
        let score = decoder.double()?;
        let expire_at = decoder.time_or_none()?;
        if expire_at.is_some_and(|time| now_ms > time) {
            continue;
        }
        match set.add(&member, score, AddRule::default(), &limits.sorted_set) {
            Added::Added(_) => {}
            Added::NotANumber => return Err(decoder.corrupt("a score that is not a number")),
            _ => return Err(decoder.corrupt(TWICE)),
        }
        if expire_at.is_some() {
            set.set_expiry(&member, expire_at);
        }
    }
    if set.is_empty() { Err(decoder.error(Fault::Empty)) } else { Ok(set) }
}

fn sorted_set_packed(
    decoder: &mut ValueDecoder<'_>,
    limits: &Limits,
    is_ziplist: bool,
) -> Result<SortedSet, Error> {
    let what = if is_ziplist {
        "Zset ziplist integrity check failed"
    } else {
        "Zset listpack integrity check failed"
    };
    let list = decoder.packed_members(is_ziplist, what)?;
    SortedSet::from_listpack(list, &limits.sorted_set).ok_or_else(|| decoder.corrupt(what))
}

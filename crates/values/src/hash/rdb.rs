// SPDX-License-Identifier: BSD-3-Clause
//! Hashes in dump files: packed, or field by field, with expiry times in the formats of Valkey 9
//! and of Redis 7.4 and later.

use std::io;

use braid_containers::listpack::Element;
use braid_keyspace::object::Object;
use braid_rdb::{
    Error, Fault, Limits, NO_TIME, Part, RdbType, SavedObject, Target, VERSION_REDIS_MAX, ValueDecoder,
    ValueEncoder, ValueForm, zipmap,
};

use super::{Expiry, Hash};
use crate::saved::{BEFORE_ALL, TWICE};

static FIELDS: ValueForm = ValueForm::new(4, "Hash", &[Part::Members(&[Part::Text, Part::Text])]);
static ZIPMAP: ValueForm = ValueForm::new(9, "HashZipmap", &[Part::Text]).packed();
static ZIPLIST: ValueForm = ValueForm::new(13, "HashZiplist", &[Part::Text]).packed();
static LISTPACK: ValueForm = ValueForm::new(16, "HashListpack", &[Part::Text]).packed();
/// Valkey 9: a time with each field. (Pre-releases of Redis 7.4 used this number for another
/// format.)
static EXPIRY: ValueForm =
    ValueForm::new(22, "HashExpiry", &[Part::Members(&[Part::Text, Part::Text, Part::Bytes(8)])])
        .in_versions(|version| version != VERSION_REDIS_MAX);
/// Redis 7.4: a time with each field, relative to the earliest.
static RELATIVE: ValueForm = ValueForm::new(
    24,
    "HashExpiryRelative",
    &[Part::Bytes(8), Part::Members(&[Part::Number, Part::Text, Part::Text])],
);
/// Redis 7.4: triples of field, value and time.
static TRIPLES: ValueForm = ValueForm::new(25, "HashExpiryListpack", &[Part::Bytes(8), Part::Text]).packed();

pub(super) static FORMS: &[&ValueForm] =
    &[&FIELDS, &ZIPMAP, &ZIPLIST, &LISTPACK, &EXPIRY, &RELATIVE, &TRIPLES];

impl SavedObject for Hash {
    fn form(&self, target: Target) -> &'static ValueForm {
        use Target::*;
        if self.as_listpack().is_some() {
            return if target == KeyDb { &FIELDS } else { &LISTPACK };
        }
        match target {
            Own | Valkey9 if self.has_times() => &EXPIRY,
            Redis8 if self.has_times() => &RELATIVE,
            _ => &FIELDS,
        }
    }

    fn encode(&self, form: &ValueForm, now_ms: i64, out: &mut ValueEncoder<'_>) -> io::Result<()> {
        if form.number == LISTPACK.number
            && let Some(list) = self.as_listpack()
        {
            return out.string(list.bytes());
        }
        let is_relative = form.number == RELATIVE.number;
        let mut earliest = 0;
        if is_relative {
            earliest = self.iter_with_expiry().filter_map(|(_, _, time)| time).min().unwrap_or_default();
            out.time_ms(earliest)?;
        }
        out.length(self.members_at(now_ms) as u64)?;
        let (mut field_digits, mut value_digits) = (itoa::Buffer::new(), itoa::Buffer::new());
        for (field, value, expire_at) in self.iter_with_expiry() {
            if expire_at.is_some_and(|time| time < now_ms) {
                continue;
            }
            if is_relative {
                // Distance plus one, since 0 means none.
                out.length(expire_at.map_or(0, |time| (time - earliest) as u64 + 1))?;
            }
            out.string(field.text(&mut field_digits))?;
            out.string(value.text(&mut value_digits))?;
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
        self.expiring_len() > 0
    }

    fn keeps_times(&self, form: &ValueForm) -> bool {
        form.number == EXPIRY.number || form.number == RELATIVE.number
    }

    fn for_each_time(&self, see: &mut dyn FnMut(Element<'_>, i64)) {
        self.iter_with_expiry().for_each(|(field, _, time)| {
            if let Some(time) = time {
                see(field, time);
            }
        });
    }

    fn member_count(&self) -> usize {
        self.len()
    }
}

/// Reads a hash in any of its forms.
pub(super) fn decode(
    decoder: &mut ValueDecoder<'_>,
    kind: RdbType,
    limits: &Limits,
    now_ms: i64,
) -> Result<Object, Error> {
    let hash = match kind.number() {
        4 => hash(decoder, limits),
        9 => hash_zipmap(decoder, limits),
        13 => hash_packed(decoder, limits, true),
        16 => hash_packed(decoder, limits, false),
        22 => hash_expiry(decoder, limits, now_ms),
        24 => hash_expiry_relative(decoder, limits, now_ms),
        _ => hash_expiry_listpack(decoder, limits, now_ms),
    };
    hash.map(Object::new)
}

fn add_field(
    decoder: &ValueDecoder<'_>,
    hash: &mut Hash,
    field: &[u8],
    value: &[u8],
    expire_at: Option<i64>,
    limits: &Limits,
) -> Result<(), Error> {
    let expiry = expire_at.map_or(Expiry::Keep, Expiry::At);
    let is_new = hash.set(field, value, expiry, BEFORE_ALL, &limits.hash);
    decoder.ensure(is_new, TWICE)
}

fn hash(decoder: &mut ValueDecoder<'_>, limits: &Limits) -> Result<Hash, Error> {
    let (mut hash, mut field) = (Hash::new(), Vec::new());
    for _ in 0..decoder.members(2)? {
        decoder.string_into(&mut field)?;
        let is_new = hash.set(&field, decoder.string()?, Expiry::Keep, BEFORE_ALL, &limits.hash);
        decoder.ensure(is_new, TWICE)?;
    }
    Ok(hash)
}

fn hash_zipmap(decoder: &mut ValueDecoder<'_>, limits: &Limits) -> Result<Hash, Error> {
    let mut bytes = Vec::new();
    decoder.string_into(&mut bytes)?;
    let pairs = zipmap::read(&bytes).ok_or_else(|| decoder.corrupt("Zipmap integrity check failed"))?;
    decoder.ensure(!pairs.is_empty(), "Zipmap integrity check failed: no pairs")?;
    let mut hash = Hash::new();
    for (field, value) in pairs {
        add_field(decoder, &mut hash, field, value, None, limits)?;
    }
    Ok(hash)
}

fn hash_packed(decoder: &mut ValueDecoder<'_>, limits: &Limits, is_ziplist: bool) -> Result<Hash, Error> {
    let what = if is_ziplist {
        "Hash ziplist integrity check failed"
    } else {
        "Hash listpack integrity check failed"
    };
    let list = decoder.packed_members(is_ziplist, what)?;
    let is_uneven = !list.len().is_multiple_of(2);
    decoder.ensure(!is_uneven, what)?;
    Hash::from_listpack(list, &limits.hash)
        .ok_or_else(|| decoder.corrupt("Hash ziplist or listpack with dup elements: integrity check failed"))
}

fn hash_expiry(decoder: &mut ValueDecoder<'_>, limits: &Limits, now_ms: i64) -> Result<Hash, Error> {
    let (mut hash, mut field, mut value) = (Hash::new(), Vec::new(), Vec::new());
    for _ in 0..decoder.members(10)? {
        decoder.string_into(&mut field)?;
        decoder.string_into(&mut value)?;
        let expire_at = decoder.time_or_none()?;
        add_expiring(decoder, &mut hash, &field, &value, expire_at, limits, now_ms)?;
    }
    not_empty(decoder, hash)
}

fn hash_expiry_relative(decoder: &mut ValueDecoder<'_>, limits: &Limits, now_ms: i64) -> Result<Hash, Error> {
    let (mut hash, mut field, mut value) = (Hash::new(), Vec::new(), Vec::new());
    let earliest = decoder.time_ms()?;
    for _ in 0..decoder.members(3)? {
        let expire_at = match decoder.length()? {
            0 => None,
            // Distance plus one, since 0 means none.
            more => {
                let time = i64::try_from(more - 1).ok().and_then(|more| earliest.checked_add(more));
                Some(time.ok_or_else(|| decoder.corrupt("a field's time that is out of range"))?)
            }
        };
        decoder.string_into(&mut field)?;
        decoder.string_into(&mut value)?;
        add_expiring(decoder, &mut hash, &field, &value, expire_at, limits, now_ms)?;
    }
    not_empty(decoder, hash)
}

fn hash_expiry_listpack(decoder: &mut ValueDecoder<'_>, limits: &Limits, now_ms: i64) -> Result<Hash, Error> {
    // The earliest time; each field's own time is in the list.
    decoder.time_ms()?;
    let list = decoder.packed_members(false, "Hash listpack integrity check failed")?;
    let mut hash = Hash::new();
    let (mut field_text, mut value_text) = (itoa::Buffer::new(), itoa::Buffer::new());
    let mut elements = list.iter();
    while let Some(field) = elements.next() {
        let (Some(value), Some(Element::Int(time))) = (elements.next(), elements.next()) else {
            return Err(decoder.corrupt("Hash listpack integrity check failed: no times"));
        };
        let expire_at = (time != 0).then_some(time);
        let (field, value) = (field.text(&mut field_text), value.text(&mut value_text));
        add_expiring(decoder, &mut hash, field, value, expire_at, limits, now_ms)?;
    }
    not_empty(decoder, hash)
}

fn add_expiring(
    decoder: &ValueDecoder<'_>,
    hash: &mut Hash,
    field: &[u8],
    value: &[u8],
    expire_at: Option<i64>,
    limits: &Limits,
    now_ms: i64,
) -> Result<(), Error> {
    decoder.ensure(expire_at.is_none_or(|time| time >= 0), "a field's time that is out of range")?;
    if expire_at.is_some_and(|time| now_ms > time) {
        return Ok(());
    }
    add_field(decoder, hash, field, value, expire_at, limits)
}

fn not_empty(decoder: &ValueDecoder<'_>, hash: Hash) -> Result<Hash, Error> {
    if hash.is_empty() { Err(decoder.error(Fault::Empty)) } else { Ok(hash) }
}

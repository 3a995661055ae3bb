// SPDX-License-Identifier: BSD-3-Clause
//! Streams in dump files.
//!
//! ```text
//! number of blocks; each: its id (a string of 16 bytes), its packed list
//! length, last id, [from version 2: first id, greatest deleted id, entries ever added]
//! number of groups; each: name, last id, [from version 2: entries ever read, all ones if unknown]
//!     number of pending entries; each: id (16 bytes), delivery time, number of deliveries
//!     number of consumers; each: name, seen time, [version 3: active time]
//!         number of its pending entries; each: id (16 bytes)
//! ```
//! Ids outside strings are two lengths; 16-byte ids are big endian.
//!
//! Braid's own version has pending entries without a consumer (XNACK), and at the end:
//! ```text
//! 1 if there are names of producers; their duration (s), maximum number, numbers of names ever
//!     added and of duplicates
//! number of names; each: producer, name, id (16 bytes)
//! ```
//! In the other versions such entries belong to a consumer without a name that was never seen.

use std::io;

use braid_keyspace::object::Object;
use braid_rdb::{Error, Limits, Part, RdbType, SavedObject, Target, ValueDecoder, ValueEncoder, ValueForm};

use super::{Group, Idempotency, Stream, StreamId};

const BLOCKS: Part = Part::Members(&[Part::Text, Part::Text]);
const PENDING: Part = Part::Members(&[Part::Bytes(24), Part::Number]);
const OWN_PENDING: Part = Part::Members(&[Part::Bytes(16)]);
const NUMBER: Part = Part::Number;
/// Groups, whose consumers have active times.
const GROUPS_3: Part = Part::Members(&[
    Part::Text,
    NUMBER,
    NUMBER,
    NUMBER,
    PENDING,
    Part::Members(&[Part::Text, Part::Bytes(16), OWN_PENDING]),
]);

static VERSION_1: ValueForm = ValueForm::new(
    15,
    "Stream1",
    &[
        BLOCKS,
        NUMBER,
        NUMBER,
        NUMBER,
        Part::Members(&[
            Part::Text,
            NUMBER,
            NUMBER,
            PENDING,
            Part::Members(&[Part::Text, Part::Bytes(8), OWN_PENDING]),
        ]),
    ],
)
.packed();
/// Adds counts of entries ever added and read.
static VERSION_2: ValueForm = ValueForm::new(
    19,
    "Stream2",
    &[
        BLOCKS,
        NUMBER,
        NUMBER,
        NUMBER,
        NUMBER,
        NUMBER,
        NUMBER,
        NUMBER,
        NUMBER,
        Part::Members(&[
            Part::Text,
            NUMBER,
            NUMBER,
            NUMBER,
            PENDING,
            Part::Members(&[Part::Text, Part::Bytes(8), OWN_PENDING]),
        ]),
    ],
)
.packed();
/// Adds active times of consumers.
static VERSION_3: ValueForm = ValueForm::new(
    21,
    "Stream3",
    &[BLOCKS, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, GROUPS_3],
)
.packed();

/// Adds released entries and names of producers.
static VERSION_OWN: ValueForm = ValueForm::new(
    235,
    "StreamOwn",
    &[
        BLOCKS,
        NUMBER,
        NUMBER,
        NUMBER,
        NUMBER,
        NUMBER,
        NUMBER,
        NUMBER,
        NUMBER,
        GROUPS_3,
        NUMBER,
        NUMBER,
        NUMBER,
        NUMBER,
        NUMBER,
        Part::Members(&[Part::Text, Part::Text, Part::Bytes(16)]),
    ],
)
.packed();

pub(super) static FORMS: &[&ValueForm] = &[&VERSION_1, &VERSION_2, &VERSION_3, &VERSION_OWN];

impl SavedObject for Stream {
    fn form(&self, target: Target) -> &'static ValueForm {
        match target {
            Target::Own if needs_own_form(self) => &VERSION_OWN,
            Target::Redis70 => &VERSION_2,
            Target::KeyDb => &VERSION_1,
            _ => &VERSION_3,
        }
    }

    fn encode(&self, form: &ValueForm, _: i64, out: &mut ValueEncoder<'_>) -> io::Result<()> {
        encode(self, form, out)
    }

    fn member_count(&self) -> usize {
        // Unused: members of streams do not expire.
        0
    }
}

/// True if other servers' forms cannot hold the stream.
fn needs_own_form(stream: &Stream) -> bool {
    stream.idempotency().is_some() || stream.groups().iter().any(|(_, group)| group.released_len() > 0)
}

/// Reads a stream in any of its forms.
pub(super) fn decode(
    decoder: &mut ValueDecoder<'_>,
    kind: RdbType,
    _: &Limits,
    _: i64,
) -> Result<Object, Error> {
    stream(decoder, kind).map(Object::new)
}

const ENTRIES_READ_UNKNOWN: u64 = u64::MAX;

fn id_of(bytes: &[u8]) -> Option<StreamId> {
    let (ms, seq) = bytes.split_first_chunk::<8>()?;
    Some(StreamId::new(u64::from_be_bytes(*ms), u64::from_be_bytes(seq.try_into().ok()?)))
}

fn raw_id(decoder: &mut ValueDecoder<'_>) -> Result<StreamId, Error> {
    let id = id_of(decoder.take(16)?);
    id.ok_or_else(|| decoder.corrupt("an invalid ID"))
}

fn id(decoder: &mut ValueDecoder<'_>) -> Result<StreamId, Error> {
    Ok(StreamId::new(decoder.length()?, decoder.length()?))
}

fn stream(decoder: &mut ValueDecoder<'_>, kind: RdbType) -> Result<Stream, Error> {
    let mut stream = Stream::new();
    for _ in 0..decoder.count(17)? {
        let first = id_of(decoder.string()?);
        let first = first.ok_or_else(|| decoder.corrupt("a stream's block without an ID"))?;
        let pushed = stream.log_mut().push_block(first, decoder.string()?);
        decoder.ensure(pushed.is_ok(), "Stream listpack integrity check failed")?;
    }
    let length = decoder.length()?;
    decoder.ensure(length == stream.log().len(), "a stream with a wrong length")?;
    let last_id = id(decoder)?;
    decoder.ensure(last_id >= stream.log().last_id(), "a stream with entries after its last ID")?;
    stream.log_mut().set_last_id(last_id);
    if kind.number() == VERSION_1.number {
        stream.log_mut().set_entries_added(length);
    } else {
        // The first id is derived from the entries.
        id(decoder)?;
        let deleted = id(decoder)?;
        stream.log_mut().set_max_deleted_id(deleted);
        let added = decoder.length()?;
        stream.log_mut().set_entries_added(added);
    }
    let mut name = Vec::new();
    for _ in 0..decoder.count(3)? {
        decoder.string_into(&mut name)?;
        let group = group(decoder, &stream, kind)?;
        let is_new = stream.split_mut().1.create(&name, group);
        decoder.ensure(is_new, "a duplicate consumer group")?;
    }
    if kind.number() == VERSION_OWN.number {
        names(decoder, &mut stream)?;
    }
    Ok(stream)
}

/// The names that producers gave their entries.
fn names(decoder: &mut ValueDecoder<'_>, stream: &mut Stream) -> Result<(), Error> {
    let has_names = decoder.length()? != 0;
    let mut bound = |max: u32| -> Result<u32, Error> {
        let bound = u32::try_from(decoder.length()?).ok().filter(|bound| *bound <= max);
        bound.ok_or_else(|| decoder.corrupt("a stream's bound of names that is too large"))
    };
    let duration = bound(Idempotency::DURATION_MAX_S)?;
    let most = bound(Idempotency::NAMES_MAX)?;
    let (added, duplicates) = (decoder.length()?, decoder.length()?);
    let mut all = Idempotency::new(duration, most);
    let (mut producer, mut name) = (Vec::new(), Vec::new());
    for _ in 0..decoder.count(18)? {
        decoder.string_into(&mut producer)?;
        decoder.string_into(&mut name)?;
        let id = raw_id(decoder)?;
        // Nothing is too old here: that is decided by the clock of whoever asks.
        all.record(&producer, &name, id, 0);
    }
    all.set_totals(added, duplicates);
    if has_names {
        decoder.ensure(duration > 0 && most > 0, "a stream's names without bounds")?;
        stream.idempotency_or(|| all);
    }
    Ok(())
}

fn group(decoder: &mut ValueDecoder<'_>, stream: &Stream, kind: RdbType) -> Result<Group, Error> {
    let last_id = id(decoder)?;
    let read = match kind {
        kind if kind.number() == VERSION_1.number => stream.log().entries_up_to(last_id),
        // Stock servers store this number as signed; any negative one means unknown.
        _ => Some(decoder.length()?).filter(|&read| read <= i64::MAX as u64),
    };
    let mut group = Group::new(last_id, read);
    for _ in 0..decoder.count(25)? {
        let id = raw_id(decoder)?;
        let (delivery_time, delivery_count) = (decoder.time_ms()?, decoder.length()?);
        let is_new = group.load_pending(id, delivery_time, delivery_count);
        decoder.ensure(is_new, "a duplicate pending entry")?;
    }
    let mut released = 0;
    for _ in 0..decoder.count(10)? {
        released += consumer(decoder, &mut group, kind)?;
    }
    if kind.number() == VERSION_OWN.number {
        released = group.released_len();
    }
    decoder.ensure(group.end_load(released), "a pending entry without its consumer")?;
    Ok(group)
}

/// Reads a consumer. Returns the number of its entries if it only stands for none.
fn consumer(decoder: &mut ValueDecoder<'_>, group: &mut Group, kind: RdbType) -> Result<usize, Error> {
    let name = decoder.string()?;
    let is_nameless = name.is_empty();
    let created = group.create_consumer(name, 0);
    let consumer = created.ok_or_else(|| decoder.corrupt("Duplicate stream consumer detected"))?;
    let seen_time = decoder.time_ms()?;
    // Before version 3 the seen time is the best estimate.
    let active_time = if [VERSION_3.number, VERSION_OWN.number].contains(&kind.number()) {
        decoder.time_ms()?
    } else {
        seen_time
    };
    if let Some(consumer) = group.consumer_mut(consumer) {
        (consumer.seen_time, consumer.active_time) = (seen_time, active_time);
    }
    for _ in 0..decoder.count(16)? {
        let id = raw_id(decoder)?;
        let is_new = group.load_owner(id, consumer);
        decoder.ensure(is_new, "a consumer's entry that is not pending in its group")?;
    }
    if !is_nameless || seen_time != 0 || kind.number() == VERSION_OWN.number {
        return Ok(0);
    }
    let ids: Vec<StreamId> = match group.consumer(consumer) {
        Some(consumer) => consumer.pending_from(StreamId::MIN).collect(),
        None => Vec::new(),
    };
    for id in &ids {
        let count = group.pending(*id).map_or(0, |pending| pending.delivery_count);
        group.release(*id, count);
    }
    group.delete_consumer(b"");
    Ok(ids.len())
}

fn write_raw_id(out: &mut ValueEncoder<'_>, id: StreamId) -> io::Result<()> {
    out.bytes(&id.ms.to_be_bytes())?;
    out.bytes(&id.seq.to_be_bytes())
}

fn write_id(out: &mut ValueEncoder<'_>, id: StreamId) -> io::Result<()> {
    out.length(id.ms)?;
    out.length(id.seq)
}

fn encode(stream: &Stream, form: &ValueForm, out: &mut ValueEncoder<'_>) -> io::Result<()> {
    let log = stream.log();
    out.length(log.block_count() as u64)?;
    for (first, block) in log.blocks() {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&first.ms.to_be_bytes());
        key[8..].copy_from_slice(&first.seq.to_be_bytes());
        out.string(&key)?;
        out.string(block.bytes())?;
    }
    out.length(log.len())?;
    write_id(out, log.last_id())?;
    if form.number != VERSION_1.number {
        write_id(out, log.first_id())?;
        write_id(out, log.max_deleted_id())?;
        out.length(log.entries_added())?;
    }
    out.length(stream.groups().len() as u64)?;
    for (name, group) in stream.groups().iter() {
        out.string(name)?;
        write_group(out, group, form)?;
    }
    if form.number == VERSION_OWN.number {
        write_names(out, stream.idempotency())?;
    }
    Ok(())
}

fn write_names(out: &mut ValueEncoder<'_>, names: Option<&Idempotency>) -> io::Result<()> {
    let Some(names) = names else {
        return (0..6).try_for_each(|_| out.length(0));
    };
    let (added, duplicates) = names.totals();
    for number in [1, names.duration_s().into(), names.names_max().into(), added, duplicates] {
        out.length(number)?;
    }
    out.length(names.len() as u64)?;
    for (producer, name, id) in names.records() {
        out.string(producer)?;
        out.string(name)?;
        write_raw_id(out, id)?;
    }
    Ok(())
}

fn write_group(out: &mut ValueEncoder<'_>, group: &Group, form: &ValueForm) -> io::Result<()> {
    write_id(out, group.last_id)?;
    if form.number != VERSION_1.number {
        out.length(group.entries_read.unwrap_or(ENTRIES_READ_UNKNOWN))?;
    }
    out.length(group.pending_len() as u64)?;
    for (id, pending) in group.pending_range(StreamId::MIN..=StreamId::MAX) {
        write_raw_id(out, id)?;
        out.time_ms(pending.delivery_time)?;
        out.length(pending.delivery_count)?;
    }
    let is_own = form.number == VERSION_OWN.number;
    let has_active_times = is_own || form.number == VERSION_3.number;
    let released: Vec<StreamId> =
        if is_own { Vec::new() } else { group.released().map(|(id, _)| id).collect() };
    let nameless = group.find_consumer(b"");
    let stands_in = !released.is_empty() && nameless.is_none();
    out.length(group.consumers_len() as u64 + u64::from(stands_in))?;
    if stands_in {
        out.string(b"")?;
        out.time_ms(0)?;
        if has_active_times {
            out.time_ms(-1)?;
        }
        out.length(released.len() as u64)?;
        released.iter().try_for_each(|id| write_raw_id(out, *id))?;
    }
    for (id, consumer) in group.consumers() {
        let also: &[StreamId] = if Some(id) == nameless { &released } else { &[] };
        out.string(consumer.name())?;
        out.time_ms(consumer.seen_time)?;
        if has_active_times {
            out.time_ms(consumer.active_time)?;
        }
        out.length((consumer.pending_len() + also.len()) as u64)?;
        for id in consumer.pending_from(StreamId::MIN).chain(also.iter().copied()) {
            write_raw_id(out, id)?;
        }
    }
    Ok(())
}

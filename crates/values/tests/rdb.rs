// SPDX-License-Identifier: BSD-3-Clause
//! Payloads from stock servers, and random values.

use braid_keyspace::Value;
use braid_keyspace::object::Object;
use braid_persistence::read_value;
use braid_rdb::{Bytes, Decoder, Encoder, Fault, Format, Limits, PayloadError, RdbType, Traits, ValueRef};
use braid_values::hash::{Expiry, Hash, HashLimits};
use braid_values::list::{End, List};
use braid_values::set::{Set, SetLimits};
use braid_values::sorted_set::{AddRule, SortedSet};
use braid_values::stream::{BlockLimits, Group, Stream, StreamId};
use proptest::collection::vec;
use proptest::prelude::*;

/// A value's content as comparable text, independent of its form.
fn content(value: &Value<'_>) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    match value {
        Value::Bytes { bytes, .. } => text(bytes),
        Value::Integer(number) => number.to_string(),
        Value::Blob(blob) => text(blob),
        Value::Object(object) => {
            let object = object.as_ref();
            if let Some(stream) = object.get::<Stream>() {
                return stream_content(stream);
            }
            collection_content(object.get(), object.get(), object.get(), object.get())
        }
    }
}

fn collection_content(
    list: Option<&List>,
    set: Option<&Set>,
    sorted: Option<&SortedSet>,
    hash: Option<&Hash>,
) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let mut lines = Vec::new();
    if let Some(list) = list {
        list.range(0, usize::MAX, |element| lines.push(text(&element.to_vec())));
        return lines.join(" ");
    }
    if let Some(set) = set {
        lines.extend(set.iter(i64::MIN).map(|member| text(&member.to_vec())));
    }
    if let Some(set) = sorted {
        let view = set.view(0);
        let pairs = view.iter(0..set.len()).map(|(member, score)| (member.to_vec(), score));
        lines.extend(pairs.map(|(member, score)| format!("{}={score}", text(&member))));
    }
    if let Some(hash) = hash {
        lines.extend(hash.iter_with_expiry().map(|(field, value, expire_at)| {
            format!("{}={}@{expire_at:?}", text(&field.to_vec()), text(&value.to_vec()))
        }));
    }
    lines.sort();
    lines.join(" ")
}

fn stream_content(stream: &Stream) -> String {
    let log = stream.log();
    let mut lines = vec![format!(
        "{} last {} first {} deleted {} added {}",
        log.len(),
        log.last_id(),
        log.first_id(),
        log.max_deleted_id(),
        log.entries_added()
    )];
    for entry in log.range(StreamId::MIN, StreamId::MAX) {
        let fields: Vec<_> = entry.fields.map(|(field, value)| (field.to_vec(), value.to_vec())).collect();
        lines.push(format!("{} {fields:?}", entry.id));
    }
    for (name, group) in stream.groups().iter() {
        lines.push(format!("group {name:?} {} {:?}", group.last_id, group.entries_read));
        for (id, pending) in group.pending_range(StreamId::MIN..=StreamId::MAX) {
            let owner = group.consumer(pending.consumer).map(|consumer| consumer.name().to_vec());
            lines.push(format!("{id} {} {} {owner:?}", pending.delivery_time, pending.delivery_count));
        }
        for (_, consumer) in group.consumers() {
            let pending: Vec<_> = consumer.pending_from(StreamId::MIN).collect();
            let times = (consumer.seen_time, consumer.active_time);
            lines.push(format!("consumer {:?} {times:?} {pending:?}", consumer.name()));
        }
    }
    lines.join("\n")
}

fn read(body: &[u8], version: u16) -> Result<String, braid_rdb::Error> {
    let mut decoder = Decoder::new(Bytes::new(body), version);
    let kind = decoder.kind()?;
    let content =
        read_value(&mut decoder, kind, &Limits::default(), i64::MIN).map(|value| content(&value))?;
    // Any value that can be read can also be skipped, ending at the same position.
    let mut other = Decoder::new(Bytes::new(body), version);
    let kind = other.kind()?;
    assert!(other.skip_value(kind, body.len() as u64).is_ok(), "{kind:?}");
    assert_eq!(other.position(), decoder.position(), "{kind:?}");
    Ok(content)
}

fn hex(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

#[track_caller]
fn check(payload: &str, expected: &str) {
    let payload = hex(payload);
    let decoder = braid_rdb::open(&payload, true).unwrap();
    assert_eq!(read(&payload[..payload.len() - 10], decoder.version).unwrap(), expected);
}

#[test]
fn hashes_with_times_of_valkey_9_and_redis_8() {
    braid_values::register();
    check(
        "16 02 01 61 c0 01 4f 29 4a 03 a2 01 00 00 01 62 c0 02 ff ff ff ff ff ff ff ff 50 00 ec 80 54 3c 91 50 20 67",
        "a=1@Some(1795351521615) b=2@None",
    );
    check(
        "18 00 40 94 52 a3 03 00 00 04 00 01 64 c0 04 00 01 62 c0 02 41 f5 01 63 c0 03 01 01 61 c0 01 0c 00 6d 76 da 07 2b \
         ce 51 44",
        "a=1@Some(4000000000000) b=2@None c=3@Some(4000000000500) d=4@None",
    );
    check(
        "19 84 27 4a 03 a2 01 00 00 1d 1d 00 00 00 06 00 81 61 02 01 01 f4 84 27 4a 03 a2 01 00 00 09 81 62 02 02 01 00 01 \
         ff 0c 00 08 32 4a 70 48 e7 b9 69",
        "a=1@Some(1795351521156) b=2@None",
    );
}

#[test]
fn a_stream_of_redis_8() {
    braid_values::register();
    check(
        "15 01 10 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 01 1d 1d 00 00 00 0a 00 01 01 00 01 01 01 81 61 02 00 01 02 01 \
         00 01 00 01 81 62 02 04 01 ff 01 01 01 01 01 00 00 01 01 01 67 01 01 01 01 00 00 00 00 00 00 00 01 00 00 00 00 00 00 \
         00 01 5f 47 54 fd a1 01 00 00 01 01 01 63 5f 47 54 fd a1 01 00 00 5f 47 54 fd a1 01 00 00 01 00 00 00 00 00 00 00 01 \
         00 00 00 00 00 00 00 01 0c 00 f5 27 14 4b 96 db f0 f7",
        "1 last 1-1 first 1-1 deleted 0-0 added 1\n\
         1-1 [([97], [98])]\n\
         group [103] 1-1 Some(1)\n\
         1-1 1795251521375 1 Some([99])\n\
         consumer [99] (1795251521375, 1795251521375) [StreamId { ms: 1, seq: 1 }]",
    );
}

#[test]
fn old_types_are_read() {
    braid_values::register();
    // Elements one by one, scores as text.
    assert_eq!(read(b"\x01\x02\x01b\xc0\x07", 1).unwrap(), "b 7");
    assert_eq!(read(b"\x02\x02\x01b\xc1\x00\x01", 1).unwrap(), "256 b");
    assert_eq!(read(b"\x03\x03\x01a\x031.5\x01b\xff\x01c\xfe", 1).unwrap(), "a=1.5 b=-inf c=inf");
    assert_eq!(read(b"\x04\x01\x01f\xc2\xff\xff\xff\xff", 1).unwrap(), "f=-1@None");
    // Packed forms.
    assert_eq!(read(b"\x09\x0d\x01\x03foo\x03\x00bar\xff", 2).unwrap_err().position, 2, "cut off");
    assert_eq!(read(b"\x09\x0b\x01\x03foo\x03\x00bar\xff", 2).unwrap(), "foo=bar@None");
    let ziplist = b"\x0f\x00\x00\x00\x0c\x00\x00\x00\x02\x00\x00\xf3\x02\xf6\xff";
    let with = |kind: &[u8]| [kind, b"\x0f", ziplist].concat();
    assert_eq!(read(&with(b"\x0a"), 6).unwrap(), "2 5");
    assert_eq!(read(&with(b"\x0c"), 6).unwrap(), "2=5");
    assert_eq!(read(&with(b"\x0d"), 6).unwrap(), "2=5@None");
    assert_eq!(read(&with(b"\x0e\x01"), 7).unwrap(), "2 5");
    assert_eq!(read(b"\x0b\x0c\x02\0\0\0\x02\0\0\0\xff\xff\x05\0", 6).unwrap(), "-1 5");
    // A compressed string.
    let mut encoder = Encoder::new(Vec::new(), true);
    encoder.string(&b"abc".repeat(100)).unwrap();
    let packed = encoder.into_inner();
    assert!(packed[0] == 0xc3 && packed.len() < 40);
    assert_eq!(read(&[b"\0", &packed[..]].concat(), 1).unwrap(), "abc".repeat(100));
}

#[test]
fn what_is_refused() {
    braid_values::register();
    let fault = |body: &[u8], version| read(body, version).unwrap_err().fault;
    for body in [&b"\x01\0"[..], b"\x02\0", b"\x03\0", b"\x04\0", b"\x05\0", b"\x0e\0", b"\x12\0"] {
        assert!(matches!(fault(body, 11), Fault::Empty), "{body:?}");
    }
    for twice in [
        &b"\x02\x02\x01a\x01a"[..],
        b"\x04\x02\x01a\x01b\x01a\x01b",
        b"\x03\x02\x01a\x011\x01a\x012",
        b"\x16\x02\x01a\x01b\xff\xff\xff\xff\xff\xff\xff\xff\x01a\x01b\xff\xff\xff\xff\xff\xff\xff\xff",
    ] {
        assert!(matches!(fault(twice, 80), Fault::Corrupt(_)), "{twice:?}");
    }
    // Far more members, or a far longer string, than the bytes can hold.
    for body in [
        &b"\x02\x81\x7f\xff\xff\xff\xff\xff\xff\xff\x01a"[..],
        b"\x04\x80\xff\xff\xff\xff\x01a\x01b",
        b"\x00\x81\x7f\xff\xff\xff\xff\xff\xff\xffabc",
        b"\x00\x80\x00\x10\x00\x00abc",
    ] {
        assert!(matches!(fault(body, 11), Fault::Short), "{body:?}");
    }
    // A compressed string that claims to expand to 2^40 bytes.
    let bomb = b"\x00\xc3\x02\x81\0\0\x01\0\0\0\0\0\x00a";
    assert!(matches!(fault(bomb, 11), Fault::Corrupt(_)));
    assert!(matches!(fault(b"\x16\x01\x01a\x01b\0\0\0\0\0\0\0\0", 12), Fault::UnknownType(22)));
    assert!(matches!(fault(b"\x17", 11), Fault::UnknownType(23)));
    let module = fault(b"\x07\x81\x7c\x11\x2d\x1b\x08\xa5\x7c\x01\x02\x05\x05\x02ab\x00", 11);
    assert!(matches!(&module, Fault::Module(name) if name.len() == 9), "{module}");
    assert!(matches!(fault(b"\x07\x81\x7c\x11\x2d\x1b\x08\xa5\x7c\x01\x05\x09ab", 11), Fault::Short));
    assert_eq!(braid_rdb::open(b"short", true).err(), Some(PayloadError::Short));
    assert_eq!(braid_rdb::open(b"\x00\x01v\x0d\0________", true).err(), Some(PayloadError::Version(13)));
    assert_eq!(braid_rdb::open(b"\x00\x01v\x0b\0________", true).err(), Some(PayloadError::Checksum));
}

#[test]
fn times_of_members_of_sets_are_kept() {
    braid_values::register();
    let limits = Limits::default();
    let (mut set, mut zset) = (Set::default(), SortedSet::new());
    for (index, member) in ["a", "b", "42", "gone"].into_iter().enumerate() {
        set.add(member.as_bytes(), 0, &limits.set);
        zset.add(member.as_bytes(), index as f64, AddRule::default(), &limits.sorted_set);
    }
    for (member, time) in [("a", 5_000), ("gone", 900)] {
        set.set_expiry(member.as_bytes(), Some(time), 0);
        zset.set_expiry(member.as_bytes(), Some(time));
    }
    let again = |value: ValueRef<'_>, number: u8| {
        let payload = braid_rdb::dump(value, Format::default(), false);
        assert_eq!(braid_rdb::open(&payload, true).unwrap().kind().unwrap().number(), number);
        let kind = RdbType::from_number(number, braid_rdb::VERSION).unwrap();
        for cut in 1..payload.len() - 10 {
            let mut short = Decoder::new(Bytes::new(&payload[1..cut]), braid_rdb::VERSION_FIELD_EXPIRY);
            assert!(read_value(&mut short, kind, &Limits::default(), 0).is_err(), "cut at {cut}");
        }
        payload
    };
    let (set, zset) = (again(ValueRef::Object(&set), 240), again(ValueRef::Object(&zset), 241));
    let read = |payload: &[u8], see: &mut dyn FnMut(Value<'_>)| {
        let mut decoder = braid_rdb::open(payload, true).unwrap();
        let kind = decoder.kind().unwrap();
        see(read_value(&mut decoder, kind, &limits, 1_000).unwrap());
    };
    let kept = (Some(Some(5_000)), Some(None), Some(None), None);
    read(&set, &mut |value| {
        let Value::Object(object) = value else { panic!("a set") };
        let set = object.as_ref().get::<Set>().expect("a set");
        let time = |member: &str| set.expiry(member.as_bytes(), 1_000);
        assert_eq!((time("a"), time("b"), time("42"), time("gone")), kept);
    });
    read(&zset, &mut |value| {
        let Value::Object(object) = value else { panic!("a sorted set") };
        let zset = object.as_ref().get::<SortedSet>().expect("a sorted set");
        let view = zset.view(1_000);
        let time = |member: &str| view.expiry(member.as_bytes());
        assert_eq!((time("a"), time("b"), time("42"), time("gone")), kept);
        assert_eq!(view.score(b"42"), Some(2.0));
    });
}

/// Every target gets types that it supports; a target without expiry times gets the unexpired
/// members.
#[test]
fn written_types_match_target_server_support() {
    braid_values::register();
    use braid_rdb::Target::*;
    let limits = Limits::default();
    let (mut set, mut zset, mut hash) = (Set::default(), SortedSet::new(), Hash::new());
    for (index, member) in ["a", "b", "gone"].into_iter().enumerate() {
        let time = [Some(5_000), None, Some(900)][index];
        set.add(member.as_bytes(), 0, &limits.set);
        zset.add(member.as_bytes(), index as f64, AddRule::default(), &limits.sorted_set);
        let expiry = time.map_or(Expiry::Keep, Expiry::At);
        hash.set(member.as_bytes(), b"x", expiry, i64::MIN, &limits.hash);
        if time.is_some() {
            set.set_expiry(member.as_bytes(), time, 0);
            zset.set_expiry(member.as_bytes(), time);
        }
    }
    let (mut small_set, mut small_zset, mut small_hash) = (Set::default(), SortedSet::new(), Hash::new());
    let (mut list, mut stream) = (List::new(), Stream::new());
    for member in [&b"m"[..], b"77"] {
        small_set.add(member, 0, &limits.set);
        small_zset.add(member, 1.5, AddRule::default(), &limits.sorted_set);
        small_hash.set(member, b"1", Expiry::Keep, i64::MIN, &limits.hash);
        list.push(End::Back, member, &limits.list);
    }
    let added =
        stream.log_mut().append(StreamId::new(1, 1), &[(&b"f"[..], &b"v"[..])], &BlockLimits::default());
    assert!(added.is_ok());
    let values = [
        ValueRef::Object(&hash),
        ValueRef::Object(&set),
        ValueRef::Object(&zset),
        ValueRef::Object(&small_hash),
        ValueRef::Object(&small_set),
        ValueRef::Object(&small_zset),
        ValueRef::Object(&list),
        ValueRef::Object(&stream),
    ];
    for (target, version, kinds) in [
        (Own, [80, 11], [22, 240, 241, 16, 20, 17, 18, 21]),
        (Valkey9, [80, 80], [22, 2, 5, 16, 20, 17, 18, 21]),
        (Redis8, [12, 12], [24, 2, 5, 16, 20, 17, 18, 21]),
        (Redis72, [11, 11], [4, 2, 5, 16, 20, 17, 18, 21]),
        (Redis70, [10, 10], [4, 2, 5, 16, 2, 17, 18, 19]),
        (KeyDb, [9, 9], [4, 2, 5, 4, 2, 5, 1, 15]),
    ] {
        let format = Format { target, now_ms: 1_000 };
        assert_eq!([format.version(true), format.version(false)], version);
        for (index, (value, kind)) in values.into_iter().zip(kinds).enumerate() {
            let mut out = Vec::new();
            if let Some(taken) = value.take_packed(format, &mut out) {
                assert_eq!(taken.number(), kind, "{target:?}");
            }
            let payload = braid_rdb::dump(value, format, false);
            let mut decoder = braid_rdb::open(&payload, true).unwrap();
            assert_eq!(decoder.version, version[usize::from(index > 2)]);
            let found = decoder.kind().unwrap();
            assert_eq!(found.number(), kind, "{target:?}");
            let content = content(&read_value(&mut decoder, found, &limits, 1_000).unwrap());
            let has_times = matches!(kind, 22 | 24 | 240 | 241);
            let a = if has_times { "a=x@Some(5000)" } else { "a=x@None" };
            let expected = match index {
                0 => format!("{a} b=x@None"),
                1 => "a b".to_owned(),
                2 => "a=0 b=1".to_owned(),
                3 => "77=1@None m=1@None".to_owned(),
                4 => "77 m".to_owned(),
                5 => "77=1.5 m=1.5".to_owned(),
                6 => "m 77".to_owned(),
                _ => stream_content(&stream),
            };
            assert_eq!(content, expected, "{target:?}");
            let left_out = u64::from(index < 3 && !has_times);
            assert_eq!(format.times_left_out(value, false), left_out);
            assert_eq!(format.times_left_out(value, true), if target == KeyDb { 0 } else { left_out });
            let later = Format { target, now_ms: 6_000 };
            assert!(!later.is_void(value), "b has not expired");
        }
    }
    // All members have expired.
    let (mut gone, format) = (Set::default(), Format { target: Redis72, now_ms: 1_000 });
    gone.add(b"gone", 0, &limits.set);
    gone.set_expiry(b"gone", Some(900), 0);
    assert!(format.is_void(ValueRef::Object(&gone)));
    assert_eq!(braid_rdb::encode_key(b"k", ValueRef::Object(&gone), format, Some(7), Traits::default()), b"");
    assert!(!Format::default().is_void(ValueRef::Object(&gone)));
    // KeyDB's records of member expiries.
    let format = Format { target: KeyDb, now_ms: 1_000 };
    let record = braid_rdb::encode_key(b"k", ValueRef::Object(&set), format, None, Traits::default());
    let text = record.escape_ascii().to_string();
    assert!(
        text.ends_with("\\xfa\\x13keydb-subexpire-key\\x01a\\xfa\\x14keydb-subexpire-when\\xc1\\x88\\x13"),
        "{text}"
    );
}

/// Dumps, opens and reads a value; content and form must be unchanged.
fn round_trip(value: ValueRef<'_>) -> String {
    let mut found = Vec::new();
    for compress in [false, true] {
        let payload = braid_rdb::dump(value, Format::default(), compress);
        let mut decoder = braid_rdb::open(&payload, true).unwrap();
        let kind = decoder.kind().unwrap();
        assert_eq!(kind, value.kind());
        let value = read_value(&mut decoder, kind, &Limits::default(), i64::MIN).unwrap();
        found.push(content(&value));
        // Also through a stream of unknown length.
        let stream = braid_rdb::Stream::new(&payload[1..], None, true);
        let mut decoder = Decoder::new(stream, decoder.version);
        let value = read_value(&mut decoder, kind, &Limits::default(), i64::MIN).unwrap();
        found.push(content(&value));
    }
    assert!(found.windows(2).all(|pair| pair[0] == pair[1]));
    found.swap_remove(0)
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => vec(any::<u8>(), 0..12),
        3 => any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        3 => (-200i64..200).prop_map(|number| number.to_string().into_bytes()),
        1 => (vec(any::<u8>(), 1..4), 1usize..400).prop_map(|(unit, times)| unit.repeat(times)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn strings_round_trip(bytes in text(), long in 0usize..200_000, number: i64) {
    braid_values::register();
        prop_assert_eq!(round_trip(ValueRef::Integer(number)), number.to_string());
        let bytes = bytes.repeat(long / bytes.len().max(1) % 40 + 1);
        prop_assert_eq!(round_trip(ValueRef::Text(&bytes)), bytes.escape_ascii().to_string());
    }

    #[test]
    fn collections_round_trip(texts in vec((text(), text(), any::<f64>(), any::<Option<u32>>()), 1..300)) {
    braid_values::register();
        let limits = Limits::default();
        let (mut list, mut sorted, mut hash) = (List::new(), SortedSet::new(), Hash::new());
        let mut expiring = Hash::new();
        let mut set = Set::for_member(&texts[0].0, 1, &SetLimits::default());
        for (one, two, score, time) in &texts {
            list.push(End::Back, one, &limits.list);
            set.add(one, 0, &limits.set);
            // There is only one zero: -0 becomes 0 in the packed form.
            sorted.add(one, if score.is_nan() { 0.0 } else { *score + 0.0 }, AddRule::default(), &limits.sorted_set);
            hash.set(one, two, Expiry::Keep, 0, &HashLimits::default());
            let expiry = time.map_or(Expiry::Clear, |time| Expiry::At(i64::from(time)));
            expiring.set(one, two, expiry, i64::MIN, &HashLimits::default());
        }
        prop_assert_eq!(round_trip(ValueRef::Object(&list)), content(&Value::Object(Object::new(list.clone()))));
        prop_assert_eq!(round_trip(ValueRef::Object(&set)), content(&Value::Object(Object::new(set.clone()))));
        prop_assert_eq!(round_trip(ValueRef::Object(&sorted)), content(&Value::Object(Object::new(sorted.clone()))));
        prop_assert_eq!(round_trip(ValueRef::Object(&hash)), content(&Value::Object(Object::new(hash.clone()))));
        prop_assert_eq!(round_trip(ValueRef::Object(&expiring)), content(&Value::Object(Object::new(expiring.clone()))));
    }

    #[test]
    fn streams_round_trip(
        entries in vec((1u64..3, 0u64..3, text(), text(), any::<bool>()), 0..250),
        groups in vec((text(), 0u64..400, any::<Option<u32>>(), vec((text(), vec(0u64..400, 0..20)), 0..4)), 0..4),
    ) {
    braid_values::register();
        let mut stream = Stream::new();
        let mut id = StreamId::new(1, 0);
        for (ms, seq, field, value, deleted) in &entries {
            id = StreamId::new(id.ms + ms - 1, id.seq + seq + 1);
            stream.log_mut().append(id, &[(field, value)], &BlockLimits::default()).unwrap();
            if *deleted {
                stream.log_mut().delete(id);
            }
        }
        for (name, last, read, consumers) in groups {
            let mut group = Group::new(StreamId::new(last, 1), read.map(u64::from));
            for (name, pending) in consumers {
                let Some(consumer) = group.create_consumer(&name, 5) else { continue };
                group.consumer_mut(consumer).unwrap().active_time = 77;
                for ms in pending {
                    if group.pending(StreamId::new(ms, 3)).is_none() && group.load_pending(StreamId::new(ms, 3), ms as i64 + 1, ms % 3) {
                        group.load_owner(StreamId::new(ms, 3), consumer);
                    }
                }
            }
            stream.split_mut().1.create(&name, group);
        }
        prop_assert_eq!(round_trip(ValueRef::Object(&stream)), stream_content(&stream));
    }

    #[test]
    fn hostile_bytes_are_harmless(
        number in prop_oneof![(0u8..8), (9u8..26)], body in vec(any::<u8>(), 0..80), version in prop_oneof![Just(11), Just(12)],
        value in text(), at: usize, flip: u8,
    ) {
    braid_values::register();
        let _ = read(&[&[number], &body[..]].concat(), version).is_ok();
        // A valid value with one byte changed.
        let mut hash = Hash::new();
        hash.set(&value, b"v", Expiry::Keep, 0, &HashLimits::default());
        let mut payload = braid_rdb::dump(ValueRef::Object(&hash), Format::default(), true);
        let len = payload.len() - 10;
        payload[at % len] ^= flip;
        let mut decoder = braid_rdb::open(&payload, false).unwrap();
        if let Ok(kind) = decoder.kind() {
            let _ = read_value(&mut decoder, kind, &Limits::default(), 0).is_ok();
        }
    }
}

#[test]
fn every_type_has_its_number() {
    braid_values::register();
    for number in 0..=u8::MAX {
        if let Some(kind) = RdbType::from_number(number, 11) {
            assert_eq!(kind.number(), number);
        }
    }
}

// SPDX-License-Identifier: BSD-3-Clause
//! Keyspace events, published to the channels that `notify-keyspace-events` selects.

use std::sync::atomic::Ordering;

use braid_base::number;
use braid_config::NotifyFlags;
use braid_keyspace::events::{Event, Observer, class};
use smallvec::SmallVec;

use crate::hub::Hub;

// The configuration's bits are passed to the keyspace unchanged, so both definitions must agree.
const _: () = {
    let pairs = [
        (class::GENERIC, NotifyFlags::GENERIC),
        (class::STRING, NotifyFlags::STRING),
        (class::LIST, NotifyFlags::LIST),
        (class::SET, NotifyFlags::SET),
        (class::HASH, NotifyFlags::HASH),
        (class::ZSET, NotifyFlags::ZSET),
        (class::EXPIRED, NotifyFlags::EXPIRED),
        (class::EVICTED, NotifyFlags::EVICTED),
        (class::STREAM, NotifyFlags::STREAM),
        (class::KEY_MISS, NotifyFlags::KEY_MISS),
        (class::MODULE, NotifyFlags::MODULE),
        (class::NEW, NotifyFlags::NEW),
        (class::OVERWRITTEN, NotifyFlags::OVERWRITTEN),
        (class::TYPE_CHANGED, NotifyFlags::TYPE_CHANGED),
        (class::MEMBERS, NotifyFlags::MEMBERS),
    ];
    let mut at = 0;
    while at < pairs.len() {
        assert!(pairs[at].0 == pairs[at].1);
        at += 1;
    }
};

impl Observer for Hub {
    fn event(&self, slot: usize, db: u32, event: Event, key: &[u8], old: Option<&[u8]>) {
        if !self.has_listeners() {
            return;
        }
        let channels = self.event_channels.load(Ordering::Relaxed);
        let channel = |kind: &[u8], subject: &[u8]| channel(kind, db, &[subject]);
        if channels & NotifyFlags::KEYSPACE != 0 {
            self.publish(slot, &channel(b"__keyspace@", key), event.name.as_bytes(), None);
        }
        if channels & NotifyFlags::KEYEVENT != 0 {
            self.publish(slot, &channel(b"__keyevent@", event.name.as_bytes()), key, None);
        }
        if let Some(old) = old {
            // The lost value is published to a channel named after the event and the key.
            let subject = [event.name.as_bytes(), b":", key].concat();
            self.publish(slot, &channel(b"__keyvalue@", &subject), old, None);
        }
    }

    fn members(&self, slot: usize, db: u32, event: Event, key: &[u8], members: &[&[u8]]) {
        if !self.has_listeners() {
            return;
        }
        let channels = self.event_channels.load(Ordering::Relaxed);
        let name = event.name.as_bytes();
        let mut list = Vec::new();
        for (index, member) in members.iter().enumerate() {
            if index > 0 {
                list.push(b',');
            }
            push_counted(&mut list, member);
        }
        if channels & NotifyFlags::MEMBERS_BY_KEY != 0 {
            let message = [name, b"|", &list].concat();
            self.publish(slot, &channel(b"__subkeyspace@", db, &[key]), &message, None);
        }
        if channels & NotifyFlags::MEMBERS_BY_EVENT != 0 {
            let mut message = Vec::with_capacity(key.len() + list.len() + 12);
            push_counted(&mut message, key);
            message.push(b'|');
            message.extend_from_slice(&list);
            self.publish(slot, &channel(b"__subkeyevent@", db, &[name]), &message, None);
        }
        // A line break separates the key from the member.
        if channels & NotifyFlags::MEMBERS_BY_MEMBER != 0 && !key.contains(&b'\n') {
            for member in members {
                let channel = channel(b"__subkeyspaceitem@", db, &[key, b"\n", member]);
                self.publish(slot, &channel, name, None);
            }
        }
        if channels & NotifyFlags::MEMBERS_BY_EVENT_AND_KEY != 0 {
            let channel = channel(b"__subkeyspaceevent@", db, &[name, b"|", key]);
            self.publish(slot, &channel, &list, None);
        }
    }
}

/// The name of a channel for events of a database.
fn channel(kind: &[u8], db: u32, subject: &[&[u8]]) -> SmallVec<[u8; 128]> {
    let mut digits = [0; number::INTEGER_LEN_MAX];
    let db = number::write_i64(&mut digits, i64::from(db));
    let mut name = SmallVec::new();
    for part in [kind, db, b"__:"].iter().chain(subject) {
        name.extend_from_slice(part);
    }
    name
}

/// Appends a text with its length in front, so that it may contain any byte.
fn push_counted(out: &mut Vec<u8>, text: &[u8]) {
    let mut digits = [0; number::INTEGER_LEN_MAX];
    out.extend_from_slice(number::write_u64(&mut digits, text.len() as u64));
    out.push(b':');
    out.extend_from_slice(text);
}

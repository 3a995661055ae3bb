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
        let mut digits = [0; number::INTEGER_LEN_MAX];
        let db = number::write_i64(&mut digits, i64::from(db));
        let channel = |kind: &[u8], subject: &[u8]| {
            let mut name = SmallVec::<[u8; 128]>::new();
            for part in [kind, db, b"__:", subject] {
                name.extend_from_slice(part);
            }
            name
        };
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
}

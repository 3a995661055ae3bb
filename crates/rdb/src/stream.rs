// SPDX-License-Identifier: BSD-3-Clause
//! Streams: reading and writing.
//!
//! ```text
//! number of blocks; each: its id (a string of 16 bytes), its packed list
//! length, last id, [from version 2: first id, greatest deleted id, entries ever added]
//! number of groups; each: name, last id, [from version 2: entries ever read, all ones if unknown]
//!     number of pending entries; each: id (16 bytes), delivery time, number of deliveries
//!     number of consumers; each: name, seen time, [version 3: active time]
//!         number of its pending entries; each: id (16 bytes)
//! ```
//! Ids outside of strings are two lengths, those of 16 bytes have the most significant first.

use std::io::{self, Write};

use braid_containers::stream::{Group, Stream, StreamId};

use crate::decode::Decoder;
use crate::encode::Encoder;
use crate::error::Error;
use crate::kind::Kind;
use crate::source::Source;

const ENTRIES_READ_UNKNOWN: u64 = u64::MAX;

fn id_of(bytes: &[u8]) -> Option<StreamId> {
    let (ms, seq) = bytes.split_first_chunk::<8>()?;
    Some(StreamId::new(u64::from_be_bytes(*ms), u64::from_be_bytes(seq.try_into().ok()?)))
}

impl<S: Source> Decoder<S> {
    fn raw_id(&mut self) -> Result<StreamId, Error> {
        let id = id_of(self.take(16)?);
        id.ok_or_else(|| self.corrupt("an id that is none"))
    }

    fn id(&mut self) -> Result<StreamId, Error> {
        Ok(StreamId::new(self.length()?, self.length()?))
    }

    pub(crate) fn stream(&mut self, kind: Kind) -> Result<Stream, Error> {
        let mut stream = Stream::new();
        for _ in 0..self.count(17)? {
            let first = id_of(self.string()?);
            let first = first.ok_or_else(|| self.corrupt("a stream's block without an id"))?;
            let pushed = stream.log_mut().push_block(first, self.string()?);
            self.ensure(pushed.is_ok(), "Stream listpack integrity check failed")?;
        }
        let length = self.length()?;
        self.ensure(length == stream.log().len(), "a stream with a wrong length")?;
        let last_id = self.id()?;
        self.ensure(last_id >= stream.log().last_id(), "a stream with entries behind its last")?;
        stream.log_mut().set_last_id(last_id);
        if kind == Kind::Stream1 {
            stream.log_mut().set_entries_added(length);
        } else {
            // The first id follows from the entries.
            self.id()?;
            let deleted = self.id()?;
            stream.log_mut().set_max_deleted_id(deleted);
            let added = self.length()?;
            stream.log_mut().set_entries_added(added);
        }
        let mut name = Vec::new();
        for _ in 0..self.count(3)? {
            self.string_into(&mut name)?;
            let group = self.group(&stream, kind)?;
            let is_new = stream.split_mut().1.create(&name, group);
            self.ensure(is_new, "a consumer group that comes twice")?;
        }
        Ok(stream)
    }

    fn group(&mut self, stream: &Stream, kind: Kind) -> Result<Group, Error> {
        let last_id = self.id()?;
        let read = match kind {
            Kind::Stream1 => stream.log().entries_up_to(last_id),
            // Stock servers keep this number signed and take every negative one as unknown.
            _ => Some(self.length()?).filter(|&read| read <= i64::MAX as u64),
        };
        let mut group = Group::new(last_id, read);
        for _ in 0..self.count(25)? {
            let id = self.raw_id()?;
            let (delivery_time, delivery_count) = (self.time_ms()?, self.length()?);
            let is_new = group.load_pending(id, delivery_time, delivery_count);
            self.ensure(is_new, "a pending entry that comes twice")?;
        }
        for _ in 0..self.count(10)? {
            self.consumer(&mut group, kind)?;
        }
        self.ensure(group.is_complete(), "a pending entry without its consumer")?;
        Ok(group)
    }

    fn consumer(&mut self, group: &mut Group, kind: Kind) -> Result<(), Error> {
        let created = group.create_consumer(self.string()?, 0);
        let consumer = created.ok_or_else(|| self.corrupt("Duplicate stream consumer detected"))?;
        let seen_time = self.time_ms()?;
        // Before version 3 the time at which it was seen is the best guess.
        let active_time = if kind == Kind::Stream3 { self.time_ms()? } else { seen_time };
        if let Some(consumer) = group.consumer_mut(consumer) {
            (consumer.seen_time, consumer.active_time) = (seen_time, active_time);
        }
        for _ in 0..self.count(16)? {
            let id = self.raw_id()?;
            let is_new = group.load_owner(id, consumer);
            self.ensure(is_new, "a consumer's entry that is not pending in its group")?;
        }
        Ok(())
    }
}

impl<W: Write> Encoder<W> {
    fn raw_id(&mut self, id: StreamId) -> io::Result<()> {
        self.bytes(&id.ms.to_be_bytes())?;
        self.bytes(&id.seq.to_be_bytes())
    }

    fn id(&mut self, id: StreamId) -> io::Result<()> {
        self.length(id.ms)?;
        self.length(id.seq)
    }

    pub(crate) fn stream(&mut self, stream: &Stream, kind: Kind) -> io::Result<()> {
        let log = stream.log();
        self.length(log.block_count() as u64)?;
        for (first, block) in log.blocks() {
            let mut key = [0; 16];
            key[..8].copy_from_slice(&first.ms.to_be_bytes());
            key[8..].copy_from_slice(&first.seq.to_be_bytes());
            self.string(&key)?;
            self.string(block.bytes())?;
        }
        self.length(log.len())?;
        self.id(log.last_id())?;
        if kind != Kind::Stream1 {
            self.id(log.first_id())?;
            self.id(log.max_deleted_id())?;
            self.length(log.entries_added())?;
        }
        self.length(stream.groups().len() as u64)?;
        for (name, group) in stream.groups().iter() {
            self.string(name)?;
            self.group(group, kind)?;
        }
        Ok(())
    }

    fn group(&mut self, group: &Group, kind: Kind) -> io::Result<()> {
        self.id(group.last_id)?;
        if kind != Kind::Stream1 {
            self.length(group.entries_read.unwrap_or(ENTRIES_READ_UNKNOWN))?;
        }
        self.length(group.pending_len() as u64)?;
        for (id, pending) in group.pending_range(StreamId::MIN..=StreamId::MAX) {
            self.raw_id(id)?;
            self.time_ms(pending.delivery_time)?;
            self.length(pending.delivery_count)?;
        }
        self.length(group.consumers_len() as u64)?;
        for (_, consumer) in group.consumers() {
            self.string(consumer.name())?;
            self.time_ms(consumer.seen_time)?;
            if kind == Kind::Stream3 {
                self.time_ms(consumer.active_time)?;
            }
            self.length(consumer.pending_len() as u64)?;
            for id in consumer.pending_from(StreamId::MIN) {
                self.raw_id(id)?;
            }
        }
        Ok(())
    }
}

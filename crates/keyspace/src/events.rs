// SPDX-License-Identifier: BSD-3-Clause
//! Keyspace events: what happens to keys, told to whoever wants to know while the key's lock is
//! still held, so that the events of a key come in the order of its changes.
//!
//! The flags of the classes that are wanted stand beside the settings that every look-up reads;
//! with none set an event costs one test.

/// Classes of events, with the bits that `notify-keyspace-events` has in stock servers.
pub mod class {
    pub const GENERIC: u32 = 1 << 2;
    pub const STRING: u32 = 1 << 3;
    pub const LIST: u32 = 1 << 4;
    pub const SET: u32 = 1 << 5;
    pub const HASH: u32 = 1 << 6;
    pub const ZSET: u32 = 1 << 7;
    pub const EXPIRED: u32 = 1 << 8;
    pub const EVICTED: u32 = 1 << 9;
    pub const STREAM: u32 = 1 << 10;
    /// A read of a key that is not there.
    pub const KEY_MISS: u32 = 1 << 11;
    /// A key that was not there before.
    pub const NEW: u32 = 1 << 14;
    /// A value that was replaced as a whole.
    pub const OVERWRITTEN: u32 = 1 << 15;
    /// A value that was replaced by one of another type.
    pub const TYPE_CHANGED: u32 = 1 << 16;
}

/// A kind of event: its class and its name.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub class: u32,
    pub name: &'static str,
}

macro_rules! makers {
    ($($name:ident => $class:ident;)*) => {
        impl Event {
            $(
                /// An event of this class.
                #[inline(always)]
                pub const fn $name(name: &'static str) -> Event {
                    Event { class: class::$class, name }
                }
            )*
        }
    };
}

makers! {
    generic => GENERIC;
    string => STRING;
    list => LIST;
    set => SET;
    hash => HASH;
    zset => ZSET;
    stream => STREAM;
}

/// A key was removed because its collection has nothing left, or by a command that says so.
pub const DEL: Event = Event::generic("del");

/// A read found no such key.
pub const KEY_MISS: Event = Event { class: class::KEY_MISS, name: "keymiss" };

/// A key was not there before.
pub const NEW: Event = Event { class: class::NEW, name: "new" };

/// Whoever is told of events. Called under the key's lock: it must not take a shard's lock, nor wait.
pub trait Observer: Send + Sync {
    /// Something happened to a key. `slot` is the calling thread's; `old` is the value that is
    /// lost, if that is to be told.
    fn event(&self, slot: usize, db: u32, event: Event, key: &[u8], old: Option<&[u8]>);
}

// SPDX-License-Identifier: BSD-3-Clause
//! Keyspace events: changes of keys, passed to the observer under the key's lock, so that a key's
//! events arrive in the order of its changes.
//!
//! The wanted classes are flags next to the settings that every look-up reads; while none is set,
//! an event costs one test.

/// Classes of events, with the same bits as `notify-keyspace-events` in stock servers.
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
    /// A read of a missing key.
    pub const KEY_MISS: u32 = 1 << 11;
    /// Commands on types that modules bring to stock servers.
    pub const MODULE: u32 = 1 << 13;
    /// A key was created.
    pub const NEW: u32 = 1 << 14;
    /// A value was replaced as a whole.
    pub const OVERWRITTEN: u32 = 1 << 15;
    /// A value was replaced by one of another type.
    pub const TYPE_CHANGED: u32 = 1 << 16;
    /// Members of a collection, in addition to its key: each bit is a kind of channel.
    pub const MEMBERS: u32 = 0b1111 << 17;
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
    module => MODULE;
}

/// A key was removed because its collection became empty, or by a command that deletes keys.
pub const DEL: Event = Event::generic("del");

/// A read of a missing key.
pub const KEY_MISS: Event = Event { class: class::KEY_MISS, name: "keymiss" };

/// A key was created.
pub const NEW: Event = Event { class: class::NEW, name: "new" };

/// Receives events. Called under the key's lock: it must neither take a shard's lock nor wait.
pub trait Observer: Send + Sync {
    /// Reports an event of a key. `slot` is the calling thread's; `old` is the lost value, if such
    /// values are wanted (see [`Settings::events_with_values`](crate::keyspace::Settings)).
    fn event(&self, slot: usize, db: u32, event: Event, key: &[u8], old: Option<&[u8]>);

    /// Reports an event of members of a collection, of which there is at least one.
    fn members(&self, slot: usize, db: u32, event: Event, key: &[u8], members: &[&[u8]]);
}

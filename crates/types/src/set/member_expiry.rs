// SPDX-License-Identifier: BSD-3-Clause
//! Member expiry: SEXPIRE and its relatives (`crate::member_expiry`).

use braid_executor::Row;
use braid_keyspace::Event;
use braid_values::set::Set;

use crate::member_expiry::{Journalled, MEMBERS_REFUSED, Members, rows};

/// Rows of the member expiry commands.
pub const MEMBER_EXPIRY: &[Row] = rows!((
    "s" Set Set "0.1.0" "" "members" "set" "MEMBERS members:{nummembers:integer member:string...}"
    "O(N) where N is the number of specified members."
));

impl Members for Set {
    const WORD: &'static str = "MEMBERS";
    const COUNT_REFUSED: &'static str = MEMBERS_REFUSED;

    const JOURNALLED: Journalled =
        Journalled { expire: b"SPEXPIREAT", persist: b"SPERSIST", remove: b"SREM" };

    const PERSISTED: Event = Event::set("spersist");

    fn expire_event(past: bool) -> Event {
        Event::set(if past { "srem" } else { "sexpire" })
    }

    fn expiry_of(&self, member: &[u8], now: i64) -> Option<Option<i64>> {
        self.expiry(member, now)
    }

    fn set_expiry_of(&mut self, member: &[u8], at: Option<i64>, now: i64) {
        self.set_expiry(member, at, now);
    }

    fn remove_member(&mut self, member: &[u8], now: i64) {
        self.remove(member, now);
    }
}

// SPDX-License-Identifier: BSD-3-Clause
//! Field expiry: HEXPIRE and its relatives (`crate::member_expiry`).

use braid_executor::Row;
use braid_keyspace::Event;
use braid_values::hash::Hash;

use crate::member_expiry::{Journalled, Members, rows};

/// Rows of the field expiry commands.
pub const MEMBER_EXPIRY: &[Row] = rows!((
    "h" Hash Hash "9.0.0" "7.4.0" "fields" "hash" "FIELDS fields:{numfields:integer field:string...}"
    "O(N) where N is the number of specified fields."
));

impl Members for Hash {
    const IN_REDIS: bool = true;
    const WORD: &'static str = "FIELDS";
    const COUNT_REFUSED: &'static str =
        "ERR numfields should be greater than 0 and match the provided number of fields";

    const JOURNALLED: Journalled =
        Journalled { expire: b"HPEXPIREAT", persist: b"HPERSIST", remove: b"HDEL" };

    const PERSISTED: Event = Event::hash("hpersist");

    fn expire_event(past: bool) -> Event {
        Event::hash(if past { "hdel" } else { "hexpire" })
    }

    fn expiry_of(&self, field: &[u8], now: i64) -> Option<Option<i64>> {
        self.expiry(field, now)
    }

    fn set_expiry_of(&mut self, field: &[u8], at: Option<i64>, now: i64) {
        self.set_expiry(field, at, now);
    }

    fn remove_member(&mut self, field: &[u8], now: i64) {
        self.remove(field, now);
    }
}

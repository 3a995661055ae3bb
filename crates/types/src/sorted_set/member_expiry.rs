// SPDX-License-Identifier: BSD-3-Clause
//! Member expiry: ZEXPIRE and its relatives (`crate::member_expiry`).

use braid_executor::Row;
use braid_keyspace::Event;
use braid_values::sorted_set::SortedSet;

use crate::member_expiry::{Journalled, MEMBERS_REFUSED, Members, rows};

/// Rows of the member expiry commands.
pub const MEMBER_EXPIRY: &[Row] = rows!((
    "z" SortedSet SortedSet "0.1.0" "" "members" "sorted set" "MEMBERS members:{nummembers:integer member:string...}"
    "O(N*log(M)) where N is the number of specified members and M that of all."
));

impl Members for SortedSet {
    const WORD: &'static str = "MEMBERS";
    const COUNT_REFUSED: &'static str = MEMBERS_REFUSED;

    const JOURNALLED: Journalled =
        Journalled { expire: b"ZPEXPIREAT", persist: b"ZPERSIST", remove: b"ZREM" };

    const PERSISTED: Event = Event::zset("zpersist");

    fn expire_event(past: bool) -> Event {
        Event::zset(if past { "zrem" } else { "zexpire" })
    }

    fn expiry_of(&self, member: &[u8], now: i64) -> Option<Option<i64>> {
        self.view(now).expiry(member)
    }

    fn set_expiry_of(&mut self, member: &[u8], at: Option<i64>, _now: i64) {
        self.set_expiry(member, at);
    }

    fn remove_member(&mut self, member: &[u8], _now: i64) {
        self.remove(member);
    }
}

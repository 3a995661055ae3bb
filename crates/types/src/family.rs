// SPDX-License-Identifier: BSD-3-Clause
//! What families of commands share, above all those that Redis has in modules (BF.*, JSON.*, TS.*
//! and so on): how their rows begin, and a reply.

use braid_executor::{Call, Row};
use braid_resp::reply::Protocol;
use braid_spec::{Category, CommandResult, Flags, Group, KeySpec};

/// The commands of one group and, besides the group's own, one ACL category.
pub(crate) struct Family {
    pub group: Group,
    pub category: Category,
}

impl Family {
    /// A family that Redis has in a module.
    pub const fn of_module(category: Category) -> Family {
        Family { group: Group::Module, category }
    }

    /// A row of the family.
    pub const fn row(
        &self,
        name: &'static str,
        handler: fn(&mut Call) -> CommandResult,
        flags: Flags,
        keys: &'static [KeySpec],
    ) -> Row {
        Row::new(name, self.group, handler).flags(flags).categories(self.category).keys(keys)
    }
}

/// A boolean, or 1 and 0 before RESP3.
pub(crate) fn reply_bool(call: &mut Call, value: bool) {
    if call.reply.protocol == Protocol::Resp3 {
        call.reply.boolean(value);
    } else {
        call.reply.integer(i64::from(value));
    }
}

// SPDX-License-Identifier: BSD-3-Clause
//! Commands on vector sets, with the replies and messages of Redis 8.0.
//!
//! ```text
//! mod.rs       rows
//! arguments.rs vectors in arguments, and what several commands share
//! add.rs       VADD
//! similar.rs   VSIM
//! read.rs      commands that change nothing
//! change.rs    VREM, VSETATTR
//! ```
//! Bodies check their arities, all but the key: stock's messages name the commands in upper case.

mod add;
mod arguments;
mod change;
mod read;
mod similar;

use braid_executor::{Call, Row};
use braid_spec::{CommandResult, Flags, Group, KeyFlags, KeySpec};

const READ_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RO.and(KeyFlags::ACCESS))];
const CHANGE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))];
const READS: Flags = Flags::READONLY.and(Flags::FAST);

/// Rows of the vector set commands.
#[rustfmt::skip]
pub const COMMANDS: &[Row] = &[
    row("vadd", add::vadd, Flags::WRITE.and(Flags::DENYOOM), CHANGE)
        .lock_free(add::look_ahead)
        .docs("8.0.0", "Adds an element with a vector, or gives an existing one another vector.", "O(log(N)) where N is the number of elements in the vector set")
        .syntax("key:key#0 [REDUCE dim:integer] vector:(FP32 blob:string|VALUES values:{num:integer value:double...}) element:string [CAS] [quantization:(NOQUANT|Q8|BIN)] [EF build-exploration-factor:integer] [SETATTR attributes:string] [M numlinks:integer]"),
    row("vcard", read::vcard, READS, READ_ONE)
        .docs("8.0.0", "Returns the number of elements of a vector set.", "O(1)")
        .syntax("key:key#0"),
    row("vdim", read::vdim, READS, READ_ONE)
        .docs("8.0.0", "Returns the dimension of the vectors of a vector set.", "O(1)")
        .syntax("key:key#0"),
    row("vemb", read::vemb, READS, READ_ONE)
        .docs("8.0.0", "Returns the vector of an element.", "O(1)")
        .syntax("key:key#0 element:string [RAW]"),
    row("vgetattr", read::vgetattr, READS, READ_ONE)
        .docs("8.0.0", "Returns the attribute of an element.", "O(1)")
        .syntax("key:key#0 element:string"),
    row("vinfo", read::vinfo, READS, READ_ONE)
        .docs("8.0.0", "Returns the properties of a vector set.", "O(1)")
        .syntax("key:key#0"),
    row("vismember", read::vismember, READS, READ_ONE)
        .docs("8.0.0", "Returns whether an element is in a vector set.", "O(1)")
        .syntax("key:key#0 element:string"),
    row("vlinks", read::vlinks, READS, READ_ONE)
        .docs("8.0.0", "Returns the neighbors of an element in the graph, by level.", "O(1)")
        .syntax("key:key#0 element:string [WITHSCORES]"),
    row("vrandmember", read::vrandmember, Flags::READONLY, READ_ONE)
        .docs("8.0.0", "Returns random elements of a vector set.", "O(N) where N is the absolute value of the count argument")
        .syntax("key:key#0 [count:integer]"),
    row("vrange", read::vrange, Flags::READONLY, READ_ONE)
        .docs("8.4.0", "Returns the elements of a vector set in a lexicographical range.", "O(N log(K)) where N is the number of elements in the vector set and K the number of elements returned")
        .syntax("key:key#0 start:string end:string [count:integer]"),
    row("vrem", change::vrem, Flags::WRITE, CHANGE)
        .docs("8.0.0", "Removes an element from a vector set.", "O(log(N)) where N is the number of elements in the vector set")
        .syntax("key:key#0 element:string"),
    row("vsetattr", change::vsetattr, Flags::WRITE.and(Flags::FAST), CHANGE)
        .docs("8.0.0", "Sets or removes the attribute of an element.", "O(1)")
        .syntax("key:key#0 element:string attributes:string"),
    row("vsim", similar::vsim, Flags::READONLY, READ_ONE)
        .docs("8.0.0", "Returns the elements most similar to a vector or an element.", "O(log(N)) where N is the number of elements in the vector set")
        .syntax("key:key#0 query:(ELE element:string|FP32 blob:string|VALUES values:{num:integer value:double...}) [WITHSCORES] [WITHATTRIBS] [COUNT num:integer] [EPSILON max-distance:double] [EF search-exploration-factor:integer] [FILTER expression:string] [FILTER-EF max-filtering-effort:integer] [TRUTH] [NOTHREAD]"),
];

const fn row(
    name: &'static str,
    handler: fn(&mut Call) -> CommandResult,
    flags: Flags,
    keys: &'static [KeySpec],
) -> Row {
    Row::new(name, Group::Module, handler).at_least(2).flags(flags).keys(keys)
}

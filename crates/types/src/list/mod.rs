// SPDX-License-Identifier: BSD-3-Clause
//! Commands on lists: all rows, and the read-only bodies.
//!
//! Flow: the dispatcher holds the locks of the keys named in the rows. Pushes and pops at the ends
//! are in `ends.rs`, moves of several elements in `move_many.rs`, blocking commands in
//! `blocking.rs`, other changes in `edit.rs`. A list that becomes empty is removed with its key.
//!
//! HOT PATH: pushing and popping one element allocates nothing but the list's own memory.

mod blocking;
mod edit;
pub mod ends;
mod move_many;

use braid_executor::{Call, Row};
use braid_spec::{CommandError, CommandResult, Flags, Group, KeyFlags, KeySpec};
use braid_values::list::List;

use crate::collection::{index_range, least_arg, reply_element, symmetric_arg};

const READ: KeyFlags = KeyFlags::RO.and(KeyFlags::ACCESS);
const INSERT: KeyFlags = KeyFlags::RW.and(KeyFlags::INSERT);
const TAKE: KeyFlags = KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE);

const READ_ONE: &[KeySpec] = &[KeySpec::at(1, READ)];
const INSERT_ONE: &[KeySpec] = &[KeySpec::at(1, INSERT)];
const DELETE_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))];
const TAKE_ONE: &[KeySpec] = &[KeySpec::at(1, TAKE)];
const MOVE: &[KeySpec] = &[KeySpec::at(1, TAKE), KeySpec::at(2, INSERT)];

const GROWS: Flags = Flags::WRITE.and(Flags::DENYOOM);
const WRITES_FAST: Flags = Flags::WRITE.and(Flags::FAST);

const RANGE: &str = "key:key#0 start:integer stop:integer";

/// Rows of the list commands.
pub const COMMANDS: &[Row] = &[
    blocking::BLMOVE,
    move_many::BLMOVEM,
    blocking::BLMPOP,
    blocking::BLPOP,
    blocking::BRPOP,
    blocking::BRPOPLPUSH,
    Row::new("lindex", Group::List, lindex)
        .exactly(3)
        .flags(Flags::READONLY)
        .keys(READ_ONE)
        .docs(
            "1.0.0",
            "Returns the element of a list at an index.",
            "O(N) where N is the number of elements to traverse to get to the element at index. This makes \
             asking for the first or the last element of the list O(1).",
        )
        .syntax("key:key#0 index:integer"),
    Row::new("linsert", Group::List, edit::linsert)
        .exactly(5)
        .flags(GROWS)
        .keys(INSERT_ONE)
        .docs(
            "2.2.0",
            "Inserts an element in front of or behind another one of a list.",
            "O(N) where N is the number of elements to traverse before seeing the value pivot. This means \
             that inserting somewhere on the left end on the list (head) can be considered O(1) and \
             inserting somewhere on the right end (tail) is O(N).",
        )
        .syntax("key:key#0 where:(BEFORE|AFTER) pivot:string element:string"),
    Row::new("llen", Group::List, llen)
        .exactly(2)
        .flags(Flags::READONLY.and(Flags::FAST))
        .keys(&[KeySpec::at(1, KeyFlags::RO)])
        .docs("1.0.0", "Returns the number of elements of a list.", "O(1)")
        .syntax("key:key#0"),
    Row::new("lmove", Group::List, ends::lmove)
        .exactly(5)
        .flags(GROWS)
        .keys(MOVE)
        .docs("6.2.0", "Removes an element from an end of one list and adds it at an end of another.", "O(1)")
        .syntax("source:key#0 destination:key#1 wherefrom:(LEFT|RIGHT) whereto:(LEFT|RIGHT)"),
    move_many::LMOVEM,
    Row::new("lmpop", Group::List, ends::lmpop)
        .at_least(4)
        .flags(Flags::WRITE.and(Flags::MOVABLE_KEYS))
        .keys(&[KeySpec::counted(1, TAKE)])
        .docs(
            "7.0.0",
            "Removes elements from an end of the first non-empty list of several.",
            "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
        )
        .syntax("numkeys:integer key:key#0... where:(LEFT|RIGHT) [COUNT count:integer]"),
    popper("lpop", ends::lpop, "Removes one or more elements from the head of a list."),
    Row::new("lpos", Group::List, lpos)
        .at_least(3)
        .flags(Flags::READONLY)
        .keys(READ_ONE)
        .docs(
            "6.0.6",
            "Finds the positions of an element in a list.",
            "O(N) where N is the number of elements in the list, for the average case. When searching for \
             elements near the head or the tail of the list, or when the MAXLEN option is provided, the \
             command may run in constant time.",
        )
        .syntax(
            "key:key#0 element:string [RANK rank:integer] [COUNT num-matches:integer] [MAXLEN \
                 len:integer]",
        ),
    pusher(
        "lpush",
        ends::lpush,
        "1.0.0",
        "Adds elements at the head of a list; creates it if it does not exist.",
    )
    .history(&[("2.4.0", "Accepts several `element` arguments.")]),
    pusher("lpushx", ends::lpushx, "2.2.0", "Adds elements at the head of a list if the list exists.")
        .history(&[("4.0.0", "Accepts several `element` arguments.")]),
    Row::new("lrange", Group::List, lrange)
        .exactly(4)
        .flags(Flags::READONLY)
        .keys(READ_ONE)
        .docs(
            "1.0.0",
            "Returns the elements of a list between two indexes.",
            "O(S+N) where S is the distance of start offset from HEAD for small lists, from nearest end \
             (HEAD or TAIL) for large lists; and N is the number of elements in the specified range.",
        )
        .syntax(RANGE),
    Row::new("lrem", Group::List, edit::lrem)
        .exactly(4)
        .flags(Flags::WRITE)
        .keys(DELETE_ONE)
        .docs(
            "1.0.0",
            "Removes elements that equal a string from a list.",
            "O(N+M) where N is the length of the list and M is the number of elements removed.",
        )
        .syntax("key:key#0 count:integer element:string"),
    Row::new("lset", Group::List, edit::lset)
        .exactly(4)
        .flags(GROWS)
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .docs(
            "1.0.0",
            "Sets the element of a list at an index.",
            "O(N) where N is the length of the list. Setting either the first or the last element of the \
             list is O(1).",
        )
        .syntax("key:key#0 index:integer element:string"),
    Row::new("ltrim", Group::List, edit::ltrim)
        .exactly(4)
        .flags(Flags::WRITE)
        .keys(DELETE_ONE)
        .docs(
            "1.0.0",
            "Removes all elements of a list except those between two indexes.",
            "O(N) where N is the number of elements to be removed by the operation.",
        )
        .syntax(RANGE),
    popper("rpop", ends::rpop, "Removes one or more elements from the tail of a list."),
    Row::new("rpoplpush", Group::List, ends::rpoplpush)
        .exactly(3)
        .flags(GROWS)
        .keys(MOVE)
        .docs("1.2.0", "Removes the last element of one list and adds it at the head of another.", "O(1)")
        .syntax("source:key#0 destination:key#1")
        .deprecated("6.2.0", "`LMOVE` with the `RIGHT` and `LEFT` arguments"),
    pusher(
        "rpush",
        ends::rpush,
        "1.0.0",
        "Adds elements at the tail of a list; creates it if it does not exist.",
    )
    .history(&[("2.4.0", "Accepts several `element` arguments.")]),
    pusher("rpushx", ends::rpushx, "2.2.0", "Adds elements at the tail of a list if the list exists.")
        .history(&[("4.0.0", "Accepts several `element` arguments.")]),
];

const fn pusher(
    name: &'static str,
    handler: braid_executor::Handler,
    since: &'static str,
    summary: &'static str,
) -> Row {
    Row::new(name, Group::List, handler)
        .at_least(3)
        .flags(GROWS.and(Flags::FAST))
        .keys(INSERT_ONE)
        .docs(
            since,
            summary,
            "O(1) for each element added, so O(N) to add N elements when the command is called with multiple \
             arguments.",
        )
        .syntax("key:key#0 element:string...")
}

const fn popper(name: &'static str, handler: braid_executor::Handler, summary: &'static str) -> Row {
    Row::new(name, Group::List, handler)
        .at_least(2)
        .flags(WRITES_FAST)
        .keys(TAKE_ONE)
        .docs("1.0.0", summary, "O(N) where N is the number of elements returned")
        .syntax("key:key#0 [count:integer@6.2.0]")
        .history(&[("6.2.0", "New argument `count`.")])
}

fn llen(call: &mut Call) -> CommandResult {
    let list = call.keyspace.read_as::<List>(call.args[1])?;
    call.reply.integer(list.map_or(0, List::len) as i64);
    Ok(())
}

fn lindex(call: &mut Call) -> CommandResult {
    let Some(list) = call.keyspace.read_as::<List>(call.args[1])? else {
        call.reply.null();
        return Ok(());
    };
    let index = call.integer_arg(2)?;
    if list.get(index, |element| reply_element(call.reply, element)).is_none() {
        call.reply.null();
    }
    Ok(())
}

fn lrange(call: &mut Call) -> CommandResult {
    let (start, stop) = (call.integer_arg(2)?, call.integer_arg(3)?);
    let Some(list) = call.keyspace.read_as::<List>(call.args[1])? else {
        call.reply.array(0);
        return Ok(());
    };
    let (first, count) = index_range(start, stop, list.len());
    call.reply.array(count);
    list.range(first, count, |element| reply_element(call.reply, element));
    Ok(())
}

/// The options of LPOS.
struct Search {
    /// Number of the first match to return, counted from 1.
    rank: u64,
    backwards: bool,
    /// Maximum number of matches; `None` for a single match, not as an array.
    count: Option<usize>,
    /// Maximum number of elements to compare.
    most: usize,
}

impl Search {
    fn parse(call: &Call) -> Result<Search, CommandError> {
        let mut search = Search { rank: 1, backwards: false, count: None, most: usize::MAX };
        let unless_zero = |number: i64| match number {
            0 => usize::MAX,
            number => usize::try_from(number).unwrap_or(usize::MAX),
        };
        let mut index = 3;
        while index < call.args.len() {
            if index + 1 == call.args.len() {
                return Err(CommandError::Syntax);
            }
            if call.arg_is(index, "rank") {
                let rank = symmetric_arg(call, index + 1, i64::MAX)?;
                if rank == 0 {
                    return Err(CommandError::text(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second \
                         ... or use negative to start from the end of the list",
                    ));
                }
                (search.rank, search.backwards) = (rank.unsigned_abs(), rank < 0);
            } else if call.arg_is(index, "count") {
                let count = least_arg(call, index + 1, 0, "ERR COUNT can't be negative")?;
                search.count = Some(unless_zero(count));
            } else if call.arg_is(index, "maxlen") {
                search.most = unless_zero(least_arg(call, index + 1, 0, "ERR MAXLEN can't be negative")?);
            } else {
                return Err(CommandError::Syntax);
            }
            index += 2;
        }
        Ok(search)
    }
}

fn lpos(call: &mut Call) -> CommandResult {
    let search = Search::parse(call)?;
    let list = call.keyspace.read_as::<List>(call.args[1])?;
    let deferred = search.count.map(|_| call.reply.begin_array());
    let (mut matches, mut found) = (0, 0);
    if let Some(list) = list {
        list.find(call.args[2], !search.backwards, search.most, |position| {
            matches += 1;
            if matches >= search.rank {
                call.reply.integer(position as i64);
                found += 1;
            }
            found < search.count.unwrap_or(1)
        });
    }
    match deferred {
        Some(deferred) => call.reply.end_array(deferred, found),
        None if found == 0 => call.reply.null(),
        None => {}
    }
    Ok(())
}

// SPDX-License-Identifier: BSD-3-Clause
//! Rows of the sorted set commands.

use braid_executor::{Handler, Row};
use braid_spec::{Flags, Group, KeyFlags, KeySpec};

use super::{add, blocking, combine, range, read, remove};

const ALL_BUT_TIMEOUT: &[KeySpec] =
    &[KeySpec::range(1, -2, 1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE))];
const SECONDS: &[(&str, &str)] = &[("6.0.0", "`timeout` may have a fraction.")];

const READ: KeyFlags = KeyFlags::RO.and(KeyFlags::ACCESS);
const READ_ONE: &[KeySpec] = &[KeySpec::at(1, READ)];

/// Rows of the sorted set commands.
pub const COMMANDS: &[Row] = &[
    Row::new("bzmpop", Group::SortedSet, blocking::bzmpop)
        .at_least(5)
        .flags(Flags::WRITE.and(Flags::BLOCKING).and(Flags::MOVABLE_KEYS))
        .keys(&[KeySpec::counted(2, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE))])
        .docs(
            "7.0.0",
            "Removes and returns members from an end of the first sorted set that is not empty; waits for \
             one if all are.",
            "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements \
             in the sorted set, and M being the number of elements popped.",
        )
        .syntax("timeout:double numkeys:integer key:key#0... where:(MIN|MAX) [COUNT count:integer]"),
    waiting_popper(
        "bzpopmax",
        blocking::bzpopmax,
        "Removes and returns the member with the highest score of the first sorted set that is not empty; \
         waits for one if all are.",
    ),
    waiting_popper(
        "bzpopmin",
        blocking::bzpopmin,
        "Removes and returns the member with the lowest score of the first sorted set that is not empty; \
         waits for one if all are.",
    ),
    Row::new("zadd", Group::SortedSet, add::zadd)
        .at_least(4)
        .flags(Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST))
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .docs(
            "1.2.0",
            "Adds members to a sorted set or changes their scores; creates the key if it does not exist.",
            "O(log(N)) for each item added, where N is the number of elements in the sorted set.",
        )
        .syntax(
            "key:key#0 [condition:(NX|XX)@3.0.2] [comparison:(GT|LT)@6.2.0] [change=CH@3.0.2] \
             [increment=INCR@3.0.2] data:{score:double member:string}...",
        )
        .history(&[
            ("2.4.0", "Several members at once."),
            ("3.0.2", "New options `XX`, `NX`, `CH` and `INCR`."),
            ("6.2.0", "New options `GT` and `LT`."),
        ]),
    Row::new("zcard", Group::SortedSet, read::zcard)
        .exactly(2)
        .flags(Flags::READONLY.and(Flags::FAST))
        .keys(&[KeySpec::at(1, KeyFlags::RO)])
        .docs("1.2.0", "Returns how many members a sorted set has.", "O(1)")
        .syntax("key:key#0"),
    reads_fast("zcount", read::zcount)
        .exactly(4)
        .docs(
            "2.0.0",
            "Counts the members of a sorted set whose scores lie in a range.",
            "O(log(N)) with N being the number of elements in the sorted set.",
        )
        .syntax("key:key#0 min:double max:double"),
    reads_several("zdiff", combine::zdiff)
        .at_least(3)
        .docs(
            "6.2.0",
            "Returns the members of the first sorted set that none of the others has.",
            "O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is \
             the size of the first set, and K is the size of the result set.",
        )
        .syntax("numkeys:integer key:key#0... [WITHSCORES]"),
    stores_several("zdiffstore", combine::zdiffstore)
        .at_least(4)
        .docs(
            "6.2.0",
            "Stores the members of the first sorted set that none of the others has.",
            "O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is \
             the size of the first set, and K is the size of the result set.",
        )
        .syntax("destination:key#0 numkeys:integer key:key#1..."),
    Row::new("zincrby", Group::SortedSet, add::zincrby)
        .exactly(4)
        .flags(Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST))
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE))])
        .docs(
            "1.2.0",
            "Adds a number to the score of a member; a missing member counts as 0.",
            "O(log(N)) where N is the number of elements in the sorted set.",
        )
        .syntax("key:key#0 increment:integer member:string"),
    reads_several("zinter", combine::zinter)
        .at_least(3)
        .docs(
            "6.2.0",
            "Returns the members that all of the sorted sets have.",
            "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the \
             number of input sorted sets and M being the number of elements in the resulting sorted set.",
        )
        .syntax(
            "numkeys:integer key:key#0... [WEIGHTS weight:integer...] [AGGREGATE \
             aggregate:(SUM|MIN|MAX|COUNT@8.8.0)] [WITHSCORES]",
        )
        .history(&[("8.8.0", "`AGGREGATE COUNT`.")]),
    reads_several("zintercard", combine::zintercard)
        .at_least(3)
        .docs(
            "7.0.0",
            "Counts the members that all of the sorted sets have.",
            "O(N*K) worst case with N being the smallest input sorted set, K being the number of input \
             sorted sets.",
        )
        .syntax("numkeys:integer key:key#0... [LIMIT limit:integer]"),
    stores_several("zinterstore", combine::zinterstore)
        .at_least(4)
        .docs(
            "2.0.0",
            "Stores the members that all of the sorted sets have.",
            "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the \
             number of input sorted sets and M being the number of elements in the resulting sorted set.",
        )
        .syntax(
            "destination:key#0 numkeys:integer key:key#1... [WEIGHTS weight:integer...] [AGGREGATE \
             aggregate:(SUM|MIN|MAX|COUNT@8.8.0)]",
        )
        .history(&[("8.8.0", "`AGGREGATE COUNT`.")]),
    reads_fast("zlexcount", read::zlexcount)
        .exactly(4)
        .docs(
            "2.8.9",
            "Counts the members between two strings in a sorted set of equal scores.",
            "O(log(N)) with N being the number of elements in the sorted set.",
        )
        .syntax("key:key#0 min:string max:string"),
    Row::new("zmpop", Group::SortedSet, remove::zmpop)
        .at_least(4)
        .flags(Flags::WRITE.and(Flags::MOVABLE_KEYS))
        .keys(&[KeySpec::counted(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE))])
        .docs(
            "7.0.0",
            "Removes and returns members from an end of the first sorted set that is not empty.",
            "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements \
             in the sorted set, and M being the number of elements popped.",
        )
        .syntax("numkeys:integer key:key#0... where:(MIN|MAX) [COUNT count:integer]"),
    reads_fast("zmscore", read::zmscore)
        .at_least(3)
        .docs(
            "6.2.0",
            "Returns the scores of several members of a sorted set.",
            "O(N) where N is the number of members being requested.",
        )
        .syntax("key:key#0 member:string..."),
    Row::new("zpopmax", Group::SortedSet, remove::zpopmax)
        .at_least(2)
        .flags(Flags::WRITE.and(Flags::FAST))
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE))])
        .docs(
            "5.0.0",
            "Removes and returns the members with the highest scores; deletes the key when it is empty.",
            "O(log(N)*M) with N being the number of elements in the sorted set, and M being the number \
             of elements popped.",
        )
        .syntax("key:key#0 [count:integer]"),
    Row::new("zpopmin", Group::SortedSet, remove::zpopmin)
        .at_least(2)
        .flags(Flags::WRITE.and(Flags::FAST))
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE))])
        .docs(
            "5.0.0",
            "Removes and returns the members with the lowest scores; deletes the key when it is empty.",
            "O(log(N)*M) with N being the number of elements in the sorted set, and M being the number \
             of elements popped.",
        )
        .syntax("key:key#0 [count:integer]"),
    reads("zrandmember", read::zrandmember)
        .at_least(2)
        .docs(
            "6.2.0",
            "Returns random members of a sorted set.",
            "O(N) where N is the number of members returned",
        )
        .syntax("key:key#0 [options:{count:integer [WITHSCORES]}]")
        .tips(&["nondeterministic_output"]),
    reads("zrange", range::zrange)
        .at_least(4)
        .docs(
            "1.2.0",
            "Returns the members of a sorted set in a range of ranks, scores or strings.",
            "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
             elements returned.",
        )
        .syntax(
            "key:key#0 start:string stop:string [sortby:(BYSCORE|BYLEX)@6.2.0] [REV@6.2.0] [LIMIT \
             limit:{offset:integer count:integer}@6.2.0] [WITHSCORES]",
        )
        .history(&[("6.2.0", "New options `REV`, `BYSCORE`, `BYLEX` and `LIMIT`.")]),
    reads("zrangebylex", range::zrangebylex)
        .at_least(4)
        .docs(
            "2.8.9",
            "Returns the members between two strings in a sorted set of equal scores.",
            "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
             elements being returned. If M is constant (e.g. always asking for the first 10 elements \
             with LIMIT), you can consider it O(log(N)).",
        )
        .syntax("key:key#0 min:string max:string [LIMIT limit:{offset:integer count:integer}]")
        .deprecated("6.2.0", "`ZRANGE` with the `BYLEX` argument"),
    reads("zrangebyscore", range::zrangebyscore)
        .at_least(4)
        .docs(
            "1.0.5",
            "Returns the members of a sorted set whose scores lie in a range.",
            "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
             elements being returned. If M is constant (e.g. always asking for the first 10 elements \
             with LIMIT), you can consider it O(log(N)).",
        )
        .syntax(
            "key:key#0 min:double max:double [WITHSCORES@2.0.0] [LIMIT limit:{offset:integer \
             count:integer}]",
        )
        .history(&[("2.0.0", "New option `WITHSCORES`.")])
        .deprecated("6.2.0", "`ZRANGE` with the `BYSCORE` argument"),
    Row::new("zrangestore", Group::SortedSet, range::zrangestore)
        .at_least(5)
        .flags(Flags::WRITE.and(Flags::DENYOOM))
        .keys(&[
            KeySpec::at(1, KeyFlags::OW.and(KeyFlags::UPDATE)),
            KeySpec::at(2, KeyFlags::RO.and(KeyFlags::ACCESS)),
        ])
        .docs(
            "6.2.0",
            "Stores the members of a sorted set in a range of ranks, scores or strings in another key.",
            "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
             elements stored into the destination key.",
        )
        .syntax(
            "dst:key#0 src:key#1 min:string max:string [sortby:(BYSCORE|BYLEX)] [REV] [LIMIT \
             limit:{offset:integer count:integer}]",
        ),
    reads_fast("zrank", read::zrank)
        .at_least(3)
        .docs(
            "2.0.0",
            "Returns the rank of a member of a sorted set, in ascending order of scores.",
            "O(log(N))",
        )
        .syntax("key:key#0 member:string [WITHSCORE]")
        .history(&[("7.2.0", "New option `WITHSCORE`.")]),
    Row::new("zrem", Group::SortedSet, remove::zrem)
        .at_least(3)
        .flags(Flags::WRITE.and(Flags::FAST))
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))])
        .docs(
            "1.2.0",
            "Removes members from a sorted set; deletes the key when it is empty.",
            "O(M*log(N)) with N being the number of elements in the sorted set and M the number of \
             elements to be removed.",
        )
        .syntax("key:key#0 member:string...")
        .history(&[("2.4.0", "Several members at once.")]),
    Row::new("zremrangebylex", Group::SortedSet, remove::zremrangebylex)
        .exactly(4)
        .flags(Flags::WRITE)
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))])
        .docs(
            "2.8.9",
            "Removes the members between two strings from a sorted set of equal scores.",
            "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
             elements removed by the operation.",
        )
        .syntax("key:key#0 min:string max:string"),
    Row::new("zremrangebyrank", Group::SortedSet, remove::zremrangebyrank)
        .exactly(4)
        .flags(Flags::WRITE)
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))])
        .docs(
            "2.0.0",
            "Removes the members in a range of ranks from a sorted set.",
            "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
             elements removed by the operation.",
        )
        .syntax("key:key#0 start:integer stop:integer"),
    Row::new("zremrangebyscore", Group::SortedSet, remove::zremrangebyscore)
        .exactly(4)
        .flags(Flags::WRITE)
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))])
        .docs(
            "1.2.0",
            "Removes the members whose scores lie in a range from a sorted set.",
            "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
             elements removed by the operation.",
        )
        .syntax("key:key#0 min:double max:double"),
    reads("zrevrange", range::zrevrange)
        .at_least(4)
        .docs(
            "1.2.0",
            "Returns the members of a sorted set in a range of ranks, highest scores first.",
            "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
             elements returned.",
        )
        .syntax("key:key#0 start:integer stop:integer [WITHSCORES]")
        .deprecated("6.2.0", "`ZRANGE` with the `REV` argument"),
    reads("zrevrangebylex", range::zrevrangebylex)
        .at_least(4)
        .docs(
            "2.8.9",
            "Returns the members between two strings in a sorted set of equal scores, in descending \
             order.",
            "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
             elements being returned. If M is constant (e.g. always asking for the first 10 elements \
             with LIMIT), you can consider it O(log(N)).",
        )
        .syntax("key:key#0 max:string min:string [LIMIT limit:{offset:integer count:integer}]")
        .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYLEX` arguments"),
    reads("zrevrangebyscore", range::zrevrangebyscore)
        .at_least(4)
        .docs(
            "2.2.0",
            "Returns the members of a sorted set whose scores lie in a range, highest scores first.",
            "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
             elements being returned. If M is constant (e.g. always asking for the first 10 elements \
             with LIMIT), you can consider it O(log(N)).",
        )
        .syntax("key:key#0 max:double min:double [WITHSCORES] [LIMIT limit:{offset:integer count:integer}]")
        .history(&[("2.1.6", "`min` and `max` may be excluded.")])
        .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments"),
    reads_fast("zrevrank", read::zrevrank)
        .at_least(3)
        .docs(
            "2.0.0",
            "Returns the rank of a member of a sorted set, in descending order of scores.",
            "O(log(N))",
        )
        .syntax("key:key#0 member:string [WITHSCORE]")
        .history(&[("7.2.0", "New option `WITHSCORE`.")]),
    reads("zscan", read::zscan)
        .at_least(3)
        .docs(
            "2.8.0",
            "Iterates over the members and scores of a sorted set.",
            "O(1) for every call. O(N) for a complete iteration, including enough command calls for the \
             cursor to return back to 0. N is the number of elements inside the collection.",
        )
        .syntax("key:key#0 cursor:integer [MATCH pattern:pattern] [COUNT count:integer]")
        .tips(&["nondeterministic_output"]),
    reads_fast("zscore", read::zscore)
        .exactly(3)
        .docs("1.2.0", "Returns the score of a member of a sorted set.", "O(1)")
        .syntax("key:key#0 member:string"),
    reads_several("zunion", combine::zunion)
        .at_least(3)
        .docs(
            "6.2.0",
            "Returns the members that any of the sorted sets has.",
            "O(N)+O(M*log(M)) with N being the sum of the sizes of the input sorted sets, and M being \
             the number of elements in the resulting sorted set.",
        )
        .syntax(
            "numkeys:integer key:key#0... [WEIGHTS weight:integer...] [AGGREGATE \
             aggregate:(SUM|MIN|MAX|COUNT@8.8.0)] [WITHSCORES]",
        )
        .history(&[("8.8.0", "`AGGREGATE COUNT`.")]),
    stores_several("zunionstore", combine::zunionstore)
        .at_least(4)
        .docs(
            "2.0.0",
            "Stores the members that any of the sorted sets has.",
            "O(N)+O(M log(M)) with N being the sum of the sizes of the input sorted sets, and M being \
             the number of elements in the resulting sorted set.",
        )
        .syntax(
            "destination:key#0 numkeys:integer key:key#1... [WEIGHTS weight:integer...] [AGGREGATE \
             aggregate:(SUM|MIN|MAX|COUNT@8.8.0)]",
        )
        .history(&[("8.8.0", "`AGGREGATE COUNT`.")]),
];

const fn waiting_popper(name: &'static str, handler: Handler, summary: &'static str) -> Row {
    Row::new(name, Group::SortedSet, handler)
        .at_least(3)
        .flags(Flags::WRITE.and(Flags::FAST).and(Flags::BLOCKING))
        .keys(ALL_BUT_TIMEOUT)
        .docs("5.0.0", summary, "O(log(N)) with N being the number of elements in the sorted set.")
        .syntax("key:key#0... timeout:double")
        .history(SECONDS)
}

const fn reads_fast(name: &'static str, handler: Handler) -> Row {
    Row::new(name, Group::SortedSet, handler).flags(Flags::READONLY.and(Flags::FAST)).keys(READ_ONE)
}

const fn reads(name: &'static str, handler: Handler) -> Row {
    Row::new(name, Group::SortedSet, handler).flags(Flags::READONLY).keys(READ_ONE)
}

/// A command that reads the keys after a key count.
const fn reads_several(name: &'static str, handler: Handler) -> Row {
    const KEYS: &[KeySpec] = &[KeySpec::counted(1, READ)];
    Row::new(name, Group::SortedSet, handler).flags(Flags::READONLY.and(Flags::MOVABLE_KEYS)).keys(KEYS)
}

/// A command that stores a result computed from the keys after a key count.
const fn stores_several(name: &'static str, handler: Handler) -> Row {
    const KEYS: &[KeySpec] = &[KeySpec::at(1, KeyFlags::OW.and(KeyFlags::UPDATE)), KeySpec::counted(2, READ)];
    const FLAGS: Flags = Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLE_KEYS);
    Row::new(name, Group::SortedSet, handler).flags(FLAGS).keys(KEYS)
}

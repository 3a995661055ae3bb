// SPDX-License-Identifier: BSD-3-Clause
//! Rows of the stream commands.

use braid_executor::Row;
use braid_spec::{Begin, Find, Flags, Group, KeyFlags, KeySpec};

use super::{add, group, idempotent, info, pending, range, read, references, release};

/// Rows of the stream commands.
pub const COMMANDS: &[Row] = &[
    Row::new("xack", Group::Stream, group::xack)
        .at_least(4)
        .flags(Flags::WRITE.and(Flags::FAST))
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .docs(
            "5.0.0",
            "Acknowledges pending entries of a consumer group; returns their number.",
            "O(1) for each message ID processed.",
        )
        .syntax("key:key#0 group:string ID:string..."),
    Row::new("xackdel", Group::Stream, references::xackdel)
        .at_least(6)
        .flags(Flags::WRITE.and(Flags::FAST))
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::UPDATE).and(KeyFlags::DELETE))])
        .docs(
            "8.2.0",
            "Acknowledges pending entries of a consumer group and deletes them from the stream.",
            "O(1) for each entry ID processed.",
        )
        .syntax(
            "key:key#0 group:string [condition:(KEEPREF|DELREF|ACKED)] IDS ids:{numids:integer id:string...}",
        ),
    Row::new("xadd", Group::Stream, add::xadd)
        .at_least(5)
        .flags(Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST))
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::UPDATE))
            .notes("UPDATE instead of INSERT because of the optional trimming feature")])
        .docs(
            "5.0.0",
            "Appends an entry to a stream; creates the key if it does not exist.",
            "O(1) when adding a new entry, O(N) when trimming where N being the number of entries \
             evicted.",
        )
        .syntax(
            "key:key#0 [NOMKSTREAM@6.2.0] [condition:(KEEPREF|DELREF|ACKED)@8.2.0] \
             [idmp:(IDMPAUTO pid:string|IDMP idmp:{pid:string iid:string})@8.6.0] [trim:{strategy:(MAXLEN|MINID@6.2.0) \
             [operator:(equal==|approximately=~)] threshold:string [LIMIT count:integer@6.2.0]}] \
             id-selector:(auto-id=*|id:string) data:{field:string value:string}...",
        )
        .history(&[
            ("6.2.0", "New options `NOMKSTREAM`, `MINID` and `LIMIT`."),
            ("7.0.0", "IDs of the form `<ms>-*`."),
            ("8.2.0", "Options `KEEPREF`, `DELREF` and `ACKED`."),
            ("8.6.0", "Options `IDMP` and `IDMPAUTO`."),
        ])
        .tips(&["nondeterministic_output"]),
    Row::new("xautoclaim", Group::Stream, pending::xautoclaim)
        .at_least(6)
        .flags(Flags::WRITE.and(Flags::FAST))
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))])
        .docs(
            "6.2.0",
            "Iterates over pending entries and assigns long-idle ones to a consumer.",
            "O(1) if COUNT is small.",
        )
        .syntax(
            "key:key#0 group:string consumer:string min-idle-time:string start:string [COUNT \
             count:integer] [JUSTID]",
        )
        .history(&[("7.0.0", "The reply lists pending entries that no longer exist.")])
        .tips(&["nondeterministic_output"]),
    Row::new("xcfgset", Group::Stream, idempotent::xcfgset)
        .at_least(2)
        .flags(Flags::WRITE.and(Flags::FAST))
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .docs("8.6.0", "Sets how many names of its producers a stream remembers, and for how long.", "O(1)")
        .syntax(
            "key:key#0 [IDMP-DURATION idmp-duration:integer] [IDMP-MAXSIZE idmp-maxsize:integer]",
        ),
    Row::new("xclaim", Group::Stream, pending::xclaim)
        .at_least(6)
        .flags(Flags::WRITE.and(Flags::FAST))
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .docs(
            "5.0.0",
            "Assigns pending entries to a consumer, as if they had been delivered to it.",
            "O(log N) with N being the number of messages in the PEL of the consumer group.",
        )
        .syntax(
            "key:key#0 group:string consumer:string min-idle-time:string ID:string... [IDLE ms:integer] \
             [TIME unix-time-milliseconds:unix-time] [RETRYCOUNT count:integer] [FORCE] [JUSTID] [LASTID \
             lastid:string]",
        )
        .tips(&["nondeterministic_output"]),
    Row::new("xdel", Group::Stream, add::xdel)
        .at_least(3)
        .flags(Flags::WRITE.and(Flags::FAST))
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))])
        .docs(
            "5.0.0",
            "Deletes entries of a stream by their IDs; returns the number deleted.",
            "O(1) for each single item to delete in the stream, regardless of the stream size.",
        )
        .syntax("key:key#0 ID:string..."),
    Row::new("xdelex", Group::Stream, references::xdelex)
        .at_least(5)
        .flags(Flags::WRITE.and(Flags::FAST))
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))])
        .docs(
            "8.2.0",
            "Deletes entries of a stream, with a choice of what becomes of them in consumer groups.",
            "O(1) for each single item to delete in the stream, regardless of the stream size.",
        )
        .syntax("key:key#0 [condition:(KEEPREF|DELREF|ACKED)] IDS ids:{numids:integer id:string...}"),
    Row::container(
        "xgroup",
        Group::Stream,
        &[
            Row::new("create", Group::Stream, group::create)
                .at_least(5)
                .flags(Flags::WRITE.and(Flags::DENYOOM))
                .keys(&[KeySpec::at(2, KeyFlags::RW.and(KeyFlags::INSERT))])
                .docs("5.0.0", "Adds a consumer group to a stream.", "O(1)")
                .syntax(
                    "key:key#0 group:string id-selector:(id:string|new-id=$) [MKSTREAM] [ENTRIESREAD \
                 entries-read:integer]",
                )
                .history(&[("7.0.0", "New option `ENTRIESREAD`.")]),
            Row::new("createconsumer", Group::Stream, group::create_consumer)
                .exactly(5)
                .flags(Flags::WRITE.and(Flags::DENYOOM))
                .keys(&[KeySpec::at(2, KeyFlags::RW.and(KeyFlags::INSERT))])
                .docs("6.2.0", "Adds a consumer to a consumer group.", "O(1)")
                .syntax("key:key#0 group:string consumer:string"),
            Row::new("delconsumer", Group::Stream, group::delete_consumer)
                .exactly(5)
                .flags(Flags::WRITE)
                .keys(&[KeySpec::at(2, KeyFlags::RW.and(KeyFlags::DELETE))])
                .docs("5.0.0", "Deletes a consumer from a consumer group, with its pending entries.", "O(1)")
                .syntax("key:key#0 group:string consumer:string"),
            Row::new("destroy", Group::Stream, group::destroy)
                .exactly(4)
                .flags(Flags::WRITE)
                .keys(&[KeySpec::at(2, KeyFlags::RW.and(KeyFlags::DELETE))])
                .docs(
                    "5.0.0",
                    "Deletes a consumer group.",
                    "O(N) where N is the number of entries in the group's pending entries list (PEL).",
                )
                .syntax("key:key#0 group:string"),
            Row::new("help", Group::Stream, group::help)
                .exactly(2)
                .flags(Flags::LOADING.and(Flags::STALE))
                .docs("5.0.0", "Returns help on the subcommands.", "O(1)"),
            Row::new("setid", Group::Stream, group::set_id)
                .at_least(5)
                .flags(Flags::WRITE)
                .keys(&[KeySpec::at(2, KeyFlags::RW.and(KeyFlags::UPDATE))])
                .docs("5.0.0", "Sets the last ID delivered to a consumer group.", "O(1)")
                .syntax(
                    "key:key#0 group:string id-selector:(id:string|new-id=$) [ENTRIESREAD \
                 entriesread:integer/entries-read]",
                )
                .history(&[("7.0.0", "New option `ENTRIESREAD`.")]),
        ],
    )
    .docs("5.0.0", "Commands on the consumer groups of a stream.", "Depends on subcommand."),
    Row::new("xidmprecord", Group::Stream, idempotent::xidmprecord)
        .exactly(5)
        .flags(Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST))
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .docs("8.8.0", "Records the name that a producer gave an existing entry.", "O(1)")
        .syntax("key:key#0 pid:string iid:string stream-id:string"),
    Row::container(
        "xinfo",
        Group::Stream,
        &[
            Row::new("consumers", Group::Stream, info::consumers)
                .exactly(4)
                .flags(Flags::READONLY)
                .keys(&[KeySpec::at(2, KeyFlags::RO.and(KeyFlags::ACCESS))])
                .docs("5.0.0", "Lists the consumers of a consumer group.", "O(1)")
                .syntax("key:key#0 group:string")
                .history(&[("7.2.0", "New field `inactive`.")])
                .tips(&["nondeterministic_output"]),
            Row::new("groups", Group::Stream, info::groups)
                .exactly(3)
                .flags(Flags::READONLY)
                .keys(&[KeySpec::at(2, KeyFlags::RO.and(KeyFlags::ACCESS))])
                .docs("5.0.0", "Lists the consumer groups of a stream.", "O(1)")
                .syntax("key:key#0")
                .history(&[("7.0.0", "New fields `entries-read` and `lag`.")]),
            Row::new("help", Group::Stream, info::help)
                .exactly(2)
                .flags(Flags::LOADING.and(Flags::STALE))
                .docs("5.0.0", "Returns help on the subcommands.", "O(1)"),
            Row::new("stream", Group::Stream, info::stream)
                .at_least(3)
                .flags(Flags::READONLY)
                .keys(&[KeySpec::at(2, KeyFlags::RO.and(KeyFlags::ACCESS))])
                .docs("5.0.0", "Describes a stream.", "O(1)")
                .syntax("key:key#0 [full-block:{FULL [COUNT count:integer]}]")
                .history(&[
                    ("6.0.0", "New option `FULL`."),
                    (
                        "7.0.0",
                        "New fields `max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, \
                 `entries-read` and `lag`.",
                    ),
                    ("7.2.0", "New field `active-time`; `seen-time` means any attempt."),
                ]),
        ],
    )
    .docs("5.0.0", "Commands that describe streams.", "Depends on subcommand."),
    Row::new("xlen", Group::Stream, range::xlen)
        .exactly(2)
        .flags(Flags::READONLY.and(Flags::FAST))
        .keys(&[KeySpec::at(1, KeyFlags::RO)])
        .docs("5.0.0", "Returns how many entries a stream has.", "O(1)")
        .syntax("key:key#0"),
    Row::new("xnack", Group::Stream, release::xnack)
        .at_least(7)
        .flags(Flags::WRITE.and(Flags::FAST))
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .docs(
            "8.8.0",
            "Gives pending entries of a consumer group back, for any consumer to claim at once.",
            "O(1) for each message ID processed.",
        )
        .syntax(
            "key:key#0 group:string mode:(SILENT|FAIL|FATAL) IDS ids:{numids:integer id:string...} \
             [RETRYCOUNT count:integer] [FORCE]",
        ),
    Row::new("xpending", Group::Stream, pending::xpending)
        .at_least(3)
        .flags(Flags::READONLY)
        .keys(&[KeySpec::at(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .docs(
            "5.0.0",
            "Lists or summarizes the pending entries of a consumer group.",
            "O(N) with N being the number of elements returned, so asking for a small fixed number of \
             entries per call is O(1). O(M), where M is the total number of entries scanned when used \
             with the IDLE filter. When the command returns just the summary and the list of consumers \
             is small, it runs in O(1) time; otherwise, an additional O(N) time for iterating every \
             consumer.",
        )
        .syntax(
            "key:key#0 group:string [filters:{[IDLE min-idle-time:integer@6.2.0] start:string end:string \
             count:integer [consumer:string]}]",
        )
        .history(&[("6.2.0", "New option `IDLE`; ranges may exclude their ends.")])
        .tips(&["nondeterministic_output"]),
    Row::new("xrange", Group::Stream, range::xrange)
        .at_least(4)
        .flags(Flags::READONLY)
        .keys(&[KeySpec::at(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .docs(
            "5.0.0",
            "Returns the entries of a stream in a range of IDs.",
            "O(N) with N being the number of elements being returned. If N is constant (e.g. always \
             asking for the first 10 elements with COUNT), you can consider it O(1).",
        )
        .syntax("key:key#0 start:string end:string [COUNT count:integer]")
        .history(&[("6.2.0", "Ranges may exclude their ends.")]),
    Row::new("xread", Group::Stream, read::xread)
        .at_least(4)
        .flags(Flags::READONLY.and(Flags::BLOCKING).and(Flags::MOVABLE_KEYS))
        .keys(&[KeySpec {
            flags: KeyFlags::RO.and(KeyFlags::ACCESS),
            begin: Begin::Keyword { word: "STREAMS", from: 1 },
            find: Find::Range { last: -1, step: 1, limit: 2 },
            notes: "",
        }])
        .find_keys(read::find_keys)
        .locks_exclusively(read::may_wait)
        .docs("5.0.0", "Returns the entries of streams after given IDs; optionally waits for some.", "")
        .syntax(
            "[COUNT count:integer] [MAXCOUNT maxcount:integer@8.10.0] [MAXSIZE maxsize:integer@8.10.0] \
             [BLOCK milliseconds:integer] STREAMS streams:{key:key#0... ID:string...}",
        )
        .history(&[("8.10.0", "Options `MAXCOUNT` and `MAXSIZE`.")]),
    Row::new("xreadgroup", Group::Stream, read::xreadgroup)
        .at_least(7)
        .flags(Flags::WRITE.and(Flags::BLOCKING).and(Flags::MOVABLE_KEYS))
        .keys(&[KeySpec {
            flags: KeyFlags::RO.and(KeyFlags::ACCESS),
            begin: Begin::Keyword { word: "STREAMS", from: 4 },
            find: Find::Range { last: -1, step: 1, limit: 2 },
            notes: "",
        }])
        .find_keys(read::find_keys)
        // The command changes the groups of the streams that it reads.
        .locks_exclusively(|_| true)
        .docs(
            "5.0.0",
            "Returns new or pending entries of streams to a consumer of a group; optionally waits for some.",
            "For each stream mentioned: O(M) with M being the number of elements returned. If M is \
             constant (e.g. always asking for the first 10 elements with COUNT), you can consider it \
             O(1). On the other side when XREADGROUP blocks, XADD will pay the O(N) time in order to \
             serve the N clients blocked on the stream getting new data. CLAIM looks at all pending \
             entries of the group if one may be idle for long enough.",
        )
        .syntax(
            "GROUP group-block:{group:string consumer:string} [COUNT count:integer] \
             [MAXCOUNT maxcount:integer@8.10.0] [MAXSIZE maxsize:integer@8.10.0] [BLOCK \
             milliseconds:integer] [CLAIM min-idle-time:integer@8.4.0] [NOACK] STREAMS \
             streams:{key:key#0... ID:string...}",
        )
        .history(&[("8.4.0", "Option `CLAIM`."), ("8.10.0", "Options `MAXCOUNT` and `MAXSIZE`.")]),
    Row::new("xrevrange", Group::Stream, range::xrevrange)
        .at_least(4)
        .flags(Flags::READONLY)
        .keys(&[KeySpec::at(1, KeyFlags::RO.and(KeyFlags::ACCESS))])
        .docs(
            "5.0.0",
            "Returns the entries of a stream in a range of IDs, the greatest ID first.",
            "O(N) with N being the number of elements returned. If N is constant (e.g. always asking for \
             the first 10 elements with COUNT), you can consider it O(1).",
        )
        .syntax("key:key#0 end:string start:string [COUNT count:integer]")
        .history(&[("6.2.0", "Ranges may exclude their ends.")]),
    Row::new("xsetid", Group::Stream, add::xsetid)
        .at_least(3)
        .flags(Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST))
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::UPDATE))])
        .docs("5.0.0", "Sets the last ID of a stream, and its counters.", "O(1)")
        .syntax(
            "key:key#0 last-id:string [ENTRIESADDED entries-added:integer@7.0.0] [MAXDELETEDID \
             max-deleted-id:string@7.0.0]",
        )
        .history(&[("7.0.0", "New options `ENTRIESADDED` and `MAXDELETEDID`.")]),
    Row::new("xtrim", Group::Stream, add::xtrim)
        .at_least(4)
        .flags(Flags::WRITE)
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))])
        .docs(
            "5.0.0",
            "Removes entries from the front of a stream.",
            "O(N), with N being the number of evicted entries. Constant times are very small however, \
             since entries are organized in macro nodes containing multiple entries that can be released \
             with a single deallocation.",
        )
        .syntax(
            "key:key#0 trim:{strategy:(MAXLEN|MINID@6.2.0) [operator:(equal==|approximately=~)] \
             threshold:string [LIMIT count:integer@6.2.0] [condition:(KEEPREF|DELREF|ACKED)@8.2.0]}",
        )
        .history(&[
            ("6.2.0", "New options `MINID` and `LIMIT`."),
            ("8.2.0", "Options `KEEPREF`, `DELREF` and `ACKED`."),
        ])
        .tips(&["nondeterministic_output"]),
];

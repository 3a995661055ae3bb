// SPDX-License-Identifier: BSD-3-Clause
//! Client descriptions for CLIENT LIST, CLIENT INFO and ACL LOG: one line of fields, in Redis's
//! order.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::number;

use braid_spec::{Command, CommandTable};

use crate::record::{ClientRecord, UNCOUNTED_REPLY, client_flags, counted_reply_bytes};

/// Flag letters, in display order.
pub const FLAG_LETTERS: &[(u32, u8)] = &[
    (client_flags::REPLICA, b'S'),
    (client_flags::PRIMARY, b'M'),
    (client_flags::MONITOR, b'O'),
    (client_flags::PUBSUB, b'P'),
    (client_flags::MULTI, b'x'),
    (client_flags::BLOCKED, b'b'),
    (client_flags::TRACKING, b't'),
    (client_flags::TRACKING_BROKEN, b'R'),
    (client_flags::TRACKING_BCAST, b'B'),
    (client_flags::DIRTY_WATCH, b'd'),
    (client_flags::CLOSE_AFTER_REPLY, b'c'),
    (client_flags::CLOSE_NOW, b'A'),
    (client_flags::UNIX_SOCKET, b'U'),
    (client_flags::NO_EVICT, b'e'),
    (client_flags::NO_TOUCH, b'T'),
    (client_flags::IMPORT_SOURCE, b'I'),
    (client_flags::READS_REPLICA, b'r'),
    (client_flags::PRIORITY, b'H'),
];

/// Flag letters of a client; `N` if it has none.
pub fn letters(record: &ClientRecord) -> impl Iterator<Item = u8> {
    let dirty = if record.is_watch_dirty() { client_flags::DIRTY_WATCH } else { 0 };
    let flags = record.flags.load(Relaxed) | dirty;
    let set = FLAG_LETTERS.iter().filter(move |(flag, _)| flags & flag != 0).map(|(_, letter)| *letter);
    let none = FLAG_LETTERS.iter().all(|(flag, _)| flags & flag == 0);
    set.chain(none.then_some(b'N'))
}

/// Seconds since a time (ms since the Unix epoch), counted in whole seconds of the clock.
pub fn seconds_since(now_ms: i64, then_ms: i64) -> i64 {
    (now_ms / 1000 - then_ms / 1000).max(0)
}

/// Seconds since a client's last request.
pub fn idle_seconds(now_ms: i64, record: &ClientRecord) -> i64 {
    seconds_since(now_ms, record.last_active_ms.load(Relaxed))
}

/// Appends a client's line. `current` is the running command if this is the calling client, whose
/// record is stale.
pub fn describe(
    out: &mut Vec<u8>,
    commands: &CommandTable,
    record: &ClientRecord,
    now_ms: i64,
    current: Option<(&Command, &[&[u8]])>,
) {
    let own = current.is_some();
    let args = current.map_or(&[][..], |(_, args)| args);
    let texts = record.texts.lock().clone();
    let user = Arc::clone(&record.user.lock());
    let age = seconds_since(now_ms, record.created_ms);
    let idle = if own { 0 } else { idle_seconds(now_ms, record) };
    let bytes = |value: &AtomicUsize| value.load(Relaxed);
    // Writing to a vector cannot fail.
    let _ = write!(
        out,
        "id={} addr={} laddr={} fd={} name=",
        record.id, record.address, record.local_address, record.descriptor
    );
    out.extend_from_slice(&texts.name);
    let _ = write!(out, " age={age} idle={idle} flags=");
    out.extend(letters(record));
    let argument_bytes =
        if own { args.iter().map(|arg| arg.len()).sum() } else { bytes(&record.argument_bytes) };
    let pending = bytes(&record.reply_bytes);
    // As in other servers, the first bytes are shown as `obl`, the rest as `omem`: tools watch
    // `omem` to find slow readers.
    let overflow = counted_reply_bytes(pending);
    let _ = write!(
        out,
        " db={} sub={} psub={} ssub={} multi={} qbuf={} qbuf-free={} argv-mem={argument_bytes} multi-mem={} \
         rbs={} rbp={} obl={} oll={} omem={} tot-mem={} events=r cmd={} user=",
        record.db.load(Relaxed),
        record.channels.load(Relaxed),
        record.patterns.load(Relaxed),
        record.shard_channels.load(Relaxed),
        record.multi_count.load(Relaxed),
        if own { request_bytes(args) } else { bytes(&record.query_bytes) },
        bytes(&record.query_free),
        bytes(&record.multi_bytes),
        bytes(&record.reply_capacity),
        bytes(&record.reply_capacity),
        pending.min(UNCOUNTED_REPLY),
        record.reply_list_len.load(Relaxed).max(usize::from(overflow > 0)),
        overflow,
        bytes(&record.total_bytes),
        last_command(commands, record, current),
    );
    out.extend_from_slice(&user.name);
    let (redirect, protocol) = (record.redirect.load(Relaxed), record.protocol.load(Relaxed));
    let _ = write!(out, " redir={redirect} resp={protocol} lib-name=");
    out.extend_from_slice(&texts.lib_name);
    out.extend_from_slice(b" lib-ver=");
    out.extend_from_slice(&texts.lib_ver);
    let _ = writeln!(
        out,
        " io-thread={} watch={} tot-net-in={} tot-net-out={} tot-cmds={} capa={}",
        record.io_thread.load(Relaxed),
        record.watch_count.load(Relaxed),
        record.net_in.load(Relaxed),
        record.net_out.load(Relaxed),
        record.commands.load(Relaxed),
        if record.knows_redirect.load(Relaxed) { "r" } else { "" }
    );
}

/// Size of a request on the wire. The calling client's request is still in its read buffer.
pub fn request_bytes(args: &[&[u8]]) -> usize {
    let header = |number: usize| 1 + number::digits_len(i64::try_from(number).unwrap_or(i64::MAX)) + 2;
    header(args.len()) + args.iter().map(|arg| header(arg.len()) + arg.len() + 2).sum::<usize>()
}

fn last_command<'c>(
    commands: &'c CommandTable,
    record: &ClientRecord,
    current: Option<(&'c Command, &[&[u8]])>,
) -> &'c str {
    if let Some((command, _)) = current {
        return &command.full_name;
    }
    match record.last_command.load(Relaxed).checked_sub(1) {
        Some(id) => &commands.get(id).full_name,
        None => "NULL",
    }
}
